"""A cell: a story, a contender, N, GC on or off. Measured in a process of its own:

    python -m tickwheel.bench.dropins.cell ARGUMENTS
"""
from __future__ import annotations

import gc
import json
import os
import sys
from dataclasses import asdict, dataclass

from tickwheel.bench.dropins.sample import Sample
from tickwheel.bench.dropins.stories import STORIES
from tickwheel.bench.process import in_fresh_process

LONGEST_S = 600.0


@dataclass(frozen=True, slots=True)
class Cell:
    story: str
    contender: str
    n: int
    gc: str                 # "on" | "off"

    def measure(self, seed: int) -> Sample:
        """One round. RuntimeError: it failed; the message is its last line."""
        arguments = {"cell": asdict(self), "seed": seed}
        return Sample(**in_fresh_process("tickwheel.bench.dropins.cell", arguments, LONGEST_S))


def measure_here(cell: Cell, seed: int) -> Sample:
    if cell.gc == "off":
        gc.disable()
    return STORIES[cell.story].contenders[cell.contender](cell.n, seed)


def main(argv: list[str]) -> None:
    arguments = json.loads(argv[0])
    json.dump(asdict(measure_here(Cell(**arguments["cell"]), arguments["seed"])), sys.stdout)
    sys.stdout.flush()
    os._exit(0)     # timers that are pending would hold the exit


if __name__ == "__main__":
    main(sys.argv[1:])
