"""`tickwheel bench broker`: produces and long polls at a rate, and what waits in the purgatories."""
from __future__ import annotations

from argparse import ArgumentTypeError, Namespace, _SubParsersAction
from collections.abc import Callable
from typing import Any

from tickwheel.cli.bench_quantities import count, listed
from tickwheel.cli.bench_run import Page, run_rows
from tickwheel.cli.output_options import add_output_options
from tickwheel.cli.quantities import duration_ns, whole

FASTEST = 20_000        # produces a second
SHORTEST_S, LONGEST_S = 0.1, 60.0
MOST_PARTITIONS, MOST_REPLICAS = 1000, 10      # a file and a folder for each of each


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "broker",
        help="produces and long polls of the broker at a rate, and its purgatories meanwhile",
        description="Each rate has a broker and a load of its own, in fresh processes. The whole run takes "
        "a minute or more.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--rates", type=listed(_at_most(FASTEST)), default="250,500,1000,2000,4000", metavar="R,R",
        help="produces a second, acks=all (default %(default)s)")
    add("--seconds", type=_seconds, default="5s", metavar="TIME", help="of load (default %(default)s)")
    add("--producers", type=count, default=32, metavar="N",
        help="connections that produce (default %(default)s)")
    add("--consumers", type=_none_or_more, default=3, metavar="N",
        help="connections that poll, in turn over the partitions (default %(default)s)")
    add("--waiting", type=_none_or_more, default=200, metavar="N",
        help="connections that poll a topic to which nothing comes (default %(default)s)")
    add("--partitions", type=_at_most(MOST_PARTITIONS), default=3, metavar="N",
        help="to which records come, in turn (default %(default)s)")
    add("--replicas", type=_at_most(MOST_REPLICAS), default=3, metavar="N",
        help="copies of each partition (default %(default)s)")
    add_output_options(parser, "a table")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    from tickwheel.bench.broker.plan import plan
    from tickwheel.bench.broker.sample import Setting
    from tickwheel.cli.bench_broker_text import as_json, as_text, heading

    rows = plan(args.rates, Setting(
        seconds=args.seconds, producers=args.producers, consumers=args.consumers, waiting=args.waiting,
        partitions=args.partitions, replicas=args.replicas,
    ))

    def page() -> Page:
        from tickwheel.cli.bench_broker_page import BrokerPage

        return BrokerPage(rows)

    return run_rows(
        args, rows, 1, page=page, heading=lambda: heading(rows),
        as_json=lambda: as_json(rows), as_text=lambda: as_text(rows),
    )


def _at_most(most: int) -> Callable[[str], int]:
    def several(text: str) -> int:
        number = count(text)
        if number > most:
            raise ArgumentTypeError(f"must be <= {most:,}, got {text!r}")
        return number

    return several


def _seconds(text: str) -> float:
    """`5s`: so long that something is seen, and so short that all latencies fit into memory."""
    seconds = duration_ns(text) / 1e9
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise ArgumentTypeError(f"must be between {SHORTEST_S * 1e3:g} ms and {LONGEST_S:g} s, got {text!r}")
    return seconds


def _none_or_more(text: str) -> int:
    number = whole(text)
    if number < 0:
        raise ArgumentTypeError(f"must be >= 0, got {text!r}")
    return number
