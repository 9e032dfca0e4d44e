"""The files that cells read, made before anything is measured, once for a whole run."""
from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tickwheel.spark import generate_requests

RATE_PER_S = 1000.0         # of the requests
BATCH_S = 20.0              # of event time, that a batch of messages covers
FIRST_US = 1_700_000_000_000_000


class Input(Protocol):
    """A folder of files, named after what is in it."""

    @property
    def name(self) -> str: ...

    def write(self, spark: SparkSession, folder: str) -> None: ...


@dataclass(frozen=True, slots=True)
class RequestFiles:
    """The generated workload as Parquet, a folder `shard=K` for each shard."""

    rows: int
    shards: int
    never: float = 0.0

    @property
    def name(self) -> str:
        return f"requests-{self.rows}-{self.shards}-{self.never:g}"

    def write(self, spark: SparkSession, folder: str) -> None:
        requests = generate_requests(
            spark, self.rows, rate_per_s=RATE_PER_S, never=self.never, n_shards=self.shards
        )
        # Sorted here, since Spark would sort by shard alone and promises no order within it.
        ordered = requests.drop("keys").sortWithinPartitions("shard", "request_id")
        ordered.write.partitionBy("shard").parquet(folder)


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of `clients`, in files for one batch each: columns `client`, a string, and `at`.

    The rows of a batch are of clients drawn at random, in no order, and of BATCH_S seconds that follow
    those of the batch before. `all_first`: before these a batch in which each client has one message.
    """

    clients: int
    rows: int               # of each batch
    batches: int
    all_first: bool = False

    @property
    def name(self) -> str:
        return f"messages-{self.clients}-{self.rows}-{self.batches}-{self.all_first}"

    @property
    def files(self) -> int:
        return self.batches + self.all_first

    def write(self, spark: SparkSession, folder: str) -> None:
        os.mkdir(folder)
        random = np.random.default_rng(self.clients)
        clients = pa.array([f"client-{number:07}" for number in range(self.clients)])
        for number in range(self.files):
            drawn = random.integers(0, self.clients, self.rows)
            if self.all_first and number == 0:
                drawn = random.permutation(self.clients)
            # Whole milliseconds, on which Spark's timers and its watermark stand too.
            at_ms = random.integers(0, int(BATCH_S * 1000), len(drawn)) + int(number * BATCH_S * 1000)
            at = pa.array(FIRST_US + at_ms * 1000, pa.timestamp("us", "UTC"))
            path = os.path.join(folder, f"{number:04}.parquet")
            pq.write_table(pa.table({"client": clients.take(pa.array(drawn)), "at": at}), path)
            # A stream takes its files in the order of their age.
            os.utime(path, (number + 1, number + 1))


def write_missing(spark: SparkSession, folder: str, inputs: Iterable[Input]) -> None:
    """Whatever of the inputs is not in the folder yet, whole or not at all."""
    for wanted in inputs:
        place = os.path.join(folder, wanted.name)
        if not os.path.isdir(place):
            wanted.write(spark, f"{place}.part")
            os.rename(f"{place}.part", place)
