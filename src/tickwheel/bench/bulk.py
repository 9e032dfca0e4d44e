"""The numeric batch paths of `TimerTable`: nanoseconds, or bytes, a timer when N go in one call.

    schedule    N deadlines more, while N/2 are pending
    cancel      N of 3N/2 in random order
    expire      all N, by one `advance` past the last deadline
    memory      `nbytes` of a table that holds N

Deadlines are random, 30,000 to 60,000 ticks ahead, as those of the single timers are.
"""
import random
from array import array
from time import perf_counter_ns

from tickwheel._core import TimerTable

NAME = "table"
ABOUT = "TimerTable's numeric batches: no object a timer, all N in one call"
OPERATIONS = ("schedule", "cancel", "expire", "memory")
NEAREST_TICK, FARTHEST_TICK = 30_000, 60_000


def batch(operation: str, n: int, seed: int) -> tuple[int, int]:
    """One batch on a fresh table: nanoseconds or bytes, and timers."""
    chance = random.Random(seed)
    table = TimerTable()
    if operation == "memory":
        table.schedule_many(_deadlines(chance, n))
        return table.nbytes, n
    if operation == "schedule":
        table.schedule_many(_deadlines(chance, n // 2))
        deadlines = _deadlines(chance, n)
        begin = perf_counter_ns()
        handles = table.schedule_many(deadlines)
        return perf_counter_ns() - begin, len(handles)
    if operation == "cancel":
        handles = table.schedule_many(_deadlines(chance, n + n // 2))
        chance.shuffle(handles)
        handles = handles[:n]
        begin = perf_counter_ns()
        cancelled = table.cancel_many(handles)
        return perf_counter_ns() - begin, cancelled
    table.schedule_many(_deadlines(chance, n))
    begin = perf_counter_ns()
    ids, _ = table.advance(FARTHEST_TICK)
    return perf_counter_ns() - begin, len(ids)


def _deadlines(chance: random.Random, count: int) -> "array[int]":
    return array("q", (chance.randint(NEAREST_TICK, FARTHEST_TICK) for _ in range(count)))
