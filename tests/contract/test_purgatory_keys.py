"""Keys: anything hashable, found by equality, and gone with the last operation that watches them."""

import gc
import math
import weakref

import pytest


class Key:
    """Equal to keys of the same name; all collide that are given the same hash."""

    def __init__(self, name, hash_=7):
        self.name = name
        self.hash = hash_

    def __hash__(self):
        return self.hash

    def __eq__(self, other):
        return isinstance(other, Key) and self.name == other.name

    def __repr__(self):
        return f"Key({self.name!r})"


# --- which keys are the same


def test_equal_keys_are_one_key(purgatory, watch):
    """As in a dictionary: it is equality that counts."""
    operations = [watch(1), watch(1.0), watch(True), watch(("x", 2)), watch(("x", 2.0))]
    for operation in operations:
        operation.ready = True
    assert purgatory.check_and_complete(1) == 3
    assert purgatory.check_and_complete(("x", 2)) == 2


def test_a_key_is_itself_though_it_equals_nothing(purgatory, watch):
    """As in a dictionary: identity comes before equality."""
    nan = math.nan
    operation = watch(nan, nan)
    assert purgatory.watched == 1
    operation.ready = True
    assert purgatory.check_and_complete(float("nan")) == 0
    assert purgatory.check_and_complete(nan) == 1


def test_colliding_keys_are_kept_apart(purgatory, watch):
    """Two thousand keys of one hash: each finds its own."""
    operations = {name: watch(Key(name)) for name in range(200)}
    purgatory._check()
    assert purgatory.watched == 200
    for name in (0, 199, 100, 57, 58, 56):
        operations[name].ready = True
        assert purgatory.check_and_complete(Key(name)) == 1
        assert purgatory.check_and_complete(Key(name)) == 0
        purgatory._check()
    assert purgatory.cancel_for_key(Key(1)) == [operations[1]]
    assert purgatory.watched == 193


@pytest.mark.parametrize("hash_", [0, -1, 1, 2**61 - 1, -(2**63), 2**63 - 1])
def test_any_hash_will_do(purgatory, watch, hash_):
    """Also the values that a table may use for its own purposes."""
    operation = watch(Key("a", hash_), Key("b", hash_), Key("a", hash_))
    assert purgatory.watched == 2
    operation.ready = True
    assert purgatory.check_and_complete(Key("b", hash_)) == 1
    assert purgatory.watched == 0


def test_keys_come_and_go(purgatory, watch, rng):
    """The table of keys grows, shrinks and is searched right, through all arrivals and departures."""
    waiting = {}
    for step in range(6000):
        name = rng.randrange(10 ** rng.randrange(1, 5))
        if rng.random() < (0.7 if step % 2000 < 1000 else 0.3):
            waiting.setdefault(name, []).append(watch(name, str(name)))
        else:
            name = rng.choice(list(waiting)) if waiting and rng.random() < 0.8 else name
            assert set(purgatory.cancel_for_key(name)) == set(waiting.pop(name, []))
        assert purgatory.watched == 2 * sum(map(len, waiting.values()))
        if step % 100 == 0:
            purgatory._check()
    for name, operations in waiting.items():
        for operation in operations:
            operation.ready = True
        assert purgatory.check_and_complete(str(name)) == len(operations)


# --- a key whose list is empty leaves the map


ENDS = ["check", "force", "cancel", "cancel_for_key", "expire", "close", "second try"]


def end(purgatory, operation, key, how, advance):
    if how == "check":
        operation.ready = True
        purgatory.check_and_complete(key)
    elif how == "force":
        operation.force_complete()
    elif how == "cancel":
        operation.cancel()
    elif how == "cancel_for_key":
        purgatory.cancel_for_key(key)
    elif how == "expire":
        advance(60.0)
    elif how == "close":
        purgatory.close()


@pytest.mark.parametrize("how", ENDS)
def test_a_key_goes_with_its_last_operation(purgatory, make_operation, advance, how):
    """The map keeps no key that nobody watches, though the operation is still held."""
    gc.collect()
    gc.disable()
    try:
        keys = [Key(name, hash_) for name, hash_ in (("a", 1), ("b", 2), ("c", 1))]
        refs = [weakref.ref(key) for key in keys]
        operation = make_operation()
        if how == "second try":
            operation.trying = lambda operation: len(operation.diary) == 2
        purgatory.try_complete_else_watch(operation, keys)
        del keys
        end(purgatory, operation, Key("a", 1), how, advance)
        assert [ref() for ref in refs] == [None] * 3
        assert operation.state is not None
    finally:
        gc.enable()


def test_a_key_stays_while_anybody_watches_it(purgatory, make_operation):
    """The object that came first serves all that equal it, and goes with the last of them."""
    first, second = make_operation(), make_operation()
    keys = [Key("a"), Key("a")]
    refs = [weakref.ref(key) for key in keys]
    purgatory.try_complete_else_watch(first, keys[:1])
    purgatory.try_complete_else_watch(second, keys[1:])
    del keys
    assert first.force_complete() is True
    assert purgatory.watched == 1
    second.ready = True
    assert purgatory.check_and_complete(Key("a")) == 1
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_a_destructor_of_a_key_uses_the_purgatory(purgatory, make_operation):
    """R7: the structures are whole when a key that leaves the map is freed."""
    freed = []

    class Heir(Key):
        def __del__(self):
            purgatory._check()
            purgatory.try_complete_else_watch(make_operation(), [self.name, "heirs"])
            freed.append(self.name)

    operation = make_operation()
    purgatory.try_complete_else_watch(operation, [Heir(name) for name in "abc"])
    operation.force_complete()
    gc.collect()
    assert sorted(freed) == ["a", "b", "c"]
    assert (purgatory.watched, purgatory.delayed) == (6, 3)
    assert len(purgatory.cancel_for_key("heirs")) == 3


def test_a_key_that_changes_its_hash_still_leaves(purgatory, watch):
    """It is lost to those who look for it, as in a dictionary, but not to its operation."""
    key = Key("a", 1)
    operation, other = watch(key, "b"), watch(key)
    key.hash = 2
    assert purgatory.check_and_complete(Key("a", 2)) == 0
    operation.force_complete()
    assert purgatory.watched == 1
    other.cancel()
    assert purgatory.watched == 0
    ref = weakref.ref(key)
    del key
    gc.collect()
    assert ref() is None
