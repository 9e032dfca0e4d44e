"""A callback may switch to another greenlet: the timer keeps nothing on the C stack that is moved away."""

import pytest

# In fresh processes: what is wrong here crashes. A core knows threads, not greenlets: to the others of its
# thread, a callback that has switched away still runs.

STORY = """
import random
import warnings

warnings.filterwarnings("ignore", "The global interpreter lock")    # greenlet switches it on again
import greenlet
import tickwheel as tw

rng = random.Random({seed})
here = greenlet.getcurrent()
clock = tw.ManualClock()
ran = []

def stroll(number):
    "A callback that leaves in its midst, for whoever started or resumed it."
    for _ in range(number % 4):
        here.switch()
        assert timer.advance_clock() == 0, "this is inside a callback"
    ran.append(number)

def resume(greenlets):
    "Each once more, in any order; those that have not ended."
    rng.shuffle(greenlets)
    for each in greenlets:
        each.switch()
        assert timer.advance_clock() == 0, "another one is in its midst, or nothing is due"
    return [each for each in greenlets if not each.dead]

def deep(function, depth):
    "Calls it further down on the C stack, where the frames of a greenlet that has left have been."
    return function() if depth == 0 else next(map(deep, [function], [depth - 1]))
"""


@pytest.mark.parametrize("seed", range(3))
def test_an_executor_that_runs_each_task_in_a_greenlet(fresh, seed):
    """R3: tickets whose callbacks take turns on one thread, and end in any order, run once each."""
    assert fresh(
        STORY.format(seed=seed)
        + """
from concurrent.futures import Executor, Future

class Pool(Executor):
    def __init__(self): self.greenlets = []
    def submit(self, fn, /, *args, **kwargs):
        self.greenlets.append(greenlet.greenlet(fn))
        return Future()

pool = Pool()
timer = tw.Timer(tick=1.0, wheel_size=8, executor=pool, clock=clock, start=False)
for number in range(200):
    timer.schedule(1 + number % 5, stroll, number)
for second in range(5):
    clock.advance(1.0)
    assert timer.advance_clock() == 40
    while pool.greenlets:
        pool.greenlets = deep(lambda: resume(pool.greenlets), rng.randrange(20))
    timer._check()
assert sorted(ran) == list(range(200))
assert timer.close() == []
print("whole")
"""
    ) == "whole\n"


@pytest.mark.parametrize("seed", range(3))
def test_an_inline_callback_that_switches_away(fresh, seed):
    """R9: meanwhile another greenlet turns the wheel (in vain), schedules, and closes the timer."""
    assert fresh(
        STORY.format(seed=seed)
        + """
for close_after in range(30):
    timer = tw.Timer(tick=1.0, wheel_size=8, executor="inline", clock=clock, start=False)
    ran.clear()
    for number in range(1, 16):
        timer.schedule(1 + number % 5, stroll, number)
    clock.advance(5.0)
    turning = greenlet.greenlet(timer.advance_clock)
    turning.switch()
    returned, switches = None, 0
    while not turning.dead:
        switches += 1
        if switches == close_after:
            returned = deep(timer.close, rng.randrange(20))     # does not wait: this thread is in a callback
        elif returned is None:
            timer.schedule(7.0, list).cancel()
        assert deep(timer.advance_clock, rng.randrange(20)) == 0
        turning.switch()
        timer._check()
    left = timer.close() if returned is None else returned
    assert len(ran) + len(left) == 15
    assert not {task.state for task in left} - {"IDLE"}
print("whole")
"""
    ) == "whole\n"
