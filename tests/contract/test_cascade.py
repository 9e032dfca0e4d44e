"""The worked cascade table of the literature: tick 1 ms, wheel size 20, tasks at 2, 8, 19, 350 and 450 ms."""

import pytest

# now | the nearest expiration before | due at now | what happened
TABLE = [
    (2, 2, [2], "level 1, bucket 2"),
    (8, 8, [8], "level 1, bucket 8"),
    (19, 19, [19], "level 1, bucket 19"),
    (340, 340, [], "level 2, bucket 17: 350 cascades to level 1, bucket 10"),
    (350, 350, [350], "level 1, bucket 10"),
    (400, 400, [], "level 3, bucket 1 (by the formula, not 0): 450 cascades to level 2, bucket 2"),
    (440, 440, [], "level 2, bucket 2: 450 cascades to level 1, bucket 10"),
    (450, 450, [450], "level 1, bucket 10"),
]


def fill(tw, deadlines, wheel_size):
    wheel = tw.TimingWheel(wheel_size)
    tasks = {deadline: tw.TimerTask(0) for deadline in deadlines}
    for deadline, task in tasks.items():
        assert wheel.add(task, deadline) is True
    wheel._check()
    return wheel, tasks


def test_the_worked_table(tw):
    """Each row: the bucket that says how long to sleep, and what is due when its time has come."""
    wheel, tasks = fill(tw, [2, 8, 19, 350, 450], 20)
    for now, expiration, due, story in TABLE:
        assert wheel.next_expiration() == expiration, story
        assert wheel.advance(now - 1) == [], story
        assert wheel.advance(now) == [tasks[deadline] for deadline in due], story
        wheel._check()
    assert wheel.next_expiration() is None
    assert len(wheel) == 0


def test_the_worked_table_in_one_stride(tw):
    """Passing all of it at once, or any part of it, fires the same tasks in the same order."""
    deadlines = [2, 8, 19, 350, 450]
    for stop in range(451):
        wheel, tasks = fill(tw, deadlines, 20)
        early = wheel.advance(stop)
        assert early == [tasks[deadline] for deadline in deadlines if deadline <= stop]
        wheel._check()
        assert early + wheel.advance(450) == list(tasks.values())


def test_a_timer_wakes_once_for_each_row(make_timer, scripted):
    """Turned every millisecond, a timer finds an expired bucket in those eight, and in no other."""
    timer = make_timer(tick=0.001, wheel_size=20, executor="inline", clock=scripted, start=False)
    fired = []
    for deadline in (2, 8, 19, 350, 450):
        timer.schedule_at(deadline * 0.001, fired.append, deadline)
    found = []
    for now in range(1, 500):
        scripted.set(now * 0.001)
        before = timer.stats().wakeups
        timer.advance_clock()
        if timer.stats().wakeups > before:
            found.append(now)
    assert found == [now for now, *_ in TABLE]
    assert fired == [2, 8, 19, 350, 450]
    assert timer.stats().wakeups == 8


@pytest.mark.parametrize("wheel_size", [2, 3, 20, 512])
def test_a_bucket_by_the_formula(tw, wheel_size):
    """From tick 0 level k takes deadlines below wheel_size ** k, in buckets at multiples of its span."""
    edges = [wheel_size**level + step for level in range(1, 6) for step in (-1, 0, 1, wheel_size - 1)]
    for deadline in [*range(1, 80), *edges]:
        span = 1
        while deadline >= span * wheel_size:
            span *= wheel_size
        wheel, _ = fill(tw, [deadline], wheel_size)
        assert wheel.next_expiration() == deadline // span * span


@pytest.mark.parametrize("wheel_size", [2, 3, 20])
def test_a_task_cascades_no_more_often_than_there_are_levels(tw, wheel_size):
    """O(levels): each expiration on the way brings a task at least one level down."""
    for deadline in (1, 7, 450, 8001, 123_456, 10**9):
        wheel, tasks = fill(tw, [deadline], wheel_size)
        levels = 1
        while wheel_size**levels <= deadline:
            levels += 1
        stops = 0
        due = []
        while not due:
            stops += 1
            due = wheel.advance(wheel.next_expiration())
            wheel._check()
        assert due == [tasks[deadline]]
        assert wheel.current_tick == deadline
        assert stops <= levels
