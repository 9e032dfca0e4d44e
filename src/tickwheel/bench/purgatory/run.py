"""One run: a thread enqueues the load, another completes it, and what was seen is a `Sample`."""
from __future__ import annotations

import gc
import sys
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import cycle, islice
from math import inf
from operator import length_hint
from time import monotonic, perf_counter_ns, process_time, sleep
from typing import Any

from tickwheel.bench.calibration import calibrate
from tickwheel.bench.purgatories import DESIGNS
from tickwheel.bench.purgatories.bare import BarePurgatory
from tickwheel.bench.purgatories.interface import Purgatory
from tickwheel.bench.purgatory.load import Load, make_load
from tickwheel.bench.purgatory.witness import Collections, Trouble, Witness
from tickwheel.meanwhile import meanwhile
from tickwheel.timer import Timer

Beside = Callable[[Any], AbstractContextManager[object]]

PAYLOAD = 100               # bytes of a request
WARM_UP = 64                # requests
STACK = 1 << 18             # bytes for a thread, all of which count as its data: enough, and not 8 MB
TIMED_WATCHES = 192         # one completion is timed for so many watches: one of 64 requests with 3 keys
STALLED_S = 5.0             # without a completion: those that are missing will never come


@dataclass(frozen=True, slots=True)
class Setting:
    """What is run: a design under a load, by default the proposal's. In seconds where no unit is named."""

    design: str
    wheel_size: int = 20
    tick: float = 0.001
    rate: float = inf               # requests a second; inf: as fast as they go
    p50_ms: float = 20.0
    p75_ms: float = 60.0
    timeout: float = 0.2
    requests: int = 1_000_000
    keys: int = 3
    key_space: int = 100
    gc: str = "on"                  # | "off"
    switch_interval: float = 0.001  # of the interpreter: how long a thread waits until it asks for the GIL
    memory_limit: int | None = None     # bytes
    patience: float = 60.0          # how far the enqueueing may fall behind its schedule


@dataclass(frozen=True, slots=True)
class Sample:
    """What one run showed. None: there was nothing to measure it by."""

    calibration_ns: float           # an iteration of the calibration loop, just before
    enqueued: int                   # requests
    rate: float                     # of them a second, achieved
    drain_s: float                  # from the last enqueued to the last complete
    cpu_us: float                   # a request, of all threads, until the last was complete
    memory: int | None              # bytes: growth of the resident memory at its peak
    collections: int
    collections_ms: float
    wakeups: int
    queue_length: int               # at its peak
    threads: int                    # at their peak, of the design
    purges: int
    timed_out: float | None         # share of the requests
    beyond_timeout: float           # share of the requests whose latency is greater than the timeout
    late_p50_ms: float | None       # from the deadline to on_expiration
    late_p99_ms: float | None
    call_p50_us: float | None       # force_complete, for its caller
    call_p99_us: float | None
    never: int                      # requests that should have been completed, and were not
    died: str | None                # of what, and after how many requests


class Ledger:
    """What the requests of a run write down. Made beforehand: it does not grow while memory is measured."""

    def __init__(self, requests: int) -> None:
        self.requests = requests
        self._left = iter(range(requests))
        self._places = iter(range(requests))
        self.count_down = _one_at_a_time(self._left.__next__)       # by each on_complete
        self.next_place = _one_at_a_time(self._places.__next__)     # in `lateness`, for one that expires
        self.lateness = array("f", bytes(4 * requests))
        self.calls = array("q")                 # nanoseconds of the timed completions

    @property
    def completed(self) -> int:
        return self.requests - length_hint(self._left)

    @property
    def expired(self) -> int:
        return self.requests - length_hint(self._places)


def _one_at_a_time(step: Callable[[], int]) -> Callable[[], int]:
    """A step of C that two threads take one after the other, also where no GIL sees to that."""
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        return step
    lock = threading.Lock()

    def locked() -> int:
        with lock:
            return step()

    return locked


def request_kinds(base: type[Any], timeout: float, ledger: Ledger) -> tuple[type[Any], type[Any]]:
    """The proposal's request as an operation of a design, and the same one with its completion timed.

    The enqueueing loop sets the attributes: an `__init__` would cost every design as much as a wheel does.
    """
    count_down, next_place = ledger.count_down, ledger.next_place
    lateness, record = ledger.lateness, ledger.calls.append

    class Request(base):        # type: ignore[misc]    # each design has its own base
        __slots__ = ("born", "latency", "payload")
        __call__ = base.force_complete

        def try_complete(self) -> bool:
            over: bool = monotonic() - self.born >= self.latency
            return over

        def on_complete(self) -> None:
            count_down()

        def on_expiration(self) -> None:
            lateness[next_place()] = monotonic() - self.born - timeout

    class TimedRequest(Request):
        __slots__ = ()

        def __call__(self) -> None:
            begin = perf_counter_ns()
            self.force_complete()
            record(perf_counter_ns() - begin)

    return Request, TimedRequest


def run(setting: Setting, seed: int, beside: Beside = lambda purgatory: nullcontext()) -> Sample:
    """One run in this process, which is good for nothing else afterwards: see `Trouble`.

    `beside` makes, of the purgatory, a context in which all of it happens.
    """
    load = make_load(
        setting.requests, setting.rate, setting.p50_ms, setting.p75_ms, setting.keys, setting.key_space, seed
    )
    calibration_ns = calibrate()
    threading.stack_size(STACK)
    trouble = Trouble()
    design = DESIGNS[setting.design]
    purgatory = design(tick=setting.tick, wheel_size=setting.wheel_size)
    completions = Timer(executor="inline", name="completions")
    ledger = Ledger(setting.requests)
    kinds = request_kinds(design.Operation, setting.timeout, ledger)
    queue = iter(load.keys)
    in_time = load.in_time(setting.timeout, setting.requests)       # now: it is not work of the run
    _warm_up(design, purgatory, completions, trouble)
    sys.setswitchinterval(setting.switch_interval)
    if setting.gc == "off":
        gc.disable()
    gc.collect()
    gc.freeze()         # the load is not what the collector should look through
    wakeups, purges = purgatory.wakeups, purgatory.purges
    if setting.memory_limit is not None:
        trouble.limit_memory(setting.memory_limit)
    witness = Witness(purgatory)
    with meanwhile(witness.look_on, "witness"), Collections() as collections, beside(purgatory):
        cpu, begin = process_time(), monotonic()
        try:
            enqueue(load, queue, setting, kinds, purgatory, completions, trouble)
        except (MemoryError, RuntimeError) as error:    # RuntimeError: no thread can be started
            trouble.note(error)
        end = monotonic()
        enqueued = setting.requests - length_hint(queue)
        if enqueued < setting.requests:
            in_time = load.in_time(setting.timeout, enqueued)
        expected = enqueued if expires(design) else in_time
        await_completions(ledger, expected, trouble, STALLED_S)
        drained, cpu = monotonic(), process_time() - cpu
    if not trouble.error:
        completions.close()
        purgatory.close()       # the last on_expiration has run
    late, calls = sorted(ledger.lateness[: ledger.expired]), sorted(ledger.calls)
    return Sample(
        calibration_ns=calibration_ns,
        enqueued=enqueued,
        rate=enqueued / (end - begin),
        drain_s=drained - end,
        cpu_us=cpu * 1e6 / max(1, enqueued),
        memory=witness.growth,
        collections=collections.count,
        collections_ms=collections.ns / 1e6,
        wakeups=purgatory.wakeups - wakeups,
        queue_length=witness.queue_length,
        threads=purgatory.threads,
        purges=purgatory.purges - purges,
        timed_out=ledger.expired / max(1, enqueued) if expires(design) else None,
        beyond_timeout=(enqueued - in_time) / max(1, enqueued),
        late_p50_ms=_percentile(late, 0.50, 1e3),
        late_p99_ms=_percentile(late, 0.99, 1e3),
        call_p50_us=_percentile(calls, 0.50, 1e-3),
        call_p99_us=_percentile(calls, 0.99, 1e-3),
        never=0 if trouble.error else expected - ledger.completed,
        died=f"{trouble} after {enqueued:,} requests" if trouble.error else None,
    )


def enqueue(
    load: Load,
    queue: Iterator[tuple[str, ...]],
    setting: Setting,
    kinds: tuple[type[Any], type[Any]],
    purgatory: Purgatory,
    completions: Timer,
    trouble: Trouble,
) -> None:
    """The enqueueing thread: all of the load, unless there is trouble or it falls too far behind."""
    timeout, payload, size = setting.timeout, bytes, PAYLOAD
    watch, complete_at, now = purgatory.try_complete_else_watch, completions.schedule_at, monotonic
    plain, timed = kinds
    every = max(1, TIMED_WATCHES // setting.keys)
    in_turn: Iterator[Callable[[float], Any]] = cycle([timed] + [plain] * (every - 1))
    requests = zip(queue, load.latencies, in_turn, strict=False)
    start = now()
    for at, count in zip(load.starts, load.counts, strict=True):
        ahead = start + at - now()
        if ahead > 0:
            sleep(ahead)
        if trouble.error or -ahead > setting.patience:
            return
        for keys, latency, kind in islice(requests, count):
            request = kind(timeout)
            request.payload = payload(size)
            request.latency = latency
            request.born = born = now()
            if latency < timeout:
                complete_at(born + latency, request)
            watch(request, keys)


def await_completions(ledger: Ledger, requests: int, trouble: Trouble, patience: float) -> None:
    """Until so many are complete, or there is trouble, or for a while nothing has been completed."""
    completed, since = ledger.completed, monotonic()
    while completed < requests and not trouble.error and monotonic() - since < patience:
        sleep(0.001)
        if ledger.completed > completed:
            completed, since = ledger.completed, monotonic()


def expires(design: type[Purgatory]) -> bool:
    """Whether its requests time out; without a purgatory they cannot."""
    return design is not BarePurgatory


def _warm_up(design: type[Purgatory], purgatory: Purgatory, completions: Timer, trouble: Trouble) -> None:
    """Let a few requests complete and expire, so that all threads are up, and their memory is there."""
    ledger = Ledger(WARM_UP)
    kind, _ = request_kinds(design.Operation, 0.001, ledger)
    for number in range(WARM_UP):
        request = kind(0.001)
        request.born, request.latency = monotonic(), inf
        if number % 2:
            completions.schedule(0.0, request)
        purgatory.try_complete_else_watch(request, (f"key{number}",))
    await_completions(ledger, WARM_UP if expires(design) else WARM_UP // 2, trouble, STALLED_S)


def _percentile(ordered: Sequence[float], share: float, factor: float) -> float | None:
    return ordered[int(len(ordered) * share)] * factor if ordered else None
