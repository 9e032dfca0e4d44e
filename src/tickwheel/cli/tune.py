"""`tickwheel tune`: which tick and wheel size a traffic wants, by playing it against many on Spark."""
from __future__ import annotations

import json
import os
from argparse import Namespace, _SubParsersAction
from contextlib import ExitStack
from itertools import product
from typing import TYPE_CHECKING, Any

from tickwheel.cli.bench_quantities import listed
from tickwheel.cli.output_options import add_output_options
from tickwheel.cli.places import check_results
from tickwheel.cli.progress import progress
from tickwheel.cli.quantities import duration_ns, whole
from tickwheel.cli.trace_options import add_trace_options
from tickwheel.cli.wording import speaking_of

if TYPE_CHECKING:
    from tickwheel.spark.tuning import Tuning


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "tune",
        help="find the tick and wheel size that a traffic wants, on Spark",
        description="Replay each TRACE, as `tickwheel replay` does, against every combination of tick, wheel "
        "size and purge interval, in one pass on Spark. Each is a shard with a wheel of its own; a folder "
        "that holds folders shard=K stands for those. Prints the configurations, best first.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("traces", nargs="+", metavar="TRACE",
        help="CSV or JSON lines (.jsonl), also .gz, or .parquet; or a folder of such files")
    add_trace_options(parser)
    add("--tick", type=listed(duration_ns), default="1ms,10ms,100ms", metavar="D,D",
        help="to try (default %(default)s)")
    add("--wheel-size", type=listed(whole), default="20,64,256,512", metavar="N,N",
        help="to try (default %(default)s)")
    add("--purge-interval", type=listed(_purge_interval), default="none", metavar="N,N",
        help="to try: ended requests that watcher lists may hold before a purge (default %(default)s: they "
             "leave at once)")
    add("--max-lateness", type=duration_ns, default="10ms", metavar="DURATION",
        help="that 99 in 100 of the requests that expire may have (default %(default)s)")
    add_output_options(parser, "a table")
    add("--master", default="local[*]", metavar="URL", help="of Spark (default %(default)s)")
    parser.set_defaults(run=run)


@speaking_of(
    master="--master", unit="--unit", wheel_size="--wheel-size", purge_interval="--purge-interval",
    configs="--tick, --wheel-size and --purge-interval", paths="TRACE",
)
def run(args: Namespace) -> int:
    from tickwheel.cli.tune_text import as_json, as_text
    from tickwheel.output import whole_text

    check_results(args.traces, report=args.report)
    for trace in args.traces:
        os.stat(trace)      # before Spark starts
    with ExitStack() as files:
        # Opened first: a place that cannot be written is known before the long work.
        if args.report:
            from tickwheel.cli.tune_page import TunePage

            page = TunePage(args)
            file = files.enter_context(whole_text(args.report))
        tuning = _tuned(args)
        if args.report:
            file.write(page.html(tuning))
    print(json.dumps(as_json(args, tuning)) if args.json else as_text(args, tuning))
    return 0


def _tuned(args: Namespace) -> Tuning:
    from tickwheel.spark.progress import job_progress
    from tickwheel.spark.session import local_session

    with local_session(args.master, "tune") as spark:
        # Only now: they need the pyspark that the session has asked for.
        from tickwheel.spark import Config
        from tickwheel.spark.tuning import tune

        with progress("replaying") as show, job_progress(spark, show):
            return tune(
                spark,
                args.traces,
                [
                    Config(tick / 1e6, size, interval)
                    for tick, size, interval in product(args.tick, args.wheel_size, args.purge_interval)
                ],
                args.max_lateness / 1e6,
                arrival=args.arrival,
                completion=args.completion,
                timeout=args.timeout / 1e6 if args.timeout_column is None else args.timeout_column,
                unit=args.unit,
                where=args.where,
            )


def _purge_interval(text: str) -> int | None:
    return None if text == "none" else whole(text)
