"""What people make of `threading.Timer` by subclassing it: the original and the drop-in, side by side."""

import importlib
import threading

import pytest

WAIT = 30
LONG = 3600.0


@pytest.fixture(params=["threading", "tickwheel.dropin.threading"])
def Timer(request, tw):
    """The original, and ours on each core."""
    return importlib.import_module(request.param).Timer


def test_a_periodic_timer(Timer):
    """The recipe: run() waits for `finished` with the interval, again and again, until it is cancelled."""

    class Periodic(Timer):
        def run(self):
            while not self.finished.wait(self.interval):
                self.function(*self.args, **self.kwargs)

    calls, third = [], threading.Event()

    def call(number):
        calls.append((number, threading.current_thread()))
        if len(calls) == 3:
            third.set()

    timer = Periodic(0.005, call, [7])
    timer.start()
    assert timer.ident is not None
    assert third.wait(WAIT)
    assert timer.is_alive()
    timer.cancel()
    timer.join(WAIT)
    assert not timer.is_alive()
    assert set(calls) == {(7, timer)}


def test_a_timer_that_is_put_off(Timer):
    """Another recipe: reset() sets `finished`, and run() clears it and waits anew."""

    class Resettable(Timer):
        is_reset = True

        def run(self):
            while self.is_reset:
                self.finished.clear()
                self.is_reset = False
                self.waiting.set()
                self.finished.wait(self.interval)
            if not self.finished.is_set():
                self.function(*self.args, **self.kwargs)
            self.finished.set()

        def reset(self, interval):
            self.interval = interval
            self.is_reset = True
            self.finished.set()

    calls = []
    timer = Resettable(LONG, calls.append, [1])
    timer.waiting = threading.Event()
    timer.start()
    assert timer.waiting.wait(WAIT)
    timer.reset(0.05)
    assert timer.is_alive()
    timer.join(WAIT)
    assert calls == [1]


def test_a_restartable_holder(Timer):
    """A holder that cancels its timer and starts a new one: only the last fires."""
    calls = []

    class Watchdog:
        def __init__(self):
            self.timer = None

        def kick(self, interval, n):
            if self.timer is not None:
                self.timer.cancel()
            self.timer = Timer(interval, calls.append, [n])
            self.timer.daemon = True
            self.timer.start()

    watchdog = Watchdog()
    for n in range(100):
        watchdog.kick(LONG, n)
    watchdog.kick(0.001, 100)
    watchdog.timer.join(WAIT)
    assert calls == [100]


def test_run_around_the_originals(Timer):
    """super().run() waits, calls and finishes."""
    story = []

    class Wrapped(Timer):
        def run(self):
            story.append("before")
            try:
                super().run()
            finally:
                story.append("after")

    timer = Wrapped(0.01, story.append, ["called"])
    timer.start()
    timer.join(WAIT)
    assert story == ["before", "called", "after"]
    assert timer.finished.is_set()
    cancelled = Wrapped(LONG, story.append, ["called"])
    cancelled.start()
    cancelled.cancel()
    cancelled.join(WAIT)
    assert story == ["before", "called", "after", "before", "after"]


def test_run_called_by_hand(Timer):
    """It waits and calls in the caller's thread."""
    threads = []
    timer = Timer(0.001, lambda: threads.append(threading.current_thread()))
    timer.run()
    assert threads == [threading.current_thread()]
    assert timer.finished.is_set()
    assert not timer.is_alive()


def test_a_run_that_is_patched_in(Timer, monkeypatch):
    """By a test, say: into the class itself."""
    ran = []

    def run(self):
        ran.append(self)

    monkeypatch.setattr(Timer, "run", run)
    timer = Timer(LONG, list)
    timer.start()
    timer.join(WAIT)
    assert ran == [timer]


def test_errors_of_run(Timer, monkeypatch):
    """They go to the excepthook, with the timer as the thread."""
    told = []
    monkeypatch.setattr(threading, "excepthook", told.append)

    class Broken(Timer):
        def run(self):
            raise LookupError("broken")

    timer = Broken(LONG, list)
    timer.start()
    timer.join(WAIT)
    assert [(args.exc_type, args.thread) for args in told] == [(LookupError, timer)]
    assert not timer.is_alive()


def test_a_subclass_with_a_constructor(Timer):
    """Attributes before and after the base's constructor; the function may be a method of its own."""

    class Bell(Timer):
        def __init__(self, name):
            self.rung = 0
            super().__init__(0.001, self.ring)
            self.name = name
            self.daemon = True

        def ring(self):
            self.rung += 1

    bell = Bell("bell")
    bell.start()
    bell.join(WAIT)
    assert (bell.rung, bell.name, bell.daemon) == (1, "bell", True)


def test_a_cancel_of_the_subclass_is_its_own(Timer):
    """An overridden cancel() runs when somebody calls it, and not when the timer ends by itself."""
    calls = []

    class Loud(Timer):
        def cancel(self):
            calls.append("cancelled")
            super().cancel()

    timer = Loud(0.001, calls.append, ["fired"])
    timer.start()
    timer.join(WAIT)
    assert calls == ["fired"]
    assert timer.finished.is_set()
    timer = Loud(LONG, calls.append, ["fired"])
    timer.start()
    timer.cancel()
    timer.join(WAIT)
    assert calls == ["fired", "cancelled"]


def test_a_constructor_that_forgets_its_base(Timer):
    """RuntimeError, from all that needs it."""

    class Forgetful(Timer):
        def __init__(self):
            pass

    timer = Forgetful()
    with pytest.raises(RuntimeError, match=r"thread\.__init__\(\) not called"):
        timer.start()
    with pytest.raises(RuntimeError, match=r"Thread\.__init__\(\) not called"):
        timer.join()
    with pytest.raises(RuntimeError, match=r"Thread\.__init__\(\) not called"):
        timer.daemon = True
