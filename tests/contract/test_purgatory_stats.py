"""`stats` of a purgatory, and what operations and purgatories are as objects."""

import copy
import pickle

import pytest

FIELDS = (
    "watched",
    "delayed",
    "completed",
    "expired",
    "dropped",
    "errors",
    "purged",
    "purges",
    "lateness_p50",
    "lateness_p99",
    "lateness_max",
)


def test_a_new_purgatory_has_counted_nothing(tw, purgatory):
    """Every field is there, and zero."""
    stats = purgatory.stats()
    assert isinstance(stats, tw.PurgatoryStats)
    assert stats._fields == FIELDS
    assert list(stats) == [0] * len(FIELDS)


def test_stats_are_a_snapshot(purgatory, watch):
    """What was read does not change afterwards."""
    before = purgatory.stats()
    watch("a", "b")
    assert (before.watched, before.delayed) == (0, 0)
    assert (purgatory.stats().watched, purgatory.stats().delayed) == (2, 1)


def test_completed_and_expired_are_disjoint(purgatory, watch, make_operation, advance):
    """An event, a force, a first or a second try are completions; a timeout is an expiration."""
    purgatory.try_complete_else_watch(make_operation(ready=True), ["a"])
    purgatory.try_complete_else_watch(make_operation(trying=lambda op: len(op.diary) == 2), ["a"])
    watch("a", ready=True)
    purgatory.check_and_complete("a")
    watch("a").force_complete()
    watch("a", timeout=1.0)
    advance(1.0)
    stats = purgatory.stats()
    assert (stats.completed, stats.expired, stats.dropped) == (4, 1, 0)


def test_lateness_is_from_the_deadline_to_the_expiry(purgatory, watch, advance):
    """In seconds, of those that expired alone: the largest exactly, percentiles never too small."""
    watch("a", timeout=1.0)
    watch("b", timeout=900.0).force_complete()
    advance(1.5)
    stats = purgatory.stats()
    assert stats.lateness_max == pytest.approx(0.5)
    for percentile in (stats.lateness_p50, stats.lateness_p99):
        assert 0.5 <= percentile <= 0.51


def test_percentiles_describe_the_distribution(purgatory, watch, clock, advance):
    """Ninety-eight on time, two late: the median stays low, p99 and the maximum do not."""
    for _ in range(98):
        watch("a", timeout=1.0)
        advance(1.0)
    for _ in range(2):
        watch("a", timeout=1.0)
    advance(101.0)
    stats = purgatory.stats()
    assert stats.lateness_max == pytest.approx(100.0)
    assert stats.lateness_p50 <= 1.0
    assert stats.lateness_p99 > 90.0


def test_lateness_includes_the_executors_queue(make_timer, make_purgatory, make_operation, clock, collecting):
    """What counts is when it expires, not when it was handed over."""
    purgatory = make_purgatory(timer=make_timer(tick=1.0, executor=collecting, clock=clock, start=False))
    purgatory.try_complete_else_watch(make_operation(1.0), ["a"])
    clock.advance(1.0)
    purgatory.timer.advance_clock()
    clock.advance(5.0)
    collecting.run_all()
    assert purgatory.stats().lateness_max == pytest.approx(5.0)


# --- as objects


def test_a_bare_operation_waits_for_its_timeout(tw, purgatory, advance):
    """Without a method of its own it is never ready, and does nothing when it completes."""
    operation = tw.DelayedOperation(5.0)
    assert isinstance(operation, tw.TimerTask)
    assert purgatory.try_complete_else_watch(operation, ["a"]) is False
    assert purgatory.check_and_complete("a") == 0
    assert (operation.when, operation.state, operation.callback) == (5.0, "PENDING", None)
    advance(5.0)
    assert operation.is_completed is True


def test_deadlines_survive_a_new_tick(purgatory, watch, timer, advance):
    """`Timer.reconfigure` moves operations like other tasks: same deadline, same keys."""
    operations = [watch("a", timeout=timeout) for timeout in (3.0, 40.0, 900.0)]
    timer.reconfigure(tick=0.5, wheel_size=3)
    assert (purgatory.watched, purgatory.delayed) == (3, 3)
    for operation, seconds in zip(operations, (3.0, 37.0, 860.0), strict=True):
        assert advance(seconds - 0.5) == 0
        assert advance(0.5) == 1
        assert operation.diary == ["complete", "expire"]


def test_is_completed_is_read_only(make_operation):
    """Completing is what `force_complete` is for."""
    operation = make_operation()
    with pytest.raises(AttributeError):
        operation.is_completed = True


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_is_linked_cannot_be_copied(purgatory, watch, duplicate):
    """TypeError: a copy would share the links of its original."""
    for thing in (watch("a"), purgatory):
        with pytest.raises(TypeError, match="pickle"):
            duplicate(thing)
    assert (purgatory.watched, purgatory.delayed) == (1, 1)


@pytest.mark.parametrize("timeout", ["1", None, [], 1j])
def test_a_timeout_is_a_number(tw, timeout):
    """TypeError for anything else."""
    with pytest.raises(TypeError):
        tw.DelayedOperation(timeout)


def test_initialising_a_waiting_operation_again_is_refused(purgatory, watch, advance):
    """`__init__` called a second time must not pull it from under the timer."""
    operation = watch("a", timeout=5.0)
    with pytest.raises(RuntimeError, match="already"):
        operation.__init__(1.0)
    assert advance(4.0) == 0
    assert advance(1.0) == 1
