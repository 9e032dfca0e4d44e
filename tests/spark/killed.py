"""A program that a test kills: both real traces through their streams, each into Parquet with a checkpoint.

    killed.py PLACE     goes on from the checkpoints in PLACE; ends when all the files there are done
"""

import sys
from contextlib import ExitStack
from pathlib import Path

from microbatches import kept
from pyspark.sql import SparkSession

from tickwheel.spark.session import local_session
from tickwheel.spark.streaming import PROVIDER, ROCKSDB, delayed_operations, detect_idle

TIMEOUTS_S = (30, 300, 900)
CLICKS = "client bigint, time timestamp"
STARTS = "id bigint, time timestamp, timeout_ms double"
ENDS = "id bigint, time timestamp"
CLICK_DELAY_S, SPAN_DELAY_S = 60, 2


def source(spark: SparkSession, folder: Path, columns: str, delay_s: int):
    rows = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(str(folder))
    return rows.withWatermark("time", f"{delay_s} seconds")


def streams(spark: SparkSession, place: Path):
    """By name: clients that fell idle, for each timeout, and the outcomes of spans."""
    clicks = source(spark, place / "clicks", CLICKS, CLICK_DELAY_S)
    starts = source(spark, place / "starts", STARTS, SPAN_DELAY_S)
    ends = source(spark, place / "ends", ENDS, SPAN_DELAY_S)
    found = {f"idle-{timeout}": detect_idle(clicks, "client", "time", timeout, 4) for timeout in TIMEOUTS_S}
    return {**found, "spans": delayed_operations(starts, ends, "id", "time", "timeout_ms", 4)}


def main(place: Path) -> None:
    options = {PROVIDER: ROCKSDB, "spark.sql.shuffle.partitions": "2"}
    with local_session("local[2]", "a test", options) as spark, ExitStack() as stack:
        for query in [
            stack.enter_context(kept(frame, place / name)) for name, frame in streams(spark, place).items()
        ]:
            query.processAllAvailable()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
