"""Clients' messages through `detect_idle` and its peers: seconds a batch, and the state that they write."""
from __future__ import annotations

import os
import sys
from collections.abc import Callable
from statistics import median
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from tickwheel.bench.spark.ground import Ground, Sample
from tickwheel.bench.spark.inputs import Messages
from tickwheel.bench.spark.memory import peak_of_workers
from tickwheel.bench.spark.peers import FOUND, ClientTimer, OneValue
from tickwheel.spark import detect_idle

DELAY = "5 seconds"         # of the watermark
IDLE_S = 30
NEVER_S = 86_400            # longer than any stream here: what is pending stays so
WARM_UP = 1                 # batches
SHARDS_A_CORE = 4
WRITTEN = "rocksdbTotalBytesWritten"

Detect = Callable[[DataFrame, int, int], DataFrame]     # of messages, the timeout in seconds, and shards


def wheel(messages: DataFrame, timeout_s: int, shards: int) -> DataFrame:
    return detect_idle(messages, "client", "at", timeout_s, shards)


def session(messages: DataFrame, timeout_s: int, shards: int) -> DataFrame:
    return detect_idle(messages, "client", "at", timeout_s, shards, method="session")


def client_timers(messages: DataFrame, timeout_s: int, shards: int) -> DataFrame:
    """A state and a timer for each client; Spark has no use for shards then."""
    stamped = messages.select("client", F.unix_millis("at").alias("at_ms"))
    found = stamped.groupBy("client").transformWithState(
        ClientTimer(timeout_s * 1000), FOUND, "append", "eventTime"
    )
    return found.select(
        "client",
        F.timestamp_millis("first_ms").alias("first_seen"),
        F.timestamp_millis("last_ms").alias("last_seen"),
        F.timestamp_millis("idle_ms").alias("idle_at"),
    )


def one_value(messages: DataFrame, timeout_s: int, shards: int) -> DataFrame:
    with patch.object(sys.modules[detect_idle.__module__], "ShardProcessor", OneValue):
        return wheel(messages, timeout_s, shards)


def measure_idle(detect: Detect, messages: Messages, shards_a_core: int, ground: Ground) -> Sample:
    """Batches of messages, after one that has all started; and what was found."""
    with ground.scratch() as scratch, peak_of_workers() as peak:
        found = detect(_messages(ground, messages), IDLE_S, shards_a_core * ground.cores)
        query = _played(found, scratch, "memory")
        batches = [batch for batch in query.recentProgress if batch["numInputRows"]]
        return Sample(
            seconds=[_seconds(batch) for batch in batches[WARM_UP:]],
            rows=messages.rows,
            seen={"clients": messages.clients} | peak.seen(),
            found=_digest(ground, batches[-1]["eventTime"]["watermark"]),
        )


def measure_growth(detect: Detect, messages: Messages, ground: Ground) -> Sample:
    """Small batches, after one in which each client came. The bytes: put into the store, by Spark's count."""
    with ground.scratch() as scratch:
        found = detect(_messages(ground, messages), NEVER_S, SHARDS_A_CORE * ground.cores)
        first, *batches = (
            batch for batch in _played(found, scratch, "noop").recentProgress if batch["numInputRows"]
        )
        return Sample(
            seconds=[_seconds(batch) for batch in batches[WARM_UP:]],
            rows=messages.rows,
            seen={
                "clients": messages.clients,
                "all pending, KB": _written(first) / 1000,
                "KB a batch": median(map(_written, batches[WARM_UP:])) / 1000,
            },
        )


def _messages(ground: Ground, messages: Messages) -> DataFrame:
    reader = ground.spark.readStream.schema("client string, at timestamp").option("maxFilesPerTrigger", 1)
    return reader.parquet(ground.path(messages)).withWatermark("at", DELAY)


def _played(found: DataFrame, scratch: str, sink: str) -> StreamingQuery:
    """The query, when it has gone through all files, each a batch."""
    writer = found.writeStream.format(sink).queryName("found").outputMode("append")
    writer = writer.option("checkpointLocation", os.path.join(scratch, "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def _digest(ground: Ground, until: str) -> str:
    """The number and a hash of those found before the watermark of the last batch: at and after that,
    some methods tell earlier than others."""
    rows = ground.spark.table("found").where(F.col("idle_at") < F.lit(until).cast("timestamp"))
    columns = ("client", "first_seen", "last_seen", "idle_at")
    mix = F.expr(f"bit_xor(xxhash64({', '.join(columns)}))")
    [(number, mixed)] = rows.agg(F.count("*"), mix).collect()
    return f"{number:,} idle, hash {(mixed or 0) & (2**64 - 1):016x}"


def _seconds(batch: Any) -> float:
    milliseconds: float = batch["durationMs"]["triggerExecution"]
    return milliseconds / 1000


def _written(batch: Any) -> float:
    return float(sum(operator["customMetrics"][WRITTEN] for operator in batch["stateOperators"]))
