"""`tickwheel bench`: the micro benchmarks, this core beside its peers; and the longer ones by their names."""
from __future__ import annotations

from argparse import (
    Action,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
    _SubParsersAction,
)
from typing import Any, NoReturn

from tickwheel.cli import (
    bench_broker,
    bench_configuration,
    bench_dropins,
    bench_purgatory,
    bench_recipes,
    bench_spark,
)
from tickwheel.cli.bench_quantities import chosen
from tickwheel.cli.bench_run import Page, run_rows
from tickwheel.cli.output_options import add_output_options
from tickwheel.cli.quantities import whole

SMALLEST, LARGEST = 10, 10_000_000


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "bench",
        help="measure schedule, cancel, churn, expiry and memory beside other timers",
        description="Each cell (operation, peer, size, collector) is measured in fresh processes.\n"
        "The whole run takes an hour; narrow it down with the options. Longer benchmarks have names.",
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
    add_output_options(parser)
    parser.set_defaults(run=run)
    longer = parser.add_subparsers(metavar="BENCHMARK", title="longer benchmarks", action=FirstOfAll)
    bench_purgatory.add_parser(longer)
    bench_configuration.add_parser(longer)
    bench_dropins.add_parser(longer)
    bench_spark.add_parser(longer)
    bench_recipes.add_parser(longer)
    bench_broker.add_parser(longer)


class FirstOfAll(_SubParsersAction):      # type: ignore[type-arg]     # generic in the stubs alone
    """A benchmark with options of its own: those of `bench` would be lost if they stood before its name."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, values: Any, *rest: Any) -> None:
        for action in parser._actions:
            if getattr(namespace, action.dest, action.default) != action.default:
                parser.error(f"{action.option_strings[0]} must not stand before {values[0]}")
        super().__call__(parser, namespace, values, *rest)


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
    from tickwheel.bench.runner import PEER_NAMES, plan
    from tickwheel.cli.bench_text import as_json, as_text, heading

    if args.rounds < 1:
        raise ValueError(f"--rounds must be >= 1, got {args.rounds}")
    rows = plan(
        chosen("--only", args.only, OPERATIONS),
        chosen("--peers", args.peers, PEER_NAMES),
        args.sizes,
        ("on", "off") if args.gc == "both" else (args.gc,),
    )

    def page() -> Page:
        from tickwheel.cli.bench_page import BenchPage

        return BenchPage(rows)

    return run_rows(
        args, rows, args.rounds, page=page, heading=lambda: heading(rows),
        as_json=lambda: as_json(rows, args.rounds), as_text=lambda: as_text(rows),
    )


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
