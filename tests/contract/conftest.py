"""What the contract tests share: timers turned by hand, and clocks that do as they are told."""

import concurrent.futures
import contextlib
import math
import threading

import pytest

WAIT = 30  # seconds; guards against hanging, never decides what is right


@pytest.fixture(autouse=True)
def _threads_end(no_thread_left):
    """Whatever a test does to its timers."""


@pytest.fixture
def make_timer(tw):
    """Makes timers, and checks and closes each when the test is over."""

    def finish(timer):
        timer._check()
        timer.close()
        assert len(timer) == 0

    with contextlib.ExitStack() as made:

        def make(**options):
            timer = tw.Timer(**options)
            made.callback(finish, timer)
            return timer

        yield make


@pytest.fixture
def clock(tw):
    return tw.ManualClock()


@pytest.fixture
def timer(make_timer, clock):
    """Turned by hand, a tick a second, callbacks inline: times in tests are whole seconds."""
    return make_timer(tick=1.0, wheel_size=8, executor="inline", clock=clock, start=False)


@pytest.fixture
def advance(timer, clock):
    """Lets seconds pass and turns the wheel: how many tasks ran."""

    def advance(seconds):
        clock.advance(seconds)
        return timer.advance_clock()

    return advance


class Gate:
    """A callback that stays inside until the test lets it go."""

    def __init__(self):
        self.entered, self.opened = threading.Event(), threading.Event()

    def hold(self):
        self.entered.set()
        assert self.opened.wait(WAIT)

    def wait_entered(self):
        assert self.entered.wait(WAIT)

    def open(self):
        self.opened.set()


@pytest.fixture
def gate(make_timer):
    """Opened at the latest when the test is over, before its timers are closed."""
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def busy(make_timer, clock, gate):
    """Turned by hand, its one worker held at the gate: what is due next waits in the queue."""
    timer = make_timer(tick=1.0, wheel_size=8, clock=clock, start=False)
    timer.schedule(0, gate.hold)
    gate.wait_entered()
    return timer


class ScriptedClock:
    """The clock protocol in plain lines: time is what the test says, and each sleep is written down."""

    def __init__(self, now=0.0):
        self.now = now
        self.sleeps = []  # the `when` of every wait, in order
        self.wakes = 0
        self.closed = 0
        self.sleeping_until = None
        self._changed = threading.Condition()
        self._woken = False

    def time(self):
        return self.now

    def set(self, now):
        """Moves the hands, also backwards, and lets sleepers look at them."""
        with self._changed:
            self.now = now
            self._changed.notify_all()

    def wait_for_sleep(self, reached=lambda when: True):
        """Waits until the reaper sleeps, until a `when` that is as expected; returns that `when`."""

        def settled():
            when = self.sleeping_until
            return when is not None and not self._woken and self.now < when and reached(when)

        with self._changed:
            assert self._changed.wait_for(settled, WAIT), f"sleeps until {self.sleeping_until}"
            return self.sleeping_until

    def sleeper(self, idle):
        return ScriptedSleeper(self)


class ScriptedSleeper:
    def __init__(self, clock):
        self.clock = clock

    def wait_until(self, when):
        clock = self.clock
        with clock._changed:
            clock.sleeps.append(when)
            clock.sleeping_until = when
            clock._changed.notify_all()
            clock._changed.wait_for(lambda: clock._woken or clock.now >= when)
            clock._woken = False
            clock.sleeping_until = None

    def wake(self):
        with self.clock._changed:
            self.clock.wakes += 1
            self.clock._woken = True
            self.clock._changed.notify_all()

    def close(self):
        self.clock.closed += 1


@pytest.fixture
def scripted():
    return ScriptedClock()


class CollectingExecutor(concurrent.futures.Executor):
    """An executor that is not the timer's: keeps each ticket until the test runs it."""

    def __init__(self):
        self.tickets = []

    def submit(self, fn, /, *args, **kwargs):
        assert not args and not kwargs
        self.tickets.append(fn)
        return concurrent.futures.Future()

    def shutdown(self, wait=True, *, cancel_futures=False):
        raise AssertionError("the timer did not make this executor and must not shut it down")

    def run_all(self):
        while self.tickets:
            self.tickets.pop(0)()


@pytest.fixture
def collecting():
    return CollectingExecutor()


def ticks_up(when, tick):
    """The contract's rounding, found by looking: the least n with n * tick >= when - 1 ns."""
    n = math.floor((when - 1e-9) / tick) - 2
    while n * tick < when - 1e-9:
        n += 1
    return n


def ticks_down(now, tick):
    """The greatest n with n * tick <= now."""
    n = math.floor(now / tick) + 2
    while n * tick > now:
        n -= 1
    return n


@pytest.fixture
def rounding():
    return ticks_up, ticks_down


# --- the purgatory


@pytest.fixture
def make_purgatory(tw, timer):
    """Makes purgatories, on the timer turned by hand unless told otherwise; checks and closes each."""

    def finish(purgatory):
        purgatory._check()
        purgatory.close()
        purgatory._check()
        assert purgatory.watched == purgatory.delayed == 0

    with contextlib.ExitStack() as made:

        def make(name="purgatory", **options):
            options.setdefault("timer", timer)
            purgatory = tw.DelayedOperationPurgatory(name, **options)
            made.callback(finish, purgatory)
            return purgatory

        yield make


@pytest.fixture
def purgatory(make_purgatory):
    """On the timer turned by hand."""
    return make_purgatory()


@pytest.fixture
def start(make_purgatory):
    """Starts a function in another thread; returns the future of its result."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        yield pool.submit


@pytest.fixture
def make_gate(start):
    """Makes gates; they are open at the latest when the test is over."""
    gates = []

    def make():
        gates.append(Gate())
        return gates[-1]

    yield make
    for gate in gates:
        gate.open()


@pytest.fixture
def make_operation(tw):
    """Makes operations that answer `ready`, call the hooks they are given, and keep a diary.

    What the rules forbid, a callback while another thread is inside `try_complete`, is a different entry.
    """

    class Operation(tw.DelayedOperation):
        def __init__(self, timeout=60.0, *, ready=False, trying=None, completed=None, expired=None):
            super().__init__(timeout)
            self.ready = ready
            self.trying = trying  # called with the operation; what it returns, unless None, is the answer
            self.completed = completed
            self.expired = expired
            self.diary = []
            self.inside = 0

        def write(self, what):
            self.diary.append(f"{what} inside a try" if self.inside else what)

        def try_complete(self):
            self.write("try")
            self.inside += 1
            try:
                answer = None if self.trying is None else self.trying(self)
            finally:
                self.inside -= 1
            return self.ready if answer is None else answer

        def on_complete(self):
            self.write("complete")
            if self.completed is not None:
                self.completed(self)

        def on_expiration(self):
            self.write("expire")
            if self.expired is not None:
                self.expired(self)

    return Operation


@pytest.fixture
def watch(purgatory, make_operation):
    """Puts a new operation into the purgatory, where it waits: its diary begins after that."""

    def watch(*keys, **options):
        hooks = {name: options.pop(name) for name in ("ready", "trying") if name in options}
        operation = make_operation(**options)
        assert purgatory.try_complete_else_watch(operation, keys) is False
        assert operation.diary == ["try", "try"]
        operation.diary.clear()
        for name, hook in hooks.items():
            setattr(operation, name, hook)
        return operation

    return watch
