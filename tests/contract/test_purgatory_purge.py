"""`purge_interval=N`, Kafka's way, kept for comparison: completed ones stay in the lists until a purge."""

import gc
import math
import sysconfig
import threading
import weakref

import pytest

GIL = not sysconfig.get_config_var("Py_GIL_DISABLED")


@pytest.fixture
def make(make_purgatory, make_operation):
    """Makes a purgatory that purges, and a function that lets operations wait in it."""

    def make(purge_interval, **options):
        purgatory = make_purgatory(purge_interval=purge_interval, **options)

        def watch(*keys, timeout=60.0):
            operation = make_operation(timeout)
            assert purgatory.try_complete_else_watch(operation, keys) is False
            return operation

        return purgatory, watch

    return make


def figures(purgatory):
    purgatory._check()
    stats = purgatory.stats()
    assert stats.watched == purgatory.watched
    return stats.watched, stats.purges, stats.purged


def test_completed_operations_stay_until_a_purge(make, advance):
    """`watched` counts them; the purge comes when E - pending > N, in `advance_clock`, and takes all out."""
    purgatory, watch = make(3)
    operations = [watch("a", "b") for _ in range(10)]
    for completed in range(1, 4):
        operations.pop().force_complete()
        advance(0.0)
        assert purgatory.delayed == 10 - completed
        assert figures(purgatory) == (20, 0, 0)
    operations.pop().force_complete()
    assert figures(purgatory) == (20, 0, 0)
    advance(0.0)
    assert figures(purgatory) == (12, 1, 8)
    assert (purgatory.delayed, len(purgatory.timer)) == (6, 6)


def test_the_estimate_is_reset_to_what_is_pending(make, advance):
    """After a purge it takes more than N completions again, however many wait."""
    purgatory, watch = make(2)
    operations = [watch("a") for _ in range(20)]
    for purges in range(1, 6):
        for _ in range(2):
            operations.pop().force_complete()
            advance(0.0)
            assert figures(purgatory)[1] == purges - 1
        operations.pop().force_complete()
        advance(0.0)
        assert figures(purgatory) == (len(operations), purges, 3 * purges)


def test_every_end_counts(make, make_operation, advance):
    """Completed by force, by a check of another key, by its timeout, by its second try."""
    purgatory, watch = make(3)
    waiting = watch("a")
    watch("a", timeout=1.0)
    advance(1.0)
    watch("a").force_complete()
    checked = watch("a", "b")
    checked.ready = True
    assert purgatory.check_and_complete("b") == 1
    advance(0.0)
    assert purgatory.stats().purges == 0
    second = make_operation(trying=lambda operation: len(operation.diary) == 2)
    assert purgatory.try_complete_else_watch(second, ["a", "c"]) is True
    advance(0.0)
    assert figures(purgatory)[:2] == (1, 1)
    assert purgatory.cancel_for_key("a") == [waiting]


def test_an_operation_complete_at_its_first_try_counts_nothing(make, make_operation, advance):
    """It was never watched."""
    purgatory, _ = make(0)
    for _ in range(5):
        assert purgatory.try_complete_else_watch(make_operation(ready=True), ["a"]) is True
    advance(0.0)
    assert figures(purgatory) == (0, 0, 0)


def test_a_purge_interval_of_zero(make, advance):
    """The first completion is one too many."""
    purgatory, watch = make(0)
    watch("a", "b").force_complete()
    assert purgatory.watched == 2
    advance(0.0)
    assert figures(purgatory) == (0, 1, 2)


def test_a_check_takes_out_what_it_meets(make, advance):
    """Completed ones leave the list that is checked, neither tried nor counted; on others they stay."""
    purgatory, watch = make(100)
    done = [watch("a", "b") for _ in range(3)]
    for operation in done:
        operation.force_complete()
    ready, waiting = watch("a", "b"), watch("a", "b")
    ready.ready = True
    assert purgatory.watched == 10
    assert purgatory.check_and_complete("a") == 1
    assert [operation.diary.count("try") for operation in done] == [2] * 3
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.watched == 6  # "a": waiting; "b": all five
    assert purgatory.check_and_complete("b") == 0
    assert purgatory.watched == 2
    assert figures(purgatory)[1:] == (0, 0)
    assert purgatory.cancel_for_key("a") == [waiting]


def test_dropped_operations_leave_at_once(make):
    """`cancel` and `cancel_for_key` take them out of every list here too; none that completed is returned."""
    purgatory, watch = make(100)
    done, taken, first, second = watch("a", "b"), watch("a", "b"), watch("a", "b"), watch("b", "c")
    done.force_complete()
    assert taken.cancel() is True
    assert purgatory.watched == 6
    assert purgatory.cancel_for_key("a") == [first]
    assert purgatory.cancel_for_key("a") == []
    assert purgatory.delayed == 1
    assert purgatory.cancel_for_key("b") == [second]
    assert purgatory.stats().dropped == 3


def test_an_operation_that_was_dropped_may_come_again(make, advance):
    """Once in the lists, and once in the estimate each time."""
    purgatory, watch = make(1)
    operation = watch("a", "b")
    operation.cancel()
    assert purgatory.try_complete_else_watch(operation, ["a"]) is False
    assert purgatory.watched == 1
    operation.force_complete()
    advance(0.0)
    assert purgatory.watched == 0


def test_close_empties_the_lists(make):
    """Completed operations are let go, those that wait are returned."""
    purgatory, watch = make(100)
    done, waiting = watch("a", "b"), watch("a", "b")
    done.force_complete()
    assert purgatory.watched == 4
    assert purgatory.close() == [waiting]
    assert (purgatory.watched, purgatory.delayed) == (0, 0)


def test_a_completed_operation_is_held_until_the_purge(make, advance):
    """What Kafka's way costs: memory; after the purge nothing is left, neither operation nor key."""

    class Key:
        pass

    _, watch = make(1)
    key = Key()
    operation = watch(key, "b")
    refs = weakref.ref(operation), weakref.ref(key)
    operation.force_complete()
    del operation, key
    gc.collect()
    assert None not in [ref() for ref in refs]
    watch("c").force_complete()
    advance(0.0)
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_an_operation_that_was_purged_pins_no_key(make, advance):
    """R10: what its owner still holds holds no key any more."""

    class Key:
        pass

    _, watch = make(0)
    key = Key()
    operation, ref = watch(key, "b"), weakref.ref(key)
    operation.force_complete()
    del key
    advance(0.0)
    gc.collect()
    assert operation.is_completed
    assert ref() is None


@pytest.mark.parametrize("end", ["close", "drop"])
def test_nothing_is_left_behind_without_a_purge(tw, timer, make_operation, end, recwarn):
    """Completed operations that no purge came for go with their purgatory."""
    purgatory = tw.DelayedOperationPurgatory(timer=timer, purge_interval=1000)
    operation = make_operation()
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    operation.force_complete()
    ref = weakref.ref(operation)
    del operation
    if end == "close":
        assert purgatory.close() == []
    del purgatory
    gc.collect()
    assert ref() is None
    assert [warning.category for warning in recwarn] == ([ResourceWarning] if end == "drop" else [])


def test_the_completion_that_crosses_wakes_the_reaper(make, make_timer, scripted):
    """With a reaper the purge comes by itself, on its thread, though nothing is due for an hour."""
    purgers = []

    class Key:
        def __del__(self):
            purgers.append(threading.current_thread().name)

    purgatory, watch = make(1, timer=make_timer(clock=scripted, name="purging"))
    operation = watch(Key(), timeout=3600.0)
    scripted.wait_for_sleep(lambda when: when < math.inf)
    operation.force_complete()
    del operation
    assert figures(purgatory) == (1, 0, 0)
    watch("a", timeout=7200.0).force_complete()
    scripted.wait_for_sleep()  # again
    assert figures(purgatory) == (0, 1, 2)
    gc.collect()  # without a GIL an object is freed by the thread that made it
    assert purgers == ["purging-reaper" if GIL else threading.current_thread().name]


def test_a_purge_meets_destructors_that_use_the_purgatory(make, make_operation, advance):
    """R7: keys freed by a purge watch, check and cancel while the rest is purged."""
    purgatory, watch = make(10)

    class Heir:
        def __init__(self, number):
            self.number = number

        def __del__(self):
            purgatory._check()
            purgatory.try_complete_else_watch(make_operation(), ["heirs", self.number])
            purgatory.check_and_complete(self.number + 1)
            if self.number % 3 == 0:
                purgatory.cancel_for_key(self.number - 1)

    for number in range(50):
        watch(Heir(number), number).force_complete()
    advance(0.0)
    gc.collect()
    advance(0.0)
    purgatory._check()
    assert purgatory.delayed == len(purgatory.cancel_for_key("heirs")) > 0


@pytest.mark.parametrize(
    ("value", "error"), [(-1, ValueError), (1.5, TypeError), ("9", TypeError)]
)
def test_a_bad_purge_interval_is_named(tw, timer, value, error):
    """ValueError: `purge_interval must be >= 0, got -1`; TypeError for what is no integer."""
    with pytest.raises(error) as heard:
        tw.DelayedOperationPurgatory(timer=timer, purge_interval=value)
    assert error is TypeError or str(heard.value) == "purge_interval must be >= 0, got -1"


def test_random_purges_agree_with_kafkas_estimate(make, advance, rng):
    """E and the purges, against a few lines of plain arithmetic, over thousands of operations."""
    interval = rng.choice((1, 5, 50))
    purgatory, watch = make(interval)
    estimate = purges = 0
    waiting = []
    for _ in range(3000):
        if rng.random() < 0.6 or not waiting:
            waiting.append(watch(rng.randrange(9), rng.randrange(9, 12)))
            estimate += 1
        else:
            waiting.pop(rng.randrange(len(waiting))).force_complete()
            if estimate - len(waiting) > interval:
                estimate = len(waiting)
                purges += 1
                assert purgatory.watched >= 2 * (len(waiting) + interval + 1)
                advance(0.0)
                assert purgatory.watched == 2 * len(waiting)
        assert (purgatory.stats().purges, purgatory.delayed) == (purges, len(waiting))
    stats = purgatory.stats()
    assert stats.purged + stats.watched == 2 * (stats.completed + len(waiting))
