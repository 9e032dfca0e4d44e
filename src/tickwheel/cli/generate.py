"""`tickwheel generate`: a trace of the proposal's shape, the same for the same seed."""
from __future__ import annotations

from argparse import Namespace, _SubParsersAction
from collections.abc import Iterator
from typing import Any

from tickwheel.cli.progress import Show, progress
from tickwheel.cli.quantities import duration_ns, rate_per_s, share, whole

SHOW_EVERY = 10_000     # requests


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "generate",
        help="write a seeded trace of requests",
        description="Write a trace for `tickwheel replay`: Poisson arrivals, log-normal latencies.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("out", metavar="OUT", help="the file to write: CSV, gzip if it ends in .gz")
    add("--requests", type=whole, default=100_000, metavar="N", help="how many (default 100000)")
    add("--seed", type=whole, default=1, metavar="N", help="another seed, another trace (default 1)")
    add("--rate", type=rate_per_s, default="1000/s", help="of arrivals (default 1000/s)")
    add("--p50", type=duration_ns, default="20ms", help="the median latency (default 20ms)")
    add("--p75", type=duration_ns, default="60ms", help="its upper quartile (default 60ms)")
    add("--never", type=share, default=0.0, metavar="SHARE",
        help="share of the requests that are never completed (default 0)")
    parser.set_defaults(run=run)


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
