"""R8 for operations: an error is logged and reported, and stops nothing; an interrupt passes, at the end."""

import logging

import pytest

WAIT = 30


def fail(*_):
    raise ZeroDivisionError


@pytest.fixture
def reports():
    """What `on_error` was given."""
    return []


@pytest.fixture
def timer(make_timer, clock, reports):
    """As the others', and it writes down what is reported."""

    def on_error(task, error):
        reports.append((task, type(error)))

    return make_timer(tick=1.0, wheel_size=8, executor="inline", clock=clock, start=False, on_error=on_error)


# --- try_complete


def test_a_first_try_that_raises_counts_as_false(purgatory, make_operation, reports, caplog):
    """It is watched and tried again; the error is logged, then reported."""
    operation = make_operation(trying=lambda operation: fail() if len(operation.diary) == 1 else False)
    assert purgatory.try_complete_else_watch(operation, ["a"]) is False
    assert operation.diary == ["try", "try"]
    assert (purgatory.watched, purgatory.delayed, purgatory.stats().errors) == (1, 1, 1)
    assert reports == [(operation, ZeroDivisionError)]
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("tickwheel", logging.ERROR)
    assert record.exc_info[0] is ZeroDivisionError


def test_both_tries_raise(purgatory, make_operation, reports, caplog):
    """It waits, and may be completed later."""
    operation = make_operation(trying=fail)
    assert purgatory.try_complete_else_watch(operation, ["a"]) is False
    assert purgatory.check_and_complete("a") == 0
    operation.trying, operation.ready = None, True
    assert purgatory.check_and_complete("a") == 1
    assert reports == [(operation, ZeroDivisionError)] * 3


def test_a_try_that_raises_does_not_swallow_the_others(purgatory, watch, caplog):
    """All other operations of the key are tried; the one that raised stays."""
    operations = [watch("a", "b", ready=True) for _ in range(9)]
    for operation in operations[::2]:
        operation.trying = fail
    assert purgatory.check_and_complete("a") == 4
    assert purgatory.stats().errors == 5
    assert (purgatory.watched, purgatory.delayed) == (10, 5)
    purgatory._check()
    for operation in operations[::2]:
        operation.trying = None
    assert purgatory.check_and_complete("a") == 5


def test_a_try_that_forces_and_raises_has_completed(purgatory, watch, caplog):
    """What was decided stays decided."""

    def force_and_fail(operation):
        operation.force_complete()
        fail()

    operation = watch("a", trying=force_and_fail)
    assert purgatory.check_and_complete("a") == 1
    assert operation.diary == ["try", "complete"]
    assert (purgatory.watched, purgatory.stats().errors) == (0, 1)


def test_an_answer_that_cannot_be_read_is_an_error(purgatory, watch, reports, caplog):
    """An answer whose truth raises counts as False."""

    class Undecidable:
        __bool__ = fail

    operation = watch("a", trying=lambda _: Undecidable())
    other = watch("a", ready=True)
    assert purgatory.check_and_complete("a") == 1
    assert reports == [(operation, ZeroDivisionError)]
    assert (operation.is_completed, other.is_completed) == (False, True)


# --- on_complete, on_expiration


def test_an_on_complete_that_raises_does_not_swallow_the_others(purgatory, watch, reports, caplog):
    """It has completed and is counted, and so are all others of the key."""
    operations = [watch("a", "b", ready=True, completed=fail) for _ in range(5)]
    assert purgatory.check_and_complete("a") == 5
    assert [operation.diary for operation in operations] == [["try", "complete"]] * 5
    assert reports == [(operation, ZeroDivisionError) for operation in operations]
    assert (purgatory.watched, purgatory.delayed) == (0, 0)
    stats = purgatory.stats()
    assert (stats.completed, stats.errors) == (5, 5)


def test_force_complete_reports_what_on_complete_raised(purgatory, watch, make_operation, reports, caplog):
    """It returns True all the same; also for an operation that is in no purgatory, whose error is logged."""
    operation = watch("a", completed=fail)
    assert operation.force_complete() is True
    assert reports == [(operation, ZeroDivisionError)]
    assert make_operation(completed=fail).force_complete() is True
    assert [record.exc_info[0] for record in caplog.records] == [ZeroDivisionError] * 2


def test_a_timeout_whose_callbacks_raise(purgatory, watch, advance, reports, caplog):
    """`on_expiration` runs though `on_complete` raised; the other timeouts of that instant come too."""
    operations = [watch("a", timeout=5.0, completed=fail, expired=fail) for _ in range(3)]
    assert advance(5.0) == 3
    assert [operation.diary for operation in operations] == [["complete", "expire"]] * 3
    assert len(reports) == 6
    stats = purgatory.stats()
    assert (stats.expired, stats.errors, stats.watched, stats.delayed) == (3, 6, 0, 0)


def test_an_errand_that_raises_does_not_swallow_the_rest(purgatory, watch, caplog):
    """What callbacks have left to do is done, whatever raises on the way."""

    def conduct(_):
        for key in "bcd":
            purgatory.check_and_complete(key)
        fail()

    watch("a", ready=True, completed=conduct)
    others = [watch(key, ready=True, completed=fail) for key in "bcd"]
    assert purgatory.check_and_complete("a") == 1
    assert [other.diary for other in others] == [["try", "complete"]] * 3
    assert purgatory.stats().errors == 4


def test_an_on_error_that_raises_stops_nothing(make_timer, make_purgatory, make_operation, clock, caplog):
    """It is logged too."""
    timer = make_timer(executor="inline", clock=clock, start=False, on_error=fail)
    purgatory = make_purgatory(timer=timer)
    operations = [make_operation(completed=fail) for _ in range(3)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.ready = True
    assert purgatory.check_and_complete("a") == 3
    assert len(caplog.records) == 6


def test_on_error_may_use_the_purgatory(make_timer, make_purgatory, make_operation, clock, caplog):
    """R7: it is called outside every lock, like the callback whose error it gets."""

    def on_error(operation, error):
        other.force_complete()
        purgatory.check_and_complete("b")

    timer = make_timer(executor="inline", clock=clock, start=False, on_error=on_error)
    purgatory = make_purgatory(timer=timer)
    failing, other, third = make_operation(completed=fail), make_operation(), make_operation()
    for operation, key in ((failing, "a"), (other, "a"), (third, "b")):
        purgatory.try_complete_else_watch(operation, [key])
        operation.ready = True
    assert purgatory.check_and_complete("a") in (1, 2)
    assert failing.is_completed and other.is_completed and third.is_completed
    assert other.diary.count("complete") == 1


# --- interrupts


@pytest.fixture(params=[KeyboardInterrupt, SystemExit])
def interrupt(request):
    """A callback that raises what nobody may swallow; `.kind` says what."""

    def interrupt(*_):
        raise request.param

    interrupt.kind = request.param
    return interrupt


@pytest.mark.parametrize("when", ["trying", "completed"])
def test_an_interrupt_passes_when_all_is_done(purgatory, watch, interrupt, reports, when):
    """KeyboardInterrupt in a callback of a check: raised in the caller, after the whole key was checked."""
    first = watch("a", ready=True)
    struck = watch("a", ready=True, **{when: interrupt})
    last = watch("a", ready=True)
    with pytest.raises(interrupt.kind):
        purgatory.check_and_complete("a")
    assert (first.diary, last.diary) == (["try", "complete"],) * 2
    assert struck.is_completed is (when == "completed")
    assert reports == []
    purgatory._check()
    assert purgatory.watched == purgatory.delayed == (when == "trying")
    struck.trying = struck.completed = None
    assert purgatory.check_and_complete("a") == (when == "trying")


def test_an_interrupt_does_not_swallow_errands(purgatory, watch, interrupt):
    """What the interrupted callback had left to do is done before it is raised."""

    def conduct(_):
        purgatory.check_and_complete("b")
        other.force_complete()
        interrupt()

    watch("a", ready=True, completed=conduct)
    checked, other = watch("b", ready=True), watch("c")
    with pytest.raises(interrupt.kind):
        purgatory.check_and_complete("a")
    assert checked.diary == ["try", "complete"]
    assert other.diary == ["complete"]
    assert purgatory.watched == 0


def test_an_interrupt_is_raised_once(purgatory, watch, interrupt):
    """Two callbacks that raise it leave one exception, and nothing for the next call."""
    for _ in range(2):
        watch("a", ready=True, completed=interrupt)
    with pytest.raises(interrupt.kind):
        purgatory.check_and_complete("a")
    assert purgatory.check_and_complete("a") == 0
    watch("a", ready=True)
    assert purgatory.check_and_complete("a") == 1


def test_an_interrupt_in_force_complete(purgatory, watch, interrupt):
    """It has won, and has left every list; the caller is interrupted."""
    operation = watch("a", "b", completed=interrupt)
    with pytest.raises(interrupt.kind):
        operation.force_complete()
    assert operation.is_completed is True
    assert (purgatory.watched, purgatory.delayed) == (0, 0)


@pytest.mark.parametrize("which", [1, 2])
def test_an_interrupt_on_the_way_in_leaves_nothing(purgatory, make_operation, timer, interrupt, which):
    """`try_complete_else_watch` that raises has not taken the operation: it may be brought again."""
    operation = make_operation(trying=lambda operation: len(operation.diary) == which and interrupt())
    with pytest.raises(interrupt.kind):
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    purgatory._check()
    assert (purgatory.watched, purgatory.delayed, len(timer)) == (0, 0, 0)
    assert operation.is_completed is False
    operation.trying = None
    assert purgatory.try_complete_else_watch(operation, ["a"]) is False
    assert (purgatory.watched, purgatory.delayed) == (1, 1)


@pytest.mark.parametrize("when", ["completed", "expired"])
def test_an_interrupt_of_a_timeout_passes_through_advance_clock(
    purgatory, watch, timer, clock, interrupt, when
):
    """R8: what was due stays due; the interrupted operation has expired, with both its callbacks."""
    struck = watch("a", timeout=5.0, **{when: interrupt})
    other = watch("a", timeout=5.0)
    clock.advance(5.0)
    with pytest.raises(interrupt.kind):
        timer.advance_clock()
    assert struck.diary == ["complete", "expire"]
    timer.advance_clock()
    assert other.diary == ["complete", "expire"]
    assert (purgatory.watched, purgatory.delayed) == (0, 0)


@pytest.mark.parametrize("executor", [None, "inline"])
@pytest.mark.parametrize("when", ["completed", "expired"])
def test_an_interrupt_ends_no_thread_of_the_timer(
    make_timer, make_purgatory, make_operation, interrupt, caplog, executor, when
):
    """R8: on the worker and on the reaper nobody is above to catch it; the timeouts after it come."""
    purgatory = make_purgatory(timer=make_timer(executor=executor))
    operations = [make_operation(0.001, **{when: interrupt}) for _ in range(3)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"])
    purgatory.timer.submit(0.005, list).result(WAIT)
    assert [operation.diary[-2:] for operation in operations] == [["complete", "expire"]] * 3


def test_an_interrupt_passes_in_the_thread_that_was_inside(purgatory, watch, make_gate, start, interrupt):
    """A completion that was handed over interrupts whoever runs it, not the one that won."""
    gate = make_gate()

    def trying(operation):
        gate.hold()
        return False

    operation = watch("a", trying=trying, completed=interrupt)

    def interrupted():
        with pytest.raises(interrupt.kind):
            purgatory.check_and_complete("a")

    check = start(interrupted)
    gate.wait_entered()
    assert operation.force_complete() is True
    gate.open()
    check.result(WAIT)
    assert operation.diary == ["try", "complete"]
