"""The kata's stream through `tickwheel.spark`: files in the order of delivery, each batch some of them.

    files -> dedup_within(uuid) -> in_order(client_id) -> files

The event time is when an event was *created*, which is the same each time that it is delivered. The watermark
is the window, 10 s, behind the latest creation. What is delivered again within less than that is not behind
it, so it is not late, and its id is still remembered: it is dropped for what it is. And once the watermark
has passed an event, no earlier one of its client can come: it has its number for good.
"""
from __future__ import annotations

import os
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tickwheel.bench.kata.outcome import OUTCOME, Played
from tickwheel.bench.kata.stream import WINDOW_S, Delivery
from tickwheel.spark.streaming import dedup_within, in_order

BATCH_ROWS = 100_000
FILES_A_BATCH = 4       # a topic's partitions, say
SHARDS_A_CORE = 4
START_S = 1_700_000_000     # since the epoch, where the stream begins
CLOSING_CLIENT = -1         # of the row after the end, which decides all before it and is no event
EVENTS = pa.schema([
    ("client_id", pa.int64()), ("uuid", pa.binary()), ("created", pa.timestamp("us", "UTC")),
])
SCHEMA = "client_id bigint, uuid binary, created timestamp"
ROWS = "client_id bigint, sequence bigint, uuid binary"


def play(
    due: Sequence[Delivery], spark: SparkSession, folder: str, *, batch_rows: int = BATCH_ROWS
) -> Played:
    """The outcome of the deliveries; their order matters only as far as the watermark lets none be late.

    `folder` is empty, and on this machine, as the session is; its state store is RocksDB. The seconds are the
    query's, from its start to its end: the files are there before.
    """
    arrivals, results, checkpoint = (os.path.join(folder, name) for name in ("in", "out", "checkpoint"))
    write(due, arrivals, -(-batch_rows // FILES_A_BATCH))
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", FILES_A_BATCH)
    writer = once_in_order(reader.parquet(f"file://{arrivals}")).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", f"file://{checkpoint}").trigger(availableNow=True)
    begin = perf_counter()
    writer.start(f"file://{results}").awaitTermination()
    seconds = perf_counter() - begin
    return Played(spark.read.schema(ROWS).parquet(f"file://{results}").toArrow().cast(OUTCOME), seconds)


def once_in_order(events: DataFrame) -> DataFrame:
    """A stream of EVENTS as an outcome."""
    cores = int(events.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    once = dedup_within(events, ["uuid"], "created", WINDOW_S)
    ordered = in_order(once, "client_id", "created", n_shards=SHARDS_A_CORE * cores)
    return ordered.where(F.col("client_id") != CLOSING_CLIENT).select(*OUTCOME.names)


def write(due: Sequence[Delivery], folder: str, file_rows: int) -> None:
    """The deliveries as files, with the closing row in the last one."""
    os.mkdir(folder)
    end_s = max((delivery.created_s for delivery in due), default=0.0)
    # A second more than the window: the watermark is in whole milliseconds, and has to pass the last event.
    closing = (CLOSING_CLIENT, bytes(16), end_s + WINDOW_S + 1)
    rows = [(delivery.client_id, delivery.uuid.bytes, delivery.created_s) for delivery in due] + [closing]
    for number, start in enumerate(range(0, len(rows), file_rows)):
        path = os.path.join(folder, f"{number:06}.parquet")
        pq.write_table(_table(rows[start : start + file_rows]), path)
        # A stream takes its files in the order of their age.
        os.utime(path, (number + 1, number + 1))


def _table(rows: Sequence[tuple[int, bytes, float]]) -> Any:
    clients, uuids, created = zip(*rows, strict=True)
    created_us = [START_S * 10**6 + round(created_s * 1e6) for created_s in created]
    return pa.table([clients, uuids, pa.array(created_us, EVENTS.field("created").type)], schema=EVENTS)
