"""`tickwheel generate`: a trace of the proposal's shape, the same for the same seed."""
from __future__ import annotations

from argparse import Namespace, _SubParsersAction
from collections.abc import Iterator
from typing import Any

from tickwheel.cli.progress import Show, progress
from tickwheel.cli.quantities import duration_ns, file_ending_in, rate_per_s, share, whole
from tickwheel.cli.wording import speaking_of

SHOW_EVERY = 10_000     # requests


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "generate",
        help="write a seeded trace of requests",
        description="Write a trace for `tickwheel replay`: Poisson arrivals, log-normal latencies.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("out", metavar="OUT", type=file_ending_in(".csv", ".csv.gz"),
        help="the file to write: CSV, gzip if it ends in .gz")
    add("--requests", type=whole, default=100_000, metavar="N", help="how many (default %(default)s)")
    add("--seed", type=whole, default=1, metavar="N",
        help="another seed, another trace (default %(default)s)")
    add("--rate", type=rate_per_s, default="1000/s", metavar="RATE",
        help="of arrivals, such as 1000/s (default %(default)s)")
    add("--p50", type=duration_ns, default="20ms", metavar="DURATION",
        help="the median latency, such as 20ms (default %(default)s)")
    add("--p75", type=duration_ns, default="60ms", metavar="DURATION",
        help="its upper quartile, not below --p50 (default %(default)s)")
    add("--never", type=share, default=0, metavar="SHARE",
        help="share of the requests that are never completed, 0 to 1 (default %(default)s)")
    parser.set_defaults(run=run)


@speaking_of(
    requests="--requests", seed="--seed", rate_per_s="--rate", p50_ms="--p50", p75_ms="--p75", never="--never"
)
def run(args: Namespace) -> int:
    from tickwheel.workload import generate, write_trace

    requests = generate(
        args.requests,
        seed=args.seed,
        rate_per_s=args.rate,
        p50_ms=args.p50 / 1e6,
        p75_ms=args.p75 / 1e6,
        never=args.never,
    )
    with progress("generating") as show:
        write_trace(args.out, _shown(requests, args.requests, show))
    return 0


def _shown(requests: Iterator[tuple[int, int]], total: int, show: Show) -> Iterator[tuple[int, int]]:
    for number, request in enumerate(requests):
        if number % SHOW_EVERY == 0:
            show(number / total)
        yield request
