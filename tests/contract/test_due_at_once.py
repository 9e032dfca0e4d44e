"""R4: a delay <= 0 is due at once."""

import threading

import pytest

WAIT = 30
NOT_POSITIVE = [0, 0.0, -0.0, -1e-12, -5, -1e300]


@pytest.mark.parametrize("delay", NOT_POSITIVE)
def test_it_runs_without_waiting_for_the_wheel(make_timer, clock, delay):
    """R4: the default executor has it before `schedule` returns; no turn of the wheel is needed."""
    timer = make_timer(clock=clock, start=False)
    ran = threading.Event()
    timer.schedule(delay, ran.set)
    assert ran.wait(WAIT)


@pytest.mark.parametrize("delay", NOT_POSITIVE)
def test_a_foreign_executor_has_it_when_schedule_returns(make_timer, clock, collecting, delay):
    """R4: it is handed over within `schedule`."""
    timer = make_timer(executor=collecting, clock=clock, start=False)
    task = timer.schedule(delay, list)
    assert len(collecting.tickets) == 1
    assert task.state == "QUEUED"
    assert timer.advance_clock() == 0
    collecting.run_all()
    assert task.state == "FIRED"


def test_every_way_in_hands_it_over(tw, make_timer, clock, collecting):
    """R4: `schedule_at` in the past, `submit` and `add` are due at once too."""
    timer = make_timer(executor=collecting, clock=clock, start=False)
    clock.advance(10.0)
    timer.schedule_at(3.0, list)
    timer.schedule_at(10.0, list)
    future = timer.submit(-1.0, max, 1, 2)
    timer.add(tw.TimerTask(0.0))
    assert len(collecting.tickets) == 4
    collecting.run_all()
    assert future.result(timeout=0) == 2
    assert len(timer) == 0


@pytest.mark.parametrize("delay", NOT_POSITIVE)
def test_inline_it_runs_on_the_next_turn_and_not_inside_schedule(timer, delay):
    """R4, R7: inline alone it waits for `advance_clock`, which needs no time to pass."""
    fired = []
    timer.schedule(delay, fired.append, 1)
    assert fired == []
    assert len(timer) == 1
    assert timer.advance_clock() == 1
    assert fired == [1]


def test_inline_the_sleeping_reaper_is_woken_for_it(make_timer):
    """R4: the reaper runs it although nothing else was ever due."""
    timer = make_timer(executor="inline")
    for _ in range(20):
        ran = threading.Event()
        timer.schedule(0, ran.set)
        assert ran.wait(WAIT)


def test_the_running_timer_runs_it_with_an_hour_to_the_next_deadline(make_timer):
    """R4: what the reaper sleeps for does not delay it."""
    timer = make_timer()
    ran = threading.Event()
    timer.schedule(3600.0, list)
    timer.schedule(0, ran.set)
    assert ran.wait(WAIT)
    assert len(timer) == 1


def test_it_never_runs_inside_a_callbacks_call_of_schedule(timer):
    """R7: inline, a callback that schedules for at once returns before the new task starts."""
    order = []

    def first():
        timer.schedule(0, order.append, "second")
        order.append("first")

    timer.schedule(0, first)
    while len(timer):
        timer.advance_clock()
    assert order == ["first", "second"]


def test_a_long_chain_of_them_does_not_recurse(timer):
    """R4, R7: a hundred thousand links, each scheduled by the one before."""
    left = [100_000]

    def link():
        left[0] -= 1
        if left[0]:
            timer.schedule(0, link)

    timer.schedule(0, link)
    while len(timer):
        assert timer.advance_clock() > 0
    assert left == [0]
    assert timer.stats().fired == 100_000


def test_a_long_chain_on_the_worker_does_not_recurse(make_timer):
    """R4, R7: the same on the default executor."""
    timer = make_timer()
    finished = threading.Event()
    left = [20_000]

    def link():
        left[0] -= 1
        timer.schedule(0, link) if left[0] else finished.set()

    timer.schedule(0, link)
    assert finished.wait(WAIT)


def test_it_can_be_cancelled_and_moved_until_it_starts(make_timer, clock, collecting):
    """R3: also a task that was due at once."""
    timer = make_timer(tick=1.0, executor=collecting, clock=clock, start=False)
    fired = []
    cancelled, moved = timer.schedule(0, fired.append, 1), timer.schedule(0, fired.append, 2)
    assert cancelled.cancel() is True
    assert moved.reschedule(3.0) is True
    collecting.run_all()
    assert fired == []
    clock.advance(3.0)
    timer.advance_clock()
    collecting.run_all()
    assert fired == [2]


def test_a_delay_below_a_nanosecond_is_on_the_current_tick(timer):
    """R1: within 1 ns above the current tick counts as on it."""
    fired = []
    timer.schedule(1e-12, fired.append, 1)
    assert fired == []
    assert timer.advance_clock() == 1


def test_a_turn_ends_though_each_callback_schedules_for_this_tick(timer, advance):
    """R1, R4: what becomes due on the current tick while the wheel turns waits for the next turn."""
    timer.schedule(1.0, link := lambda: timer.schedule(1e-10, link))
    assert advance(1.0) == 1
    assert timer.advance_clock() == 1
    assert len(timer) == 1


def test_a_tiny_delay_waits_for_the_next_tick(timer, advance):
    """R1: a microsecond is not nothing."""
    timer.schedule(1e-6, list)
    assert timer.advance_clock() == 0
    assert advance(0.5) == 0
    assert advance(0.5) == 1
