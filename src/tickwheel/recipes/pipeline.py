"""A stream of events, consumed in order for each client, in parallel between clients, and each event once.

Consumers wrap consumers, and each does one thing, so that a program takes what it needs:

    stream.consume(pipeline(Projection(), workers=12))

    stream.consume(IgnoreDuplicates(KeyedPool(Measured(Projection(), metrics), 12), 10.0))

An event goes from the outside in: duplicates are dropped on the stream's thread, before they take a place in
a queue; the latency is measured on the worker that processes. `close()` of the outermost closes the chain:
see `Stage`. docs/kata.md starts from the problem.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar
from uuid import UUID

from tickwheel.closing import Closing
from tickwheel.log import logger
from tickwheel.recipes.arguments import check_timer, seconds
from tickwheel.recipes.dedup import Deduplicator
from tickwheel.recipes.keyed import KeyedExecutor

if TYPE_CHECKING:
    from tickwheel.recipes.pipelinemetrics import PipelineMetrics
    from tickwheel.timer import Timer

__all__ = [
    "Event",
    "EventConsumer",
    "EventStream",
    "IgnoreDuplicates",
    "KeyedPool",
    "Measured",
    "Stage",
    "pipeline",
]


@dataclass(frozen=True, slots=True)
class Event:
    """What a pipeline has to know of an event: a subclass adds what yours carry.

    created     seconds, on the clock that `Measured` reads: by default since the epoch, as `time.time()`
    client_id   hashable: events of one client are processed in order
    uuid        of this event: the same again is a duplicate
    """

    created: float
    client_id: Hashable
    uuid: UUID


E = TypeVar("E", bound=Event)


class EventConsumer(Protocol[E]):
    """Takes an event, and returns it. It may block; what it raises is its caller's to handle."""

    def consume(self, event: E, /) -> E: ...


class EventStream(Protocol[E]):
    """Pushes: calls `consumer.consume` for one event after the other, until there are no more."""

    def consume(self, consumer: EventConsumer[E], /) -> None: ...


class Stage(Closing, Generic[E]):
    """A consumer that wraps another one, its `downstream`.

    `close()` closes downstream, if that can be closed: so the outermost stage closes the chain, the consumer
    at its end included, once. What a stage was given otherwise (a timer, metrics) is the caller's.
    Idempotent; `with` calls it.
    """

    def __init__(self, downstream: EventConsumer[E]) -> None:
        self.downstream = downstream
        self._closed = threading.Lock()  # held once it is

    def consume(self, event: E, /) -> E:
        return self.downstream.consume(event)

    def close(self) -> None:
        close = getattr(self.downstream, "close", None)
        if close is not None and self._closed.acquire(blocking=False):
            close()


class IgnoreDuplicates(Stage[E]):
    """Passes an event on once: the same uuid within `window` seconds of that goes no further.

    At most once, from when downstream has accepted the event: one that it refuses (it raises: a full pool,
    say) is forgotten, so that it may come again. One that fails later, in the pool, is not: `forget(event)`
    says so.
    """

    def __init__(
        self,
        downstream: EventConsumer[E],
        window: float = 10.0,
        *,
        timer: Timer | None = None,
        metrics: PipelineMetrics | None = None,
    ) -> None:
        super().__init__(downstream)
        self._seen = Deduplicator(window, timer=timer)
        self._lock = threading.Lock()  # of the count
        self.duplicates = 0
        if metrics is not None:
            try:
                metrics.watch(cache_size=lambda: self.cache_size, duplicates=lambda: self.duplicates)
            except ValueError:
                self._seen.close()  # nobody else could
                raise

    def consume(self, event: E, /) -> E:
        if not self._seen.first_seen(event.uuid):
            with self._lock:
                self.duplicates += 1
            return event
        try:
            return self.downstream.consume(event)
        except BaseException:
            self._seen.forget(event.uuid)
            raise

    def forget(self, event: E) -> None:
        """Take the next one with this uuid for the first."""
        self._seen.forget(event.uuid)

    @property
    def cache_size(self) -> int:
        """How many uuids are remembered."""
        return len(self._seen)

    def close(self) -> None:
        try:
            super().close()  # first: an event that fails on the way out may still be forgotten
        finally:
            self._seen.close()


class KeyedPool(Stage[E]):
    """Processes events on `workers` threads: those of one client one at a time and in order.

    `consume` returns when the event is in its client's queue, so nobody is there for what downstream raises:
    it is logged, counted in `failures` and given to `on_error(event, error)`, on the worker, and the client's
    next event follows as if nothing had been. G1. `max_pending`, `max_pending_per_key`, `on_full` and `name`
    are `KeyedExecutor`'s; its errors come out of `consume`.
    """

    def __init__(
        self,
        downstream: EventConsumer[E],
        workers: int,
        *,
        max_pending: int | None = None,
        max_pending_per_key: int | None = None,
        on_full: Literal["wait", "raise"] = "wait",
        on_error: Callable[[E, BaseException], object] | None = None,
        metrics: PipelineMetrics | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(downstream)
        self._executor = KeyedExecutor(
            workers,
            max_pending=max_pending,
            max_pending_per_key=max_pending_per_key,
            on_full=on_full,
            name=name,
        )
        self._on_error = on_error
        self._lock = threading.Lock()  # of the count
        self.failures = 0
        bounded = max_pending is not None or max_pending_per_key is not None
        self._waits = metrics if bounded else None  # who is told how long the stream waited for room
        if metrics is not None:
            metrics.watch(queue_length=lambda: self.queue_length, failures=lambda: self.failures)

    def consume(self, event: E, /) -> E:
        if self._waits is None:
            self._executor.submit(event.client_id, self._process, event)
            return event
        start = time.perf_counter()
        self._executor.submit(event.client_id, self._process, event)
        self._waits.lock_wait(time.perf_counter() - start)
        return event

    def _process(self, event: E) -> None:
        try:
            self.downstream.consume(event)
        except BaseException as error:
            with self._lock:
                self.failures += 1
            logger().exception("%r failed", event)
            if self._on_error is not None:
                try:
                    self._on_error(event, error)
                except BaseException:
                    logger().exception("on_error raised, called for %r", event)

    @property
    def queue_length(self) -> int:
        """How many events wait for a worker."""
        return len(self._executor)

    def close(self) -> None:
        """Process what waits, and only then close downstream. Called on one of its workers, which cannot wait
        for itself, it closes downstream at once, though others may be processing."""
        self._executor.shutdown(wait=True)
        super().close()


class Measured(Stage[E]):
    """Tells `metrics` how late an event comes to be processed: `clock() - event.created`, just before. G2."""

    def __init__(
        self, downstream: EventConsumer[E], metrics: PipelineMetrics, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(downstream)
        self._metrics = metrics
        self._clock = clock

    def consume(self, event: E, /) -> E:
        self._metrics.latency(self._clock() - event.created)
        return self.downstream.consume(event)


def pipeline(
    consumer: EventConsumer[E],
    workers: int,
    *,
    window: float = 10.0,
    max_pending: int | None = None,
    retry_failed: bool = False,
    metrics: PipelineMetrics | None = None,
    timer: Timer | None = None,
) -> IgnoreDuplicates[E]:
    """The whole chain: IgnoreDuplicates, KeyedPool and, with metrics, Measured around `consumer`. Close it.

    retry_failed    an event whose processing failed is processed when it is delivered again. Without it
                    that is a duplicate like any other, and each event is tried at most once a window.
    """
    # Before `metrics`, which are one pipeline's, are bound to this one.
    seconds(window, "window")
    check_timer(timer)
    measured = consumer if metrics is None else Measured(consumer, metrics)

    def forget(event: E, error: BaseException) -> None:
        unique.forget(event)

    on_error = forget if retry_failed else None
    pool = KeyedPool(measured, workers, max_pending=max_pending, on_error=on_error, metrics=metrics)
    unique = IgnoreDuplicates(pool, window, timer=timer, metrics=metrics)
    return unique
