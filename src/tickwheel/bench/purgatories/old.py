"""The purgatory of Kafka 0.8, before the wheel."""
from collections.abc import Hashable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from threading import Lock
from time import monotonic

from tickwheel.bench.purgatories.expirer import Expirer
from tickwheel.bench.purgatories.operation import LockedOperation

POLL_S = 0.2    # the thread looks at the sizes so often where nothing falls due

# (deadline, sequence number, operation)
Entry = tuple[float, int, LockedOperation]


class OldPurgatory:
    """A priority queue of operations, and a list of operations for each key.

    A completed operation stays in the queue and in its lists. Whenever the expiring thread has woken, it
    looks at their sizes: with `purge_interval` or more entries in all lists it scans the lists, with as many
    in the queue it scans the queue, and throws out what is complete. It is the size that counts, so where
    more than that are pending it scans at every waking, and finds little. As in 0.8.2, the default is 1,000
    (10,000 in the releases before), and a key once watched stays in the map.

    What could be done better without leaving the design, is: all that is due expires in one waking, where
    0.8 had a look at the sizes after each operation; a scan builds the queue anew, O(n), where 0.8 removed
    one by one; and no callback runs under the lock of a list.
    """

    name = "old"
    summary = "Kafka 0.8: a priority queue of operations, completed ones stay until a purge by size"
    Operation = LockedOperation
    threads = 1

    def __init__(self, *, tick: float = 0.001, wheel_size: int = 20, purge_interval: int = 1000) -> None:
        self.purges = 0
        self._purge_interval = purge_interval
        self._watchers: dict[Hashable, list[LockedOperation]] = {}
        self._sweeping = Lock()         # one thread at a time takes from lists; any may append
        self._queue: list[Entry] = []
        self._next = count().__next__
        self._lock = Lock()             # of the queue
        self._expirer = Expirer("old-expirer", self._turn)
        self._expirer.armed = monotonic() + POLL_S
        self._expirer.start()

    def try_complete_else_watch(self, operation: LockedOperation, keys: Sequence[Hashable]) -> bool:
        if operation.attempt():
            return True
        watchers = self._watchers
        for key in keys:
            watching = watchers.get(key)
            if watching is None:
                watching = watchers.setdefault(key, [])
            watching.append(operation)
        if operation.attempt():
            return True
        if not operation.is_completed:
            self._enqueue(operation)
        return operation.is_completed

    def _enqueue(self, operation: LockedOperation) -> None:
        when = monotonic() + operation.timeout
        expirer = self._expirer
        with self._lock:
            heappush(self._queue, (when, self._next(), operation))
            nearest = when < expirer.armed
            if nearest:
                expirer.armed = when
        if nearest:
            expirer.wake()

    def check_and_complete(self, key: Hashable) -> int:
        watching = self._watchers.get(key)
        if not watching:
            return 0
        tried = [operation.attempt() for operation in watching.copy() if not operation.is_completed]
        self._sweep(watching)
        return sum(tried)

    def _turn(self) -> None:
        while (operation := self._poll()) is not None:
            if not operation.is_completed:
                operation.expire()
        if self.watched >= self._purge_interval:
            self._purge_lists()
        if self.queue_length >= self._purge_interval:
            self._purge_queue()
        with self._lock:
            first = self._queue[0][0] if self._queue else inf
            self._expirer.armed = min(first, monotonic() + POLL_S)

    def _poll(self) -> LockedOperation | None:
        """The next operation whose time has come, complete or not."""
        with self._lock:
            if self._queue and self._queue[0][0] <= monotonic():
                return heappop(self._queue)[2]
        return None

    def _purge_lists(self) -> None:
        self.purges += 1
        for watching in self._watchers.copy().values():
            self._sweep(watching)

    def _sweep(self, watching: list[LockedOperation]) -> None:
        """Take the completed operations out of a list. Meanwhile others may append to it: what they
        bring comes after the entries looked at, and moves up."""
        with self._sweeping:
            entries = watching.copy()
            watching[: len(entries)] = [operation for operation in entries if not operation.is_completed]

    def _purge_queue(self) -> None:
        self.purges += 1
        with self._lock:
            # Held until the lock is free: the last reference to an operation may run a destructor.
            before = self._queue
            pending = [entry for entry in before if not entry[2].is_completed]
            heapify(pending)
            self._queue = pending

    def close(self) -> None:
        self._expirer.close()
        self._queue.clear()
        self._watchers.clear()

    @property
    def watched(self) -> int:
        return sum(map(len, self._watchers.copy().values()))

    @property
    def delayed(self) -> int:
        """Counted anew each time, O(queue_length): the design does not know it."""
        return sum(not operation.is_completed for _, _, operation in self._queue.copy())

    @property
    def queue_length(self) -> int:
        return len(self._queue)

    @property
    def wakeups(self) -> int:
        return self._expirer.wakeups
