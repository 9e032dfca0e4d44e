"""R3 and R5: each scheduling ends once, and a pending task moves in place."""

import threading

WAIT = 30


def drain(timer):
    """Returns when the worker has started all that was queued before."""
    reached = threading.Event()
    timer.schedule(0, reached.set)
    assert reached.wait(WAIT)


# --- states


def test_a_task_is_idle_then_pending_then_fired(tw, timer, advance):
    """R3: IDLE until scheduled, PENDING until its deadline, FIRED once its callback has started."""
    task = tw.TimerTask(2.0)
    assert task.state == "IDLE"
    timer.add(task)
    assert task.state == "PENDING"
    advance(2.0)
    assert task.state == "FIRED"


def test_states_are_members_of_the_public_enumeration(tw, timer):
    """A state is a `TaskState`, which is a string too."""
    task = timer.schedule(1.0, list)
    assert task.state is tw.TaskState.PENDING
    assert {state.value for state in tw.TaskState} == {"IDLE", "PENDING", "QUEUED", "FIRED", "CANCELLED"}


def test_a_task_is_fired_from_the_start_of_its_callback(timer, advance):
    """R3: fired means that the callback has started."""
    states = []
    task = timer.schedule(1.0, lambda: states.append(task.state))
    advance(1.0)
    assert states == ["FIRED"]


def test_a_due_task_is_queued_until_its_executor_starts_it(busy, clock, gate):
    """R3: QUEUED is due and handed over, and not started."""
    ran = threading.Event()
    task = busy.schedule(1.0, ran.set)
    clock.advance(1.0)
    assert busy.advance_clock() == 1
    assert task.state == "QUEUED"
    assert len(busy) == 1
    gate.open()
    assert ran.wait(WAIT)
    assert task.state == "FIRED"


# --- cancel


def test_cancel_is_true_once(timer, advance):
    """R3: cancelling thrice succeeds once, and the task never runs."""
    fired = []
    task = timer.schedule(1.0, fired.append, 1)
    assert [task.cancel(), task.cancel(), task.cancel()] == [True, False, False]
    assert task.state == "CANCELLED"
    assert len(timer) == 0
    advance(10.0)
    assert fired == []


def test_cancel_of_a_fired_task_is_false(timer, advance):
    """R3: a scheduling that fired cannot also be cancelled."""
    task = timer.schedule(1.0, list)
    advance(1.0)
    assert task.cancel() is False
    assert task.state == "FIRED"


def test_cancel_of_a_task_that_was_never_scheduled_is_false(tw):
    """R3: there is no scheduling to cancel."""
    task = tw.TimerTask(1.0)
    assert task.cancel() is False
    assert task.state == "IDLE"


def test_cancel_inside_its_own_callback_is_false(timer, advance):
    """R3: the callback has started, so the scheduling has ended."""
    results = []
    task = timer.schedule(1.0, lambda: results.append((task.cancel(), task.reschedule(5.0))))
    advance(1.0)
    assert results == [(False, False)]
    assert len(timer) == 0


def test_cancel_wins_over_a_task_due_at_the_same_instant(timer, advance):
    """R3: until its callback has started, a task that is due can be cancelled by one that runs before it."""
    fired, won = [], []
    timer.schedule(1.0, lambda: won.append(second.cancel()))
    second = timer.schedule(1.0, fired.append, "second")
    third = timer.schedule(2.0, fired.append, "third")
    assert advance(5.0) == 2
    assert won == [True]
    assert fired == ["third"]
    assert (second.state, third.state) == ("CANCELLED", "FIRED")


def test_cancel_wins_while_the_task_waits_in_the_executors_queue(busy, clock, gate):
    """R3: True means that it will never run, also when it was already queued."""
    ran = []
    queued = [busy.schedule(1.0, ran.append, number) for number in range(10)]
    clock.advance(1.0)
    busy.advance_clock()
    assert [task.cancel() for task in queued[::2]] == [True] * 5
    assert len(busy) == 5
    gate.open()
    drain(busy)
    assert ran == [1, 3, 5, 7, 9]
    assert [task.cancel() for task in queued] == [False] * 10


# --- reschedule


def test_reschedule_moves_a_pending_task_and_keeps_its_handle(timer, clock, advance):
    """R5: the same task, later and earlier, counted once."""
    fired = []
    task = timer.schedule(5.0, fired.append, "moved")
    clock.advance(1.0)
    assert task.reschedule(100.0) is True
    assert (task.when, task.state, len(timer)) == (101.0, "PENDING", 1)
    advance(50.0)
    assert fired == []
    assert task.reschedule(3.0) is True
    assert task.when == 54.0
    assert advance(2.0) == 0
    assert advance(1.0) == 1
    assert fired == ["moved"]
    assert advance(100.0) == 0


def test_reschedule_is_counted_as_the_same_scheduling(timer):
    """R5: moving a task neither ends nor begins a scheduling."""
    task = timer.schedule(5.0, list)
    for delay in range(1, 100):
        task.reschedule(delay)
    assert timer.stats().scheduled == 1
    assert timer.stats().cancelled == 0


def test_reschedule_of_an_ended_task_is_false(tw, timer, advance):
    """R5: False if it already fired or was cancelled, and nothing moves."""
    fired, cancelled = timer.schedule(1.0, list), timer.schedule(1.0, list)
    cancelled.cancel()
    advance(1.0)
    assert fired.reschedule(1.0) is False
    assert cancelled.reschedule(1.0) is False
    assert len(timer) == 0
    assert advance(10.0) == 0


def test_reschedule_wins_while_the_task_waits_in_the_executors_queue(busy, clock, gate):
    """R3: a queued task moves back into the wheel, and its old place in the queue runs nothing."""
    ran = []
    task = busy.schedule(1.0, ran.append, "ran")
    clock.advance(1.0)
    busy.advance_clock()
    assert task.state == "QUEUED"
    assert task.reschedule(4.0) is True
    assert task.state == "PENDING"
    gate.open()
    drain(busy)
    assert ran == []
    clock.advance(3.0)
    assert busy.advance_clock() == 0
    clock.advance(1.0)
    assert busy.advance_clock() == 1
    drain(busy)
    assert ran == ["ran"]


def test_reschedule_wins_over_a_task_due_at_the_same_instant(timer, advance):
    """R3: also inline, a due task that has not started can be moved."""
    fired = []
    timer.schedule(1.0, lambda: second.reschedule(5.0))
    second = timer.schedule(1.0, fired.append, "second")
    assert advance(1.0) == 1
    assert fired == []
    assert second.state == "PENDING"
    advance(5.0)
    assert fired == ["second"]


def test_a_stale_ticket_never_runs_a_task_that_moved(make_timer, clock, collecting):
    """R3: an executor's queue entry is good for the scheduling it was made for, once."""
    timer = make_timer(tick=1.0, executor=collecting, clock=clock, start=False)
    ran = []
    task = timer.schedule(1.0, ran.append, 1)
    clock.advance(1.0)
    timer.advance_clock()
    stale = collecting.tickets.pop()
    task.reschedule(1.0)
    stale()
    assert (ran, task.state) == ([], "PENDING")
    clock.advance(1.0)
    timer.advance_clock()
    stale()
    assert (ran, task.state) == ([], "QUEUED")
    (ticket,) = collecting.tickets
    ticket()
    ticket()
    stale()
    assert (ran, task.state) == ([1], "FIRED")


def test_a_ticket_of_an_earlier_scheduling_is_stale(tw, make_timer, clock, collecting):
    """R3: also where the task was due at once, cancelled and added again, or moved to at once."""
    timer = make_timer(tick=1.0, executor=collecting, clock=clock, start=False)
    ran = []

    class Bell(tw.TimerTask):
        def run(self):
            ran.append(self)

    bell = Bell(0)
    timer.add(bell)
    bell.cancel()
    timer.add(bell)
    bell.reschedule(0)
    cancelled, moved, current = collecting.tickets
    cancelled()
    moved()
    assert (ran, bell.state) == ([], "QUEUED")
    current()
    assert (ran, bell.state) == ([bell], "FIRED")


def test_reschedule_to_nothing_is_due_at_once(timer, clock, advance):
    """R4, R5: a delay <= 0 makes a pending task due, and never runs it inside the call."""
    fired = []
    task = timer.schedule(100.0, fired.append, 1)
    assert task.reschedule(-1.0) is True
    assert fired == []
    assert timer.advance_clock() == 1
    assert fired == [1]


def test_a_rescheduling_storm_leaves_one_task(timer, clock, advance, rng):
    """R5: a task moved ten thousand times over all levels still fires once, at its last deadline."""
    fired = []
    task = timer.schedule(1.0, fired.append, 1)
    for _ in range(10_000):
        task.reschedule(rng.choice((1, 7, 8, 60, 511, 4000, 1e7)))
        if rng.random() < 0.01:
            timer._check()
    task.reschedule(77.0)
    assert advance(76.0) == 0
    assert advance(1.0) == 1
    assert advance(1e8) == 0
    assert fired == [1]


def test_len_counts_what_is_pending(timer):
    """`len` goes up with each scheduling and down with each cancellation."""
    assert len(timer) == 0
    tasks = [timer.schedule(n, list) for n in range(1, 50)]
    assert len(timer) == 49
    for left, task in enumerate(reversed(tasks)):
        assert len(timer) == 49 - left
        task.cancel()
    assert len(timer) == 0
