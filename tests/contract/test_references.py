"""R10 and I6: who holds what, and for how long."""

import concurrent.futures
import gc
import sys
import threading
import weakref

import pytest

WAIT = 30


class Ballast:
    """Something to pin, that says when it is freed."""

    def __call__(self, *args):
        pass


@pytest.fixture
def ballast():
    """A maker of (callback, argument, weak references to both), without the collector's help."""
    gc.collect()
    gc.disable()

    def make():
        callback, argument = Ballast(), Ballast()
        return callback, argument, (weakref.ref(callback), weakref.ref(argument))

    yield make
    gc.enable()


def freed(refs):
    return [ref() for ref in refs] == [None, None]


def test_a_fired_task_pins_nothing(timer, advance, ballast):
    """R10: its handle is alive, its callback and argument are not."""
    callback, argument, refs = ballast()
    task = timer.schedule(1.0, callback, argument)
    del callback, argument
    assert not freed(refs)
    advance(1.0)
    assert freed(refs)
    assert (task.callback, task.args) == (None, None)


def test_a_cancelled_task_pins_nothing(timer, ballast):
    """R10: from the moment of `cancel`, not from its deadline."""
    callback, argument, refs = ballast()
    task = timer.schedule(1e9, callback, argument)
    del callback, argument
    task.reschedule(1e8)
    assert not freed(refs)
    task.cancel()
    assert freed(refs)
    assert (task.callback, task.args) == (None, None)


def test_a_cancelled_queued_task_pins_nothing(make_timer, clock, collecting, ballast):
    """R10: though the executor still has its ticket."""
    timer = make_timer(tick=1.0, executor=collecting, clock=clock, start=False)
    callback, argument, refs = ballast()
    task = timer.schedule(0, callback, argument)
    del callback, argument
    assert task.state == "QUEUED"
    task.cancel()
    assert freed(refs)
    collecting.run_all()


def test_a_cancelled_periodic_task_pins_nothing(timer, advance, ballast):
    """R10: between its runs, and it keeps its callback from run to run until then."""
    callback, argument, refs = ballast()
    task = timer.schedule_every(1.0, callback, argument)
    del callback, argument
    advance(1.0)
    advance(1.0)
    assert not freed(refs)
    task.cancel()
    assert freed(refs)


def test_a_task_whose_callback_raised_pins_nothing(timer, advance, ballast, monkeypatch):
    """R10: an error is no reason to keep them, once nobody holds the exception."""
    monkeypatch.setattr("logging.Logger.handle", lambda self, record: None)

    class Failing(Ballast):
        def __call__(self, *args):
            raise ZeroDivisionError

    callback, argument, refs = ballast()
    callback = Failing()
    refs = (weakref.ref(callback), refs[1])
    task = timer.schedule(1.0, callback, argument)
    del callback, argument
    advance(1.0)
    assert task.state == "FIRED"
    assert freed(refs)


def test_a_returned_task_keeps_what_it_had(timer, ballast):
    """R10: those that `close()` returns keep theirs, and let go when they are dropped."""
    callback, argument, refs = ballast()
    timer.schedule(1.0, callback, argument)
    del callback, argument
    returned = timer.close()
    assert not freed(refs)
    assert returned[0].args == (refs[1](),)
    del returned
    assert freed(refs)


def test_a_worker_pins_nothing_after_a_run(make_timer, ballast):
    """R10: no frame of the idle worker or reaper keeps the last task alive."""
    timer = make_timer()
    callback, argument, refs = ballast()
    timer.schedule(0.001, callback, argument)
    del callback, argument
    timer.submit(0.002, list).result(timeout=WAIT)
    timer.submit(0.003, list).result(timeout=WAIT)
    assert freed(refs)


def test_the_timer_keeps_a_pending_task_alive(tw, timer, advance):
    """I6: a handle that nobody kept still fires; then it is gone."""
    ran = []

    class Bell(tw.TimerTask):
        def run(self):
            ran.append(1)

    bell = Bell(1.0)
    ref = weakref.ref(bell)
    timer.add(bell)
    del bell
    gc.collect()
    assert ref() is not None
    advance(1.0)
    assert ran == [1]
    assert ref() is None


def settled(tw, timer, clock, path):
    """One task sent along a path to its end; returns the handle."""
    task = timer.schedule(5.0, list)
    if path == "fired":
        clock.advance(5.0)
        timer.advance_clock()
    elif path == "cancelled":
        task.cancel()
    elif path == "moved and cancelled":
        task.reschedule(5000.0)
        task.reschedule(0)
        task.reschedule(7.0)
        task.cancel()
    elif path == "cascaded":
        task.reschedule(100_000.0)
        clock.advance(99_999.0)
        timer.advance_clock()
        clock.advance(1.0)
        timer.advance_clock()
    elif path == "reconfigured":
        timer.reconfigure(tick=0.5, wheel_size=3)
        timer.reconfigure(tick=2.0, wheel_size=50)
        task.cancel()
    elif path == "closed":
        timer.close()
    return task


PATHS = ["fired", "cancelled", "moved and cancelled", "cascaded", "reconfigured", "closed"]


@pytest.mark.parametrize("path", PATHS)
def test_the_timer_holds_one_reference_and_gives_it_back(tw, core, timer, clock, path):
    """I6: while pending there is one owned reference (in the reference, the links of both neighbours)."""
    bare = tw.TimerTask(1.0)
    alone = sys.getrefcount(bare)
    pending = timer.schedule(5.0, list)
    assert sys.getrefcount(pending) == alone + (1 if core == "cython" else 2)
    pending.cancel()
    assert sys.getrefcount(pending) == alone
    task = settled(tw, timer, clock, path)
    assert sys.getrefcount(task) == alone


@pytest.mark.parametrize("path", PATHS)
def test_counts_of_shared_objects_come_back(tw, timer, clock, path):
    """R10: a callback and an argument shared by a thousand tasks are counted right."""
    callback, argument = Ballast(), Ballast()
    before = sys.getrefcount(callback), sys.getrefcount(argument)
    tasks = [timer.schedule(n, callback, argument) for n in range(1, 1000)]
    assert sys.getrefcount(callback) >= before[0] + 999
    for task in tasks[::3]:
        task.reschedule(500.0)
    for task in tasks[::2]:
        task.cancel()
    settled(tw, timer, clock, path)
    clock.advance(2000.0)
    if path != "closed":
        timer.advance_clock()
    del tasks, task
    assert (sys.getrefcount(callback), sys.getrefcount(argument)) == before


def test_a_future_of_submit_is_freed_with_its_result(timer, advance, ballast):
    """R10: after the run, neither fn nor its argument is kept by the future."""
    callback, argument, refs = ballast()
    future = timer.submit(1.0, callback, argument)
    del callback, argument
    advance(1.0)
    assert future.done()
    assert freed(refs)


def test_a_cancelled_future_of_submit_pins_nothing(timer, ballast):
    """R10: cancelling the future is cancelling the task."""
    callback, argument, refs = ballast()
    future = timer.submit(1.0, callback, argument)
    del callback, argument
    future.cancel()
    assert freed(refs)


def test_a_future_that_nobody_holds_is_freed_when_it_is_done(timer, advance, ballast):
    """R10: no cycle between a future, its task and its callbacks waits for the collector."""
    del ballast
    future = timer.submit(1.0, list)
    ref = weakref.ref(future)
    del future
    advance(1.0)
    assert ref() is None


def test_a_limit_frees_the_future_it_watched(timer, advance, ballast):
    """`limit`: a late future is let go at its timeout, an early one with its result."""
    del ballast
    for end in ("timeout", "result"):
        future = concurrent.futures.Future()
        ref = weakref.ref(future)
        limited = timer.limit(future, 5.0)
        if end == "timeout":
            future.set_running_or_notify_cancel()
            advance(5.0)
        else:
            future.set_result(1)
        assert limited.done()
        del future, limited
        assert ref() is None, end


def test_a_closed_timer_is_freed(tw, clock, ballast):
    """No thread, registry or clock keeps a closed timer."""
    del ballast
    for options in ({"start": False}, {}, {"executor": "inline"}):
        timer = tw.Timer(clock=clock, **options)
        timer.submit(0, list)
        task = timer.schedule(5.0, list)
        timer.close()
        ref = weakref.ref(timer)
        del timer
        assert ref() is None, options
        assert (task.cancel(), task.state) == (False, "IDLE")


def test_a_subclass_in_a_cycle_is_collected(tw, timer):
    """Python subclasses take part in garbage collection, once nothing holds them."""

    class Bell(tw.TimerTask):
        pass

    bell = Bell(5.0)
    bell.itself = bell
    ref = weakref.ref(bell)
    timer.add(bell)
    bell.cancel()
    del bell
    gc.collect()
    assert ref() is None


def test_a_pending_subclass_in_a_cycle_is_not_collected(tw, timer, advance):
    """I6: pending is reachable."""
    ran = []

    class Bell(tw.TimerTask):
        def run(self):
            ran.append(self.itself is self)

    bell = Bell(5.0)
    bell.itself = bell
    timer.add(bell)
    del bell
    for _ in range(3):
        gc.collect()
    timer._check()
    advance(5.0)
    assert ran == [True]


def test_a_dropped_wheel_frees_its_tasks(tw, ballast):
    """I6: with the wheel go its references; a handle that is left harms nothing."""
    del ballast

    class Bell(tw.TimerTask):
        pass

    wheel = tw.TimingWheel(4)
    bells = [Bell(0) for _ in range(100)]
    for number, bell in enumerate(bells, 1):
        wheel.add(bell, number * number)
    refs = [weakref.ref(bell) for bell in bells]
    kept = bells.pop()
    bells.clear()
    del bell
    assert all(ref() is not None for ref in refs)
    del wheel
    assert [ref() for ref in refs] == [None] * 99 + [kept]
    kept.cancel()
    repr(kept)


def test_what_advance_returned_is_the_lists_alone(tw, ballast):
    """I6: `TimingWheel.advance` hands its references over."""
    del ballast
    bare = [tw.TimerTask(0)]
    wheel = tw.TimingWheel(4)
    for tick in range(1, 50):
        wheel.add(tw.TimerTask(0), tick)
    due = wheel.advance(100)
    assert len(due) == 49
    assert sys.getrefcount(due[0]) == sys.getrefcount(bare[0])


def test_a_destructor_may_use_the_timer(timer, advance):
    """R7, R10: what a cancelled or fired task pinned may schedule when it is freed."""
    fired = []

    class Heir:
        def __del__(self):
            timer.schedule(1.0, fired.append, "inherited")

    timer.schedule(1.0, list, Heir()).cancel()
    timer.schedule(1.0, lambda heir: None, Heir())
    assert len(timer) == 2
    advance(1.0)
    timer._check()
    advance(1.0)
    assert fired == ["inherited", "inherited"]


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="without the GIL, the thread that made an object merges its count, when it comes round to it",
)
def test_callbacks_are_freed_on_the_thread_that_ran_them(make_timer):
    """R10: at once means before the next task of the same worker starts."""
    timer = make_timer()
    order = []

    class Witness:
        def __call__(self):
            order.append("ran")

        def __del__(self):
            order.append("freed")

    done = threading.Event()
    base = timer.time() + 0.01
    for number in range(3):
        timer.schedule_at(base + number / 100, Witness())
    timer.schedule_at(base + 0.05, done.set)
    assert done.wait(WAIT)
    assert order == ["ran", "freed"] * 3
