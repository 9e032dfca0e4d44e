"""What if the wheel were another: a trace against many configurations in one pass, a shard a task.

    results = replay(trace, [Config(tick_ms=1), Config(tick_ms=10, wheel_size=64)])
    results = replay_files(spark, ["requests/"], [(1, 512), (10, 64)], timeout=200)

Every shard goes through the kernel of `tickwheel replay` in the order of its arrivals, batch by
batch, and each batch through all configurations before the next one is read. So a task holds what is
pending and one batch, never a shard; and each number is the one that the one-process replay gives.
"""
from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from tickwheel._reference.histogram import upper_edge
from tickwheel.replay import Replay, ReplayResult, latest_arrival_ns
from tickwheel.trace import Chunk, Trace, TraceError
from tickwheel.trace.parquet import batch_chunks
from tickwheel.trace.requests import BadRequest, Wanted
from tickwheel.units import MIN_NS, NEVER, to_ns

MOST_CONFIGS = 1000
MOST_BUCKETS = 2**28        # of one wheel
SHARD = "shard="
NO_SHARD = f"{SHARD}__HIVE_DEFAULT_PARTITION__"     # where Spark puts the rows whose shard is null
COUNTS = (
    "requests", "completed", "expired", "peak_pending", "wakeups", "cascades", "purges", "purged",
    "peak_watched",
)

_RESULT = T.StructType([
    T.StructField("tick_ms", T.DoubleType()),
    T.StructField("wheel_size", T.LongType()),
    T.StructField("purge_interval", T.LongType()),
    T.StructField("timeout_max_ms", T.DoubleType()),
    *(T.StructField(name, T.LongType()) for name in COUNTS),
    T.StructField("lateness_p50_ms", T.DoubleType()),
    T.StructField("lateness_p99_ms", T.DoubleType()),
    T.StructField("lateness_max_ms", T.DoubleType()),
    T.StructField("lateness", T.ArrayType(T.StructType([
        T.StructField("upto_ns", T.LongType()),
        T.StructField("requests", T.LongType()),
    ]))),
    T.StructField("pending", T.ArrayType(T.StructType([
        T.StructField("at_ms", T.DoubleType()),
        T.StructField("peak", T.LongType()),
    ]))),
    T.StructField("cpu_s", T.DoubleType()),
])


@dataclass(frozen=True, slots=True)
class Config:
    """A timer to try: its tick, the buckets of a wheel, and the purge interval of its purgatory.

    `purge_interval` None: a completed request leaves the watcher lists at once.
    """

    tick_ms: float = 1.0
    wheel_size: int = 512
    purge_interval: int | None = None

    def __post_init__(self) -> None:
        if self.tick_ns <= 0:
            raise ValueError(f"tick_ms must be > 0, got {self.tick_ms}")
        size, interval = self.wheel_size, self.purge_interval
        if not (isinstance(size, Integral) and 2 <= size <= MOST_BUCKETS):
            raise ValueError(f"wheel_size must be a whole number from 2 to {MOST_BUCKETS}, got {size!r}")
        if not (interval is None or (isinstance(interval, Integral) and 0 <= interval < NEVER)):
            raise ValueError(f"purge_interval must be None or a whole number >= 0, got {interval!r}")

    @property
    def tick_ns(self) -> int:
        return _ns("tick_ms", self.tick_ms)


Configs = Sequence[Config | tuple[Any, ...]]     # a tuple: Config's arguments


@dataclass(frozen=True, slots=True)
class _Plan:
    """What each shard is played with."""

    configs: tuple[Config, ...]
    timeout: str | None         # the column of timeouts
    timeout_ns: int | None      # or the one of every request
    result: T.StructType

    @classmethod
    def of(cls, configs: Configs, timeout: str | float, shard: T.DataType) -> _Plan:
        chosen = tuple(config if isinstance(config, Config) else Config(*config) for config in configs)
        if not 1 <= len(chosen) <= MOST_CONFIGS:
            raise ValueError(f"configs must be from 1 to {MOST_CONFIGS}, got {len(chosen)}")
        config, times = Counter(chosen).most_common(1)[0]
        if times > 1:
            raise ValueError(f"configs must differ from one another, got {config} more than once")
        result = T.StructType([T.StructField("shard", shard), *_RESULT.fields])
        if isinstance(timeout, str):
            return cls(chosen, timeout, None, result)
        timeout_ns = _ns("timeout", timeout)
        if timeout_ns <= 0:
            raise ValueError(f"timeout must be > 0 ms, got {timeout}")
        return cls(chosen, None, timeout_ns, result)

    @property
    def latest_ns(self) -> int:
        """The last arrival, or deadline where each request has its own timeout, that suits every tick."""
        return min(latest_arrival_ns(config.tick_ns, self.timeout_ns or 0) for config in self.configs)

    def play(self, shard: Any, chunks: Iterable[Chunk]) -> pa.RecordBatch:
        """One row a configuration."""
        replays = [
            Replay(
                tick_ns=config.tick_ns,
                timeout_ns=self.timeout_ns,
                wheel_size=config.wheel_size,
                purge_interval=config.purge_interval,
            )
            for config in self.configs
        ]
        longest = self.timeout_ns or 0
        for chunk in chunks:
            if chunk.timeouts is not None:
                longest = max(longest, _max(chunk.timeouts))
            for replay in replays:
                replay.feed(chunk)
        rows = [
            {"shard": shard, "timeout_max_ms": longest / 1e6, **_row(config, replay.finish())}
            for config, replay in zip(self.configs, replays, strict=True)
        ]
        return pa.RecordBatch.from_pylist(rows, to_arrow_schema(self.result, timezone="UTC"))


def replay(
    trace: DataFrame,
    configs: Configs,
    *,
    shard: str = "shard",
    arrival: str = "arrival_ms",
    completion: str = "completion_ms",
    timeout: str | float = "timeout_ms",
    unit: str | None = None,
) -> DataFrame:
    """What each configuration would have done on each shard of `trace`: a row for each of both. Lazy.

    `arrival`, `completion` (null: never) and `timeout` are columns of numbers, in `unit` or in the one that
    ends their names; `timeout` may instead be a number, the milliseconds of all requests. Rows may come in
    any order: Spark sorts them. One shard is one task, so many small ones use the cores best.

    Columns: shard, the configuration (tick_ms, wheel_size, purge_interval), timeout_max_ms, the counts of
    `tickwheel.replay.ReplayResult`, lateness (a histogram: how many up to the edge of each bucket that has
    any), pending (the most in each of at most 256 intervals of the shard's time), cpu_s of the kernel.

    ValueError: an argument or a column's type. A row that breaks a rule fails the job; the error's text has
    the line `tickwheel.trace.TraceError: shard 3, row 17: ...`, rows counted in the order of arrival.
    """
    kind = _checked(trace, shard).dataType
    plan = _Plan.of(configs, timeout, kind)
    times = [arrival, completion] if plan.timeout is None else [arrival, completion, plan.timeout]
    for name in times:
        found = _checked(trace, name).dataType
        if not isinstance(found, T.NumericType):
            raise ValueError(f"{name} must be a column of numbers, got {found.simpleString()}")
    wanted = Wanted.of(
        arrival=arrival, completion=completion, timeout=plan.timeout, unit=unit, latest_ns=plan.latest_ns
    )

    names = list(dict.fromkeys([shard, *times]))

    def play(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        named = (pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches)
        yield plan.play(key[0].as_py(), _requests(key[0].as_py(), shard, named, wanted))

    # Spark's groups stumble over names with a dot: there, columns are called by their place.
    by_shard, by_arrival = F.col("_0"), F.col(f"_{names.index(arrival)}")
    return (
        trace.select(*(F.col(_quoted(name)).alias(f"_{place}") for place, name in enumerate(names)))
        .repartition(by_shard)
        .sortWithinPartitions(by_shard, by_arrival)     # grouping keeps it, unpromised: so it is checked
        .groupBy(by_shard)
        .applyInArrow(play, plan.result)
    )


def replay_files(
    spark: SparkSession,
    paths: Sequence[str | os.PathLike[str]],
    configs: Configs,
    *,
    arrival: str = "arrival_ms",
    completion: str = "completion_ms",
    timeout: str | float = "timeout_ms",
    unit: str | None = None,
    where: Sequence[tuple[str, str]] = (),
) -> DataFrame:
    """`replay` of files, which the tasks read by themselves: several times as fast. Lazy.

    Each of `paths` is a shard: a trace as `tickwheel.trace.Trace` reads it (CSV, JSON lines, Parquet, or a
    folder of such files), in order of arrival, at the same place for the driver and the executors. A folder
    with `shard=K` folders in it stands for those. A shard is called as its path, those of a single folder
    `K`. The largest go first, one task a shard.

    The columns are those of `replay`; `arrival`, `completion`, `unit` and `where` are those of `Trace`.
    ValueError, OSError: an argument, or a path that is not there. What `Trace` refuses fails the job with
    the `TraceError` that it raises.
    """
    plan = _Plan.of(configs, timeout, T.StringType())
    shards = _shards([os.fspath(path) for path in paths])

    def trace(path: str) -> Trace:
        return Trace(
            path, arrival=arrival, completion=completion, timeout=plan.timeout, unit=unit, where=where,
            latest_ns=plan.latest_ns,
        )

    def play(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                name, path = shards[number]
                try:
                    yield plan.play(name, trace(path))
                except OSError as error:
                    raise TraceError(f"{path}: {error.strerror or error}") from None

    trace("")       # what is wrong with the options is known now
    return spark.range(0, len(shards), 1, len(shards)).mapInArrow(play, plan.result)


def _requests(
    name: Any, shard: str, batches: Iterable[pa.RecordBatch], wanted: Wanted
) -> Iterator[Chunk]:
    """A shard's requests; TraceError: the first row, counted in their order from 1, that breaks a rule."""
    if name is None:
        raise TraceError(f"shard null, row 1: {shard} must not be null")
    row, previous = 1, MIN_NS
    try:
        for batch in batches:
            for chunk in batch_chunks(batch, row, wanted, previous):
                previous = chunk.arrivals[-1]
                yield chunk
            row += batch.num_rows
    except BadRequest as problem:
        raise TraceError(f"shard {name}, row {problem.row}: {problem.problem}") from None


def _row(config: Config, result: ReplayResult) -> dict[str, Any]:
    start, width = result.pending_start_ns, result.pending_width_ns
    return asdict(config) | {name: getattr(result, name) for name in COUNTS} | {
        "lateness_p50_ms": result.lateness_p50_ns / 1e6,
        "lateness_p99_ms": result.lateness_p99_ns / 1e6,
        "lateness_max_ms": result.lateness_max_ns / 1e6,
        "lateness": [
            {"upto_ns": upper_edge(index), "requests": count}
            for index, count in enumerate(result.lateness_counts)
            if count
        ],
        "pending": [
            {"at_ms": (start + i * width) / 1e6, "peak": peak} for i, peak in enumerate(result.pending_peaks)
        ],
        "cpu_s": result.cpu_seconds,
    }


def _shards(paths: Sequence[str]) -> list[tuple[str, str]]:
    """The name and the absolute path of each shard, the largest first."""
    sized = [
        (_size(path), path if name is None or len(paths) > 1 else name, path)
        for given in paths
        for name, path in _opened(given)
    ]
    if not sized:
        raise ValueError("paths must name one file or folder at least")
    places = Counter(os.path.realpath(path) for _, _, path in sized)
    for _, _, path in sized:
        if places[os.path.realpath(path)] > 1:
            raise ValueError(f"paths must differ from one another, got {path} more than once")
    return [(name, os.path.abspath(path)) for _, name, path in sorted(sized, key=lambda shard: -shard[0])]


def _opened(path: str) -> list[tuple[str | None, str]]:
    """The folders `shard=K` in a folder, each with its K, or else what was given."""
    if not os.path.isdir(path):
        return [(None, path)]
    names = sorted(name for name in os.listdir(path) if name[0] not in "._")
    if not any(name.startswith(SHARD) for name in names):
        return [(None, path)]
    for name in names:
        if not name.startswith(SHARD):
            raise TraceError(f"{path}: a folder of shards must hold nothing else, got {name!r}")
        if name == NO_SHARD:
            raise TraceError(f"{path}: shard must not be null, got folder {name!r}")
    return [(unquote(name.removeprefix(SHARD)), os.path.join(path, name)) for name in names]


def _size(path: str) -> int:
    if not os.path.isdir(path):
        return os.path.getsize(path)
    with os.scandir(path) as entries:
        return sum(entry.stat().st_size for entry in entries if entry.is_file())


def _checked(trace: DataFrame, column: str) -> T.StructField:
    """The schema of a column."""
    if trace.columns.count(column) != 1:
        problem = "no column" if column not in trace.columns else "more than one column"
        raise ValueError(f"the trace has {problem} {column!r}; its columns are {', '.join(trace.columns)}")
    return trace.schema[column]


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _max(times: array[int]) -> int:
    """Of an array that is not empty, without an object for each."""
    words = pa.Array.from_buffers(pa.int64(), len(times), [None, pa.py_buffer(times)])
    return int(pc.max(words).as_py())


def _ns(name: str, ms: float) -> int:
    """Milliseconds in nanoseconds: 0.1 is the decimal that it shows."""
    try:
        return to_ns(str(ms) if isinstance(ms, Real) else "", "ms")
    except ValueError as error:
        raise ValueError(f"{name} {error}, got {ms!r}") from None
