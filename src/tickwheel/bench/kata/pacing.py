"""The stream in real time: it pushes, as JMS does, and waits for the consumer to return."""
from __future__ import annotations

from collections.abc import Sequence
from time import monotonic, sleep

from tickwheel.bench.kata.stream import Delivery
from tickwheel.recipes.pipeline import Event, EventConsumer


class PacedStream:
    """Pushes deliveries in real time, each when it is due, or at once if it is late, until the time is over.

    `created` is when an event was due, on the monotonic clock: where the consumer blocks for too long, the
    events behind grow old. What is still to be pushed at the end never is.
    """

    def __init__(self, due: Sequence[Delivery], duration_s: float) -> None:
        self.delivered = 0      # the first so many of `due`
        self._due = due
        self._duration_s = duration_s

    def consume(self, consumer: EventConsumer[Event], /) -> None:
        start = monotonic()
        end = start + self._duration_s
        for delivery in self._due:
            now = monotonic()
            if now < start + delivery.delivered_s:
                sleep(start + delivery.delivered_s - now)
            elif now >= end:
                return
            consumer.consume(Event(start + delivery.created_s, delivery.client_id, delivery.uuid))
            self.delivered += 1
        sleep(max(0.0, end - monotonic()))
