"""The article's designs, each as well as it can be built, and ours. Each wraps the work, whatever that is.

Where the article's locks would fail on their own accord, ours do not: a lock that was not obtained is not
released, and what goes on without its event says so to `lost`.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from queue import SimpleQueue
from random import Random
from time import monotonic, sleep

from tickwheel.bench.kata.stream import WINDOW_S
from tickwheel.log import logger
from tickwheel.recipes.pipeline import Event, EventConsumer, IgnoreDuplicates, KeyedPool, Stage
from tickwheel.recipes.pipelinemetrics import PipelineMetrics

Lost = Callable[[Event], object]

SPREAD = 0.1            # the standard deviation of the work's time, as a share of its mean
FALLS_BEHIND = 10       # threads: at 10 ms they do 1,000 events a second if nothing else takes time
KEEPS_UP = 20
PATIENCE_S = 1.0        # for another event of the client


class Projection:
    """The work: it sleeps, as one does that waits for a database."""

    def __init__(self, mean_s: float, seed: int) -> None:
        self._mean_s = mean_s
        self._random = Random(seed)

    def consume(self, event: Event, /) -> Event:
        sleep(self._random.normalvariate(self._mean_s, SPREAD * self._mean_s))
        return event


class NaivePool(Stage[Event]):
    """Any of the threads takes any event: a queue, in which two events of a client may stand side by side."""

    def __init__(self, downstream: EventConsumer[Event], size: int, metrics: PipelineMetrics) -> None:
        super().__init__(downstream)
        self._queue: SimpleQueue[Event | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(size)]
        metrics.watch(queue_length=self._queue.qsize)
        for thread in self._threads:
            thread.start()

    def consume(self, event: Event, /) -> Event:
        self._queue.put(event)
        return event

    def _work(self) -> None:
        for event in iter(self._queue.get, None):
            try:
                self.downstream.consume(event)
            except Exception:
                logger().exception("%r failed", event)

    def close(self) -> None:
        """Process what waits, and only then close downstream."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        super().close()


class FailOnConcurrentModification(Stage[Event]):
    """A lock for each client; an event that comes while another holds it is lost."""

    def __init__(self, downstream: EventConsumer[Event], lost: Lost) -> None:
        super().__init__(downstream)
        self._lost = lost
        self._locks: dict[Hashable, threading.Lock] = {}

    def consume(self, event: Event, /) -> Event:
        lock = self._locks.setdefault(event.client_id, threading.Lock())
        if self._obtain(lock):
            try:
                self.downstream.consume(event)
            finally:
                lock.release()
        else:
            self._lost(event)
        return event

    def _obtain(self, lock: threading.Lock) -> bool:
        return lock.acquire(blocking=False)


class WaitOnConcurrentModification(FailOnConcurrentModification):
    """The same, with some patience: while it lasts, a thread of the pool stands still for each such event.

    Which of them obtains the lock next is for the system to say; it need not be the first.
    """

    def __init__(self, downstream: EventConsumer[Event], lost: Lost, metrics: PipelineMetrics) -> None:
        super().__init__(downstream, lost)
        self._metrics = metrics

    def _obtain(self, lock: threading.Lock) -> bool:
        begin = monotonic()
        obtained = lock.acquire(timeout=PATIENCE_S)
        self._metrics.lock_wait(monotonic() - begin)
        return obtained


@dataclass(frozen=True, slots=True)
class Parts:
    """What a design is built of."""

    work: Stage[Event]
    lost: Lost
    metrics: PipelineMetrics
    threads: int            # of the design that is ours

    def sequential(self) -> Stage[Event]:
        return self.work

    def pool_that_falls_behind(self) -> Stage[Event]:
        return NaivePool(self.work, FALLS_BEHIND, self.metrics)

    def pool_that_keeps_up(self) -> Stage[Event]:
        return NaivePool(self.work, KEEPS_UP, self.metrics)

    def lock_that_fails(self) -> Stage[Event]:
        return NaivePool(FailOnConcurrentModification(self.work, self.lost), KEEPS_UP, self.metrics)

    def lock_that_waits(self) -> Stage[Event]:
        locked = WaitOnConcurrentModification(self.work, self.lost, self.metrics)
        return NaivePool(locked, KEEPS_UP, self.metrics)

    def keyed_pool(self) -> Stage[Event]:
        pool = KeyedPool(self.work, self.threads, metrics=self.metrics)
        return IgnoreDuplicates(pool, WINDOW_S, metrics=self.metrics)


@dataclass(frozen=True, slots=True)
class Design:
    summary: str
    build: Callable[[Parts], Stage[Event]]


OURS = "keyed-pool"
DESIGNS = {
    "sequential": Design("one event after the other, on the stream's thread", Parts.sequential),
    "pool-10": Design("any of 10 threads takes any event", Parts.pool_that_falls_behind),
    "pool-20": Design("any of 20 threads takes any event", Parts.pool_that_keeps_up),
    "lock-fails": Design("pool-20, a lock a client: what does not obtain it is lost", Parts.lock_that_fails),
    "lock-waits": Design("the same, but it waits up to 1 s first", Parts.lock_that_waits),
    OURS: Design("IgnoreDuplicates, then KeyedPool with --threads workers", Parts.keyed_pool),
}
