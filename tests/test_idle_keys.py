"""IdleTracker's keys: whatever their hashes, however many come and go, each is found, and no other."""

import importlib
import os
import subprocess
import sys

import pytest

TIMEOUT = 30


class Key:
    """Equal to those of the same name, with a hash that is given."""

    def __init__(self, name, hashed):
        self.name = name
        self.hashed = hashed

    def __hash__(self):
        return self.hashed

    def __eq__(self, other):
        return isinstance(other, Key) and self.name == other.name


# Of n keys: how their hashes lie.
HASHES = {
    "one for all": lambda n: 7,
    "few": lambda n: n % 5,
    "in a row": lambda n: n,
    "apart by a power of two": lambda n: n << 32,
    "negative": lambda n: -2 - n,
    "scattered": lambda n: hash((n, n)),
}


@pytest.fixture
def clock(tw):
    return tw.ManualClock()


@pytest.fixture
def timer(tw, clock):
    with tw.Timer(tick=1.0, clock=clock, executor="inline", start=False) as timer:
        yield timer


@pytest.fixture
def gone():
    return []


@pytest.fixture
def tracker(tw, timer, gone):
    idle = importlib.import_module("tickwheel.recipes.idle")
    with idle.IdleTracker(TIMEOUT, gone.append, timer=timer) as tracker:
        yield tracker


@pytest.mark.parametrize("hashes", HASHES)
def test_keys_are_found_whatever_their_hashes(tracker, timer, clock, gone, rng, hashes):
    """Random touches, removals and ends against a dictionary, with keys that are equal and not the same."""
    names = 40 if hashes == "one for all" else 300
    last = {}
    for _ in range(60):
        for _ in range(100):
            name = rng.randrange(names)
            key = Key(name, HASHES[hashes](name))
            if rng.random() < 0.7:
                assert tracker.touch(key) is (name not in last)
                last[name] = clock.time()
            else:
                assert tracker.remove(key) is (last.pop(name, None) is not None)
            other = rng.randrange(names)
            assert (Key(other, HASHES[hashes](other)) in tracker) is (other in last)
        tracker._check()
        clock.advance(rng.choice([1, 5, 20]))
        timer.advance_clock()
        due = {name for name, stamp in last.items() if stamp + TIMEOUT <= clock.time()}
        assert sorted(key.name for key in gone) == sorted(due)
        gone.clear()
        for name in due:
            del last[name]
        assert len(tracker) == len(last)
    assert last
    assert {key.name for key in tracker.close()} == last.keys()


def test_close_returns_the_keys_in_the_order_in_which_they_came(tracker):
    """At one time, with hashes in disorder, and one that came again."""
    keys = [str(n) for n in range(1000)]
    for key in keys:
        tracker.touch(key)
    tracker.touch(keys[3])
    tracker.remove(keys[0])
    tracker.touch(keys[0])
    assert tracker.close() == [*keys[1:], keys[0]]


def test_other_objects_that_are_equal_are_the_same_key(tracker):
    """As in a dictionary."""
    assert tracker.touch(1)
    assert not tracker.touch(1.0)
    assert not tracker.touch(True)
    assert tracker.touch("a" * 3)
    assert not tracker.touch("".join(["a", "aa"]))
    assert tracker.close() == [1, "aaa"]


def test_an_object_that_is_not_equal_to_itself(tracker):
    """A NaN is the key that it is, and no other NaN."""
    nan, other = float("nan"), float("nan")
    assert tracker.touch(nan)
    assert not tracker.touch(nan)
    assert other not in tracker
    assert tracker.remove(nan)


@pytest.mark.parametrize("call", ["touch", "remove", "in"])
def test_a_comparison_that_raises(tracker, call):
    """It goes to the caller, and nothing has changed."""

    class Raising(Key):
        __hash__ = Key.__hash__

        def __eq__(self, other):
            raise ZeroDivisionError

    tracker.touch(Key("a", 1))
    calls = {"touch": tracker.touch, "remove": tracker.remove, "in": tracker.__contains__}
    with pytest.raises(ZeroDivisionError):
        calls[call](Raising("b", 1))
    assert (len(tracker), Key("a", 1) in tracker) == (1, True)
    tracker._check()


def test_a_key_that_dies_of_being_compared(tracker):
    """It makes way for the other, and its destructor fills the table: the other is where it is by then."""
    keys = [Key(f"key {n}", n) for n in range(1000)]

    class Dying(Key):
        __hash__ = Key.__hash__

        def __eq__(self, other):
            if other is not self and self in tracker:
                tracker.remove(self)
                tracker.touch(other)
            return False

        def __del__(self):
            for key in keys:
                tracker.touch(key)

    tracker.touch(Dying("dying", 7))
    other = Key("other", 7)
    assert not tracker.touch(other), "it is online by then"
    assert len(tracker) == 1001
    assert tracker.remove(other)
    tracker._check()
    assert tracker.close() == keys


def test_keys_that_come_and_go_leave_nothing_behind(core):
    """200,000 keys, a thousand online at a time: no more memory at the end than after a tenth of them."""
    story = """
import resource
import tickwheel as tw
from tickwheel.recipes.idle import IdleTracker
clock = tw.ManualClock()
with tw.Timer(tick=1.0, clock=clock, executor="inline", start=False) as timer:
    tracker = IdleTracker(30, lambda key: None, timer=timer)
    peaks = []
    for n in range(200_000):
        tracker.touch(str(n))
        if n >= 1000:
            tracker.remove(str(n - 1000))
        if n % 20_000 == 19_999:
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert len(tracker) == 1000
    tracker._check()
    tracker.close()
print(peaks[-1] - peaks[0])
"""
    done = subprocess.run(
        [sys.executable, "-c", story], capture_output=True, text=True, check=True,
        env={**os.environ, "TICKWHEEL_CORE": core},
    )
    assert int(done.stdout) < 1024, "KB"
