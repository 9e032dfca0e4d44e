"""Rows in the order of their times, each with its number in its key's row of rows.

What is stored is the rows that wait for the watermark, and of each key how many have been given out: the
greatest count is the one that counts, those before it are no longer wanted.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tickwheel.spark.shards.grouping import ascending, begins, encode
from tickwheel.spark.shards.shard import Step


class Ordering:
    """In: rows of `columns`, `key` one of them, and `at_us`. Out: `columns, sequence`, every row once.

    `sequence`: int64, 1, 2, 3 ... for each key, without gaps for as long as the state lives. Rows of one
    instant come in the order of `columns`, as far as their types have one; rows equal in all those, in any.
    """

    logs = ("waiting", "counts")

    def __init__(self, key: str, columns: Sequence[str]) -> None:
        self._key = key
        self._columns = list(columns)
        self.settings = f"key {key!r}, columns {self._columns!r}"

    def step(self, stored: Mapping[str, Any], new: Any, since_us: int, until_us: int) -> Step:
        """O(n log n) in the rows given out; those that wait are looked at once."""
        step = Step()
        due = []
        waiting = []
        if "waiting" in stored:
            rows = stored["waiting"]
            at = rows["at_us"].to_numpy()
            step.wanted["waiting"] = at > until_us
            waiting.append(at[at > until_us])
            due.append(rows.filter(pa.array((at > since_us) & (at <= until_us))))
        if new is not None:
            # Named anew: what a batch says of nulls and metadata may differ from what the log says.
            rows = pa.table({name: new[name] for name in [*self._columns, "at_us"]})
            at = rows["at_us"].to_numpy()
            step.added["waiting"] = rows.filter(pa.array(at > until_us))
            waiting.append(at[at > until_us])
            due.append(rows.filter(pa.array(at <= until_us)))
        later = np.concatenate([*waiting, np.zeros(0, np.int64)])
        step.next_us = int(later.min()) if len(later) else None
        counts = stored.get("counts")
        given = pa.concat_tables(due) if due else None
        if given is not None and given.num_rows:
            self._give_out(step, given, counts)
        elif counts is not None:
            step.wanted["counts"] = np.ones(counts.num_rows, bool)  # which count for a key has not changed
        return step

    def _give_out(self, step: Step, rows: Any, counts: Any) -> None:
        rows = ascending(rows, ["at_us", *self._columns])
        if counts is None:
            counts = count_rows(rows[self._key].slice(0, 0), np.zeros(0, np.int64))
        (counted, codes), keys = encode(counts["key"], rows[self._key])
        count = counts["count"].to_numpy()
        before: Any = np.zeros(len(keys), np.int64)
        np.maximum.at(before, counted, count)
        more = np.bincount(codes, minlength=len(keys))
        after = before + more

        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(begins(codes[order]))
        place = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
        sequence: Any = np.empty(len(order), np.int64)
        sequence[order] = before[codes[order]] + place + 1
        step.output = rows.drop_columns("at_us").append_column("sequence", pa.array(sequence))

        fresh = np.flatnonzero(more)
        step.added["counts"] = count_rows(keys.take(pa.array(fresh)), after[fresh])
        if len(counted):
            step.wanted["counts"] = count == after[counted]


def count_rows(keys: Any, counts: Any) -> Any:
    """Rows of the log."""
    return pa.table({"key": keys, "count": counts})
