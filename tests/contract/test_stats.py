"""`stats`: counters that always add up, and lateness."""

import pytest

FIELDS = (
    "pending",
    "scheduled",
    "fired",
    "cancelled",
    "errors",
    "wakeups",
    "lateness_p50",
    "lateness_p99",
    "lateness_max",
)


def test_a_new_timer_has_counted_nothing(tw, timer):
    """Every field is there, and zero."""
    stats = timer.stats()
    assert isinstance(stats, tw.TimerStats)
    assert [getattr(stats, field) for field in FIELDS] == [0] * len(FIELDS)


def test_stats_are_a_snapshot(timer):
    """What was read does not change afterwards."""
    before = timer.stats()
    timer.schedule(1.0, list)
    assert (before.scheduled, timer.stats().scheduled) == (0, 1)


def test_counters_add_up_at_every_step(timer, advance, rng, caplog):
    """scheduled == fired + cancelled + pending, and pending == len, whatever happens."""

    def fail():
        raise ZeroDivisionError

    tasks = []
    for _ in range(2000):
        choice = rng.random()
        if choice < 0.5:
            failing = rng.random() < 0.1
            tasks.append((timer.schedule(rng.randrange(-2, 300), fail if failing else list), failing))
        elif choice < 0.65 and tasks:
            rng.choice(tasks)[0].cancel()
        elif choice < 0.8 and tasks:
            rng.choice(tasks)[0].reschedule(rng.randrange(-2, 300))
        else:
            advance(rng.randrange(20))
        stats = timer.stats()
        assert stats.scheduled == len(tasks) == stats.fired + stats.cancelled + stats.pending
        assert stats.pending == len(timer)
    states = [task.state for task, _ in tasks]
    stats = timer.stats()
    assert (stats.fired, stats.cancelled) == (states.count("FIRED"), states.count("CANCELLED"))
    errors = sum(task.state == "FIRED" and failing for task, failing in tasks)
    assert timer.stats().errors == errors > 0


def test_queued_tasks_are_pending(make_timer, clock, collecting):
    """`pending` and `len` count PENDING and QUEUED."""
    timer = make_timer(tick=1.0, executor=collecting, clock=clock, start=False)
    timer.schedule(0, list)
    timer.schedule(1.0, list)
    assert (timer.stats().pending, len(timer)) == (2, 2)
    clock.advance(1.0)
    timer.advance_clock()
    assert (timer.stats().pending, timer.stats().fired) == (2, 0)
    collecting.run_all()
    assert (timer.stats().pending, timer.stats().fired) == (0, 2)


def test_lateness_is_from_the_deadline_to_the_start(timer, advance):
    """In seconds: the largest exactly, the percentiles within their histogram's resolution."""
    timer.schedule(1.0, list)
    advance(1.5)
    stats = timer.stats()
    assert stats.lateness_max == pytest.approx(0.5)
    for percentile in (stats.lateness_p50, stats.lateness_p99):
        assert 0.25 <= percentile <= 1.0


def test_lateness_includes_the_executors_queue(make_timer, clock, collecting):
    """What counts is when the callback starts, not when it was handed over."""
    timer = make_timer(tick=1.0, executor=collecting, clock=clock, start=False)
    timer.schedule(1.0, list)
    clock.advance(1.0)
    timer.advance_clock()
    clock.advance(5.0)
    collecting.run_all()
    assert timer.stats().lateness_max == pytest.approx(5.0)


def test_percentiles_describe_the_distribution(timer, clock, advance):
    """Ninety-eight on time, two late: the median stays low, p99 and the maximum do not."""
    for _ in range(98):
        timer.schedule(1.0, list)
        advance(1.0)
    for _ in range(2):
        timer.schedule(1.0, list)
    advance(101.0)
    stats = timer.stats()
    assert stats.lateness_p50 <= 0.001
    assert stats.lateness_p99 >= 50.0
    assert stats.lateness_max == pytest.approx(100.0)
    assert stats.lateness_p50 <= stats.lateness_p99 <= stats.lateness_max


def test_lateness_of_what_was_due_at_once(timer, clock):
    """A delay <= 0 is late from the moment of `schedule`, not from a deadline in the past."""
    clock.advance(100.0)
    timer.schedule(0, list)
    clock.advance(0.5)
    timer.advance_clock()
    assert timer.stats().lateness_max == pytest.approx(0.5)


def test_a_cancelled_task_has_no_lateness(timer, advance):
    """Only what started is measured."""
    timer.schedule(1.0, list).cancel()
    advance(100.0)
    assert timer.stats().lateness_max == 0


def test_lateness_follows_a_rescheduled_deadline(timer, advance):
    """From the deadline that it had in the end."""
    task = timer.schedule(1.0, list)
    task.reschedule(50.0)
    advance(50.25)
    assert timer.stats().lateness_max == pytest.approx(0.25)


def test_turns_that_find_nothing_are_no_wakeups(timer, advance):
    """`wakeups` counts the turns that found an expired bucket."""
    timer.schedule(3.0, list)
    timer.schedule(3.0, list)
    for _ in range(10):
        advance(1.0)
    assert timer.stats().wakeups == 1
