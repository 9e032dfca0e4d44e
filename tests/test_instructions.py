"""O(1), counted: the instructions of an operation do not grow with the timers that are pending."""
import os
import re
import shutil
import subprocess
import sys
from functools import cache

import pytest

import tickwheel

OPERATIONS = 1000
# Told to the process by number: arguments and environment of one size, one layout of its memory.
NUMBERS = {"nothing": "0", "schedule": "1", "cancel": "2", "churn": "3"}
STORY = """
import gc, os, random, sys
from tickwheel.timer import Timer

def nothing():
    pass

def main(operation, pending, operations):
    gc.disable()
    chance = random.Random(1)
    timer = Timer(start=False, executor="inline")
    schedule = timer.schedule
    handles = [schedule(chance.uniform(30, 60), nothing) for _ in range(pending)]
    chance.shuffle(handles)
    delays = [chance.uniform(30, 60) for _ in range(operations)]
    if operation == "1":
        handles += [schedule(delay, nothing) for delay in delays]
    elif operation == "2":
        for handle in handles[:operations]:
            handle.cancel()
    elif operation == "3":
        for place, delay in enumerate(delays):
            handles[place].cancel()
            handles[place] = schedule(delay, nothing)
    os._exit(0)     # the end of those that are pending is not counted

main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
"""

pytestmark = [
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="counts instructions with valgrind"),
    pytest.mark.skipif(tickwheel.IMPLEMENTATION != "cython", reason="counts those of the compiled core"),
]


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """The first import writes bytecode, which is not to be counted."""
    subprocess.run([sys.executable, "-c", STORY, "0", "1", "0"], check=True)


@cache
def instructions(operation, pending):
    """Those of a whole process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    ended = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
         sys.executable, "-c", STORY, NUMBERS[operation], str(pending), str(OPERATIONS)],
        env=environment | {"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(re.search(r"Collected : (\d+)", ended.stderr)[1])


def an_operation(operation, pending):
    """What OPERATIONS of them add to a process that does none, by the operation."""
    return (instructions(operation, pending) - instructions("nothing", pending)) / OPERATIONS


@pytest.mark.parametrize("many", [100_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("operation", ["schedule", "cancel", "churn"])
def test_instructions_do_not_grow(operation, many):
    """An operation with many pending takes the instructions that it takes with 1,000, within 10 %."""
    few_pending = an_operation(operation, 1000)
    many_pending = an_operation(operation, many)
    print(f"{operation}: {few_pending:.0f} with 1,000 pending, {many_pending:.0f} with {many:,}")
    assert few_pending > 100
    assert many_pending == pytest.approx(few_pending, rel=0.10)
