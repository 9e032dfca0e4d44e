"""`tickwheel bench`: the micro benchmarks, this core beside its peers."""
from __future__ import annotations

import json
from argparse import ArgumentTypeError, Namespace, _SubParsersAction
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from tickwheel.cli.progress import progress
from tickwheel.cli.quantities import whole

SMALLEST, LARGEST = 10, 10_000_000


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "bench",
        help="measure schedule, cancel, churn, expiry and memory beside other timers",
        description="Each cell (operation, peer, size, collector) is measured in fresh processes. The whole "
        "run takes an hour; narrow it down with the options.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--only", metavar="A,B", help="operations (default: all)")
    add("--peers", metavar="A,B", help="contenders (default: all)")
    add("--sizes", type=_sizes, default="1e3,1e5,1e6", metavar="N,N",
        help="pending timers (default 1e3,1e5,1e6)")
    add("--gc", choices=("on", "off", "both"), default="both", help="the garbage collector (default both)")
    add("--rounds", type=whole, default=3, metavar="N", help="fresh processes a cell (default 3)")
    add("--json", action="store_true", help="print one JSON object")
    add("--report", metavar="FILE", help="write an HTML report with plots")
    parser.set_defaults(run=run)


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
        raise ArgumentTypeError(f"numbers such as 1e3,1e5, got {text!r}") from None
    for size in sizes:
        if not (SMALLEST <= size <= LARGEST and size == int(size)):
            raise ArgumentTypeError(f"whole numbers from {SMALLEST} to {LARGEST:,}, got {text!r}")
    return [int(size) for size in sizes]
