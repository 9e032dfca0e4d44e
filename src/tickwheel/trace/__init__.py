"""Reading requests: when each arrived and when, if ever, it was completed.

    for chunk in Trace("spans.csv.gz", arrival="start_ns", completion="end_ns"):
        chunk.arrivals, chunk.completions      # array('q'), nanoseconds; NEVER: not completed

The whole file is read once, in bounded memory, and no row is dropped in silence: whatever
cannot be read ends with `TraceError`, one line that names file and row. Rows are counted
from 1, the first after the header. A header without rows is a trace without requests.
"""
from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tickwheel.trace.lines import BadFile, BadRow
from tickwheel.trace.rows import read_rows
from tickwheel.units import MAX_NS, MIN_NS, NEVER, UNITS, from_ns, to_ns, unit_of

__all__ = ["Chunk", "Trace", "TraceError"]

CHUNK_ROWS = 1 << 14


class TraceError(ValueError):
    """A trace that cannot be read: file, row, rule and value seen, on one line."""


@dataclass(slots=True)
class Chunk:
    """Consecutive requests; times in nanoseconds. `labels` are row numbers, or the ids asked for."""

    arrivals: array[int] = field(default_factory=lambda: array("q"))
    completions: array[int] = field(default_factory=lambda: array("q"))
    labels: list[int | str] = field(default_factory=list)


class Trace:
    """The requests of a file, in chunks. Arrivals must not go back; an empty completion means never.

    `unit`: of both columns; None: each column's name ends in _ns, _us, _ms or _s.
    `where`: (column, value) pairs that a row must equal to be a request; "" means null or empty.
    `id`: a column that names the requests, instead of their row numbers.
    `latest_ns`: no arrival may be after it, so that its deadline is still a time.
    """

    def __init__(
        self,
        path: str,
        *,
        arrival: str = "arrival_ms",
        completion: str = "completion_ms",
        unit: str | None = None,
        where: Sequence[tuple[str, str]] = (),
        id: str | None = None,
        latest_ns: int = MAX_NS,
    ) -> None:
        self.path = path
        self.arrival = arrival
        self.completion = completion
        self.unit = _unit(unit, arrival)
        self.id = id
        self.fraction = 0.0     # of the file that has been read
        self._completion_unit = _unit(unit, completion)
        self._where = tuple(where)
        self._latest = latest_ns

    def __iter__(self) -> Iterator[Chunk]:
        wanted = tuple(value for _, value in self._where)
        chunk = Chunk()
        previous = MIN_NS
        for row, cells in self._rows():
            if cells[3:] != wanted:
                continue
            arrival = self._time(row, self.arrival, cells[0], self.unit)
            if arrival < previous:
                seen = f"{_shown(cells[0])} after {from_ns(previous, self.unit)}"
                raise self._error(row, f"{self.arrival} must not go back, got {seen}")
            if arrival > self._latest:
                limit = f"{from_ns(self._latest, self.unit)}, to leave room for the timeout in 64 bits"
                raise self._error(row, f"{self.arrival} must be <= {limit}, got {_shown(cells[0])}")
            completion = NEVER
            if cells[1]:
                completion = self._time(row, self.completion, cells[1], self._completion_unit)
                if completion < arrival:
                    rule = f"{self.completion} must not be before {self.arrival}"
                    raise self._error(row, f"{rule}, got {_shown(cells[1])} before {_shown(cells[0])}")
            chunk.arrivals.append(arrival)
            chunk.completions.append(completion)
            chunk.labels.append(row if self.id is None else cells[2])
            previous = arrival
            if len(chunk.labels) == CHUNK_ROWS:
                yield chunk
                chunk = Chunk()
        if chunk.labels:
            yield chunk

    def _rows(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The cells (arrival, completion, id, *where) of each row, numbered."""
        label = self.arrival if self.id is None else self.id
        columns = [self.arrival, self.completion, label, *(name for name, _ in self._where)]
        row = 0
        try:
            with open(self.path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                for row, cells in enumerate(read_rows(file, self.path, columns), 1):
                    yield row, cells
                    if row % CHUNK_ROWS == 0 and size:      # a pipe has no size
                        self.fraction = file.tell() / size
            self.fraction = 1.0
        except BadRow as problem:
            raise self._error(row + 1, str(problem)) from None
        except BadFile as problem:
            raise TraceError(f"{self.path}: {problem}") from None

    def _time(self, row: int, column: str, text: str, unit: str) -> int:
        try:
            return to_ns(text, unit)
        except ValueError as error:
            problem = f"{error}, got {_shown(text)}" if text else "is missing"
            raise self._error(row, f"{column} {problem}") from None

    def _error(self, row: int, problem: str) -> TraceError:
        return TraceError(f"{self.path}, row {row}: {problem}")


def _unit(unit: str | None, column: str) -> str:
    known = unit or unit_of(column)
    if known not in UNITS:
        units = ", ".join(UNITS)
        if unit is None:
            raise ValueError(f"unit must be given unless a column ends in it, as _ms does, got {column!r}")
        raise ValueError(f"unit must be one of {units}, got {unit!r}")
    return known


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "\N{HORIZONTAL ELLIPSIS}")
