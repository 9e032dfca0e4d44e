"""The Prometheus collector, scraped through prometheus_client's own parsers."""

import gc
import sys

import pytest

from tickwheel import DelayedOperation, DelayedOperationPurgatory, ManualClock, Timer
from tickwheel.extras import MissingExtra
from tickwheel.prometheus import Collector

client = pytest.importorskip("prometheus_client")
parser = pytest.importorskip("prometheus_client.parser")
openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
openmetrics_exposition = pytest.importorskip("prometheus_client.openmetrics.exposition")


class Waiting(DelayedOperation):
    def try_complete(self):
        return False

    def on_complete(self):
        pass

    def on_expiration(self):
        pass


class Failing(Waiting):
    def on_complete(self):
        raise LookupError("on purpose")


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def timer(clock):
    with Timer(clock=clock, executor="inline", start=False, name="reaper-1") as timer:
        yield timer


@pytest.fixture
def make_purgatory(timer):
    purgatories = []

    def make(name, **options):
        purgatories.append(DelayedOperationPurgatory(name, timer=timer, **options))
        return purgatories[-1]

    yield make
    for purgatory in purgatories:
        purgatory.close()


@pytest.fixture
def registry():
    return client.CollectorRegistry(auto_describe=True)


def scrape(registry):
    """{(sample name, purgatory or timer, quantile where there is one): value}, as a server would read it."""
    seen = {}
    for family in parser.text_string_to_metric_families(client.generate_latest(registry).decode()):
        for sample in family.samples:
            quantile = [sample.labels.pop("quantile")] if "quantile" in sample.labels else []
            [source] = sample.labels.values()
            seen[sample.name, source, *quantile] = sample.value
    return seen


def test_purgatory_metrics(make_purgatory, timer, clock, registry, caplog):
    """Each figure of `stats()` arrives under its name, labelled with the purgatory's."""
    produce = make_purgatory("produce")
    registry.register(Collector(produce))
    waiting, forced, dropped = Waiting(60.0), Waiting(60.0), Waiting(60.0)
    for operation in (waiting, forced, dropped, Waiting(1.0), Failing(1.0)):
        produce.try_complete_else_watch(operation, ["a", "b", "c"])
    forced.force_complete()
    dropped.cancel()
    clock.advance(3.0)
    timer.advance_clock()
    assert "on purpose" in caplog.text

    seen = scrape(registry)
    stats = produce.stats()
    assert stats.lateness_max >= 1.9
    assert seen == {
        ("tickwheel_purgatory_size", "produce"): 3,
        ("tickwheel_purgatory_num_delayed_operations", "produce"): 1,
        ("tickwheel_purgatory_expires_total", "produce"): 2,
        ("tickwheel_purgatory_completed_total", "produce"): 1,
        ("tickwheel_purgatory_dropped_total", "produce"): 1,
        ("tickwheel_purgatory_callback_errors_total", "produce"): 1,
        ("tickwheel_purgatory_purged_total", "produce"): 0,
        ("tickwheel_purgatory_purges_total", "produce"): 0,
        ("tickwheel_purgatory_lateness_seconds", "produce", "0.5"): stats.lateness_p50,
        ("tickwheel_purgatory_lateness_seconds", "produce", "0.99"): stats.lateness_p99,
        ("tickwheel_purgatory_lateness_seconds", "produce", "1"): stats.lateness_max,
    }


def test_purges_are_counted(make_purgatory, timer, registry):
    """With a purge interval, entries that a purge took out are `purged`."""
    fetch = make_purgatory("fetch", purge_interval=0)
    registry.register(Collector(fetch))
    operation = Waiting(60.0)
    fetch.try_complete_else_watch(operation, ["a", "b"])
    operation.force_complete()
    timer.advance_clock()
    seen = scrape(registry)
    assert seen["tickwheel_purgatory_purged_total", "fetch"] == 2
    assert seen["tickwheel_purgatory_purges_total", "fetch"] == 1
    assert seen["tickwheel_purgatory_size", "fetch"] == 0


def test_timer_metrics(timer, clock, registry, caplog):
    """Each figure of a timer's `stats()` arrives, labelled with the timer's name."""
    registry.register(Collector(timer))
    timer.schedule(60.0, list)
    timer.schedule(60.0, list).cancel()
    timer.schedule(1.0, list)
    timer.schedule(1.0, [].pop)
    clock.advance(3.0)
    timer.advance_clock()
    stats = timer.stats()
    assert scrape(registry) == {
        ("tickwheel_timer_pending", "reaper-1"): 1,
        ("tickwheel_timer_scheduled_total", "reaper-1"): 4,
        ("tickwheel_timer_fired_total", "reaper-1"): 2,
        ("tickwheel_timer_cancelled_total", "reaper-1"): 1,
        ("tickwheel_timer_callback_errors_total", "reaper-1"): 1,
        ("tickwheel_timer_wakeups_total", "reaper-1"): stats.wakeups,
        ("tickwheel_timer_lateness_seconds", "reaper-1", "0.5"): stats.lateness_p50,
        ("tickwheel_timer_lateness_seconds", "reaper-1", "0.99"): stats.lateness_p99,
        ("tickwheel_timer_lateness_seconds", "reaper-1", "1"): stats.lateness_max,
    }
    assert stats.wakeups > 0


def test_a_scrape_is_valid_openmetrics(make_purgatory, timer, registry):
    """The strict parser takes it too, several sources and both kinds together, with type and help of each."""
    registry.register(Collector(make_purgatory("produce"), make_purgatory("fetch"), timer))
    text = openmetrics_exposition.generate_latest(registry).decode()
    families = {family.name: family for family in openmetrics.text_string_to_metric_families(text)}
    assert families["tickwheel_purgatory_size"].type == "gauge"
    assert families["tickwheel_purgatory_expires"].type == "counter"
    assert families["tickwheel_purgatory_lateness_seconds"].type == "summary"
    assert all(family.documentation for family in families.values())
    expires = families["tickwheel_purgatory_expires"].samples
    assert {sample.labels["purgatory"] for sample in expires} == {"produce", "fetch"}


def test_each_scrape_reads_anew(timer, clock, registry):
    """Nothing is kept between two scrapes."""
    registry.register(Collector(timer))
    assert scrape(registry)["tickwheel_timer_fired_total", "reaper-1"] == 0
    timer.schedule(1.0, list)
    clock.advance(1.0)
    timer.advance_clock()
    assert scrape(registry)["tickwheel_timer_fired_total", "reaper-1"] == 1


def test_what_is_dropped_leaves_the_scrape(make_purgatory, timer, registry):
    """The collector holds nothing alive, and a name that is free again may be used again."""
    collector = Collector(timer)
    registry.register(collector)
    purgatory = DelayedOperationPurgatory("produce", timer=timer)
    collector.add(purgatory)
    assert ("tickwheel_purgatory_size", "produce") in scrape(registry)
    purgatory.close()
    del purgatory
    gc.collect()
    assert ("tickwheel_purgatory_size", "produce") not in scrape(registry)
    collector.add(make_purgatory("produce"))
    assert ("tickwheel_purgatory_size", "produce") in scrape(registry)


def test_names(make_purgatory, timer, registry):
    """Two of one name would be one series: the second is refused, or given another name."""
    collector = Collector(timer)
    registry.register(collector)
    first, second = make_purgatory("purgatory"), make_purgatory("purgatory")
    collector.add(first)
    collector.add(first)
    with pytest.raises(ValueError, match="name must be unique among purgatories, got 'purgatory' again"):
        collector.add(second)
    collector.add(second, name="second")
    sizes = {key for key in scrape(registry) if key[0] == "tickwheel_purgatory_size"}
    assert sizes == {("tickwheel_purgatory_size", "purgatory"), ("tickwheel_purgatory_size", "second")}


def test_what_is_no_source():
    """A TypeError that shows what came."""
    with pytest.raises(TypeError, match="must be a Timer or a DelayedOperationPurgatory, got 'produce'"):
        Collector("produce")


def test_without_prometheus_client(monkeypatch):
    """The message says what to install."""
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    with pytest.raises(MissingExtra, match=r"prometheus_client: pip install 'tickwheel\[prometheus\]'"):
        Collector()
