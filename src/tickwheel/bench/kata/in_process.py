"""The kata's stream through the chain of `recipes.pipeline` in virtual time, as fast as it can."""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from time import perf_counter

from tickwheel.bench.kata.outcome import Played, outcome_of
from tickwheel.bench.kata.stream import WINDOW_S, Delivery
from tickwheel.clock import ManualClock
from tickwheel.recipes.pipeline import Event, pipeline
from tickwheel.timer import Timer

WORKERS = 4
# Events that wait, before the stream waits for the workers. Not more: what is pending when Python's collector
# comes grows old with it, and brings on its long collections.
MAX_PENDING = 100
# Each move of the clock wakes the timer's thread. What comes again may come a second later yet (`stream`).
TICK_S = 0.001
SHOW_EVERY = 10_000     # deliveries


class InOrder:
    """Remembers each client's events as they come to be processed. On many threads, of one client on one."""

    def __init__(self) -> None:
        self.processed: dict[Hashable, list[bytes]] = {}

    def consume(self, event: Event, /) -> Event:
        # One step for all threads, where `defaultdict` has two.
        self.processed.setdefault(event.client_id, []).append(event.uuid.bytes)
        return event


def play(due: Sequence[Delivery], show: Callable[[float], object] = lambda share: None) -> Played:
    """The outcome of the deliveries in the order given; no work is done for an event.

    `show`: called with the share that is done. Cost: 10 us a delivery.
    """
    clock, seen = ManualClock(), InOrder()
    begin = perf_counter()
    with Timer(clock=clock) as timer, pipeline(
        seen, WORKERS, window=WINDOW_S, max_pending=MAX_PENDING, timer=timer
    ) as consumer:
        next_s = 0.0
        for number, delivery in enumerate(due):
            if delivery.delivered_s >= next_s:
                clock.advance(max(0.0, delivery.delivered_s - clock.time()))
                next_s = delivery.delivered_s + TICK_S
            consumer.consume(Event(delivery.created_s, delivery.client_id, delivery.uuid))
            if number % SHOW_EVERY == 0:
                show(number / len(due))
    seconds = perf_counter() - begin
    return Played(outcome_of(seen.processed), seconds)
