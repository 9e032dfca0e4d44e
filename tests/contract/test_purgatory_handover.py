"""Two threads at one operation: nobody waits, nothing overlaps, nothing is lost."""

import threading

import pytest

WAIT = 30


class Held:
    """An operation of "k" and "l" that a check of "k", in another thread, is inside of until `let_go`."""

    def __init__(self, operation, gate, check):
        self.operation, self.gate, self.check = operation, gate, check

    def let_go(self):
        """Returns what the check counted, when it is over."""
        self.gate.open()
        return self.check.result(WAIT)


class Undecidable:
    """An answer that is an error."""

    def __bool__(self):
        raise ZeroDivisionError


@pytest.fixture
def hold(purgatory, watch, make_gate, start):
    """Makes a `Held`: `answer` is what the try that is held returns."""

    def hold(*, answer=False, **options):
        operation = watch("k", "l", **options)
        gate = make_gate()

        def trying(operation):
            operation.trying = None
            gate.hold()
            return answer

        operation.trying = trying
        check = start(purgatory.check_and_complete, "k")
        gate.wait_entered()
        return Held(operation, gate, check)

    return hold


@pytest.fixture
def promptly(start):
    """Calls a function in a thread of its own and returns its result: fails if it waits for anything."""

    def promptly(function, *args):
        return start(function, *args).result(WAIT)

    return promptly


# --- a completion while another thread is inside


@pytest.mark.parametrize("answer", [False, True])
def test_a_forced_completion_is_handed_over(purgatory, hold, promptly, answer):
    """`force_complete` wins at once and does not wait; `on_complete` runs when the try has returned."""
    threads = []
    held = hold(answer=answer, completed=lambda _: threads.append(threading.get_ident()))
    operation = held.operation
    winner = promptly(lambda: (operation.force_complete(), threading.get_ident()))
    assert winner[0] is True
    assert operation.is_completed is True
    assert operation.diary == ["try"]
    assert promptly(operation.force_complete) is False
    assert held.let_go() == 0
    assert operation.diary == ["try", "complete"]
    assert len(threads) == 1
    assert (purgatory.watched, purgatory.delayed, len(purgatory.timer)) == (0, 0, 0)
    assert purgatory.stats().completed == 1


def test_a_handed_over_completion_runs_in_the_thread_inside(hold, start):
    """The thread that is inside runs it, not the one that won."""
    ran = []
    held = hold(completed=lambda _: ran.append(threading.get_ident()))
    winner = threading.get_ident()
    assert held.operation.force_complete() is True
    assert ran == []
    held.let_go()
    assert len(ran) == 1
    assert winner not in ran


@pytest.mark.parametrize("answer", [False, True])
def test_a_timeout_is_handed_over(purgatory, hold, advance, answer):
    """It is decided at once; `on_complete`, and `on_expiration` with it, run in the thread inside."""
    held = hold(answer=answer, timeout=5.0)
    advance(5.0)
    assert held.operation.is_completed is True
    assert held.operation.diary == ["try"]
    assert held.let_go() == 0
    assert held.operation.diary == ["try", "complete", "expire"]
    stats = purgatory.stats()
    assert (stats.completed, stats.expired, stats.delayed, stats.watched) == (0, 1, 0, 0)


@pytest.mark.parametrize("answer", [False, True])
@pytest.mark.parametrize("way", ["cancel", "cancel_for_key", "close"])
def test_what_is_dropped_meanwhile_does_not_complete(purgatory, hold, promptly, answer, way):
    """The drop wins, although the try that runs then answers True."""
    held = hold(answer=answer)
    operation = held.operation
    if way == "cancel":
        assert promptly(operation.cancel) is True
    elif way == "cancel_for_key":
        assert promptly(purgatory.cancel_for_key, "l") == [operation]
    else:
        assert promptly(purgatory.close) == [operation]
    assert (purgatory.watched, purgatory.delayed) == (0, 0)
    assert held.let_go() == 0
    assert operation.diary == ["try"]
    assert operation.is_completed is False
    assert purgatory.stats().dropped == 1


def test_what_was_dropped_meanwhile_may_come_again(purgatory, hold, promptly):
    """Refused or accepted while the old try still runs, it overlaps nothing, and is accepted after it."""
    held = hold(answer=True)
    operation = held.operation
    operation.cancel()
    try:
        promptly(purgatory.try_complete_else_watch, operation, ["m"])
    except RuntimeError:
        held.let_go()
        purgatory.try_complete_else_watch(operation, ["m"])
    held.let_go()
    assert not [entry for entry in operation.diary if "inside" in entry]
    operation.ready = True
    purgatory.check_and_complete("m")
    assert operation.diary.count("complete") == 1
    purgatory._check()


# --- an event while another thread is inside


def test_an_event_meanwhile_leads_to_one_more_try(purgatory, hold, promptly):
    """The check does not wait: 0; the thread inside tries again before it comes out, and completes."""
    held = hold(answer=False)
    held.operation.ready = True
    assert promptly(purgatory.check_and_complete, "l") == 0
    assert held.operation.diary == ["try"]
    assert held.let_go() == 1
    assert held.operation.diary == ["try", "try", "complete"]


def test_many_events_meanwhile_are_seen_by_one_more_try(purgatory, hold, promptly):
    """A try that begins after all of them has seen all of them."""
    held = hold(answer=False)
    for key in "klkl":
        assert promptly(purgatory.check_and_complete, key) == 0
    assert held.let_go() == 0
    assert held.operation.diary == ["try", "try"]
    held.operation.ready = True
    assert purgatory.check_and_complete("k") == 1


def test_an_event_meanwhile_on_another_key_is_no_event(purgatory, hold, promptly):
    """Nothing is tried again for a key that it does not watch."""
    held = hold(answer=False)
    promptly(purgatory.check_and_complete, "m")
    assert held.let_go() == 0
    assert held.operation.diary == ["try"]


def test_an_event_during_the_extra_try_leads_to_another(purgatory, hold, promptly, make_gate):
    """No event is lost, however often it strikes."""
    held = hold(answer=False)
    gates = [make_gate() for _ in range(5)]
    rest = list(gates)

    def again(_):
        if rest:
            rest.pop(0).hold()
        return False

    held.operation.trying = again
    promptly(purgatory.check_and_complete, "l")
    held.gate.open()
    for gate in gates:
        gate.wait_entered()
        assert promptly(purgatory.check_and_complete, "l") == 0
        gate.open()
    assert held.check.result(WAIT) == 0
    assert held.operation.diary == ["try"] * 7


def test_an_event_that_comes_with_an_error_is_not_lost(purgatory, hold, promptly, caplog):
    """A try that raises counts as False; the event that struck meanwhile leads to one more."""
    held = hold(answer=Undecidable())
    held.operation.ready = True
    promptly(purgatory.check_and_complete, "l")
    assert held.let_go() == 1
    assert held.operation.diary == ["try", "try", "complete"]
    assert purgatory.stats().errors == 1


# --- nobody waits


def test_a_check_does_not_wait_for_an_on_complete(purgatory, watch, make_gate, start):
    """While another thread is in an `on_complete`, the other operations of that key are completed."""
    gate = make_gate()
    slow = watch("k", ready=True, completed=lambda _: gate.hold())
    others = [watch("k", ready=True) for _ in range(5)]
    first = start(purgatory.check_and_complete, "k")
    gate.wait_entered()
    assert start(purgatory.check_and_complete, "k").result(WAIT) == 5
    assert [other.diary for other in others] == [["try", "complete"]] * 5
    gate.open()
    assert first.result(WAIT) == 1
    assert slow.diary == ["try", "complete"]


def test_a_check_goes_past_an_operation_that_is_being_tried(purgatory, hold, watch, promptly):
    """The next ones of the key are tried and completed meanwhile."""
    held = hold(answer=True)
    other = watch("k", ready=True)
    assert promptly(purgatory.check_and_complete, "k") == 1
    assert other.diary == ["try", "complete"]
    assert held.let_go() == 1


@pytest.mark.parametrize("way", ["force", "check"])
@pytest.mark.parametrize("answer", [False, True])
def test_two_threads_complete_each_others_operations(purgatory, watch, make_gate, start, way, answer):
    """The deadlock of locks taken in two orders: each is inside one operation and wants the other."""
    entered = [make_gate(), make_gate()]
    done = threading.Barrier(2)
    results = []

    def trying(mine, other):
        def try_(operation):
            operation.trying = None
            entered[mine].hold()
            if way == "force":
                results.append(operations[other].force_complete())
            else:
                results.append(purgatory.check_and_complete(other))
            done.wait(WAIT)
            return answer

        return try_

    operations = [watch(0, ready=True), watch(1, ready=True)]
    for mine, operation in enumerate(operations):
        operation.trying = trying(mine, 1 - mine)
    checks = [start(purgatory.check_and_complete, key) for key in (0, 1)]
    for gate in entered:
        gate.wait_entered()
    for gate in entered:
        gate.open()
    for check in checks:
        assert check.result(WAIT) in (0, 1)
    assert results == ([True, True] if way == "force" else [0, 0])
    for operation in operations:
        assert operation.diary.count("complete") == 1
        assert not [entry for entry in operation.diary if "inside" in entry]
    assert (purgatory.watched, purgatory.delayed) == (0, 0)


def test_the_timer_does_not_wait_for_a_try(purgatory, hold, watch, advance):
    """One operation's slow `try_complete` holds up neither the wheel nor the other timeouts."""
    held = hold(timeout=5.0)
    other = watch("m", timeout=5.0)
    advance(5.0)
    assert other.diary == ["complete", "expire"]
    held.let_go()
    assert held.operation.diary == ["try", "complete", "expire"]


@pytest.mark.parametrize("when", ["trying", "completed", "expired"])
def test_a_callback_holds_no_lock(purgatory, watch, make_operation, advance, promptly, when):
    """R7: while one runs, another thread does all there is to do, with the same keys and operation."""
    done = []

    def use(operation):
        done.append(purgatory.try_complete_else_watch(make_operation(), ["k", "l"]))
        done.append(purgatory.check_and_complete("k"))
        done.append(len(purgatory.cancel_for_key("l")))
        done.append(operation.reschedule(1e6))
        done.append(purgatory.stats().watched == purgatory.watched)
        purgatory._check()

    hook = {when: lambda operation: None if done else promptly(use, operation)}
    operation = watch("k", timeout=5.0, **hook)
    if when == "trying":
        assert purgatory.check_and_complete("k") == 0
        assert operation.diary == ["try", "try"]  # for the event that came meanwhile
    else:
        advance(5.0)
    assert done == [False, 0, 1, when == "trying", True]
