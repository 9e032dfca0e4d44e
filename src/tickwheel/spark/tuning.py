"""Files, configurations and a limit in; the choice, and what a page about it draws, out."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tickwheel.spark.choice import recommend
from tickwheel.spark.whatif import Config, replay_files

LARGEST = 8     # shards that are looked at on their own


@dataclass(frozen=True, slots=True)
class Tuning:
    """Of the recommended wheel size and purge interval, or of the least late where none is recommended:
    `lateness` at each tick, which is that of every wheel size, and the largest `shards` at its tick."""

    choices: Sequence[Row]      # the rows of `recommend`, best first
    lateness: Sequence[Row]     # tick_ms, upto_ns, requests: a histogram a tick
    shards: Sequence[Row]       # shard, requests, pending; the largest first


def tune(
    spark: SparkSession,
    paths: Sequence[str],
    configs: Sequence[Config],
    max_p99_lateness_ms: float,
    **columns: Any,
) -> Tuning:
    """The files are read once. `columns`: what `replay_files` is told of them. Errors: those of both."""
    results = replay_files(spark, paths, configs, **columns).cache()
    # The long job. An interrupt comes through `count`; `collect` would talk to the JVM again, and lose it.
    results.count()
    choices = recommend(results, max_p99_lateness_ms).collect()
    first = choices[0]
    alike = results.where(F.col("wheel_size") == first.wheel_size).where(
        F.col("purge_interval").eqNullSafe(first.purge_interval)
    )
    return Tuning(choices, _lateness(alike), _largest(alike.where(F.col("tick_ms") == first.tick_ms)))


def _lateness(results: DataFrame) -> list[Row]:
    buckets = results.select("tick_ms", F.inline("lateness"))
    merged = buckets.groupBy("tick_ms", "upto_ns").agg(F.sum("requests").alias("requests"))
    return list(merged.orderBy("tick_ms", "upto_ns").collect())


def _largest(results: DataFrame) -> list[Row]:
    largest = results.orderBy(F.col("requests").desc(), "shard").limit(LARGEST)
    return list(largest.select("shard", "requests", "pending").collect())
