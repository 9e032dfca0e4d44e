"""A stream that a command follows: rows from a reader of Spark's, and what becomes of each batch.

Results leave a batch at a time. A batch that a crash cut short is done again after a restart, with the same
rows, the same watermark and so the same results: what is written replaces what that batch wrote before.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from threading import Event
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StringType, StructType, TimestampNTZType, TimestampType

from tickwheel.units import UNITS, unit_of

POLL_S = 0.1
# A header that says otherwise than the schema, and a cell that is none of its type, end the stream:
# by themselves Spark's readers go by position, and read null.
READERS = {
    "csv": {"header": "true", "enforceSchema": "false", "mode": "FAILFAST"},
    "json": {"mode": "FAILFAST"},
}
INFERENCE = {"csv": {"inferSchema": "true"}, "json": {"inferTimestamp": "true"}}
TO_THE_MICROSECOND = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}

Take = Callable[[DataFrame, int], None]


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch that is done. `events`: how many rows it gave out; `state_*`: what all shards then hold."""

    batch: int
    rows: int
    rows_per_s: float
    watermark: str
    events: int
    state_rows: int
    state_bytes: int


class Stopped(Exception):
    """Ends a query between two of its batches."""


def schema_of(
    spark: SparkSession, form: str, folder: str, options: Mapping[str, str], *, key: str
) -> StructType:
    """The schema of the files that are there now, read once. ValueError: there are none, or no column.

    In a CSV file `key` is text as it stands there, whatever it looks like: 7 and 007 are two.
    """
    ours = READERS.get(form, {}) | INFERENCE.get(form, {})
    reader = spark.read.format(form).options(**{**ours, **options})
    try:
        found = reader.load(folder).schema
    except AnalysisException as error:
        if error.getCondition() != "UNABLE_TO_INFER_SCHEMA":
            raise
        found = StructType()
    if not found.fields:
        raise ValueError(f"schema must be given while a folder has no files with rows, got {folder!r}")
    if form == "csv":
        for field in found.fields:
            if field.name == key:
                field.dataType = StringType()
    return found


def as_ddl(schema: StructType) -> str:
    return ", ".join(f"{_quoted(field.name)} {field.dataType.simpleString()}" for field in schema.fields)


def stream_of(
    spark: SparkSession,
    form: str,
    folder: str | None,
    options: Mapping[str, str],
    schema: StructType | str | None,
) -> DataFrame:
    """The rows of a source of Spark's, as they come. `options` outrank our own; a str is DDL."""
    reader = spark.readStream.format(form).options(**{**READERS.get(form, {}), **options})
    if isinstance(schema, str):
        try:
            schema = StructType.fromDDL(schema)
        except ParseException:
            raise ValueError(f"schema must be columns and types, as 'id STRING', got {schema!r}") from None
    return (reader if schema is None else reader.schema(schema)).load(folder)


def with_event_time(rows: DataFrame, column: str, unit: str | None, watermark_ms: int) -> DataFrame:
    """`rows` with `column` as a timestamp, and a watermark that is `watermark_ms` behind it.

    A number counts in `unit` from the epoch (None: as the column's name ends), down to whole microseconds.
    """
    if column not in rows.columns:
        raise ValueError(f"time must be one of the columns {', '.join(rows.columns)}, got {column!r}")
    if "." in column:
        raise ValueError(f"time must have no dot in its name: no watermark goes on it, got {column!r}")
    kind = rows.schema[column].dataType
    if isinstance(kind, NumericType):
        unit = unit or unit_of(column)
        if unit is None:
            raise ValueError(f"unit must be given unless time ends in it, as time_ms does, got {column!r}")
        # Through decimals: a float is the number that it shows.
        us = F.col(column).cast("decimal(29,9)") * F.lit(Decimal(UNITS[unit]) / 1000)
        rows = rows.withColumn(column, F.timestamp_micros(F.floor(us).cast("bigint")))
    elif not isinstance(kind, (TimestampType, TimestampNTZType)):
        raise ValueError(f"time must be a timestamp or a number, got {column!r}: {kind.simpleString()}")
    elif unit is not None:
        raise ValueError(f"unit must not be given for a {kind.simpleString()}, got {unit!r} for {column!r}")
    else:
        rows = rows.withColumn(column, F.col(column).cast(TimestampType()))
    return rows.withWatermark(column, f"{watermark_ms} milliseconds")


def printed(show: Callable[[str], object]) -> Take:
    """Each row as a line of JSON."""

    def take(rows: DataFrame, number: int) -> None:
        for (line,) in rows.select(F.to_json(F.struct("*"), TO_THE_MICROSECOND)).toLocalIterator():
            show(line)

    return take


def written(spark: SparkSession, folder: str, form: str) -> Take:
    """Each batch that gives something out in a folder `batch=N` of its own."""
    # By itself Spark writes a type that Parquet has given up, which others read as local times.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")

    def take(rows: DataFrame, number: int) -> None:
        writer = rows.write.mode("overwrite").format(form)
        if form == "json":
            writer = writer.options(**TO_THE_MICROSECOND)
        writer.save(f"{folder}/batch={number}")

    return take


def follow(
    results: DataFrame, take: Take, checkpoint: str, *, once: bool, stopping: Event
) -> Iterator[Batch]:
    """Run the query and yield each batch when it is done, until there is no more or `stopping` is set.

    Stopping waits for the batch under way: it is then done, and will not be done again. `once`: only what is
    there now. `take` is not called for a batch without results.
    """
    counts: dict[int, int] = {}
    stopped = Event()
    failed: list[OSError] = []      # Spark would wrap it: a reader of the results that has gone is no failure

    def each(rows: DataFrame, number: int) -> None:
        if stopping.is_set():
            stopped.set()
            raise Stopped
        rows.persist()      # counted and taken, the states must be gone through once
        try:
            counts[number] = rows.count()
            if counts[number]:
                take(rows, number)
        except OSError as error:
            failed.append(error)
            raise
        finally:
            rows.unpersist()

    writer = results.writeStream.foreachBatch(each).option("checkpointLocation", checkpoint)
    query = (writer.trigger(availableNow=True) if once else writer).start()
    try:
        last = -1
        ended = False
        while not ended:
            # Asked first: then all that there is to tell has been told.
            ended = not query.isActive or (stopping.is_set() and not query.status["isTriggerActive"])
            for progress in query.recentProgress:
                # A trigger that found nothing tells of a batch that was not.
                if progress.batchId > last and "addBatch" in progress.durationMs:
                    last = progress.batchId
                    yield _batch(progress, counts.pop(last))
            time.sleep(POLL_S)
        error = query.exception()
        if failed:
            raise failed[0]
        if error is not None and not stopped.is_set():
            raise error
    finally:
        query.stop()


def _batch(progress: Any, events: int) -> Batch:
    return Batch(
        batch=progress.batchId,
        rows=progress.numInputRows,
        rows_per_s=progress.processedRowsPerSecond,
        watermark=progress.eventTime["watermark"],
        events=events,
        state_rows=sum(state.numRowsTotal for state in progress.stateOperators),
        state_bytes=sum(state.memoryUsedBytes for state in progress.stateOperators),
    )


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
