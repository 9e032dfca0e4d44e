"""What a pipeline tells of itself: how late its events are, its queue and cache, its duplicates and failures.

    metrics = PipelineMetrics("orders")
    stream.consume(pipeline(Projection(), workers=12, metrics=metrics))
    timer.schedule_every(1.0, metrics.report)       # a line a second, through logging
    REGISTRY.register(Collector(metrics))           # prometheus_client's

Needs hdrhistogram: `pip install 'tickwheel[pipeline]'`.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tickwheel.extras import require
from tickwheel.log import logger

__all__ = ["Collector", "Durations", "PipelineMetrics", "PipelineStats"]

_LONGEST = 3600.0  # seconds
_DIGITS = 3  # significant ones: durations that are counted as one differ by less than a thousandth
_PERCENTILES = {"p50": 50.0, "p75": 75.0, "p95": 95.0, "p98": 98.0, "p99": 99.0, "p999": 99.9}


class Durations(NamedTuple):
    """How long something took, in seconds. Percentiles by nearest rank; they, and `longest`, are never too
    small, and too great by 0.1 % or 1 us at most."""

    recorded: int  # how many
    total: float
    p50: float
    p75: float
    p95: float
    p98: float
    p99: float
    p999: float
    longest: float
    clamped: int  # those below 0, which count as 0, and those above an hour, which count as one

    @property
    def mean(self) -> float:
        return self.total / self.recorded if self.recorded else 0.0

    def __str__(self) -> str:
        """count=838, mean=38.8, p50=37.0, ..., max=422.0: milliseconds."""
        percentiles = {what: getattr(self, what) for what in _PERCENTILES}
        times = {"mean": self.mean, **percentiles, "max": self.longest}
        words = [f"count={self.recorded}", *(f"{what}={1000 * time:.1f}" for what, time in times.items())]
        if self.clamped:
            words.append(f"clamped={self.clamped}")
        return ", ".join(words)


class PipelineStats(NamedTuple):
    """What a pipeline has done so far. None: nothing in it counts that."""

    latency: Durations  # from the creation of an event to the start of its processing
    lock_wait: Durations  # for a lock, or for room in a full pool
    queue_length: int | None
    cache_size: int | None
    duplicates: int | None
    failures: int | None


class PipelineMetrics:
    """The figures of one pipeline, over its whole life; from any threads.

    Durations are recorded here, from 1 us to an hour. Lengths and counts are the stages' own, which are asked
    for them whenever someone wants to know. MissingExtra without hdrhistogram.
    """

    def __init__(self, name: str = "pipeline") -> None:
        self.name = name
        self._latency = _Histogram()
        self._lock_wait = _Histogram()
        self._readings: dict[str, Callable[[], int]] = {}

    def latency(self, seconds: float) -> None:
        """The processing of an event starts, so long after its creation."""
        self._latency.record(seconds)

    def lock_wait(self, seconds: float) -> None:
        """A thread has waited so long for a lock, or for room in a pool."""
        self._lock_wait.record(seconds)

    def watch(
        self,
        *,
        queue_length: Callable[[], int] | None = None,
        cache_size: Callable[[], int] | None = None,
        duplicates: Callable[[], int] | None = None,
        failures: Callable[[], int] | None = None,
    ) -> None:
        """Where to read these. ValueError: one of them is read elsewhere already."""
        given = {
            "queue_length": queue_length,
            "cache_size": cache_size,
            "duplicates": duplicates,
            "failures": failures,
        }
        readings = {what: read for what, read in given.items() if read is not None}
        for what in readings:
            if what in self._readings:
                raise ValueError(f"{what} must be read in one place, got another for metrics {self.name!r}")
        self._readings |= readings

    def stats(self) -> PipelineStats:
        """The figures now. Takes about 2 ms, and recording goes on meanwhile."""

        def reading(what: str) -> int | None:
            return self._readings[what]() if what in self._readings else None

        return PipelineStats(
            latency=self._latency.durations(),
            lock_wait=self._lock_wait.durations(),
            queue_length=reading("queue_length"),
            cache_size=reading("cache_size"),
            duplicates=reading("duplicates"),
            failures=reading("failures"),
        )

    def report(self) -> None:
        """Log the figures: one line at level INFO, to the logger `tickwheel.pipeline`."""
        stats = self.stats()
        line = f"name={self.name}, latency_ms: {stats.latency}"
        counts = [f"{what}={n}" for what, n in stats._asdict().items() if isinstance(n, int)]
        if counts:
            line += f"; {', '.join(counts)}"
        if stats.lock_wait.recorded:
            line += f"; lock_wait_ms: {stats.lock_wait}"
        logger().getChild("pipeline").info("%s", line)


class _Histogram:
    """Counts durations in an HdrHistogram of microseconds."""

    def __init__(self) -> None:
        self._make = require("hdrh.histogram", "PipelineMetrics", "pipeline").HdrHistogram
        # record_value is plain Python that reads, adds and stores, and would lose counts between threads.
        self._lock = threading.Lock()
        self._counts = self._empty()
        self._total = 0.0
        self._clamped = 0

    def _empty(self) -> Any:
        return self._make(1, int(_LONGEST * 1e6), _DIGITS)

    def record(self, seconds: float) -> None:
        inside = 0.0 <= seconds <= _LONGEST
        if not inside:
            seconds = _LONGEST if seconds > _LONGEST else 0.0  # NaN too
        us = math.ceil(seconds * 1e6)
        with self._lock:
            self._counts.record_value(us)
            self._total += seconds
            self._clamped += not inside

    def durations(self) -> Durations:
        counts = self._empty()
        with self._lock:
            counts.add(self._counts)  # in C; the percentiles are searched in Python, and without the lock
            total, clamped = self._total, self._clamped
            longest_us = self._counts.max_value
        recorded = counts.total_count
        # Asked for the exact share of a rank: a share between two ranks it rounds to the nearer one.
        shares = {what: 100 * _rank(q, recorded) / recorded for what, q in _PERCENTILES.items() if recorded}
        found = counts.get_percentile_to_value_dict(list(shares.values()))
        percentiles = dict.fromkeys(_PERCENTILES, 0.0) | {
            what: min(found[share], longest_us) / 1e6 for what, share in shares.items()
        }
        return Durations(recorded, total, **percentiles, longest=longest_us / 1e6, clamped=clamped)


def _rank(q: float, count: int) -> int:
    """The first of `count` that is not below `q` percent of them; `q` has one decimal at most."""
    return max(1, -(-round(10 * q) * count // 1000))


_SUMMARIES = {
    "latency": "Seconds from the creation of an event to the start of its processing, over the whole life.",
    "lock_wait": "Seconds waited for locks, or for room in a full pool, over the whole life.",
}
_GAUGES = {
    "queue_length": "Events that wait for a worker.",
    "cache_size": "Ids of events that are remembered, to recognise duplicates.",
}
_COUNTERS = {
    "duplicates": "Events that were dropped: their id had been seen within the window.",
    "failures": "Events whose processing raised.",
}


class Collector:
    """What `prometheus_client` asks for the metrics of pipelines: register it with a registry.

    They are held weakly, and labelled by their names: ValueError for two of one name. MissingExtra without
    prometheus_client.
    """

    def __init__(self, *metrics: PipelineMetrics) -> None:
        self._families = require("prometheus_client.core", "the Collector of pipelines", "prometheus")
        self._metrics: weakref.WeakValueDictionary[str, PipelineMetrics] = weakref.WeakValueDictionary()
        for each in metrics:
            if self._metrics.setdefault(each.name, each) is not each:
                raise ValueError(f"name must be unique among metrics of pipelines, got {each.name!r} again")

    def collect(self) -> Iterator[Any]:
        """The metric families now; `prometheus_client` calls it."""
        seen = [(name, metrics.stats()) for name, metrics in self._metrics.items()]
        for what, text in _SUMMARIES.items():
            yield self._summary(what, text, seen)
        for kinds, make in (
            (_GAUGES, self._families.GaugeMetricFamily),
            (_COUNTERS, self._families.CounterMetricFamily),
        ):
            for what, text in kinds.items():
                family = make(f"tickwheel_pipeline_{what}", text, labels=["pipeline"])
                for name, stats in seen:
                    value = getattr(stats, what)
                    if value is not None:
                        family.add_metric([name], value)
                yield family

    def _summary(self, what: str, text: str, seen: list[tuple[str, PipelineStats]]) -> Any:
        family = self._families.SummaryMetricFamily(
            f"tickwheel_pipeline_{what}_seconds", text, labels=["pipeline"]
        )
        for name, stats in seen:
            durations: Durations = getattr(stats, what)
            family.add_metric([name], durations.recorded, durations.total)
            for field, q in _PERCENTILES.items():
                labels = {"pipeline": name, "quantile": f"{q / 100:g}"}
                family.add_sample(family.name, labels, getattr(durations, field))
        return family
