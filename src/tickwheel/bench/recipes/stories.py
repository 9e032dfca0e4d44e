"""All that is measured: stories, each with its contenders, of which one is ours."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tickwheel.bench.recipes import calls, clients, connections, duplicates, touches
from tickwheel.bench.recipes.calls import EXECUTORS
from tickwheel.bench.recipes.clients import measure_clients, timeout_s
from tickwheel.bench.recipes.duplicates import measure_duplicates
from tickwheel.bench.recipes.sample import DISORDER, EARLY, MISSING, TWICE, WRONG, Sample, Sizes
from tickwheel.bench.recipes.touches import Make, measure_touch
from tickwheel.bench.recipes.trackers import Nothing, Order, Rearm, Ring, Scan
from tickwheel.recipes.idle import IdleTracker

TRACKER, KEYED, FILTER = "IdleTracker", "KeyedExecutor", "Deduplicator"
FILTER_BATCHES, CACHE, LOCKED_CACHE = f"{FILTER}, batches", "TTLCache", "TTLCache, locked"
PARTITIONS = "hash % n"
BASELINE = "no tracker"
TRACKERS: dict[str, Make] = {
    TRACKER: IdleTracker, "rearm": Rearm, "scan": Scan, "ring": Ring, "order": Order,
}
LIVE_SEEN = (
    clients.CPU, clients.LATE_P99, clients.LATE_MAX, clients.EVENTS, MISSING, TWICE, EARLY, clients.RATE,
)

Measure = Callable[[Sizes, int], Sample]        # of the run's sizes and a seed


@dataclass(frozen=True, slots=True)
class Story:
    caption: Callable[[Sizes], str]
    ours: str
    contenders: Mapping[str, Measure]
    seen: tuple[str, ...]           # what there is to see; the first is its figure, the less the better
    beyond: str | None = None       # a contender whose figure is taken away from those of the others
    collectors: bool = True         # whether it is told with the garbage collector on and off
    needs: Mapping[str, str] | None = None      # packages, by the contenders that need them


def live(rate_of: Callable[[Sizes], float]) -> Story:
    def measure(make: Make) -> Measure:
        return lambda sizes, seed: measure_clients(make, rate_of(sizes), sizes, seed)

    def caption(sizes: Sizes) -> str:
        rate = rate_of(sizes)
        return (
            f"idle clients at {rate:,.0f} messages/s; {sizes.clients:,} clients, "
            f"timeout {timeout_s(sizes, rate):g} s"
        )

    makes = {BASELINE: Nothing, **TRACKERS}
    contenders = {name: measure(make) for name, make in makes.items()}
    return Story(caption, TRACKER, contenders, LIVE_SEEN, beyond=BASELINE, collectors=False)


STORIES: dict[str, Story] = {
    "touch": Story(lambda sizes: f"idle: a touch; {sizes.clients:,} clients, in random order", TRACKER, {
        **{name: partial(measure_touch, make) for name, make in TRACKERS.items() if make is not Ring},
        "ring": partial(measure_touch, Ring, turned=True),
        "ring, same second": partial(measure_touch, Ring),
    }, (touches.NS_TOUCH, touches.BYTES)),
    "idle": live(lambda sizes: sizes.rate),
    "idle-busy": live(lambda sizes: sizes.busy_rate),
    "sockets": Story(
        lambda sizes: f"idle: an asyncio server of {connections.connections(sizes):,} TCP connections, "
        f"timeout {connections.TIMEOUT_S:g} s; four of five fall silent",
        TRACKER, {TRACKER: connections.measure_connections},
        (
            connections.LATE_MAX, connections.CONNECTED, connections.CLOSED, MISSING, TWICE, EARLY,
            connections.CPU,
        ),
        collectors=False,
    ),
    "dedup": Story(
        lambda sizes: f"dedup: {sizes.keys:,} keys, {duplicates.RATE:,} a second of virtual time, "
        f"window {duplicates.WINDOW_S:g} s",
        FILTER, {
            FILTER: partial(measure_duplicates, duplicates.Ours),
            FILTER_BATCHES: partial(measure_duplicates, duplicates.OursInBatches),
            CACHE: partial(measure_duplicates, duplicates.Cache),
            LOCKED_CACHE: partial(measure_duplicates, duplicates.LockedCache),
        }, (
            duplicates.NS_KEY, duplicates.PEAK_MB, duplicates.PASSED, WRONG, duplicates.HELD, duplicates.LIVE,
        ), needs=dict.fromkeys([CACHE, LOCKED_CACHE], "cachetools"),
    ),
    "submit": Story(
        lambda sizes: f"keyed: submit and run an empty call; {sizes.calls:,} calls, "
        f"{calls.WORKERS} workers, {calls.KEYS:,} keys",
        KEYED, {name: partial(calls.measure_submit, make) for name, make in EXECUTORS.items()},
        (calls.NS_CALL, calls.CALLS_PER_S),
    ),
    "hot-key": Story(
        lambda sizes: f"keyed: one key has a tenth of {calls.RATE:,} calls/s of {calls.CALL_S * 1e3:g} ms; "
        f"{sizes.hot_s:g} s, {calls.WORKERS} workers, {calls.KEYS:,} keys",
        KEYED, {name: partial(calls.measure_hot_key, make) for name, make in EXECUTORS.items()},
        (calls.WAIT_P99, calls.WAIT_P50, calls.HOT_P99, DISORDER),
        collectors=False,
    ),
}
