"""A row of a benchmark: what is measured, and what its rounds saw."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

CellT = TypeVar("CellT")
SampleT = TypeVar("SampleT")


@dataclass(slots=True)
class CellRow(Generic[CellT, SampleT]):
    """A cell, what its rounds measured, and why there is nothing, if so."""

    cell: CellT
    samples: list[SampleT] = field(default_factory=list)
    note: str | None = None
