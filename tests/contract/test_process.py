"""A timer and its process: fork, interpreter exit, and timers that were dropped."""

import os

import pytest

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

CHILD = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)   # fork with threads running is the point here
import tickwheel as tw

def in_child(story):
    "Runs the story in a forked child; True if the child ended well."
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            story()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


# --- fork


@forks
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


@forks
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


@forks
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


@forks
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


@forks
def test_fork_while_threads_hammer(fresh):
    """fork: whatever the threads were in the middle of, the child never waits for them."""
    assert fresh(
        CHILD
        + """
import random
timer = tw.Timer(tick=0.001, wheel_size=8)
over = threading.Event()

def hammer():
    tasks = []
    while not over.is_set():
        tasks.append(timer.schedule(random.choice((0, 0.001, 0.01, 5.0)), list))
        task = random.choice(tasks)
        task.reschedule(0.5) if random.random() < 0.5 else task.cancel()
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


@forks
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


# --- exit


def test_exit_with_pending_tasks(fresh):
    """Exit is as `close(wait=False)`: it neither waits for them nor runs them."""
    fresh("""
import tickwheel as tw
timer = tw.Timer()
timer.schedule(0.001, list)
tasks = [timer.schedule(3600.0 + n, print, "never") for n in range(1000)]
timer.schedule_every(1000.0, print, "never")
timer.submit(3600.0, print, "never")
""")


def test_exit_with_a_callback_that_never_ends(fresh):
    """Exit does not wait for a callback that runs."""
    fresh("""
import threading, tickwheel as tw
timer = tw.Timer()
entered = threading.Event()
timer.schedule(0, lambda: (entered.set(), threading.Event().wait()))
queued = [timer.schedule(0, print, "never") for _ in range(100)]
assert entered.wait(30)
""")


def test_exit_with_an_inline_callback_that_never_ends(fresh):
    """The same on the reaper."""
    fresh("""
import threading, tickwheel as tw
timer = tw.Timer(executor="inline")
entered = threading.Event()
timer.schedule(0, lambda: (entered.set(), threading.Event().wait()))
timer.schedule(0, print, "never")
assert entered.wait(30)
""")


def test_exit_while_callbacks_run(fresh):
    """Exit in the midst of thousands of callbacks a second."""
    for _ in range(3):
        fresh("""
import threading, tickwheel as tw
timers = [tw.Timer(), tw.Timer(executor="inline")]
entered = [threading.Event() for _ in timers]
for timer, event in zip(timers, entered):
    for n in range(200):
        timer.schedule_every(0.001, event.set)
for event in entered:
    assert event.wait(30)
""")


def test_exit_while_a_pool_is_fed(fresh):
    """Exit shuts the pool down first: what it refuses then stays queued, and is no crash."""
    fresh(
        """
import concurrent.futures, logging, threading, tickwheel as tw
logging.disable()
pool = concurrent.futures.ThreadPoolExecutor(2)
timer = tw.Timer(executor=pool)
entered = threading.Event()
for n in range(200):
    timer.schedule_every(0.001, entered.set)
assert entered.wait(30)
"""
    )


def test_exit_while_daemon_threads_hammer(fresh):
    """Exit while daemon threads schedule and cancel: they may be refused, and nothing crashes."""
    for _ in range(3):
        fresh("""
import threading, tickwheel as tw
timer = tw.Timer()
started = threading.Event()

def hammer():
    try:
        while True:
            timer.schedule(0.001, list)
            timer.schedule(9.0, list).cancel()
            started.set()
    except RuntimeError:
        pass   # closed at exit

for _ in range(3):
    threading.Thread(target=hammer, daemon=True).start()
assert started.wait(30)
""")


def test_exit_from_a_callback_turned_by_hand(fresh):
    """R8: SystemExit passes through `advance_clock` and ends the process with its code."""
    fresh(
        """
import sys, tickwheel as tw
timer = tw.Timer(executor="inline", start=False)
timer.schedule(0, sys.exit, 3)
timer.schedule(3600.0, print, "never")
timer.advance_clock()
print("never")
""",
        code=3,
    )


def test_exit_while_main_closes(fresh):
    """A timer closed at exit by its owner, and by the interpreter, is closed once."""
    assert fresh("""
import atexit, tickwheel as tw
timer = tw.Timer()
timer.schedule(3600.0, list)
atexit.register(lambda: print(len(timer.close())))
timer.submit(0.001, list).result(30)
""") in ("1\n", "0\n")


def test_a_timer_made_at_exit(fresh):
    """An atexit function may still use a timer, or is told that it cannot: no hang, no crash."""
    assert fresh("""
import atexit, tickwheel as tw

def late():
    try:
        with tw.Timer() as timer:
            timer.submit(0, list).result(5)
    except RuntimeError:
        pass
    print("done")

atexit.register(late)
""") == "done\n"


def test_a_global_timer_and_tasks_in_cycles_at_exit(fresh):
    """Module globals are torn down in any order; what is left of a timer is not used after it is gone."""
    fresh("""
import tickwheel as tw

class Bell(tw.TimerTask):
    def __init__(self, timer):
        super().__init__(3600.0)
        self.timer, self.itself = timer, self

    def __del__(self):
        self.cancel()
        repr(self)

timer = tw.Timer()
for _ in range(100):
    timer.add(Bell(timer))
wheel = tw.TimingWheel()
for n in range(100):
    wheel.add(Bell(timer), n + 1)
""")


# --- dropped

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


# --- import


def test_the_core_is_chosen_at_import(fresh, core):
    """TICKWHEEL_CORE chooses, and `IMPLEMENTATION` says what is in use."""
    assert fresh("import tickwheel; print(tickwheel.IMPLEMENTATION)") == f"{core}\n"


def test_an_unknown_core_is_named(fresh):
    """A core that does not exist is an error at import, and not another core in silence."""
    fresh(
        "import tickwheel",
        env={"TICKWHEEL_CORE": "rust"},
        code=1,
        stderr="TICKWHEEL_CORE must be",
    )


def test_the_reference_needs_no_extension(fresh, core):
    """On the reference no compiled module is loaded; no import of asyncio or of an optional package."""
    loaded = fresh("import sys, tickwheel; print(*sys.modules)").split()
    compiled = {"tickwheel._task", "tickwheel._wheel", "tickwheel._timer"} & set(loaded)
    assert bool(compiled) == (core == "cython")
    heavy = {"asyncio", "numpy", "pyarrow", "matplotlib", "rich", "multiprocessing"}
    assert not heavy & {name.partition(".")[0] for name in loaded}
