"""The figures of a pipeline: histograms, the line in the log, the scrape."""

import gc
import logging
import math
import sys
import threading
import time
from fractions import Fraction
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel import ManualClock, Timer
from tickwheel.extras import MissingExtra
from tickwheel.recipes.pipeline import Event, IgnoreDuplicates, KeyedPool, Measured, pipeline
from tickwheel.recipes.pipelinemetrics import Collector, PipelineMetrics

histogram = pytest.importorskip("hdrh.histogram")
client = pytest.importorskip("prometheus_client")
parser = pytest.importorskip("prometheus_client.parser")
openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
openmetrics_exposition = pytest.importorskip("prometheus_client.openmetrics.exposition")

PERCENTILES = {"p50": 50.0, "p75": 75.0, "p95": 95.0, "p98": 98.0, "p99": 99.0, "p999": 99.9}


class Nothing:
    def consume(self, event):
        return event


class Failing:
    def consume(self, event):
        raise LookupError("on purpose")


def event(number, created=0.0):
    return Event(created, "a", UUID(int=number))


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def timer(clock):
    with Timer(clock=clock, executor="inline", start=False) as timer:
        yield timer


@pytest.fixture
def metrics():
    return PipelineMetrics("orders")


@given(st.lists(st.floats(0.0, 3600.0) | st.floats(0.0, 0.1), min_size=1, max_size=300))
def test_percentiles(seconds):
    """As by sorting: never less, and at most 0.1 % or 1 us more."""
    metrics = PipelineMetrics()
    for each in seconds:
        metrics.latency(each)
    latency = metrics.stats().latency
    ordered = sorted(seconds)
    rounding = 1e-12
    for field, q in PERCENTILES.items():
        exact = ordered[max(1, math.ceil(Fraction(str(q)) * len(ordered) / 100)) - 1]
        assert exact * (1 - rounding) <= getattr(latency, field) <= exact * 1.001 + 1.001e-6
    assert latency.recorded == len(seconds)
    assert latency.total == pytest.approx(sum(seconds))
    assert latency.mean == pytest.approx(sum(seconds) / len(seconds))
    assert ordered[-1] * (1 - rounding) <= latency.longest <= ordered[-1] + 1.001e-6
    assert latency.clamped == 0


def test_nothing_recorded(metrics):
    """All zeros, and None for what no stage counts."""
    stats = metrics.stats()
    assert stats.latency == stats.lock_wait == (0,) * 10
    assert stats.latency.mean == 0.0
    assert stats[2:] == (None,) * 4


def test_what_is_out_of_range_is_clamped(metrics):
    """Below 0 (a clock that is ahead) counts as 0, above an hour as an hour, and it is said how many were."""
    for seconds in (-1.0, float("nan"), 7200.0, float("inf"), 3600.0, 0.0):
        metrics.latency(seconds)
    latency = metrics.stats().latency
    assert (latency.recorded, latency.clamped) == (6, 4)
    assert (latency.p50, latency.p75, latency.longest, latency.total) == (0.0, 3600.0, 3600.0, 3 * 3600.0)
    assert str(latency).endswith("max=3600000.0, clamped=4")


def test_one_thread_at_a_time_records(metrics, monkeypatch):
    """The histogram adds up in several steps of Python: threads must not meet in it."""
    inside = []
    record = histogram.HdrHistogram.record_value

    def record_value(self, value, count=1):
        assert not inside
        inside.append(value)
        time.sleep(0)  # lets another thread run
        inside.pop()
        return record(self, value, count)

    monkeypatch.setattr(histogram.HdrHistogram, "record_value", record_value)

    def work():
        for _ in range(200):
            metrics.latency(0.25)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert metrics.stats().latency.recorded == 800


def test_latency_is_measured_where_the_processing_starts(metrics, clock):
    """G2: from the event's creation, on its clock, to just before the consumer, whose time is not in it."""

    class Slow:
        def consume(self, event):
            clock.advance(5.0)
            return event

    measured = Measured(Slow(), metrics, clock.time)
    clock.advance(10.0)
    measured.consume(event(1, created=9.75))
    latency = metrics.stats().latency
    assert (latency.recorded, latency.total, latency.longest) == (1, 0.25, 0.25)


def test_latency_since_the_epoch(metrics):
    """Without a clock `created` is as of time.time()."""
    with pipeline(Nothing(), workers=1, metrics=metrics) as outermost:
        outermost.consume(event(1, created=time.time() - 100.0))
    assert 100.0 <= metrics.stats().latency.p50 < 200.0


def test_what_the_stages_count(metrics, timer, caplog):
    """Lengths and counts are read from the stages when they are asked for."""
    with IgnoreDuplicates(KeyedPool(Failing(), 1, metrics=metrics), timer=timer, metrics=metrics) as unique:
        for number in (1, 2, 2, 2):
            unique.consume(event(number))
        assert metrics.stats().cache_size == 2
    stats = metrics.stats()
    assert (stats.queue_length, stats.duplicates, stats.failures) == (0, 2, 2)


def test_the_wait_for_room_is_recorded(metrics, timer):
    """Of a pool that has bounds, one for each event; without bounds there is nothing to wait for."""
    with KeyedPool(Nothing(), 1, max_pending=1, metrics=metrics) as pool:
        for number in range(5):
            pool.consume(event(number))
    assert metrics.stats().lock_wait.recorded == 5
    unbounded = PipelineMetrics()
    with KeyedPool(Nothing(), 1, metrics=unbounded) as pool:
        pool.consume(event(1))
    assert unbounded.stats().lock_wait.recorded == 0


def test_metrics_are_for_one_pipeline(metrics, timer):
    """A second pipeline on them would hide the first one's figures, and is refused."""
    with (
        pipeline(Nothing(), workers=1, metrics=metrics, timer=timer),
        pytest.raises(
            ValueError, match="queue_length must be read in one place, got another for metrics 'orders'"
        ),
    ):
        pipeline(Nothing(), workers=1, metrics=metrics, timer=timer)


def test_a_stage_that_is_refused_its_metrics_leaves_no_timer(metrics):
    """What it had made by then is closed: no thread stays, and no warning tells of one."""
    before = threading.active_count()
    with IgnoreDuplicates(Nothing(), metrics=metrics), pytest.raises(ValueError, match="cache_size must be"):
        IgnoreDuplicates(Nothing(), metrics=metrics)
    gc.collect()
    assert threading.active_count() == before


def test_a_line_a_second(metrics, timer, clock, caplog):
    """`schedule_every(1.0, metrics.report)` logs the figures, in milliseconds, to `tickwheel.pipeline`."""
    caplog.set_level(logging.INFO, "tickwheel.pipeline")
    task = timer.schedule_every(1.0, metrics.report)
    clock.advance(1.0)
    timer.advance_clock()
    metrics.watch(queue_length=lambda: 35, cache_size=lambda: 9951, duplicates=lambda: 42, failures=lambda: 0)
    for ms in range(1, 101):
        metrics.latency(ms / 1000)
    clock.advance(1.0)
    timer.advance_clock()
    metrics.lock_wait(0.0025)
    clock.advance(1.0)
    timer.advance_clock()
    task.cancel()
    clock.advance(1.0)
    timer.advance_clock()

    latency = "count=100, mean=50.5, p50=50.0, p75=75.0, p95=95.0, p98=98.0, p99=99.0, p999=100.0, max=100.0"
    counts = "queue_length=35, cache_size=9951, duplicates=42, failures=0"
    assert {record.name for record in caplog.records} == {"tickwheel.pipeline"}
    assert caplog.messages == [
        "name=orders, latency_ms: count=0, mean=0.0, "
        "p50=0.0, p75=0.0, p95=0.0, p98=0.0, p99=0.0, p999=0.0, max=0.0",
        f"name=orders, latency_ms: {latency}; {counts}",
        f"name=orders, latency_ms: {latency}; {counts}; lock_wait_ms: count=1, mean=2.5, "
        "p50=2.5, p75=2.5, p95=2.5, p98=2.5, p99=2.5, p999=2.5, max=2.5",
    ]


def scrape(registry):
    """{(sample name, pipeline, quantile where there is one): value}, as a server would read it."""
    seen = {}
    for family in parser.text_string_to_metric_families(client.generate_latest(registry).decode()):
        for sample in family.samples:
            quantile = [sample.labels.pop("quantile")] if "quantile" in sample.labels else []
            [name] = sample.labels.values()
            seen[sample.name, name, *quantile] = sample.value
    return seen


@pytest.fixture
def registry():
    return client.CollectorRegistry(auto_describe=True)


def test_a_scrape(metrics, registry):
    """Each figure of `stats()` under its name, labelled with the pipeline's."""
    registry.register(Collector(metrics))
    metrics.watch(queue_length=lambda: 35, cache_size=lambda: 9951, duplicates=lambda: 42, failures=lambda: 3)
    for ms in range(1, 101):
        metrics.latency(ms / 1000)
    metrics.lock_wait(0.0025)
    quantiles = dict(zip(["0.5", "0.75", "0.95", "0.98", "0.99", "0.999"], PERCENTILES, strict=True))
    latency = metrics.stats().latency
    assert scrape(registry) == {
        **{
            ("tickwheel_pipeline_latency_seconds", "orders", quantile): getattr(latency, field)
            for quantile, field in quantiles.items()
        },
        ("tickwheel_pipeline_latency_seconds_count", "orders"): 100,
        ("tickwheel_pipeline_latency_seconds_sum", "orders"): pytest.approx(5.05),
        **{("tickwheel_pipeline_lock_wait_seconds", "orders", quantile): 0.0025 for quantile in quantiles},
        ("tickwheel_pipeline_lock_wait_seconds_count", "orders"): 1,
        ("tickwheel_pipeline_lock_wait_seconds_sum", "orders"): 0.0025,
        ("tickwheel_pipeline_queue_length", "orders"): 35,
        ("tickwheel_pipeline_cache_size", "orders"): 9951,
        ("tickwheel_pipeline_duplicates_total", "orders"): 42,
        ("tickwheel_pipeline_failures_total", "orders"): 3,
    }


def test_a_scrape_is_valid_openmetrics(metrics, registry):
    """The strict parser takes it, of several pipelines; what a pipeline does not count is not there."""
    other = PipelineMetrics("invoices")
    other.watch(duplicates=lambda: 1)
    registry.register(Collector(metrics, other))
    text = openmetrics_exposition.generate_latest(registry).decode()
    families = {family.name: family for family in openmetrics.text_string_to_metric_families(text)}
    assert {family.removeprefix("tickwheel_pipeline_"): each.type for family, each in families.items()} == {
        "latency_seconds": "summary",
        "lock_wait_seconds": "summary",
        "queue_length": "gauge",
        "cache_size": "gauge",
        "duplicates": "counter",
        "failures": "counter",
    }
    assert all(family.documentation for family in families.values())
    [sample] = families["tickwheel_pipeline_duplicates"].samples
    assert sample.labels == {"pipeline": "invoices"}


def test_the_collector_holds_its_metrics_weakly(registry):
    """Those that are dropped leave the next scrape; two of one name are refused."""
    metrics, same = PipelineMetrics("orders"), PipelineMetrics("orders")
    with pytest.raises(
        ValueError, match="name must be unique among metrics of pipelines, got 'orders' again"
    ):
        Collector(metrics, same)
    registry.register(Collector(metrics))
    assert scrape(registry)
    del metrics
    gc.collect()
    assert not scrape(registry)


@pytest.mark.parametrize(
    ("package", "make", "message"),
    [
        (
            "hdrh.histogram",
            PipelineMetrics,
            r"PipelineMetrics needs hdrh: pip install 'tickwheel\[pipeline\]'",
        ),
        ("prometheus_client.core", Collector, r"prometheus_client: pip install 'tickwheel\[prometheus\]'"),
    ],
)
def test_without_the_package(monkeypatch, package, make, message):
    """The message says what to install."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=message):
        make()
