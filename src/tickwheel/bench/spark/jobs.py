"""Jobs over files of requests: generating them, replaying them, choosing a configuration by them."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tickwheel._core import ReplayKernel
from tickwheel.bench.spark.ground import WARM_UP_SHARE, Ground, Sample, timed
from tickwheel.bench.spark.inputs import RATE_PER_S, RequestFiles
from tickwheel.bench.spark.memory import peak_of_workers
from tickwheel.replay import replay as replay_here
from tickwheel.spark import Config, generate_requests, replay, replay_files
from tickwheel.trace import Trace
from tickwheel.units import NEVER
from tickwheel.workload import generate, write_trace

SHARDS_A_CORE = 4
TIMEOUT_MS = 200.0
ONE = [Config(1.0, 512)]
EIGHT = [Config(tick_ms, wheel_size) for tick_ms in (1.0, 10.0) for wheel_size in (20, 64, 256, 512)]
ONE_PROCESS_SHARE = CROSS_JOIN_SHARE = 10       # of the rows, for what would take too long
KERNEL_NS = "kernel CPU ns"      # of a row and configuration
COUNTED = "tick_ms double, wheel_size bigint, requests bigint, expired bigint"

Write = Callable[[Ground, int, str], object]            # so many rows, to a folder that is not there
Play = Callable[[Ground, RequestFiles], list[Any]]      # the rows of results, if it replays


def few(rows: int) -> int:
    """The rows of a warm-up."""
    return max(1, rows // WARM_UP_SHARE)


def requests(rows: int, cores: int, shards_a_core: int = SHARDS_A_CORE, never: float = 0.0) -> RequestFiles:
    return RequestFiles(rows, shards_a_core * cores, never)


def write_all_columns(ground: Ground, rows: int, path: str) -> None:
    generate_requests(ground.spark, rows).write.parquet(path)


def write_without_keys(ground: Ground, rows: int, path: str) -> None:
    generate_requests(ground.spark, rows).drop("keys").write.parquet(path)


def write_sql(ground: Ground, rows: int, path: str) -> None:
    """The same distribution from Spark's own `rand`: other rows for another number of partitions, and in
    order only by sorting them all."""
    latency = F.expr("20 * exp(ln(60 / 20) / 0.6745 * randn(2))")
    arrivals = ground.spark.range(rows).select((F.rand(1) * (rows / RATE_PER_S * 1000)).alias("arrival_ms"))
    ordered = arrivals.orderBy("arrival_ms")
    ordered.withColumn("completion_ms", F.col("arrival_ms") + latency).write.parquet(path)


def write_here(ground: Ground, rows: int, path: str) -> None:
    os.mkdir(path)
    write_trace(os.path.join(path, "requests.csv"), generate(rows))


def measure_generate(write: Write, ground: Ground, share: int = 1) -> Sample:
    """Rows written to files that are gone afterwards."""
    rows = max(1, ground.rows // share)
    with ground.scratch() as scratch:
        paths = (os.path.join(scratch, f"run-{number}") for number in range(sys.maxsize))
        seconds = timed(
            lambda: write(ground, rows, next(paths)), lambda: write(ground, few(rows), next(paths))
        )
    return Sample(seconds, rows)


def read_once(ground: Ground, files: RequestFiles) -> list[Any]:
    """What `replay_files` does, but for the replay: each task reads its shard, chunk by chunk."""
    paths = _shards(ground, files)

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = [sum(len(chunk.labels) for chunk in Trace(paths[n])) for n in batch.column(0).to_pylist()]
            yield pa.record_batch([pa.array(rows)], ["rows"])

    tasks = ground.spark.range(0, len(paths), 1, len(paths))
    _check_rows(files, sum(row.rows for row in tasks.mapInArrow(read, "rows bigint").collect()))
    return []


def play_files(configs: list[Config]) -> Play:
    def play(ground: Ground, files: RequestFiles) -> list[Any]:
        results = replay_files(ground.spark, [ground.path(files)], configs, timeout=TIMEOUT_MS)
        return list(results.collect())

    return play


def play_frame(configs: list[Config]) -> Play:
    return lambda ground, files: list(replay(_frame(ground, files), configs, timeout=TIMEOUT_MS).collect())


def identity(ground: Ground, files: RequestFiles) -> list[Any]:
    """The rows through Python, which does nothing with them."""
    frame = _frame(ground, files)
    frame.mapInArrow(lambda batches: batches, frame.schema).write.format("noop").mode("overwrite").save()
    return []


def cross_join(ground: Ground, files: RequestFiles) -> list[Any]:
    """A copy of the rows for each configuration, and a group for each shard and configuration."""
    group = ["shard", "tick_ms", "wheel_size"]
    configs = [(config.tick_ms, config.wheel_size) for config in EIGHT]
    copies = _frame(ground, files).crossJoin(
        F.broadcast(ground.spark.createDataFrame(configs, "tick_ms double, wheel_size bigint"))
    )

    # By these types Spark knows that it is to come in batches.
    def play(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _, tick_ms, wheel_size = (value.as_py() for value in key)
        kernel = ReplayKernel(int(tick_ms * 1e6), int(TIMEOUT_MS * 1e6), wheel_size)
        for batch in batches:
            kernel.feed(_ns(batch.column("arrival_ms")), _ns(batch.column("completion_ms")))
        kernel.finish()
        row = {"tick_ms": tick_ms, "wheel_size": wheel_size, "requests": kernel.completed + kernel.expired}
        yield pa.RecordBatch.from_pylist([row | {"expired": kernel.expired}])

    ordered = copies.repartition(*group).sortWithinPartitions(*group, "arrival_ms")
    return list(ordered.groupBy(*group).applyInArrow(play, COUNTED).collect())


def play_here(ground: Ground, files: RequestFiles) -> list[Any]:
    """The one-process replay, shard after shard: a core."""
    results = (
        replay_here(Trace(path), tick_ns=10**6, timeout_ns=int(TIMEOUT_MS * 1e6))
        for path in _shards(ground, files)
    )
    common = {"tick_ms": 1.0, "wheel_size": 512}
    return [
        common | {"requests": result.requests, "expired": result.expired, "cpu_s": result.cpu_seconds}
        for result in results
    ]


def measure_replay(play: Play, ground: Ground, share: int = 1) -> Sample:
    """The shards of the requests. What is found: the counts of the configuration that all have."""
    results: list[Any] = []
    files = requests(ground.rows // share, ground.cores)

    def run() -> None:
        results[:] = play(ground, files)

    seconds = timed(run, lambda: play(ground, requests(few(ground.rows // share), ground.cores)))
    common = [row for row in results if (row["tick_ms"], row["wheel_size"]) == (1.0, 512)]
    if not common:
        return Sample(seconds, files.rows)
    _check_rows(files, sum(row["requests"] for row in common))
    configurations = len({(row["tick_ms"], row["wheel_size"]) for row in results})
    kernel_s = sum(row["cpu_s"] for row in results if "cpu_s" in row)
    return Sample(
        seconds,
        files.rows,
        {KERNEL_NS: kernel_s / (files.rows * configurations) * 1e9} if kernel_s else {},
        f"{sum(row['expired'] for row in common):,} expired",
    )


def measure_shards(shards_a_core: int, share: int, ground: Ground) -> Sample:
    """`replay_files` with other numbers of shards, and of rows."""
    files, warm_up = (
        requests(rows, ground.cores, shards_a_core)
        for rows in (ground.rows // share, few(ground.rows // share))
    )
    play = play_files(ONE)
    with peak_of_workers() as peak:
        seconds = timed(lambda: play(ground, files), lambda: play(ground, warm_up))
    return Sample(seconds, files.rows, peak.seen())


def measure_pending(share: float, files: RequestFiles, ground: Ground) -> Sample:
    """`replay_files` of requests that all expire, when a share of them is pending at once."""
    timeout_ms = files.rows * share / RATE_PER_S * 1000
    results: list[Any] = []

    def run() -> None:
        path = ground.path(files)
        results[:] = replay_files(ground.spark, [path], ONE, timeout=timeout_ms).collect()

    with peak_of_workers() as peak:
        seconds = timed(run, lambda: None)
    return Sample(seconds, files.rows, {"pending": sum(row.peak_pending for row in results)} | peak.seen())


def measure_tune(ground: Ground) -> Sample:
    """The command `tickwheel tune` as it is, from its start to its end: Python's and Spark's are in it."""
    ground.spark.stop()     # it has a session of its own
    command = [sys.executable, "-m", "tickwheel.cli", "tune"]
    options = ["--master", f"local[{ground.cores}]", "--json"]
    trace = ground.path(requests(ground.rows, ground.cores))
    begin = perf_counter()
    ended = subprocess.run([*command, *options, trace], capture_output=True, text=True, check=False)
    seconds = perf_counter() - begin
    if ended.returncode:
        raise RuntimeError(ended.stderr.strip())
    return Sample([seconds], ground.rows)


def _frame(ground: Ground, files: RequestFiles) -> DataFrame:
    return ground.spark.read.parquet(ground.path(files)).select("shard", "arrival_ms", "completion_ms")


def _shards(ground: Ground, files: RequestFiles) -> list[str]:
    folder = ground.path(files)
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.startswith("shard=")]


def _ns(milliseconds: Any) -> Any:
    """A column of milliseconds as int64 nanoseconds; null is never."""
    return pc.round(pc.multiply(milliseconds, 1e6)).cast(pa.int64()).fill_null(NEVER).to_numpy()


def _check_rows(files: RequestFiles, seen: int) -> None:
    if seen != files.rows:
        raise RuntimeError(f"{files.rows:,} rows were written, {seen:,} were seen")
