"""Which tick and wheel size a traffic wants, and what a bad choice costs: Spark SQL over what-if results.

A choice is made by cost, and cost is estimated from counts, so that the same trace always gives the same
answer. The seconds of a core that each counted thing takes were measured once, on two cores of an EPYC
under CPython 3.11; only their proportions matter, and those are much the same elsewhere:

- REQUEST_S: `Timer.schedule` and `cancel`, a million of them.
- WAKEUP_S: the process time of a timer with an inline executor whose 1,000 tasks are 2 ms apart, by wake-up.
- CASCADE_S: 500,000 tasks, 0.1 to 3.9 s ahead, with wheels of 64 buckets and of 32,768: the difference.
- PURGED_S, PASSED_S: a purgatory of 3 keys an operation and 2,000 pending, with purge intervals of 1,000
  and 10,000, beside one without: what it takes more, divided between the requests that the purges took
  out and those that they passed.
"""
from __future__ import annotations

import math
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

CONFIG = ("tick_ms", "wheel_size", "purge_interval")

REQUEST_S = 100e-9
WAKEUP_S = 20e-6
CASCADE_S = 80e-9
PURGED_S = 200e-9
PASSED_S = 100e-9

BUCKET_BYTES = 48       # a list's head, its expiration and its place in the heap
ENDED_BYTES = 256       # an operation that has ended, in the watcher lists until the next purge

NEAR = 1.05             # costs in this proportion are as good as equal


def summarize(results: DataFrame) -> DataFrame:
    """A row a configuration, over all shards of what `replay` or `replay_files` returned. Lazy.

    Columns: tick_ms, wheel_size, purge_interval; shards; requests, completed, expired, wakeups, cascades,
    purges, purged: sums; peak_pending and peak_watched: the greatest of a shard, peak_pending_sum;
    lateness_p50_ms, _p99_ms, _max_ms: of all that expired, by the rule of `tickwheel.metrics.percentile`;
    cascades_per_request; cpu_ns_per_request: of the kernel; memory_bytes: the buckets of one timer that
    its longest timeout needs, and what had ended in the watcher lists; largest_shard: its share of the
    requests; cost_s: the estimate above. Quotients of no requests are null.
    """
    requests = F.sum("requests")
    work = (
        F.col("requests") * REQUEST_S
        + F.col("wakeups") * WAKEUP_S
        + F.col("cascades") * CASCADE_S
        + F.col("purged") * PURGED_S
        + F.col("purges") * (WAKEUP_S + F.col("peak_pending") * PASSED_S)
    )
    ended = F.col("peak_watched") - F.col("peak_pending")
    # In one aggregation: a second look at the results would replay the trace again.
    return (
        results.groupBy(*CONFIG)
        .agg(
            F.count(F.lit(1)).alias("shards"),
            *(F.sum(name).alias(name) for name in ("requests", "completed", "expired")),
            F.max("peak_pending").alias("peak_pending"),
            F.sum("peak_pending").alias("peak_pending_sum"),
            *(F.sum(name).alias(name) for name in ("wakeups", "cascades", "purges", "purged")),
            F.max("peak_watched").alias("peak_watched"),
            F.max("lateness_max_ms").alias("lateness_max_ms"),
            (F.max("requests") / F.nullif(requests, F.lit(0))).alias("largest_shard"),
            (F.sum("cascades") / F.nullif(requests, F.lit(0))).alias("cascades_per_request"),
            (F.sum("cpu_s") * 1e9 / F.nullif(requests, F.lit(0))).alias("cpu_ns_per_request"),
            F.max(F.when(F.col("purge_interval").isNotNull(), ended)).alias("ended"),
            F.max("timeout_max_ms").alias("timeout_max_ms"),
            F.sum(work).alias("cost_s"),
            F.sort_array(F.flatten(F.collect_list("lateness"))).alias("lateness"),
        )
        .select(
            *CONFIG, "shards", "requests", "completed", "expired", "peak_pending", "peak_pending_sum",
            "wakeups", "cascades", "cascades_per_request", "purges", "purged", "peak_watched",
            _percentile_ms(0.5).alias("lateness_p50_ms"),
            _percentile_ms(0.99).alias("lateness_p99_ms"),
            "lateness_max_ms", "largest_shard", "cpu_ns_per_request",
            _memory_bytes().alias("memory_bytes"),
            "cost_s",
        )
    )


def recommend(results: DataFrame, max_p99_lateness_ms: float) -> DataFrame:
    """The summary of `results`, best first, and of each configuration whether to take it. Lazy.

    `meets`: its p99 lateness is within the limit. `recommended`: true of one, or of none where none meets.
    `cost_ratio`: its cost to the recommended one's. `why`: in words. Among those that meet, the cheapest
    is recommended; of those within 5 % of it, the one with the least memory, then with the coarsest tick:
    no giant wheel wins by a few cascades. Where none meets, the least late comes first.
    ValueError: a limit that is no number >= 0.
    """
    limit = float(max_p99_lateness_ms)
    if not 0 <= limit < math.inf:
        raise ValueError(f"max_p99_lateness_ms must be >= 0, got {max_p99_lateness_ms}")
    cost, memory, late = F.col("cost_s"), F.col("memory_bytes"), F.col("lateness_p99_ms")
    meets, near, recommended = F.col("meets"), F.col("near"), F.col("recommended")
    coarsest = [F.col("tick_ms").desc(), F.col("wheel_size"), F.col("purge_interval").asc_nulls_first()]
    everyone = Window.partitionBy(F.lit(0))     # a few rows; without a key Spark would warn
    best = everyone.orderBy(near.desc(), memory, *coarsest)
    ratio, larger = F.col("cost_ratio"), memory / F.max(F.when(recommended, memory)).over(everyone)
    why = (
        F.when(~meets, F.format_string(f"p99 lateness of %s ms is over {limit:g} ms", late))
        .when(recommended & (cost == F.col("least")), F.lit("the least cost of those that meet the limit"))
        .when(recommended, F.lit("the least memory of those within 5 % of the least cost"))
        .when(~near, F.format_string("costs %.2f times as much", ratio))
        .when(larger > 1, F.format_string("costs as much, but takes %.1f times the memory", larger))
        .otherwise(F.lit("costs and takes as much"))
    )
    return (
        summarize(results)
        .withColumn("meets", late <= limit)
        .withColumn("least", F.min(F.when(meets, cost)).over(everyone))
        .withColumn("near", meets & (cost <= F.col("least") * NEAR))
        .withColumn("recommended", near & (F.row_number().over(best) == 1))
        .withColumn("cost_ratio", _ratio(cost, F.max(F.when(recommended, cost)).over(everyone)))
        .withColumn("why", why)
        .orderBy(recommended.desc(), meets.desc(), F.when(meets, cost).otherwise(late), memory, *coarsest)
        .drop("least", "near")
    )


def _percentile_ms(q: float) -> Column:
    """Through the merged histogram until it has counted so many: the edge of that bucket."""
    rank = F.greatest(F.lit(1), F.ceil(F.round(F.col("expired") * q, 6)))
    edge = F.aggregate("lateness", _counted(F.lit(0), F.lit(0)), lambda so_far, bucket: _counted(
        so_far["seen"] + bucket["requests"],
        F.when(so_far["seen"] >= rank, so_far["upto_ns"]).otherwise(bucket["upto_ns"]),
    ))["upto_ns"]
    return F.least(edge / 1e6, F.col("lateness_max_ms"))


def _counted(seen: Column, upto_ns: Column) -> Column:
    return F.struct(seen.cast("bigint").alias("seen"), upto_ns.cast("bigint").alias("upto_ns"))


def _memory_bytes() -> Column:
    """Of the fewest levels that surely reach the longest timeout, and of what ended and was not purged yet.

    A level's time lags behind the clock by less than the span of a bucket of it.
    """
    size = F.col("wheel_size")
    reach = F.ceil(F.round(F.col("timeout_max_ms") * 1e6) / F.round(F.col("tick_ms") * 1e6))

    def covers(level: Column) -> Column:
        return F.pow(size, level) - F.pow(size, level - 1) > reach

    levels = F.element_at(F.filter(F.sequence(F.lit(1), F.lit(64)), covers), 1)
    return levels * size * BUCKET_BYTES + F.greatest(F.lit(0), F.col("ended")) * ENDED_BYTES


def _ratio(cost: Column, best: Any) -> Column:
    """Two traces without requests cost the same."""
    return F.when(best == 0, 1.0).otherwise(cost / best)
