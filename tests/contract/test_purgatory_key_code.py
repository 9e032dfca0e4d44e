"""`__hash__` and `__eq__` of keys are user code: they raise, take their time, and use the purgatory."""

import gc

import pytest


class Key:
    """Equal to keys of the same name; all have the same hash."""

    def __init__(self, name, comparing=None):
        self.name = name
        self.comparing = comparing  # called at each comparison of this key

    def __hash__(self):
        return 7

    def __eq__(self, other):
        if not isinstance(other, Key):
            return NotImplemented
        for key in (self, other):
            if key.comparing is not None:
                key.comparing()
        return self.name == other.name

    def __repr__(self):
        return f"Key({self.name!r})"


# --- keys that raise


def fail():
    raise ZeroDivisionError


def test_a_hash_that_raises_passes_through(purgatory, make_operation, watch):
    """Before the first try, and nothing is watched."""

    class Bad:
        def __hash__(self):
            raise ZeroDivisionError

    waiting = watch("a")
    operation = make_operation(ready=True)
    with pytest.raises(ZeroDivisionError):
        purgatory.try_complete_else_watch(operation, ["a", Bad()])
    for call in (purgatory.check_and_complete, purgatory.cancel_for_key):
        with pytest.raises(ZeroDivisionError):
            call(Bad())
    assert (operation.diary, waiting.diary) == ([], [])
    assert (purgatory.watched, purgatory.delayed) == (1, 1)
    purgatory._check()


def test_a_hash_is_asked_for_once(purgatory, make_operation):
    """One that would raise the second time is never asked a second time on the way in."""
    asked = []

    class Once(Key):
        def __hash__(self):
            asked.append(self.name)
            assert asked.count(self.name) == 1
            return 5

    operation = make_operation()
    purgatory.try_complete_else_watch(operation, [Once("a"), Once("b")])
    operation.force_complete()
    assert asked == ["a", "b"]
    assert purgatory.watched == 0


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_comparison_that_raises_leaves_nothing_watched(purgatory, make_operation, watch, position):
    """It passes through, and the keys that were watched before it are left again."""
    waiting = watch(Key("there"))
    keys = ["x", "y", "z"]
    keys[position] = bad = Key("bad", comparing=fail)
    operation = make_operation()
    with pytest.raises(ZeroDivisionError):
        purgatory.try_complete_else_watch(operation, keys)
    purgatory._check()
    assert (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (1, 1, 1)
    assert operation.is_completed is False
    for call in (purgatory.check_and_complete, purgatory.cancel_for_key):
        with pytest.raises(ZeroDivisionError):
            call(bad)
    assert waiting.diary == []
    bad.comparing = None
    assert purgatory.try_complete_else_watch(operation, keys) is False
    assert purgatory.watched == 4
    operation.ready = True
    assert purgatory.check_and_complete(bad) == 1


def test_a_comparison_that_raises_among_the_operations_own_keys(purgatory, make_operation):
    """The keys of one operation are compared with each other, too."""
    operation = make_operation()
    with pytest.raises(ZeroDivisionError):
        purgatory.try_complete_else_watch(operation, [Key("a"), Key("b", comparing=fail)])
    purgatory._check()
    assert (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (0, 0, 0)
    assert purgatory.try_complete_else_watch(operation, ["a"]) is False


# --- keys that use the purgatory while they are compared


def once(action):
    """The action at its first call, nothing at later ones."""
    calls = []

    def act():
        if not calls:
            calls.append(1)
            action()

    return act


ACTIONS = {
    "check the same key": lambda p, make, there: p.check_and_complete(Key("there")),
    "check another": lambda p, make, there: p.check_and_complete("other"),
    "watch the same key": lambda p, make, there: p.try_complete_else_watch(make(), [Key("there"), "new"]),
    "watch many keys": lambda p, make, there: p.try_complete_else_watch(make(), range(500)),
    "watch colliding keys": lambda p, make, there: p.try_complete_else_watch(make(), map(Key, range(50))),
    "cancel the key": lambda p, make, there: p.cancel_for_key(Key("there")),
    "cancel the operation": lambda p, make, there: there.cancel(),
    "force the operation": lambda p, make, there: there.force_complete(),
    "collect": lambda p, make, there: gc.collect(),
    "close": lambda p, make, there: p.close(),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("way", ["watch", "check", "cancel_for_key"])
@pytest.mark.parametrize("name", ["there", "elsewhere"])
def test_a_comparison_may_use_the_purgatory(purgatory, make_operation, watch, action, way, name):
    """R7: while a key is looked for, it checks, watches, cancels, closes: the structures are whole."""
    there = watch(Key("there"), Key("here"))
    watch("other", Key("there"))
    reenter = once(lambda: ACTIONS[action](purgatory, make_operation, there))
    key = Key(name, comparing=reenter)
    operation = make_operation()
    try:
        if way == "watch":
            assert purgatory.try_complete_else_watch(operation, ["first", key, "last"]) is False
            assert operation.diary == ["try", "try"]
        elif way == "check":
            there.ready = action != "cancel the operation"
            assert purgatory.check_and_complete(key) in (0, 1)
        else:
            assert len(purgatory.cancel_for_key(key)) <= 3
    except RuntimeError as error:
        assert action == "close" and "closed" in str(error)
    purgatory._check()
    stats = purgatory.stats()
    assert stats.watched == purgatory.watched
    returned = purgatory.close()
    purgatory._check()
    assert purgatory.watched == purgatory.delayed == 0
    assert len(set(returned)) == len(returned)
    assert there.diary.count("complete") <= 1
    assert not (there.is_completed and there in returned)


def test_the_watchers_found_are_those_of_the_key(purgatory, make_operation, watch):
    """R7: a key that leaves the map and comes again, while it is being compared, is found anew."""
    there = watch(Key("there"))
    again = make_operation()

    def replace():
        there.cancel()
        purgatory.try_complete_else_watch(again, [Key("there")])
        again.ready = True

    operation = make_operation()
    purgatory.try_complete_else_watch(operation, [Key("there", comparing=once(replace))])
    operation.ready = True
    purgatory._check()
    assert purgatory.check_and_complete(Key("there")) == 2
    assert purgatory.watched == 0


def test_a_comparison_holds_no_lock(purgatory, make_operation, watch, start):
    """R7: while a key is compared in one thread, another does all there is to do with that key."""
    there = watch(Key("there"))
    there.ready = True
    done = []

    def use():
        done.append(purgatory.check_and_complete(Key("there")))
        done.append(purgatory.try_complete_else_watch(make_operation(), [Key("there"), "b"]))
        done.append(len(purgatory.cancel_for_key("b")))
        done.append(purgatory.stats().watched)

    operation = make_operation()
    key = Key("there", comparing=once(lambda: start(use).result(30)))
    assert purgatory.try_complete_else_watch(operation, [key]) is False
    assert done[:3] == [1, False, 1]
    purgatory._check()
    operation.ready = True
    assert purgatory.check_and_complete(Key("there")) == 1


@pytest.mark.parametrize("seed", range(3))
def test_keys_that_do_anything_at_any_comparison(fresh, seed):
    """R7: colliding keys that check, watch, cancel, force and collect whenever they are compared or freed."""
    assert fresh(f"""
import gc, random
import tickwheel as tw

rng = random.Random({seed})
clock = tw.ManualClock()
timer = tw.Timer(tick=1.0, executor="inline", clock=clock, start=False)
purgatory = tw.DelayedOperationPurgatory("keys", timer=timer)
operations, calls, inside, ended = [], [0], [0], dict(complete=0, expire=0)

class Operation(tw.DelayedOperation):
    completions = 0
    def try_complete(self): return rng.random() < 0.2
    def on_complete(self): self.completions += 1; ended["complete"] += 1
    def on_expiration(self): ended["expire"] += 1

class Key:
    def __init__(self): self.name = rng.randrange(6)
    def __hash__(self): return self.name % 2
    def __eq__(self, other):
        reenter()
        return self.name == other.name
    def __del__(self): reenter()

def act():
    choice = rng.random()
    if choice < 0.4 or not operations:
        operation = Operation(rng.choice((0, 1, 5, 300)))
        purgatory.try_complete_else_watch(operation, [Key() for _ in range(rng.randrange(1, 4))])
        operations.append(operation)
    elif choice < 0.6:
        purgatory.check_and_complete(Key())
    elif choice < 0.7:
        rng.choice(operations).force_complete()
    elif choice < 0.8:
        rng.choice(operations).cancel()
    elif choice < 0.85:
        purgatory.cancel_for_key(Key())
    elif choice < 0.95:
        clock.advance(rng.choice((0.5, 2.0)))
        timer.advance_clock()
    else:
        gc.collect(0)

def reenter():
    calls[0] += 1
    if inside[0] < 2 and rng.random() < 0.3:
        inside[0] += 1
        try:
            act()
        finally:
            inside[0] -= 1

for step in range(3000):
    act()
    if step % 20 == 0:
        inside[0] = 9    # the check compares keys, and must find what it looked at
        purgatory._check()
        inside[0] = 0
inside[0] = 9
left = purgatory.close()
purgatory._check()
stats = purgatory.stats()
assert purgatory.watched == purgatory.delayed == 0 == stats.errors
assert stats.completed + stats.expired == ended["complete"] == sum(each.is_completed for each in operations)
assert stats.expired == ended["expire"]
assert stats.completed + stats.expired + stats.dropped == len(operations)
assert max(each.completions for each in operations) == 1
assert not any(each.is_completed for each in left)
assert calls[0] > 1000
timer.close()
print("whole")
""") == "whole\n"
