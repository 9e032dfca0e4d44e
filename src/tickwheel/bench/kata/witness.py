"""Who stands around the work and sees what the events' clients would: order, duplicates, losses."""
from __future__ import annotations

import threading
from collections.abc import Hashable
from math import inf
from time import monotonic
from typing import NamedTuple
from uuid import UUID

from tickwheel.recipes.pipeline import Event, EventConsumer, Stage
from tickwheel.recipes.pipelinemetrics import PipelineMetrics


class Seen(NamedTuple):
    """Counts so far. Of deliveries, where it does not say events."""

    processed: int      # the work was done
    events: int         # distinct ones, of these
    violations: int     # of order: begun while another of the client was worked on, or after a later one
    duplicates: int     # begun although the same event had been: passed on, that is
    refused: int        # given up by the design
    lost: int           # events refused of which nothing was processed


class Witness(Stage[Event]):
    """Wraps the work, and tells `metrics` how old an event is when it is begun. From any threads.

    An event that was begun before has its place in its client's order already: it is a duplicate, and
    violates the order only if another of the client is worked on meanwhile. That the stream delivers none
    again after the window is the stream's to keep: every second beginning is counted as a duplicate. Its
    age is none that the design answers for, and goes untold.
    """

    def __init__(self, downstream: EventConsumer[Event], metrics: PipelineMetrics) -> None:
        super().__init__(downstream)
        self._metrics = metrics
        self._lock = threading.Lock()
        self._at_work: dict[Hashable, int] = {}         # deliveries, of a client
        self._latest: dict[Hashable, float] = {}        # creation of a client's events that were begun
        self._begun: set[UUID] = set()
        self._done: set[UUID] = set()
        self._given_up: set[UUID] = set()
        self._processed = self._violations = self._duplicates = self._refused = 0

    def consume(self, event: Event, /) -> Event:
        if self._begin(event):
            self._metrics.latency(monotonic() - event.created)
        try:
            result = self.downstream.consume(event)
        finally:
            with self._lock:
                self._at_work[event.client_id] -= 1
        with self._lock:
            self._processed += 1
            self._done.add(event.uuid)
        return result

    def _begin(self, event: Event) -> bool:
        """Whether it is for the first time."""
        client, at_work, latest = event.client_id, self._at_work, self._latest
        with self._lock:
            is_new = event.uuid not in self._begun
            overtaken = is_new and event.created < latest.get(client, -inf)
            if at_work.get(client) or overtaken:
                self._violations += 1
            if is_new:
                self._begun.add(event.uuid)
                latest[client] = max(event.created, latest.get(client, -inf))
            else:
                self._duplicates += 1
            at_work[client] = at_work.get(client, 0) + 1
            return is_new

    def refused(self, event: Event) -> None:
        """The design goes on without this one."""
        with self._lock:
            self._refused += 1
            self._given_up.add(event.uuid)

    def seen(self) -> Seen:
        with self._lock:
            return Seen(
                processed=self._processed,
                events=len(self._done),
                violations=self._violations,
                duplicates=self._duplicates,
                refused=self._refused,
                lost=len(self._given_up - self._done),
            )
