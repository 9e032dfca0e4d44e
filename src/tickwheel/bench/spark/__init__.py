"""The pipeline on Spark, measured: each step beside the ways that a user would otherwise take.

    inputs      the files that cells read: requests in shards, clients' messages in batches; made before
    ground      what a cell stands on: a session, its files, the cores; repeated runs
    memory      the peak memory of Python's workers
    requests    generate, replay, tune: a batch job over files of requests
    clients     detect_idle: a stream of clients' messages, batch by batch
    peers       what is compared with it: a state and a timer for each client, a shard's state as one value
    stories     all that is measured: the stories, each with its contenders
    cell        a story, a contender, so many rows: in a process, and a session, of its own
    plan        which cells there are, and their rows
    results     what the rows say together, and what became of the promises

All of these need pyspark and Java: see `java_version` first.
"""
from __future__ import annotations

from tickwheel.extras import require
from tickwheel.spark.session import check_java


def java_version() -> str:
    """Java's. MissingExtra, `bench spark needs ...`: it is not there, or pyspark is not."""
    require("pyspark.sql", "bench spark", extra="spark")
    return check_java("bench spark")
