"""One run: a design consumes the stream, and what was seen is a `Sample`."""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count, takewhile
from threading import Event
from time import monotonic, sleep
from typing import Any

from tickwheel.bench.kata.designs import DESIGNS, Parts, Projection
from tickwheel.bench.kata.pacing import PacedStream
from tickwheel.bench.kata.stream import Delivery, deliveries
from tickwheel.bench.kata.witness import Seen, Witness
from tickwheel.meanwhile import meanwhile
from tickwheel.recipes.pipelinemetrics import Durations, PipelineMetrics, PipelineStats
from tickwheel.workload import check

DRAINS_S = 5.0          # after the stream's end, at most; what waits even then is left there
LOOK_EVERY_S = 0.05     # while it drains


@dataclass(frozen=True, slots=True)
class Setting:
    """What is run: by default the article's stream. In seconds where no unit is named.

    ValueError: work or threads out of their range; the stream's parameters are looked at by `stream`.
    """

    design: str
    rate: float = 1000.0        # deliveries a second
    consume: float = 0.01       # the work's mean
    threads: int = 12           # of the design that is ours
    duplicates: float = 0.05    # share of the deliveries
    duration: float = 30.0
    clients: int = 300
    seed: int = 1

    def __post_init__(self) -> None:
        longest = f"> 0 s and at most as long as the stream ({self.duration:g} s)"
        check("consume", f"{self.consume:g} s", longest, 0 < self.consume <= self.duration)
        check("threads", self.threads, ">= 1", self.threads >= 1)

    def stream(self) -> list[Delivery]:
        """ValueError: a parameter out of its range."""
        return deliveries(
            rate=self.rate, duration_s=self.duration, clients=self.clients,
            duplicates=self.duplicates, seed=self.seed,
        )


@dataclass(frozen=True, slots=True)
class Moment:
    """What a design's metrics say, from its start to this second."""

    at_s: float
    processed: int
    latency: Durations          # from an event's creation to the start of its processing, the first time
    queue_length: int | None    # None: the events that wait are still in the stream
    backlog: int                # deliveries that are due and neither processed nor dropped nor given up


@dataclass(frozen=True, slots=True)
class Sample:
    """What one run showed. In deliveries, where it does not say events."""

    due: int                    # in the whole stream
    delivered: int              # so many of them until its time was over
    events: int                 # distinct ones of these
    moments: list[Moment]       # at each full second, the last one at the end of the stream's time
    drained_s: float            # until the queues were empty, after that
    processed: int              # and what was seen in all that time: see `witness.Seen`
    processed_events: int
    violations: int
    duplicates: int
    refused: int
    lost: int                   # events that were given up
    dropped: int                # duplicates that were recognised
    waiting: int                # not drained, or lost without a word

    @property
    def at_end(self) -> Moment:
        return self.moments[-1]

    @classmethod
    def of_json(cls, figures: dict[str, Any]) -> Sample:
        moments = [
            Moment(**moment | {"latency": Durations(*moment["latency"])}) for moment in figures["moments"]
        ]
        return cls(**figures | {"moments": moments})


def run(setting: Setting) -> Sample:
    """One run in this process, which keeps the threads of a design that does not drain in time."""
    due = setting.stream()
    stream = PacedStream(due, setting.duration)
    metrics = PipelineMetrics(setting.design)
    witness = Witness(Projection(setting.consume, setting.seed), metrics)
    consumer = DESIGNS[setting.design].build(Parts(witness, witness.refused, metrics, setting.threads))
    look = Look(due, metrics, witness)
    with look.every_second(setting.duration):
        stream.consume(consumer)
    look.look(setting.duration)
    drained_s = drain(lambda: accounted(witness.seen(), metrics.stats()) == stream.delivered)
    seen, stats = witness.seen(), metrics.stats()
    waiting = stream.delivered - accounted(seen, stats)
    if not waiting:
        consumer.close()
    return Sample(
        due=len(due),
        delivered=stream.delivered,
        events=len({delivery.uuid for delivery in due[: stream.delivered]}),
        moments=look.moments,
        drained_s=drained_s,
        processed=seen.processed,
        processed_events=seen.events,
        violations=seen.violations,
        duplicates=seen.duplicates,
        refused=seen.refused,
        lost=seen.lost,
        dropped=stats.duplicates or 0,
        waiting=waiting,
    )


def drain(is_empty: Callable[[], bool]) -> float:
    """The seconds that it took, or all of its time."""
    begin = monotonic()
    while not is_empty() and monotonic() < begin + DRAINS_S:
        sleep(LOOK_EVERY_S)
    return monotonic() - begin


def accounted(seen: Seen, stats: PipelineStats) -> int:
    """Deliveries of which it is known what became of them."""
    return seen.processed + seen.refused + (stats.duplicates or 0)


class Look:
    """Writes down a moment each second, in a thread of its own."""

    def __init__(self, due: Sequence[Delivery], metrics: PipelineMetrics, witness: Witness) -> None:
        self.moments: list[Moment] = []
        self._due = due
        self._metrics = metrics
        self._witness = witness

    def every_second(self, duration_s: float) -> AbstractContextManager[None]:
        """While the block runs; the last second of `duration_s` is left to the caller."""
        start = monotonic()

        def looks(over: Event) -> None:
            for second in takewhile(lambda second: second < duration_s, count(1)):
                if over.wait(start + second - monotonic()):
                    return
                self.look(second)

        return meanwhile(looks, "look")

    def look(self, at_s: float) -> None:
        seen, stats = self._witness.seen(), self._metrics.stats()
        due = bisect_right(self._due, at_s, key=lambda delivery: delivery.delivered_s)
        backlog = due - accounted(seen, stats)
        self.moments.append(Moment(at_s, seen.processed, stats.latency, stats.queue_length, backlog))
