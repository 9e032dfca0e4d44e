"""Which cells there are, and their rows."""
from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tickwheel.bench.row import CellRow
from tickwheel.bench.spark.cell import Cell
from tickwheel.bench.spark.ground import Sample
from tickwheel.bench.spark.stories import STORIES


class Row(CellRow[Cell, Sample]):
    """What its samples say."""

    __slots__ = ()

    @property
    def figure(self) -> float | None:
        """Seconds: the median over rounds of the median of each."""
        return median(median(sample.seconds) for sample in self.samples) if self.samples else None

    @property
    def rows_per_s(self) -> float | None:
        return self.samples[0].rows / self.figure if self.figure else None

    def seen(self, what: str) -> float | None:
        """The median over rounds of what was seen beside the time."""
        found = [sample.seen[what] for sample in self.samples if what in sample.seen]
        return median(found) if found else None

    @property
    def found(self) -> set[str]:
        """What came out: one, if all rounds agree."""
        return {sample.found for sample in self.samples if sample.found is not None}


def plan(stories: Sequence[str], rows: int, cores: int, folder: str) -> list[Row]:
    """The rows to come, those that one reads together next to one another."""
    return [
        Row(Cell(name, contender, rows, cores, folder))
        for name in stories
        for contender in STORIES[name].contenders
    ]
