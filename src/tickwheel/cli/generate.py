"""`tickwheel generate`: a trace of the proposal's shape, the same for the same seed."""
from __future__ import annotations

import json
from argparse import ArgumentTypeError, Namespace, _SubParsersAction
from collections.abc import Iterator
from typing import Any

from tickwheel.cli.progress import Show, progress
from tickwheel.cli.quantities import duration_ns, file_ending_in, rate_per_s, share, whole
from tickwheel.cli.wording import speaking_of
from tickwheel.output import whole_folder
from tickwheel.workload import Workload, generate, write_trace

SHOW_EVERY = 10_000     # requests
ONLY_SPARK = ("master", "timeout", "keys", "keys_per_request", "shards")


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "generate",
        help="write a seeded trace of requests",
        description="Write a trace for `tickwheel replay`: Poisson arrivals, log-normal latencies.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("out", metavar="OUT",
        help="the file to write: CSV, gzip if it ends in .gz; with --spark, the folder, not there yet")
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
    add("--spark", action="store_true", help="write the same requests on Spark, as Parquet (default: CSV)")
    add("--json", action="store_true", help="print one JSON object about it (default: nothing)")
    group = parser.add_argument_group("with --spark")
    add = group.add_argument
    add("--master", metavar="MASTER",
        help="where Spark runs; OUT must be on storage that all its machines share (default local[*])")
    add("--timeout", type=duration_ns, metavar="DURATION", help="of each request (default 200ms)")
    add("--keys", type=whole, metavar="N", help="how many there are to watch (default 100000)")
    add("--keys-per-request", type=whole, metavar="N", help="distinct keys of each request (default 3)")
    add("--shards", type=whole, metavar="N",
        help="a folder shard=K each if there is more than one (default 1)")
    parser.set_defaults(run=run)


@speaking_of(
    requests="--requests", seed="--seed", rate_per_s="--rate", p50_ms="--p50", p75_ms="--p75",
    never="--never", master="--master", n_keys="--keys", keys_per_request="--keys-per-request",
    n_shards="--shards", path="OUT",
)
def run(args: Namespace) -> int:
    shape = {
        "seed": args.seed,
        "rate_per_s": args.rate,
        "p50_ms": args.p50 / 1e6,
        "p75_ms": args.p75 / 1e6,
        "never": args.never,
    }
    Workload.of(args.requests, **shape)     # what it refuses is known before Spark takes seconds to start
    for option in ONLY_SPARK:
        if not args.spark and getattr(args, option) is not None:
            raise ValueError(f"--{option.replace('_', '-')} must be given with --spark alone")
    if args.spark:
        _with_spark(args, shape)
    else:
        _as_csv(args, shape)
    if args.json:
        print(json.dumps({"out": args.out, "requests": args.requests, **shape}))
    return 0


def _as_csv(args: Namespace, shape: dict[str, Any]) -> None:
    try:
        file_ending_in(".csv", ".csv.gz")(args.out)
    except ArgumentTypeError as error:
        raise ValueError(f"OUT {error}") from None
    requests = generate(args.requests, **shape)
    with progress("generating") as show:
        write_trace(args.out, _shown(requests, args.requests, show))


def _shown(requests: Iterator[tuple[int, int]], total: int, show: Show) -> Iterator[tuple[int, int]]:
    for number, request in enumerate(requests):
        if number % SHOW_EVERY == 0:
            show(number / total)
        yield request


def _with_spark(args: Namespace, shape: dict[str, Any]) -> None:
    from tickwheel.spark.progress import job_progress
    from tickwheel.spark.session import local_session

    shards = 1 if args.shards is None else args.shards
    if shards > 1 and args.requests == 0:
        raise ValueError(f"--shards must be 1 where there are no requests, got {shards}")
    keys = {"n_keys": args.keys, "keys_per_request": args.keys_per_request}
    shape |= {name: value for name, value in keys.items() if value is not None}
    if args.timeout is not None:
        shape["timeout_ms"] = args.timeout / 1e6
    # The session ends before the folder takes its place or is removed: nobody writes into it then.
    session = local_session(args.master or "local[*]", "generate --spark")
    with whole_folder(args.out) as folder, session as spark:
        from tickwheel.spark.workload import generate_requests

        requests = generate_requests(spark, args.requests, n_shards=shards, **shape)
        with progress("generating") as show, job_progress(spark, show):
            if shards == 1:
                requests.write.mode("overwrite").parquet(f"file://{folder}")
            else:
                # Sorted here, since Spark would sort by shard alone and promises no order within it.
                ordered = requests.sortWithinPartitions("shard", "request_id")
                ordered.write.mode("overwrite").partitionBy("shard").parquet(f"file://{folder}")
