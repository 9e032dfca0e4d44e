"""IdleTracker: one report for each silence, turned by hand on a clock that does as it is told."""

import asyncio
import importlib
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from forked import IN_CHILD
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

WAIT = 30  # seconds; guards against hanging, never decides what is right


@pytest.fixture
def idle(tw):
    return importlib.import_module("tickwheel.recipes.idle")


@pytest.fixture
def clock(tw):
    return tw.ManualClock()


@pytest.fixture
def timer(tw, clock):
    """A tick a second, callbacks inline: times in tests are whole seconds."""
    with tw.Timer(tick=1.0, wheel_size=8, executor="inline", clock=clock, start=False) as timer:
        yield timer
        timer._check()


@pytest.fixture
def gone():
    """The keys that were reported, in order."""
    return []


@pytest.fixture
def make(idle, timer, gone):
    """Makes trackers, checked and closed when the test is over."""
    made = []

    def make(timeout=30, on_idle=gone.append, **options):
        made.append(idle.IdleTracker(timeout, on_idle, **{"timer": timer} | options))
        return made[-1]

    yield make
    for tracker in made:
        tracker._check()
        tracker.close()
        assert len(timer) == 0, "a task of a closed tracker"


@pytest.fixture
def tracker(make):
    return make()


@pytest.fixture
def advance(timer, clock):
    def advance(seconds):
        clock.advance(seconds)
        timer.advance_clock()

    return advance


# --- one report for each silence


def test_a_silent_client_is_reported_once(tracker, advance, gone):
    """D1: when the timeout has passed since its last touch, and not again."""
    assert tracker.touch("a") is True
    advance(29)
    assert (gone, "a" in tracker, len(tracker)) == ([], True, 1)
    advance(1)
    assert (gone, "a" in tracker, len(tracker)) == (["a"], False, 0)
    advance(1000)
    assert gone == ["a"]


def test_a_touch_keeps_a_client(tracker, advance, gone):
    """D1: the timeout runs from the last touch, wherever between two looks it came."""
    tracker.touch("a")
    for pause in (1, 29, 17, 29, 3):
        advance(pause)
        assert tracker.touch("a") is False
    advance(29)
    assert gone == []
    advance(1)
    assert gone == ["a"]


def test_a_client_that_comes_again_is_new(tracker, advance, gone):
    """D1: each silence is reported, and the touch that ends it says so."""
    for n in range(3):
        assert tracker.touch("a") is True
        advance(30)
        assert gone == ["a"] * (n + 1)


def test_a_late_look_keeps_who_was_touched_meanwhile(tracker, clock, timer, gone):
    """D1: a touch that comes before the look keeps the client, however late the look is."""
    tracker.touch("a")
    tracker.touch("b")
    clock.advance(1000)  # and the wheel stands still
    assert tracker.touch("a") is False
    timer.advance_clock()
    assert (gone, "a" in tracker) == (["b"], True)


def test_touches_cost_the_timer_nothing(tracker, advance, timer):
    """D2, D3: one task a key, looked at once a timeout, whatever the touches."""
    for _ in range(100):
        for _ in range(10):
            tracker.touch("a")
        assert len(timer) == 1
        advance(1)
    assert tracker.stats().checks == 3


def test_a_deadline_inside_a_tick_waits_for_the_next_tick(make, advance, gone):
    """R1: never before the timeout; a fraction of a second is no reason."""
    make(timeout=2.5).touch("a")
    advance(2)
    advance(0.75)
    assert gone == []
    advance(0.25)
    assert gone == ["a"]


def test_a_deadline_within_a_nanosecond_has_come(make, advance, gone):
    """R1: as for any deadline, so that the tick on which it is rounded is its last look."""
    tracker = make(timeout=5.0 + 0.5e-9)
    tracker.touch("a")
    advance(5)
    assert (gone, tracker.stats().checks) == (["a"], 1)


# --- removal


def test_a_removed_client_is_not_reported(tracker, advance, timer, gone):
    """True: it was online. Its task goes with it."""
    tracker.touch("a")
    assert tracker.remove("a") is True
    assert ("a" in tracker, len(timer)) == (False, 0)
    assert tracker.remove("a") is False
    advance(100)
    assert gone == []


def test_a_client_touched_after_removal_begins_anew(tracker, advance, gone):
    """Nothing of the time before counts."""
    tracker.touch("a")
    advance(20)
    tracker.remove("a")
    assert tracker.touch("a") is True
    advance(29)
    assert gone == []
    advance(1)
    assert gone == ["a"]


# --- max_age


def test_max_age_ends_a_client_that_is_never_silent(make, advance, gone):
    """So long after it came online, not after its last touch; the next touch brings it back."""
    tracker = make(max_age=100)
    assert tracker.touch("a") is True
    for _ in range(9):
        advance(10)
        assert tracker.touch("a") is False
    advance(9)
    assert gone == []
    advance(1)
    assert gone == ["a"]
    assert tracker.touch("a") is True
    assert tracker.stats() == (1, 2, 0, 1, 0, tracker.stats().checks)


def test_max_age_below_the_timeout(make, advance, gone):
    """Whichever comes first."""
    tracker = make(max_age=10)
    tracker.touch("a")
    advance(9)
    assert gone == []
    advance(1)
    assert (gone, tracker.stats().aged, tracker.stats().idle) == (["a"], 1, 0)


@pytest.mark.parametrize(("last_touch", "aged"), [(69, 0), (70, 0), (71, 1)])
def test_silent_or_aged_is_what_came_first(make, advance, gone, last_touch, aged):
    """Both at the same time: silent. How late the look was does not matter."""
    tracker = make(max_age=100)
    tracker.touch("a")
    for now in range(1, last_touch + 1):
        advance(1)
        if now % 20 == 0 or now == last_touch:
            tracker.touch("a")
    advance(500)
    assert (gone, tracker.stats().aged, tracker.stats().idle) == (["a"], aged, 1 - aged)


# --- inside on_idle


def test_on_idle_may_touch_its_client(make, advance):
    """R7: the client is offline by then, and comes online; the next silence is reported."""
    came, gone = [], []

    def on_idle(key):
        gone.append(key)
        came.append(tracker.touch(key))

    tracker = make(on_idle=on_idle)
    tracker.touch("a")
    advance(30)
    advance(30)
    assert (gone, came, len(tracker)) == (["a"] * 2, [True] * 2, 1)


def test_on_idle_may_remove(make, advance):
    """R7: its own client is gone already; another one, due in the same tick, is not reported then."""
    gone = []

    def on_idle(key):
        gone.append((key, tracker.remove(key), tracker.remove("b")))

    tracker = make(on_idle=on_idle)
    tracker.touch("a")
    tracker.touch("b")
    advance(30)
    assert (gone, len(tracker)) == ([("a", False, True)], 0)


def test_on_idle_may_close(make, advance, timer):
    """R9: who was not reported by then is returned."""
    kept = []
    tracker = make(on_idle=lambda key: kept.append((key, tracker.close())))
    for key in "abc":
        tracker.touch(key)
    advance(30)
    assert (kept, len(timer)) == ([("a", ["b", "c"])], 0)


def test_on_idle_may_close_a_tracker_with_its_own_timer(idle):
    """R9: the timer is closed from one of its own callbacks, which is not waited for."""
    kept = []
    done = threading.Event()

    def on_idle(key):
        kept.append((key, tracker.close()))
        done.set()

    tracker = idle.IdleTracker(0.02, on_idle)
    tracker.touch("a")
    assert done.wait(WAIT)
    assert kept == [("a", [])]
    tracker._timer.close()


def test_on_idle_that_raises_stops_nothing(make, advance, caplog):
    """R8: logged; the others are reported, and its client is offline."""
    gone = []

    def on_idle(key):
        gone.append(key)
        if key == "b":
            raise LookupError("on purpose")

    tracker = make(on_idle=on_idle)
    for key in "abc":
        tracker.touch(key)
    with caplog.at_level(logging.ERROR, "tickwheel"):
        advance(30)
        advance(1000)
    assert (gone, len(tracker)) == (["a", "b", "c"], 0)
    assert caplog.text.count("LookupError: on purpose") == 1
    assert tracker.touch("b") is True


def test_on_idle_that_blocks_delays_its_executor_alone(tw, idle):
    """With a pool of threads the others are reported meanwhile, and touch and remove never wait."""
    entered, release, other = threading.Event(), threading.Event(), threading.Event()

    def on_idle(key):
        if key == "slow":
            entered.set()
            assert release.wait(WAIT)
        else:
            other.set()

    clock = tw.ManualClock()
    with (
        ThreadPoolExecutor(2) as pool,
        tw.Timer(executor=pool, clock=clock) as timer,
        idle.IdleTracker(30, on_idle, timer=timer) as tracker,
    ):
        tracker.touch("slow")
        clock.advance(31)
        assert entered.wait(WAIT)
        assert tracker.touch("slow") is True
        assert tracker.remove("slow") is True
        tracker.touch("quick")
        clock.advance(31)
        assert other.wait(WAIT)
        release.set()


def test_on_a_loop(tw, idle):
    """`Timer(executor=LoopExecutor(loop))`: on_idle runs on the loop, which may await what it likes then."""

    async def main():
        loop = asyncio.get_running_loop()
        gone = loop.create_future()

        def on_idle(key):
            assert asyncio.get_running_loop() is loop
            gone.set_result(key)

        with (
            tw.Timer(executor=tw.LoopExecutor(loop)) as timer,
            idle.IdleTracker(0.02, on_idle, timer=timer) as tracker,
        ):
            tracker.touch("a")
            return await asyncio.wait_for(gone, WAIT)

    assert asyncio.run(main()) == "a"


# --- the end


def test_close_returns_who_is_online(make, advance, timer, gone):
    """R9: once, in the order of their coming; their tasks are gone, and another's timer is not closed."""
    tracker = make()
    for key in "abcd":
        tracker.touch(key)
    tracker.remove("b")
    assert tracker.close() == ["a", "c", "d"]
    assert tracker.close() == []
    assert (len(tracker), len(timer), "a" in tracker, tracker.remove("a")) == (0, 0, False, False)
    advance(100)
    assert gone == []
    timer.schedule(1, gone.append, "it is open")
    advance(1)
    assert gone == ["it is open"]


def test_a_closed_tracker_refuses_touches(tracker):
    """RuntimeError, for keys old and new, and nothing is kept of them."""
    tracker.touch("old")
    tracker.close()
    for key in ("old", "new"):
        with pytest.raises(RuntimeError, match="the tracker is closed"):
            tracker.touch(key)
    tracker._check()
    assert "closed" in repr(tracker)


def test_its_own_timer_ends_with_it(idle):
    """The context manager closes it, and its threads are gone."""
    before = threading.active_count()
    with idle.IdleTracker(3600, print) as tracker:
        tracker.touch("a")
        assert "1 online" in repr(tracker)
    assert threading.active_count() == before
    assert tracker.close() == []


def test_close_waits_for_a_report_that_runs(idle):
    """R9: on its own timer, nothing of it runs when close has returned."""
    entered, release = threading.Event(), threading.Event()
    gone = []

    def on_idle(key):
        entered.set()
        assert release.wait(WAIT)
        gone.append(key)

    tracker = idle.IdleTracker(0.02, on_idle)
    tracker.touch("a")
    assert entered.wait(WAIT)
    closing = threading.Thread(target=tracker.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    release.set()
    closing.join(WAIT)
    assert gone == ["a"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_tracks_nobody(fresh):
    """fork: its tracker is empty and says why it takes nobody, also if a thread held the lock. The parent's
    goes on."""
    story = f"""{IN_CHILD}
import threading
from tickwheel.recipes.idle import IdleTracker
gone = threading.Event()
tracker = IdleTracker(3600.0, print)
parents = IdleTracker(0.2, lambda key: gone.set())
tracker.touch("a")

def story():
    assert len(tracker) == 0 and "a" not in tracker
    for key in ("a", "b"):
        try:
            tracker.touch(key)
        except RuntimeError as error:
            assert "fork" in str(error), error
        else:
            raise AssertionError("touched in a forked child")
    assert tracker.remove("a") is False
    assert tracker.close() == []

held, done = threading.Event(), threading.Event()
def hold():
    with tracker._lock:
        held.set()
        done.wait(30)
holder = threading.Thread(target=hold)
holder.start()
held.wait(30)
ended_well = in_child(story)
done.set()
holder.join()
parents.touch("b")
print(ended_well, gone.wait(30), tracker.close())
parents.close()
"""
    assert fresh(story).split() == ["True", "True", "['a']"]


# --- bad input, and no room


@pytest.mark.parametrize("name", ["timeout", "max_age"])
@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (0, "> 0"),
        (-1.5, "> 0"),
        (float("nan"), r">= 1e-09 \(1 ns\) and finite"),
        (float("inf"), r">= 1e-09 \(1 ns\) and finite"),
        (1e-12, r">= 1e-09 \(1 ns\) and finite"),
    ],
)
def test_spans_of_no_sense(make, name, value, rule):
    """ValueError names the argument, the rule and the value."""
    with pytest.raises(ValueError, match=f"^{name} must be {rule}, got {value}$"):
        make(**{name: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": "30s"}, "timeout must be a number of seconds, got '30s'"),
        ({"on_idle": None}, "on_idle must be callable, got None"),
        ({"timer": 5}, "timer must be a Timer, got 5"),
    ],
)
def test_arguments_of_the_wrong_type(make, options, message):
    """TypeError names the argument, the rule and the value."""
    with pytest.raises(TypeError) as caught:
        make(**options)
    assert str(caught.value) == message


@pytest.mark.parametrize("method", ["touch", "remove"])
def test_an_unhashable_key(tracker, method):
    """One line of TypeError, and nothing changes."""
    with pytest.raises(TypeError) as caught:
        getattr(tracker, method)(["no"])
    assert str(caught.value) == "key must be hashable, got ['no']"
    assert (len(tracker), tracker.stats().arrived) == (0, 0)


def test_a_full_timer_refuses_a_new_client_and_keeps_the_others(tw, idle, clock, gone):
    """`TooManyPending`: nothing changes. A client that is online keeps its place in the timer."""
    with tw.Timer(tick=1.0, clock=clock, executor="inline", start=False, max_pending=2) as timer:
        tracker = idle.IdleTracker(30, gone.append, timer=timer)
        assert tracker.touch("a") is True
        timer.schedule(1e6, print)
        for _ in range(3):
            with pytest.raises(tw.TooManyPending):
                tracker.touch("b")
            assert ("b" in tracker, tracker.touch("a")) == (False, False)
            tracker._check()
            clock.advance(20)
            timer.advance_clock()
        clock.advance(30)
        timer.advance_clock()
        assert (gone, tracker.touch("b")) == (["a"], True)


def test_a_closed_timer_refuses_a_new_client(tw, idle, clock):
    """RuntimeError, and nothing is kept of it."""
    timer = tw.Timer(clock=clock, start=False)
    tracker = idle.IdleTracker(30, print, timer=timer)
    timer.close()
    with pytest.raises(RuntimeError, match="closed"):
        tracker.touch("a")
    tracker._check()


# --- any order of it all


class Clients(RuleBasedStateMachine):
    """`online`: key -> (came, last touch), a plain dictionary that says what must come of it."""

    KEYS = st.integers(0, 5)
    SECONDS = st.integers(1, 40)
    TIMEOUT, MAX_AGE = 10, 25

    def __init__(self, tw, idle):
        super().__init__()
        self.clock = tw.ManualClock()
        self.timer = tw.Timer(tick=1.0, wheel_size=4, executor="inline", clock=self.clock, start=False)
        self.gone = []
        self.tracker = idle.IdleTracker(
            self.TIMEOUT, self.gone.append, max_age=self.MAX_AGE, timer=self.timer
        )
        self.online = {}
        self.arrived = self.idle = self.aged = self.removed = 0
        self.closed = False

    @rule(key=KEYS)
    @precondition(lambda self: not self.closed)
    def touch(self, key):
        now = self.clock.time()
        came, _ = self.online.get(key, (now, now))
        self.arrived += key not in self.online
        assert self.tracker.touch(key) is (key not in self.online)
        self.online[key] = (came, now)

    @rule(key=KEYS)
    def remove(self, key):
        assert self.tracker.remove(key) is (key in self.online)
        self.removed += self.online.pop(key, None) is not None

    @rule(seconds=SECONDS, turn=st.booleans())
    def advance(self, seconds, turn):
        """Without a turn of the wheel, looks come late."""
        self.clock.advance(seconds)
        if not turn:
            return
        self.timer.advance_clock()
        now = self.clock.time()
        expected = []
        for key, (came, last) in list(self.online.items()):
            if min(last + self.TIMEOUT, came + self.MAX_AGE) <= now:
                expected.append(key)
                del self.online[key]
                silent = last + self.TIMEOUT <= came + self.MAX_AGE
                self.idle += silent
                self.aged += not silent
        assert sorted(self.gone) == sorted(expected)
        self.gone.clear()

    @rule()
    @precondition(lambda self: len(self.online) > 3)
    def close(self):
        assert sorted(self.tracker.close()) == sorted(self.online)
        self.online.clear()
        self.closed = True

    @invariant()
    def agrees(self):
        tracker, stats = self.tracker, self.tracker.stats()
        tracker._check()
        assert len(tracker) == len(self.online) == len(self.timer) == stats.online
        assert all(key in tracker for key in self.online)
        assert stats[1:5] == (self.arrived, self.idle, self.aged, self.removed)
        assert self.gone == []

    def teardown(self):
        self.tracker.close()
        self.timer.close()


def test_any_order_of_touches_removals_and_time(tw, idle):
    """D1, D3: what a plain dictionary says, on any way there."""
    run_state_machine_as_test(lambda: Clients(tw, idle))
