"""`tickwheel.dropin.threading.Timer`: what it does better than the original, and CPython's own tests."""

import _thread
import contextvars
import gc
import importlib
import os
import threading
import time
import unittest
import weakref

import pytest

WAIT = 30
LONG = 3600.0


@pytest.fixture
def Timer(tw):
    return importlib.import_module("tickwheel.dropin.threading").Timer


@pytest.fixture
def warm(Timer):
    """What is shared is there: wheel, reaper, and a thread of the pool."""
    for daemon in (False, True):
        timer = Timer(0, list)
        timer.daemon = daemon
        timer.start()
        timer.join(WAIT)


@pytest.mark.usefixtures("warm")
def test_no_thread_waits(Timer):
    """10,000 pending timers, not one thread more; after the cancellations none is left on the wheel."""
    before = _thread._count()
    timers = [Timer(LONG + n, list) for n in range(10_000)]
    for timer in timers:
        timer.start()
    shared = importlib.import_module("tickwheel.dropin.sharedwheel").shared
    assert _thread._count() <= before
    assert len(shared.holding.timer) == 10_000
    for timer in timers:
        timer.cancel()
    assert len(shared.holding.timer) == 0


@pytest.mark.usefixtures("warm")
def test_the_shared_threads_have_names(Timer):
    """One reaper for daemons, one for the others: they are what a thread dump shows."""
    names = {thread.name for thread in threading.enumerate()}
    assert {"threading.Timer-reaper", "threading.Timer-daemon-reaper"} <= names


def test_functions_do_not_see_each_others_context(Timer):
    """A context variable that one sets is unset for the next in the same thread."""
    variable = contextvars.ContextVar("variable", default="unset")
    seen = []
    for _ in range(20):
        timer = Timer(0, lambda: (seen.append(variable.get()), variable.set("set")))
        timer.start()
        timer.join(WAIT)
    assert seen == ["unset"] * 20


@pytest.mark.parametrize("end", ["fires", "is cancelled", "is cancelled by its event"])
def test_what_it_pinned_is_freed_with_it(Timer, end):
    """No cycle is left behind: a timer that has ended goes with its last reference."""

    class Thing:
        pass

    thing = Thing()
    timer = Timer(0 if end == "fires" else LONG, id, [thing])
    gone = weakref.ref(thing)
    del thing
    gc.disable()
    try:
        if end == "is cancelled by its event":
            timer.finished.is_set()
        timer.start()
        if end == "is cancelled":
            timer.cancel()
        if end == "is cancelled by its event":
            timer.finished.set()
        timer.join(WAIT)
        del timer
        deadline = time.monotonic() + WAIT
        while gone() is not None and time.monotonic() < deadline:
            time.sleep(0.001)  # its thread is letting go of it
        assert gone() is None
    finally:
        gc.enable()


def test_cancellations_from_other_threads(Timer):
    """A cancel that meets a start half-way is not lost: each timer ends long before its interval."""
    timers = [Timer(LONG, list) for _ in range(2000)]

    def cancel():
        for timer in timers:
            while not timer.is_alive() and not timer.finished.is_set():
                pass
            timer.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    for timer in timers:
        timer.start()
    canceller.join(WAIT)
    for timer in timers:
        timer.join(WAIT)
        assert not timer.is_alive()


def test_events_asked_for_by_other_threads(Timer):
    """`finished` and `join` from threads that race with firing and cancelling: nobody waits for ever."""
    timers = [Timer(0.0005 * (n % 4) if n % 2 else LONG, list) for n in range(400)]
    missed = []

    def watch():
        for timer in timers:
            if not timer.finished.wait(WAIT):
                missed.append(timer)

    def join():
        for timer in timers:
            timer.join(WAIT)
            if timer.is_alive():
                missed.append(timer)

    for timer in timers:
        timer.start()
    threads = [threading.Thread(target=target) for target in (watch, join, watch, join)]
    for thread in threads:
        thread.start()
    for timer in timers:
        if timer.interval == LONG:
            timer.cancel()
    for thread in threads:
        thread.join(WAIT)
    assert missed == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_leaves_other_functions_alone(fresh):
    """A child of main, while functions run in the parent: nothing that `threading` resets fails on them."""
    assert fresh("""
import os, threading, time, warnings
from tickwheel.dropin.threading import Timer
warnings.simplefilter("ignore", DeprecationWarning)
release = threading.Event()
timers = [Timer(0, release.wait) for _ in range(5)]
for timer in timers:
    timer.start()
while threading.active_count() < 7:
    time.sleep(0.001)
pid = os.fork()
if pid == 0:
    alive = any(timer.is_alive() for timer in timers) or threading.active_count() != 1
    os._exit(alive)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
release.set()
print("whole")
""") == "whole\n"


def test_a_start_that_passes_the_gate_at_exit(fresh):
    """Between the last look at the wheel and its closing: exit waits for it all the same."""
    assert fresh("""
import threading
from tickwheel.dropin.sharedwheel import shared
from tickwheel.dropin.threading import Timer

Timer(0.01, list).start()
timer = shared.holding.timer
schedule, close = shared.holding.schedule, timer.close

def close_late(wait=True):
    refuse, shared.holding.schedule = shared.holding.schedule, schedule
    Timer(0.1, lambda: print("late:", threading.current_thread().name)).start()
    shared.holding.schedule, timer.close = refuse, close
    return close(wait)

timer.close = close_late
""").startswith("late: Thread-")


def test_an_import_on_the_way_out(fresh):
    """By an atexit function: as far as there are threads, the timer has one of its own; else it says so."""
    assert fresh("""
import atexit

def late():
    from tickwheel.dropin.threading import Timer
    timer = Timer(0, print, ["fired"])
    try:
        timer.start()
    except RuntimeError as error:
        assert "interpreter shutdown" in str(error), error
    else:
        timer.join()
    print("done")

atexit.register(late)
""") in ("fired\ndone\n", "done\n")


@pytest.mark.usefixtures("warm")
def test_cpythons_own_tests(Timer, monkeypatch):
    """test.test_threading.TimerTests with the class replaced; no thread is left dangling, either."""
    suite = pytest.importorskip("test.test_threading", reason="this interpreter ships without its tests")
    support = importlib.import_module("test.support")
    monkeypatch.setattr(importlib.import_module("tickwheel.dropin.elasticpool"), "IDLE_S", 0.01)
    monkeypatch.setattr(threading, "Timer", Timer)
    monkeypatch.setattr(support, "environment_altered", False)
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(suite.TimerTests).run(result)
    assert result.testsRun == 1
    assert result.wasSuccessful(), [text for _, text in result.failures + result.errors]
    assert not support.environment_altered
