"""`schedule_every`: no drift, no overlap, three ways to treat what was missed (R3)."""

import concurrent.futures
import itertools
import math
import threading

import pytest

WAIT = 30


@pytest.fixture
def runs():
    return []


@pytest.fixture
def note(runs, clock):
    return lambda: runs.append(clock.time())


def turn_until_quiet(timer):
    """Turns the wheel until nothing is due: how many ran."""
    return sum(iter(timer.advance_clock, 0))


@pytest.mark.parametrize("missed", ["skip", "burst", "delay"])
def test_it_runs_after_each_interval(timer, clock, runs, note, missed):
    """First after one interval, then after each, whatever the policy, as long as nothing is missed."""
    task = timer.schedule_every(3.0, note, missed=missed)
    assert (task.when, task.state, runs) == (3.0, "PENDING", [])
    for _ in range(12):
        clock.advance(1.0)
        timer.advance_clock()
        assert (task.state, len(timer)) == ("PENDING", 1)
    assert runs == [3.0, 6.0, 9.0, 12.0]
    assert task.when == 15.0


def test_arguments_are_passed_on_each_run(timer, advance):
    """`schedule_every(interval, callback, *args)`."""
    seen = []
    timer.schedule_every(1.0, seen.append, "again")
    for _ in range(3):
        advance(1.0)
    assert seen == ["again"] * 3


def test_skip_runs_once_for_all_that_was_missed_and_keeps_its_grid(timer, clock, runs, note):
    """By default, "skip": late by several intervals, it runs once, then on the grid again."""
    task = timer.schedule_every(1.0, note)
    clock.advance(3.5)
    assert turn_until_quiet(timer) == 1
    assert task.when == 4.0
    clock.advance(0.5)
    assert turn_until_quiet(timer) == 1
    assert runs == [3.5, 4.0]


def test_skip_takes_a_grid_point_that_counts_as_now_for_missed(make_timer, clock):
    """R1 reads 3 * 0.1 as 0.3, so "skip" does too: late until the third interval it runs once, not twice."""
    timer = make_timer(tick=0.001, executor="inline", clock=clock, start=False)
    task = timer.schedule_every(0.1, list)
    clock.advance(0.3)
    assert turn_until_quiet(timer) == 1
    assert task.when == pytest.approx(0.4)


def test_burst_makes_up_for_all_that_was_missed_and_keeps_its_grid(timer, clock, runs, note):
    """With "burst": as many runs as intervals have passed."""
    task = timer.schedule_every(1.0, note, missed="burst")
    clock.advance(3.5)
    assert turn_until_quiet(timer) == 3
    assert task.when == 4.0
    clock.advance(0.5)
    assert turn_until_quiet(timer) == 1
    assert runs == [3.5, 3.5, 3.5, 4.0]


def test_delay_counts_from_the_end_of_the_last_run(timer, clock, runs):
    """With "delay" a run that takes time, or is late, moves those after it."""

    def slow():
        runs.append(clock.time())
        clock.advance(0.25)

    task = timer.schedule_every(1.0, slow, missed="delay")
    clock.advance(3.5)
    assert turn_until_quiet(timer) == 1
    assert task.when == 4.75
    clock.advance(1.25)  # 5.0
    assert turn_until_quiet(timer) == 1
    assert task.when == 6.25
    assert runs == [3.5, 5.0]


@pytest.mark.parametrize(("missed", "expected"), [("skip", [1.0, 4.0]), ("burst", [1.0, 3.5, 3.5, 4.0])])
def test_a_run_longer_than_the_interval_misses_some(timer, clock, runs, missed, expected):
    """A slow callback is a reason to miss runs like any other."""

    def slow_at_first():
        runs.append(clock.time())
        if len(runs) == 1:
            clock.advance(2.5)

    timer.schedule_every(1.0, slow_at_first, missed=missed)
    clock.advance(1.0)
    turn_until_quiet(timer)
    clock.advance(0.5)
    turn_until_quiet(timer)
    assert runs == expected


@pytest.mark.parametrize("missed", ["skip", "burst"])
def test_rounding_to_ticks_does_not_add_up(make_timer, clock, runs, note, missed):
    """No drift: each run is late by part of a tick, the two thousandth no more than the first."""
    tick, interval = 1 / 64, 0.3
    timer = make_timer(tick=tick, executor="inline", clock=clock, start=False)
    task = timer.schedule_every(interval, note, missed=missed)
    while len(runs) < 2000:
        clock.advance(tick)
        timer.advance_clock()
    for number, run in enumerate(runs, 1):
        assert number * interval - 2e-9 <= run < number * interval + tick
    assert task.when == pytest.approx(2001 * interval, abs=1e-9)


@pytest.mark.parametrize("missed", ["skip", "burst"])
def test_random_strides_against_counting(make_timer, clock, rng, missed):
    """Between any two turns, "skip" runs at most once and "burst" once for each point of the grid passed."""
    tick, interval = 0.25, 1.75
    timer = make_timer(tick=tick, wheel_size=4, executor="inline", clock=clock, start=False)
    count = [0]

    def tell():
        count[0] += 1

    task = timer.schedule_every(interval, tell, missed=missed)
    seen = 0
    for _ in range(300):
        clock.advance(rng.randrange(1, 40) * 0.25 + 0.125)
        now = math.floor(clock.time() / tick) * tick
        grid = math.floor(now / interval)  # points of the grid whose tick has come
        before = count[0]
        turn_until_quiet(timer)
        ran = count[0] - before
        assert ran == (grid - seen if missed == "burst" else min(1, grid - seen))
        seen = grid
        assert task.when == (grid + 1) * interval
        timer._check()


def test_an_interval_below_a_tick_skips_to_one_run_a_tick(timer, clock, runs, note):
    """A "skip" with an interval shorter than the tick."""
    timer.schedule_every(0.3, note)
    for _ in range(10):
        clock.advance(1.0)
        turn_until_quiet(timer)
    assert runs == [float(second) for second in range(1, 11)]


def test_an_interval_below_a_tick_bursts_through_the_grid(timer, clock, runs, note):
    """A "burst" with an interval shorter than the tick: forty quarters in ten seconds."""
    timer.schedule_every(0.25, note, missed="burst")
    for _ in range(10):
        clock.advance(1.0)
        turn_until_quiet(timer)
    assert len(runs) == 40


def test_a_century_of_missed_runs_is_skipped_at_once(timer, clock, runs, note):
    """A "skip" counts what was missed; it does not walk through it."""
    task = timer.schedule_every(0.75, note)
    clock.advance(3e9)
    assert turn_until_quiet(timer) == 1
    assert 0 < task.when - clock.time() <= 0.75
    timer._check()


# --- its one handle


def test_it_counts_one_scheduling_a_run(timer, advance):
    """Counters: `scheduled == fired + cancelled + pending` at every moment."""
    during = []
    task = timer.schedule_every(1.0, lambda: during.append(timer.stats()))
    for _ in range(5):
        advance(1.0)
    stats = timer.stats()
    assert (stats.scheduled, stats.fired, stats.pending) == (6, 5, 1)
    for seen in during:
        assert seen.scheduled == seen.fired + seen.cancelled + seen.pending
    task.cancel()
    stats = timer.stats()
    assert (stats.scheduled, stats.fired, stats.cancelled, stats.pending) == (6, 5, 1, 0)


def test_it_is_pending_while_it_runs(timer, advance):
    """R3: PENDING between runs, and during one: the next run is already promised."""
    seen = []
    task = timer.schedule_every(1.0, lambda: seen.append((task.state, len(timer))))
    advance(1.0)
    assert seen == [("PENDING", 1)]


def test_cancel_between_runs_means_never_again(timer, advance, runs, note):
    """R3: True once, and no run after it."""
    task = timer.schedule_every(1.0, note)
    advance(1.0)
    assert [task.cancel(), task.cancel()] == [True, False]
    assert (task.state, len(timer)) == ("CANCELLED", 0)
    assert advance(10.0) == 0
    assert runs == [1.0]


@pytest.mark.parametrize("missed", ["skip", "burst", "delay"])
def test_cancel_from_inside_means_never_again(timer, clock, missed):
    """R3: also from inside its callback, where it is True once too."""
    results = []

    def callback():
        results.append((task.cancel(), task.cancel(), task.state))

    task = timer.schedule_every(1.0, callback, missed=missed)
    clock.advance(3.5)
    turn_until_quiet(timer)
    clock.advance(10.0)
    assert turn_until_quiet(timer) == 0
    assert results == [(True, False, "CANCELLED")]
    assert len(timer) == 0
    assert task.callback is None
    timer._check()


@pytest.mark.parametrize("missed", ["skip", "burst"])
def test_reschedule_moves_the_next_run_and_the_grid(timer, clock, runs, note, missed):
    """R3: the interval stays, its grid starts where the next run now is."""
    task = timer.schedule_every(4.0, note, missed=missed)
    clock.advance(2.0)
    assert task.reschedule(1.0) is True
    assert task.when == 3.0
    for _ in range(10):
        clock.advance(1.0)
        turn_until_quiet(timer)
    assert runs == [3.0, 7.0, 11.0]


@pytest.mark.parametrize("missed", ["skip", "burst", "delay"])
def test_reschedule_from_inside_moves_the_next_run(timer, clock, runs, missed):
    """R3: from inside its callback it decides when the next run is."""

    def callback():
        runs.append(clock.time())
        if len(runs) == 1:
            assert task.reschedule(2.0) is True
            assert task.state == "PENDING"

    task = timer.schedule_every(4.0, callback, missed=missed)
    for _ in range(15):
        clock.advance(1.0)
        turn_until_quiet(timer)
    assert runs == [4.0, 6.0, 10.0, 14.0]


def test_cancel_after_reschedule_from_inside(timer, clock):
    """R3: the last word counts."""
    results = []

    def callback():
        results.append((task.reschedule(1.0), task.cancel(), task.reschedule(1.0)))

    task = timer.schedule_every(1.0, callback)
    clock.advance(1.0)
    turn_until_quiet(timer)
    clock.advance(10.0)
    assert turn_until_quiet(timer) == 0
    assert results == [(True, True, False)]


def test_an_error_does_not_end_it(timer, advance, caplog):
    """R8: a run that raises is logged, and the next one comes."""
    runs = []

    def callback():
        runs.append(len(runs))
        raise ZeroDivisionError

    task = timer.schedule_every(1.0, callback)
    for _ in range(3):
        advance(1.0)
    assert runs == [0, 1, 2]
    assert timer.stats().errors == 3
    assert task.state == "PENDING"


@pytest.mark.parametrize("missed", ["skip", "burst", "delay"])
def test_its_runs_never_overlap(make_timer, missed):
    """R3: not on a pool either, however much shorter the interval is than the run."""
    inside, most, count = [0], [0], itertools.count(1)
    lock, finished = threading.Lock(), threading.Event()

    def callback():
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        timer.schedule(0, list)  # something for the other workers, and a chance to be preempted
        if next(count) == 100:
            finished.set()
        with lock:
            inside[0] -= 1

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        timer = make_timer(tick=0.001, executor=pool)
        task = timer.schedule_every(0.0005, callback, missed=missed)
        assert finished.wait(WAIT)
        assert task.cancel() is True
        timer.close()
    assert most == [1]


def test_cancel_while_it_runs_on_another_thread(make_timer, clock, gate):
    """R3: True during a run means that there is no other run."""
    timer = make_timer(tick=1.0, clock=clock, start=False)
    count = [0]

    def callback():
        count[0] += 1
        gate.hold()

    task = timer.schedule_every(1.0, callback)
    clock.advance(1.0)
    timer.advance_clock()
    gate.wait_entered()
    assert task.cancel() is True
    gate.open()
    clock.advance(5.0)
    timer.close()
    assert count == [1]


# --- close


def test_close_returns_it_and_it_may_be_added_again(timer, make_timer, clock, runs, note):
    """R9: its next run never started; added elsewhere it is periodic again."""
    task = timer.schedule_every(2.0, note)
    clock.advance(2.0)
    timer.advance_clock()
    assert timer.close() == [task]
    assert task.state == "IDLE"
    other = make_timer(tick=1.0, executor="inline", clock=clock, start=False)
    other.add(task)
    for _ in range(4):
        clock.advance(1.0)
        other.advance_clock()
    assert runs == [2.0, 4.0, 6.0]


def test_close_from_inside_returns_it(timer, clock):
    """R3, R9: the run has started, the next has not: that one is returned."""
    returned = []
    task = timer.schedule_every(1.0, lambda: returned.append(timer.close()))
    clock.advance(1.0)
    timer.advance_clock()
    assert returned == [[task]]
    assert task.state == "IDLE"
    assert len(timer) == 0
    stats = timer.stats()
    assert (stats.scheduled, stats.fired, stats.pending) == (2, 1, 0)


@pytest.mark.parametrize(
    ("interval", "message"),
    [
        (0, "interval must be > 0, got 0"),
        (-1.5, "interval must be > 0, got -1.5"),
        (math.nan, "interval must be .*, got nan"),
        (math.inf, "interval must be .*finite, got inf"),
    ],
)
def test_a_bad_interval_is_named(timer, interval, message):
    """ValueError names the argument, the rule and the value seen."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        timer.schedule_every(interval, list)
    assert len(timer) == 0


@pytest.mark.parametrize("interval", [5e-324, 1e-12])
def test_an_interval_below_a_nanosecond_is_refused(timer, interval):
    """Ticks are compared to a nanosecond: a run would never be past the one before, and no turn would end."""
    with pytest.raises(ValueError, match=rf"^interval must be >= 1e-09 .*, got {interval:g}$"):
        timer.schedule_every(interval, list)
    assert len(timer) == 0


def test_an_unknown_policy_is_named(timer):
    """ValueError for a policy that does not exist."""
    with pytest.raises(ValueError, match=r"missed must be .*skip.*burst.*delay.*got 'never'"):
        timer.schedule_every(1.0, list, missed="never")
    assert len(timer) == 0
