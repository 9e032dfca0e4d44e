"""A timer dropped without `close()`: ResourceWarning, and nothing leaked."""

import pytest

DROPPED = """
import gc, threading, warnings, weakref
import tickwheel as tw

class Ballast:
    def __call__(self): pass

heard = []
warnings.showwarning = lambda message, category, *_: heard.append((category, str(message)))
warnings.simplefilter("always")
before = set(threading.enumerate())

def settle():
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive(), thread
"""


@pytest.mark.parametrize("options", ["", "executor='inline'", "start=False", "clock=tw.BootClock()"])
def test_a_dropped_timer_warns_and_leaks_nothing(fresh, options):
    """A timer dropped without `close()`: ResourceWarning; its threads end and its tasks are freed."""
    assert fresh(
        DROPPED
        + f"""
timer = tw.Timer({options})
ballast = Ballast()
ref = weakref.ref(ballast)
tasks = [timer.schedule(3600.0 + n, ballast) for n in range(10)]
if {"start=False" not in options}:
    timer.submit(0.001, list).result(30)
else:
    timer.advance_clock(0.001)      # who has slept in it is not remembered by it
del ballast
del timer
gc.collect()
assert [category for category, _ in heard] == [ResourceWarning], heard
assert "close" in heard[0][1] or "Timer" in heard[0][1], heard
settle()
del tasks
gc.collect()
assert ref() is None
print("whole")
"""
    ) == "whole\n"


def test_the_handles_of_a_dropped_timer_are_harmless(fresh):
    """A handle may outlive its timer: it is no longer pending."""
    assert fresh(
        DROPPED
        + """
timer = tw.Timer()
task = timer.schedule(3600.0, list)
periodic = timer.schedule_every(3600.0, list)
future = timer.submit(3600.0, list)
del timer
settle()
for handle in (task, periodic):
    assert handle.cancel() is False, handle
    assert handle.reschedule(1.0) is False
    assert handle.state in ("IDLE", "CANCELLED")
    repr(handle)
future.cancel()
print("whole")
"""
    ) == "whole\n"


def test_a_closed_timer_does_not_warn(fresh):
    """Only what was forgotten is told."""
    assert fresh(
        DROPPED
        + """
for options in ({}, {"start": False}, {"executor": "inline"}):
    with tw.Timer(**options) as timer:
        timer.schedule(3600.0, list)
    del timer
timer = tw.Timer()
timer.close(wait=False)
del timer
settle()
assert heard == [], heard
print("whole")
"""
    ) == "whole\n"


def test_a_timer_dropped_in_its_own_callback(fresh):
    """The last reference may go while its callback runs: on the worker, or on the reaper itself."""
    assert fresh(
        DROPPED
        + """
for executor in (None, "inline"):
    box = [tw.Timer(executor=executor)]
    done = threading.Event()

    def callback():
        box.clear()
        gc.collect()
        done.set()

    box[0].schedule(0.001, callback)
    assert done.wait(30)
    settle()
assert [category for category, _ in heard] == [ResourceWarning] * 2, heard
print("whole")
"""
    ) == "whole\n"


@pytest.mark.parametrize("end", ["owner.timer.close()", "pass"])
def test_an_owner_whose_method_is_on_error_is_freed(fresh, end):
    """The timer's threads do not hold `on_error`: its owner, closed or dropped, goes away with the timer."""
    assert fresh(
        DROPPED
        + f"""
class Owner:
    def __init__(self):
        self.timer = tw.Timer(on_error=self.report)
        self.task = self.timer.schedule(3600.0, list)
    def report(self, task, error): pass

owner = Owner()
ref = weakref.ref(owner)
{end}
del owner
settle()
gc.collect()
assert ref() is None
print("whole")
"""
    ) == "whole\n"


def test_a_timer_dropped_where_warnings_are_errors(fresh):
    """The warning cannot be raised out of a destructor, and its threads end all the same."""
    assert fresh(
        DROPPED
        + """
import sys
warnings.simplefilter("error")
sys.unraisablehook = lambda what: heard.append(what.exc_type)
timer = tw.Timer()
timer.schedule(3600.0, list)
del timer
settle()
assert heard == [ResourceWarning], heard
print("whole")
"""
    ) == "whole\n"


def test_a_timer_whose_construction_failed_does_not_warn(fresh):
    """There is nothing to close."""
    assert fresh(
        DROPPED
        + """
for options in ({"tick": 0}, {"wheel_size": 1}, {"executor": "nowhere"}, {"max_pending": 0}, {"nonsense": 1}):
    try:
        tw.Timer(**options)
    except (ValueError, TypeError):
        pass
    else:
        raise AssertionError(options)
settle()
assert heard == [], heard
print("whole")
"""
    ) == "whole\n"
