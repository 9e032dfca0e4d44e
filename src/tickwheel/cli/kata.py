"""`tickwheel kata`: the stream kata, the article's designs and ours in turn."""
from __future__ import annotations

import json
from argparse import Namespace, _SubParsersAction
from contextlib import AbstractContextManager, ExitStack
from threading import Event
from time import monotonic
from typing import Any

from tickwheel.cli.bench_quantities import chosen, count
from tickwheel.cli.output_options import add_output_options
from tickwheel.cli.progress import Show, progress
from tickwheel.cli.quantities import duration_ns, share, whole
from tickwheel.cli.wording import speaking_of
from tickwheel.meanwhile import meanwhile

SHOW_EVERY_S = 0.25
# Not defaults of the parser: with --spark they must not be given.
CONSUME_S, THREADS = 0.01, 12


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "kata",
        help="the stream kata: events in order for each client, each once, in real time",
        description="A stream pushes events of many clients, some of them twice; the work takes --consume. "
        "Each design consumes it in turn, in a fresh process, for --for in real time.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--rate", type=count, default="1000", metavar="N", help="deliveries a second (default %(default)s)")
    add("--consume", type=duration_ns, metavar="DURATION",
        help="the work for an event, on average (default 10ms)")
    add("--threads", type=count, metavar="N",
        help="of our design; the article's have their own (default 12)")
    add("--duplicates", type=share, default=0.05, metavar="SHARE",
        help="of the deliveries, that came before; at least 0, below 1 (default %(default)s)")
    add("--for", type=duration_ns, default="30s", dest="duration", metavar="DURATION",
        help="how long the stream lasts (default %(default)s)")
    add("--clients", type=count, default=300, metavar="N",
        help="whose events these are (default %(default)s)")
    add("--seed", type=whole, default=1, metavar="N",
        help="another seed, another stream (default %(default)s)")
    add("--only", metavar="A,B", help="which designs (default: all; a wrong name lists them)")
    add("--each-second", action="store_true",
        help="print the metrics of each second (default: the first two and the last)")
    add_output_options(parser, "text")
    add("--spark", action="store_true",
        help="instead of the designs, in virtual time and without work: compare the outcome of one process "
        "with Spark's (default: the designs)")
    add("--master", metavar="MASTER", help="where Spark runs, on this machine (default local[*])")
    parser.set_defaults(run=run)


@speaking_of(
    rate="--rate", duration_s="--for", duplicates="--duplicates", clients="--clients", seed="--seed",
    consume="--consume", master="--master",
)
def run(args: Namespace) -> int:
    if args.spark:
        from tickwheel.cli.kata_spark import run_on_spark

        return run_on_spark(args)
    if args.master is not None:
        raise ValueError("--master must be given with --spark alone")
    return _run_designs(args)


def _run_designs(args: Namespace) -> int:
    from tickwheel.bench.kata.cell import measure
    from tickwheel.bench.kata.designs import DESIGNS
    from tickwheel.bench.kata.results import Row
    from tickwheel.bench.kata.run import Setting
    from tickwheel.cli.kata_text import as_json, as_text, heading, moments
    from tickwheel.output import whole_text
    from tickwheel.recipes.pipelinemetrics import PipelineMetrics

    names = chosen("--only", args.only, tuple(DESIGNS))
    rows = [
        Row(Setting(
            name,
            rate=args.rate,
            consume=CONSUME_S if args.consume is None else args.consume / 1e9,
            threads=THREADS if args.threads is None else args.threads,
            duplicates=args.duplicates,
            duration=args.duration / 1e9,
            clients=args.clients,
            seed=args.seed,
        ))
        for name in names
    ]
    with ExitStack() as files:
        # Bad input, a missing extra and a place that cannot be written are known before the long work.
        PipelineMetrics()
        top = heading(rows[0].setting, names)
        if args.report:
            from tickwheel.cli.kata_page import KataPage

            page = KataPage(rows)
            file = files.enter_context(whole_text(args.report))
        if not args.json:
            print(top, flush=True)
        for row in rows:
            with progress(row.setting.design) as show, _by_the_clock(show, row.setting.duration):
                row.measure(measure)
            if not args.json:
                print(moments(row, args.each_second), flush=True)
        if args.report:
            file.write(page.html())
    print(json.dumps(as_json(rows)) if args.json else as_text(rows))
    return 0


def _by_the_clock(show: Show, longest_s: float) -> AbstractContextManager[None]:
    """Show how much of the time is over, while the block waits for what takes so long."""
    start = monotonic()

    def shows(over: Event) -> None:
        while not over.wait(SHOW_EVERY_S):
            show(min(1.0, (monotonic() - start) / longest_s))

    return meanwhile(shows, "progress")
