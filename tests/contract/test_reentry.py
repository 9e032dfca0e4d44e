"""R7: destructors and signal handlers run at any point, and the structures are whole whenever they can."""

import pytest

# Each story runs in a fresh process: a collection at every allocation, or a signal at any bytecode, may
# strike inside the timer; one that deadlocks there dumps its stacks.

DESTRUCTORS = """
import gc, random, sys
import tickwheel as tw

rng = random.Random({seed})
clock = tw.ManualClock()
timer = tw.Timer(tick=1.0, wheel_size=4, executor="inline", clock=clock, start=False)
tasks, calls, inside = [], [0], [0]

def reenter():
    "One random operation, as a destructor would do it."
    calls[0] += 1
    if inside[0] > 2:
        return
    inside[0] += 1
    try:
        choice = rng.random()
        if choice < 0.3 or not tasks:
            tasks.append(timer.schedule(rng.choice((0, 1, 3, 50, 4000)), list))
        elif choice < 0.55:
            rng.choice(tasks).cancel()
        elif choice < 0.8:
            rng.choice(tasks).reschedule(rng.choice((0, 1, 2, 70, 900)))
        elif choice < 0.9:
            timer.stats()
        elif choice < 0.97:
            timer.advance_clock()
        else:
            timer.reconfigure(wheel_size=rng.choice((2, 4, 9)))
    except RuntimeError as error:
        assert "closed" in str(error), error
    finally:
        inside[0] -= 1
"""

CHECK = """
timer._check()
stats = timer.stats()
assert stats.scheduled == stats.fired + stats.cancelled + stats.pending, stats
states = [task.state for task in tasks]
assert stats.pending == states.count("PENDING") + states.count("QUEUED") == len(timer)
clock.advance(1e6)
while timer.advance_clock():
    pass
timer.close()
assert len(timer) == 0 == timer.stats().errors
assert not {task.state for task in tasks} - {"FIRED", "CANCELLED", "IDLE"}
assert calls[0] > 100, calls
print("whole")
"""


@pytest.mark.parametrize("seed", range(3))
def test_destructors_of_what_is_freed_use_the_timer(fresh, seed):
    """R7, R10: the argument freed by a cancel or a firing schedules, cancels and moves other tasks."""
    assert fresh(
        DESTRUCTORS.format(seed=seed)
        + """
class Heir:
    def __del__(self):
        reenter()

for step in range(4000):
    task = timer.schedule(rng.choice((0, 1, 2, 5, 40, 3000)), lambda heir: None, Heir())
    tasks.append(task)
    choice = rng.random()
    if choice < 0.4:
        rng.choice(tasks).cancel()
    elif choice < 0.6:
        rng.choice(tasks).reschedule(rng.choice((0, 1, 2, 50)))
    elif choice < 0.8:
        clock.advance(rng.choice((0.5, 1.0, 30.0)))
        timer.advance_clock()
    if len(tasks) > 600:
        del tasks[:]       # handles freed in bulk; the timer keeps what is pending
        stats = timer.stats()
    if step % 50 == 0:
        timer._check()

for task in timer.close():
    assert task.state == "IDLE"
timer._check()
assert len(timer) == 0
assert calls[0] > 100
print("whole")
"""
    ) == "whole\n"


@pytest.mark.parametrize("seed", range(3))
def test_the_collector_strikes_at_every_allocation(fresh, seed):
    """R7: `gc.set_threshold(1)` and garbage whose destructors use the timer, inside every operation."""
    assert fresh(
        DESTRUCTORS.format(seed=seed)
        + """
class Cycle:
    def __init__(self):
        self.itself = self
    def __del__(self):
        reenter()

gc.set_threshold(1, 1, 1)
for step in range(3000):
    Cycle()
    choice = rng.random()
    if choice < 0.4:
        tasks.append(timer.schedule(rng.choice((0, 1, 2, 5, 40, 3000)), list, [step]))
    elif choice < 0.5:
        tasks.append(timer.schedule_at(clock.time() + rng.choice((0, 1, 2, 5, 40, 3000)), list, [step]))
    elif choice < 0.65:
        rng.choice(tasks).cancel() if tasks else None
    elif choice < 0.8:
        rng.choice(tasks).reschedule(rng.choice((0, 1, 2, 50))) if tasks else None
    elif choice < 0.9:
        clock.advance(rng.choice((0.5, 1.0, 30.0)))
        timer.advance_clock()
    elif choice < 0.95:
        timer.reconfigure(tick=rng.choice((0.5, 1.0, 3.0)))
    else:
        timer.stats(), len(timer), repr(tasks[-1:])
    if step % 50 == 0:
        gc.disable()
        timer._check()
        gc.enable()
gc.disable()
"""
        + CHECK
    ) == "whole\n"


SIGNALS = pytest.mark.skipif("not hasattr(__import__('signal'), 'setitimer')", reason="no setitimer here")


@SIGNALS
@pytest.mark.parametrize("seed", range(2))
def test_signal_handlers_use_the_timer(fresh, seed):
    """R7: a handler that strikes between any two bytecodes schedules, cancels and moves tasks."""
    assert fresh(
        DESTRUCTORS.format(seed=seed)
        + """
import signal, time
signal.signal(signal.SIGALRM, lambda *_: reenter())
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0003)
end = time.monotonic() + 1.5
while time.monotonic() < end or calls[0] < 200:
    choice = rng.random()
    if choice < 0.5:
        tasks.append(timer.schedule(rng.choice((0, 1, 2, 5, 40, 3000)), list))
    elif choice < 0.7:
        rng.choice(tasks).cancel() if tasks else None
    elif choice < 0.85:
        rng.choice(tasks).reschedule(rng.choice((0, 1, 2, 50))) if tasks else None
    elif choice < 0.95:
        clock.advance(rng.choice((0.5, 1.0, 30.0)))
        timer.advance_clock()
    else:
        timer.reconfigure(wheel_size=rng.choice((2, 4, 9)))
signal.setitimer(signal.ITIMER_REAL, 0)
"""
        + CHECK
    ) == "whole\n"


@SIGNALS
def test_signal_handlers_use_a_running_timer(fresh):
    """R7: the handler strikes the main thread while the reaper and the worker are at work."""
    assert fresh("""
import random, signal, sys, threading, time
import tickwheel as tw

rng = random.Random(1)
timer = tw.Timer(tick=0.001, wheel_size=8)
fired, cancelled, tasks, calls = [], [], [], [0]

def operate():
    choice = rng.random()
    if choice < 0.5 or not tasks:
        tasks.append(timer.schedule(rng.choice((0, 0.001, 0.004, 2.0)), fired.append, 1))
    elif choice < 0.8:
        if rng.choice(tasks).cancel():
            cancelled.append(1)
    else:
        rng.choice(tasks).reschedule(rng.choice((0, 0.001, 0.02)))

def handler(*_):
    calls[0] += 1
    operate()

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0003)
end = time.monotonic() + 1.5
while time.monotonic() < end or calls[0] < 200:
    operate()
signal.setitimer(signal.ITIMER_REAL, 0)
returned = timer.close()
timer._check()
assert len(fired) + len(cancelled) + len(returned) == len(tasks) == timer.stats().scheduled
print("whole")
""") == "whole\n"


@SIGNALS
def test_signal_handlers_wake_a_reaper_on_the_boot_clock(fresh):
    """R7: a handler may strike while the same thread is waking the reaper."""
    assert fresh("""
import signal, time
import tickwheel as tw

timer = tw.Timer(clock=tw.BootClock(), executor="inline")
calls = [0]

def handler(*_):
    calls[0] += 1
    timer.schedule(0, int)

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
end = time.monotonic() + 0.5
while time.monotonic() < end or calls[0] < 100:
    timer.schedule(0, int)
signal.setitimer(signal.ITIMER_REAL, 0)
timer.close()
print("whole")
""") == "whole\n"


@SIGNALS
def test_an_interrupt_in_the_midst_of_a_turn_loses_nothing(fresh):
    """R8: KeyboardInterrupt from a signal, at any bytecode of a turn: what was due runs once or stays due."""
    assert fresh("""
import signal
import tickwheel as tw

class Interrupted(KeyboardInterrupt):
    pass

def handler(*_):
    raise Interrupted

clock = tw.ManualClock()
timer = tw.Timer(tick=1.0, wheel_size=8, executor="inline", clock=clock, start=False)
counts, scheduled, interrupts = {}, 0, 0

def ring(number):
    counts[number] = counts.get(number, 0) + 1

signal.signal(signal.SIGALRM, handler)
while interrupts < 100:
    while len(timer) < 3000:
        timer.schedule(1 + scheduled % 60, ring, scheduled)
        scheduled += 1
    clock.advance(20.0)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.00002 + interrupts % 17 * 0.00002)
        while timer.advance_clock():
            pass
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupted:
        interrupts += 1
    timer._check()
clock.advance(1000.0)
while timer.advance_clock():
    pass
stats = timer.stats()
assert stats.pending == len(timer) == 0
assert stats.scheduled == stats.fired == scheduled
assert max(counts.values()) == 1
missing = scheduled - len(counts)     # interrupted between their start and their first line
assert missing <= interrupts, (missing, interrupts)
timer.close()
print("whole")
""") == "whole\n"


def test_a_destructor_that_closes_the_timer(fresh):
    """R7, R9: in the middle of a cancel, a turn, a schedule."""
    assert fresh("""
import gc
import tickwheel as tw

class Last:
    def __init__(self, timer): self.timer, self.itself = timer, self
    def __del__(self): self.timer.close()

for way in range(4):
    clock = tw.ManualClock()
    timer = tw.Timer(tick=1.0, executor="inline", clock=clock, start=False)
    tasks = [timer.schedule(n % 3 + 1, list) for n in range(50)]
    last = Last(timer)
    if way < 3:
        last.itself = None
    task = timer.schedule(1.0, lambda last: None, last)
    del last
    if way == 0:
        task.cancel()
    elif way == 1:
        clock.advance(1.0)
        timer.advance_clock()
    elif way == 2:
        timer.close()
        del task
    else:
        gc.disable()
        task.cancel()
        gc.set_threshold(1)
        gc.enable()
        try:
            for n in range(100):
                timer.schedule(5.0, list, [n])
        except RuntimeError:
            pass
        gc.set_threshold(700)
        gc.collect()
    task = None
    timer._check()
    timer.close()
    assert len(timer) == 0, way
    assert not {task.state for task in tasks} - {"FIRED", "IDLE"}
print("whole")
""") == "whole\n"


def test_hash_and_eq_of_callbacks_are_never_needed(fresh):
    """A callback that can be neither hashed nor compared is as good as any."""
    assert fresh("""
import tickwheel as tw

class Odd:
    __hash__ = None
    def __eq__(self, other): raise ZeroDivisionError
    def __bool__(self): raise ZeroDivisionError
    def __call__(self, *args): pass

clock = tw.ManualClock()
timer = tw.Timer(tick=1.0, executor="inline", clock=clock, start=False)
task, cancelled = timer.schedule(1.0, Odd(), Odd()), timer.schedule(1.0, Odd(), Odd())
repeated, future = timer.schedule_every(1.0, Odd(), Odd()), timer.submit(1.0, Odd(), Odd())
cancelled.cancel()
clock.advance(1.0)
assert timer.advance_clock() == 3
timer.schedule(5.0, Odd())
assert len(timer.close()) == 2
print("whole")
""") == "whole\n"
