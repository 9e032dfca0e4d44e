"""Keys as numbers, so that rows are grouped, looked up and sorted as arrays."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tickwheel.spark.shards.shard import NEVER_US

FOREVER_US = 2**63 - 1


def encode(*columns: Any) -> tuple[list[Any], Any]:
    """Of each column the codes of its keys, 0, 1, 2 ..., and the keys by code. Equal keys have the same, in
    whatever column; null is a key like others. O(rows)."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    encoded = pa.chunked_array(chunks, columns[0].type).combine_chunks().dictionary_encode("encode")
    codes = encoded.indices.to_numpy().astype(np.int64)
    return np.split(codes, np.cumsum([len(column) for column in columns])[:-1]), encoded.dictionary


def begins(groups: Any) -> Any:
    """The mask of the first row of each group; those of a group stand together."""
    return np.append(True, groups[1:] != groups[:-1])[: len(groups)]


def running_max(groups: Any, values: Any) -> Any:
    """The greatest of each value and those before it in its group. O(n log(rows of the greatest group))."""
    greatest = values.copy()
    shift = 1
    while (same := groups[shift:] == groups[:-shift]).any():
        before = np.where(same, greatest[:-shift], NEVER_US)
        np.maximum(greatest[shift:], before, out=greatest[shift:])
        shift *= 2
    return greatest


class Earliest:
    """Looks up of each group the least time at or after another. O(n log n) to make, O(log n) a look."""

    def __init__(self, groups: Any, times: Any, n_groups: int) -> None:
        order = np.argsort(times, kind="stable")
        self._times = times[order]
        # One number holds group and time: the time as its place among all times, so that it fits.
        self._span = len(times) + 1
        self._slots: Any = np.append(np.sort(groups[order] * self._span + np.arange(len(times))), FOREVER_US)
        self._some = np.bincount(groups, minlength=n_groups) > 0

    def from_on(self, groups: Any, since_us: Any) -> Any:
        """The times; FOREVER_US where there is none."""
        found = np.full(len(groups), FOREVER_US)
        asked = np.flatnonzero(self._some[groups])
        places = np.searchsorted(self._times, since_us[asked])
        slots = self._slots[np.searchsorted(self._slots, groups[asked] * self._span + places)]
        hit = slots // self._span == groups[asked]
        found[asked[hit]] = self._times[slots[hit] % self._span]
        return found


def timestamps(micros: Any, absent: Any = None) -> Any:
    """int64 microseconds since the epoch as Arrow's instants, null where the mask says so."""
    return pa.array(micros, pa.int64(), mask=absent).cast(pa.timestamp("us", "UTC"))


def ascending(rows: Any, names: Sequence[str]) -> Any:
    """The table sorted by the columns, those left out whose type has no order; null is last. Stable."""
    keys = [(name, "ascending") for name in names if has_order(rows[name].type)]
    rows = rows.combine_chunks()
    return rows.take(pc.sort_indices(rows, sort_keys=keys)) if keys else rows


def has_order(arrow_type: Any) -> bool:
    """Whether Arrow sorts by columns of this type."""
    is_a = pa.types
    return not (is_a.is_nested(arrow_type) or is_a.is_dictionary(arrow_type) or is_a.is_interval(arrow_type))
