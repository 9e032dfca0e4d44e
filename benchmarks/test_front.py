"""Micro benchmarks of the methods that are called once a task, with PENDING others.

    pytest benchmarks

pytest-benchmark shows regressions of one method at a glance; comparisons with other timers are
made by `tickwheel bench`, which measures each in a process of its own.
"""
import random

import pytest

PENDING = 10_000
ROUND = 1_000


def nothing():
    """The callback of every timer."""


@pytest.fixture
def timer(tw):
    """Turned by hand, PENDING tasks in it that do not come due."""
    with tw.Timer(start=False, executor="inline") as timer:
        chance = random.Random(1)
        for _ in range(PENDING):
            timer.schedule(chance.uniform(300, 600), nothing)
        yield timer


@pytest.fixture
def delays():
    chance = random.Random(2)
    return [chance.uniform(300, 600) for _ in range(ROUND)]


def measure(benchmark, operation, prepare):
    """Rounds of `operation(*arguments)`, which does ROUND operations; `prepare` makes the arguments."""
    benchmark.extra_info["operations"] = ROUND
    benchmark.pedantic(operation, setup=lambda: (prepare(), {}), rounds=50)


def test_schedule(benchmark, timer, delays):
    def operation(delays):
        for delay in delays:
            timer.schedule(delay, nothing)

    measure(benchmark, operation, lambda: (delays,))


def test_schedule_with_arguments(benchmark, timer, delays):
    def operation(delays):
        for delay in delays:
            timer.schedule(delay, print, delay)

    measure(benchmark, operation, lambda: (delays,))


def test_schedule_at(benchmark, timer, delays):
    def operation(whens):
        for when in whens:
            timer.schedule_at(when, nothing)

    measure(benchmark, operation, lambda: ([timer.time() + delay for delay in delays],))


def test_cancel(benchmark, timer, delays):
    def operation(tasks):
        for task in tasks:
            task.cancel()

    measure(benchmark, operation, lambda: ([timer.schedule(delay, nothing) for delay in delays],))


def test_reschedule(benchmark, timer, delays):
    tasks = [timer.schedule(delay, nothing) for delay in delays]

    def operation(delays):
        for task, delay in zip(tasks, delays, strict=True):
            task.reschedule(delay)

    measure(benchmark, operation, lambda: (random.sample(delays, ROUND),))


def test_expire(benchmark, timer):
    def prepare():
        for _ in range(ROUND):
            timer.schedule(0, nothing)
        return ()

    def operation():
        assert timer.advance_clock() == ROUND

    measure(benchmark, operation, prepare)
