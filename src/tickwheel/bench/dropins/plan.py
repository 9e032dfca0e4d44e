"""Which cells there are, and their rows."""
from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from statistics import median

from tickwheel.bench.dropins.cell import Cell
from tickwheel.bench.dropins.loops import UVLOOP
from tickwheel.bench.dropins.sample import Sample
from tickwheel.bench.dropins.stories import FEW, STORIES, Story
from tickwheel.bench.row import CellRow


class Row(CellRow[Cell, Sample]):
    """What its samples say."""

    __slots__ = ()

    @property
    def figure(self) -> float | None:
        """The median over rounds."""
        return median(sample.figure for sample in self.samples) if self.samples else None

    @property
    def beside(self) -> int | None:
        seen = sorted(sample.beside for sample in self.samples if sample.beside is not None)
        return seen[len(seen) // 2] if seen else None


def plan(stories: Sequence[str], counts: Mapping[str, int], collectors: Sequence[str]) -> list[Row]:
    """The rows to come, those that one reads together next to one another; `counts` are the Ns, by what
    they count."""
    return [
        Row(cell, note=obstacle(cell))
        for name in stories
        for story in [STORIES[name]]
        # Memory is the same, whether or not the collector runs.
        for collector in (collectors[-1:] if name == "memory" else collectors)
        for contender, n in _contenders(story, counts[story.counted])
        for cell in [Cell(name, contender, n, collector)]
    ]


def _contenders(story: Story, n: int) -> Iterator[tuple[str, int]]:
    for size in sorted({min(n, FEW), n}) if story.few_too else [n]:
        for contender in story.contenders:
            yield contender, min(size, FEW) if contender in story.few else size


def obstacle(cell: Cell) -> str | None:
    """Why a cell cannot be measured here, in a line; None: it can."""
    for package in STORIES[cell.story].needs, UVLOOP if cell.contender == UVLOOP else None:
        if package is not None and find_spec(package) is None:
            return f"needs {package}: pip install 'tickwheel[bench]'"
    if cell.story == "memory" and not os.path.exists("/proc/self/statm"):
        return "resident memory is read from /proc, which this system has not"
    return None
