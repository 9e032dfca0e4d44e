"""Idle timers: each of N connections has one, which every message puts off. CPU nanoseconds a message.

A connection has so many messages in its idle time, and what its timer costs until that is over is what is
measured. The workaround, a stamp of the last activity, does next to nothing for a message; instead its timer
goes off once in each idle time, looks at the stamp, and is armed anew: that is contained.
"""
from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from time import process_time_ns
from typing import Any

from tickwheel.bench.dropins.loops import CHUNK, held
from tickwheel.bench.dropins.sample import Sample
from tickwheel.bench.micro import LEAD_EACH_S, LEAD_S, WINDOW_S, nothing

IDLE_S = 60.0


class Connection:
    """What it keeps of its timer."""

    __slots__ = ("handle", "stamp")

    handle: Any
    stamp: float


Refresh = Callable[[Any, Sequence[Connection]], None]


def arm_anew(loop: Any, connections: Sequence[Connection]) -> None:
    call_later = loop.call_later
    for connection in connections:
        connection.handle.cancel()
        connection.handle = call_later(IDLE_S, nothing)


def reschedule(loop: Any, connections: Sequence[Connection]) -> None:
    for connection in connections:
        connection.handle.reschedule(IDLE_S)


def stamp(loop: Any, connections: Sequence[Connection]) -> None:
    now = loop.time
    for connection in connections:
        connection.stamp = now()


async def measure_refresh(refresh: Refresh, messages: int, n: int, seed: int) -> Sample:
    """All connections have their messages in random order, each time another one. Beside it, the most entries
    that the loop had for them."""
    loop = asyncio.get_running_loop()
    connections = [Connection() for _ in range(n)]
    for connection in connections:
        connection.handle = loop.call_later(IDLE_S, nothing)
    ns, most = await _all_messages(loop, refresh, messages, connections, seed)
    return Sample(ns / (n * messages), most)


async def measure_stamp(messages: int, n: int, seed: int) -> Sample:
    """The same, and then the timers of all connections, which go off and are armed anew."""
    loop = asyncio.get_running_loop()
    looks = 0

    def look(connection: Connection) -> None:
        nonlocal looks
        looks += 1
        rest = connection.stamp + IDLE_S - loop.time()
        if rest > 0:
            connection.handle = loop.call_later(rest, look, connection)

    connections = [Connection() for _ in range(n)]
    uniform = random.Random(seed).uniform
    end = loop.time() + LEAD_S + n * LEAD_EACH_S * (1 + messages / 5) + WINDOW_S
    for connection in connections:
        connection.handle = loop.call_at(uniform(end - WINDOW_S, end), look, connection)
    ns, most = await _all_messages(loop, stamp, messages, connections, seed)
    time.sleep(max(0.0, end - loop.time()) + 0.05)
    begin = process_time_ns()
    while looks < n:
        await asyncio.sleep(0)
    ns += process_time_ns() - begin
    return Sample(ns / (n * messages), most)


async def _all_messages(
    loop: Any, refresh: Refresh, messages: int, connections: list[Connection], seed: int
) -> tuple[int, int | None]:
    """Nanoseconds of all messages, with the loop's turns between them, and the most entries that it had."""
    shuffle, ns, most = random.Random(seed).shuffle, 0, held(loop)
    for _ in range(messages):
        shuffle(connections)
        for start in range(0, len(connections), CHUNK):
            chunk = connections[start : start + CHUNK]
            begin = process_time_ns()
            refresh(loop, chunk)
            await asyncio.sleep(0)
            ns += process_time_ns() - begin
            if most is not None:
                most = max(most, held(loop) or 0)
    return ns, most
