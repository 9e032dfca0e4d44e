"""The designs that a wheel replaces, in plain Python and as well as they can be built.

`HeapTimers` is the textbook binary heap with lazy deletion, `CompactedHeapTimers` the same
with asyncio's and Kafka's answer to the garbage, `SparseTimers` a map of tick -> bucket with
a heap of ticks: buckets as in a wheel, but no wheel. All speak seconds on the monotonic
clock; `turn()` runs what is due.
"""
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from math import ceil
from time import monotonic
from typing import Any

Callback = Callable[[], object]

# [when, sequence number, callback; None once cancelled]
Entry = list[Any]


class HeapTimers:
    """A heap of entries; a cancelled one stays as garbage until its time comes.

    schedule O(log n), cancel O(1), memory of a cancelled timer held until its deadline.
    """

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._next = count().__next__

    def schedule(self, delay: float, callback: Callback) -> Entry:
        entry = [monotonic() + delay, self._next(), callback]
        heappush(self._heap, entry)
        return entry

    def cancel(self, entry: Entry) -> bool:
        if entry[2] is None:
            return False
        entry[2] = None
        return True

    def turn(self) -> None:
        heap = self._heap
        now = monotonic()
        while heap and heap[0][0] <= now:
            entry = heappop(heap)
            callback = entry[2]
            if callback is not None:
                entry[2] = None
                callback()


class CompactedHeapTimers(HeapTimers):
    """As `HeapTimers`, but once more than half of the heap is garbage it is rebuilt without."""

    def __init__(self) -> None:
        super().__init__()
        self._cancelled = 0

    def cancel(self, entry: Entry) -> bool:
        if entry[2] is None:
            return False
        entry[2] = None
        self._cancelled += 1
        if self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2] is not None]
            heapify(self._heap)
            self._cancelled = 0
        return True

    def turn(self) -> None:
        now = monotonic()
        # A callback may cancel, and so replace the heap.
        while self._heap and self._heap[0][0] <= now:
            entry = heappop(self._heap)
            callback = entry[2]
            if callback is None:
                self._cancelled -= 1
            else:
                entry[2] = None
                callback()


class SparseTimer:
    """A handle of `SparseTimers`: its bucket's key and what to call (None: fired or cancelled)."""

    __slots__ = ("callback", "tick")

    def __init__(self, tick: int, callback: Callback) -> None:
        self.tick = tick
        self.callback: Callback | None = callback


class SparseTimers:
    """A map of tick -> bucket, and a heap of the ticks that have one. No wheel.

    schedule O(1) where the tick has a bucket, else O(log ticks); cancel O(1), and the memory
    is free at once. A bucket is a dict used as an ordered set. One that cancellations emptied
    goes at once too; its tick stays in the heap, and is taken back when a bucket comes anew.
    """

    def __init__(self, tick: float = 0.001) -> None:
        self._rate = 1.0 / tick
        self._buckets: dict[int, dict[SparseTimer, None]] = {}
        self._ticks: list[int] = []
        self._queued: set[int] = set()

    def schedule(self, delay: float, callback: Callback) -> SparseTimer:
        tick = ceil((monotonic() + delay) * self._rate)
        timer = SparseTimer(tick, callback)
        bucket = self._buckets.get(tick)
        if bucket is not None:
            bucket[timer] = None
            return timer
        self._buckets[tick] = {timer: None}
        if tick not in self._queued:
            self._queued.add(tick)
            heappush(self._ticks, tick)
        return timer

    def cancel(self, timer: SparseTimer) -> bool:
        if timer.callback is None:
            return False
        timer.callback = None
        bucket = self._buckets.get(timer.tick)
        # None: cancelled by another callback of its tick, while `turn` runs that bucket.
        if bucket is not None:
            bucket.pop(timer, None)
            if not bucket:
                del self._buckets[timer.tick]
        return True

    def turn(self) -> None:
        ticks = self._ticks
        now_tick = int(monotonic() * self._rate)
        while ticks and ticks[0] <= now_tick:
            tick = heappop(ticks)
            self._queued.remove(tick)
            for timer in self._buckets.pop(tick, ()):
                callback = timer.callback
                if callback is not None:
                    timer.callback = None
                    callback()
