"""Interpreter exit with pending tasks: as `close(wait=False)`, no hang, no crash."""


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
