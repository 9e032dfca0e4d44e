"""All that is measured: stories, each with its contenders, of which one is ours."""
from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

from tickwheel.bench import dropin_sched, dropin_threading
from tickwheel.bench.dropins.keepalive import arm_anew, measure_refresh, measure_stamp, reschedule
from tickwheel.bench.dropins.loops import FACTORIES, STOCK, WHEEL, run_on
from tickwheel.bench.dropins.sample import Sample
from tickwheel.bench.dropins.servers import measure_echo, measure_hello, measure_limited_echo
from tickwheel.bench.dropins.timeouts import Limit, measure_timeout, measure_wait_for
from tickwheel.bench.dropins.timers import measure_lateness, measure_micro, measure_pair, measure_turn
from tickwheel.dropin.asyncio import timeout

PENDING, CONNECTIONS, REQUESTS = "pending", "connections", "requests"      # what N counts
OWN_ON_STOCK, OWN_ON_WHEEL = "own timeout on stock", "own timeout on wheel"
RESCHEDULED, STAMPED_ON_STOCK, STAMPED = "wheel, reschedule", "stock, stamp", "wheel, stamp"
ORIGINAL, DROP_IN = dropin_threading.KINDS
SCHED, SCHED_DROP_IN = dropin_sched.CONTENDERS
FEW = 1_000                 # where `threading` has a thread each, and `sched` a short list
BATCHES = 5
KEEPALIVE = {10: "keepalive", 100: "keepalive-busy"}    # messages to a connection in its idle time

NS, NS_MORE, NS_AN_EVENT = "CPU ns", "CPU ns more than the bare await", "CPU ns an event"
CPU_US, PER_S = "CPU us of the server", "requests/s"

Measure = Callable[[int, int], Sample]      # of N and a seed
OnLoop = Callable[[int, int], Coroutine[Any, Any, Sample]]


@dataclass(frozen=True, slots=True)
class Story:
    caption: str
    unit: str
    counted: str
    ours: str
    contenders: Mapping[str, Measure]
    beside: str | None = None                       # what a sample counts beside its figure
    needs: str | None = None                        # a package
    few: frozenset[str] = field(default_factory=frozenset)      # contenders with FEW pending at most
    few_too: bool = False                           # all contenders with FEW pending as well


def on(loop: str, measure: OnLoop) -> Measure:
    return lambda n, seed: run_on(loop, measure(n, seed))


def on_each(measure: OnLoop) -> dict[str, Measure]:
    return {loop: on(loop, measure) for loop in FACTORIES}


def micro(operation: str) -> dict[str, Measure]:
    return {loop: partial(measure_micro, operation, loop) for loop in FACTORIES}


def limit(kind: Limit) -> OnLoop:
    return partial(measure_timeout, kind)


def keepalive(messages: int) -> Story:
    stamped = partial(measure_stamp, messages)
    caption = f"idle timers, {messages} messages in the idle time"
    return Story(caption, "CPU ns a message", CONNECTIONS, WHEEL, {
        **on_each(partial(measure_refresh, arm_anew, messages)),
        RESCHEDULED: on(WHEEL, partial(measure_refresh, reschedule, messages)),
        STAMPED_ON_STOCK: on(STOCK, stamped),
        STAMPED: on(WHEEL, stamped),
    }, beside="most entries")


def measure_threading(kind: str, n: int, seed: int) -> Sample:
    seen = dropin_threading.measure_here(dropin_threading.TimerCell(kind, n, BATCHES))
    return Sample(median(seen.start_ns) + median(seen.cancel_ns), seen.threads)


def sched(operation: str) -> Story:
    def contender(name: str) -> Measure:
        measure, kind = dropin_sched.OPERATIONS[operation], dropin_sched.CONTENDERS[name]
        return lambda n, seed: Sample(measure(kind, n, seed))

    contenders = {name: contender(name) for name in dropin_sched.CONTENDERS}
    return Story(f"sched: {operation}", NS_AN_EVENT, PENDING, SCHED_DROP_IN, contenders, few_too=True)


STORIES: dict[str, Story] = {
    "call-later": Story("call_later + cancel", NS, PENDING, WHEEL, on_each(measure_pair)),
    "churn": Story("cancel a random timer + call_later", NS, PENDING, WHEEL, micro("churn")),
    "expire": Story("expiry of all, with an empty callback", NS, PENDING, WHEEL, micro("expire")),
    "memory": Story("memory", "bytes a pending timer", PENDING, WHEEL, micro("memory")),
    "turn": Story("a turn of the loop, with one task", NS, PENDING, WHEEL, on_each(measure_turn)),
    "late": Story("how late sleep(0.01) ends", "us, wall time", PENDING, WHEEL, on_each(measure_lateness)),
    "timeout": Story("async with timeout(30)", NS_MORE, PENDING, WHEEL, {
        **on_each(limit(asyncio.timeout)),
        OWN_ON_STOCK: on(STOCK, limit(timeout)),
        OWN_ON_WHEEL: on(WHEEL, limit(timeout)),
    }),
    "wait-for": Story("wait_for(..., 30)", NS_MORE, PENDING, WHEEL, on_each(measure_wait_for)),
    **{name: keepalive(messages) for messages, name in KEEPALIVE.items()},
    "threading": Story("threading.Timer: construct + start + cancel", "ns", PENDING, DROP_IN, {
        kind: partial(measure_threading, kind) for kind in dropin_threading.KINDS
    }, beside="threads", few=frozenset([ORIGINAL])),
    **{f"sched-{operation}": sched(operation) for operation in dropin_sched.OPERATIONS},
    "echo": Story("echo of a line", CPU_US, REQUESTS, WHEEL, on_each(measure_echo), beside=PER_S),
    "echo-limited": Story(
        "echo of a line that must come in half a minute", CPU_US, REQUESTS, WHEEL,
        on_each(measure_limited_echo), beside=PER_S,
    ),
    "hello": Story("a page of aiohttp", CPU_US, REQUESTS, WHEEL, on_each(measure_hello), PER_S, "aiohttp"),
}
