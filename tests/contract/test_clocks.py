"""Clocks: the real ones, the manual one, and one of the user's own."""

import math
import threading
import time

import pytest

WAIT = 30


def turn_until(timer, condition):
    """Lets a timer without a reaper wait for its own deadlines."""
    limit = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < limit
        timer.advance_clock(timeout=1.0)


# --- the real clocks


def test_the_monotonic_clock_is_the_standard_librarys(tw):
    """`MonotonicClock`, the default, reads as `time.monotonic` does."""
    before = time.monotonic()
    reading = tw.MonotonicClock().time()
    assert before <= reading <= time.monotonic()


def test_the_default_clock_is_monotonic(make_timer):
    """`Timer.time()` without a clock of one's own."""
    before = time.monotonic()
    reading = make_timer().time()
    assert before <= reading <= time.monotonic()


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="no boot-time clock on this system")
def test_the_boot_clock_counts_suspend(tw):
    """`BootClock` reads the clock that goes on while the machine sleeps."""
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    reading = tw.BootClock().time()
    assert before <= reading <= time.clock_gettime(time.CLOCK_BOOTTIME)


@pytest.mark.parametrize("name", ["MonotonicClock", "BootClock"])
def test_a_timer_runs_on_each_real_clock(tw, make_timer, name):
    """Deadlines, nearer deadlines and long sleeps, with the reaper running."""
    timer = make_timer(clock=getattr(tw, name)())
    order = []
    finished = threading.Event()
    timer.schedule(3600.0, order.append, "never")
    timer.schedule(0.02, lambda: (order.append("second"), finished.set()))
    timer.schedule(0.01, order.append, "first")
    assert finished.wait(WAIT)
    assert order == ["first", "second"]


@pytest.mark.parametrize("name", ["MonotonicClock", "BootClock"])
def test_close_ends_a_long_sleep(tw, make_timer, name):
    """R9: a reaper that sleeps for an hour, or without end, is woken and ends."""
    for delay in (3600.0, None):
        timer = make_timer(clock=getattr(tw, name)())
        if delay:
            timer.schedule(delay, list)
        timer.close()


def test_waiting_by_hand_returns_when_something_is_due(make_timer):
    """`advance_clock(timeout)` waits no longer than the next deadline."""
    timer = make_timer(executor="inline", start=False)
    ran = []
    timer.schedule(0.005, ran.append, 1)
    turn_until(timer, lambda: ran)
    assert timer.advance_clock(timeout=0.001) == 0


def test_waiting_by_hand_is_woken_by_a_nearer_deadline(make_timer):
    """A task scheduled by another thread, for at once, ends the wait."""
    timer = make_timer(executor="inline", start=False)
    timer.schedule(3600.0, list)
    ran = []
    other = threading.Thread(target=lambda: (time.sleep(0.02), timer.schedule(0, ran.append, 1)))
    other.start()
    started = time.monotonic()
    assert timer.advance_clock(timeout=WAIT) == 1
    assert time.monotonic() - started < WAIT
    assert ran == [1]
    other.join()


def test_several_threads_may_wait_by_hand(tw, make_timer):
    """One that returns does not take the wake-ups of one that waits on."""
    waiting = threading.Semaphore(0)

    class Clock(tw.ManualClock):
        def sleeper(self, idle):
            waiting.release()
            return super().sleeper(idle)

    clock = Clock()
    timer = make_timer(tick=1.0, executor="inline", clock=clock, start=False)
    handed = []

    def wait(timeout):
        thread = threading.Thread(target=lambda: handed.append(timer.advance_clock(timeout)), daemon=True)
        thread.start()
        assert waiting.acquire(timeout=WAIT)
        return thread

    long, short = wait(100.0), wait(1.0)
    clock.advance(2.0)
    short.join(WAIT)
    timer.schedule(5.0, list)
    clock.advance(5.0)
    long.join(WAIT)
    assert handed == [0, 1]


# --- the manual clock


def test_the_manual_clock_stands_still(tw):
    """It starts where it is told, and moves when it is told."""
    clock = tw.ManualClock(100.0)
    assert (clock.time(), clock.time()) == (100.0, 100.0)
    clock.advance(2.5)
    clock.advance(0)
    assert clock.time() == 102.5
    assert tw.ManualClock().time() == 0.0


@pytest.mark.parametrize("seconds", [-1.0, -1e-12, math.nan, math.inf])
def test_the_manual_clock_does_not_go_backwards(tw, seconds):
    """ValueError, and the time is as before."""
    clock = tw.ManualClock(5.0)
    with pytest.raises(ValueError, match=r"^seconds must be .*got"):
        clock.advance(seconds)
    assert clock.time() == 5.0


def test_the_manual_clock_stays_finite(tw):
    """ValueError for a step that would leave every number behind, and the time is as before."""
    clock = tw.ManualClock(1e308)
    with pytest.raises(ValueError, match=r"^seconds must .*finite, got 1e\+308 at 1e\+308$"):
        clock.advance(1e308)
    assert clock.time() == 1e308


def test_the_manual_clock_wakes_a_running_reaper(make_timer, clock):
    """`advance` is enough: the reaper sees that the deadline has passed."""
    timer = make_timer(tick=1.0, clock=clock)
    for _ in range(20):
        ran = threading.Event()
        timer.schedule(10.0, ran.set)
        clock.advance(9.0)
        assert not ran.is_set()
        clock.advance(1.0)
        assert ran.wait(WAIT)


def test_two_timers_share_a_manual_clock(make_timer, clock):
    """Advancing it wakes both."""
    ran = [threading.Event(), threading.Event()]
    for event in ran:
        make_timer(tick=1.0, clock=clock).schedule(5.0, event.set)
    clock.advance(5.0)
    assert all(event.wait(WAIT) for event in ran)


def test_a_manual_clock_outlives_its_timers(make_timer, clock):
    """A closed timer leaves nothing on the clock: it goes on for others."""
    for _ in range(50):
        timer = make_timer(tick=1.0, clock=clock)
        timer.schedule(5.0, list)
        timer.close()
    clock.advance(100.0)
    assert clock.time() == 100.0


# --- the automatic one


@pytest.fixture
def auto(tw):
    return tw.ManualClock(auto=True)


def test_the_automatic_clock_jumps_to_the_next_deadline(make_timer, auto):
    """A century of deadlines in no time, each at its own."""
    timer = make_timer(tick=1.0, clock=auto)
    year = 365 * 86400.0
    readings = []
    finished = threading.Event()
    with_gap = [3.0, 10.0, year, 100 * year]
    release = threading.Event()
    timer.schedule(0, release.wait, WAIT)  # holds the clock until all are in
    for delay in with_gap:
        timer.schedule(delay, lambda: readings.append(auto.time()))
    timer.schedule(100 * year + 1, finished.set)
    release.set()
    assert finished.wait(WAIT)
    assert readings == with_gap


def test_the_automatic_clock_follows_a_chain(make_timer, auto):
    """Each callback schedules the next: a thousand hours."""
    timer = make_timer(tick=1.0, clock=auto)
    readings = []
    finished = threading.Event()

    def link():
        readings.append(auto.time())
        if len(readings) == 1000:
            finished.set()
        else:
            timer.schedule(3600.0, link)

    timer.schedule(3600.0, link)
    assert finished.wait(WAIT)
    assert readings == [3600.0 * n for n in range(1, 1001)]


def test_the_automatic_clock_waits_for_callbacks(make_timer, auto, gate):
    """It does not jump while a callback of the timer runs or waits."""
    timer = make_timer(tick=1.0, clock=auto)
    timer.schedule(0, gate.hold)
    gate.wait_entered()
    finished = threading.Event()
    timer.schedule(5.0, finished.set)
    for _ in range(100):
        timer.schedule(1000.0, list).cancel()
        timer.schedule(2.0, list).cancel()
        time.sleep(0)
    assert auto.time() == 0.0
    gate.open()
    assert finished.wait(WAIT)
    assert auto.time() >= 5.0


def test_the_automatic_clock_stands_still_when_nothing_is_pending(make_timer, auto):
    """There is nowhere to jump to."""
    timer = make_timer(tick=1.0, clock=auto)
    assert timer.submit(7.0, pow, 2, 2).result(timeout=WAIT) == 4
    timer.submit(0, list).result(timeout=WAIT)
    assert auto.time() == 7.0


def test_the_automatic_clock_serves_a_timer_turned_by_hand(make_timer, auto):
    """`advance_clock(timeout)` jumps instead of waiting."""
    timer = make_timer(tick=1.0, executor="inline", clock=auto, start=False)
    readings = []
    timer.schedule(3600.0, lambda: readings.append(auto.time()))
    started = time.monotonic()
    while not readings:
        timer.advance_clock(timeout=7200.0)
        assert time.monotonic() - started < WAIT
    assert readings == [3600.0]


def test_the_automatic_clock_jumps_when_the_worker_comes_to_rest(make_timer, auto, gate):
    """`advance_clock(timeout)` waits for a busy worker, and learns of it when it is done."""
    timer = make_timer(tick=1.0, clock=auto, start=False)
    timer.schedule(0, gate.hold)
    gate.wait_entered()
    future = timer.submit(5.0, auto.time)
    opener = threading.Timer(0.05, gate.open)
    opener.start()
    assert timer.advance_clock(timeout=10.0) == 1
    assert future.result(timeout=WAIT) == 5.0
    opener.join()


# --- a clock of one's own


def test_time_alone_is_enough_for_a_timer_turned_by_hand(make_timer):
    """The protocol: without a reaper, a clock need only tell the time."""

    class Sundial:
        now = 50.0

        def time(self):
            return self.now

    dial = Sundial()
    timer = make_timer(tick=1.0, executor="inline", clock=dial, start=False)
    ran = []
    task = timer.schedule(2.0, ran.append, 1)
    assert (timer.time(), task.when) == (50.0, 52.0)
    dial.now = 52.0
    assert timer.advance_clock() == 1
    assert ran == [1]


def test_a_reaper_sleeps_on_the_users_own_clock(make_timer, scripted):
    """The protocol: wait until, wake, close."""
    timer = make_timer(tick=1.0, clock=scripted)
    ran = threading.Event()
    timer.schedule(10.0, ran.set)
    assert scripted.wait_for_sleep(lambda when: when < math.inf) == 10.0
    scripted.set(10.0)
    assert ran.wait(WAIT)
    assert scripted.wait_for_sleep() == math.inf
    timer.close()
    assert scripted.closed == 1


def test_a_clock_that_is_woken_for_nothing_harms_nothing(make_timer, scripted):
    """A spurious return from the wait is looked at and slept off."""
    timer = make_timer(tick=1.0, clock=scripted)
    ran = threading.Event()
    timer.schedule(10.0, ran.set)
    for _ in range(20):
        scripted.wait_for_sleep(lambda when: when < math.inf)
        with scripted._changed:
            scripted._woken = True
            scripted._changed.notify_all()
    scripted.wait_for_sleep(lambda when: when < math.inf)
    assert not ran.is_set()
    scripted.set(10.0)
    assert ran.wait(WAIT)


def test_schedule_at_is_on_the_timers_clock(make_timer, tw):
    """`schedule_at` takes what `Timer.time()` gives."""
    timer = make_timer(tick=1.0, executor="inline", clock=tw.ManualClock(1e9), start=False)
    task = timer.schedule_at(timer.time() + 5.0, list)
    assert task.when == 1e9 + 5.0
    assert timer.advance_clock() == 0


def test_an_error_of_the_clock_surfaces_in_schedule(make_timer):
    """A clock that fails is the caller's to hear of, and nothing is left half done."""

    class Broken:
        broken = False

        def time(self):
            if self.broken:
                raise OSError("no clock")
            return 0.0

    clock = Broken()
    timer = make_timer(tick=1.0, executor="inline", clock=clock, start=False)
    clock.broken = True
    with pytest.raises(OSError, match="no clock"):
        timer.schedule(1.0, list)
    clock.broken = False
    assert len(timer) == 0
    timer._check()
