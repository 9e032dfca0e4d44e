"""What a cell stands on: a session, the files it reads, so many rows; and runs that are repeated."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from pyspark.sql import SparkSession

from tickwheel.bench.spark.inputs import Input

ENOUGH_RUNS = 3         # a run is repeated until so many are done,
ENOUGH_S = 12.0         # or so much time has passed
WARM_UP_SHARE = 100     # of the rows, in the run before


@dataclass(frozen=True, slots=True)
class Sample:
    """What one process measured."""

    seconds: list[float]            # of each run or batch that counts
    rows: int                       # of each
    seen: dict[str, float] = field(default_factory=dict)    # what else there was to see, by its name
    found: str | None = None        # what came out, in a few figures: to be equal where it should be


@dataclass(frozen=True, slots=True)
class Ground:
    spark: SparkSession
    folder: str             # where the inputs are
    rows: int               # of the whole run: a story takes its share
    cores: int

    def path(self, wanted: Input) -> str:
        return os.path.join(self.folder, wanted.name)

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """A folder that is gone when the block ends."""
        with tempfile.TemporaryDirectory(prefix="scratch-", dir=self.folder) as folder:
            yield folder


def timed(run: Callable[[], object], warm_up: Callable[[], object]) -> list[float]:
    """The seconds of some runs, after one over few rows that has the workers started and the JVM's code
    compiled."""
    warm_up()
    seconds: list[float] = []
    while len(seconds) < ENOUGH_RUNS and sum(seconds) < ENOUGH_S:
        begin = perf_counter()
        run()
        seconds.append(perf_counter() - begin)
    return seconds
