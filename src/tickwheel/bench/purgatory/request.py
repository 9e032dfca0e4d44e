"""One request at a time, on one thread: construct, watch, complete, and what a check costs after that.

The operation is a Python class whose `try_complete` says no and whose `on_complete` is empty.
"""
from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import cycle, islice
from statistics import median
from time import perf_counter, process_time_ns
from typing import Any

from tickwheel.bench.calibration import calibrate
from tickwheel.bench.purgatories import DESIGNS
from tickwheel.bench.purgatory.load import Keys, key_sets

ENOUGH_S = 2.0
WATCHES_A_CHUNK = 3_000
FARTHEST_S = 30.0

# What is done to each request: how many keys it is watched on, of how many there are, and how many of
# them are checked when it is complete, as the events of a broker would check them.
STORIES = {
    "3 keys": (3, 100, 0),
    "3 keys, then check 1": (3, 100, 1),
    "3 keys, then check 3": (3, 100, 3),
    "1,000 keys": (1_000, 10_000, 0),
}


@dataclass(frozen=True, slots=True)
class RequestSample:
    calibration_ns: float
    request_ns: float           # CPU time of all threads: the median over chunks
    requests: int


def time_requests(
    design: str, wheel_size: int, tick: float, story: str, watches: int, collector: str
) -> RequestSample:
    """Chunks of requests, until there are so many watches, or for a while."""
    keys, key_space, checks = STORIES[story]
    calibration_ns = calibrate()
    kind = DESIGNS[design]
    purgatory = kind(tick=tick, wheel_size=wheel_size)
    operation = _operation(kind.Operation)
    sets = cycle(key_sets(keys, key_space, seed=1))
    if collector == "off":
        gc.disable()
    gc.collect()
    gc.freeze()
    each, until = max(1, WATCHES_A_CHUNK // keys), perf_counter() + ENOUGH_S
    chunks: list[float] = []
    while not chunks or (len(chunks) * each * keys < watches and perf_counter() < until):
        chunk = list(islice(sets, each))
        begin = process_time_ns()
        (_then_check if checks else _complete)(operation, purgatory, chunk, checks)
        chunks.append((process_time_ns() - begin) / each)
    return RequestSample(calibration_ns, median(chunks), len(chunks) * each)


def _operation(base: Any) -> type[Any]:
    class Request(base):        # type: ignore[misc]    # each design has its own base
        __slots__ = ()

        def try_complete(self) -> bool:
            return False

        def on_complete(self) -> None:
            pass

    return Request


def _complete(operation: Callable[[float], Any], purgatory: Any, chunk: Iterable[Keys], _: int) -> None:
    watch, timeout = purgatory.try_complete_else_watch, FARTHEST_S
    for keys in chunk:
        request = operation(timeout)
        watch(request, keys)
        request.force_complete()


def _then_check(
    operation: Callable[[float], Any], purgatory: Any, chunk: Iterable[Keys], checks: int
) -> None:
    watch, check, timeout = purgatory.try_complete_else_watch, purgatory.check_and_complete, FARTHEST_S
    for keys in chunk:
        request = operation(timeout)
        watch(request, keys)
        request.force_complete()
        for key in keys[:checks]:
            check(key)
