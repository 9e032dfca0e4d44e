"""Buckets without a wheel: as many as there are ticks with a deadline."""
from heapq import heappop, heappush
from math import ceil, inf
from threading import Lock
from time import monotonic

from tickwheel.bench.purgatories.expirer import Expirer
from tickwheel.bench.purgatories.watching import WatchingOperation, WatchingPurgatory

Bucket = dict[WatchingOperation, None]      # an ordered set


class SparsePurgatory(WatchingPurgatory):
    """A map of tick -> bucket, and a heap of the ticks, for the thread that sleeps until the first.

    As `tickwheel.bench.designs.SparseTimers`, but shared by threads, with no object for a timer, and with
    callbacks outside the lock. Starting a timeout is O(1) where the tick has a bucket, else O(log ticks);
    stopping it O(1). A bucket that this empties goes at once; its tick stays in the heap, to be used again
    or to be dropped when it comes first.
    """

    name = "sparse"
    summary = "a map of tick -> bucket, and a heap of the ticks"
    threads = 1

    def __init__(self, *, tick: float = 0.001, wheel_size: int = 20, purge_interval: int = 1000) -> None:
        super().__init__()
        self._tick = tick
        self._rate = 1.0 / tick
        self._buckets: dict[int, Bucket] = {}
        self._ticks: list[int] = []         # a heap
        self._queued: set[int] = set()      # what is in it
        self._lock = Lock()
        self._expirer = Expirer("sparse-expirer", self._turn)
        self._expirer.start()

    def _start_timeout(self, operation: WatchingOperation) -> None:
        tick = ceil((monotonic() + operation.timeout) * self._rate)
        when = tick * self._tick
        expirer = self._expirer
        with self._lock:
            operation.deadline_tick = tick
            bucket = self._buckets.get(tick)
            if bucket is not None:
                bucket[operation] = None
                return
            self._buckets[tick] = {operation: None}
            if tick in self._queued:
                return
            self._queued.add(tick)
            heappush(self._ticks, tick)
            nearest = when < expirer.armed
            if nearest:
                expirer.armed = when
        if nearest:
            expirer.wake()

    def _stop_timeout(self, operation: WatchingOperation) -> None:
        tick = operation.deadline_tick
        if tick is None:
            return
        with self._lock:
            bucket = self._buckets.get(tick)
            # None: it expires, with all of its bucket.
            if bucket is not None:
                bucket.pop(operation, None)
                if not bucket:
                    del self._buckets[tick]

    def _turn(self) -> None:
        while (bucket := self._poll()) is not None:
            for operation in bucket:
                operation.expire()

    def _poll(self) -> Bucket | None:
        """The next bucket whose tick has come. None: the thread may sleep, until the first that is left."""
        now_tick = int(monotonic() * self._rate)
        with self._lock:
            while self._ticks:
                tick = self._ticks[0]
                if tick > now_tick and tick in self._buckets:
                    self._expirer.armed = tick * self._tick
                    return None
                heappop(self._ticks)
                self._queued.remove(tick)
                bucket = self._buckets.pop(tick, None)
                if bucket is not None:
                    return bucket
            self._expirer.armed = inf
        return None

    def close(self) -> None:
        self._expirer.close()
        self._buckets.clear()
        self._ticks.clear()
        self._queued.clear()
        self._watchers.clear()

    @property
    def delayed(self) -> int:
        return sum(map(len, self._buckets.copy().values()))

    @property
    def queue_length(self) -> int:
        return len(self._ticks)

    @property
    def wakeups(self) -> int:
        return self._expirer.wakeups
