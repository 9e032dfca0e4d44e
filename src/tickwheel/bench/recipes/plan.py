"""Which cells there are, and their rows."""
from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from statistics import median

from tickwheel.bench.recipes.cell import Cell
from tickwheel.bench.recipes.sample import FAULTS, Sample, Sizes
from tickwheel.bench.recipes.stories import STORIES
from tickwheel.bench.row import CellRow


class Row(CellRow[Cell, Sample]):
    """What its samples say."""

    __slots__ = ()

    def seen(self, what: str) -> float | None:
        """The median over rounds; of faults the most, for none is one too many."""
        found = [sample.seen[what] for sample in self.samples if what in sample.seen]
        if not found:
            return None
        return max(found) if what in FAULTS else median(found)


def plan(stories: Sequence[str], sizes: Sizes, collectors: Sequence[str]) -> list[Row]:
    """The rows to come, those that one reads together next to one another."""
    return [
        Row(cell, note=obstacle(cell))
        for name in stories
        for story in [STORIES[name]]
        # In real time the collector is as it comes: on, where there is a choice.
        for collector in (collectors if story.collectors else collectors[-1:])
        for contender in story.contenders
        for cell in [Cell(name, contender, collector, sizes)]
    ]


def obstacle(cell: Cell) -> str | None:
    """Why a cell cannot be measured here, in a line; None: it can."""
    package = package_of(cell)
    if package is not None and find_spec(package) is None:
        return f"needs {package}: pip install 'tickwheel[bench]'"
    return None


def package_of(cell: Cell) -> str | None:
    """What the contender needs."""
    return (STORIES[cell.story].needs or {}).get(cell.contender)
