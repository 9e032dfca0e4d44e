"""`tickwheel replay`: a trace through the wheel in virtual time."""
from __future__ import annotations

import json
from argparse import Namespace, _SubParsersAction
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tickwheel.cli.places import check_results
from tickwheel.cli.progress import Show, progress
from tickwheel.cli.quantities import duration_ns, file_ending_in, whole
from tickwheel.cli.trace_options import add_trace_options
from tickwheel.cli.wording import speaking_of
from tickwheel.units import from_ns

if TYPE_CHECKING:
    from tickwheel.replay import ReplayResult
    from tickwheel.replay.outcomes import Outcomes
    from tickwheel.trace import Chunk, Trace


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "replay",
        help="replay a trace of requests against a timeout",
        description="In virtual time, schedule each request of TRACE at its arrival, cancel it at its "
        "completion, let it expire at its deadline rounded up to a tick. Without options it replays what "
        "`tickwheel generate` writes.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("trace", metavar="TRACE",
        help="CSV or JSON lines (.jsonl), also .gz, or .parquet; or a folder of such files")
    add_trace_options(parser)
    add("--tick", type=duration_ns, default="1ms", metavar="DURATION",
        help="the unit of the wheel's time, such as 1ms (default %(default)s)")
    add("--wheel-size", type=whole, default=512, metavar="N", help="buckets a wheel (default %(default)s)")
    add("--purge-interval", type=whole, metavar="N",
        help="ended requests that watcher lists may hold before a purge (default: they leave at once)")
    add("--id", metavar="COL", help="names the requests in --outcomes (default: their row numbers)")
    add("--core", choices=("cython", "python"), help="which core replays it (default: the one in use)")
    add("--json", action="store_true", help="print one JSON object (default: text)")
    add("--outcomes", type=file_ending_in(".csv", ".csv.gz", ".parquet"), metavar="FILE",
        help="write each request's outcome and fire time to this .csv, .csv.gz or .parquet (default: none)")
    add("--report", type=file_ending_in(".html", ".htm"), metavar="FILE",
        help="write a page with plots to this .html (default: none)")
    parser.set_defaults(run=run)


@speaking_of(
    wheel_size="--wheel-size", purge_interval="--purge-interval", core="--core", unit="--unit", id="--id"
)
def run(args: Namespace) -> int:
    from tickwheel.cli.replay_page import ReplayPage
    from tickwheel.output import whole_text
    from tickwheel.replay import latest_arrival_ns, replay
    from tickwheel.replay.outcomes import outcome_file
    from tickwheel.trace import Trace

    check_results([args.trace], outcomes=args.outcomes, report=args.report)
    timeout_ns = args.timeout if args.timeout_column is None else None
    trace = Trace(
        args.trace,
        arrival=args.arrival,
        completion=args.completion,
        timeout=args.timeout_column,
        unit=args.unit,
        where=args.where,
        id=args.id,
        latest_ns=latest_arrival_ns(args.tick, timeout_ns or 0),
    )
    takers: list[Callable[[Outcomes], None]] = []
    with ExitStack() as files:
        # Opened first: a place that cannot be written is known before the long work.
        if args.outcomes:
            takers.append(files.enter_context(outcome_file(args.outcomes, id=args.id, unit=trace.unit)))
        if args.report:
            page = ReplayPage(args.trace)
            takers.append(page.add)
            file = files.enter_context(whole_text(args.report))
        with progress("replaying") as show:
            result = replay(
                _shown(trace, show),
                tick_ns=args.tick,
                timeout_ns=timeout_ns,
                wheel_size=args.wheel_size,
                purge_interval=args.purge_interval,
                core=args.core,
                on_outcomes=_to_all(takers),
            )
        if args.report:
            file.write(page.html(result))
    print(_json(result) if args.json else _text(result))
    return 0


def _shown(trace: Trace, show: Show) -> Iterator[Chunk]:
    for chunk in trace:
        yield chunk
        show(trace.fraction)


def _to_all(takers: list[Callable[[Outcomes], None]]) -> Callable[[Outcomes], None] | None:
    def take(outcomes: Outcomes) -> None:
        for taker in takers:
            taker(outcomes)

    return take if takers else None


def _json(result: ReplayResult) -> str:
    facts = asdict(result)
    del facts["lateness_counts"]
    return json.dumps(facts)


def _text(result: ReplayResult) -> str:
    p50, p99, most = (
        from_ns(ns, "ms") for ns in (result.lateness_p50_ns, result.lateness_p99_ns, result.lateness_max_ns)
    )
    purges = f"{result.purges:,}, of {result.purged:,} requests; peak watched {result.peak_watched:,}"
    facts = {
        "core": result.implementation,
        "requests": f"{result.requests:,}",
        "completed": f"{result.completed:,}",
        "expired": f"{result.expired:,}",
        "peak pending": f"{result.peak_pending:,}",
        "bucket wake-ups": f"{result.wakeups:,}",
        "cascades": f"{result.cascades:,}",
        "purges": "-" if result.purge_interval is None else purges,
        "lateness": f"p50 {p50} ms, p99 {p99} ms, max {most} ms" if result.expired else "-",
        "events": f"{result.events:,} in {result.seconds:.3f} s, {result.events_per_second:,.0f} per second",
    }
    return "\n".join(f"{name:<17}{value}" for name, value in facts.items())
