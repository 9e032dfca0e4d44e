"""A cell: a story, a contender, GC on or off. Measured in a process of its own:

    python -m tickwheel.bench.recipes.cell ARGUMENTS
"""
from __future__ import annotations

import gc
import json
import os
import sys
from dataclasses import asdict, dataclass

from tickwheel.bench.process import in_fresh_process
from tickwheel.bench.recipes.sample import Sample, Sizes
from tickwheel.bench.recipes.stories import STORIES

LONGEST_S = 1800.0


@dataclass(frozen=True, slots=True)
class Cell:
    story: str
    contender: str
    gc: str                 # "on" | "off"
    sizes: Sizes

    def measure(self, seed: int) -> Sample:
        """One round. RuntimeError: it failed; the message is its last line."""
        arguments = {"cell": asdict(self), "seed": seed}
        return Sample(**in_fresh_process("tickwheel.bench.recipes.cell", arguments, LONGEST_S))


def measure_here(cell: Cell, seed: int) -> Sample:
    if cell.gc == "off":
        gc.disable()
    return STORIES[cell.story].contenders[cell.contender](cell.sizes, seed)


def main(argv: list[str]) -> None:
    arguments = json.loads(argv[0])
    cell = arguments["cell"]
    sample = measure_here(Cell(**cell | {"sizes": Sizes(**cell["sizes"])}), arguments["seed"])
    json.dump(asdict(sample), sys.stdout)
    sys.stdout.flush()
    os._exit(0)     # what is still held need not be torn down one by one


if __name__ == "__main__":
    main(sys.argv[1:])
