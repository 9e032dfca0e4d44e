"""What comes out of a stream, as a table: each client's events in their order. Needs numpy and pyarrow.

An outcome has a row for each event that was passed on: `client_id`, its `sequence` (1, 2, 3 ... for each
client, as they were processed) and its `uuid` in 16 bytes. Two are compared row by row; and each is looked
at by itself, beside the deliveries, since two might be wrong in the same way.
"""
from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tickwheel.bench.kata.stream import Delivery

OUTCOME = pa.schema([("client_id", pa.int64()), ("sequence", pa.int64()), ("uuid", pa.binary())])


@dataclass(frozen=True, slots=True)
class Played:
    """An outcome, and how long it took to get there."""

    outcome: Any
    seconds: float


@dataclass(frozen=True, slots=True)
class Check:
    """What an outcome has that it should not have."""

    violations: int     # rows not numbered next after their client's row before, or new and older than that
    repeated: int       # rows whose event is in a row before
    lost: int           # events in no row
    unknown: int        # rows of no event, or of another client's


def outcome_of(events: Mapping[Hashable, Sequence[bytes]]) -> Any:
    """The outcome in which the clients' uuids were processed in the order given. Clients are numbers."""
    counts = np.array([len(uuids) for uuids in events.values()], np.int64)
    ends = np.cumsum(counts)
    return pa.table(
        {
            "client_id": np.repeat(np.fromiter(events, np.int64, len(events)), counts),
            "sequence": np.arange(1, counts.sum() + 1) - np.repeat(ends - counts, counts),
            "uuid": [uuid for uuids in events.values() for uuid in uuids],
        },
        OUTCOME,
    )


def check(outcome: Any, due: Sequence[Delivery]) -> Check:
    """`outcome` beside what was delivered; how it came about does not matter. O(n log n)."""
    events = {delivery.uuid.bytes: delivery for delivery in due}
    of_event = pc.index_in(outcome["uuid"], pa.array(events.keys(), pa.binary()))
    found = of_event.is_valid().to_numpy()
    places = of_event.fill_null(0).to_numpy()
    owners = np.fromiter((event.client_id for event in events.values()), np.int64, len(events))
    created = np.fromiter((event.created_s for event in events.values()), float, len(events))
    clients, sequence = outcome["client_id"].to_numpy(), outcome["sequence"].to_numpy()
    known = found.copy()
    known[found] = owners[places[found]] == clients[found]
    places, clients, sequence = places[known], clients[known], sequence[known]

    order = np.lexsort((sequence, clients))
    places, clients, sequence = places[order], clients[order], sequence[order]
    before = np.where(np.diff(clients, prepend=-1) == 0, np.roll(sequence, 1), 0)
    wrong: Any = sequence != before + 1
    # Among those that are there for the first time: a duplicate has its place already.
    first = np.sort(np.unique(places, return_index=True)[1])
    same_client = np.diff(clients[first], prepend=-1) == 0
    wrong[first] |= same_client & (np.diff(created[places[first]], prepend=0.0) < 0)
    return Check(
        violations=int(wrong.sum()),
        repeated=len(places) - len(first),
        lost=len(events) - len(first),
        unknown=int((~known).sum()),
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two outcomes of the same deliveries, by the names of those they came from."""

    deliveries: int
    events: int                     # distinct ones
    played: Mapping[str, Played]
    checks: Mapping[str, Check]
    difference: str | None          # the first row that is not the same in both; None: they agree

    @property
    def problems(self) -> list[str]:
        """In sentences; none where both outcomes are right and the same."""
        found = [f"The outcomes differ: {self.difference}."] if self.difference else []
        for name, seen in self.checks.items():
            if faults := ", ".join(_faults(seen)):
                found.append(f"{name} is wrong: {faults}.")
        return found


def compared(due: Sequence[Delivery], played: Mapping[str, Played]) -> Comparison:
    return Comparison(
        deliveries=len(due),
        events=len({delivery.uuid for delivery in due}),
        played=played,
        checks={name: check(one.outcome, due) for name, one in played.items()},
        difference=difference({name: one.outcome for name, one in played.items()}),
    )


def difference(outcomes: Mapping[str, Any]) -> str | None:
    """The first row that is not the same in both, in words; None: they agree row by row."""
    by_client = [(column, "ascending") for column in OUTCOME.names]
    one, other = (outcome.sort_by(by_client) for outcome in outcomes.values())
    shorter = min(len(one), len(other))
    same: Any = np.ones(shorter, bool)
    for column in OUTCOME.names:
        same &= pc.equal(one[column].slice(0, shorter), other[column].slice(0, shorter)).to_numpy()
    unequal = np.flatnonzero(~same)
    first = int(unequal[0]) if len(unequal) else shorter
    if first == len(one) == len(other):
        return None
    return " and ".join(
        f"{_row(rows, first)} in {name}" for name, rows in zip(outcomes, (one, other), strict=True)
    )


def _row(rows: Any, number: int) -> str:
    if number == len(rows):
        return "nothing more"
    [row] = rows.slice(number, 1).to_pylist()
    return f"client {row['client_id']}, sequence {row['sequence']}, {UUID(bytes=row['uuid'])}"


def _faults(seen: Check) -> Iterator[str]:
    if seen.violations:
        yield f"{seen.violations:,} out of order"
    if seen.repeated:
        yield f"{seen.repeated:,} duplicates passed on"
    if seen.lost:
        yield f"{seen.lost:,} events lost"
    if seen.unknown:
        yield f"{seen.unknown:,} rows of no event of their client"
