"""R1 and R6: never early, less than a tick late, and time never goes back."""

import math
import threading

import pytest

WAIT = 30


def test_a_deadline_inside_a_tick_waits_for_the_next_tick(make_timer, clock):
    """R1: with a 10 ms tick a 15 ms deadline fires at 20 ms (Kafka's wheel fires it at 10 ms)."""
    timer = make_timer(tick=0.010, executor="inline", clock=clock, start=False)
    fired = []
    timer.schedule(0.015, fired.append, "15 ms")
    for seconds in (0.010, 0.005, 0.0049):
        clock.advance(seconds)
        assert timer.advance_clock() == 0
    clock.advance(0.0002)
    assert timer.advance_clock() == 1
    assert fired == ["15 ms"]


def test_a_deadline_on_a_tick_fires_on_that_tick(timer, advance):
    """R1: rounding up leaves a deadline that is on a tick where it is."""
    task = timer.schedule(3.0, list)
    assert advance(2.5) == 0
    assert advance(0.5) == 1
    assert task.when == 3.0


@pytest.mark.parametrize("base", [5.0, -5.0])
@pytest.mark.parametrize(("above", "ticks"), [(0.9e-9, 0), (2e-9, 1)])
def test_a_deadline_within_a_nanosecond_above_a_tick_is_on_it(tw, make_timer, base, above, ticks):
    """R1: a deadline within 1 ns above a tick counts as on it; one further above waits for the next."""
    clock = tw.ManualClock(base - 3.0)
    timer = make_timer(tick=1.0, executor="inline", clock=clock, start=False)
    timer.schedule_at(base + above, list)
    while not timer.advance_clock():
        clock.advance(1.0)
    assert clock.time() == base + ticks


def test_the_delay_counts_from_now_not_from_the_current_tick(timer, clock, advance):
    """R1: a delay starts at the clock's reading inside the tick."""
    clock.advance(3.5)
    task = timer.schedule(1.0, list)
    assert task.when == 4.5
    assert advance(0.9) == 0  # 4.4
    assert advance(0.5) == 0  # 4.9: past the deadline, inside its tick
    assert advance(0.2) == 1


@pytest.mark.parametrize("tick", [0.001, 0.010, 0.1, 0.25, 1 / 3, 0.007, 1.0, 60.0])
@pytest.mark.parametrize("span", [1e2, 1e6, 4e9])
def test_a_task_fires_on_the_first_tick_at_or_after_its_deadline(
    make_timer, scripted, rounding, rng, tick, span
):
    """R1: for any deadline, not an instant before its tick, and on its tick at the latest."""
    ticks_up, _ = rounding
    timer = make_timer(tick=tick, executor="inline", clock=scripted, start=False)
    whens = [rng.uniform(0, span) for _ in range(40)]
    whens += [rng.randrange(int(span / tick)) * tick for _ in range(40)]
    for when in sorted(whens):
        scripted.set(max(scripted.now, when - 10 * tick))
        task = timer.schedule_at(when, list)
        due = ticks_up(when, tick) * tick
        if scripted.now < due:
            scripted.set(math.nextafter(due, 0.0))
            assert timer.advance_clock() == 0, f"{when} fired before tick {due}"
            scripted.set(due)
        assert timer.advance_clock() == 1, f"{when} did not fire on tick {due}"
        assert task.state == "FIRED"


@pytest.mark.parametrize("wheel_size", [2, 3, 20, 512])
def test_random_tasks_fire_within_a_tick_of_their_deadline(make_timer, clock, rng, wheel_size):
    """R1: turned once a tick, every task starts at or after its deadline and less than one tick late."""
    tick = 1 / 64
    timer = make_timer(tick=tick, wheel_size=wheel_size, executor="inline", clock=clock, start=False)
    started = []

    def start(when):
        started.append(when)
        assert when <= clock.time() < when + tick

    for _ in range(2000):
        if rng.random() < 0.3:
            when = clock.time() + rng.random() * 10 ** rng.randrange(-1, 2)
            timer.schedule_at(when, start, when)
        clock.advance(tick)
        timer.advance_clock()
    assert timer.stats().errors == 0
    assert len(started) + len(timer) == timer.stats().scheduled
    assert len(started) > 300


def test_a_long_jump_fires_nothing_early(timer, clock, advance, rng):
    """R1: turned seldom, a task may be late but what is not due yet stays."""
    tasks = [timer.schedule(rng.uniform(0, 1e6), list) for _ in range(500)]
    for jump in (1.5, 400, 7.25, 1e5, 3e5):
        advance(jump)
        for task in tasks:
            due = math.ceil(task.when - 1e-9) <= clock.time()
            assert (task.state == "FIRED") == due, task


def test_the_running_reaper_fires_nothing_early(make_timer):
    """R1: on the real clock, no callback starts before its deadline."""
    timer = make_timer(tick=0.001)
    finished = threading.Event()
    readings = []

    def note(when):
        readings.append(timer.time() - when)
        if len(readings) == 100:
            finished.set()

    start = timer.time()
    for i in range(100):
        when = start + i * 0.00037
        timer.schedule_at(when, note, when)
    assert finished.wait(WAIT)
    assert min(readings) >= -1e-9


def test_a_clock_that_steps_back_loses_and_repeats_nothing(make_timer, scripted):
    """R6: what was due has fired once and does not fire again; what is pending fires when its time comes."""
    timer = make_timer(tick=1.0, wheel_size=4, executor="inline", clock=scripted, start=False)
    fired = []
    for delay in (5, 10, 15, 100):
        timer.schedule(delay, fired.append, delay)
    scripted.set(10.0)
    timer.advance_clock()
    scripted.set(2.0)
    assert timer.advance_clock() == 0
    assert len(timer) == 2
    timer._check()
    for now in (5.0, 10.0, 14.0):
        scripted.set(now)
        assert timer.advance_clock() == 0
    scripted.set(200.0)
    assert timer.advance_clock() == 2
    assert fired == [5, 10, 15, 100]


def test_what_is_scheduled_after_a_step_back_is_not_early_either(make_timer, scripted):
    """R1, R6: a delay given while the clock is behind still passes in full on that clock."""
    timer = make_timer(tick=1.0, wheel_size=4, executor="inline", clock=scripted, start=False)
    scripted.set(100.0)
    timer.advance_clock()
    scripted.set(40.0)
    task = timer.schedule(5.0, list)
    assert task.when >= 45.0
    while scripted.now < task.when:
        assert timer.advance_clock() == 0
        scripted.set(scripted.now + 1.0)
    assert scripted.now <= 105.0
    assert timer.advance_clock() == 1


def test_the_timers_time_never_goes_back(make_timer, scripted):
    """R6: `Timer.time()` does not step back with its clock."""
    timer = make_timer(tick=1.0, executor="inline", clock=scripted, start=False)
    readings = []
    for now in (3.0, 10.0, 4.0, 9.0, 11.0):
        scripted.set(now)
        timer.advance_clock()
        readings.append(timer.time())
    assert readings == sorted(readings)
    assert readings[-1] == 11.0


def test_a_suspended_machine_fires_each_task_once(timer, advance):
    """R6: hours that pass between two turns lose nothing and repeat nothing."""
    fired = []
    for delay in range(1, 100):
        timer.schedule(delay, fired.append, delay)
    advance(10.0)
    advance(8 * 3600.0)
    assert advance(1.0) == 0
    assert fired == list(range(1, 100))


def test_time_before_zero_rounds_up_too(make_timer, tw):
    """R1: a clock may start below zero: towards zero is up."""
    clock = tw.ManualClock(-10.0)
    timer = make_timer(tick=1.0, wheel_size=4, executor="inline", clock=clock, start=False)
    fired = []
    for delay in (0.5, 1.0, 2.5, 9.5, 10.0, 10.5, 30.0):
        timer.schedule(delay, lambda: fired.append(clock.time()))
    for _ in range(60):
        clock.advance(0.5)
        timer.advance_clock()
        timer._check()
    assert fired == [-9.0, -9.0, -7.0, 0.0, 0.0, 1.0, 20.0]


def test_a_clock_beyond_the_last_tick_is_not_early(make_timer, tw):
    """R1: where the ticks of a deadline can no longer be counted, it is not yet due."""
    timer = make_timer(tick=1e-9, executor="inline", clock=tw.ManualClock(1e10), start=False)
    task = timer.schedule(100.0, list)
    assert timer.advance_clock() == 0
    assert task.state == "PENDING"


def test_a_century_passes_in_any_stride(make_timer, clock, rng):
    """R1: a deadline 100 years away fires on its day, whatever the strides towards it."""
    year = 365.25 * 86400
    timer = make_timer(tick=0.001, executor="inline", clock=clock, start=False)
    task = timer.schedule(100 * year, list)
    for _ in range(99):
        clock.advance(year)
        assert timer.advance_clock() == 0
    clock.advance(year - 1.0)
    assert timer.advance_clock() == 0
    timer._check()
    clock.advance(1.0)
    assert timer.advance_clock() == 1
    assert task.state == "FIRED"
