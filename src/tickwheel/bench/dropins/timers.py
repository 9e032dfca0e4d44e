"""The timers of a running loop, each with the context that asyncio captures: CPU nanoseconds an operation,
and how late they are.

Churn, expiry and memory are those of `tickwheel.bench.micro`; the loop that measures is contained.
"""
from __future__ import annotations

import asyncio
from statistics import median
from time import perf_counter, process_time_ns

from tickwheel.bench import micro
from tickwheel.bench.dropins.loops import CHUNK, FACTORIES, chunks, fill
from tickwheel.bench.dropins.sample import Sample
from tickwheel.bench.micro import FARTHEST_S, nothing
from tickwheel.bench.peers import Asyncio

TURNS = 50_000
SLEEPS, SLEEP_S = 100, 0.01


async def measure_pair(n: int, seed: int) -> Sample:
    """`call_later`, and `cancel` of what it returned, with N pending."""
    loop = asyncio.get_running_loop()
    pending = fill(loop, n, seed)
    call_later, ns = loop.call_later, 0
    for _ in range(chunks(n)):
        begin = process_time_ns()
        for _ in range(CHUNK):
            call_later(FARTHEST_S, nothing).cancel()
        await asyncio.sleep(0)
        ns += process_time_ns() - begin
    del pending
    return Sample(ns / (chunks(n) * CHUNK))


async def measure_turn(n: int, seed: int) -> Sample:
    """A turn of the loop in which one task goes on, with N pending."""
    pending = fill(asyncio.get_running_loop(), n, seed)
    await asyncio.sleep(0)
    begin = process_time_ns()
    for _ in range(TURNS):
        await asyncio.sleep(0)
    ns = process_time_ns() - begin
    del pending
    return Sample(ns / TURNS)


async def measure_lateness(n: int, seed: int) -> Sample:
    """How many microseconds too late a sleep of 10 ms ends, in the median, with N pending."""
    pending = fill(asyncio.get_running_loop(), n, seed)
    late = []
    for _ in range(SLEEPS):
        begin = perf_counter()
        await asyncio.sleep(SLEEP_S)
        late.append(perf_counter() - begin - SLEEP_S)
    del pending
    return Sample(median(late) * 1e6)


def measure_micro(operation: str, contender: str, n: int, seed: int) -> Sample:
    """An operation of the micro benchmarks: one batch of it, after one that has warmed up."""

    class Loop(Asyncio):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            return FACTORIES[contender]()

    if operation != "memory":       # there, a second batch would use what the first gave back
        micro.batch(Loop, operation, n, seed)
    seen = micro.batch(Loop, operation, n, seed)
    return Sample(sum(amount for amount, _ in seen) / sum(operations for _, operations in seen))
