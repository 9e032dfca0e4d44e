"""The purgatory and its timer: whose it is, who runs the timeouts, and what is left when one of them ends."""

import concurrent.futures
import threading

import pytest

WAIT = 30


# --- whose timer


def test_a_purgatory_makes_a_timer_and_closes_it(tw, make_operation):
    """Without `timer` it has one of its own, whose threads end with it."""
    before = threading.active_count()
    expired = threading.Event()
    with tw.DelayedOperationPurgatory("own") as purgatory:
        assert isinstance(purgatory.timer, tw.Timer)
        operation = make_operation(0.001, expired=lambda _: expired.set())
        assert purgatory.try_complete_else_watch(operation, ["a"]) is False
        assert expired.wait(WAIT)
        waiting = make_operation(3600.0)
        purgatory.try_complete_else_watch(waiting, ["a"])
    assert operation.diary == ["try", "try", "complete", "expire"]
    assert (waiting.state, waiting.diary) == ("IDLE", ["try", "try"])
    assert threading.active_count() == before
    with pytest.raises(RuntimeError, match="closed"):
        purgatory.timer.schedule(1.0, list)


def test_a_purgatory_does_not_close_a_timer_of_others(purgatory, make_purgatory, watch, timer, advance):
    """The timer goes on, with its own tasks and its other purgatories."""
    other, ran = make_purgatory("other"), []
    assert purgatory.timer is other.timer is timer
    timer.schedule(5.0, ran.append, 1)
    operation = watch("a", timeout=5.0)
    other.close()
    assert purgatory.close() == [operation]
    assert len(timer) == 1
    assert advance(5.0) == 1
    assert ran == [1]


def test_purgatories_on_one_timer_are_strangers(purgatory, make_purgatory, make_operation, watch):
    """Each has keys and figures of its own; the timer counts the operations of both."""
    other = make_purgatory("other")
    here, there = watch("a", ready=True), make_operation()
    other.try_complete_else_watch(there, ["a", "b"])
    assert (purgatory.watched, other.watched, len(purgatory.timer)) == (1, 2, 2)
    there.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert (here.is_completed, there.is_completed) == (True, False)
    assert purgatory.cancel_for_key("a") == []
    assert other.cancel_for_key("a") == [there]
    assert purgatory.stats().dropped == 0


def test_names(tw, make_purgatory):
    """`name` is the first argument, and in the repr."""
    assert make_purgatory().name == "purgatory"
    purgatory = make_purgatory("produce")
    assert purgatory.name == "produce"
    assert "produce" in repr(purgatory)
    purgatory.close()
    assert "closed" in repr(purgatory)


@pytest.mark.parametrize("timer", [3, "timer", list])
def test_a_timer_is_a_timer(tw, timer):
    """TypeError that names `timer` for anything else."""
    with pytest.raises(TypeError, match=r"^timer must be "):
        tw.DelayedOperationPurgatory(timer=timer)


def test_a_purgatory_that_forgot_its_init_is_told(tw, make_operation):
    """An error for each method, and no crash."""

    class Forgetful(tw.DelayedOperationPurgatory):
        def __init__(self):
            pass

    purgatory = Forgetful()
    for call in (
        lambda: purgatory.try_complete_else_watch(make_operation(), ["a"]),
        lambda: purgatory.check_and_complete("a"),
        lambda: purgatory.cancel_for_key("a"),
        lambda: purgatory.watched,
        lambda: purgatory.delayed,
        purgatory.stats,
        purgatory.close,
        purgatory._check,
    ):
        with pytest.raises((RuntimeError, AttributeError)):
            call()


def test_an_operation_that_forgot_its_init_is_told(tw, purgatory):
    """One whose `__init__` was never called has no timeout: RuntimeError before the first try."""

    class Forgetful(tw.DelayedOperation):
        def __init__(self):
            pass

        def try_complete(self):
            raise AssertionError("tried")

    operation = Forgetful()
    assert operation.cancel() is False
    with pytest.raises(RuntimeError, match="__init__"):
        purgatory.try_complete_else_watch(operation, ["a"])
    assert (purgatory.watched, purgatory.stats().errors, len(purgatory.timer)) == (0, 0, 0)


# --- the timer ends first


def test_a_closed_timer_takes_no_operation(purgatory, make_operation, timer):
    """RuntimeError before the first try, and nothing is watched."""
    timer.close()
    operation = make_operation(ready=True)
    with pytest.raises(RuntimeError, match="closed"):
        purgatory.try_complete_else_watch(operation, ["a"])
    assert (operation.diary, purgatory.watched, purgatory.delayed) == ([], 0, 0)
    assert operation.state == "IDLE"


@pytest.mark.parametrize("which", [1, 2])
def test_a_timer_closed_during_a_try(purgatory, make_operation, make_timer, make_purgatory, timer, which):
    """RuntimeError, and nothing stays watched: the operation may be brought elsewhere."""
    operation = make_operation(trying=lambda operation: len(operation.diary) == which and timer.close())
    with pytest.raises(RuntimeError, match="closed"):
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    purgatory._check()
    assert (purgatory.watched, purgatory.delayed) == (0, 0)
    other = make_purgatory("other", timer=make_timer(executor="inline", start=False))
    operation.trying = None
    assert other.try_complete_else_watch(operation, ["a"]) is False


def test_a_timer_closed_under_its_operations(purgatory, watch, timer):
    """Their timeouts come no more; events still complete them, and `close` returns those that are left."""
    operations = [watch("a", "b") for _ in range(3)]
    assert set(timer.close()) == set(operations)
    assert purgatory.watched == 6
    operations[0].ready = True
    assert purgatory.check_and_complete("a") == 1
    assert operations[1].cancel() is True
    assert purgatory.close() == [operations[2]]
    assert [operation.diary for operation in operations] == [["try", "complete"], ["try"], ["try"]]
    assert (purgatory.watched, purgatory.delayed) == (0, 0)


def test_an_operation_of_a_closed_timer_is_still_in_its_purgatory(
    purgatory, watch, make_timer, make_purgatory, timer
):
    """RuntimeError where it is brought, also elsewhere, though its timer returned it; until it is dropped."""
    operation = watch("a", "b")
    other = make_purgatory("other", timer=make_timer(executor="inline", start=False))
    assert timer.close() == [operation]
    with pytest.raises(RuntimeError, match="already"):
        other.try_complete_else_watch(operation, ["a"])
    assert (operation.diary, operation.state) == ([], "IDLE")
    assert (purgatory.watched, other.watched, other.delayed, len(other.timer)) == (2, 0, 0, 0)
    assert purgatory.cancel_for_key("a") == [operation]
    assert other.try_complete_else_watch(operation, ["a"]) is False
    assert (purgatory.watched, purgatory.delayed, other.watched, other.delayed) == (0, 0, 1, 1)


# --- who runs the timeouts


@pytest.mark.parametrize("kind", ["worker", "inline", "pool"])
def test_timeouts_run_on_the_timers_executor(make_timer, make_purgatory, make_operation, kind):
    """`on_complete` and `on_expiration` of one that timed out, both on the same thread of the executor."""
    with concurrent.futures.ThreadPoolExecutor(1, "pool") as pool:
        options = {"worker": None, "inline": "inline", "pool": pool}
        purgatory = make_purgatory(timer=make_timer(name="t", executor=options[kind]))
        threads, over = [], threading.Event()

        def note(_):
            threads.append(threading.current_thread().name)
            if len(threads) == 2:
                over.set()

        operation = make_operation(0.001, completed=note, expired=note)
        assert purgatory.try_complete_else_watch(operation, ["a"]) is False
        assert over.wait(WAIT)
        assert threads == [{"worker": "t-worker", "inline": "t-reaper", "pool": "pool_0"}[kind]] * 2
        assert operation.diary == ["try", "try", "complete", "expire"]
        assert (purgatory.watched, purgatory.delayed) == (0, 0)


def test_a_check_runs_callbacks_in_the_callers_thread(purgatory, watch):
    """What an event completes needs no other thread."""
    threads = []
    watch("a", ready=True, completed=lambda _: threads.append(threading.get_ident()))
    purgatory.check_and_complete("a")
    assert threads == [threading.get_ident()]


@pytest.fixture
def queued(make_timer, make_purgatory, make_operation, clock, collecting):
    """A purgatory and its operation that is due, but waits in the executor's queue; and that executor."""
    timer = make_timer(tick=1.0, executor=collecting, clock=clock, start=False)
    purgatory, operation = make_purgatory(timer=timer), make_operation(5.0)
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    clock.advance(5.0)
    assert timer.advance_clock() == 1
    assert operation.state == "QUEUED"
    return purgatory, operation, collecting


@pytest.mark.parametrize("way", ["force", "check", "cancel", "cancel_for_key", "close", "reschedule"])
def test_until_the_timeout_has_started_every_other_end_wins(queued, way):
    """R3: due is not expired; what was decided first takes the operation out of the executor's queue."""
    purgatory, operation, executor = queued
    assert (purgatory.watched, purgatory.delayed, operation.is_completed) == (2, 1, False)
    if way == "force":
        assert operation.force_complete() is True
    elif way == "check":
        operation.ready = True
        assert purgatory.check_and_complete("b") == 1
    elif way == "cancel":
        assert operation.cancel() is True
    elif way == "cancel_for_key":
        assert purgatory.cancel_for_key("a") == [operation]
    elif way == "close":
        assert purgatory.close() == [operation]
    else:
        assert operation.reschedule(1000.0) is True
    pending = way == "reschedule"
    assert (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (2 * pending, pending, pending)
    executor.run_all()
    assert "expire" not in operation.diary
    assert operation.diary.count("complete") == (way in ("force", "check"))


def test_a_timeout_that_has_started_wins(queued):
    """The executor's entry decides, and later ends find it decided."""
    purgatory, operation, executor = queued
    executor.run_all()
    assert operation.diary == ["try", "try", "complete", "expire"]
    assert (operation.force_complete(), operation.cancel(), purgatory.close()) == (False, False, [])


# --- close


@pytest.mark.parametrize("when", ["completed", "expired"])
def test_close_from_a_callback_of_its_own_timer(tw, make_operation, when):
    """R9: it does not wait for itself; the others are returned."""
    purgatory = tw.DelayedOperationPurgatory("own")
    returned, over = [], threading.Event()

    def close(_):
        returned.extend(purgatory.close())
        over.set()

    waiting = make_operation(3600.0)
    purgatory.try_complete_else_watch(waiting, ["a"])
    purgatory.try_complete_else_watch(make_operation(0.001, **{when: close}), ["a"])
    assert over.wait(WAIT)
    assert returned == [waiting]
    assert purgatory.close() == []


def test_many_threads_close_at_once(purgatory, watch, start):
    """R9: each operation is returned once, to one of them."""
    operations = {watch("a", number) for number in range(2000)}
    barrier = threading.Barrier(4)

    def close():
        barrier.wait(WAIT)
        return purgatory.close()

    closings = [start(close) for _ in range(4)]
    returned = [operation for closing in closings for operation in closing.result(WAIT)]
    assert len(returned) == 2000
    assert set(returned) == operations


def test_close_returns_them_by_their_deadlines(purgatory, watch):
    """As a timer does: the first to time out comes first."""
    operations = [watch("a", timeout=timeout) for timeout in (50.0, 3.0, 700.0, 20.0)]
    assert purgatory.close() == [operations[n] for n in (1, 3, 0, 2)]


def test_a_closed_purgatory_leaves_no_operation_in_the_timer(purgatory, watch, timer):
    """Those that it returned are no longer the timer's."""
    watch("a")
    purgatory.close()
    assert timer.close() == []
    stats = timer.stats()
    assert stats.scheduled == stats.fired + stats.cancelled + stats.pending + 1
