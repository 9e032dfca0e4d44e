"""`reconfigure`: another tick or size while tasks are pending."""

import threading

import pytest

WAIT = 30


def test_every_task_keeps_its_handle_and_deadline(timer, clock, rng):
    """Live: nothing is lost, repeated or moved."""
    fired = []
    tasks = {}
    for number in range(1000):
        delay = rng.uniform(0.1, 10 ** rng.randrange(1, 6))
        tasks[number] = timer.schedule(delay, fired.append, number), delay
    for tick, size in ((0.25, 3), (0.001, 512), (7.0, 2), (1 / 3, 20)):
        timer.reconfigure(tick=tick, wheel_size=size)
        timer._check()
        assert len(timer) == 1000
    for task, delay in tasks.values():
        assert (task.when, task.state) == (delay, "PENDING")
    clock.advance(1e6)
    assert timer.advance_clock() == 1000
    assert sorted(fired) == list(range(1000))


def test_a_finer_tick_applies_to_the_exact_deadline(make_timer, clock):
    """R1: 15 ms, rounded up to 20 ms by a 10 ms tick, fires at 15 ms once the tick is 1 ms."""
    timer = make_timer(tick=0.010, executor="inline", clock=clock, start=False)
    timer.schedule(0.015, list)
    clock.advance(0.012)
    timer.advance_clock()
    timer.reconfigure(tick=0.001)
    clock.advance(0.0025)
    assert timer.advance_clock() == 0
    clock.advance(0.0006)
    assert timer.advance_clock() == 1


def test_a_coarser_tick_applies_to_the_exact_deadline(make_timer, clock):
    """R1: and with a coarser one it waits for the next coarse tick."""
    timer = make_timer(tick=0.001, executor="inline", clock=clock, start=False)
    timer.schedule(1.5, list)
    timer.reconfigure(tick=1.0)
    clock.advance(1.75)
    assert timer.advance_clock() == 0
    clock.advance(0.25)
    assert timer.advance_clock() == 1


def test_what_the_finer_tick_makes_due_fires(timer, clock):
    """R1: a deadline that has passed inside the coarse tick is due as soon as the tick is fine."""
    clock.advance(0.25)
    task = timer.schedule(0.25, list)
    clock.advance(0.5)
    assert timer.advance_clock() == 0
    timer.reconfigure(tick=0.125)
    assert timer.advance_clock() == 1
    assert task.state == "FIRED"


def test_one_of_the_two_may_be_left_as_it_is(timer, advance):
    """`tick` alone, `wheel_size` alone, or neither."""
    timer.schedule(1.5, list)
    timer.schedule(100.0, list)
    timer.reconfigure(wheel_size=2)
    timer.reconfigure()
    assert advance(1.5) == 0
    timer.reconfigure(tick=0.5)
    assert timer.advance_clock() == 1
    assert advance(98.0) == 0
    assert advance(0.5) == 1


def test_time_does_not_go_back_with_it(timer, advance):
    """R6: what has fired stays fired, and new tasks are placed by the time that it is."""
    timer.schedule(5.0, list)
    advance(1000.0)
    timer.reconfigure(tick=0.001, wheel_size=16)
    task = timer.schedule(2.0, list)
    assert task.when == 1002.0
    assert advance(1.9) == 0
    assert advance(0.2) == 1
    assert advance(1e6) == 0


def test_queued_tasks_stay_queued(make_timer, clock, collecting):
    """R3: what an executor already has is not touched."""
    timer = make_timer(tick=1.0, executor=collecting, clock=clock, start=False)
    ran = []
    queued = timer.schedule(1.0, ran.append, 1)
    timer.schedule(5.0, ran.append, 2)
    clock.advance(1.0)
    timer.advance_clock()
    timer.reconfigure(tick=0.1, wheel_size=4)
    assert queued.state == "QUEUED"
    collecting.run_all()
    clock.advance(4.0)
    timer.advance_clock()
    collecting.run_all()
    assert ran == [1, 2]


def test_periodic_tasks_keep_their_grid(timer, clock):
    """A grid is in seconds, not in ticks."""
    runs = []
    task = timer.schedule_every(1.5, lambda: runs.append(clock.time()))
    for tick in (0.5, 0.25, 1.0, 0.125):
        timer.reconfigure(tick=tick)
        for _ in range(12):
            clock.advance(0.125)
            timer.advance_clock()
    assert runs == [1.5, 3.0, 4.5 + 0.125, 6.0]  # with a tick of 1 s the third waits: until the tick is finer
    assert task.when == 7.5


def test_a_callback_may_reconfigure(timer, clock):
    """R7: during a turn, with tasks of the same instant still to run."""
    ran = []
    timer.schedule(1.0, lambda: timer.reconfigure(tick=0.125, wheel_size=3))
    for number in range(5):
        timer.schedule(1.0, ran.append, number)
        timer.schedule(1.75 + number, ran.append, 10 + number)
    clock.advance(1.0)
    while timer.advance_clock():
        pass
    assert ran == [0, 1, 2, 3, 4]
    clock.advance(0.75)
    assert timer.advance_clock() == 1
    timer._check()
    assert ran[-1] == 10


def test_what_is_overdue_keeps_its_order(timer, clock):
    """R2: tasks that are due when the tick changes run by their deadlines, not as their buckets lay."""
    ran = []
    for delay in (5.9, 5.1, 6.5, 0.7):
        timer.schedule(delay, ran.append, delay)
    clock.advance(8.0)
    timer.reconfigure(tick=0.1)
    assert timer.advance_clock() == 4
    assert ran == [0.7, 5.1, 5.9, 6.5]


def test_a_sleeping_reaper_learns_of_it(make_timer, scripted):
    """A nearer tick is a nearer deadline: the reaper sleeps until that one."""
    timer = make_timer(tick=10.0, clock=scripted)
    ran = threading.Event()
    timer.schedule(12.0, ran.set)
    assert scripted.wait_for_sleep(lambda when: when == 20.0) == 20.0
    timer.reconfigure(tick=1.0)
    assert scripted.wait_for_sleep(lambda when: when == 12.0) == 12.0
    scripted.set(12.0)
    assert ran.wait(WAIT)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tick": 0}, "tick must be > 0, got 0"),
        ({"tick": -0.5}, "tick must be > 0, got -0.5"),
        ({"tick": float("nan")}, "tick must be .*, got nan"),
        ({"wheel_size": 1}, "wheel_size must be >= 2, got 1"),
        ({"tick": 0.5, "wheel_size": 0}, "wheel_size must be >= 2, got 0"),
    ],
)
def test_a_refused_change_changes_nothing(timer, advance, options, message):
    """ValueError names the argument, and neither of the two has changed."""
    timer.schedule(1.5, list)
    with pytest.raises(ValueError, match=f"^{message}$"):
        timer.reconfigure(**options)
    timer._check()
    assert advance(1.5) == 0
    assert advance(0.5) == 1


def test_it_takes_keywords_only(timer):
    """A bare number does not say which of the two it is."""
    with pytest.raises(TypeError):
        timer.reconfigure(0.5)


def test_no_memory_for_a_size_changes_nothing(timer, advance):
    """A size that no machine can hold is an error, and the wheel is as it was."""
    timer.schedule(2.0, list)
    with pytest.raises((MemoryError, ValueError, OverflowError)):
        timer.reconfigure(wheel_size=2**62)
    timer._check()
    assert advance(2.0) == 1


@pytest.mark.parametrize("size", [2**62, 2**64])
def test_no_memory_for_a_size_leaves_the_tick_too(timer, advance, size):
    """A tick that came with such a size is not taken either: what was pending fires on the old one."""
    timer.schedule(5.0, list)
    with pytest.raises(MemoryError):
        timer.reconfigure(tick=10.0, wheel_size=size)
    timer._check()
    assert advance(5.0) == 1
