"""`tickwheel bench`: the micro benchmarks, this core beside its peers."""
from __future__ import annotations

import json
from argparse import (
    Action,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
    _SubParsersAction,
)
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NoReturn

from tickwheel.cli.progress import progress
from tickwheel.cli.quantities import file_ending_in, whole

SMALLEST, LARGEST = 10, 10_000_000


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "bench",
        help="measure schedule, cancel, churn, expiry and memory beside other timers",
        description="Each cell (operation, peer, size, collector) is measured in fresh processes.\n"
        "The whole run takes an hour; narrow it down with the options.",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    add = parser.add_argument
    add("-h", "--help", action=ShowHelp, nargs=0, help="show this help message and exit")
    add("--only", metavar="A,B", help="operations among those below (default: all)")
    add("--peers", metavar="A,B", help="peers among those below (default: all)")
    add("--sizes", type=_sizes, default="1e3,1e5,1e6", metavar="N,N",
        help="pending timers (default %(default)s)")
    add("--gc", choices=("on", "off", "both"), default="both",
        help="the garbage collector (default %(default)s)")
    add("--rounds", type=whole, default=3, metavar="N", help="fresh processes a cell (default %(default)s)")
    add("--json", action="store_true", help="print one JSON object (default: tables)")
    add("--report", type=file_ending_in(".html", ".htm"), metavar="FILE",
        help="write a page with plots to this .html (default: none)")
    parser.set_defaults(run=run)


class ShowHelp(Action):
    """Prints it, with what there is to choose from, and ends. Looked up only when it is asked for."""

    def __call__(self, parser: ArgumentParser, *_: object) -> NoReturn:
        from tickwheel.bench.peers import OPERATIONS
        from tickwheel.bench.runner import PEER_NAMES
        from tickwheel.cli.bench_text import contenders

        parser.epilog = "\n".join((
            "operations:", f"  {', '.join(OPERATIONS)}", "",
            "peers:", *(f"  {line}" for line in contenders(PEER_NAMES)),
        ))
        parser.print_help()
        raise SystemExit(0)


def run(args: Namespace) -> int:
    from tickwheel.bench.peers import OPERATIONS
    from tickwheel.bench.runner import PEER_NAMES, measure, plan
    from tickwheel.cli.bench_text import as_json, as_text, heading
    from tickwheel.output import whole_text

    if args.rounds < 1:
        raise ValueError(f"--rounds must be >= 1, got {args.rounds}")
    rows = plan(
        _chosen("--only", args.only, OPERATIONS),
        _chosen("--peers", args.peers, PEER_NAMES),
        args.sizes,
        ("on", "off") if args.gc == "both" else (args.gc,),
    )
    with ExitStack() as files:
        # Opened first: a place that cannot be written is known before the long work.
        if args.report:
            from tickwheel.cli.bench_page import BenchPage

            page = BenchPage(rows)
            file = files.enter_context(whole_text(args.report))
        if not args.json:
            print(heading(rows), flush=True)
        with progress("measuring") as show:
            measure(rows, args.rounds, show)
        if args.report:
            file.write(page.html())
    print(json.dumps(as_json(rows, args.rounds)) if args.json else as_text(rows))
    return 0


def _chosen(option: str, text: str | None, known: Sequence[str]) -> Sequence[str]:
    """Those that are named, in the order of `known`; all, if none is."""
    if text is None:
        return known
    names = text.split(",")
    for name in names:
        if name not in known:
            raise ValueError(f"{option} must be among {', '.join(known)}, got {name!r}")
    return [name for name in known if name in names]


def _sizes(text: str) -> list[int]:
    """`1e3,1e5`: whole numbers, ascending, each once."""
    try:
        sizes = sorted({float(part) for part in text.split(",")})
    except ValueError:
        raise ArgumentTypeError(f"must be numbers such as 1e3,1e5, got {text!r}") from None
    for size in sizes:
        if not (SMALLEST <= size <= LARGEST and size == int(size)):
            raise ArgumentTypeError(f"must be whole numbers from {SMALLEST} to {LARGEST:,}, got {text!r}")
    return [int(size) for size in sizes]
