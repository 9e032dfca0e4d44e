"""Calls with keys, by executors that keep the order within a key, and by one that does not.

What a submit costs: CPU nanoseconds of an empty call, run contained. A hot key: calls that sleep, of which
one key has as many as a worker can do, and how long those of the other keys wait for their worker.
"""
from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, perf_counter, process_time_ns, sleep
from typing import Any, Protocol

from tickwheel.bench.micro import nothing
from tickwheel.bench.recipes.partitioned import PartitionedExecutor
from tickwheel.bench.recipes.sample import DISORDER, Sample, Sizes, share
from tickwheel.recipes.keyed import KeyedExecutor

NS_CALL, CALLS_PER_S = "CPU ns a call", "calls/s"
WAIT_P50, WAIT_P99, HOT_P99 = "others p50 ms", "others p99 ms", "hot key p99 ms"

WORKERS = 12
KEYS = 1_000
CALL_S = 0.01           # of each call, where there is a hot key,
RATE = 1_000            # calls a second: twelve workers can do 1,200,
HOT_EVERY = 10          # and the hot key has one of so many: as much as one worker can do
HOT = 0


class Executor(Protocol):
    def submit(self, key: int, fn: Callable[..., object], /, *args: Any) -> object: ...
    def shutdown(self) -> object: ...


class Pool:
    """`ThreadPoolExecutor`, to which a key means nothing: no order, and the least that it can cost."""

    def __init__(self, workers: int) -> None:
        self._pool = ThreadPoolExecutor(workers)

    def submit(self, key: int, fn: Callable[..., object], /, *args: Any) -> object:
        return self._pool.submit(fn, *args)

    def shutdown(self) -> None:
        self._pool.shutdown()


Make = Callable[[int], Executor]
EXECUTORS: dict[str, Make] = {
    "KeyedExecutor": KeyedExecutor, "hash % n": PartitionedExecutor, "ThreadPoolExecutor": Pool,
}


def measure_submit(make: Make, sizes: Sizes, seed: int) -> Sample:
    keys = random.Random(seed).choices(range(KEYS), k=sizes.calls)
    executor = make(WORKERS)
    begin, cpu = perf_counter(), process_time_ns()
    submit = executor.submit
    for key in keys:
        submit(key, nothing)
    executor.shutdown()
    cpu, seconds = process_time_ns() - cpu, perf_counter() - begin
    return Sample({NS_CALL: cpu / len(keys), CALLS_PER_S: len(keys) / seconds})


class Calls:
    """What is submitted, and what was seen of it."""

    def __init__(self) -> None:
        self.waits: list[tuple[int, float]] = []        # of each call: its key, and how long it waited
        self.disorder = 0
        self._running: set[int] = set()
        self._latest: dict[int, int] = {}

    def run(self, key: int, number: int, submitted: float) -> None:
        """`number` grows with each submit. Each step here is one operation: threads need no lock for it."""
        self.waits.append((key, monotonic() - submitted))
        if key in self._running or number < self._latest.get(key, -1):
            self.disorder += 1
        self._running.add(key)
        self._latest[key] = number
        sleep(CALL_S)
        self._running.discard(key)


def measure_hot_key(make: Make, sizes: Sizes, seed: int) -> Sample:
    keys = random.Random(seed).choices(range(1, KEYS), k=int(sizes.hot_s * RATE))
    keys[::HOT_EVERY] = [HOT] * len(keys[::HOT_EVERY])
    calls = Calls()
    executor = make(WORKERS)
    begin = monotonic()
    for number, key in enumerate(keys):
        if (rest := begin + number / RATE - monotonic()) > 0:
            sleep(rest)
        executor.submit(key, calls.run, key, number, monotonic())
    executor.shutdown()
    waits, hot = (
        sorted(1e3 * wait for key, wait in calls.waits if (key == HOT) == is_hot) for is_hot in (False, True)
    )
    return Sample({
        WAIT_P50: share(waits, 0.5), WAIT_P99: share(waits, 0.99), HOT_P99: share(hot, 0.99),
        DISORDER: calls.disorder,
    })
