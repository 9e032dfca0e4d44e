"""The three ends of an operation: completed, expired, dropped; each once, and each leaves nothing behind."""

import pytest


def gone(purgatory):
    """Whether nothing waits, in any list or in the timer."""
    purgatory._check()
    return (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (0, 0, 0)


def ends(purgatory):
    stats = purgatory.stats()
    return stats.completed, stats.expired, stats.dropped


# --- completed


def test_force_complete_is_true_once(purgatory, watch):
    """`on_complete` runs, the operation leaves every list and the timer, and no later call wins."""
    operation = watch("a", "b")
    assert operation.force_complete() is True
    assert operation.diary == ["complete"]
    assert operation.is_completed is True
    assert gone(purgatory)
    assert (operation.force_complete(), operation.cancel(), operation.reschedule(1.0)) == (False,) * 3
    assert operation.diary == ["complete"]
    assert ends(purgatory) == (1, 0, 0)


def test_force_complete_needs_no_purgatory(make_operation):
    """An operation that was never in one completes all the same, once."""
    operation = make_operation()
    assert operation.is_completed is False
    assert (operation.force_complete(), operation.force_complete()) == (True, False)
    assert operation.diary == ["complete"]
    assert operation.is_completed is True


def test_an_operation_forced_beforehand_is_complete(purgatory, make_operation):
    """`try_complete_else_watch` returns True for it, and counts nothing."""
    operation = make_operation()
    operation.force_complete()
    assert purgatory.try_complete_else_watch(operation, ["a"]) is True
    assert operation.diary == ["complete"]
    assert gone(purgatory)


def test_a_completed_operation_never_expires(purgatory, watch, advance):
    """`on_expiration` runs only if the timeout won."""
    operation = watch("a", ready=True, timeout=5.0)
    assert purgatory.check_and_complete("a") == 1
    assert advance(10.0) == 0
    assert operation.diary == ["try", "complete"]
    assert ends(purgatory) == (1, 0, 0)


def test_it_is_complete_before_on_complete(purgatory, watch):
    """`is_completed` is True inside the callbacks."""
    seen = []
    watch("a", completed=lambda operation: seen.append(operation.is_completed)).force_complete()
    assert seen == [True]


# --- expired


def test_a_timeout_completes_then_expires(purgatory, watch, advance):
    """`on_complete` runs, and `on_expiration` after it; nothing is tried."""
    operation = watch("a", "b", timeout=5.0)
    assert advance(4.0) == 0
    assert operation.diary == []
    assert advance(1.0) == 1
    assert operation.diary == ["complete", "expire"]
    assert operation.is_completed is True
    assert gone(purgatory)
    assert (operation.force_complete(), operation.cancel(), operation.reschedule(1.0)) == (False,) * 3
    assert purgatory.check_and_complete("a") == 0
    assert ends(purgatory) == (0, 1, 0)


def test_a_timeout_is_never_early(purgatory, watch, clock, advance):
    """R1: rounded up to a tick, from when it was given to the timer."""
    clock.advance(0.5)
    operation = watch("a", timeout=5.0)
    assert operation.when == 5.5
    assert advance(5.25) == 0
    assert advance(0.25) == 1
    assert operation.diary == ["complete", "expire"]


@pytest.mark.parametrize("timeout", [0, -0.0, -5.0])
def test_a_timeout_that_has_passed(purgatory, make_operation, advance, timeout):
    """R4: it is tried, watched and tried, and then due at once."""
    operation = make_operation(timeout)
    assert purgatory.try_complete_else_watch(operation, ["a"]) is False
    assert operation.diary == ["try", "try"]
    assert advance(0.0) == 1
    assert operation.diary == ["try", "try", "complete", "expire"]
    assert gone(purgatory)


@pytest.mark.parametrize("timeout", [100 * 365.25 * 86400, 1e12])
def test_a_timeout_of_centuries(purgatory, watch, advance, timeout):
    """It waits, and can be completed."""
    operation = watch("a", timeout=timeout)
    assert advance(99 * 365.25 * 86400) == 0
    assert operation.force_complete() is True
    assert gone(purgatory)


def test_reschedule_moves_the_timeout(purgatory, watch, advance):
    """R5: the same operation, on the same keys, later or earlier."""
    later, earlier = watch("a", timeout=5.0), watch("a", timeout=500.0)
    assert later.reschedule(50.0) is True
    assert earlier.reschedule(10.0) is True
    assert (purgatory.watched, purgatory.delayed) == (2, 2)
    assert advance(10.0) == 1
    assert (later.diary, earlier.diary) == ([], ["complete", "expire"])
    later.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert advance(100.0) == 0
    assert later.diary == ["try", "complete"]


def test_all_expire_in_order(purgatory, watch, advance):
    """R2: in the order of their deadlines."""
    order = []
    for timeout in (30.0, 1.0, 500.0, 2.0, 64.0):
        watch("a", timeout=timeout, expired=lambda _, timeout=timeout: order.append(timeout))
    advance(1000.0)
    assert order == [1.0, 2.0, 30.0, 64.0, 500.0]
    assert purgatory.stats().lateness_max == pytest.approx(999.0)


# --- dropped


def test_cancel_leaves_every_list(purgatory, watch, advance):
    """True once; nothing is called, and nothing can complete it any more."""
    operation = watch("a", "b", "c", timeout=5.0)
    assert [operation.cancel(), operation.cancel()] == [True, False]
    assert gone(purgatory)
    operation.ready = True
    assert (purgatory.check_and_complete("a"), operation.force_complete(), advance(10.0)) == (0, False, 0)
    assert (operation.diary, operation.is_completed, operation.state) == ([], False, "CANCELLED")
    assert ends(purgatory) == (0, 0, 1)


def test_cancel_for_key_drops_and_returns(purgatory, watch, advance):
    """From every list and the timer; nothing is tried or completed; the others stay."""
    first, second = watch("a", "b"), watch("a", "c", timeout=5.0)
    other = watch("b", "c", ready=True)
    assert set(purgatory.cancel_for_key("a")) == {first, second}
    assert (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (2, 1, 1)
    assert purgatory.cancel_for_key("a") == []
    assert advance(10.0) == 0
    assert purgatory.check_and_complete("b") == 1
    for operation in (first, second):
        assert (operation.diary, operation.is_completed, operation.cancel()) == ([], False, False)
    assert other.diary == ["try", "complete"]
    assert ends(purgatory) == (1, 0, 2)


def test_cancel_for_key_returns_only_what_was_pending(purgatory, watch, advance):
    """Those that completed, expired or were cancelled before have left the key."""
    done, taken, left = watch("a"), watch("a"), watch("a")
    watch("a", timeout=1.0)
    done.force_complete()
    advance(1.0)
    taken.cancel()
    assert purgatory.cancel_for_key("a") == [left]


def test_cancel_for_key_of_a_key_that_nobody_watches(purgatory, watch):
    """Nothing."""
    watch("a")
    assert purgatory.cancel_for_key("b") == []
    assert purgatory.watched == 1


def test_a_dropped_operation_may_be_watched_again(purgatory, make_purgatory, watch, advance):
    """Also elsewhere, on other keys; and then it completes, once."""
    other = make_purgatory("other")
    operation = watch("a", "b", timeout=5.0)
    for _ in range(3):
        operation.cancel()
        assert other.try_complete_else_watch(operation, ["x"]) is False
        assert other.cancel_for_key("x") == [operation]
        assert purgatory.try_complete_else_watch(operation, ["c"]) is False
    assert purgatory.check_and_complete("a") == 0
    assert (purgatory.watched, other.watched) == (1, 0)
    operation.diary.clear()
    assert advance(5.0) == 1
    assert operation.diary == ["complete", "expire"]
    assert ends(purgatory) == (0, 1, 3)
    assert ends(other) == (0, 0, 3)


def test_a_dropped_operation_may_complete_on_its_way_back(purgatory, watch):
    """The first try of its second life counts like any other."""
    operation = watch("a")
    operation.cancel()
    operation.ready = True
    assert purgatory.try_complete_else_watch(operation, ["a"]) is True
    assert operation.diary == ["try", "complete"]
    assert (operation.force_complete(), gone(purgatory)) == (False, True)


def test_cancel_of_an_operation_that_is_nowhere(make_operation):
    """False: there is nothing to leave; it can still complete."""
    operation = make_operation()
    assert (operation.cancel(), operation.reschedule(1.0)) == (False, False)
    assert operation.force_complete() is True


# --- close


def test_close_returns_what_never_completed(purgatory, watch, advance):
    """IDLE again, out of every list and the timer, and nothing of theirs was called."""
    done, taken = watch("a"), watch("a")
    watch("a", timeout=1.0)
    waiting = [watch("a", "b", timeout=5.0 + number) for number in range(10)]
    done.force_complete()
    advance(1.0)
    taken.cancel()
    returned = purgatory.close()
    assert len(returned) == 10
    assert set(returned) == set(waiting)
    assert {operation.state for operation in returned} == {"IDLE"}
    assert gone(purgatory)
    assert advance(100.0) == 0
    for operation in returned:
        assert (operation.diary, operation.is_completed) == ([], False)
        assert (operation.cancel(), operation.force_complete(), operation.reschedule(1.0)) == (False,) * 3
    assert ends(purgatory) == (1, 1, 11)
    assert purgatory.close() == []


def test_what_close_returned_may_be_watched_again(purgatory, make_purgatory, watch):
    """In another purgatory."""
    operation = watch("a", "b")
    other = make_purgatory("other")
    assert purgatory.close() == [operation]
    assert other.try_complete_else_watch(operation, ["a"]) is False
    operation.ready = True
    assert (purgatory.check_and_complete("a"), other.check_and_complete("a")) == (0, 1)


def test_a_with_block_closes(tw, timer, make_operation):
    """`with DelayedOperationPurgatory() as p`, also when the block fails."""
    operation = make_operation()

    def fail():
        with tw.DelayedOperationPurgatory(timer=timer) as purgatory:
            purgatories.append(purgatory)
            purgatory.try_complete_else_watch(operation, ["a"])
            raise ZeroDivisionError

    purgatories = []
    with pytest.raises(ZeroDivisionError):
        fail()
    assert operation.state == "IDLE"
    with pytest.raises(RuntimeError, match="closed"):
        purgatories[0].try_complete_else_watch(operation, ["a"])


def test_a_closed_purgatory_finds_nothing(purgatory, watch):
    """Its other methods go on working: there is nothing there."""
    watch("a")
    purgatory.close()
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.cancel_for_key("a") == []
    assert purgatory.stats().dropped == 1


# --- the account


def test_every_operation_ends_in_one_way(purgatory, make_operation, advance, rng):
    """completed, expired, dropped or pending, after each step; `watched` and `delayed` exact."""
    waiting, taken = {}, 0
    for step in range(3000):
        choice = rng.random()
        if choice < 0.5:
            operation = make_operation(float(rng.randrange(1, 100)), ready=rng.random() < 0.1)
            taken += 1
            if not purgatory.try_complete_else_watch(operation, keys := {rng.randrange(9) for _ in range(3)}):
                waiting[operation] = keys
                operation.ready = rng.random() < 0.5
        elif choice < 0.7:
            purgatory.check_and_complete(rng.randrange(9))
        elif choice < 0.8 and waiting:
            rng.choice(list(waiting)).force_complete()
        elif choice < 0.9 and waiting:
            waiting.pop(operation := rng.choice(list(waiting)))
            assert operation.cancel() is True
        elif choice < 0.91:
            for operation in purgatory.cancel_for_key(rng.randrange(9)):
                del waiting[operation]
        else:
            advance(float(rng.randrange(5)))
        waiting = {operation: keys for operation, keys in waiting.items() if not operation.is_completed}
        stats = purgatory.stats()
        assert stats.watched == purgatory.watched == sum(map(len, waiting.values()))
        assert stats.delayed == purgatory.delayed == len(waiting)
        assert sum(ends(purgatory)) + len(waiting) == taken
        if step % 100 == 0:
            purgatory._check()
