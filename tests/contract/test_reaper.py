"""The reaper: it sleeps until the next bucket expires, and is woken only for a nearer one."""

import math
import threading

WAIT = 30


def far(when):
    return when < math.inf


def test_with_nothing_pending_it_never_wakes(make_timer, scripted):
    """No idle wake-ups: one sleep without end, and none after it."""
    timer = make_timer(tick=1.0, clock=scripted)
    timer.schedule(0, list)  # a task for at once does not concern the reaper
    for now in range(1, 100):
        scripted.set(float(now))
    assert timer.stats().wakeups == 0
    assert scripted.sleeps in ([], [math.inf])


def test_it_sleeps_until_the_ticks_of_deadlines(make_timer, scripted):
    """From expiration to expiration, each a multiple of the tick."""
    timer = make_timer(tick=0.5, wheel_size=512, clock=scripted)
    ran = []
    for delay in (1.2, 1.3, 3.0, 7.9):
        timer.schedule(delay, ran.append, delay)
    for when in (1.5, 3.0, 8.0):
        assert scripted.wait_for_sleep(far) == when
        scripted.set(when)
    assert scripted.wait_for_sleep() == math.inf
    timer.submit(0, list).result(timeout=WAIT)
    assert ran == [1.2, 1.3, 3.0, 7.9]
    assert timer.stats().wakeups <= 4  # the first schedule, and one for each bucket


def test_a_later_deadline_does_not_wake_it(make_timer, scripted):
    """Only a deadline nearer than the one it sleeps for does."""
    timer = make_timer(tick=1.0, clock=scripted)
    timer.schedule(10.0, list)
    scripted.wait_for_sleep(far)
    wakes = scripted.wakes
    for delay in range(1000):
        timer.schedule(10.0 + delay, list)
    assert scripted.wakes == wakes
    assert scripted.wait_for_sleep() == 10.0


def test_a_nearer_deadline_wakes_it_once(make_timer, scripted):
    """Many tasks for the same nearer bucket are one wake-up."""
    timer = make_timer(tick=1.0, clock=scripted)
    timer.schedule(1000.0, list)
    scripted.wait_for_sleep(far)
    wakes = scripted.wakes
    for _ in range(1000):
        timer.schedule(5.0, list)
    assert scripted.wakes == wakes + 1
    assert scripted.wait_for_sleep(lambda when: when == 5.0) == 5.0
    assert scripted.wakes == wakes + 1


def test_cancel_does_not_wake_it(make_timer, scripted):
    """Nor does moving a task further away: nothing is due earlier."""
    timer = make_timer(tick=1.0, clock=scripted)
    tasks = [timer.schedule(10.0 + n, list) for n in range(100)]
    scripted.wait_for_sleep(far)
    wakes = scripted.wakes
    for task in tasks[::2]:
        task.cancel()
    for task in tasks[1::2]:
        task.reschedule(500.0)
    assert scripted.wakes == wakes


def test_it_wakes_for_nothing_once_at_most(make_timer, scripted):
    """Before it sleeps again it looks past the buckets that cancellations emptied."""
    timer = make_timer(tick=1.0, wheel_size=512, clock=scripted)
    tasks = [timer.schedule(float(delay), list) for delay in range(1, 101)]
    scripted.wait_for_sleep(far)
    for task in tasks[:90]:
        task.cancel()
    before = len(scripted.sleeps)
    scripted.set(1.0)
    assert scripted.wait_for_sleep(lambda when: when > 1.0) == 91.0
    assert len(scripted.sleeps) == before + 1
    for task in tasks[90:]:
        task.cancel()
    scripted.set(91.0)
    assert scripted.wait_for_sleep() == math.inf
    assert len(scripted.sleeps) == before + 2


def test_ten_thousand_timers_over_an_hour(tw, make_timer, rng):
    """No more than one wake-up for each non-empty bucket."""
    clock = tw.ManualClock(auto=True)
    timer = make_timer(tick=0.001, wheel_size=512, clock=clock, executor=None)
    all_in = threading.Event()
    timer.schedule(0, all_in.wait, WAIT)  # holds the automatic clock until all are in
    whens = sorted(rng.uniform(1, 3600) for _ in range(10_000))
    fired = []
    for when in whens:
        timer.schedule_at(when, fired.append, when)
    assert timer.stats().wakeups <= 1
    all_in.set()
    end = threading.Event()
    timer.schedule_at(3601.0, end.set)
    assert end.wait(WAIT)
    assert fired == whens

    wheel = tw.TimingWheel(512)
    for when in [*whens, 3601.0]:
        wheel.add(tw.TimerTask(0), math.ceil(when * 1000 - 1e-6))
    buckets = 0
    while (expiration := wheel.next_expiration()) is not None:
        wheel.advance(expiration)
        buckets += 1
    print(f"{buckets} buckets")
    assert timer.stats().wakeups <= buckets + 1  # and one when the first of them was scheduled


def test_an_idle_timer_is_not_woken_by_many_tasks_for_at_once(make_timer, scripted):
    """R4: the executor has them within `schedule`; the reaper sleeps on."""
    timer = make_timer(tick=1.0, clock=scripted)
    timer.schedule(100.0, list)
    scripted.wait_for_sleep(far)
    wakes = scripted.wakes
    futures = [timer.submit(0, pow, 2, n) for n in range(100)]
    assert [future.result(timeout=WAIT) for future in futures] == [2**n for n in range(100)]
    assert scripted.wakes == wakes
    assert timer.stats().wakeups <= 1


def test_it_does_not_spin_on_a_slow_callback(make_timer, scripted, gate):
    """While the worker is busy the reaper sleeps, and sleeps until what comes next."""
    timer = make_timer(tick=1.0, clock=scripted)
    timer.schedule(1.0, gate.hold)
    timer.schedule(1.0, list)
    timer.schedule(50.0, list)
    scripted.wait_for_sleep(lambda when: when == 1.0)
    scripted.set(1.0)
    gate.wait_entered()
    assert scripted.wait_for_sleep(lambda when: when == 50.0) == 50.0
    assert len(scripted.sleeps) <= 5
