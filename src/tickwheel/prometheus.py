"""Timers and purgatories as Prometheus metrics, under names that a Kafka operator knows.

    from prometheus_client import REGISTRY, start_http_server
    from tickwheel.prometheus import Collector

    REGISTRY.register(Collector(purgatory, purgatory.timer))
    start_http_server(9100)

Nothing is counted twice or kept up: a scrape reads `stats()` of each, once. docs/metrics.md has the table.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from tickwheel.extras import require
from tickwheel.metrics import PurgatoryStats, TimerStats
from tickwheel.purgatory import DelayedOperationPurgatory
from tickwheel.timer import Timer

__all__ = ["Collector"]


class _Metric(NamedTuple):
    name: str
    field: str  # of the stats
    help: str
    counter: bool = True  # scraped as `<name>_total`


_PURGATORY = (
    _Metric("size", "watched", "Operations in the watcher lists, counted once for each key.", counter=False),
    _Metric("num_delayed_operations", "delayed", "Operations that wait for their timeout.", counter=False),
    _Metric("expires", "expired", "Operations that their timeout completed."),
    _Metric("completed", "completed", "Operations that an event completed, or that could complete at once."),
    _Metric("dropped", "dropped", "Operations that were cancelled or handed back."),
    _Metric("callback_errors", "errors", "Callbacks of operations that raised."),
    _Metric("purged", "purged", "Entries of completed operations that purges took out of the watcher lists."),
    _Metric("purges", "purges", "Purges of the watcher lists."),
)
_TIMER = (
    _Metric("pending", "pending", "Tasks that wait for their time, or for the executor.", counter=False),
    _Metric("scheduled", "scheduled", "Schedulings."),
    _Metric("fired", "fired", "Callbacks that were started."),
    _Metric("cancelled", "cancelled", "Tasks that were cancelled before their callback started."),
    _Metric("callback_errors", "errors", "Callbacks that raised."),
    _Metric("wakeups", "wakeups", "How often the reaper woke."),
)
_LATENESS = "Seconds from the deadline to the expiry, over its whole life. Quantile 1 is the greatest."
_QUANTILES = {"0.5": "lateness_p50", "0.99": "lateness_p99", "1": "lateness_max"}


class Collector:
    """What `prometheus_client` asks for the metrics of timers and purgatories: register it with a registry.

    They are held weakly: one that is dropped leaves the next scrape. MissingExtra without prometheus_client.
    """

    def __init__(self, *sources: Timer | DelayedOperationPurgatory) -> None:
        self._families = require("prometheus_client.core", "tickwheel.prometheus", "prometheus")
        self._timers: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._purgatories: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()  # of both: a scrape has a thread of its own
        for source in sources:
            self.add(source)

    def add(self, source: Timer | DelayedOperationPurgatory, name: str | None = None) -> None:
        """Scrape it too, labelled with its own name or with `name`. ValueError: another one has that name."""
        match source:
            case Timer():
                kind, sources, own_name = "timers", self._timers, source._name
            case DelayedOperationPurgatory():
                kind, sources, own_name = "purgatories", self._purgatories, source.name
            case _:
                raise TypeError(f"source must be a Timer or a DelayedOperationPurgatory, got {source!r}")
        name = own_name if name is None else name
        with self._lock:
            if sources.setdefault(name, source) is not source:
                raise ValueError(f"name must be unique among {kind}, got {name!r} again")

    def collect(self) -> Iterator[Any]:
        """The metric families now; `prometheus_client` calls it."""
        with self._lock:
            purgatories = [(name, purgatory.stats()) for name, purgatory in self._purgatories.items()]
            timers = [(name, timer.stats()) for name, timer in self._timers.items()]
        yield from self._read("purgatory", _PURGATORY, purgatories)
        yield from self._read("timer", _TIMER, timers)

    def _read(
        self,
        kind: str,
        metrics: tuple[_Metric, ...],
        seen: list[tuple[str, PurgatoryStats]] | list[tuple[str, TimerStats]],
    ) -> Iterator[Any]:
        families = self._families
        for metric in metrics:
            make = families.CounterMetricFamily if metric.counter else families.GaugeMetricFamily
            family = make(f"tickwheel_{kind}_{metric.name}", metric.help, labels=[kind])
            for name, stats in seen:
                family.add_metric([name], getattr(stats, metric.field))
            yield family
        lateness = families.SummaryMetricFamily(f"tickwheel_{kind}_lateness_seconds", _LATENESS)
        for name, stats in seen:
            for quantile, field in _QUANTILES.items():
                labels = {kind: name, "quantile": quantile}
                lateness.add_sample(lateness.name, labels, getattr(stats, field))
        yield lateness
