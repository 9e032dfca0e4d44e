"""`sched.scheduler` with a `cancel` that costs the same however many events are pending: change one import.

    from tickwheel.dropin.sched import scheduler

Under it are a timing wheel's buckets and bucket heap, without the wheel. A wheel knows whole ticks, and time
that does not go back. `sched` has times of any type that compares, must know exactly when the next event
is due without moving there, and then takes events before it. So a bucket is a dict of the events in a range
of time, put in order when it becomes the nearest; its width is chosen from the events that are pending.
docs/dropins.md has the figures, beside those of a wheel and of a heap.
"""

from __future__ import annotations

import threading
import time as clock
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import chain, count
from operator import itemgetter
from sched import Event
from typing import Any

__all__ = ["Event", "scheduler"]

CROWD = 128  # events that a bucket should hold
UNTUNED = 4096  # with fewer events pending, one bucket is best
RETUNE = 8  # times as many events as are pending are entered before the width is chosen anew
NEAR = 8  # a width that is wrong by a smaller factor is kept
SAMPLE = 1000  # times that the choice is made from
SPARE = 16  # dead entries that a heap may hold, beside as many as there are live ones

REAL = (float, int)  # the types of time that ticks are made of

NO_KWARGS: dict[str, Any] = {}

key_of: Callable[[Event], tuple[Any, Any, int]] = itemgetter(slice(0, 3))  # what events are ordered by
# An Event without the frame of its constructor, a quarter of what `enter` costs.
new_event: Callable[[tuple[Any, ...]], Event] = partial(tuple.__new__, Event)


class Bucket(dict[int, Event]):
    """The events of a range of time, by their sequence.

    `order` is a heap of their keys, made when the bucket is first looked into. An event that was cancelled
    leaves its key there for a while, and nothing else.
    """

    order: list[tuple[Any, Any, int]] | None = None

    def put_in_order(self) -> list[tuple[Any, Any, int]]:
        order = list(map(key_of, self.values()))
        heapify(order)
        self.order = order
        return order


NO_EVENTS = Bucket()


class scheduler:
    """Runs events in the order of their times, then priorities, then of their entering.

    `timefunc` returns the time, in any type whose values compare and that a delay can be added to;
    `delayfunc` waits for a difference of two times. Every method may be called from any thread.
    """

    def __init__(
        self, timefunc: Callable[[], Any] = clock.monotonic, delayfunc: Callable[[Any], object] = clock.sleep
    ) -> None:
        self.timefunc = timefunc
        self.delayfunc = delayfunc
        self._lock = threading.RLock()
        self._sequences = count()
        self._rate = 0.0  # ticks in a unit of time; 0: there is one bucket, always in order
        self._buckets: dict[int, Bucket] = {}  # by tick; none is empty
        self._ticks: list[int] = []  # a heap; a tick whose bucket is gone is dropped when it is met
        self._tune_at = UNTUNED  # the sequence at which the rate is chosen anew

    def enterabs(
        self,
        time: Any,
        priority: Any,
        action: Callable[..., object],
        argument: tuple[Any, ...] = (),
        kwargs: dict[str, Any] = NO_KWARGS,
    ) -> Event:
        """Let `action(*argument, **kwargs)` run at `time`. Returns what `cancel` takes.

        Amortised O(log n). If the time cannot be compared with others, their error is raised and
        nothing has changed.
        """
        if kwargs is NO_KWARGS:
            kwargs = {}
        with self._lock:
            sequence = next(self._sequences)
            if sequence >= self._tune_at:
                self._tune(sequence)
            tick = self._tick_of(time)
            if tick is None or (self._rate and type(priority) is not int):
                self._regroup(0.0)
                tick = 0
            bucket = self._buckets.get(tick)
            if bucket is None:
                bucket = self._add_bucket(tick)
            if bucket.order is not None:
                try:
                    heappush(bucket.order, (time, priority, sequence))
                except BaseException:
                    bucket.put_in_order()
                    raise
            event = bucket[sequence] = new_event((time, priority, sequence, action, argument, kwargs))
        return event

    def enter(
        self,
        delay: Any,
        priority: Any,
        action: Callable[..., object],
        argument: tuple[Any, ...] = (),
        kwargs: dict[str, Any] = NO_KWARGS,
    ) -> Event:
        """Let `action(*argument, **kwargs)` run after `delay`. Returns what `cancel` takes."""
        return self.enterabs(self.timefunc() + delay, priority, action, argument, kwargs)

    def cancel(self, event: Event) -> None:
        """Take an event, or the equal of one, out of the queue; ValueError where there is none.

        Amortised O(1) for what `enter` and `enterabs` return, also when it has run. What the event pins is
        the caller's then: nothing here refers to it.
        """
        with self._lock:
            held = self._held(event)
            if held is None:
                raise ValueError(f"event must be in the queue, got {event!r}")
            tick = self._tick_of(held.time)
            assert tick is not None, "what is in the queue has a tick"
            bucket = self._buckets[tick]
            del bucket[held.sequence]
            if not bucket:
                self._drop_bucket(tick)
            elif bucket.order is not None and len(bucket.order) > 2 * len(bucket) + SPARE:
                bucket.put_in_order()

    def empty(self) -> bool:
        """Whether no event is pending."""
        with self._lock:
            return not any(self._buckets.values())

    def run(self, blocking: bool = True) -> Any:
        """Run what is due and wait for what is not, until no event is left; then return None.

        With `blocking=False`, do not wait: return the time until the next event. Each action is followed by
        `delayfunc(0)`. Both are called outside of the lock, and may enter and cancel events. What they raise
        passes through; the events that have not run stay pending, for the next call.
        """
        lock, timefunc, delayfunc = self._lock, self.timefunc, self.delayfunc
        while True:
            with lock:
                if not self._buckets:
                    return None
                now = timefunc()  # before the nearest is looked up: it may enter and cancel events, too
                nearest = self._nearest()
                if nearest is None:
                    continue
                bucket, (time, _, sequence, action, argument, kwargs) = nearest
                del nearest
                waits = time > now
                if not waits:
                    del bucket[sequence]
                    if not bucket:
                        self._drop_bucket(self._ticks[0])
            if waits:
                # What is cancelled while we wait is not pinned by us.
                del action, argument, kwargs
                if not blocking:
                    return time - now
                delayfunc(time - now)
            else:
                action(*argument, **kwargs)
                del action, argument, kwargs
                delayfunc(0)

    @property
    def queue(self) -> list[Event]:
        """The pending events, a new list in the order in which they will run. O(n log n)."""
        with self._lock:
            events = self._events()
        return sorted(events, key=key_of)

    def _held(self, event: object) -> Event | None:
        """The pending event that this is, or is equal to."""
        if type(event) is Event:
            tick = self._tick_of(event.time)
            if tick is not None:
                held = self._buckets.get(tick, NO_EVENTS).get(event.sequence)
                return held if held is event or held == event else None
        # What is equal to an event stands for it, be it a plain tuple: look at all of them, as `sched` does.
        return next((held for held in self.queue if held == event), None)

    def _tick_of(self, time: Any) -> int | None:
        """The tick whose bucket a time belongs to; None for what is not a finite float or int."""
        if not self._rate:
            return 0
        if type(time) in REAL:
            try:
                # Never descending where the times ascend, also where a large int is rounded to a float.
                return int(time * self._rate)
            except (OverflowError, ValueError):
                pass
        return None

    def _nearest(self) -> tuple[Bucket, Event] | None:
        """The event that runs first, and its bucket, whose tick is now on top of the heap."""
        while self._ticks:
            bucket = self._buckets.get(self._ticks[0])
            if bucket:
                order = bucket.order or bucket.put_in_order()
                while (event := bucket.get(order[0][2])) is None:
                    heappop(order)
                return bucket, event
            self._buckets.pop(heappop(self._ticks), None)
        return None

    def _add_bucket(self, tick: int) -> Bucket:
        bucket = Bucket()
        if not self._rate:
            bucket.put_in_order()
        heappush(self._ticks, tick)
        self._buckets[tick] = bucket
        return bucket

    def _drop_bucket(self, tick: int) -> None:
        """Drop a bucket that was emptied; its tick stays in the heap for a while. Amortised O(1)."""
        del self._buckets[tick]
        if len(self._ticks) > 2 * len(self._buckets) + SPARE:
            self._ticks = list(self._buckets)
            heapify(self._ticks)

    def _events(self) -> list[Event]:
        return list(chain.from_iterable(map(Bucket.values, self._buckets.values())))

    def _tune(self, sequence: int) -> None:
        """Choose the rate for what is pending now. O(n), once in RETUNE * n enterings."""
        events = self._events()
        self._tune_at = sequence + max(UNTUNED, RETUNE * len(events))
        rate = rate_for(events)
        if rate != self._rate and not self._rate / NEAR < rate < self._rate * NEAR:
            self._regroup(rate)

    def _regroup(self, rate: float) -> None:
        """Put all events into the buckets of another rate. O(n)."""
        events = self._events()
        buckets: dict[int, Bucket] = defaultdict(Bucket)
        try:
            for event in events:
                buckets[int(event.time * rate) if rate else 0][event.sequence] = event
        except (OverflowError, ValueError):  # a time that is infinite, or not a number
            self._regroup(0.0)
            return
        if events and not rate:
            buckets[0].put_in_order()
        self._rate, self._buckets, self._ticks = rate, dict(buckets), sorted(buckets)


def rate_for(events: list[Event]) -> float:
    """The rate that puts about CROWD of the events into a bucket; 0: one bucket is to hold all."""
    if len(events) < UNTUNED or not all(type(e.time) in REAL and type(e.priority) is int for e in events):
        return 0.0
    # Of the middle half alone: a few events that are far away say nothing of the others.
    times = sorted(event.time for event in events[:: len(events) // SAMPLE])
    try:
        return len(events) / 2 / CROWD / float(times[len(times) * 3 // 4] - times[len(times) // 4])
    except (OverflowError, ZeroDivisionError):
        return 0.0
