"""R10 and I6 for operations: who holds what, and for how long."""

import gc
import sys
import weakref

import pytest


@pytest.fixture
def without_collector():
    """What is freed here is freed by its count."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


ENDS = ["first try", "second try", "check", "force", "expire", "cancel", "cancel_for_key", "close"]


@pytest.fixture
def end(purgatory, advance):
    """Sends a new operation along a path to its end, without keeping it."""

    def end(operation, how, keys=("a", "b", "c")):
        operation.ready = how == "first try"
        if how == "second try":
            operation.trying = lambda operation: len(operation.diary) == 2
        purgatory.try_complete_else_watch(operation, keys)
        operation.ready, operation.trying = True, None
        if how == "check":
            assert purgatory.check_and_complete("a") == 1
        elif how == "force":
            assert operation.force_complete() is True
        elif how == "expire":
            advance(60.0)
        elif how == "cancel":
            assert operation.cancel() is True
        elif how == "cancel_for_key":
            assert purgatory.cancel_for_key("c") == [operation]
        elif how == "close":
            assert purgatory.close() == [operation]

    return end


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("how", ENDS)
def test_what_has_ended_is_freed_at_once(end, make_operation, how):
    """R10: neither a list, nor the timer, nor a frame keeps an operation that was completed or dropped."""
    operation = make_operation()
    ref = weakref.ref(operation)
    end(operation, how)
    assert ref() is not None
    del operation
    assert ref() is None


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("how", ENDS)
def test_counts_come_back(end, make_operation, how):
    """I6: after its end an operation is as referred to as before, and so are its keys."""
    operation, key = make_operation(), object()
    before = sys.getrefcount(operation), sys.getrefcount(key)
    end(operation, how, keys=["a", key, "b", "c", key])
    assert (sys.getrefcount(operation), sys.getrefcount(key)) == before


@pytest.mark.usefixtures("without_collector")
def test_a_refused_operation_is_not_kept(purgatory, make_operation):
    """After an error nothing refers to it."""
    operation, key = make_operation(), object()
    before = sys.getrefcount(operation), sys.getrefcount(key)
    for make_keys in (list, lambda: [key, []], lambda: "letters", lambda: iter([key, key, {}])):
        with pytest.raises((TypeError, ValueError)):
            purgatory.try_complete_else_watch(operation, make_keys())
    assert (sys.getrefcount(operation), sys.getrefcount(key)) == before


def test_the_purgatory_keeps_what_waits_alive(purgatory, make_operation, advance):
    """I6: an operation that nobody else holds still completes; then it is gone."""
    ends = []

    def watch(timeout, key):
        operation = make_operation(timeout, completed=lambda _: ends.append(key))
        purgatory.try_complete_else_watch(operation, [key])
        operation.ready = True
        return weakref.ref(operation)

    refs = [watch(60.0, "checked"), watch(5.0, "expired")]
    gc.collect()
    assert None not in [ref() for ref in refs]
    assert purgatory.check_and_complete("checked") == 1
    advance(5.0)
    assert ends == ["checked", "expired"]
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_waiting_operations_in_cycles_are_not_collected(purgatory, make_operation):
    """What waits is reachable, though its only cycle goes through itself; once ended, it is collected."""
    operation = make_operation()
    operation.itself = operation
    ref = weakref.ref(operation)
    purgatory.try_complete_else_watch(operation, ["a"])
    del operation
    for _ in range(3):
        gc.collect()
    assert ref() is not None
    assert len(purgatory.cancel_for_key("a")) == 1
    gc.collect()
    assert ref() is None


def test_an_operation_may_hold_its_purgatory(tw, timer, make_operation, recwarn):
    """A cycle of purgatory and operation is collected, once both are closed or ended."""
    purgatory = tw.DelayedOperationPurgatory(timer=timer)
    operation = make_operation()
    operation.purgatory = purgatory
    purgatory.try_complete_else_watch(operation, ["a"])
    refs = weakref.ref(operation), weakref.ref(purgatory)
    purgatory.close()
    del operation, purgatory
    gc.collect()
    assert [ref() for ref in refs] == [None, None]
    assert not recwarn.list


def test_a_destructor_of_an_operation_uses_the_purgatory(purgatory, make_operation):
    """R7: the structures are whole when an operation that has left them is freed."""
    freed = []

    class Heir(make_operation):
        def __del__(self):
            purgatory._check()
            purgatory.try_complete_else_watch(make_operation(), ["a", "heirs"])
            purgatory.check_and_complete("b")
            freed.append(1)

    for _ in range(10):
        operation = Heir()
        purgatory.try_complete_else_watch(operation, ["a", "b"])
        operation.ready = True
    del operation
    assert purgatory.check_and_complete("a") == 10
    gc.collect()
    assert len(freed) == 10
    assert len(purgatory.cancel_for_key("heirs")) == 10
