"""What a row must be to be a request: the rules, written once, for rows whose cells are text."""
from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tickwheel.units import MAX_NS, NEVER, UNITS, from_ns, to_ns, unit_of

CHUNK_ROWS = 1 << 14


class BadRequest(Exception):
    """A row that cannot be a request: its number, and what is wrong."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(row, problem)
        self.row = row
        self.problem = problem


@dataclass(slots=True)
class Chunk:
    """Consecutive requests; times in nanoseconds. `labels` are row numbers, or the ids asked for.

    `timeouts`: as long as the others where the trace has a column of them, else None.
    """

    arrivals: array[int] = field(default_factory=lambda: array("q"))
    completions: array[int] = field(default_factory=lambda: array("q"))
    labels: Sequence[int | str] = field(default_factory=list)
    timeouts: array[int] | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows are requests, which columns hold their times, and in which units."""

    arrival: str
    completion: str
    timeout: str | None
    arrival_unit: str
    completion_unit: str
    timeout_unit: str
    where: tuple[tuple[str, str], ...]
    id: str | None
    id_required: bool
    latest_ns: int

    @classmethod
    def of(
        cls,
        *,
        arrival: str,
        completion: str,
        timeout: str | None = None,
        unit: str | None = None,
        where: Iterable[tuple[str, str]] = (),
        id: str | None = None,
        id_required: bool = False,
        latest_ns: int = MAX_NS,
    ) -> Wanted:
        """As `Trace` takes them. ValueError: a unit that neither `unit` nor the column's name tells."""
        return cls(
            arrival=arrival,
            completion=completion,
            timeout=timeout,
            arrival_unit=_unit(unit, arrival),
            completion_unit=_unit(unit, completion),
            timeout_unit=_unit(unit, arrival if timeout is None else timeout),
            where=tuple(where),
            id=id,
            id_required=id_required,
            latest_ns=latest_ns,
        )

    @property
    def times(self) -> list[tuple[str, str]]:
        """The columns of arrivals, completions and, if there is one, timeouts, each with its unit."""
        times = [(self.arrival, self.arrival_unit), (self.completion, self.completion_unit)]
        return times if self.timeout is None else [*times, (self.timeout, self.timeout_unit)]

    @property
    def columns(self) -> list[str]:
        """The columns of a row's cells, in the order in which `requests` takes them."""
        others = [self.arrival if name is None else name for name in (self.timeout, self.id)]
        return [self.arrival, self.completion, *others, *(name for name, _ in self.where)]


def requests(
    rows: Iterable[tuple[int, tuple[str, ...]]], wanted: Wanted, previous: int
) -> Iterator[Chunk]:
    """The numbered rows that are wanted, in full chunks but the last; `previous`: the arrival before them.

    BadRequest: the first row that breaks a rule. Rows that are not wanted may hold anything.
    """
    values = tuple(value for _, value in wanted.where)
    chunk, labels = _begun(wanted)
    for row, cells in rows:
        if cells[4:] != values:
            continue
        arrival = _time(row, wanted.arrival, cells[0], wanted.arrival_unit)
        if arrival < previous:
            seen = f"{_shown(cells[0])} after {from_ns(previous, wanted.arrival_unit)}"
            raise BadRequest(row, f"{wanted.arrival} must not go back, got {seen}")
        if chunk.timeouts is None:
            deadline = arrival
        else:
            timeout = _time(row, str(wanted.timeout), cells[2], wanted.timeout_unit)
            if timeout < 0:
                raise BadRequest(row, f"{wanted.timeout} must be >= 0, got {_shown(cells[2])}")
            chunk.timeouts.append(timeout)
            deadline = arrival + timeout
        if deadline > wanted.latest_ns:
            raise BadRequest(row, _too_late(wanted, cells))
        completion = NEVER
        if cells[1]:
            completion = _time(row, wanted.completion, cells[1], wanted.completion_unit)
            if completion < arrival:
                rule = f"{wanted.completion} must not be before {wanted.arrival}"
                raise BadRequest(row, f"{rule}, got {_shown(cells[1])} before {_shown(cells[0])}")
        if wanted.id_required and not cells[3]:
            raise BadRequest(row, f"{wanted.id} is missing")
        chunk.arrivals.append(arrival)
        chunk.completions.append(completion)
        labels.append(row if wanted.id is None else cells[3])
        previous = arrival
        if len(labels) == CHUNK_ROWS:
            yield chunk
            chunk, labels = _begun(wanted)
    if labels:
        yield chunk


def _unit(unit: str | None, column: str) -> str:
    known = unit or unit_of(column)
    if known not in UNITS:
        units = ", ".join(UNITS)
        if unit is None:
            raise ValueError(f"unit must be given unless a column ends in it, as _ms does, got {column!r}")
        raise ValueError(f"unit must be one of {units}, got {unit!r}")
    return known


def _begun(wanted: Wanted) -> tuple[Chunk, list[int | str]]:
    labels: list[int | str] = []
    return Chunk(labels=labels, timeouts=None if wanted.timeout is None else array("q")), labels


def _too_late(wanted: Wanted, cells: tuple[str, ...]) -> str:
    limit = from_ns(wanted.latest_ns, wanted.arrival_unit)
    rule = f"must be <= {limit}, to leave room for the timeout in 64 bits"
    if wanted.timeout is None:
        return f"{wanted.arrival} {rule}, got {_shown(cells[0])}"
    return f"{wanted.arrival} + {wanted.timeout} {rule}, got {_shown(cells[0])} and {_shown(cells[2])}"


def _time(row: int, column: str, text: str, unit: str) -> int:
    try:
        return to_ns(text, unit)
    except ValueError as error:
        problem = f"{error}, got {_shown(text)}" if text else "is missing"
        raise BadRequest(row, f"{column} {problem}") from None


def _shown(text: str) -> str:
    """A value for a message, not longer than it needs to be."""
    return repr(text if len(text) <= 40 else text[:39] + "\N{HORIZONTAL ELLIPSIS}")
