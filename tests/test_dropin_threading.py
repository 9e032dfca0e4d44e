"""`tickwheel.dropin.threading.Timer` beside the original: every test here holds for both."""

import importlib
import io
import logging
import math
import sys
import threading
import time
import weakref

import pytest

WAIT = 30  # seconds; guards against hanging, never decides what is right
LONG = 3600.0
SOON = 0.01


@pytest.fixture(params=["threading", "tickwheel.dropin.threading"])
def Timer(request, tw):
    """The original, and ours on each core."""
    return importlib.import_module(request.param).Timer


@pytest.fixture
def hooked(monkeypatch):
    """What `threading.excepthook` was told."""
    told = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    return told


def run(timer):
    """Starts it, and waits until it has stopped."""
    timer.start()
    timer.join(WAIT)
    assert not timer.is_alive()


def test_it_calls_the_function_after_the_interval(Timer):
    """Once, with the arguments, and never early."""
    calls = []
    timer = Timer(0.05, lambda *args, **kwargs: calls.append((time.monotonic(), args, kwargs)), [1], {"b": 2})
    begun = time.monotonic()
    run(timer)
    assert [call[1:] for call in calls] == [((1,), {"b": 2})]
    assert calls[0][0] >= begun + 0.05


@pytest.mark.parametrize("interval", [0, -1, 0.0, False, math.nan])
def test_an_interval_that_has_passed(Timer, interval):
    """It is due at once; so is one that is no number, since it is not greater than 0."""
    calls = []
    run(Timer(interval, calls.append, [1]))
    assert calls == [1]


def test_the_attributes_of_the_constructor(Timer):
    """interval, function, args, kwargs: as given; a new list and dict where none are."""
    timer, other = Timer(interval=1.5, function=print, args=(1,), kwargs={"end": ""}), Timer(2, print)
    assert (timer.interval, timer.function, timer.args, timer.kwargs) == (1.5, print, (1,), {"end": ""})
    assert (other.interval, other.args, other.kwargs) == (2, [], {})
    assert other.args is not Timer(2, print).args


def test_attributes_are_read_when_they_are_needed(Timer):
    """The interval when it starts; function and arguments when it fires."""
    calls = []
    timer = Timer(LONG, calls.append, ["first"])
    timer.interval = 0.2
    timer.start()
    timer.function, timer.args = calls.insert, [0, "second"]
    timer.join(WAIT)
    assert calls == ["second"]


def test_a_timer_bears_attributes_of_its_users(Timer):
    """Also ones that a task of a wheel has."""
    timer = Timer(LONG, print)
    timer.tag, timer.state, timer.callback, timer.when = 1, 2, 3, 4
    assert (timer.tag, timer.state, timer.callback, timer.when) == (1, 2, 3, 4)
    assert weakref.ref(timer)() is timer


def test_cancel_in_time(Timer):
    """The function is not called; cancel says nothing, any number of times."""
    calls = []
    timer = Timer(LONG, calls.append, [1])
    timer.start()
    assert timer.is_alive()
    assert timer.cancel() is None
    timer.join(WAIT)
    assert not timer.is_alive()
    assert timer.cancel() is None
    assert calls == []


def test_cancel_before_start(Timer):
    """It starts, and stops without a call."""
    calls = []
    timer = Timer(0, calls.append, [1])
    timer.cancel()
    assert timer.finished.is_set()
    run(timer)
    assert calls == []


def test_cancel_after_firing(Timer):
    """Nothing comes of it."""
    calls = []
    timer = Timer(SOON, calls.append, [1])
    run(timer)
    timer.cancel()
    assert calls == [1]
    assert timer.finished.is_set()


def test_cancel_while_the_function_runs(Timer):
    """`finished` is set; the timer is alive until the function has returned."""
    entered, release = threading.Event(), threading.Event()
    timer = Timer(0, lambda: (entered.set(), release.wait(WAIT)))
    timer.start()
    assert entered.wait(WAIT)
    assert not timer.finished.is_set()
    timer.cancel()
    assert timer.finished.is_set()
    assert timer.is_alive()
    release.set()
    timer.join(WAIT)
    assert not timer.is_alive()


def test_cancel_from_the_function(Timer):
    """A timer may cancel itself."""
    timer = Timer(0, list)
    timer.function = timer.cancel
    run(timer)
    assert timer.finished.is_set()


def test_finished_is_an_event(Timer):
    """One for the timer's life: not set while it waits, set when its function has returned."""
    timer = Timer(SOON, list)
    finished = timer.finished
    assert isinstance(finished, threading.Event)
    assert not finished.is_set()
    timer.start()
    assert finished.wait(WAIT)
    assert timer.finished is finished
    late = Timer(0, list)
    run(late)
    assert late.finished.is_set()


def test_finished_wakes_who_waits_for_it(Timer):
    """Also where the waiter came before the cancellation."""
    timer = Timer(LONG, list)
    timer.start()
    Timer(0.05, timer.cancel).start()
    assert timer.finished.wait(WAIT)
    timer.join(WAIT)
    assert not timer.is_alive()


def test_to_set_finished_is_to_cancel(Timer):
    """What `cancel` does, done by hand."""
    calls = []
    timer = Timer(LONG, calls.append, [1])
    timer.start()
    timer.finished.set()
    timer.join(WAIT)
    assert not timer.is_alive()
    assert calls == []


def test_a_cancellation_undone_before_the_start(Timer):
    """finished.clear(): the timer may start as if nothing had been."""
    calls = []
    timer = Timer(0, calls.append, [1])
    timer.cancel()
    timer.finished.clear()
    run(timer)
    assert calls == [1]


def test_finished_may_be_replaced(Timer):
    """The timer goes by the event that it has when it fires."""
    calls = []
    timer = Timer(0.1, calls.append, [1])
    timer.finished = event = threading.Event()
    timer.start()
    event.set()
    timer.join(WAIT)
    assert timer.finished is event
    assert calls == []
    other = Timer(LONG, list)
    other.finished = event = threading.Event()
    other.start()
    other.cancel()
    assert event.is_set()
    other.join(WAIT)


def test_it_starts_once(Timer):
    """RuntimeError, alive or not."""
    timer = Timer(LONG, list)
    timer.start()
    with pytest.raises(RuntimeError, match="threads can only be started once"):
        timer.start()
    timer.cancel()
    timer.join(WAIT)
    with pytest.raises(RuntimeError, match="threads can only be started once"):
        timer.start()


def test_join_before_start(Timer):
    """RuntimeError."""
    with pytest.raises(RuntimeError, match="cannot join thread before it is started"):
        Timer(LONG, list).join()


def test_join_from_its_own_function(Timer, hooked):
    """RuntimeError, with a timeout as well."""
    timer = Timer(0, lambda: timer.join(0.1))
    run(timer)
    assert [str(told.exc_value) for told in hooked] == ["cannot join current thread"]


@pytest.mark.parametrize("timeout", [0, -1, 0.01])
def test_join_with_a_timeout(Timer, timeout):
    """It returns None, and the timer is still alive."""
    timer = Timer(LONG, list)
    timer.start()
    assert timer.join(timeout) is None
    assert timer.is_alive()
    timer.cancel()
    assert timer.join(timeout=WAIT) is None
    assert not timer.is_alive()


def test_join_from_many_threads(Timer):
    """All of them are woken."""
    timer = Timer(LONG, list)
    timer.start()
    waiters = [threading.Thread(target=timer.join) for _ in range(5)]
    for waiter in waiters:
        waiter.start()
    timer.cancel()
    for waiter in waiters:
        waiter.join(WAIT)
        assert not waiter.is_alive()


def test_join_waits_for_the_function(Timer):
    """Not only for its start."""
    calls = []
    timer = Timer(0, lambda: (time.sleep(0.1), calls.append(1)))
    run(timer)
    assert calls == [1]


def test_is_alive(Timer):
    """From start until stopped."""
    alive = []
    timer = Timer(SOON, lambda: alive.append(timer.is_alive()))
    assert not timer.is_alive()
    run(timer)
    assert alive == [True]


def test_it_is_a_thread(Timer):
    """To isinstance, and to what only calls a thread's methods."""
    timer = Timer(LONG, list)
    assert isinstance(timer, threading.Thread)
    assert isinstance(timer, threading.Timer)
    timer.start()
    timer.cancel()
    for thread in [timer]:
        thread.join()


def test_names(Timer):
    """Thread-N, all different; it may be set at any time, and is a string."""
    timers = [Timer(LONG, list) for _ in range(3)]
    names = {timer.name for timer in timers} | {threading.Thread().name}
    assert len(names) == 4
    assert all(name.startswith("Thread-") for name in names)
    assert timers[0].name == timers[0].name
    timers[0].name = 7
    assert timers[0].name == "7"


def test_the_name_that_loggers_print(Timer):
    """The timer's, for its function runs in the thread that it is."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(threadName)s: %(message)s"))
    log = logging.getLogger("test_dropin_threading")
    log.addHandler(handler)
    try:
        timer = Timer(0, log.warning, ["due"])
        timer.name = "sweeper"
        run(timer)
    finally:
        log.removeHandler(handler)
    assert stream.getvalue() == "sweeper: due\n"


def test_who_the_current_thread_is(Timer):
    """The timer, in its function; it is among those that are enumerated, and gone afterwards."""
    seen = []
    timer = Timer(
        0,
        lambda: seen.append(
            (threading.current_thread(), timer in threading.enumerate(), threading.get_ident() == timer.ident,
             threading.get_native_id() == timer.native_id)
        ),
    )  # fmt: skip
    assert timer.ident is None
    assert timer.native_id is None
    run(timer)
    assert seen == [(timer, True, True, True)]
    assert timer not in threading.enumerate()
    assert isinstance(timer.ident, int)


def test_daemons(Timer):
    """Inherited from the thread that makes it, the timer's own included; settable until it starts."""
    assert Timer(LONG, list).daemon is threading.current_thread().daemon
    made = []
    for daemon in (False, True):
        timer = Timer(0, lambda: made.append((Timer(LONG, list), threading.Thread())))
        timer.daemon = daemon
        run(timer)
    assert [(timer.daemon, thread.daemon) for timer, thread in made] == [(False, False), (True, True)]
    timer = Timer(LONG, list)
    timer.start()
    with pytest.raises(RuntimeError, match="cannot set daemon status of active thread"):
        timer.daemon = True
    timer.cancel()
    timer.join(WAIT)
    with pytest.warns(DeprecationWarning, match="daemon attribute"):
        assert timer.isDaemon() is False


def test_errors_go_to_the_excepthook(Timer, hooked):
    """With the timer as the thread; it stops, and `finished` is not set."""
    timer = Timer(0, lambda: 1 / 0)
    run(timer)
    [told] = hooked
    assert told.exc_type is ZeroDivisionError
    assert isinstance(told.exc_value, ZeroDivisionError)
    assert told.exc_traceback is not None
    assert told.thread is timer
    assert not timer.finished.is_set()


def test_errors_are_printed_by_default(Timer, monkeypatch):
    """Under the timer's name; SystemExit is not."""
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    timer = Timer(0, lambda: 1 / 0)
    timer.name = "divider"
    run(timer)
    run(Timer(0, sys.exit))
    printed = sys.stderr.getvalue()
    assert printed.startswith("Exception in thread divider:\nTraceback")
    assert printed.endswith("ZeroDivisionError: division by zero\n")


def test_an_excepthook_that_raises(Timer, monkeypatch):
    """What it raises goes to sys.excepthook."""
    told = []
    monkeypatch.setattr(threading, "excepthook", lambda args: {}["no such key"])
    monkeypatch.setattr(sys, "excepthook", lambda *error: told.append(error[0]))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    run(Timer(0, lambda: 1 / 0))
    assert told == [KeyError]
    assert sys.stderr.getvalue() == "Exception in threading.excepthook:\n"


@pytest.mark.parametrize(
    ("interval", "error"),
    [("soon", TypeError), (math.inf, OverflowError), (10**400, OverflowError)],
)
def test_an_interval_that_no_lock_takes(Timer, hooked, interval, error):
    """start() does not mind; the thread raises."""
    run(Timer(interval, list))
    assert [told.exc_type for told in hooked] == [error]


def test_an_interval_without_an_end(Timer):
    """None: it waits until it is cancelled."""
    timer = Timer(None, list)
    timer.start()
    timer.join(0.05)
    assert timer.is_alive()
    timer.cancel()
    timer.join(WAIT)
    assert not timer.is_alive()


def test_a_function_that_starts_the_next(Timer):
    """A chain: each timer is made and started by the one before."""
    calls, done = [], threading.Event()

    def call(n):
        calls.append(n)
        if n == 5:
            done.set()
        else:
            Timer(0.001, call, [n + 1]).start()

    Timer(0.001, call, [1]).start()
    assert done.wait(WAIT)
    assert calls == [1, 2, 3, 4, 5]


def test_timers_do_not_wait_for_each_other(Timer):
    """Functions that block, more than there were threads, hold up nobody: they meet at a barrier."""
    barrier = threading.Barrier(20, timeout=WAIT)
    timers = [Timer(0.001 * n, barrier.wait) for n in range(20)]
    for timer in timers:
        timer.start()
    for timer in timers:
        timer.join(WAIT)
    assert not barrier.broken


def test_functions_are_traced(Timer):
    """threading.settrace and setprofile: as any thread that starts after them."""
    events = set()

    def watched():
        pass

    def tracer(frame, event, arg):
        if frame.f_code is watched.__code__:
            events.add(event)
        return tracer

    before = threading.gettrace(), threading.getprofile()
    threading.settrace(tracer)
    threading.setprofile(tracer)
    try:
        run(Timer(0, watched))
    finally:
        threading.settrace(before[0])
        threading.setprofile(before[1])
    assert {"call", "line", "return"} <= events
    events.clear()
    run(Timer(0, watched))
    assert not events


@pytest.mark.parametrize("stage", ["initial", "started", "stopped"])
def test_repr(Timer, stage):
    """The name, how far it has come, and whether it is a daemon."""
    timer = Timer(LONG, list)
    timer.name, timer.daemon = "bell", True
    if stage != "initial":
        timer.start()
    if stage == "stopped":
        timer.cancel()
        timer.join(WAIT)
    assert repr(timer).startswith(f"<Timer(bell, {stage} daemon")
    assert repr(timer).endswith(")>")
    timer.cancel()


def test_race_of_cancel_and_firing(Timer):
    """However it ends, the function was called once or never, and the timer stops."""
    calls = []
    timers = [Timer(0.001 * (n % 5), calls.append, [n]) for n in range(200)]
    for timer in timers:
        timer.start()
    for timer in timers[::2]:
        timer.cancel()
    for timer in timers:
        timer.join(WAIT)
        assert not timer.is_alive()
        assert timer.finished.is_set()
    assert len(calls) == len(set(calls))
    assert set(calls) >= set(range(1, 200, 2))
