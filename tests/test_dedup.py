"""Deduplicator: one True for each key and window, turned by hand on a clock that does as it is told."""

import asyncio
import importlib
import logging
import os
import re
import sys
import weakref

import pytest
from forked import IN_CHILD
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

WINDOW = 10


@pytest.fixture
def dedup(tw):
    return importlib.import_module("tickwheel.recipes.dedup")


@pytest.fixture
def clock(tw):
    return tw.ManualClock()


@pytest.fixture
def timer(tw, clock):
    with tw.Timer(executor="inline", clock=clock, start=False) as timer:
        yield timer
        timer._check()


@pytest.fixture
def make(dedup, timer):
    """Makes deduplicators, closed when the test is over."""
    made = []

    def make(window=WINDOW, **options):
        made.append(dedup.Deduplicator(window, **{"timer": timer} | options))
        return made[-1]

    yield make
    for each in made:
        each.close()
        assert len(each) == len(timer) == 0


@pytest.fixture
def seen(make):
    return make()


@pytest.fixture
def advance(timer, clock):
    def advance(seconds):
        clock.advance(seconds)
        timer.advance_clock()

    return advance


# --- one True for each key and window


def test_a_key_passes_once_in_a_window(seen, clock):
    """E1: half-open from the accepted occurrence: a repeat at 9.99 is refused and does not prolong it."""
    answers = []
    for at in (0, 0, 4, 9.99, 10, 10, 19.5, 20):
        clock.advance(at - clock.time())
        answers.append(seen.first_seen("a"))
    assert answers == [True, False, False, False, True, False, False, True]


def test_the_stamp_decides_when_nothing_is_freed(seen, clock, timer):
    """E4: late freeing costs memory, never an answer."""
    assert seen.first_seen("a")
    clock.advance(WINDOW)
    assert len(seen) == 1
    assert seen.first_seen("a")
    assert not seen.first_seen("a")


def test_keys_are_told_apart_as_a_dictionary_does(seen):
    """1, 1.0 and True are one key; None, tuples and a NaN are keys like others."""
    nan = float("nan")
    keys = [1, 1.0, True, None, (1, "a"), (1.0, "a"), nan, nan, "", b""]
    expected = [True, False, False, True, True, False, True, False, True, True]
    assert [seen.first_seen(key) for key in keys] == expected


def test_a_batch_is_accepted_at_one_time(seen, clock):
    """The clock is read once for all; a repeat within the batch is a repeat."""
    readings = []
    seen._time = lambda: readings.append(clock.time()) or clock.time()
    seen.first_seen("a")
    before = len(readings)
    assert seen.first_seen_many(iter(["a", "b", "b", "c"])) == [False, True, False, True]
    assert len(readings) == before + 1
    assert seen.first_seen_many([]) == []
    seen._time = clock.time


def test_a_batch_with_a_bad_key_accepts_nothing(seen):
    """On an error none of its keys is accepted, and what was refused stays so."""
    seen.first_seen("old")
    with pytest.raises(TypeError, match=r"^key must be hashable, got \[1\]$"):
        seen.first_seen_many(["new", "old", [1], "never"])
    assert seen.first_seen_many(["new", "old", "never"]) == [True, False, True]


def test_unique_lets_each_item_through_once(seen, advance):
    """By the item or by a key of it, one by one as they come."""
    assert list(seen.unique("abca")) == ["a", "b", "c"]
    orders = [("x", 1), ("y", 2), ("x", 3)]
    stream = seen.unique(orders, key=lambda order: order[0])
    assert next(stream) == ("x", 1)
    assert not seen.first_seen("x")
    assert list(stream) == [("y", 2)]
    advance(WINDOW)
    assert list(seen.unique("ab")) == ["a", "b"]


def test_unique_async_does_the_same_for_a_stream(seen):
    """An asynchronous generator over an asynchronous iterable."""

    async def stream(items):
        for item in items:
            await asyncio.sleep(0)
            yield item

    async def story():
        plain = [item async for item in seen.unique_async(stream("abca"))]
        keyed = [item async for item in seen.unique_async(stream([3, 13, 4]), key=lambda n: n % 10)]
        return plain, keyed

    assert asyncio.run(story()) == (["a", "b", "c"], [3, 4])


def test_a_forgotten_key_passes_again(seen, advance):
    """For work that failed: True if it would have been refused. Its second window is a whole one."""
    assert seen.forget("a") is False
    seen.first_seen("a")
    advance(4)
    assert seen.forget("a") is True
    assert len(seen) == 0
    assert seen.forget("a") is False
    assert seen.first_seen("a")
    advance(6)  # the older entry's time: it must not free the newer one
    assert not seen.first_seen("a")
    advance(3.5)
    assert not seen.first_seen("a")
    advance(0.5)
    assert seen.first_seen("a")
    advance(WINDOW)
    assert seen.forget("a") is False


# --- memory, and who frees it


def test_what_has_expired_is_freed_though_nobody_comes(seen, advance, timer):
    """E3: one task sees to it, and none is left when nothing is held."""
    seen.first_seen_many(range(5))
    assert (len(seen), len(timer)) == (5, 1)
    advance(WINDOW)
    assert (len(seen), len(seen._queue), len(timer)) == (0, 0, 0)


def test_nothing_held_wakes_nobody(seen, advance, timer):
    """No wake-up while nothing is held, however long."""
    seen.first_seen("a")
    advance(WINDOW)
    woken = timer.stats().wakeups
    for _ in range(100):
        advance(WINDOW)
    assert timer.stats().wakeups == woken
    assert seen.first_seen("a")
    advance(WINDOW)
    assert timer.stats().wakeups > woken


def test_freeing_wakes_at_most_64_times_a_window(dedup, make, advance, timer):
    """However many keys: what expires soon after one another is freed together."""
    seen = make(64)
    for number in range(64 * 8 * 4):
        seen.first_seen(number)
        advance(1 / 8)
    assert 0 < timer.stats().fired <= 3 * dedup.WAKEUPS + 1
    assert len(seen) <= 64 * 8 + 8


def test_a_burst_is_freed_in_chunks(dedup, seen, clock, timer):
    """A callback frees 1,024 keys at most and makes way: the lock and the executor are others' too."""
    seen.first_seen_many(range(3 * dedup.CHUNK + 5))
    clock.advance(WINDOW)
    held = [len(seen)]
    while timer.advance_clock():
        held.append(len(seen))
    assert held == [3 * dedup.CHUNK + 5, 2 * dedup.CHUNK + 5, dedup.CHUNK + 5, 5, 0]


def test_a_burst_does_not_hold_up_a_loop(tw, dedup, clock):
    """With LoopExecutor the loop turns between two chunks."""
    chunks = 4

    async def story():
        held = []
        executor = importlib.import_module("tickwheel.loopexecutor").LoopExecutor(asyncio.get_running_loop())
        with (
            tw.Timer(executor=executor, clock=clock, start=False) as timer,
            dedup.Deduplicator(WINDOW, timer=timer) as seen,
        ):
            seen.first_seen_many(range(chunks * dedup.CHUNK))
            clock.advance(WINDOW)
            timer.advance_clock()
            while len(seen):
                held.append(len(seen))
                await asyncio.sleep(0)
        return held

    held = asyncio.run(story())
    assert set(held) == {n * dedup.CHUNK for n in range(1, chunks + 1)}


def test_who_accepts_frees_when_the_timer_is_late(dedup, seen, clock):
    """E5: memory is bounded though nobody turns the wheel."""
    for number in range(100_000):
        clock.advance(1 / 1000)
        assert seen.first_seen(number)
        assert len(seen._queue) <= 1000 * WINDOW * (1 + 2 / dedup.WAKEUPS) + dedup.CHUNK


def test_forgetting_and_accepting_again_holds_no_more_than_a_window(seen, advance):
    """The queue keeps a forgotten entry until its time, not longer."""
    for _ in range(2000):
        assert seen.first_seen("a")
        seen.forget("a")
        advance(0.1)
        assert len(seen._queue) <= 110
    advance(WINDOW)
    assert len(seen._queue) == 0


def test_a_stream_of_keys_holds_no_more_than_its_window(dedup, seen, clock, timer, soak, rng):
    """1e5 keys a second, a tenth of them repeats up to 15 s old, by a plain oracle: none passed twice, none
    dropped wrongly, about 1e6 held."""
    array = importlib.import_module("array").array
    rate, count = 100_000, 10_000_000 if soak else 2_000_000
    step = rate // 10
    untils = array("d", bytes(8 * count))
    most = passed = repeats = 0
    for start in range(0, count, step):
        clock.advance(step / rate)
        now = clock.time()
        timer.advance_clock()
        for number in range(start, start + step):
            key = number
            if rng.random() < 0.1:
                key = max(0, number - int(rng.random() * 15 * rate))
            is_first = untils[key] <= now
            if seen.first_seen(key) is not is_first:
                pytest.fail(f"key {key} at {now}: {untils[key]}")
            if is_first:
                untils[key] = now + WINDOW
                passed += 1
            else:
                repeats += 1
        most = max(most, len(seen), len(seen._queue))
    assert passed + repeats == count
    assert repeats > count / 50
    bound = rate * WINDOW * (1 + 2 / dedup.WAKEUPS) + 2 * step
    assert rate * WINDOW * 0.9 < most <= bound
    clock.advance(WINDOW)
    while timer.advance_clock():
        pass
    assert len(seen) == len(seen._queue) == 0


def test_a_mirror_in_plain_lines_agrees(dedup, tw):
    """Random operations, and a dictionary of accepted times that says what must come of them."""
    keys = st.sampled_from(["a", "b", 0, 1, 1.0, True, ("a", 1), None, -1, -2])  # equal ones, equal hashes

    class Machine(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.clock = tw.ManualClock()
            self.timer = tw.Timer(executor="inline", clock=self.clock, start=False)
            self.seen = dedup.Deduplicator(8, timer=self.timer)
            self.accepted = {}

        def expect(self, key):
            now = self.clock.time()
            if key in self.accepted and now - self.accepted[key] < 8:
                return False
            self.accepted[key] = now
            return True

        @rule(key=keys)
        def first_seen(self, key):
            assert self.seen.first_seen(key) is self.expect(key)

        @rule(batch=st.lists(keys, max_size=6))
        def first_seen_many(self, batch):
            assert self.seen.first_seen_many(batch) == [self.expect(key) for key in batch]

        @rule(items=st.lists(keys, max_size=3))
        def unique(self, items):
            assert list(self.seen.unique(items)) == [key for key in items if self.expect(key)]

        @rule(key=keys)
        def forget(self, key):
            since = self.accepted.pop(key, None)
            assert self.seen.forget(key) is (since is not None and self.clock.time() - since < 8)

        @rule(quarters=st.integers(0, 36))
        def wait(self, quarters):
            self.clock.advance(quarters / 4)

        @rule()
        def turn(self):
            self.timer.advance_clock()
            # Freed when it has expired, or at the next of the 64 wake-ups of a window.
            live = sum(self.clock.time() - since < 8 + 8 / 64 for since in self.accepted.values())
            assert len(self.seen) <= live

        @invariant()
        def is_whole(self):
            queued = {id(entry) for entry in self.seen._queue}
            assert all(id(entry) in queued for entry in self.seen._seen.values())
            assert len(self.timer) == bool(self.seen._queue)

        def teardown(self):
            self.clock.advance(9)
            self.timer.advance_clock()
            assert len(self.seen) == len(self.seen._queue) == len(self.timer) == 0
            self.seen.close()
            self.timer.close()

    run_state_machine_as_test(Machine)


# --- bad input, and code of the keys'


@pytest.mark.parametrize(
    ("window", "rule"),
    [
        (0, "> 0, got 0"),
        (-1.5, "> 0, got -1.5"),
        (float("nan"), ">= 1e-09 (1 ns) and finite, got nan"),
        (float("inf"), ">= 1e-09 (1 ns) and finite, got inf"),
        (1e-10, ">= 1e-09 (1 ns) and finite, got 1e-10"),
    ],
)
def test_a_window_must_be_positive_and_finite(dedup, window, rule):
    """ValueError names the argument, the rule and the value seen; no timer is left."""
    with pytest.raises(ValueError, match=re.escape(f"window must be {rule}")):
        dedup.Deduplicator(window)


def test_a_window_and_a_timer_of_another_kind_are_refused(dedup):
    """TypeError, one line."""
    with pytest.raises(TypeError, match=r"^window must be a number of seconds, got '10s'$"):
        dedup.Deduplicator("10s")
    with pytest.raises(TypeError, match=r"^timer must be a Timer, got 10$"):
        dedup.Deduplicator(1.0, timer=10)


@pytest.mark.parametrize("window", [100 * 366 * 86400, 1e300])
def test_a_window_may_outlive_its_users(make, clock, window):
    """A key passes once, and that is all."""
    seen = make(window)
    assert [seen.first_seen("a"), seen.first_seen("a")] == [True, False]
    clock.advance(50 * 366 * 86400)
    assert not seen.first_seen("a")


@pytest.mark.parametrize("key", [[1], (1, [2]), {}])
def test_an_unhashable_key_is_refused_in_one_line(seen, timer, key):
    """TypeError with the key, and nothing is stored."""
    for call in (seen.first_seen, seen.forget, lambda key: next(seen.unique([key]))):
        with pytest.raises(TypeError) as caught:
            call(key)
        assert str(caught.value) == f"key must be hashable, got {key!r}"
    assert len(seen) == len(seen._queue) == len(timer) == 0


class Key:
    """Equal to those of its name; all have the hash of 7. Does as it is told when compared or hashed."""

    def __init__(self, name, hashed=None, compared=None):
        self.name = name
        self.hashed, self.compared = hashed, compared

    def __hash__(self):
        if self.hashed is not None:
            self.hashed()
        return 7

    def __eq__(self, other):
        if self.compared is not None:
            self.compared()
        return isinstance(other, Key) and self.name == other.name


def raising(error):
    def call():
        raise error

    return call


def test_an_error_of_the_keys_own_passes_through(seen, timer):
    """Also a TypeError, if the key is hashable; nothing is stored of the key."""
    there = Key("a")
    seen.first_seen(there)
    for error in (TypeError("apples and pears"), ZeroDivisionError("of mine")):
        there.compared = raising(error)
        with pytest.raises(type(error), match=str(error)):
            seen.first_seen(Key("b"))
    there.compared = None
    with pytest.raises(ZeroDivisionError):
        seen.first_seen(Key("b", hashed=raising(ZeroDivisionError())))
    assert len(seen) == len(seen._queue) == 1
    assert seen.first_seen(Key("b"))


def test_a_key_that_cannot_be_freed_is_logged_and_holds_up_no_other(seen, advance, timer, caplog):
    """R8: it is held until close; the others are freed, and freeing goes on."""
    broken = Key("broken")
    seen.first_seen_many(["a", broken, "b"])
    broken.hashed = raising(ZeroDivisionError("gone bad"))
    with caplog.at_level(logging.ERROR, logger="tickwheel"):
        advance(WINDOW)
    assert "cannot be looked up" in caplog.text
    assert "gone bad" in caplog.text
    assert (len(seen), len(seen._queue)) == (1, 0)
    assert seen.first_seen("a")
    advance(WINDOW)
    assert len(seen) == 1
    assert timer.stats().errors == 0


@pytest.mark.parametrize("inside", ["hashed", "compared"])
def test_a_key_may_use_the_deduplicator_from_within(seen, advance, inside):
    """R7: for other keys, in whatever call it is asked: the structures are whole whenever it can."""
    numbers = iter(range(10**6))

    def call():
        n = next(numbers)
        assert seen.first_seen(n)
        assert not seen.first_seen(n)
        assert seen.forget(n)
        assert seen.first_seen(n)

    for _ in range(3):
        assert seen.first_seen(Key("a", **{inside: call}))
        assert seen.first_seen(Key("b", **{inside: call}))
        assert not seen.first_seen(Key("a", **{inside: call}))
        assert seen.forget(Key("b", **{inside: call}))
        assert seen.first_seen(Key("b", **{inside: call}))
        advance(WINDOW)
        advance(WINDOW)  # what was accepted while those were freed
        advance(WINDOW)
        assert len(seen) == len(seen._queue) == 0
    assert next(numbers) > 10


@pytest.mark.parametrize("inside", ["hashed", "compared"])
def test_a_key_may_close_the_deduplicator_from_within(seen, clock, timer, inside):
    """In the middle of freeing, too: nothing is held, nothing is armed."""
    key = Key("a")
    seen.first_seen_many([Key("b"), key, *range(10)])
    setattr(key, inside, seen.close)
    clock.advance(WINDOW)
    timer.advance_clock()
    seen.close()
    assert len(seen) == len(seen._queue) == len(timer) == 0
    with pytest.raises(RuntimeError, match="closed"):
        seen.first_seen("c")


# --- its end, and its timer's


def test_what_is_used_after_close_says_so(seen, timer):
    """RuntimeError; close is idempotent, and everything is freed at once."""
    key = Key("a")
    seen.first_seen(key)
    ref = weakref.ref(key)
    del key
    assert repr(seen) == "<Deduplicator of 10 s: 1 held>"
    seen.close()
    seen.close()
    assert ref() is None
    assert len(seen) == len(timer) == 0
    assert repr(seen) == "<Deduplicator of 10 s: closed>"
    for call in (seen.first_seen, seen.forget, seen.first_seen_many):
        with pytest.raises(RuntimeError, match=r"^the deduplicator is closed$"):
            call("")
    assert len(seen) == len(seen._queue) == 0


def test_it_closes_a_timer_of_its_own_only(dedup, seen, timer):
    """A timer that it was given is the caller's."""
    with dedup.Deduplicator(10) as own:
        assert own.first_seen("a")
        assert own.timer is not timer
    with pytest.raises(RuntimeError):
        own.timer.schedule(1, print)
    seen.close()
    timer.schedule(1, print).cancel()


def test_a_window_on_the_real_clock_ends_by_itself(dedup):
    """With a timer of its own; freed by its thread."""
    with dedup.Deduplicator(0.01) as seen:
        assert seen.first_seen_many(range(3000)) == [True] * 3000
        while len(seen):
            seen.timer.submit(0.001, int).result(30)


def test_a_timer_closed_under_it_is_found_out(make, tw, clock):
    """No key is accepted that nobody would free: at the latest when freeing is late, RuntimeError."""
    timer = tw.Timer(executor="inline", clock=clock, start=False)
    before = make(timer=timer)
    after = make(timer=timer)
    assert before.first_seen("a")
    timer.close()
    with pytest.raises(RuntimeError, match="the timer is closed"):
        after.first_seen("a")
    assert len(after) == 0
    assert before.first_seen("b")  # its task was armed, and it was not told
    clock.advance(WINDOW + 1)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="the timer is closed"):
            before.first_seen("a")
    assert len(before) == 0


def test_a_timer_closed_while_it_frees_is_no_error_of_the_callback(make, tw, clock, caplog):
    """Nothing is logged: who accepts next is told."""
    timer = tw.Timer(executor="inline", clock=clock, start=False)
    seen = make(timer=timer)
    key = Key("a")
    seen.first_seen(key)
    clock.advance(WINDOW / 2)
    seen.first_seen("b")
    key.hashed = timer.close
    clock.advance(WINDOW / 2)
    timer.advance_clock()
    assert len(seen) == 1
    assert timer.stats().errors == 0
    assert caplog.text == ""
    with pytest.raises(RuntimeError, match="the timer is closed"):
        seen.first_seen("c")


def test_refused_keys_pile_up_nowhere(make, tw, clock):
    """With a timer that is closed, each call leaves no more than what a window lets go of."""
    timer = tw.Timer(executor="inline", clock=clock, start=False)
    seen = make(timer=timer)
    timer.close()
    for number in range(1000):
        with pytest.raises(RuntimeError):
            seen.first_seen(number)
        clock.advance(1)
        assert len(seen) == 0
        assert len(seen._queue) <= WINDOW + 1


def test_a_full_timer_refuses_and_nothing_is_accepted(make, tw, clock):
    """TooManyPending as from the timer; once there is room, the key passes."""
    with tw.Timer(executor="inline", clock=clock, start=False, max_pending=1) as timer:
        seen = make(timer=timer)
        task = timer.schedule(1000, print)
        with pytest.raises(tw.TooManyPending):
            seen.first_seen("a")
        with pytest.raises(tw.TooManyPending):
            seen.first_seen_many("ab")
        assert len(seen) == 0
        task.cancel()
        assert seen.first_seen("a")
        assert not seen.first_seen("a")
        clock.advance(3 * WINDOW)  # late: who accepts frees, and moves the one task that there may be
        assert seen.first_seen("b")
        assert len(timer) == len(seen) == 1
        seen.close()


def test_one_that_is_dropped_is_freed(dedup, timer):
    """Its task on another's timer does not keep it."""
    seen = dedup.Deduplicator(WINDOW, timer=timer)
    key = Key("a")
    seen.first_seen(key)
    refs = weakref.ref(seen), weakref.ref(key)
    del seen, key
    assert refs[0]() is refs[1]() is None


def test_one_that_is_dropped_with_its_own_timer_warns(dedup):
    """ResourceWarning, from the timer."""
    seen = [dedup.Deduplicator(WINDOW)]
    seen[0].first_seen("a")
    with pytest.warns(ResourceWarning, match="unclosed timer .*deduplicator"):
        seen.clear()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_is_told_and_never_hangs(fresh):
    """fork: its timer is stopped and says so, also where another thread held the lock."""
    assert fresh(
        f"""{IN_CHILD}
import threading
from tickwheel.recipes.dedup import Deduplicator
seen = Deduplicator(3600.0)
assert seen.first_seen("a")
held, go = threading.Event(), threading.Event()
def hold():
    with seen._lock:
        held.set()
        go.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()

def story():
    assert len(seen) == 0
    for call in (
        lambda: seen.first_seen("a"),
        lambda: seen.first_seen("b"),
        lambda: seen.first_seen_many("cd"),
    ):
        try:
            call()
        except RuntimeError as error:
            assert "fork" in str(error), error
        else:
            raise AssertionError("accepted in a forked child")
    assert seen.forget("a") is False
    seen.close()

assert in_child(story)
go.set()
thread.join()
assert not seen.first_seen("a")
assert seen.first_seen("b")
seen.close()
print("whole")
"""
    ) == "whole\n"


def test_it_cannot_be_copied(seen):
    """TypeError: it has a timer."""
    with pytest.raises(TypeError, match="cannot copy or pickle"):
        importlib.import_module("copy").copy(seen)
    assert sys.getrefcount(seen) > 1
    assert seen  # though it is empty
