"""Other threads at an operation on its way in: it is completed, dropped, brought twice, or there is news."""

import pytest

WAIT = 30


@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize("answer", [False, True])
def test_forced_on_its_way_in(purgatory, make_operation, make_gate, start, which, answer):
    """A completion by another thread during the first or the second try: True, and nothing stays watched."""
    gate = make_gate()

    def trying(operation):
        if len(operation.diary) == which:
            gate.hold()
            return answer
        return False

    operation = make_operation(trying=trying)
    way_in = start(purgatory.try_complete_else_watch, operation, ["k", "l"])
    gate.wait_entered()
    assert start(operation.force_complete).result(WAIT) is True
    assert operation.diary == ["try"] * which
    gate.open()
    assert way_in.result(WAIT) is True
    assert operation.diary == ["try"] * which + ["complete"]
    assert (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (0, 0, 0)
    assert purgatory.stats().completed == 1


@pytest.mark.parametrize("way", ["cancel_for_key", "close"])
def test_dropped_on_its_way_in(purgatory, make_operation, make_gate, start, way):
    """During its second try it is watched: it may be dropped, never both returned and left waiting."""
    gate = make_gate()
    operation = make_operation(trying=lambda operation: bool(len(operation.diary) == 2 and gate.hold()))
    way_in = start(purgatory.try_complete_else_watch, operation, ["k", "l"])
    gate.wait_entered()
    drop = {"close": purgatory.close, "cancel_for_key": lambda: purgatory.cancel_for_key("k")}[way]
    returned = start(drop).result(WAIT)
    gate.open()
    try:
        assert way_in.result(WAIT) is False
    except RuntimeError as error:
        assert way == "close" and "closed" in str(error)
    assert operation.diary == ["try", "try"]
    assert operation.is_completed is False
    purgatory._check()
    assert returned == [operation]
    assert (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (0, 0, 0)


def test_an_event_during_the_second_try(purgatory, make_operation, make_gate, start):
    """It finds the operation watched, and leads to one more try before the timer."""
    gate = make_gate()
    operation = make_operation(trying=lambda operation: bool(len(operation.diary) == 2 and gate.hold()))
    way_in = start(purgatory.try_complete_else_watch, operation, ["k"])
    gate.wait_entered()
    operation.trying, operation.ready = lambda operation: len(operation.diary) > 2, False
    assert start(purgatory.check_and_complete, "k").result(WAIT) == 0
    gate.open()
    assert way_in.result(WAIT) is True
    assert operation.diary == ["try", "try", "try", "complete"]
    assert (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (0, 0, 0)


def test_two_threads_bring_the_same_operation(purgatory, make_operation, make_gate, start):
    """The second is refused while the first is still trying: RuntimeError."""
    gate = make_gate()
    operation = make_operation(trying=lambda operation: bool(len(operation.diary) == 1 and gate.hold()))
    way_in = start(purgatory.try_complete_else_watch, operation, ["k"])
    gate.wait_entered()
    with pytest.raises(RuntimeError, match="already"):
        start(purgatory.try_complete_else_watch, operation, ["l"]).result(WAIT)
    gate.open()
    assert way_in.result(WAIT) is False
    assert operation.diary == ["try", "try"]
    assert purgatory.watched == 1
