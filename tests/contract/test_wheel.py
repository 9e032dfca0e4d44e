"""`TimingWheel`: ticks, and nothing of clocks, threads or callbacks."""

import bisect
import itertools

import pytest

MAX = 2**63 - 1


@pytest.fixture
def wheel(tw):
    return tw.TimingWheel(8)


@pytest.fixture
def add(tw, wheel):
    """Adds a new task for a tick; returns the task."""

    def add(deadline_tick):
        task = tw.TimerTask(0)
        assert wheel.add(task, deadline_tick) is True
        return task

    return add


def test_it_starts_where_it_is_told(tw):
    """`start_tick` is the current tick; nothing expires in an empty wheel."""
    wheel = tw.TimingWheel(4, 1000)
    assert (wheel.current_tick, len(wheel), wheel.next_expiration()) == (1000, 0, None)
    assert tw.TimingWheel().current_tick == 0
    assert tw.TimingWheel(wheel_size=4, start_tick=7).current_tick == 7


def test_what_is_already_due_is_not_added(tw, wheel):
    """False: the deadline is not after the current tick; the task stays as it was."""
    wheel.advance(10)
    task = tw.TimerTask(0)
    for deadline in (10, 9, 0, -5):
        assert wheel.add(task, deadline) is False
    assert (task.state, len(wheel)) == ("IDLE", 0)
    assert wheel.add(task, 11) is True
    assert (task.state, len(wheel)) == ("PENDING", 1)


def test_advance_hands_back_what_is_due(wheel, add):
    """In ascending order of ticks; the tasks are FIRED, and no longer the wheel's."""
    tasks = {deadline: add(deadline) for deadline in (5, 3, 300, 7, 64, 65, 1)}
    due = wheel.advance(64)
    assert due == [tasks[deadline] for deadline in (1, 3, 5, 7, 64)]
    assert {task.state for task in due} == {"FIRED"}
    assert [task.cancel() for task in due] == [False] * 5
    assert [wheel.cancel(task) for task in due] == [False] * 5
    assert wheel.current_tick == 64
    assert len(wheel) == 2
    assert wheel.advance(64) == []


def test_within_a_tick_first_added_is_first(wheel, add):
    """R2: where no cascade comes between."""
    tasks = [add(5) for _ in range(100)]
    assert wheel.advance(5) == tasks


def test_a_limited_advance_stops_and_goes_on(wheel, add, rng):
    """`limit`: at most so many, the earliest first; the others stay linked and come with the next call."""
    deadlines = sorted(rng.randrange(1, 200) for _ in range(100))
    tasks = [add(deadline) for deadline in deadlines]
    late = add(201)
    order = {id(task): deadline for task, deadline in zip(tasks, deadlines, strict=True)}
    got = []
    while part := wheel.advance(200, 7):
        assert len(part) <= 7
        got += part
        assert len(wheel) == 101 - len(got)
        wheel._check()
    assert [order[id(task)] for task in got] == deadlines
    assert wheel.current_tick == 200
    assert late.state == "PENDING"


def test_what_a_limited_advance_left_can_be_cancelled_and_moved(wheel, add):
    """Until it is handed back a task is pending."""
    first, cancelled, moved, last = (add(5) for _ in range(4))
    assert wheel.advance(9, limit=1) == [first]
    assert wheel.cancel(cancelled) is True
    assert wheel.reschedule(moved, 12) is True
    assert wheel.next_expiration() <= 9
    assert wheel.advance(9, limit=10) == [last]
    assert wheel.advance(11) == []
    assert wheel.advance(12) == [moved]


def test_time_does_not_go_back(wheel, add):
    """R6: an earlier tick than the current one changes nothing."""
    task = add(20)
    wheel.advance(10)
    assert wheel.advance(3) == []
    assert wheel.current_tick == 10
    assert wheel.next_expiration() == 16
    wheel._check()
    assert wheel.advance(20) == [task]


def test_cancel_unlinks(wheel, add):
    """True once; from the wheel and from the handle alike."""
    first, second = add(5), add(500)
    assert [wheel.cancel(first), wheel.cancel(first), first.cancel()] == [True, False, False]
    assert [second.cancel(), wheel.cancel(second)] == [True, False]
    assert first.state == second.state == "CANCELLED"
    assert (len(wheel), wheel.next_expiration()) == (0, None)
    assert wheel.advance(1000) == []


def test_cancel_of_anothers_task_is_false(tw, wheel, add, timer):
    """A task of another wheel, of a timer, or of nobody is not this wheel's to cancel."""
    task, scheduled, other = add(5), timer.schedule(5.0, list), tw.TimingWheel(8)
    assert other.cancel(task) is False
    assert other.cancel(scheduled) is False
    assert other.cancel(tw.TimerTask(0)) is False
    assert (task.state, scheduled.state) == ("PENDING", "PENDING")
    assert wheel.advance(5) == [task]


def test_reschedule_moves_in_place(wheel, add):
    """R5: later, earlier, over all levels; False once it has ended."""
    task = add(5)
    for deadline in (500, 6, 4000, 7, 7, 9):
        assert wheel.reschedule(task, deadline) is True
        assert len(wheel) == 1
        wheel._check()
    assert wheel.advance(8) == []
    assert wheel.advance(9) == [task]
    assert wheel.reschedule(task, 20) is False
    cancelled = add(50)
    cancelled.cancel()
    assert wheel.reschedule(cancelled, 60) is False
    assert len(wheel) == 0


def test_reschedule_to_a_tick_that_has_passed_is_due_at_the_next_advance(wheel, add):
    """R3: it is still one scheduling: pending until handed back, and cancel still wins."""
    wheel.advance(10)
    moved, cancelled = add(50), add(50)
    assert wheel.reschedule(moved, 3) is True
    assert wheel.reschedule(cancelled, 10) is True
    assert (moved.state, len(wheel)) == ("PENDING", 2)
    wheel._check()
    assert cancelled.cancel() is True
    assert wheel.next_expiration() <= 10
    assert wheel.advance(10) == [moved]
    assert wheel.next_expiration() is None


def test_a_wheel_knows_no_seconds(add):
    """RuntimeError for `task.reschedule(seconds)` on a wheel's task."""
    task = add(5)
    with pytest.raises(RuntimeError):
        task.reschedule(1.0)
    assert task.state == "PENDING"


def test_a_live_task_cannot_be_added(tw, wheel, add, timer):
    """RuntimeError: pending here, in another wheel, or in a timer."""
    other = tw.TimingWheel(8)
    task, scheduled = add(5), timer.schedule(5.0, list)
    for live in (task, scheduled):
        for target in (wheel, other):
            with pytest.raises(RuntimeError):
                target.add(live, 7)
    assert (len(wheel), len(other), len(timer)) == (1, 0, 1)
    assert wheel.advance(5) == [task]


def test_an_ended_task_may_be_added_again(tw, wheel):
    """A subclass instance that fired or was cancelled begins anew, here or in another wheel."""

    class Bell(tw.TimerTask):
        pass

    bell, other = Bell(0), tw.TimingWheel(3)
    wheel.add(bell, 5)
    assert wheel.advance(5) == [bell]
    assert wheel.add(bell, 9) is True
    assert bell.cancel() is True
    assert other.add(bell, 2) is True
    assert wheel.advance(100) == []
    assert other.advance(100) == [bell]


def test_the_next_expiration_looks_past_emptied_buckets(wheel, add):
    """A bucket that cancellations emptied is nothing to wake for."""
    near, far, farther = add(3), add(5), add(700)
    assert wheel.next_expiration() == 3
    near.cancel()
    assert wheel.next_expiration() == 5
    wheel.reschedule(far, 6)
    assert wheel.next_expiration() == 6
    far.cancel()
    assert wheel.next_expiration() == 512
    farther.cancel()
    assert wheel.next_expiration() is None


@pytest.mark.parametrize("wheel_size", [2, 3, 7, 64, 512])
def test_the_next_expiration_is_a_safe_time_to_sleep_until(tw, rng, wheel_size):
    """Sleeping from expiration to expiration misses nothing: each deadline is met on its very tick."""
    wheel = tw.TimingWheel(wheel_size)
    deadlines = {}
    for _ in range(500):
        task = tw.TimerTask(0)
        deadline = rng.randrange(1, rng.choice((10, 1000, 10**6, 10**12)))
        wheel.add(task, deadline)
        deadlines[id(task)] = (deadline, task)
    for _ in range(500):
        ticks = sorted(deadline for deadline, _ in deadlines.values())
        expiration = wheel.next_expiration()
        if not ticks:
            break
        assert wheel.current_tick < expiration <= ticks[0]
        for task in wheel.advance(expiration):
            assert deadlines.pop(id(task))[0] == expiration
        wheel._check()


@pytest.mark.parametrize("wheel_size", [2, 3, 10, 512])
def test_random_operations_against_a_sorted_list(tw, rng, soak, wheel_size):
    """Every operation in any order agrees with a sorted list of (tick, task)."""
    wheel = tw.TimingWheel(wheel_size, rng.randrange(1000))
    model, live = [], {}
    numbers = itertools.count()

    def put(task, deadline):
        entry = (deadline, next(numbers), task)
        bisect.insort(model, entry)
        live[id(task)] = entry

    def take(task):
        model.remove(live.pop(id(task)))

    for step in range(20_000 if soak else 3000):
        now, choice = wheel.current_tick, rng.random()
        deadline = now + rng.randrange(rng.choice((4, 60, 5000, 10**7, 2**40)))
        if choice < 0.45:
            task = tw.TimerTask(0)
            assert wheel.add(task, deadline) is (deadline > now)
            if deadline > now:
                put(task, deadline)
        elif choice < 0.6 and model:
            task = rng.choice(model)[2]
            assert wheel.cancel(task) is True
            take(task)
        elif choice < 0.75 and model and deadline > now:
            task = rng.choice(model)[2]
            assert wheel.reschedule(task, deadline) is True
            take(task)
            put(task, deadline)
        elif choice < 0.95:
            to = now + rng.randrange(rng.choice((3, 70, 5000, 10**7)))
            due = wheel.advance(to)
            assert [live[id(task)][0] for task in due] == [entry[0] for entry in model if entry[0] <= to]
            for task in due:
                take(task)
            assert wheel.current_tick == to
        elif step % 500 == 0:
            for task in wheel.advance(now + 2**41):
                take(task)
            assert model == []
        assert len(wheel) == len(model)
        if step % 20 == 0:
            wheel._check()


def test_the_last_tick_of_all(tw):
    """int64 to its end: no level's span overflows, and the last deadline fires on the last tick."""
    for wheel_size in (2, 3, 512, 4096):
        wheel = tw.TimingWheel(wheel_size)
        last, before = tw.TimerTask(0), tw.TimerTask(0)
        assert wheel.add(last, MAX) is True
        assert wheel.add(before, MAX - 1) is True
        wheel._check()
        assert 0 < wheel.next_expiration() < MAX
        assert wheel.advance(2**62) == []
        wheel._check()
        assert wheel.advance(MAX - 2) == []
        assert wheel.advance(MAX - 1) == [before]
        assert wheel.next_expiration() == MAX
        assert wheel.advance(MAX) == [last]
        assert wheel.next_expiration() is None
        wheel._check()


def test_starting_at_the_end_of_time(tw):
    """Near the last tick a wheel still works."""
    wheel = tw.TimingWheel(20, MAX - 500)
    tasks = [tw.TimerTask(0) for _ in range(500)]
    for number, task in enumerate(tasks, 1):
        assert wheel.add(task, MAX - 500 + number) is True
    wheel._check()
    assert wheel.advance(MAX) == tasks


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((1,), "wheel_size must be >= 2, got 1"), ((0,), "wheel_size must be >= 2, got 0"), ((-7,), ".*got -7")],
)
def test_a_bad_size_is_named(tw, arguments, message):
    """ValueError names the argument, the rule and the value seen."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        tw.TimingWheel(*arguments)


def test_a_size_beyond_memory_is_an_error(tw):
    """MemoryError, ValueError or OverflowError, and never a crash."""
    with pytest.raises((MemoryError, ValueError, OverflowError)):
        tw.TimingWheel(2**62)
    with pytest.raises((MemoryError, ValueError, OverflowError)):
        tw.TimingWheel(10**30)


@pytest.mark.parametrize("tick", [2**63, -(2**63) - 1, 10**30])
def test_a_tick_is_an_int64(tw, wheel, add, tick):
    """What does not fit is refused, and nothing changed."""
    task = add(5)
    for call in (
        lambda: wheel.add(tw.TimerTask(0), tick),
        lambda: wheel.advance(tick),
        lambda: wheel.reschedule(task, tick),
        lambda: tw.TimingWheel(8, tick),
    ):
        with pytest.raises((OverflowError, ValueError)):
            call()
    assert (len(wheel), wheel.current_tick) == (1, 0)
    wheel._check()
    assert wheel.advance(5) == [task]


@pytest.mark.parametrize("tick", [1.5, "5", None])
def test_a_tick_is_whole(tw, wheel, add, tick):
    """TypeError: the core knows whole ticks."""
    task = add(5)
    for call in (
        lambda: wheel.add(tw.TimerTask(0), tick),
        lambda: wheel.advance(tick),
        lambda: wheel.reschedule(task, tick),
        lambda: tw.TimingWheel(tick),
        lambda: tw.TimingWheel(8, tick),
    ):
        with pytest.raises(TypeError):
            call()
    assert wheel.advance(5) == [task]
