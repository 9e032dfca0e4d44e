"""Time limits of 30 s around a coroutine that returns at once: CPU nanoseconds more than the bare await."""
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import process_time_ns
from typing import Any

from tickwheel.bench.dropins.loops import CHUNK, chunks, fill
from tickwheel.bench.dropins.sample import Sample

LIMIT_S = 30.0

Limit = Callable[[float], Any]      # asyncio's `timeout`, or our own, whose enter and exit are no coroutines


async def measure_timeout(timeout: Limit, n: int, seed: int) -> Sample:
    """`async with timeout(30)`."""

    async def limited() -> None:
        for _ in range(CHUNK):
            async with timeout(LIMIT_S):
                await trivial()

    return await _over_bare(limited, n, seed)


async def measure_wait_for(n: int, seed: int) -> Sample:
    async def limited() -> None:
        for _ in range(CHUNK):
            await asyncio.wait_for(trivial(), LIMIT_S)

    return await _over_bare(limited, n, seed)


async def trivial() -> None:
    pass


async def bare() -> None:
    for _ in range(CHUNK):
        await trivial()


async def _over_bare(limited: Callable[[], Awaitable[None]], n: int, seed: int) -> Sample:
    """The two in turns, a chunk each, with N timers pending."""
    pending = fill(asyncio.get_running_loop(), n, seed)
    ns = 0
    for _ in range(chunks(n)):
        begin = process_time_ns()
        await limited()
        await asyncio.sleep(0)
        between = process_time_ns()
        await bare()
        await asyncio.sleep(0)
        ns += between - begin - (process_time_ns() - between)
    del pending
    return Sample(ns / (chunks(n) * CHUNK))
