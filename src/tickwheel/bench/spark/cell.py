"""A cell: a story, a contender, so many rows. Measured in a process, and with a session, of its own:

    python -m tickwheel.bench.spark.cell ARGUMENTS
"""
from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession

from tickwheel.bench.process import in_fresh_process
from tickwheel.bench.spark.ground import Ground, Sample
from tickwheel.bench.spark.inputs import write_missing
from tickwheel.bench.spark.stories import STORIES
from tickwheel.spark.session import local_session
from tickwheel.spark.streaming import PROVIDER, ROCKSDB

LONGEST_S = 1800.0
MODULE = "tickwheel.bench.spark.cell"


@dataclass(frozen=True, slots=True)
class Cell:
    story: str
    contender: str
    rows: int               # of the whole run: a story takes its share
    cores: int
    folder: str             # where the files that cells read are, and are put by whoever needs them first

    def measure(self, seed: int) -> Sample:
        """One round. RuntimeError: it failed; the message is its last line. The rows are always the same."""
        if not os.path.exists(ready := os.path.join(self.folder, f"{self.story}.ready")):
            in_fresh_process(MODULE, {"prepare": asdict(self)}, LONGEST_S)
            with open(ready, "x", encoding="ascii"):
                pass
        return Sample(**in_fresh_process(MODULE, {"measure": asdict(self)}, LONGEST_S))


def measure_here(cell: Cell, spark: SparkSession) -> Sample:
    ground = Ground(spark, cell.folder, cell.rows, cell.cores)
    return STORIES[cell.story].contenders[cell.contender](ground)


def prepare_here(cell: Cell, spark: SparkSession) -> None:
    write_missing(spark, cell.folder, STORIES[cell.story].inputs(cell.rows, cell.cores))


ACTS: dict[str, Callable[[Cell, SparkSession], Sample | None]] = {
    "measure": measure_here,
    "prepare": prepare_here,
}


def main(argv: list[str]) -> None:
    [(act, arguments)] = json.loads(argv[0]).items()
    cell = Cell(**arguments)
    result: dict[str, Any] = {}
    try:
        with local_session(f"local[{cell.cores}]", "bench spark", {PROVIDER: ROCKSDB}) as spark:
            if sample := ACTS[act](cell, spark):
                result = asdict(sample)
    except ValueError as error:
        sys.exit(" ".join(str(error).splitlines()))     # what Spark says, in a line
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
