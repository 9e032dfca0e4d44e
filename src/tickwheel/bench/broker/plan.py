"""Which cells there are, and their rows."""
from __future__ import annotations

from collections.abc import Sequence

from tickwheel.bench.broker.cell import Cell
from tickwheel.bench.broker.sample import Sample, Setting
from tickwheel.bench.row import CellRow


class Row(CellRow[Cell, Sample]):
    """What its run says."""

    __slots__ = ()

    @property
    def sample(self) -> Sample | None:
        return self.samples[0] if self.samples else None


def plan(rates: Sequence[int], setting: Setting) -> list[Row]:
    """A row a rate, ascending."""
    return [Row(Cell(rate, setting)) for rate in sorted(rates)]
