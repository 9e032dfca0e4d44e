"""`tickwheel bench dropins`: what changing one import gains, each drop-in beside what it replaces."""
from __future__ import annotations

from argparse import Namespace, _SubParsersAction
from typing import Any

from tickwheel.cli.bench_quantities import chosen, count
from tickwheel.cli.bench_run import Page, run_rows
from tickwheel.cli.output_options import add_output_options


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "dropins",
        help="asyncio's loop, threading.Timer and sched.scheduler beside their drop-ins",
        description="Each cell (story, contender, GC) is measured in fresh processes. The whole run takes a "
        "quarter of an hour; narrow it down with the options.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--only", metavar="A,B", help="which stories (default: all; a wrong name lists them)")
    add("--pending", type=count, default="1e5", metavar="N", help="timers (default %(default)s)")
    add("--connections", type=count, default="50k", metavar="N",
        help="with an idle timer each (default %(default)s)")
    add("--requests", type=count, default="20k", metavar="N", help="to each server (default %(default)s)")
    add("--gc", choices=("on", "off", "both"), default="both",
        help="the garbage collector (default %(default)s)")
    add("--rounds", type=count, default=3, metavar="N", help="fresh processes a cell (default %(default)s)")
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    from tickwheel.bench.dropins.plan import plan
    from tickwheel.bench.dropins.stories import CONNECTIONS, PENDING, REQUESTS, STORIES
    from tickwheel.cli.bench_dropins_text import as_json, as_text, heading

    rows = plan(
        chosen("--only", args.only, tuple(STORIES)),
        {PENDING: args.pending, CONNECTIONS: args.connections, REQUESTS: args.requests},
        ("off", "on") if args.gc == "both" else (args.gc,),
    )

    def page() -> Page:
        from tickwheel.cli.bench_dropins_page import DropinsPage

        return DropinsPage(rows)

    return run_rows(
        args, rows, args.rounds, page=page, heading=lambda: heading(rows),
        as_json=lambda: as_json(rows, args.rounds), as_text=lambda: as_text(rows),
    )
