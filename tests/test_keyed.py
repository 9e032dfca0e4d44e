"""KeyedExecutor: a key in order and one call at a time, other keys beside it, one failure alone."""

import gc
import logging
import re
import threading
import time
import weakref
from concurrent.futures import CancelledError, Future, wait

import pytest

from tickwheel.recipes import keyedcrew
from tickwheel.recipes.keyed import KeyedExecutor


class Gate:
    """A call that has come in waits inside until the gate is opened."""

    def __init__(self):
        self.inside = threading.Event()
        self.opened = threading.Event()

    def __call__(self, result=None):
        self.inside.set()
        assert self.opened.wait(60)
        return result


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.mark.parametrize("bounds", [{}, {"max_pending": 20}, {"max_pending": 30, "max_pending_per_key": 2}])
def test_each_key_runs_in_order_and_never_twice_at_once(rng, bounds):
    """F1: whatever the threads that submit, each finds its calls of a key in the order of its submits."""
    submitters, calls, keys = 4, 3000, 30
    order = {}
    inside = set()
    overlaps = []

    def work(key, submitter, number):
        if key in inside:
            overlaps.append(key)
        inside.add(key)
        order.setdefault((key, submitter), []).append(number)
        if number % 17 == 0:
            time.sleep(0)  # others may come in
        inside.remove(key)
        if number % 13 == 0:
            raise SystemExit(number)

    def submit(submitter, chosen):
        for number, key in enumerate(chosen):
            executor.submit(key, work, key, submitter, number)

    with KeyedExecutor(6, **bounds) as executor:
        choices = [[int(keys * rng.random() ** 2) for _ in range(calls)] for _ in range(submitters)]
        threads = [threading.Thread(target=submit, args=pair) for pair in enumerate(choices)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not overlaps
    expected = {}
    for submitter, chosen in enumerate(choices):
        for number, key in enumerate(chosen):
            expected.setdefault((key, submitter), []).append(number)
    assert order == expected
    stats = executor.stats()
    failed = submitters * len(range(0, calls, 13))
    assert stats == (0, 0, 0, 0, 0, submitters * calls, submitters * calls - failed, failed, 0)


def test_other_keys_run_beside_a_call_that_blocks(gate):
    """A call that blocks holds its worker and its key, nothing else."""
    with KeyedExecutor(2) as executor:
        blocked = executor.submit("a", gate)
        behind = executor.submit("a", str, 1)
        assert gate.inside.wait(60)
        others = [executor.submit(key, str, key) for key in range(100)]
        assert [future.result(60) for future in others] == [str(key) for key in range(100)]
        assert not blocked.done()
        assert not behind.done()
        gate.opened.set()
        assert behind.result(60) == "1"
        assert blocked.done()


def test_a_hot_key_holds_one_worker_at_a_time(gate):
    """F2: with 1,000 calls of one key waiting, the other worker does all the others."""
    done = []
    with KeyedExecutor(2) as executor:
        executor.submit("hot", gate)
        hot = [executor.submit("hot", done.append, "hot") for _ in range(1000)]
        others = [executor.submit(key, done.append, key) for key in range(500)]
        wait(others, 60)
        assert sorted(done) == list(range(500))
        gate.opened.set()
        wait(hot, 60)
    assert done[500:] == ["hot"] * 1000


def test_a_hot_key_goes_behind_the_others_after_its_turn(gate):
    """F2: one worker, and the others wait for no more than a turn of the hot key's calls."""
    done = []
    with KeyedExecutor(1) as executor:
        executor.submit("first", gate)
        for _ in range(1000):
            executor.submit("hot", done.append, "hot")
        for key in range(3):
            executor.submit(key, done.append, key)
        gate.opened.set()
    assert done[keyedcrew.TURN :][:3] == [0, 1, 2]
    assert done.count("hot") == 1000


def test_a_key_that_was_alone_gives_way_at_once(gate):
    """F2: what it ran while nobody else was ready counts as its turn."""
    done = []
    with KeyedExecutor(1) as executor:
        for _ in range(keyedcrew.TURN):
            executor.submit("hot", done.append, "hot")
        executor.submit("hot", gate)
        executor.submit("hot", done.append, "hot")
        assert gate.inside.wait(60)
        executor.submit("other", done.append, "other")
        gate.opened.set()
    assert done == ["hot"] * keyedcrew.TURN + ["other", "hot"]


def test_workers_start_when_none_is_free(gate):
    """Threads are made on demand: as many as there are keys with work at once, `workers` at most."""
    with KeyedExecutor(3, name="shop") as executor:
        before = threading.active_count()
        for number in range(10):
            executor.submit("a", str, number).result(60)
        assert threading.active_count() == before + 1
        for key in range(10):
            executor.submit(key, gate)
        assert threading.active_count() == before + 3
        assert {thread.name for thread in threading.enumerate()} >= {"shop_0", "shop_1", "shop_2"}
        gate.opened.set()


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt()])
def test_a_failure_goes_to_its_future_alone(error):
    """Also one that is no Exception: the calls behind it run, of its key and of others."""

    def fail():
        raise error

    with KeyedExecutor(1) as executor:
        failed = executor.submit("a", fail)
        assert executor.submit("a", str, 1).result(60) == "1"
        assert executor.submit("b", str, 2).result(60) == "2"
        assert failed.exception(60) is error
        assert executor.stats()[-3:] == (2, 1, 0)


def test_a_done_callback_that_exits_ends_no_worker(gate, caplog):
    """What a future's callbacks raise is logged, and the key goes on."""

    def leave(future):
        raise SystemExit

    with KeyedExecutor(1) as executor:
        executor.submit("a", gate).add_done_callback(leave)
        behind = executor.submit("a", str, 1)
        gate.opened.set()
        assert behind.result(60) == "1"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_future_that_somebody_else_settles_stops_nothing(gate, caplog):
    """Its call does not run where it was settled before, and the key goes on in either case."""
    ran = []
    with KeyedExecutor(1) as executor:
        running = executor.submit("a", gate)
        waiting = executor.submit("a", ran.append, 1)
        behind = executor.submit("a", str, 1)
        assert gate.inside.wait(60)
        running.set_result("mine")
        waiting.set_result("mine")
        gate.opened.set()
        assert behind.result(60) == "1"
        assert executor.stats()[-3:] == (2, 0, 1)
    assert not ran
    assert len(caplog.records) == 2


def test_a_cancelled_call_never_runs_and_keeps_its_place_until_its_turn(gate):
    """It is counted as pending until then, and as cancelled after; `wait` hears of it."""
    ran = []
    with KeyedExecutor(1) as executor:
        executor.submit("a", gate)
        cancelled = executor.submit("a", ran.append, "cancelled")
        behind = executor.submit("a", ran.append, "behind")
        assert gate.inside.wait(60)
        assert cancelled.cancel()
        assert len(executor) == 2
        gate.opened.set()
        assert wait([cancelled, behind], 60).done == {cancelled, behind}
        assert executor.stats()[-3:] == (2, 0, 1)
    assert ran == ["behind"]


def test_a_running_call_cannot_be_cancelled(gate):
    """As in concurrent.futures."""
    with KeyedExecutor(1) as executor:
        future = executor.submit("a", gate, 1)
        assert gate.inside.wait(60)
        assert not future.cancel()
        gate.opened.set()
        assert future.result(60) == 1


def test_stats_tell_what_waits_and_what_runs(gate):
    """pending, running, keys and longest are those of the moment; len is pending."""
    with KeyedExecutor(2) as executor:
        assert executor.stats() == (0,) * 9
        for key, calls in (("a", 1), ("b", 4), ("c", 2)):
            for _ in range(calls):
                executor.submit(key, gate)
        deadline = time.monotonic() + 60
        while executor.stats().running < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        stats = executor.stats()
        assert stats._asdict() == {
            "pending": 5, "running": 2, "keys": 3, "longest": 3, "blocked": 0,
            "submitted": 7, "completed": 0, "failed": 0, "cancelled": 0,
        }  # fmt: skip
        assert len(executor) == 5
        gate.opened.set()


def test_who_has_a_result_finds_it_counted(gate):
    """A call is counted before its future is told."""
    counted = []
    with KeyedExecutor(2) as executor:
        for fn in (gate, lambda: gate() / 0):
            future = executor.submit("a", fn)
            future.add_done_callback(lambda _: counted.append(executor.stats()[-3:]))
        gate.opened.set()
    assert counted == [(1, 0, 0), (1, 1, 0)]


def test_what_has_run_is_not_kept():
    """A call pins its function and arguments until it has run, its result is its future's alone, and a key
    is forgotten with its last call: also by a worker that has nothing to do."""

    class Thing:
        def __hash__(self):
            return 1

        def method(self, other):
            return Thing()

    def fail(thing):
        raise ValueError

    things = [Thing() for _ in range(4)]
    gone = [weakref.ref(thing) for thing in things]
    gc.disable()
    try:
        with KeyedExecutor(1) as executor:
            failed = executor.submit("a", fail, things[3])
            assert isinstance(failed.exception(60), ValueError)
            failed = None
            executor.submit(things[0], things[1].method, things[2]).add_done_callback(
                lambda future: gone.append(weakref.ref(future.result()))
            )
            things.clear()
            idle = time.monotonic() + 60
            while executor.stats().keys and time.monotonic() < idle:
                time.sleep(0.001)
            while any(ref() for ref in gone[:4]) and time.monotonic() < idle:
                time.sleep(0.001)  # the worker is on its way back
            assert [ref() for ref in gone[:4]] == [None] * 4
        # Without a GIL a thread that waits may have yet to let go of what it made itself.
        assert [ref() for ref in gone] == [None] * 5
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": 0}, "workers must be >= 1, got 0"),
        ({"workers": -3}, "workers must be >= 1, got -3"),
        ({"workers": 1.5}, "workers must be a whole number >= 1, got 1.5"),
        ({"workers": None}, "workers must be a whole number >= 1, got None"),
        ({"workers": 1, "max_pending": 0}, "max_pending must be >= 1, got 0"),
        ({"workers": 1, "max_pending_per_key": 0}, "max_pending_per_key must be >= 1, got 0"),
        ({"workers": 1, "on_full": "drop"}, "on_full must be 'wait' or 'raise', got 'drop'"),
    ],
)
def test_a_bad_argument_is_named(arguments, message):
    """ValueError with the argument, the rule and the value."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        KeyedExecutor(**arguments)


def test_a_bad_call_is_refused_at_submit():
    """TypeError, and nothing has changed."""
    with KeyedExecutor(1) as executor:
        with pytest.raises(TypeError, match=r"key must be hashable, got \[1\]"):
            executor.submit([1], str)
        with pytest.raises(TypeError, match="fn must be callable, got 3"):
            executor.submit("a", 3)
        assert executor.stats() == (0,) * 9


def test_a_key_that_raises_when_compared_breaks_nothing():
    """What `__eq__` raises comes out of submit; lines and workers are whole, whoever compares."""

    gates = {"a": Gate(), "b": Gate()}

    class Key:
        broken = False

        def __init__(self, name):
            self.name = name

        def __hash__(self):
            return 7

        def __eq__(self, other):
            if Key.broken:
                raise ZeroDivisionError
            return self.name == other.name

    with KeyedExecutor(2) as executor:
        for key in (Key("a"), Key("b")):  # to find the second is to compare it with the first
            executor.submit(key, gates[key.name])
            assert gates[key.name].inside.wait(60)
        Key.broken = True
        with pytest.raises(ZeroDivisionError):
            executor.submit(Key("c"), str, 3)
        gates["b"].opened.set()
        assert executor.submit("d", str, 4).result(60) == "4"  # its worker could not forget the line
        Key.broken = False
        assert executor.submit(Key("b"), str, 5).result(60) == "5"
        gates["a"].opened.set()
    assert executor.stats() == (0, 0, 0, 0, 0, 4, 4, 0, 0)


def test_a_key_may_submit_while_it_is_compared():
    """Reentrance: what `__eq__` submits runs too, and each key stays one line."""
    ran = []

    class Key:
        def __init__(self, name):
            self.name = name

        def __hash__(self):
            return 7

        def __eq__(self, other):
            if not nested:
                nested.append(True)
                executor.submit(Key("b"), ran.append, "nested")
            return self.name == other.name

    gate = Gate()
    nested = [True]
    with KeyedExecutor(2) as executor:
        executor.submit(Key("a"), gate)
        nested.clear()
        executor.submit(Key("b"), ran.append, "outer")
        gate.opened.set()
    assert sorted(ran) == ["nested", "outer"]


def test_a_key_may_submit_itself_while_it_is_hashed(gate):
    """Reentrance: there is one line for it all the same, and the calls run one at a time."""

    class Key:
        hashed = 0

        def __hash__(self):
            self.hashed += 1
            if self.hashed == 2:  # the first was to look for its line
                executor.submit(self, gate)
            return 7

    with KeyedExecutor(2) as executor:
        outer = executor.submit(Key(), gate)
        assert executor.stats().keys == 1
        gate.opened.set()
        assert outer.result(60) is None
        assert executor.stats().submitted == 2


def test_a_key_may_submit_itself_while_it_is_forgotten(gate):
    """F1: its line stays the one that there is; a key whose `__hash__` is Python's may be cut there by a
    destructor, too."""

    class Key:
        forgotten = False

        def __hash__(self):
            if self.forgotten and threading.current_thread().name == "shop_0":
                self.forgotten = False
                executor.submit(self, gate)
            return 7

    key, last = Key(), Gate()
    with KeyedExecutor(2, name="shop") as executor:
        executor.submit(key, last)
        assert last.inside.wait(60)
        key.forgotten = True
        last.opened.set()
        assert gate.inside.wait(60)
        behind = executor.submit(key, str)
        assert executor.stats()[:3] == (1, 1, 1)
        gate.opened.set()
        assert behind.result(60) == ""


def test_shutdown_does_what_waits(gate):
    """`shutdown(wait=False)` returns at once, and takes nothing more; all that was submitted is done."""
    executor = KeyedExecutor(2)
    futures = [executor.submit("a", gate, number) for number in range(5)]
    futures += [executor.submit(key, gate, key) for key in range(5, 100)]
    executor.shutdown(wait=False)
    executor.shutdown(wait=False)
    with pytest.raises(RuntimeError, match="the executor is shut down"):
        executor.submit("a", str)
    assert not any(future.done() for future in futures)
    gate.opened.set()
    executor.shutdown()
    assert [future.result(0) for future in futures] == list(range(100))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tickwheel-keyed")]


def test_shutdown_cancels_what_waits_where_asked(gate):
    """`cancel_futures`: what runs goes on, what waits is cancelled, and `wait` hears of it."""
    executor = KeyedExecutor(1)
    running = executor.submit("a", gate, 1)
    assert gate.inside.wait(60)
    waiting = [executor.submit(key, str) for key in "aabc"]
    executor.shutdown(wait=False, cancel_futures=True)
    assert wait(waiting, 60).done == set(waiting)
    for future in waiting:
        with pytest.raises(CancelledError):
            future.result(0)
    gate.opened.set()
    executor.shutdown()
    assert running.result(0) == 1
    assert executor.stats() == (0, 0, 0, 0, 0, 5, 1, 0, 4)


def test_a_worker_may_shut_its_executor_down(gate):
    """It cannot wait for itself: shutdown returns at once, and what waits is done."""
    executor = KeyedExecutor(1)
    first = executor.submit("a", gate)
    leaving = executor.submit("b", executor.shutdown)
    behind = executor.submit("c", str, 1)
    gate.opened.set()
    assert first.result(60) is leaving.result(60) is None
    assert behind.result(60) == "1"
    with pytest.raises(RuntimeError, match="the executor is shut down"):
        executor.submit("a", str)
    executor.shutdown()


def test_shutdown_inside_of_submit_returns_at_once():
    """A destructor may do that, or a key as here: the workers could not end while it waited."""

    class Key:
        def __hash__(self):
            executor.shutdown()
            return 7

    executor = KeyedExecutor(1)
    assert executor.submit("a", str, 1).result(60) == "1"
    last = executor.submit(Key(), str, 2)
    executor.shutdown()
    assert last.result(0) == "2"


def test_a_worker_may_submit_and_wait_for_another_key():
    """Calls make calls; the future of another key may be waited for as long as a worker is free."""
    with KeyedExecutor(2) as executor:
        outer = executor.submit("a", lambda: executor.submit("b", str, 1).result(60))
        assert outer.result(60) == "1"
        assert isinstance(outer, Future)


def test_without_a_thread_nothing_is_taken(monkeypatch):
    """Where no thread can be started, submit says so, and the next one tries again."""
    with KeyedExecutor(1) as executor:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", _no_thread)
            with pytest.raises(RuntimeError, match="no thread"):
                executor.submit("a", str)
            assert executor.stats() == (0,) * 9
        assert executor.submit("a", str, 1).result(60) == "1"


def test_the_workers_that_there_are_do_the_work(monkeypatch, gate):
    """Where no more threads can be started, calls are taken all the same."""
    with KeyedExecutor(2) as executor:
        executor.submit("a", gate)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", _no_thread)
            behind = executor.submit("b", str, 1)
        gate.opened.set()
        assert behind.result(60) == "1"


def _no_thread(thread):
    raise RuntimeError("no thread")
