"""R2: the order in which tasks are handed over."""

import itertools
import threading

import pytest

WAIT = 30


def test_ticks_ascend_and_within_a_tick_the_order_of_scheduling_holds(make_timer, clock, rng):
    """R2: without a cascade, by tick, and first scheduled first within a tick."""
    timer = make_timer(tick=1.0, wheel_size=512, executor="inline", clock=clock, start=False)
    ticks = [rng.randrange(1, 512) for _ in range(2000)]
    fired = []
    for number, tick in enumerate(ticks):
        timer.schedule(tick, fired.append, (tick, number))
    clock.advance(512)
    assert timer.advance_clock() == 2000
    assert fired == sorted(fired)


@pytest.mark.parametrize("wheel_size", [2, 3, 7, 20, 512])
@pytest.mark.parametrize("stride", [1, 13, 5000])
def test_ticks_ascend_through_cascades(make_timer, clock, rng, wheel_size, stride):
    """R2: by tick, also where buckets of several levels are due at one instant."""
    timer = make_timer(tick=1.0, wheel_size=wheel_size, executor="inline", clock=clock, start=False)
    fired = []
    for _ in range(500):
        tick = clock.time() + rng.randrange(1, rng.choice((4, 60, 4000)))
        timer.schedule_at(tick, fired.append, tick)
        if rng.random() < 0.1:
            clock.advance(stride)
            timer.advance_clock()
    clock.advance(5000)
    timer.advance_clock()
    assert len(fired) == 500
    assert fired == sorted(fired)


def test_every_pair_of_deadlines_fires_in_order(make_timer, clock):
    """R2: exhaustively, for two tasks and every start, over three levels of a wheel of two."""
    for start, first, second in itertools.product(range(5), range(1, 10), range(1, 10)):
        timer = make_timer(tick=1.0, wheel_size=2, executor="inline", clock=clock, start=False)
        clock.advance(start)
        timer.advance_clock()
        fired = []
        timer.schedule(first, fired.append, first)
        timer.schedule(second, fired.append, second)
        clock.advance(10)
        timer.advance_clock()
        assert fired == sorted((first, second))
        timer.close()


def test_a_rescheduled_task_takes_its_new_place(timer, advance):
    """R2: moved into a tick, a task comes after those that were there."""
    fired = []
    moved = timer.schedule(2, fired.append, "moved")
    timer.schedule(5, fired.append, "there before")
    moved.reschedule(5)
    timer.schedule(5, fired.append, "scheduled after")
    advance(5)
    assert fired == ["there before", "moved", "scheduled after"]


def test_more_than_one_batch_keeps_its_order(timer, advance):
    """R2: tens of thousands due at once come in order, a batch after the other."""
    fired = []
    for number in range(20_000):
        timer.schedule(1 + number % 3, fired.append, (number % 3, number))
    assert advance(10) == 20_000
    assert fired == sorted(fired)


def test_one_worker_starts_tasks_in_the_order_of_their_ticks(make_timer, clock, rng):
    """R2: the default executor starts them so."""
    timer = make_timer(tick=1.0, wheel_size=512, clock=clock, start=False)
    fired = []
    finished = threading.Event()
    for number in range(3000):
        tick = rng.randrange(1, 500)
        timer.schedule(tick, fired.append, (tick, number))
    timer.schedule(511, finished.set)
    clock.advance(250)
    timer.advance_clock()
    clock.advance(262)
    timer.advance_clock()
    assert finished.wait(WAIT)
    assert len(fired) == 3000
    assert fired == sorted(fired)


def test_a_foreign_executor_is_handed_tasks_in_the_order_of_their_ticks(make_timer, clock, collecting, rng):
    """R2: the order of hand-over is the timer's, whatever the executor makes of it."""
    timer = make_timer(tick=1.0, wheel_size=4, executor=collecting, clock=clock, start=False)
    fired = []
    for _ in range(500):
        tick = rng.randrange(1, 300)
        timer.schedule(tick, fired.append, tick)
    clock.advance(300)
    assert timer.advance_clock() == 500
    collecting.run_all()
    assert fired == sorted(fired)
    assert len(fired) == 500


def test_the_running_reaper_keeps_the_order(make_timer, rng):
    """R2: also on the real clock, with the reaper and its worker running."""
    timer = make_timer(tick=0.001)
    fired = []
    finished = threading.Event()
    base = timer.time() + 0.5
    offsets = [rng.randrange(100) for _ in range(1000)]
    for offset in offsets:
        when = base + offset * 0.001
        timer.schedule_at(when, fired.append, when)
    timer.schedule_at(base + 0.2, finished.set)
    assert finished.wait(WAIT)
    assert len(fired) == 1000
    assert fired == sorted(fired)
