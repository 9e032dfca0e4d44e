"""A trace through the wheel in virtual time: nothing sleeps, every instant is reached in order.

Each request is scheduled at its arrival and cancelled at its completion; it fires at its
deadline, arrival + timeout, rounded up to a tick (a multiple of the tick from zero of the
trace's own clock). A completion at that very instant wins; a request without one expires.

    result = replay(Trace("trace.csv"), tick_ns=10**6, timeout_ns=200 * 10**6)

Several configurations over one reading of the trace: a `Replay` each, fed with the same chunks.
"""
from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from time import perf_counter, thread_time
from typing import Any, TypeAlias

from tickwheel.metrics import percentile
from tickwheel.replay.outcomes import Outcomes, RowOrder
from tickwheel.trace import Chunk
from tickwheel.units import MAX_NS

Decisions: TypeAlias = "tuple[array[int], array[int]]"    # rows, fires
KERNELS = {"cython": "tickwheel._replay", "python": "tickwheel._reference.replay"}


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replay counted. Lateness: from the exact deadline to the fire, of those that expired.

    All but `implementation` and what was measured (`seconds`, `cpu_seconds`, `events_per_second`) follows
    from requests and configuration alone, not from how the requests were cut into chunks.
    """

    implementation: str
    tick_ns: int
    timeout_ns: int | None  # None: each request had its own
    wheel_size: int
    purge_interval: int | None  # None: what has ended leaves its watcher lists at once
    requests: int
    completed: int
    expired: int
    peak_pending: int
    wakeups: int            # instants at which a non-empty bucket, of any level, expired
    cascades: int           # requests that moved to a finer wheel
    purges: int             # each when more than `purge_interval` of the watched had ended
    purged: int             # requests that they took out of the watcher lists
    peak_watched: int       # requests in watcher lists, ended ones too
    lateness_p50_ns: int
    lateness_p99_ns: int
    lateness_max_ns: int
    events: int             # arrivals, completions and fires that the kernel handled
    seconds: float          # spent in the kernel; reading and writing are not in it
    cpu_seconds: float      # of these, on a core
    events_per_second: float
    lateness_counts: list[int] = field(repr=False)
    pending_start_ns: int   # of the first interval below, which holds the first arrival
    pending_width_ns: int   # a power of two; each interval starts at a multiple of it
    pending_peaks: list[int] = field(repr=False)    # the most pending in each interval, up to the last event


class Replay:
    """One configuration: `feed` it the requests in order of arrival, then `finish`.

    `timeout_ns`: of each request; None: each chunk brings `timeouts`. `purge_interval`: how many requests
    that have ended may be in watcher lists, as in the seeds' purgatory; None: none. `core`: "cython" or
    "python"; None: the one in use. `on_outcomes` gets what became of the requests, in their order.
    ValueError: an argument out of its range, or a core that is not there. Memory is bounded by what is
    pending and one chunk.
    """

    def __init__(
        self,
        *,
        tick_ns: int,
        timeout_ns: int | None,
        wheel_size: int = 512,
        purge_interval: int | None = None,
        core: str | None = None,
        on_outcomes: Callable[[Outcomes], None] | None = None,
    ) -> None:
        for name, value in (("tick_ns", tick_ns), ("timeout_ns", timeout_ns)):
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be > 0, got {value}")
        make_kernel, self._implementation = _kernel(core)
        self._kernel = make_kernel(tick_ns, timeout_ns, wheel_size, purge_interval)
        self._tick_ns = tick_ns
        self._timeout_ns = timeout_ns
        self._wheel_size = wheel_size
        self._purge_interval = purge_interval
        self._on_outcomes = on_outcomes
        self._order = RowOrder()
        self._requests = 0
        self._seconds = 0.0
        self._cpu_seconds = 0.0

    def feed(self, chunk: Chunk) -> None:
        """ValueError: a row that cannot be; it is named by its number from 0 on, and none has been played."""
        timeouts = chunk.timeouts if self._timeout_ns is None else None
        decided = self._timed(self._kernel.feed, chunk.arrivals, chunk.completions, timeouts)
        self._requests += len(chunk.arrivals)
        if self._on_outcomes:
            self._order.feed(chunk)
            self._on_outcomes(self._order.decide(*decided))

    def finish(self) -> ReplayResult:
        """Let all that is pending complete or expire; no `feed` after it."""
        decided = self._timed(self._kernel.finish)
        if self._on_outcomes:
            self._on_outcomes(self._order.decide(*decided))
        kernel = self._kernel
        counts, latest = list(kernel.lateness_counts), kernel.lateness_max
        start, width, peaks = kernel.pending_curve
        return ReplayResult(
            implementation=self._implementation,
            tick_ns=self._tick_ns,
            timeout_ns=self._timeout_ns,
            wheel_size=self._wheel_size,
            purge_interval=self._purge_interval,
            requests=self._requests,
            completed=kernel.completed,
            expired=kernel.expired,
            peak_pending=kernel.peak_pending,
            wakeups=kernel.wakeups,
            cascades=kernel.cascades,
            purges=kernel.purges,
            purged=kernel.purged,
            peak_watched=kernel.peak_watched,
            lateness_p50_ns=percentile(counts, 0.5, latest),
            lateness_p99_ns=percentile(counts, 0.99, latest),
            lateness_max_ns=latest,
            events=kernel.events,
            seconds=self._seconds,
            cpu_seconds=self._cpu_seconds,
            events_per_second=kernel.events / self._seconds,
            lateness_counts=counts,
            pending_start_ns=start,
            pending_width_ns=width,
            pending_peaks=peaks,
        )

    def _timed(self, call: Callable[..., Decisions], *columns: array[int] | None) -> Decisions:
        started, cpu_started = perf_counter(), thread_time()
        decided = call(*columns)
        self._cpu_seconds += thread_time() - cpu_started
        self._seconds += perf_counter() - started
        return decided


def replay(
    chunks: Iterable[Chunk],
    *,
    tick_ns: int,
    timeout_ns: int | None,
    wheel_size: int = 512,
    purge_interval: int | None = None,
    core: str | None = None,
    on_outcomes: Callable[[Outcomes], None] | None = None,
) -> ReplayResult:
    """Replay requests, given as chunks in order of arrival, through one configuration: see `Replay`."""
    configured = Replay(
        tick_ns=tick_ns,
        timeout_ns=timeout_ns,
        wheel_size=wheel_size,
        purge_interval=purge_interval,
        core=core,
        on_outcomes=on_outcomes,
    )
    for chunk in chunks:
        configured.feed(chunk)
    return configured.finish()


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
