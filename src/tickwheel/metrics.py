"""What a timer and a replay report about themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tickwheel._reference.histogram import upper_edge


def percentile(counts: Sequence[int], q: float, maximum: int) -> int:
    """The value below which the share `q` of a lateness histogram lies, by nearest rank.

    Upper edge of its bucket, so never too small and at most 1/64 too great; never above
    `maximum`, the greatest value that was counted. 0 for an empty histogram.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"q must be between 0 and 1, got {q}")
    # Rounded first: 0.07 * 100 is a little more than 7.
    rank = max(1, math.ceil(round(q * sum(counts), 6)))
    seen = 0
    for index, count in enumerate(counts):
        seen += count
        if seen >= rank:
            return min(upper_edge(index), maximum)
    return 0


class TimerStats(NamedTuple):
    """What a timer has done so far. At every moment, scheduled = fired + cancelled + pending + what
    `close()` returned; a periodic task counts one scheduling a run."""

    pending: int  # PENDING and QUEUED
    scheduled: int
    fired: int
    cancelled: int
    errors: int  # callbacks that raised
    wakeups: int  # of the reaper; with start=False, calls of advance_clock that found an expired bucket
    lateness_p50: float  # seconds from `when` to the start of the callback
    lateness_p99: float
    lateness_max: float


class PurgatoryStats(NamedTuple):
    """What a purgatory has done so far. Each operation that it accepted is completed, expired or dropped,
    once, or still waits."""

    watched: int  # (operation, key) pairs in the lists
    delayed: int  # operations that wait for their timeout
    completed: int  # by an event, or because they could be at once
    expired: int  # by their timeout
    dropped: int  # cancelled, or handed back by `cancel_for_key` or `close`
    errors: int  # callbacks that raised
    purged: int  # pairs that purges took out
    purges: int
    lateness_p50: float  # seconds from `when` to the expiry
    lateness_p99: float
    lateness_max: float
