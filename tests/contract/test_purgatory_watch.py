"""The way in: try, watch every key, try again, into the timer; or nothing at all."""

import math

import pytest


def test_what_is_complete_is_never_watched(purgatory, make_operation, timer):
    """A first try that answers True completes the operation: no key, no timeout."""
    operation = make_operation(ready=True)
    assert purgatory.try_complete_else_watch(operation, ["a", "b"]) is True
    assert operation.diary == ["try", "complete"]
    assert operation.is_completed is True
    assert (purgatory.watched, purgatory.delayed, len(timer)) == (0, 0, 0)


def test_tried_watched_and_tried_again(purgatory, make_operation):
    """Not watched in the first try, watched on every key in the second, and in the timer after that."""
    seen = []
    operation = make_operation(trying=lambda _: seen.append(purgatory.watched))
    assert purgatory.try_complete_else_watch(operation, ["a", "b", "c"]) is False
    assert seen == [0, 3]
    assert operation.diary == ["try", "try"]
    assert operation.is_completed is False
    assert (purgatory.watched, purgatory.delayed) == (3, 1)


def test_an_event_between_the_tries_is_not_missed(purgatory, make_operation, timer):
    """What happened before the keys were watched, the second try sees: out of every list again."""
    operation = make_operation()
    operation.trying = lambda _: len(operation.diary) == 2
    assert purgatory.try_complete_else_watch(operation, ["a", "b"]) is True
    assert operation.diary == ["try", "try", "complete"]
    assert (purgatory.watched, purgatory.delayed, len(timer)) == (0, 0, 0)


@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize("answer", [False, True])
def test_a_try_may_force_the_completion_instead(purgatory, make_operation, timer, which, answer):
    """`try_complete` may call `force_complete()`, to the same effect, whatever it answers."""
    won = []

    def force(operation):
        if len(operation.diary) == which:
            won.append((operation.force_complete(), operation.is_completed, operation.force_complete()))
            return answer
        return False

    operation = make_operation(trying=force)
    assert purgatory.try_complete_else_watch(operation, ["a", "b"]) is True
    assert won == [(True, True, False)]
    assert operation.diary == ["try"] * which + ["complete"]
    assert (purgatory.watched, purgatory.delayed, len(timer)) == (0, 0, 0)
    assert purgatory.stats().completed == 1


def test_any_true_answer_is_true(purgatory, make_operation):
    """As everywhere in Python: an answer is true or false."""
    operation = make_operation(trying=lambda _: [1])
    assert purgatory.try_complete_else_watch(operation, ["a"]) is True
    assert purgatory.try_complete_else_watch(make_operation(trying=lambda _: 0), ["a"]) is False


def test_a_completed_operation_is_complete_at_once(purgatory, make_operation):
    """True, without a try and without a place in any list."""
    operation = make_operation(ready=True)
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.diary.clear()
    assert purgatory.try_complete_else_watch(operation, ["a"]) is True
    assert operation.diary == []
    assert (purgatory.watched, purgatory.stats().completed) == (0, 1)


def test_a_key_named_twice_is_watched_once(purgatory, make_operation):
    """Also when it is named by another object that equals it."""
    operation = make_operation()
    purgatory.try_complete_else_watch(operation, [1, "a", 1, 1.0, True, "a", ("b", 2), ("b", 2)])
    assert purgatory.watched == 3
    operation.ready = True
    assert purgatory.check_and_complete(1.0) == 1
    assert (purgatory.watched, operation.diary.count("try")) == (0, 3)


@pytest.mark.parametrize("kind", [set, dict.fromkeys, iter, tuple])
def test_keys_are_any_iterable(purgatory, make_operation, kind):
    """Read once, whatever it is."""
    purgatory.try_complete_else_watch(make_operation(), kind(["a", "b", "a"]))
    assert purgatory.watched == 2


def test_many_keys(purgatory, make_operation):
    """A thousand keys, and all of them left at once."""
    operation = make_operation()
    purgatory.try_complete_else_watch(operation, range(1000))
    assert purgatory.watched == 1000
    purgatory._check()
    operation.ready = True
    assert purgatory.check_and_complete(999) == 1
    assert purgatory.watched == 0


# --- refused, and nothing changed


def unchanged(purgatory, operation):
    """Whether a refusal left no trace, not even a try."""
    purgatory._check()
    stats, figures = purgatory.stats(), (purgatory.watched, purgatory.delayed, len(purgatory.timer))
    ended = stats.completed + stats.expired + stats.dropped
    return (operation.diary, operation.state, figures, ended) == ([], "IDLE", (0, 0, 0), 0)


@pytest.mark.parametrize("kind", [list, tuple, dict, iter])
def test_no_keys_are_refused(purgatory, make_operation, kind):
    """ValueError that names `keys`: nothing could ever complete it."""
    operation = make_operation(ready=True)
    with pytest.raises(ValueError, match=r"^keys must "):
        purgatory.try_complete_else_watch(operation, kind([]))
    assert unchanged(purgatory, operation)


@pytest.mark.parametrize("keys", [[[]], ["a", {}], ["a", "b", set()]])
def test_a_key_must_be_hashable(purgatory, make_operation, keys):
    """TypeError before the first try."""
    operation = make_operation(ready=True)
    with pytest.raises(TypeError, match="unhashable"):
        purgatory.try_complete_else_watch(operation, keys)
    assert unchanged(purgatory, operation)


def test_asking_for_an_unhashable_key_is_a_type_error(purgatory, watch):
    """As for a dictionary: nobody can be watching it, and saying so is better than 0."""
    watch("a")
    for call in (purgatory.check_and_complete, purgatory.cancel_for_key):
        with pytest.raises(TypeError, match="unhashable"):
            call([])
    assert purgatory.watched == 1


@pytest.mark.parametrize("keys", ["topic", b"topic", 3, None])
def test_one_key_is_no_list_of_keys(purgatory, make_operation, keys):
    """TypeError: a string's letters are no keys."""
    operation = make_operation(ready=True)
    with pytest.raises(TypeError):
        purgatory.try_complete_else_watch(operation, keys)
    assert unchanged(purgatory, operation)


def test_keys_that_cannot_be_read(purgatory, make_operation):
    """What the iterable raises passes through, before the first try."""

    def keys():
        yield "a"
        raise ZeroDivisionError

    operation = make_operation(ready=True)
    with pytest.raises(ZeroDivisionError):
        purgatory.try_complete_else_watch(operation, keys())
    assert unchanged(purgatory, operation)


def test_keys_are_read_before_the_first_try(purgatory, make_operation):
    """Reading them is user code: it may use the purgatory, and even watch the operation itself."""
    operation = make_operation()

    def keys():
        yield "a"
        purgatory.try_complete_else_watch(operation, ["b"])

    with pytest.raises(RuntimeError, match="already"):
        purgatory.try_complete_else_watch(operation, keys())
    assert (operation.diary, purgatory.watched, purgatory.delayed) == (["try", "try"], 1, 1)
    assert purgatory.cancel_for_key("a") == []


@pytest.mark.parametrize("way", ["task", "object", "none"])
def test_only_operations_are_watched(tw, purgatory, way):
    """TypeError for what is no `DelayedOperation`."""
    with pytest.raises(TypeError):
        purgatory.try_complete_else_watch({"task": tw.TimerTask(1.0), "object": [], "none": None}[way], ["a"])
    assert purgatory.watched == 0


@pytest.mark.parametrize("timeout", [math.nan, math.inf, -math.inf])
def test_a_timeout_must_be_finite(tw, timeout):
    """ValueError `timeout must be finite, got nan`."""
    with pytest.raises(ValueError, match=f"^timeout must be finite, got {timeout}$"):
        tw.DelayedOperation(timeout)


def test_an_operation_is_in_one_purgatory_once(purgatory, make_purgatory, watch):
    """RuntimeError, without a try, for one that is watched here or elsewhere."""
    operation = watch("a")
    for other in (purgatory, make_purgatory("other")):
        with pytest.raises(RuntimeError, match="already"):
            other.try_complete_else_watch(operation, ["a", "b"])
    assert operation.diary == []
    assert (purgatory.watched, purgatory.delayed) == (1, 1)


def test_an_operation_on_its_way_in_is_in_a_purgatory(purgatory, make_operation):
    """RuntimeError also from inside its own first and second try."""
    refused = []

    def again(operation):
        with pytest.raises(RuntimeError, match="already"):
            purgatory.try_complete_else_watch(operation, ["b"])
        refused.append(purgatory.watched)

    purgatory.try_complete_else_watch(make_operation(trying=again), ["a"])
    assert refused == [0, 1]
    assert purgatory.cancel_for_key("b") == []


@pytest.mark.parametrize("which", [1, 2])
def test_an_operation_may_be_cancelled_on_its_way_in(purgatory, make_operation, timer, which):
    """By its own try: dropped, whatever the try answers; nothing stays watched, and it may come again."""
    results = []

    def cancel(operation):
        if len(operation.diary) == which:
            results.append(operation.cancel())
        return bool(results)

    operation = make_operation(trying=cancel)
    assert purgatory.try_complete_else_watch(operation, ["a", "b"]) is False
    assert results == [True]
    assert operation.diary == ["try"] * which
    assert (purgatory.watched, purgatory.delayed, len(timer)) == (0, 0, 0)
    assert (purgatory.stats().dropped, operation.is_completed) == (1, False)
    operation.trying = None
    assert purgatory.try_complete_else_watch(operation, ["a"]) is False
    assert (purgatory.watched, purgatory.delayed) == (1, 1)


def test_an_operation_of_a_timer_is_not_watched(purgatory, make_operation, timer):
    """RuntimeError for one that is pending as a task."""
    operation = make_operation()
    timer.add(operation)
    with pytest.raises(RuntimeError, match="already"):
        purgatory.try_complete_else_watch(operation, ["a"])
    assert (operation.diary, purgatory.watched) == ([], 0)
    assert operation.cancel() is True


def test_a_watched_operation_is_no_task_for_a_timer(purgatory, watch, timer):
    """RuntimeError from `Timer.add`: it is pending."""
    operation = watch("a")
    with pytest.raises(RuntimeError, match="already"):
        timer.add(operation)
    assert (purgatory.watched, len(timer)) == (1, 1)


def test_a_closed_purgatory_watches_nothing(purgatory, make_operation):
    """RuntimeError that says so, without a try."""
    purgatory.close()
    operation = make_operation(ready=True)
    with pytest.raises(RuntimeError, match="closed"):
        purgatory.try_complete_else_watch(operation, ["a"])
    assert unchanged(purgatory, operation)


# --- max_pending


@pytest.fixture
def full(make_timer, make_purgatory, clock):
    """A purgatory whose timer holds one operation at most."""
    timer = make_timer(tick=1.0, executor="inline", clock=clock, start=False, max_pending=1)
    return make_purgatory(timer=timer)


def test_a_full_timer_refuses_before_the_first_try(tw, full, make_operation):
    """`TooManyPending`, though the first try would have completed it: nothing changed."""
    task = full.timer.schedule(5.0, list)
    operation = make_operation(ready=True)
    with pytest.raises(tw.TooManyPending, match="max_pending"):
        full.try_complete_else_watch(operation, ["a"])
    assert (operation.diary, full.watched, full.delayed, operation.state) == ([], 0, 0, "IDLE")
    task.cancel()
    assert full.try_complete_else_watch(operation, ["a"]) is True


def test_the_place_is_kept_while_it_tries(tw, full, make_operation):
    """`max_pending`: nobody takes the place between the first try and the timer."""
    refused = []

    def fill(_):
        with pytest.raises(tw.TooManyPending):
            full.timer.schedule(5.0, list)
        refused.append(1)

    operation = make_operation(trying=fill)
    assert full.try_complete_else_watch(operation, ["a"]) is False
    assert refused == [1, 1]
    assert (full.delayed, len(full.timer)) == (1, 1)


@pytest.mark.parametrize(
    "end", ["first try", "second try", "force", "check", "cancel", "cancel_for_key", "expire"]
)
def test_every_end_gives_the_place_back(full, make_operation, clock, end):
    """`max_pending`: a thousand operations one after the other fit into one place."""
    for _ in range(1000):
        operation = make_operation(5.0, ready=end == "first try")
        if end == "second try":
            operation.trying = lambda operation: len(operation.diary) == 2
        full.try_complete_else_watch(operation, ["a"])
        if end == "force":
            operation.force_complete()
        elif end == "check":
            operation.ready = True
            full.check_and_complete("a")
        elif end == "cancel":
            operation.cancel()
        elif end == "cancel_for_key":
            full.cancel_for_key("a")
        elif end == "expire":
            clock.advance(5.0)
            full.timer.advance_clock()
    assert (full.watched, full.delayed, len(full.timer)) == (0, 0, 0)
