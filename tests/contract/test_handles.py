"""The handle: what it shows, tasks of one's own with `run()`, and `Timer.add`."""

import pytest


def test_a_handle_knows_its_callback_and_arguments(tw, timer):
    """`callback` and `args` are readable, `()` for no arguments, and read-only."""
    task = timer.schedule(1.0, print, "a", 2)
    assert (task.callback, task.args) == (print, ("a", 2))
    assert timer.schedule(1.0, list).args == ()
    for name in ("callback", "args", "state", "when"):
        with pytest.raises(AttributeError):
            setattr(task, name, None)
    assert isinstance(task, tw.TimerTask)


def test_when_can_be_read_after_the_end(timer, advance):
    """`when` stays readable once a task fired or was cancelled."""
    fired, cancelled = timer.schedule(1.0, list), timer.schedule(2.0, list)
    cancelled.cancel()
    advance(5.0)
    assert (fired.when, cancelled.when) == (1.0, 2.0)


def test_repr_shows_state_deadline_and_callback(tw, timer, advance):
    """A handle's repr tells its story, in every state."""

    def ring():
        pass

    task = timer.schedule(12.0, ring)
    assert all(word in repr(task) for word in ("PENDING", "12.0", "ring"))
    advance(12.0)
    assert "FIRED" in repr(task)
    assert "IDLE" in repr(tw.TimerTask(1.0))
    cancelled = timer.schedule(1.0, ring)
    cancelled.cancel()
    assert "CANCELLED" in repr(cancelled)


def test_repr_survives_a_callback_whose_repr_fails(timer):
    """A user's broken `__repr__` surfaces as itself and harms nothing."""

    class Broken:
        def __call__(self):
            pass

        def __repr__(self):
            raise ZeroDivisionError

    task = timer.schedule(1.0, Broken())
    with pytest.raises(ZeroDivisionError):
        repr(task)
    assert task.cancel() is True


# --- add, and tasks with run()


def test_a_subclass_runs(tw, timer, clock, advance):
    """`add` schedules a task of one's own: its delay counts from `add`."""
    ran = []

    class Bell(tw.TimerTask):
        def run(self):
            ran.append(self)

    bell = Bell(2.0)
    clock.advance(5.0)
    assert timer.add(bell) is None
    assert bell.when == 7.0
    assert advance(1.0) == 0
    assert advance(1.0) == 1
    assert ran == [bell]


def test_a_subclass_may_have_state_and_arguments_of_its_own(tw, timer, advance):
    """A subclass's `__init__` and attributes are its own business."""

    class Timeout(tw.TimerTask):
        def __init__(self, delay, name):
            super().__init__(delay)
            self.name = name
            self.over = False

        def run(self):
            self.over = True

    task = Timeout(1.0, name="request")
    timer.add(task)
    advance(1.0)
    assert (task.name, task.over, task.state) == ("request", True, "FIRED")


def test_a_bare_task_fires_and_does_nothing(tw, timer, advance):
    """A `TimerTask` without a `run` of its own fires like any other."""
    task = tw.TimerTask(1.0)
    timer.add(task)
    assert advance(1.0) == 1
    assert task.state == "FIRED"
    assert timer.stats().errors == 0


def test_a_pending_task_cannot_be_added_anywhere(tw, timer, make_timer, clock):
    """Adding a task twice, to this timer or to another, is a RuntimeError and changes nothing."""
    other = make_timer(tick=1.0, executor="inline", clock=clock, start=False)
    task = tw.TimerTask(5.0)
    timer.add(task)
    for target in (timer, other):
        with pytest.raises(RuntimeError):
            target.add(task)
    scheduled = timer.schedule(5.0, list)
    with pytest.raises(RuntimeError):
        other.add(scheduled)
    assert (len(timer), len(other)) == (2, 0)
    assert task.when == 5.0
    other._check()


def test_a_queued_task_cannot_be_added(tw, busy, clock):
    """A task that waits in the executor's queue is pending too."""
    task = tw.TimerTask(1.0)
    busy.add(task)
    clock.advance(1.0)
    busy.advance_clock()
    assert task.state == "QUEUED"
    with pytest.raises(RuntimeError):
        busy.add(task)
    assert len(busy) == 1


def test_a_wheels_task_cannot_be_added_to_a_timer(tw, timer):
    """Pending anywhere includes a `TimingWheel`."""
    task = tw.TimerTask(1.0)
    wheel = tw.TimingWheel()
    wheel.add(task, 5)
    with pytest.raises(RuntimeError):
        timer.add(task)
    assert len(timer) == 0
    assert wheel.advance(5) == [task]


def test_a_subclass_that_fired_or_was_cancelled_may_be_added_again(tw, timer, make_timer, clock, advance):
    """`add` begins a new scheduling, on this timer or another."""
    ran = []

    class Bell(tw.TimerTask):
        def run(self):
            ran.append(self.when)

    bell = Bell(2.0)
    other = make_timer(tick=1.0, executor="inline", clock=clock, start=False)
    timer.add(bell)
    advance(2.0)
    timer.add(bell)
    assert bell.state == "PENDING"
    assert bell.cancel() is True
    other.add(bell)
    assert (bell.when, len(other)) == (4.0, 1)
    clock.advance(2.0)
    assert other.advance_clock() == 1
    assert ran == [2.0, 4.0]
    assert timer.stats().scheduled == 2


def test_a_task_may_add_itself_again_while_it_runs(tw, timer, advance):
    """A running task has fired: adding it again is a new scheduling."""

    class Again(tw.TimerTask):
        runs = 0

        def run(self):
            self.runs += 1
            timer.add(self)

    task = Again(1.0)
    timer.add(task)
    for expected in (1, 2, 3):
        advance(1.0)
        assert (task.runs, task.state) == (expected, "PENDING")
    assert task.cancel() is True


def test_a_task_that_close_returned_may_be_added_again(timer, make_timer, clock):
    """What `close` gave back keeps its callback and can be scheduled elsewhere."""
    fired = []
    task = timer.schedule(5.0, fired.append, "later")
    assert timer.close() == [task]
    assert task.state == "IDLE"
    clock.advance(100.0)
    other = make_timer(tick=1.0, executor="inline", clock=clock, start=False)
    other.add(task)
    assert task.when == 105.0
    clock.advance(5.0)
    assert other.advance_clock() == 1
    assert fired == ["later"]
