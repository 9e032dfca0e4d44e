"""Timeouts over streams: DataFrame in, DataFrame out, each outcome once.

    events = spark.readStream...load().withWatermark("time", "10 seconds")
    detect_idle(events, "client", "time", timeout=30, n_shards=8).writeStream...start()

All is in event time. An outcome is given out once the watermark has passed the instant that decides it, so
that it depends neither on the order in which rows come nor on the batches; rows behind the watermark are
left out, and a null key or time ends the query. All but `dedup_within` keep the state of a stream in
`n_shards` shards: for each of them Spark holds one state and one timer, where a state and a timer a key would
cost a round trip a row. They want the RocksDB state store, and the same arguments for as long as a checkpoint
lives.
"""
from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from numbers import Integral, Real

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DayTimeIntervalType,
    LongType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from tickwheel.spark.processor import ShardProcessor
from tickwheel.spark.shards.delayed import Delayed
from tickwheel.spark.shards.idle import Idle
from tickwheel.spark.shards.ordering import Ordering
from tickwheel.spark.shards.packing import PACKED, pack, unpack
from tickwheel.spark.shards.shard import Operator
from tickwheel.units import UNITS, unit_of

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
WATERMARK = "spark.watermarkDelayMs"    # in the metadata of a column that has one
METHODS = ("wheel", "session")
IDLE = ("first_seen", "last_seen", "idle_at")
OUTCOMES = ("requested_at", "deadline", "outcome", "completed_at")
MOST_SHARDS = 2**31 - 1
MOST_SECONDS = 10**10    # 300 years: an instant so much later still fits in 64 bits
SECOND, US = timedelta(seconds=1), timedelta(microseconds=1)


def dedup_within(
    df: DataFrame, key_cols: Sequence[str], event_time: str, within: float | timedelta
) -> DataFrame:
    """The rows of `df`, of those with equal `key_cols` within `within` seconds only the first to come.

    Spark's own deduplication, whose watermark is `within` behind: repeats farther apart than that are
    dropped too as long as the watermark has not passed, never one that follows it. `df` has no watermark yet.
    """
    if isinstance(key_cols, str) or not key_cols:
        raise ValueError(f"key_cols must be a list of one column or more, got {key_cols!r}")
    _check_columns(df, "df", [*key_cols, event_time])
    _check_time(df, event_time)
    if "." in event_time:
        raise ValueError(f"event_time must have no dot: no watermark goes on it, got {event_time!r}")
    if WATERMARK in df.schema[event_time].metadata:
        raise ValueError(f"df must have no watermark on {event_time!r} yet: `within` is its delay")
    wait_us = _duration_us("within", within)
    rows = df.withColumns({column: _not_null(column) for column in [*key_cols, event_time]})
    return rows.withWatermark(event_time, f"{wait_us} microseconds").dropDuplicatesWithinWatermark(
        list(key_cols)
    )


def detect_idle(
    df: DataFrame,
    key: str,
    event_time: str,
    timeout: float | timedelta,
    n_shards: int = 8,
    method: str = "wheel",
) -> DataFrame:
    """A row whenever a key has been silent for `timeout` seconds: key, first_seen, last_seen, idle_at.

    Half-open: activity at `last_seen + timeout`, which is `idle_at`, comes too late and begins anew.
    `method`: "wheel" keeps shards of clients, "session" is Spark's `session_window`, with the same rows
    as long as none comes behind the watermark: that may still take such a row. It is the better choice where
    nothing else needs RocksDB and batches are small.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    _check_stream(df, "df", [key], event_time)
    _check_free("df", [key], IDLE)
    timeout_us = _duration_us("timeout", timeout)
    _check_shards(n_shards)
    if method == "session":
        return _sessions(df, key, event_time, timeout_us)
    _check_store(df)
    rows = df.select(
        _shard_of(key, n_shards),
        _column(key).alias("key"),
        _micros(event_time).alias("at_us"),
    )
    found = StructType().add(key, df.schema[key].dataType)
    for name in IDLE:
        found.add(name, TimestampType())
    return _on_shards(rows, Idle(timeout_us), n_shards, found)


def _sessions(df: DataFrame, key: str, event_time: str, timeout_us: int) -> DataFrame:
    if timeout_us < 2:
        raise ValueError(f"timeout must be at least 2 microseconds for a session, got {timeout_us}")
    # Spark leaves out rows without a time, before all that is deterministic.
    missing = _column(event_time).isNull() | (F.spark_partition_id() < 0)
    checked = F.when(missing, _must_not_be_null(event_time)).otherwise(_not_null(key))
    # Spark merges what is exactly a gap apart: a microsecond less is the half-open window.
    window = F.session_window("last_seen", f"{timeout_us - 1} microseconds")
    rows = df.select(_column(event_time).alias("last_seen"), checked.alias("key"))
    return (
        rows.groupBy(window, "key")
        .agg(F.max("last_seen").alias("last_seen"))
        .select(
            F.col("key").alias(key),
            F.col("session_window.start").alias("first_seen"),
            "last_seen",
            F.timestamp_micros(F.unix_micros("last_seen") + timeout_us).alias("idle_at"),
        )
    )


def delayed_operations(
    requests: DataFrame,
    completions: DataFrame,
    id_col: str,
    event_time: str,
    timeout_col: str,
    n_shards: int = 8,
) -> DataFrame:
    """One row for each request: id, requested_at, deadline, outcome (completed | expired), completed_at.

    A request is a row of `requests` with its own timeout: a number whose unit the column's name ends in, as
    `timeout_ms`, or an interval. It is completed by the first row of `completions` with its id that is not
    after its deadline, else it expires. Whichever row comes first: a completion waits for its request. The
    stamps of the two may be as far apart the wrong way as the watermark's delay, and for as long a decided
    request is remembered, so that its repeats are known as such.
    """
    _check_stream(requests, "requests", [id_col, timeout_col], event_time)
    _check_stream(completions, "completions", [id_col], event_time)
    _check_free("requests", [id_col], OUTCOMES)
    _check_store(requests)
    _check_shards(n_shards)
    kinds = [frame.schema[id_col].dataType for frame in (requests, completions)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"{id_col} must be of one type, got {kinds[0].simpleString()} in requests and "
            f"{kinds[1].simpleString()} in completions"
        )
    shard, at_us = _shard_of(id_col, n_shards), _micros(event_time)
    rows = requests.select(
        shard, _column(id_col).alias("id"), at_us.alias("at_us"),
        (at_us + _timeout_us(requests, timeout_col)).alias("deadline_us"),
    ).unionByName(
        completions.select(
            shard, _column(id_col).alias("id"), at_us.alias("at_us"),
            F.lit(None).cast(LongType()).alias("deadline_us"),
        )
    )
    delay_ms = max(frame.schema[event_time].metadata[WATERMARK] for frame in (requests, completions))
    found = StructType().add(id_col, kinds[0])
    for name in OUTCOMES:
        found.add(name, StringType() if name == "outcome" else TimestampType())
    return _on_shards(rows, Delayed(delay_ms * 1000), n_shards, found)


def in_order(df: DataFrame, key: str, event_time: str, n_shards: int = 8) -> DataFrame:
    """The rows of `df`, each once and in the order of `event_time` within its key, with a column `sequence`:
    1, 2, 3 and so on without a gap for each key.

    They come when the watermark has passed them; rows of one instant are ordered by their other columns.
    A key's last number is kept for good.
    """
    _check_stream(df, "df", [key], event_time)
    _check_store(df)
    _check_shards(n_shards)
    _check_free("df", df.columns, ["sequence"])
    # Named by their places: whatever the user calls them, they are not taken for ours.
    names = [f"column_{place}" for place in range(len(df.columns))]
    rows = df.select(
        _shard_of(key, n_shards),
        _micros(event_time).alias("at_us"),
        *(_column(column).alias(name) for column, name in zip(df.columns, names, strict=True)),
    )
    found = StructType()
    for field, name in zip(df.schema.fields, names, strict=True):
        found.add(name, field.dataType)
    found.add("sequence", LongType())
    ordering = Ordering(names[df.columns.index(key)], names)
    return _on_shards(rows, ordering, n_shards, found).toDF(*df.columns, "sequence")


def _on_shards(rows: DataFrame, operator: Operator, n_shards: int, found: StructType) -> DataFrame:
    """`rows` (shard, then what the operator takes) through the shards' states: what they give out."""
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema.fields[1:])
    processor = ShardProcessor(operator, n_shards, columns)
    return (
        rows.mapInArrow(pack, PACKED)
        .groupBy("shard")
        .transformWithStateInPandas(processor, PACKED, "append", "eventTime")
        .mapInArrow(unpack, found)
    )


def _shard_of(key: str, n_shards: int) -> Column:
    return F.pmod(F.xxhash64(_not_null(key)), F.lit(n_shards)).cast("int").alias("shard")


def _column(name: str) -> Column:
    """The column of this very name: a dot in it is no field of a struct."""
    return F.col("`" + name.replace("`", "``") + "`")


def _micros(event_time: str) -> Column:
    return _not_null(event_time, F.unix_micros(_column(event_time)))


def _not_null(column: str, value: Column | None = None) -> Column:
    given = _column(column) if value is None else value
    return F.when(_column(column).isNull(), _must_not_be_null(column)).otherwise(given)


def _must_not_be_null(column: str) -> Column:
    return F.raise_error(F.lit(f"{column} must not be null"))


def _timeout_us(requests: DataFrame, column: str) -> Column:
    """Each row's timeout in microseconds, rounded up: never early."""
    value, kind = _column(column), requests.schema[column].dataType
    if isinstance(kind, DayTimeIntervalType):
        us = measure = _interval_us(value)
        right = us >= 0
    elif isinstance(kind, NumericType):
        unit = unit_of(column)
        if unit is None:
            raise ValueError(f"timeout_col must end in its unit, as timeout_ms does, got {column!r}")
        # Rounded before it is rounded up: 0.1 * 1000 may be a little more than 100.
        measure = value * (UNITS[unit] / 1000)
        us = F.ceil(F.round(measure, 3)).cast(LongType())
        right = (value >= 0) & ~F.isnan(value)      # for Spark, NaN is greater than any number
    else:
        raise ValueError(
            f"timeout_col must be a number or an interval, got {column!r}: {kind.simpleString()}"
        )
    seen = value.cast("string")
    negative = F.raise_error(F.concat(F.lit(f"{column} must be >= 0, got "), seen))
    # Beyond it a deadline would not fit in 64 bits.
    endless = F.raise_error(F.concat(F.lit(f"{column} must be at most {MOST_SECONDS} seconds, got "), seen))
    fits = F.when(measure <= MOST_SECONDS * 10**6, us).otherwise(endless)
    return _not_null(column, F.when(right, fits).otherwise(negative))


def _interval_us(interval: Column) -> Column:
    """By its parts: added to an instant, days would be those of the session's time zone."""
    interval = interval.cast(DayTimeIntervalType())     # which has all parts
    seconds = F.lit(0).cast(LongType())
    for unit, length in (("DAY", 86_400), ("HOUR", 3_600), ("MINUTE", 60)):
        seconds += F.extract(F.lit(unit), interval).cast(LongType()) * length
    return seconds * 10**6 + (F.extract(F.lit("SECOND"), interval) * 10**6).cast(LongType())


def _check_stream(df: DataFrame, name: str, columns: Sequence[str], event_time: str) -> None:
    """It is a stream, has these columns, the first of them a key, and a watermark on its event time."""
    _check_columns(df, name, [*columns, event_time])
    _check_time(df, event_time)
    kind = df.schema[columns[0]].dataType
    if isinstance(kind, (ArrayType, MapType, StructType, VariantType)):
        raise ValueError(f"{columns[0]} must be a plain value to be a key, got {kind.simpleString()}")
    if not df.isStreaming:
        raise ValueError(f"{name} must be a stream, as spark.readStream makes it, got a batch")
    if WATERMARK not in df.schema[event_time].metadata:
        raise ValueError(
            f"{name} must have a watermark on {event_time!r}: "
            f"{name}.withWatermark({event_time!r}, '10 seconds')"
        )


def _check_time(df: DataFrame, event_time: str) -> None:
    kind = df.schema[event_time].dataType
    if not isinstance(kind, TimestampType):
        problem = f"{event_time!r}: {kind.simpleString()}; cast it to timestamp"
        raise ValueError(f"event_time must be a timestamp, got {problem}")


def _check_store(df: DataFrame) -> None:
    """Spark has a store that can hold a processor's state."""
    provider = df.sparkSession.conf.get(PROVIDER, None)
    if provider != ROCKSDB:
        raise ValueError(
            f"{PROVIDER} must be {ROCKSDB}, got {provider}: spark.conf.set({PROVIDER!r}, {ROCKSDB!r})"
        )


def _check_columns(df: DataFrame, name: str, columns: Sequence[str]) -> None:
    for column in columns:
        if column not in df.columns:
            raise ValueError(f"{name} must have a column {column!r}; its columns are {', '.join(df.columns)}")


def _check_free(name: str, columns: Sequence[str], ours: Sequence[str]) -> None:
    """None of the columns is named as one of the result's own; for Spark, upper case or lower is one name."""
    for column in columns:
        if column.lower() in ours:
            raise ValueError(f"{name} must have no column {column!r}: the result has one of its own")


def _check_shards(n_shards: int) -> None:
    if not isinstance(n_shards, Integral):
        raise ValueError(f"n_shards must be a whole number, got {n_shards}")
    if not 1 <= n_shards <= MOST_SHARDS:
        raise ValueError(f"n_shards must be between 1 and {MOST_SHARDS}, got {n_shards}")


def _duration_us(name: str, duration: float | timedelta) -> int:
    if not isinstance(duration, (Real, timedelta)):
        raise ValueError(f"{name} must be seconds or a timedelta, got {duration!r}")
    seconds = duration / SECOND if isinstance(duration, timedelta) else float(duration)
    if not 1e-6 <= seconds <= MOST_SECONDS:
        raise ValueError(f"{name} must be between a microsecond and {MOST_SECONDS} seconds, got {duration}")
    return duration // US if isinstance(duration, timedelta) else round(seconds * 1e6)
