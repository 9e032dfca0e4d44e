"""`sched.scheduler` beside its drop-in: CPU nanoseconds an event, with N pending.

    schedule    `enter`, while the pending events grow from N/2 to 3N/2
    cancel      N/2 of 3N/2, in random order; fewer once PATIENCE_S has passed
    run         all N, with empty actions and a `delayfunc` that returns at once

Delays are random, 30 to 60 s ahead on a clock that stands still, and the same for both. Each function
measures once, in this process: call it in a fresh one for each figure.
"""

import random
import sched
import time
from collections.abc import Callable
from typing import Any

from tickwheel.dropin import sched as dropin

NEAREST_S, FARTHEST_S = 30.0, 60.0
PATIENCE_S = 2.0
CHUNK = 10  # cancellations between two readings of the clock

Scheduler = sched.scheduler | dropin.scheduler

CONTENDERS: dict[str, type[Scheduler]] = {"sched": sched.scheduler, "tickwheel": dropin.scheduler}


def act() -> None:
    pass


def no_wait(_: Any) -> None:
    pass


def delays(n: int, seed: int) -> list[float]:
    uniform = random.Random(seed).uniform
    return [uniform(NEAREST_S, FARTHEST_S) for _ in range(n)]


def measure_schedule(contender: type[Scheduler], n: int, seed: int) -> float:
    enter = contender(lambda: 0.0, no_wait).enter
    events = [enter(delay, 0, act) for delay in delays(n // 2, seed)]
    rest = delays(n, seed + 1)
    begin = time.process_time()
    for delay in rest:
        events.append(enter(delay, 0, act))
    return (time.process_time() - begin) / n * 1e9


def measure_cancel(contender: type[Scheduler], n: int, seed: int) -> float:
    scheduler = contender(lambda: 0.0, no_wait)
    events = [scheduler.enter(delay, 0, act) for delay in delays(n + n // 2, seed)]
    random.Random(seed).shuffle(events)
    cancel, done = scheduler.cancel, 0
    begin = now = time.process_time()
    while done < n // 2 and now - begin < PATIENCE_S:
        for event in events[done : done + CHUNK]:
            cancel(event)
        done += CHUNK
        now = time.process_time()
    return (now - begin) / done * 1e9


def measure_run(contender: type[Scheduler], n: int, seed: int) -> float:
    now = 0.0
    scheduler = contender(lambda: now, no_wait)
    for delay in delays(n, seed):
        scheduler.enter(delay, 0, act)
    now = FARTHEST_S
    begin = time.process_time()
    scheduler.run()
    return (time.process_time() - begin) / n * 1e9


OPERATIONS: dict[str, Callable[[type[Scheduler], int, int], float]] = {
    "schedule": measure_schedule,
    "cancel": measure_cancel,
    "run": measure_run,
}
