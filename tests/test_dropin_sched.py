"""`tickwheel.dropin.sched` beside `sched`: each behaviour of both, both at random, CPython's own tests."""

import collections
import datetime
import decimal
import fractions
import functools
import gc
import importlib
import inspect
import itertools
import math
import operator
import queue
import random
import sched
import threading
import time
import unittest
import weakref
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

# CPython's tests that the drop-in does not pass, each with its reason.
EXCLUDED = {}

NOT_THERE = "not in list|in the queue"  # what the original says, and what we say


@pytest.fixture
def dropin(tw):
    """The module under test, on one core."""
    return importlib.import_module("tickwheel.dropin.sched")


@pytest.fixture(params=["original", "dropin"])
def module(request, dropin):
    """The standard module, then the drop-in."""
    return sched if request.param == "original" else dropin


@pytest.fixture
def small(dropin, monkeypatch):
    """The drop-in, with the limits so low that a handful of events is spread over buckets."""
    lower_limits(dropin, monkeypatch)
    return dropin


def lower_limits(dropin, patch):
    for name, value in {"UNTUNED": 4, "CROWD": 2, "RETUNE": 1, "SAMPLE": 4, "SPARE": 0}.items():
        patch.setattr(dropin, name, value)


class Clock:
    """Virtual time: waiting is what moves it."""

    def __init__(self, now=0):
        self.now = now
        self.delays = []

    def time(self):
        return self.now

    def wait(self, delay):
        self.delays.append(delay)
        if delay:  # the 0 after an event is of no unit
            self.now += delay


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def scheduler(module, clock):
    return module.scheduler(clock.time, clock.wait)


@pytest.fixture
def ran():
    return []


@functools.total_ordering
class Odd:
    """A time that can be compared, added and subtracted, and nothing else: no hash, no float."""

    __hash__ = None
    compared = 0

    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        Odd.compared += 1
        return self.n == other.n

    def __lt__(self, other):
        Odd.compared += 1
        return self.n < other.n

    def __add__(self, n):
        return Odd(self.n + n)

    def __sub__(self, other):
        return self.n - other.n


EPOCH = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
TIMES = {  # the time after n units, and a delay of n units
    "int": (int, int),
    "float": (float, float),
    "Fraction": (lambda n: fractions.Fraction(n, 3), lambda n: fractions.Fraction(n, 3)),
    "Decimal": (decimal.Decimal, decimal.Decimal),
    "datetime": (lambda n: EPOCH + datetime.timedelta(n), datetime.timedelta),
    "beyond float": (lambda n: 10**400 + n, int),
    "infinite": (lambda n: n if n < 9 else math.inf, float),
    "mixed": (
        lambda n: [int, float, fractions.Fraction, bool][n % 4 if n < 2 else n % 3](n),
        lambda n: [int, float, fractions.Fraction][n % 3](n),
    ),
    "Odd": (Odd, int),
}


# The order of events


def test_order(scheduler, ran):
    """Earlier times first, then lower priorities, then what was entered first."""
    for name, at, priority in [("e", 2, 1), ("d", 1, 7), ("b", 1, 5), ("c", 1, 5), ("a", 1, -1)]:
        scheduler.enterabs(at, priority, ran.append, (name,))
    scheduler.run()
    assert "".join(ran) == "abcde"


@pytest.mark.parametrize("kind", TIMES)
def test_types_of_time(module, ran, kind):
    """Whatever compares, adds and subtracts is a time."""
    time_of, delay_of = TIMES[kind]
    clock = Clock(time_of(0))
    scheduler = module.scheduler(clock.time, clock.wait)
    dropped = scheduler.enterabs(time_of(4), 1, ran.append, (4,))
    for n in [8, 3, 5, 0, 1, 3, 7]:
        scheduler.enterabs(time_of(n), 1, ran.append, (n,))
    scheduler.enter(delay_of(2), 1, ran.append, (2,))
    scheduler.cancel(dropped)
    assert [event.argument[0] for event in scheduler.queue] == [0, 1, 2, 3, 3, 5, 7, 8]
    assert scheduler.run(blocking=False) == time_of(1) - time_of(0)
    scheduler.run()
    assert ran == [0, 1, 2, 3, 3, 5, 7, 8]
    waits = [[time_of(b) - time_of(a)] * (a != b) for a, b in itertools.pairwise(ran)]
    assert clock.delays == [0, *(delay for wait in waits for delay in [*wait, 0])]


@pytest.mark.parametrize("kind", TIMES)
def test_types_of_time_in_buckets(small, ran, rng, kind):
    """The same where there are enough of them for buckets, and two at every time."""
    time_of, _ = TIMES[kind]
    scheduler = small.scheduler(lambda: time_of(100), ran.append)
    order = [*range(50), *range(50)]
    rng.shuffle(order)
    events = [scheduler.enterabs(time_of(n), 1, int) for n in order]
    for event in events[::3]:
        scheduler.cancel(event)
    del events[::3]
    assert scheduler.queue == sorted(events, key=operator.itemgetter(0, 2))
    scheduler.run()
    assert ran == [0] * len(events)


def test_priorities_of_any_type(small, ran):
    """A priority need only compare."""
    scheduler = small.scheduler(lambda: 99, ran.append)
    for n in range(40):
        scheduler.enterabs(n // 4, n % 2 + 0.5 if n > 30 else n % 2, ran.append, (n,))
    expected = sorted(range(40), key=lambda n: (n // 4, n % 2 + 0.5 if n > 30 else n % 2))
    scheduler.run()
    assert ran[::2] == expected


INCOMPARABLE = pytest.mark.parametrize(("at", "priority"), [("noon", 1), (1, None), (1, "high")])


@INCOMPARABLE
def test_incomparable(scheduler, at, priority):
    """A time that does not compare with the others is refused by `enterabs`, a priority likewise."""
    scheduler.enterabs(1, 1, print)
    with pytest.raises(TypeError, match="not supported between instances"):
        scheduler.enterabs(at, priority, print)


@INCOMPARABLE
@pytest.mark.parametrize("pending", [3, 40])
def test_incomparable_leaves_nothing(small, ran, pending, at, priority):
    """Unlike the original's, the queue is as it was; also where there are buckets."""
    scheduler = small.scheduler(lambda: 99, ran.append)
    events = [scheduler.enterabs(n, 1, ran.append, (n + 1,)) for n in range(pending)]
    for _ in range(2):
        with pytest.raises(TypeError, match="not supported between instances"):
            scheduler.enterabs(at, priority, print)
    assert scheduler.queue == events
    scheduler.run()
    assert ran[::2] == [n + 1 for n in range(pending)]


# Events


def test_event(module, scheduler):
    """An event is the standard module's named tuple."""
    enter = scheduler.enterabs
    event = enter(1, 2, print, ("x",), {"end": ""})
    assert type(event) is sched.Event is module.Event
    assert event == (1, 2, 0, print, ("x",), {"end": ""})
    assert event._fields == ("time", "priority", "sequence", "action", "argument", "kwargs")
    assert event < enter(1, 2, print) < enter(1, 3, print) < enter(2, 0, print)
    assert event._replace(time=5) > event
    with pytest.raises(TypeError, match="unhashable"):
        hash(event)


def test_arguments(scheduler, ran):
    """`argument` and `kwargs` reach the action as they are; every event has a dict of its own."""
    act = lambda *args, **kwargs: ran.append((args, kwargs))  # noqa: E731
    first, second = scheduler.enter(0, 1, act), scheduler.enter(0, 1, act, argument=[1, 2], kwargs={"x": 3})
    assert second.argument == [1, 2]
    first.kwargs["y"] = 4
    scheduler.enter(0, 1, act)
    scheduler.run()
    assert ran == [((), {"y": 4}), ((1, 2), {"x": 3}), ((), {})]


def test_arguments_that_are_none(scheduler):
    """None is no dict, here as there."""
    scheduler.enter(0, 1, print, (), None)
    with pytest.raises(TypeError, match="after \\*\\*"):
        scheduler.run()


def test_signatures(dropin):
    """The names and the order of the parameters, for those who pass them by name."""
    for name in "__init__", "enter", "enterabs", "cancel", "empty", "run":
        ours, theirs = (inspect.signature(getattr(m.scheduler, name)) for m in (dropin, sched))
        assert [(p.name, p.kind, p.default is p.empty) for p in ours.parameters.values()] == [
            (p.name, p.kind, p.default is p.empty) for p in theirs.parameters.values()
        ]


def test_defaults(module):
    """The monotonic clock and its sleep."""
    scheduler = module.scheduler()
    assert scheduler.timefunc is time.monotonic
    assert scheduler.delayfunc is time.sleep


def test_functions_can_be_replaced(scheduler, ran):
    """`timefunc` and `delayfunc` are attributes; `run` reads them when it starts."""
    scheduler.timefunc, scheduler.delayfunc = (lambda: 7), ran.append
    assert scheduler.enter(1, 1, print).time == 8
    scheduler.enterabs(7, 1, setattr, (scheduler, "delayfunc", print))
    assert scheduler.run(blocking=False) == 1
    assert ran == [0]


def test_subclass(module, clock, ran):
    """`enter` goes through `enterabs`, so that a subclass need override one."""

    class Late(module.scheduler):
        def enterabs(self, time, *args):
            return super().enterabs(time + 1, *args)

    assert Late(clock.time, clock.wait).enter(1, 1, print).time == 2


# Cancel


def test_cancel(scheduler, ran):
    """A cancelled event does not run."""
    events = [scheduler.enter(n, 1, ran.append, (n,)) for n in [3, 1, 2, 1]]
    scheduler.cancel(events[1])
    scheduler.cancel(events[0])
    assert scheduler.queue == [events[3], events[2]]
    scheduler.run()
    assert ran == [1, 2]


def test_cancel_what_is_not_there(module, scheduler, clock):
    """ValueError for what was cancelled, has run, was never entered, is another's, or is no event at all."""
    cancelled, run, pending = (scheduler.enter(n, 1, int) for n in [1, 0, 2])
    scheduler.cancel(cancelled)
    scheduler.run(blocking=False)
    other = module.scheduler(clock.time, clock.wait)
    others = [other.enter(2, 5, int) for _ in range(4)]
    bogus = [pending._replace(**field) for field in [{"time": 3}, {"time": math.inf}, {"sequence": 9}]]
    for event in [cancelled, run, *others, *bogus, pending[:5], (), (1,), None, "event", 7]:
        with pytest.raises(ValueError, match=NOT_THERE):
            scheduler.cancel(event)
    assert scheduler.queue == [pending]


def test_cancel_names_the_event(dropin):
    """The error shows what was given."""
    with pytest.raises(ValueError, match="event must be in the queue, got 'noon'"):
        dropin.scheduler().cancel("noon")


@pytest.mark.parametrize(
    "copy",
    [
        lambda event: event._replace(),
        tuple,
        lambda event: event._replace(time=fractions.Fraction(event.time)),
        lambda event: event._replace(sequence=float(event.sequence)),
        lambda event: mock.ANY,
    ],
    ids=["Event", "tuple", "Fraction", "float", "ANY"],
)
def test_cancel_takes_the_equal_of_an_event(scheduler, copy):
    """The queue is searched by equality."""
    event = scheduler.enter(1, 1, int)
    later = scheduler.enter(2, 1, int)
    scheduler.cancel(copy(event))
    assert scheduler.queue == [later]


def test_cancel_takes_the_equal_of_an_event_in_a_bucket(small):
    """The same where the bucket is found by the time."""
    scheduler = small.scheduler()
    events = [scheduler.enterabs(n, 1, int) for n in range(40)]
    assert scheduler._rate
    scheduler.cancel(tuple(events[20]))
    scheduler.cancel(events[30]._replace(time=fractions.Fraction(30)))
    scheduler.cancel(events[10]._replace(time=10.0))
    for event in [events[20], events[30], events[10], events[11]._replace(time=math.inf)]:
        with pytest.raises(ValueError, match="in the queue"):
            scheduler.cancel(event)
    assert scheduler.queue == [event for event in events if event.time not in (10, 20, 30)]


def test_cancel_does_not_look_at_other_events(dropin, rng):
    """To cancel all of 1,000 takes a few comparisons each; the original needs hundreds."""
    scheduler = dropin.scheduler()
    events = [scheduler.enterabs(Odd(n), 1, int) for n in range(1000)]
    rng.shuffle(events)
    Odd.compared = 0
    for event in events:
        scheduler.cancel(event)
    assert Odd.compared < 10 * len(events)
    assert scheduler.empty()


# Run


def test_run_returns(scheduler, clock):
    """None when nothing is left; without blocking, the time until the next event, and no wait."""
    assert scheduler.run() is None
    assert scheduler.run(blocking=False) is None
    scheduler.enterabs(0, 1, int)
    scheduler.enterabs(5, 1, int)
    clock.now = 2
    assert scheduler.run(False) == 3
    assert clock.delays == [0]
    assert scheduler.run() is None
    assert clock.delays == [0, 3, 0]


def test_run_asks_the_clock_only_for_events(module):
    """`timefunc` is called once an event and once a wait."""
    times = iter([0, 0, 1])
    scheduler = module.scheduler(lambda: next(times), lambda _: None)
    scheduler.enterabs(0, 1, int)
    scheduler.enterabs(1, 1, int)
    scheduler.run()
    assert list(times) == []


def test_wait_that_returns_early(module, ran):
    """The delay is asked for again."""
    clock = Clock()
    clock.wait = lambda delay: clock.delays.append(delay) or setattr(clock, "now", clock.now + min(delay, 2))
    scheduler = module.scheduler(clock.time, clock.wait)
    scheduler.enter(5, 1, ran.append, (1,))
    scheduler.run()
    assert clock.delays == [5, 3, 1, 0]
    assert ran == [1]


def test_action_that_enters_and_cancels(scheduler, clock, ran):
    """What it enters runs in its place, what it cancels does not run, and itself is no longer pending."""

    def act():
        ran.append("act")
        scheduler.enter(0, 1, ran.append, ("now",))
        scheduler.enter(-5, 1, ran.append, ("before",))
        scheduler.enter(1, 1, ran.append, ("soon",))
        scheduler.cancel(victim)
        with pytest.raises(ValueError, match=NOT_THERE):
            scheduler.cancel(itself)

    itself = scheduler.enter(1, 1, act)
    victim = scheduler.enter(1, 1, ran.append, ("victim",))
    scheduler.enter(3, 1, ran.append, ("late",))
    scheduler.run()
    assert ran == ["act", "before", "now", "soon", "late"]


def test_periodic(scheduler, clock, ran):
    """An action that enters itself again."""

    def act(n):
        ran.append(clock.now)
        if n:
            scheduler.enter(2, 1, act, (n - 1,))

    scheduler.enter(1, 1, act, (3,))
    scheduler.run()
    assert ran == [1, 3, 5, 7]


def test_run_inside_an_action(scheduler, ran):
    """It runs what is left; the outer one then finds nothing."""
    scheduler.enter(1, 1, scheduler.run)
    scheduler.enter(2, 1, ran.append, (2,))
    scheduler.run()
    assert ran == [2]


def test_wait_that_enters_and_cancels(module, ran):
    """While it waits, an earlier event may come, and the one that it waits for may go."""
    clock = Clock()
    scheduler = module.scheduler(clock.time, clock.wait)
    meanwhile = [
        lambda: scheduler.enterabs(2, 1, ran.append, ("earlier",)),
        lambda: None,
        lambda: scheduler.cancel(event),
    ]

    def wait(delay):
        clock.wait(min(delay, 1))
        if meanwhile:
            meanwhile.pop(0)()

    scheduler.delayfunc = wait
    event = scheduler.enter(9, 1, ran.append, ("event",))
    scheduler.run()
    assert ran == ["earlier"]


def test_error_in_an_action(scheduler, clock, ran):
    """It passes through; its event is done with, and the next `run` goes on."""
    scheduler.enter(1, 1, operator.truediv, (1, 0))
    scheduler.enter(1, 2, ran.append, (2,))
    with pytest.raises(ZeroDivisionError):
        scheduler.run()
    assert [event.argument for event in scheduler.queue] == [(2,)]
    assert clock.delays == [1]
    scheduler.run()
    assert ran == [2]


@pytest.mark.parametrize(("at", "left"), [(0, [1, 2]), (1, [2]), (2, [2]), (3, [])])
def test_error_in_a_wait(scheduler, clock, ran, at, left):
    """An event that was waited for stays pending; one that ran before `delayfunc(0)` does not."""

    def wait(delay):
        if len(clock.delays) == at:
            scheduler.delayfunc = clock.wait
            raise KeyboardInterrupt
        clock.wait(delay)

    scheduler.delayfunc = wait
    for n in 1, 2:
        scheduler.enter(n, 1, ran.append, (n,))
    with pytest.raises(KeyboardInterrupt):
        scheduler.run()
    assert [event.time for event in scheduler.queue] == left
    scheduler.run()
    assert ran == [1, 2]


def test_error_in_the_clock(scheduler, clock, ran):
    """Nothing has changed, and the lock is free."""
    scheduler.enter(1, 1, ran.append, (1,))
    scheduler.timefunc = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        scheduler.run()
    with pytest.raises(ZeroDivisionError):
        scheduler.enter(1, 1, int)
    scheduler.timefunc = clock.time
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    thread.join()
    assert ran == [1]


def test_clock_that_enters_and_cancels(dropin, ran):
    """A clock that changes the queue while `run` asks it: the original then loses one and runs one twice."""
    changes = [
        lambda: scheduler.enterabs(0, 1, ran.append, ("earlier",)),
        lambda: None,
        lambda: [scheduler.cancel(event) for event in (first, last)],
    ]

    def now():
        if changes:
            changes.pop(0)()
        return 5

    scheduler = dropin.scheduler(now, lambda _: None)
    first = scheduler.enterabs(2, 1, ran.append, ("first",))
    scheduler.enterabs(1, 1, ran.append, ("second",))
    last = scheduler.enterabs(3, 1, ran.append, ("last",))
    scheduler.run()
    assert ran == ["earlier", "second"]


# The queue


def test_empty(scheduler):
    """Until the first event, after the last, and after the last was cancelled."""
    assert scheduler.empty()
    event = scheduler.enter(1, 1, int)
    assert not scheduler.empty()
    scheduler.run()
    assert scheduler.empty()
    scheduler.cancel(scheduler.enter(1, 1, int))
    assert scheduler.empty()
    assert event not in scheduler.queue


def test_queue(scheduler):
    """A new list, in the order in which the events will run; it is read-only, as an attribute."""
    events = [scheduler.enterabs(at, priority, int) for at, priority in [(2, 1), (1, 2), (1, 1), (1, 1)]]
    queued = scheduler.queue
    assert queued == [events[2], events[3], events[1], events[0]]
    assert all(type(event) is sched.Event for event in queued)
    queued.clear()
    assert len(scheduler.queue) == 4
    with pytest.raises(AttributeError):
        scheduler.queue = []


# Memory


class Load:
    """Something to be freed."""

    def __call__(self):
        pass


@pytest.mark.parametrize("pending", [0, 5, 40])
def test_cancelled_event_frees_what_it_held(module, pending):
    """At once, when the caller has dropped it."""
    scheduler = module.scheduler()
    others = [scheduler.enterabs(n, 1, int) for n in range(pending)]
    load = Load()
    event = scheduler.enterabs(3, 1, load, (load,), {"load": load})
    watch = weakref.ref(load)
    scheduler.cancel(event)
    del event, load
    assert watch() is None
    assert scheduler.queue == others


def test_event_that_ran_frees_what_it_held(dropin):
    """Before the next wait; the original holds it until the next event."""
    seen = []
    scheduler = dropin.scheduler(lambda: 1, lambda _: seen.append(watch()))
    load = Load()
    watch = weakref.ref(load)
    scheduler.enterabs(0, 1, load)
    del load
    scheduler.run()
    assert seen == [None]


def test_event_cancelled_during_the_wait_frees_what_it_held(dropin):
    """The thread that waits for it does not hold it; the original's does."""
    clock, seen, events = Clock(), [], []

    def wait(delay):
        clock.wait(delay)
        if events:
            scheduler.cancel(events.pop())
            seen.append(watch())

    scheduler = dropin.scheduler(clock.time, wait)
    load = Load()
    watch = weakref.ref(load)
    events.append(scheduler.enter(5, 1, load))
    del load
    scheduler.run()
    assert seen == [None]


def test_destructor_that_enters(module, scheduler, ran):
    """What an event held may use the scheduler when it is freed."""

    class Last:
        def __del__(self):
            scheduler.enter(1, 1, ran.append, (1,))

    scheduler.cancel(scheduler.enter(2, 1, print, (Last(),)))
    gc.collect()
    scheduler.run()
    assert ran == [1]


@pytest.mark.parametrize("spread", [0, 1000], ids=["one time", "many times"])
def test_cancelled_events_leave_little(dropin, rng, spread):
    """Numbers of dead events in the heaps: no more than there are live ones, and a few."""
    scheduler = dropin.scheduler(lambda: 0)
    events = [scheduler.enterabs(rng.uniform(5, 5 + spread), 1, int) for _ in range(10_000)]
    for _ in range(20_000):
        i = rng.randrange(len(events))
        scheduler.cancel(events[i])
        events[i] = scheduler.enterabs(rng.uniform(5, 5 + spread), 1, int)
        scheduler.run(blocking=False)
    while len(events) > 10:
        scheduler.cancel(events.pop())
    assert bool(scheduler._rate) == bool(spread)
    assert len(scheduler._ticks) <= 2 * len(scheduler._buckets) + dropin.SPARE
    for bucket in scheduler._buckets.values():
        assert len(bucket.order or ()) <= 2 * len(bucket) + dropin.SPARE
    assert sorted(events) == scheduler.queue


# Threads


def test_threads(module):
    """While one runs, four enter and cancel: each event runs or is cancelled, once."""
    scheduler = module.scheduler(time.monotonic, lambda delay: time.sleep(min(delay, 0.001)))
    ran, cancelled, entered = queue.Queue(), queue.Queue(), queue.Queue()
    start, ended = threading.Barrier(5), threading.Event()

    def work(n):
        mine = random.Random(n)
        start.wait()
        for i in range(500):
            name = n, i
            event = scheduler.enter(mine.random() / 50, mine.randrange(3), ran.put, (name,))
            entered.put(name)
            if mine.random() < 0.5:
                try:
                    scheduler.cancel(event)
                except ValueError:
                    continue
                cancelled.put(name)

    def run():
        start.wait()
        while not ended.is_set() or not scheduler.empty():
            scheduler.run()

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    runner = threading.Thread(target=run)
    for thread in [*workers, runner]:
        thread.start()
    for thread in workers:
        thread.join()
    ended.set()
    runner.join()
    outcomes = collections.Counter([*ran.queue, *cancelled.queue])
    assert set(outcomes.values()) == {1}
    assert outcomes.keys() == set(entered.queue)
    assert cancelled.qsize() > 0 < ran.qsize()


# Beside the original, at random

FAMILIES = {name: TIMES[name] for name in ["int", "float", "Fraction", "datetime", "mixed", "infinite"]}
NUMBERS = st.integers(0, 12)
PLAIN = (
    st.tuples(st.just("cancel"), st.integers(0, 60), st.sampled_from(["event", "copy", "tuple"])),
    st.tuples(st.just("raise")),
    st.tuples(st.just("run"), st.booleans()),
    st.tuples(st.just("look")),
    st.tuples(st.just("advance"), NUMBERS),
)


def entering(does):
    """The entering of an event whose action goes through a script of its own."""
    return st.tuples(st.sampled_from(["enter", "enterabs"]), NUMBERS, st.integers(0, 2), does)


SIMPLE = entering(st.just([]))
EVENTS = entering(st.lists(st.one_of(SIMPLE, entering(st.lists(SIMPLE, max_size=3)), *PLAIN), max_size=4))
MANY = st.tuples(st.just("all"), st.lists(SIMPLE, min_size=6, max_size=12))
STEPS = st.one_of(SIMPLE, EVENTS, MANY, *PLAIN)
SCRIPTS = st.one_of(st.lists(STEPS, max_size=10), st.lists(STEPS, min_size=15, max_size=40))


class Play:
    """Plays a script on one scheduler, and writes down all that can be seen of it."""

    def __init__(self, module, family, priority_of, strikes):
        self.time_of, self.delay_of = FAMILIES[family]
        self.priority_of = priority_of
        self.clock = Clock(self.time_of(0))
        self.scheduler = module.scheduler(self.clock.time, self.wait)
        self.strikes = strikes  # the calls of delayfunc that raise
        self.waits = 0
        self.events = []
        self.seen = []

    def wait(self, delay):
        self.waits += 1
        self.seen.append(("wait", delay))
        if self.waits in self.strikes or delay == math.inf:
            raise InterruptedError
        if delay:
            self.clock.now += delay

    def act(self, number, script):
        self.seen.append(("act", number, self.clock.now))
        for step in script:
            self.do(*step)

    def do(self, verb, *args):
        match verb, args:
            case ("enter" | "enterabs"), (n, priority, script):
                when = self.delay_of(n) if verb == "enter" else self.time_of(n)
                enter = getattr(self.scheduler, verb)
                argument = len(self.events), script
                self.events.append(enter(when, self.priority_of(priority), self.act, argument))
            case "all", (steps,):
                for step in steps:
                    self.do(*step)
            case "cancel", (number, how):
                if self.events:
                    event = self.events[number % len(self.events)]
                    event = {"event": event, "copy": event._replace(), "tuple": tuple(event)}[how]
                    self.attempt(self.scheduler.cancel, event)
            case "raise", ():
                raise ArithmeticError
            case "advance", (n,):
                self.clock.now += self.delay_of(n)
            case "look", ():
                events = [(*event[:3], event.argument, event.kwargs) for event in self.scheduler.queue]
                self.seen.append((self.scheduler.empty(), events))
            case "run", (blocking,):
                self.attempt(self.scheduler.run, blocking)

    def attempt(self, call, *args):
        try:
            self.seen.append((call.__name__, call(*args)))
        except (ValueError, ArithmeticError, InterruptedError) as error:
            self.seen.append((call.__name__, type(error)))


@pytest.mark.parametrize("limits", ["low", "normal"])
def test_same_as_the_original(dropin, limits):
    """One script, two schedulers: the same actions, waits, answers and errors, in the same order."""

    @given(
        st.sampled_from(sorted(FAMILIES)),
        st.sampled_from([int, int, int, float]),
        st.sets(st.integers(1, 60), max_size=2),
        SCRIPTS,
    )
    def run(family, priority_of, strikes, script):
        ours, theirs = (Play(module, family, priority_of, strikes) for module in (dropin, sched))
        for play in ours, theirs:
            for step in [*script, ("look",), ("run", True), ("look",), ("run", False), ("look",)]:
                play.attempt(play.do, *step)
        assert ours.seen == theirs.seen

    with pytest.MonkeyPatch.context() as patch:
        if limits == "low":
            lower_limits(dropin, patch)
        run()


@pytest.mark.parametrize("unit", [1e-6, 1, 10**9])
def test_same_as_the_original_in_buckets(dropin, rng, unit):
    """20,000 events, most far ahead, some cancelled, some entered meanwhile: the same order."""

    def play(module):
        random_ = random.Random(seed)
        clock = Clock()
        scheduler = module.scheduler(clock.time, clock.wait)
        ran = []

        def act(n):
            ran.append((n, clock.now))
            if n % 10 == 0:
                scheduler.enter(random_.expovariate(1) * unit, n % 3, act, (n + 1,))

        events = [
            scheduler.enter(type(unit)(random_.expovariate(1) * 1000) * unit, n % 3, act, (n,))
            for n in range(20_000)
        ]
        for i in random_.sample(range(20_000), 50):
            scheduler.cancel(events[i])
        buckets = len(getattr(scheduler, "_buckets", ()))
        scheduler.run()
        return ran, clock.delays, buckets

    seed = rng.random()
    *ours, buckets = play(dropin)
    *theirs, _ = play(sched)
    assert ours == theirs
    assert buckets > 20


# CPython's own


def test_cpython(dropin, monkeypatch):
    """`test.test_sched`, all of it but what EXCLUDED names."""
    suite = pytest.importorskip("test.test_sched", reason="this interpreter ships without its tests")
    monkeypatch.setattr(suite, "sched", dropin)
    tests = [test for case in unittest.defaultTestLoader.loadTestsFromModule(suite) for test in case]
    assert EXCLUDED.keys() <= {test.id() for test in tests}
    result = unittest.TestResult()
    unittest.TestSuite(test for test in tests if test.id() not in EXCLUDED).run(result)
    assert not result.errors + result.failures, "\n".join(text for _, text in result.errors + result.failures)
    assert result.testsRun == len(tests) - len(EXCLUDED) >= 11
    assert not result.skipped
