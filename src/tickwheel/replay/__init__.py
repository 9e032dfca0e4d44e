"""A trace through the wheel in virtual time: nothing sleeps, every instant is reached in order.

Each request is scheduled at its arrival and cancelled at its completion; it fires at its
deadline, arrival + timeout, rounded up to a tick (a multiple of the tick from zero of the
trace's own clock). A completion at that very instant wins; a request without one expires.
"""
from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from time import perf_counter
from typing import Any

from tickwheel.metrics import percentile
from tickwheel.replay.outcomes import Outcomes, RowOrder
from tickwheel.trace import Chunk
from tickwheel.units import MAX_NS

KERNELS = {"cython": "tickwheel._replay", "python": "tickwheel._reference.replay"}


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replay counted. Lateness: from the exact deadline to the fire, of those that expired."""

    implementation: str
    tick_ns: int
    timeout_ns: int
    wheel_size: int
    requests: int
    completed: int
    expired: int
    peak_pending: int
    wakeups: int            # instants at which a non-empty bucket, of any level, expired
    cascades: int           # requests that moved to a finer wheel
    lateness_p50_ns: int
    lateness_p99_ns: int
    lateness_max_ns: int
    events: int             # arrivals, completions and fires that the kernel handled
    seconds: float          # spent in the kernel; reading and writing are not in it
    events_per_second: float
    lateness_counts: list[int] = field(repr=False)


def replay(
    chunks: Iterable[Chunk],
    *,
    tick_ns: int,
    timeout_ns: int,
    wheel_size: int = 512,
    core: str | None = None,
    on_outcomes: Callable[[Outcomes], None] | None = None,
) -> ReplayResult:
    """Replay requests, given as chunks in order of arrival, in memory bounded by what is pending.

    `core`: "cython" or "python"; None: the one in use. `on_outcomes` gets what became of the
    requests, in their order. ValueError: an argument out of its range, or a core that is not there.
    """
    for name, value in (("tick_ns", tick_ns), ("timeout_ns", timeout_ns)):
        if value <= 0:
            raise ValueError(f"{name} must be > 0, got {value}")
    make_kernel, implementation = _kernel(core)
    kernel = make_kernel(tick_ns, timeout_ns, wheel_size)
    order = RowOrder()
    requests = 0
    seconds = 0.0

    def step(call: Callable[..., tuple[Sequence[int], Sequence[int]]], *columns: array[int]) -> None:
        nonlocal seconds
        started = perf_counter()
        rows, fires = call(*columns)
        seconds += perf_counter() - started
        if on_outcomes:
            on_outcomes(order.decide(rows, fires))

    for chunk in chunks:
        requests += len(chunk.labels)
        if on_outcomes:
            order.feed(chunk)
        step(kernel.feed, chunk.arrivals, chunk.completions)
    step(kernel.finish)
    counts, latest = list(kernel.lateness_counts), kernel.lateness_max
    return ReplayResult(
        implementation=implementation,
        tick_ns=tick_ns,
        timeout_ns=timeout_ns,
        wheel_size=wheel_size,
        requests=requests,
        completed=kernel.completed,
        expired=kernel.expired,
        peak_pending=kernel.peak_pending,
        wakeups=kernel.wakeups,
        cascades=kernel.cascades,
        lateness_p50_ns=percentile(counts, 0.5, latest),
        lateness_p99_ns=percentile(counts, 0.99, latest),
        lateness_max_ns=latest,
        events=kernel.events,
        seconds=seconds,
        events_per_second=kernel.events / seconds,
        lateness_counts=counts,
    )


def latest_arrival_ns(tick_ns: int, timeout_ns: int) -> int:
    """The last arrival whose deadline, rounded up to a tick, is still a time."""
    return MAX_NS // tick_ns * tick_ns - timeout_ns


def _kernel(core: str | None) -> tuple[Any, str]:
    """The kernel's class, and the name of its core."""
    if core is None:
        in_use = import_module("tickwheel._core")
        return in_use.ReplayKernel, in_use.IMPLEMENTATION
    if core not in KERNELS:
        raise ValueError(f"core must be cython or python, got {core!r}")
    try:
        return import_module(KERNELS[core]).ReplayKernel, core
    except ImportError as error:
        raise ValueError(f"core must be python where no extension is installed, got {core!r}") from error
