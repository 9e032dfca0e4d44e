"""`tickwheel bench configuration`: how the timer bears a bad tick and a bad wheel size."""
from __future__ import annotations

from argparse import Namespace, _SubParsersAction
from itertools import product
from typing import Any

from tickwheel.cli.bench_quantities import chosen, count, listed, wheel_size
from tickwheel.cli.bench_run import Page, run_rows
from tickwheel.cli.output_options import add_output_options
from tickwheel.cli.quantities import duration_ns


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "configuration",
        help="tick x wheel size over distributions of delays: speed, cascades, wake-ups",
        description="In virtual time, with the reaper's own loop. Each cell is measured in a fresh process, "
        "and once more with a reconfiguration in the middle, which must lose and repeat nothing.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--delays", metavar="A,B",
        help="first, three, beyond (uniform within the first wheel, over three, beyond the third), low, high "
             "(log-normal, as the proposal's latencies) (default: all)")
    add("--ticks", type=listed(duration_ns), default="0.1ms,1ms,10ms,100ms", metavar="D,D",
        help="(default %(default)s)")
    add("--wheel-sizes", type=listed(wheel_size), default="2,20,512,4096", metavar="N,N",
        help="buckets a wheel (default %(default)s)")
    add("--tasks", type=count, default="100k", metavar="N", help="of a cell (default %(default)s)")
    add("--live", type=count, default="200k", metavar="N",
        help="requests of a purgatory that is reconfigured all the time, in real time (default %(default)s)")
    add("--rounds", type=count, default=1, metavar="N", help="fresh processes a cell (default %(default)s)")
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    from tickwheel.bench.configuration import DELAYS, plan
    from tickwheel.bench.live import LiveCell, LiveRow
    from tickwheel.cli.bench_configuration_text import as_json, as_text, heading

    ticks = [ns / 1e9 for ns in args.ticks]
    rows = plan(chosen("--delays", args.delays, tuple(DELAYS)), ticks, args.wheel_sizes, args.tasks)
    live = LiveRow(LiveCell(list(product(ticks, args.wheel_sizes)), args.live))

    def page() -> Page:
        from tickwheel.cli.bench_configuration_page import ConfigurationPage

        return ConfigurationPage(rows, live)

    return run_rows(
        args, [*rows, live], args.rounds, page=page, heading=heading,
        as_json=lambda: as_json(rows, live), as_text=lambda: as_text(rows, live),
    )
