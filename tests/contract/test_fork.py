"""fork: the child has a stopped, empty timer that says so when used, and never a deadlock."""

import os

import pytest
from forked import IN_CHILD

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

CHILD = f"""{IN_CHILD}
import threading, time
import tickwheel as tw
"""


def test_a_forked_child_has_a_stopped_empty_timer(fresh):
    """fork: it says so when used; the parent's goes on."""
    assert fresh(
        CHILD
        + """
ran = threading.Event()
timer = tw.Timer()
timer.schedule(0, list)
pending, periodic = timer.schedule(3600.0, list), timer.schedule_every(3600.0, list)
future = timer.submit(3600.0, list)

def story():
    assert len(timer) == 0, len(timer)
    for call in (
        lambda: timer.schedule(1.0, list),
        lambda: timer.schedule(0, list),
        lambda: timer.schedule_at(1.0, list),
        lambda: timer.schedule_every(1.0, list),
        lambda: timer.submit(1.0, list),
        lambda: timer.add(tw.TimerTask(1.0)),
    ):
        try:
            call()
        except RuntimeError as error:
            assert "fork" in str(error), error
        else:
            raise AssertionError("scheduled in a forked child")
    assert pending.cancel() is False
    assert pending.reschedule(1.0) is False
    assert periodic.cancel() is False
    future.cancel()
    repr(pending), repr(timer)
    timer.stats()
    assert timer.close() == []
    assert timer.close(wait=False) == []

assert in_child(story)
assert len(timer) == 3
timer.schedule(0.001, ran.set)
assert ran.wait(30)
assert pending.cancel() is True
assert len(timer.close()) == 1
print("whole")
"""
    ) == "whole\n"


def test_a_forked_child_may_make_a_timer_of_its_own(fresh):
    """fork: what the parent had does not stand in its way."""
    assert fresh(
        CHILD
        + """
timer = tw.Timer()
timer.submit(0.001, list).result(30)

def story():
    with tw.Timer() as mine:
        assert mine.submit(0.001, pow, 2, 3).result(30) == 8
        assert mine.submit(0, pow, 2, 4).result(30) == 16

assert in_child(story)
timer.close()
print("whole")
"""
    ) == "whole\n"


@pytest.mark.parametrize("executor", ["None", "'inline'"])
def test_a_child_forked_inside_a_callback(fresh, executor):
    """fork: also there the child's copy is stopped, and the callback returns in both."""
    assert fresh(
        CHILD
        + f"""
timer = tw.Timer(executor={executor})
results, done = [], threading.Event()

def story():
    assert len(timer) == 0
    assert timer.close() == []

def callback():
    results.append(in_child(story))
    done.set()

timer.schedule(3600.0, list)
timer.schedule(0.001, callback)
assert done.wait(30)
assert results == [True]
assert len(timer.close()) == 1
print("whole")
"""
    ) == "whole\n"


def test_a_timer_turned_by_hand_is_stopped_in_the_child_too(fresh):
    """fork: the child of a timer without threads."""
    assert fresh(
        CHILD
        + """
clock = tw.ManualClock()
timer = tw.Timer(tick=1.0, executor="inline", clock=clock, start=False)
ran = []
timer.schedule(1.0, ran.append, 1)

def story():
    clock.advance(5.0)
    try:
        timer.advance_clock()
    except RuntimeError as error:
        assert "fork" in str(error)
    assert ran == []
    assert timer.close() == []

assert in_child(story)
clock.advance(1.0)
assert timer.advance_clock() == 1
timer.close()
print("whole")
"""
    ) == "whole\n"


def test_fork_while_threads_hammer(fresh):
    """fork: whatever the threads were in the middle of, the child never waits for them."""
    assert fresh(
        CHILD
        + """
import random
timer = tw.Timer(tick=0.001, wheel_size=8)
over = threading.Event()

def hammer():
    tasks = [timer.schedule(5.0, list)]
    rng = random.Random()    # its own: the shared one is seeded anew in the child, under a lock of Python's
    while not over.is_set():
        if len(timer) < 5000:
            tasks.append(timer.schedule(rng.choice((0, 0.001, 0.01, 5.0)), list))
        task = rng.choice(tasks)
        task.reschedule(0.5) if rng.random() < 0.5 else task.cancel()
        if len(tasks) > 1000:
            del tasks[:500]

inherited = timer.schedule(3600.0, list)
threads = [threading.Thread(target=hammer) for _ in range(3)]
for thread in threads:
    thread.start()

def story():
    import gc
    assert len(timer) == 0
    assert inherited.cancel() is False
    assert timer.close() == []
    gc.collect()
    with tw.Timer() as mine:
        assert mine.submit(0.001, pow, 2, 3).result(30) == 8

sys.setswitchinterval(1e-5)
good = sum(in_child(story) for _ in range(20))
over.set()
for thread in threads:
    thread.join()
timer._check()
timer.close()
print(good)
"""
    ) == "20\n"


def test_fork_while_a_thread_reads_the_clock(fresh):
    """fork: with a clock of one's own, too, the child is told and never waits for a lock held for ever."""
    assert fresh(
        CHILD
        + """
timer = tw.Timer(tick=1.0, clock=tw.ManualClock(), start=False)
over = threading.Event()

def hammer():
    while not over.is_set():
        timer.schedule(5.0, list).cancel()

thread = threading.Thread(target=hammer)
thread.start()

def story():
    try:
        timer.schedule(1.0, list)
    except RuntimeError as error:
        assert "fork" in str(error), error
    else:
        raise AssertionError("scheduled in a forked child")

sys.setswitchinterval(1e-5)
good = sum(in_child(story) for _ in range(20))
over.set()
thread.join()
timer.close()
print(good)
"""
    ) == "20\n"


def test_a_child_may_go_on_with_the_parents_manual_clock(fresh):
    """fork: the parent's sleepers, whose threads are not in the child, do not hold its clock."""
    assert fresh(
        CHILD
        + """
clock = tw.ManualClock(auto=True)
release, entered = threading.Event(), threading.Event()
timer = tw.Timer(clock=clock, executor="inline")
timer.schedule(0, lambda: (entered.set(), release.wait(30)))
assert entered.wait(30)

def story():
    with tw.Timer(clock=clock, executor="inline") as mine:
        assert mine.submit(5e7, pow, 2, 3).result(5) == 8

assert in_child(story)
release.set()
timer.close()
print("whole")
"""
    ) == "whole\n"


def test_a_child_that_exits_by_the_front_door(fresh):
    """fork: the child's interpreter finalises with the inherited timer still there."""
    assert fresh(
        CHILD
        + """
timer = tw.Timer()
timer.submit(0.001, list).result(30)
kept = [timer.schedule(3600.0, print, "never") for _ in range(1000)]
pid = os.fork()
if pid == 0:
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
timer.close()
print("whole")
"""
    ) == "whole\n"
