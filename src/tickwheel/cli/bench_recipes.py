"""`tickwheel bench recipes`: idle clients, deduplication, order within a key, beside other ways."""
from __future__ import annotations

from argparse import ArgumentTypeError, Namespace, _SubParsersAction
from typing import Any

from tickwheel.cli.bench_quantities import chosen, count
from tickwheel.cli.bench_run import Page, run_rows
from tickwheel.cli.output_options import add_output_options
from tickwheel.cli.quantities import duration_ns

SHORTEST_S = 0.1


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "recipes",
        help="idle clients, deduplication and order within a key, beside other designs",
        description="Each cell (story, contender, GC) is measured in fresh processes. The whole run takes "
        "six minutes; narrow it down with the options.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--only", metavar="A,B", help="which stories (default: all; a wrong name lists them)")
    add("--clients", type=count, default="1e5", metavar="N", help="tracked (default %(default)s)")
    add("--rate", type=count, default="3k", metavar="N",
        help="messages a second of all clients, in `idle` (default %(default)s)")
    add("--busy-rate", type=count, default="300k", metavar="N", help="in `idle-busy` (default %(default)s)")
    add("--timeout", type=_seconds, default="5s", metavar="TIME",
        help="of a client; longer, where the rate leaves a client silent for so long (default %(default)s)")
    add("--keys", type=count, default="3e6", metavar="N", help="in `dedup` (default %(default)s)")
    add("--calls", type=count, default="50k", metavar="N", help="in `submit` (default %(default)s)")
    add("--hot", type=_seconds, default="6s", metavar="TIME",
        help="how long there is a hot key, in `hot-key` (default %(default)s)")
    add("--gc", choices=("on", "off", "both"), default="both",
        help="the garbage collector (default %(default)s)")
    add("--rounds", type=count, default=1, metavar="N", help="fresh processes a cell (default %(default)s)")
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    from tickwheel.bench.recipes.plan import plan
    from tickwheel.bench.recipes.sample import Sizes
    from tickwheel.bench.recipes.stories import STORIES
    from tickwheel.cli.bench_recipes_text import as_json, as_text, heading

    rows = plan(
        chosen("--only", args.only, tuple(STORIES)),
        Sizes(
            clients=args.clients, rate=args.rate, busy_rate=args.busy_rate, timeout_s=args.timeout,
            keys=args.keys, calls=args.calls, hot_s=args.hot,
        ),
        ("off", "on") if args.gc == "both" else (args.gc,),
    )

    def page() -> Page:
        from tickwheel.cli.bench_recipes_page import RecipesPage

        return RecipesPage(rows)

    return run_rows(
        args, rows, args.rounds, page=page, heading=lambda: heading(rows),
        as_json=lambda: as_json(rows, args.rounds), as_text=lambda: as_text(rows),
    )


def _seconds(text: str) -> float:
    """`5s`: long enough that something is seen meanwhile."""
    seconds = duration_ns(text) / 1e9
    if seconds < SHORTEST_S:
        raise ArgumentTypeError(f"must be >= {SHORTEST_S * 1e3:g} ms, got {text!r}")
    return seconds
