"""The event loops that are compared, by name, and what every measurement does on one."""
from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from tickwheel.bench.dropins.sample import Sample
from tickwheel.bench.micro import FARTHEST_S, NEAREST_S, nothing
from tickwheel.dropin import asyncio as dropin
from tickwheel.extras import require

STOCK, WHEEL, UVLOOP = "stock", "wheel", "uvloop"
CHUNK = 1_000               # operations between two turns of the loop
LEAST_CHUNKS = 100


def _new_uvloop() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop = require("uvloop", "the loop uvloop", "bench").new_event_loop()
    return loop


FACTORIES: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    STOCK: asyncio.new_event_loop,
    WHEEL: dropin.new_event_loop,
    UVLOOP: _new_uvloop,
}


def run_on(loop: str, measuring: Coroutine[Any, Any, Sample]) -> Sample:
    with asyncio.Runner(loop_factory=FACTORIES[loop]) as runner:
        return runner.run(measuring)


def fill(loop: asyncio.AbstractEventLoop, n: int, seed: int) -> list[asyncio.TimerHandle]:
    """So many timers that do not come due while something is measured."""
    uniform = random.Random(seed).uniform
    return [loop.call_later(uniform(NEAREST_S, FARTHEST_S), nothing) for _ in range(n)]


def chunks(n: int) -> int:
    """How many are measured: enough for a loop that tidies up once as many are cancelled as N pending."""
    return max(LEAST_CHUNKS, 2 * n // CHUNK)


def held(loop: Any) -> int | None:
    """Entries in what keeps a loop's timers, with those that were cancelled; None: it does not tell."""
    if isinstance(loop, dropin.WheelEventLoop):
        return len(loop)
    return len(loop._scheduled) if hasattr(loop, "_scheduled") else None
