"""A stream of keys, some of which come again, through a window of virtual time. CPU nanoseconds a key.

What expires meanwhile is contained, the making of keys is not. The answers are checked afterwards, against
a dictionary that forgets nothing.
"""
from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from threading import Lock
from time import process_time_ns
from typing import Any, Protocol

from tickwheel.bench.recipes.sample import WRONG, Sample, Sizes, memory
from tickwheel.clock import ManualClock
from tickwheel.extras import require
from tickwheel.recipes.dedup import Deduplicator
from tickwheel.timer import Timer

NS_KEY, PASSED, HELD, LIVE, PEAK_MB = "CPU ns a key", "passed", "held at most", "live at most", "peak MB"

RATE = 100_000          # keys a second of virtual time,
WINDOW_S = 10.0
STEP_S = 1 / 32         # which moves in steps that are exact in binary: so are all deadlines,
STEP = RATE // 32
AGAIN_EVERY = 20        # every so many keys one comes again: half of them too soon

Chunk = Sequence[int]


class Filter(Protocol):
    """What is measured, on a clock that the stream moves."""

    def move(self, seconds: float) -> None:
        """Time goes on, and what it ends may be freed."""

    def first_seen_many(self, keys: Chunk) -> list[bool]: ...

    def __len__(self) -> int: ...


class Ours:
    def __init__(self) -> None:
        self._clock = ManualClock()
        self._timer = Timer(clock=self._clock, executor="inline", start=False)
        self._filter = Deduplicator(WINDOW_S, timer=self._timer)

    def move(self, seconds: float) -> None:
        self._clock.advance(seconds)
        self._timer.advance_clock()

    def first_seen_many(self, keys: Chunk) -> list[bool]:
        first_seen = self._filter.first_seen
        return [first_seen(key) for key in keys]

    def __len__(self) -> int:
        return len(self._filter)


class OursInBatches(Ours):
    def first_seen_many(self, keys: Chunk) -> list[bool]:
        return self._filter.first_seen_many(keys)


class Cache:
    """`cachetools.TTLCache`, for one thread alone. What has expired goes with each key that comes in."""

    def __init__(self) -> None:
        self._clock = ManualClock()
        cachetools = require("cachetools", "the peer TTLCache", "bench")
        self._cache: Any = cachetools.TTLCache(float("inf"), WINDOW_S, self._clock.time)

    def move(self, seconds: float) -> None:
        self._clock.advance(seconds)

    def first_seen_many(self, keys: Chunk) -> list[bool]:
        cache, answers = self._cache, []
        for key in keys:
            if is_first := key not in cache:
                cache[key] = None
            answers.append(is_first)
        return answers

    def __len__(self) -> int:
        return int(self._cache.currsize)


class LockedCache(Cache):
    """The same, as threads need it."""

    def __init__(self) -> None:
        super().__init__()
        self._lock: AbstractContextManager[object] = Lock()

    def first_seen_many(self, keys: Chunk) -> list[bool]:
        cache, lock, answers = self._cache, self._lock, []
        for key in keys:
            with lock:
                if is_first := key not in cache:
                    cache[key] = None
            answers.append(is_first)
        return answers


def stream(keys: int, seed: int) -> Iterator[list[int]]:
    """So many keys, a chunk for each step: new ones, and some of the last two windows again."""
    number = random.Random(seed).randrange
    new = 0
    for start in range(0, keys, STEP):
        chunk = list(range(new, new + min(STEP, keys - start)))
        reach = int(2 * RATE * WINDOW_S)
        if new:
            chunk[::AGAIN_EVERY] = [
                number(max(0, new - reach), new) for _ in range(0, len(chunk), AGAIN_EVERY)
            ]
        new += min(STEP, keys - start)
        yield chunk


def count_wrong(chunks: Iterator[list[int]], answers: Sequence[int]) -> tuple[int, int]:
    """How many answers are wrong, and how many keys were live at most: half-open windows from what passed."""
    passed: dict[int, float] = {}
    wrong = live = most = 0
    windows: list[int] = []         # the keys that passed, a number for each step
    for number, (chunk, answered) in enumerate(_with_answers(chunks, answers)):
        now = number * STEP_S
        before = live
        for key, answer in zip(chunk, answered, strict=True):
            is_first = key not in passed or now >= passed[key] + WINDOW_S
            if is_first:
                passed[key] = now
                live += 1
            wrong += is_first != bool(answer)
        windows.append(live - before)
        if number >= WINDOW_S / STEP_S:
            live -= windows[number - int(WINDOW_S / STEP_S)]
        most = max(most, live)
    return wrong, most


def _with_answers(
    chunks: Iterator[list[int]], answers: Sequence[int]
) -> Iterator[tuple[list[int], Sequence[int]]]:
    start = 0
    for chunk in chunks:
        yield chunk, answers[start : start + len(chunk)]
        start += len(chunk)


def measure_duplicates(make: Callable[[], Filter], sizes: Sizes, seed: int) -> Sample:
    gc.collect()
    before = memory()
    peak = before
    answers: list[list[bool]] = []
    held = ns = 0
    seen_filter = make()
    for chunk in stream(sizes.keys, seed):
        begin = process_time_ns()
        answered = seen_filter.first_seen_many(chunk)
        held = max(held, len(seen_filter))
        seen_filter.move(STEP_S)
        ns += process_time_ns() - begin
        answers.append(answered)
        if peak is not None:
            peak = max(peak, memory() or 0)
    flat = bytearray(chain.from_iterable(answers))
    wrong, live = count_wrong(stream(sizes.keys, seed), flat)
    seen = {NS_KEY: ns / sizes.keys, PASSED: sum(flat), WRONG: wrong, HELD: held, LIVE: live}
    if peak is not None and before is not None:
        seen[PEAK_MB] = (peak - before) / 1e6
    return Sample(seen)
