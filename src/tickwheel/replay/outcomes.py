"""What became of each request, in the order of the trace, and written to a file."""
from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal

from tickwheel.extras import require
from tickwheel.output import whole_file, whole_text
from tickwheel.trace import Chunk
from tickwheel.units import NEVER, UNITS, from_ns

UNDECIDED = -(2**63)


@dataclass(slots=True)
class Outcomes:
    """Consecutive requests that are decided; `fires`: nanoseconds, NEVER for a completed one."""

    labels: list[int | str] = field(default_factory=list)
    arrivals: array[int] = field(default_factory=lambda: array("q"))
    completions: array[int] = field(default_factory=lambda: array("q"))
    fires: array[int] = field(default_factory=lambda: array("q"))


class RowOrder:
    """Decisions in, outcomes out in the order of the rows.

    A decision is held back while an earlier request is pending: at most the requests that
    arrive within one timeout and a tick are held.
    """

    def __init__(self) -> None:
        self._window = Outcomes()
        self._first = 0         # sequence number of the window's first request

    def feed(self, chunk: Chunk) -> None:
        """Requests that decisions will be about."""
        self._window.labels += chunk.labels
        self._window.arrivals += chunk.arrivals
        self._window.completions += chunk.completions
        self._window.fires += array("q", [UNDECIDED]) * len(chunk.labels)

    def decide(self, rows: Sequence[int], fires: Sequence[int]) -> Outcomes:
        """The kernel's decisions; returns those requests that no pending one holds back any more."""
        window, first = self._window, self._first
        for row, fire in zip(rows, fires, strict=True):
            window.fires[row - first] = fire
        try:
            ready = window.fires.index(UNDECIDED)
        except ValueError:
            ready = len(window.fires)
        self._first += ready
        self._window = Outcomes(
            window.labels[ready:], window.arrivals[ready:], window.completions[ready:], window.fires[ready:]
        )
        return Outcomes(
            window.labels[:ready], window.arrivals[:ready], window.completions[:ready], window.fires[:ready]
        )


Write = Callable[[Outcomes], None]


@contextmanager
def outcome_file(path: str, *, id: str | None, unit: str) -> Iterator[Write]:
    """A function that writes outcomes to `path`: Parquet if it ends in .parquet, else CSV (.gz by its name).

    One row a request: its row number or its `id`, `outcome` (completed or expired) and
    `fire_<unit>`, exact, empty where it completed. Whole or not at all.
    """
    label = "row" if id is None else id
    columns = (label, "outcome", f"fire_{unit}")
    if label in columns[1:]:
        raise ValueError(f"id must not be named like another column of the outcomes, got {id!r}")
    packed = path.endswith(".parquet")
    with _parquet(path, columns, id, unit) if packed else _csv(path, columns, unit) as write:
        yield write


@contextmanager
def _csv(path: str, columns: Sequence[str], unit: str) -> Iterator[Write]:
    with whole_text(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        yield lambda outcomes: writer.writerows(
            (label, "completed", "") if fire == NEVER else (label, "expired", from_ns(fire, unit))
            for label, fire in zip(outcomes.labels, outcomes.fires, strict=True)
        )


@contextmanager
def _parquet(path: str, columns: Sequence[str], id: str | None, unit: str) -> Iterator[Write]:
    pyarrow = require("pyarrow", "writing Parquet")
    parquet = require("pyarrow.parquet", "writing Parquet")
    places = len(str(UNITS[unit])) - 1
    types = (
        pyarrow.int64() if id is None else pyarrow.string(),
        pyarrow.string(),
        pyarrow.decimal128(19, places) if places else pyarrow.int64(),
    )
    schema = pyarrow.schema(list(zip(columns, types, strict=True)))
    number = Decimal if places else int

    def write(outcomes: Outcomes) -> None:
        names = ["completed" if fire == NEVER else "expired" for fire in outcomes.fires]
        fires = [None if fire == NEVER else number(from_ns(fire, unit)) for fire in outcomes.fires]
        writer.write_batch(pyarrow.record_batch([outcomes.labels, names, fires], schema=schema))

    with whole_file(path) as file, parquet.ParquetWriter(file, schema) as writer:
        yield write
