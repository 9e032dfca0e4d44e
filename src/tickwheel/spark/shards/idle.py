"""Keys that fall silent: intervals of activity, each given out once it is over.

What is stored is the intervals that are not over. A row may bridge two of them: then the three are covered by
a new interval, which is appended, and are no longer wanted. Covered ones that are still there change nothing:
to merge is to take a union.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tickwheel.spark.shards.grouping import ascending, begins, encode, running_max, timestamps
from tickwheel.spark.shards.shard import Step


class Idle:
    """In: rows of `key`, `at_us`. Out: `key, first_seen, last_seen, idle_at`, an interval of activity a row.

    Rows of a key less than the timeout apart, or at the same instant, are of one interval. It is over the
    timeout after its last row, `idle_at`; a row at that very instant begins the next.
    """

    logs = ("active",)

    def __init__(self, timeout_us: int) -> None:
        self._timeout_us = timeout_us
        self.settings = f"timeout {timeout_us} us"

    def step(self, stored: Mapping[str, Any], new: Any, since_us: int, until_us: int) -> Step:
        """O(n log n) in the rows stored and new."""
        parts = list(stored.values())
        n_stored = sum(part.num_rows for part in parts)
        if new is not None:
            parts.append(intervals(new["key"], new["at_us"], new["at_us"]))
        rows = pa.concat_tables(parts)
        (codes,), keys = encode(rows["key"])
        first, last = rows["first_us"].to_numpy(), rows["last_us"].to_numpy()

        order = np.lexsort((first, codes))
        code, first, last = codes[order], first[order], last[order]
        reach = running_max(code, last)
        begin = begins(code)
        begin[1:] |= first[1:] - reach[:-1] >= max(self._timeout_us, 1)
        starts = np.flatnonzero(begin)
        firsts, lasts = first[starts], reach[np.append(starts[1:], len(order)) - 1]
        idle_at = lasts + self._timeout_us

        # The stored row that is the whole interval; -1: none is.
        interval = np.cumsum(begin) - 1
        whole = (order < n_stored) & (first == firsts[interval]) & (last == lasts[interval])
        holder = np.full(len(starts), -1)
        holder[interval[whole]] = order[whole]

        active = idle_at > until_us
        wanted = np.zeros(n_stored, bool)
        wanted[holder[active & (holder >= 0)]] = True
        added = active & (holder < 0)
        over = ~active & (idle_at > since_us)
        return Step(
            output=ascending(
                pa.table(
                    {
                        "key": keys.take(pa.array(code[starts[over]])),
                        "first_seen": timestamps(firsts[over]),
                        "last_seen": timestamps(lasts[over]),
                        "idle_at": timestamps(idle_at[over]),
                    }
                ),
                ["idle_at", "key"],
            ),
            wanted={"active": wanted} if n_stored else {},
            added={
                "active": intervals(keys.take(pa.array(code[starts[added]])), firsts[added], lasts[added])
            },
            next_us=int(idle_at[active].min()) if active.any() else None,
        )


def intervals(keys: Any, first_us: Any, last_us: Any) -> Any:
    """Rows of the log."""
    return pa.table({"key": keys, "first_us": first_us, "last_us": last_us})
