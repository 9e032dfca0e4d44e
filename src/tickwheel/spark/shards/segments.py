"""A log of rows in segments: what a shard keeps between batches, in bytes that grow with what changes.

A segment is written once and never changed. Which of its rows are still wanted is not stored: who owns the
log finds that out anew from the rows each time. So a batch writes the rows it adds, and no others, but for
a share that cleans up:

    - a segment without wanted rows is removed;
    - one with fewer than half of SEGMENT_ROWS is *loose*; as soon as there are more than MOST_LOOSE of them,
      their wanted rows are written anew together.

Hence at most twice the wanted rows and MOST_LOOSE segments are stored, and however much is pending, batches
write over time at most twice what they add, a row for each that is no longer wanted, and some SEGMENT_ROWS /
MOST_LOOSE each. One at which many rows cease to be wanted may write their neighbours at once. Source: the
cleaning of Rosenblum and Ousterhout's log-structured file system, with the greedy choice.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tickwheel.spark.shards.packing import from_bytes, to_bytes

MAGIC = b"segment"      # and a byte of version: Arrow's buffers, which come after, stay aligned to 8
VERSION = 1
SEGMENT_ROWS = 2048
MOST_LOOSE = 16


class Store(Protocol):
    """Where segments are: numbered bytes."""

    def items(self) -> Iterable[tuple[int, bytes]]: ...

    def put(self, number: int, data: bytes) -> None: ...

    def remove(self, number: int) -> None: ...


class Segments:
    """The log in a store, read whole when it is made. O(rows stored).

    `rows`: all rows, those no longer wanted among them; None where there are none.
    ValueError: segments of another version, or not segments at all.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        stored = sorted(store.items())
        tables = [decode(data) for _, data in stored]
        self._numbers = np.array([number for number, _ in stored], np.int64)
        self._starts = np.cumsum([0, *(table.num_rows for table in tables)])[:-1]
        self.rows: Any = pa.concat_tables(tables) if tables else None

    def save(self, wanted: Any, added: Any) -> None:
        """Keep the rows of the mask `wanted` and the table `added` (None: nothing)."""
        fresh = [] if added is None or added.num_rows == 0 else [added]
        next_number = 0
        if self.rows is not None:
            next_number = int(self._numbers[-1]) + 1
            counts = np.add.reduceat(wanted, self._starts, dtype=np.int64)
            loose = (counts > 0) & (counts < SEGMENT_ROWS // 2)
            gone = counts == 0
            if np.count_nonzero(loose) > MOST_LOOSE:
                moved = wanted & np.repeat(loose, np.diff([*self._starts, self.rows.num_rows]))
                fresh.insert(0, self.rows.filter(pa.array(moved)))
                gone |= loose
            for number in self._numbers[gone]:
                self._store.remove(int(number))
        if fresh:
            rows = pa.concat_tables(fresh)
            for number, start in enumerate(range(0, rows.num_rows, SEGMENT_ROWS), next_number):
                self._store.put(number, encode(rows.slice(start, SEGMENT_ROWS)))


def encode(rows: Any) -> bytes:
    """A table as versioned bytes."""
    return MAGIC + bytes([VERSION]) + to_bytes(rows)


def decode(data: bytes) -> Any:
    """The table of `encode`. ValueError: another version, or not such bytes."""
    head = len(MAGIC)
    if data[:head] != MAGIC:
        raise ValueError(f"a segment must begin with {MAGIC!r}, got {bytes(data[:head])!r}")
    if data[head : head + 1] != bytes([VERSION]):
        raise ValueError(f"a segment must be of version {VERSION}, got {list(data[head : head + 1])}")
    try:
        rows = from_bytes(pa.py_buffer(data)[head + 1 :])
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"a segment must be whole, got {len(data)} bytes: {error}") from None
    if rows.num_rows == 0:
        raise ValueError(f"a segment must have rows, got none in {len(data)} bytes")
    return rows
