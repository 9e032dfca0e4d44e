"""`check_and_complete`: tries what waits for a key, and survives whatever that does to the key."""

import pytest


def test_a_check_counts_what_it_completed(purgatory, watch):
    """Those that answer True; the others stay, and are tried once each."""
    operations = [watch("a", "b", ready=number % 2 == 0) for number in range(10)]
    elsewhere = watch("b", ready=True)
    assert purgatory.check_and_complete("a") == 5
    assert [operation.diary for operation in operations] == [["try", "complete"], ["try"]] * 5
    assert elsewhere.diary == []
    assert (purgatory.watched, purgatory.delayed) == (11, 6)
    purgatory._check()
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.check_and_complete("b") == 1


def test_a_key_that_nobody_watches(purgatory, watch):
    """0, and nobody is tried."""
    operation = watch("a", ready=True)
    assert purgatory.check_and_complete("b") == 0
    assert operation.diary == []


def test_a_check_tries_in_the_order_of_arrival(purgatory, watch):
    """First come, first served: the oldest waits no longer than it must."""
    order = []
    for number in range(20):
        watch("a", ready=True, completed=lambda _, number=number: order.append(number))
    assert purgatory.check_and_complete("a") == 20
    assert order == list(range(20))


def test_a_completed_operation_leaves_every_list_at_once(purgatory, watch):
    """Through whichever key it was completed: `watched` is exact when the check returns."""
    operation, other = watch("a", "b", "c", ready=True), watch("c")
    assert purgatory.check_and_complete("b") == 1
    assert (purgatory.watched, purgatory.delayed) == (1, 1)
    for key in "abc":
        purgatory.check_and_complete(key)
    assert operation.diary == ["try", "complete"]
    assert other.diary == ["try"]


def test_a_check_counts_nothing_that_another_way_completed(purgatory, watch):
    """One that a callback forced meanwhile is that callback's."""
    forced = []
    watch("a", ready=True, completed=lambda _: forced.append(second.force_complete()))
    second = watch("a", ready=True)
    third = watch("a", ready=True)
    assert purgatory.check_and_complete("a") == 2
    assert forced == [True]
    assert second.diary == ["complete"]
    assert third.diary == ["try", "complete"]


def test_a_try_that_forces_is_counted(purgatory, watch):
    """`force_complete()` inside `try_complete` is its way to answer True."""
    watch("a", trying=lambda operation: operation.force_complete() and False)
    assert purgatory.check_and_complete("a") == 1


# --- callbacks that touch the key being checked


WHEN = ["trying", "completed"]


def doing(when, action):
    """Options of an operation that is ready, and acts in its try or after its completion."""
    return {"ready": True, when: lambda _: action()}


@pytest.mark.parametrize("when", WHEN)
def test_a_callback_may_add_to_the_key(purgatory, watch, make_operation, when):
    """What is added meanwhile is tried on its way in; the check ends, and it waits or has completed."""
    added = []

    def add():
        added.append(make_operation())
        assert purgatory.try_complete_else_watch(added[-1], ["a", "z"]) is False

    for _ in range(5):
        watch("a", **doing(when, add))
    assert purgatory.check_and_complete("a") == 5
    assert len(added) == 5
    assert (purgatory.watched, purgatory.delayed) == (10, 5)
    purgatory._check()
    for operation in added:
        operation.ready = True
    assert purgatory.check_and_complete("a") == 5


def test_a_check_ends_although_each_completion_adds_another(purgatory, watch, make_operation):
    """Those that came after the check began are not its to complete: it does not chase them."""
    rounds = []

    def add(_=None):
        rounds.append(1)
        operation = make_operation(completed=add)
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.ready = True

    watch("a", ready=True, completed=add)
    assert purgatory.check_and_complete("a") == 1
    assert len(rounds) == 1
    assert purgatory.delayed == 1


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("which", ["before", "next", "last", "all"])
@pytest.mark.parametrize("way", ["cancel", "force"])
def test_a_callback_may_end_others_of_the_key(purgatory, watch, when, which, way):
    """The one just tried, the next one, the last one, all: the check goes on with who is left."""

    def end():
        chosen = {"before": [0], "next": [2], "last": [4], "all": [0, 2, 3, 4]}[which]
        for number in chosen:
            (operations[number].cancel if way == "cancel" else operations[number].force_complete)()

    operations = []
    for number in range(5):
        operations.append(watch("a", "b", **(doing(when, end) if number == 1 else {})))
    assert purgatory.check_and_complete("a") == 1
    purgatory._check()
    ended = {"before": [0], "next": [2], "last": [4], "all": [0, 2, 3, 4]}[which]
    left = [number for number in (0, 2, 3, 4) if number not in ended]
    assert purgatory.delayed == len(left)
    assert purgatory.watched == 2 * len(left)
    for number in left:
        assert operations[number].diary == ["try"]
    for number in ended:
        assert operations[number].diary.count("complete") == (way == "force")


@pytest.mark.parametrize("when", WHEN)
def test_a_callback_may_cancel_the_key(purgatory, watch, when):
    """`cancel_for_key` of the key being checked: its operations are returned and not tried."""
    returned = []
    first = watch("a", ready=True)
    watch("a", "b", **doing(when, lambda: returned.extend(purgatory.cancel_for_key("a"))))
    rest = [watch("a", "b", ready=True) for _ in range(5)]
    count = purgatory.check_and_complete("a")
    assert first.diary == ["try", "complete"]
    assert set(rest) <= set(returned)
    assert count == 7 - len(returned)
    assert [operation.diary for operation in rest] == [[]] * 5
    assert (purgatory.watched, purgatory.delayed) == (0, 0)


@pytest.mark.parametrize("when", WHEN)
def test_a_callback_may_check_the_same_key(purgatory, watch, when):
    """It is queued and returns 0; nobody is completed twice."""
    counts = []

    def check():
        counts.append(purgatory.check_and_complete("a"))

    operations = [watch("a", **doing(when, check)) for _ in range(5)]
    stubborn = watch("a")
    assert 1 <= purgatory.check_and_complete("a") <= 5
    assert counts == [0] * 5
    assert [operation.diary for operation in operations] == [["try", "complete"]] * 5
    assert len(stubborn.diary) == 6  # by each of the six checks
    assert purgatory.delayed == 1


@pytest.mark.parametrize("when", WHEN)
def test_a_callback_may_close_the_purgatory(purgatory, watch, when):
    """R7: those that have not been tried are returned."""
    returned = []
    watch("a", **doing(when, lambda: returned.extend(purgatory.close())))
    rest = [watch("a", "b", ready=True) for _ in range(5)]
    purgatory.check_and_complete("a")
    assert set(rest) <= set(returned)
    assert [operation.diary for operation in rest] == [[]] * 5
    assert (purgatory.watched, purgatory.delayed) == (0, 0)


@pytest.mark.parametrize("when", WHEN)
def test_a_callback_may_move_others(purgatory, watch, advance, when):
    """`reschedule` of an operation of the key that is being checked."""
    watch("a", **doing(when, lambda: moved.reschedule(5.0)))
    moved = watch("a")
    purgatory.check_and_complete("a")
    advance(5.0)
    assert moved.diary == ["try", "complete", "expire"]


def test_random_callbacks_on_one_key(purgatory, make_operation, advance, rng):
    """Adding, ending, checking, moving from inside one another: whole after each step, each ends once."""
    operations = []

    def act(_=None):
        choice = rng.random()
        if choice < 0.3 or not operations:
            add()
        elif choice < 0.5:
            rng.choice(operations).force_complete()
        elif choice < 0.6:
            rng.choice(operations).cancel()
        elif choice < 0.8:
            purgatory.check_and_complete(rng.randrange(3))
        elif choice < 0.82:
            purgatory.cancel_for_key(rng.randrange(3))
        elif choice < 0.9:
            rng.choice(operations).reschedule(rng.choice((1.0, 50.0)))

    def add():
        operation = make_operation(rng.choice((1.0, 5.0, 70.0)))
        for name in ("trying", "completed", "expired"):
            if rng.random() < 0.5:
                setattr(operation, name, act)
        operations.append(operation)
        operation.ready = rng.random() < 0.2
        purgatory.try_complete_else_watch(operation, [rng.randrange(3) for _ in range(3)])
        operation.ready = rng.random() < 0.6

    while len(operations) < 1500:
        if rng.random() < 0.6:
            add()
        else:
            act()
        if rng.random() < 0.1:
            advance(rng.choice((1.0, 3.0)))
        purgatory._check()
    returned = purgatory.close()
    stats = purgatory.stats()
    completed = [operation for operation in operations if operation.is_completed]
    assert [operation.diary.count("complete") for operation in completed] == [1] * len(completed)
    assert sum(operation.diary.count("expire") for operation in operations) == stats.expired
    assert len(completed) == stats.completed + stats.expired
    assert not {operation for operation in returned if operation.is_completed}
    assert not [each for operation in operations for each in operation.diary if "inside" in each]
