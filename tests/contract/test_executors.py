"""Where callbacks run: the default worker, inline, and executors that are not the timer's."""

import concurrent.futures
import contextvars
import threading

import pytest

WAIT = 30


def run_and_wait(timer, function, *, executor=None):
    """Schedules a call for at once and returns its result."""
    return timer.submit(0, function, executor=executor).result(timeout=WAIT)


# --- the default


def test_the_default_is_one_worker_thread(make_timer):
    """Every callback runs on the same thread, which is not the caller's."""
    timer = make_timer()
    futures = [timer.submit(n / 1000, threading.get_ident) for n in range(20)]
    threads = {future.result(timeout=WAIT) for future in futures}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_a_slow_callback_does_not_stall_the_clock(make_timer, gate):
    """The reaper goes on while the worker is busy: what another executor gets is not held up."""
    timer = make_timer()
    timer.schedule(0, gate.hold)
    gate.wait_entered()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert timer.submit(0.001, pow, 2, 3, executor=pool).result(timeout=WAIT) == 8


def test_threads_bear_the_timers_name(make_timer):
    """`name` says in a stack dump whose threads these are."""
    timer = make_timer(name="gossip")
    thread = run_and_wait(timer, threading.current_thread)
    assert "gossip" in thread.name
    timer.schedule(3600.0, list)
    assert sum("gossip" in thread.name for thread in threading.enumerate()) == 2


# --- inline


def test_inline_runs_on_the_reaper(make_timer):
    """`executor="inline"`: one thread in all, and it is not the caller's."""
    before = threading.active_count()
    timer = make_timer(executor="inline")
    assert run_and_wait(timer, threading.get_ident) != threading.get_ident()
    assert threading.active_count() == before + 1


def test_inline_by_hand_runs_on_the_caller(timer, advance):
    """With `start=False` there is no thread at all."""
    before = threading.active_count()
    future = timer.submit(1.0, threading.get_ident)
    advance(1.0)
    assert future.result(timeout=0) == threading.get_ident()
    assert threading.active_count() == before


# --- foreign executors


def test_a_pool_is_used_and_not_shut_down(make_timer):
    """An executor that the timer did not make outlives it."""
    with concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix="mine") as pool:
        timer = make_timer(executor=pool)
        assert run_and_wait(timer, threading.current_thread).name.startswith("mine")
        timer.close()
        assert pool.submit(pow, 2, 4).result(timeout=WAIT) == 16


def test_a_pool_runs_callbacks_in_parallel(make_timer):
    """Two callbacks that wait for each other both finish."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        timer = make_timer(executor=pool)
        barrier = threading.Barrier(2)
        futures = [timer.submit(0.001, barrier.wait, WAIT) for _ in range(2)]
        assert sorted(future.result(timeout=WAIT) for future in futures) == [0, 1]


def test_a_task_may_name_its_own_executor(make_timer, clock, collecting):
    """`schedule`, `schedule_at`, `schedule_every` and `submit` take `executor=`."""
    timer = make_timer(tick=1.0, executor="inline", clock=clock, start=False)
    ran = []
    timer.schedule(1.0, ran.append, 1, executor=collecting)
    timer.schedule_at(1.0, ran.append, 2, executor=collecting)
    timer.schedule_every(1.0, ran.append, 3, executor=collecting)
    timer.submit(1.0, ran.append, 4, executor=collecting)
    timer.schedule(1.0, ran.append, 5)
    clock.advance(1.0)
    assert timer.advance_clock() == 5
    assert ran == [5]
    assert len(collecting.tickets) == 4
    collecting.run_all()
    assert ran == [5, 1, 2, 3, 4]
    clock.advance(1.0)
    timer.advance_clock()
    assert len(collecting.tickets) == 1


def test_a_task_may_ask_for_inline(make_timer, clock, collecting):
    """`executor="inline"` for one task of a timer whose executor is another."""
    timer = make_timer(tick=1.0, executor=collecting, clock=clock, start=False)
    ran = []
    timer.schedule(1.0, ran.append, 1, executor="inline")
    clock.advance(1.0)
    assert timer.advance_clock() == 1
    assert ran == [1]
    assert collecting.tickets == []


def test_inline_is_that_of_the_timer_that_has_the_task(make_timer, clock):
    """R9: a task returned by one timer and added to another is inline on the other."""
    first, second = (make_timer(tick=1.0, clock=clock, start=False) for _ in range(2))
    ran = []
    task = first.schedule(5.0, ran.append, 1, executor="inline")
    assert first.close() == [task]
    second.add(task)
    clock.advance(5.0)
    assert second.advance_clock() == 1
    assert (ran, len(second)) == ([1], 0)


def test_executors_that_come_and_go_are_told_apart(make_timer, clock):
    """A new executor in the memory of an old one is given its own tasks alone."""
    timer = make_timer(tick=1.0, executor="inline", clock=clock, start=False)

    class Own(concurrent.futures.Executor):
        def __init__(self, number):
            self.number = number

        def submit(self, fn, /, *args, **kwargs):
            handed.append((self.number, fn))
            return concurrent.futures.Future()

    handed, ran = [], []
    for number in range(200):
        timer.schedule(1 + number % 5, ran.append, number, executor=Own(number))
        if number % 20 == 0:
            clock.advance(1.0)
            timer.advance_clock()
    clock.advance(10.0)
    timer.advance_clock()
    for number, ticket in handed:
        before = len(ran)
        ticket()
        assert ran[before:] == [number]
    assert len(ran) == 200


def test_an_executor_is_given_each_due_task_once(make_timer, clock, collecting):
    """One `submit(ticket)` for each."""
    timer = make_timer(tick=1.0, executor=collecting, clock=clock, start=False)
    for _ in range(5000):
        timer.schedule(1.0, list)
    clock.advance(1.0)
    assert timer.advance_clock() == 5000
    assert timer.advance_clock() == 0
    assert len(collecting.tickets) == 5000
    assert timer.stats().pending == 5000
    collecting.run_all()
    assert timer.stats().fired == 5000


class Refusing(concurrent.futures.Executor):
    """Takes every second ticket."""

    def __init__(self):
        self.calls = 0
        self.tickets = []

    def submit(self, fn, /, *args, **kwargs):
        self.calls += 1
        if self.calls % 2:
            raise OSError("no room")
        self.tickets.append(fn)
        return concurrent.futures.Future()


def test_an_executor_that_refuses_a_task_leaves_it_queued(make_timer, clock, caplog):
    """Its error is logged, the tasks after it go on, and `close` returns what it refused."""
    executor = Refusing()
    timer = make_timer(tick=1.0, executor=executor, clock=clock, start=False)
    ran = []
    tasks = [timer.schedule(1.0, ran.append, number) for number in range(6)]
    clock.advance(1.0)
    timer.advance_clock()
    for ticket in executor.tickets:
        ticket()
    assert ran == [1, 3, 5]
    assert [task.state for task in tasks[::2]] == ["QUEUED"] * 3
    assert len(timer) == 3
    assert [record.exc_info[0] for record in caplog.records] == [OSError] * 3
    assert timer.close() == tasks[::2]


def test_a_refused_task_can_still_be_cancelled_or_moved(make_timer, clock, caplog):
    """R3: QUEUED is not started."""
    executor = Refusing()
    timer = make_timer(tick=1.0, executor=executor, clock=clock, start=False)
    ran = []
    cancelled = timer.schedule(0, ran.append, 1)
    timer.schedule(0, ran.append, 2)
    moved = timer.schedule(0, ran.append, 3)
    assert cancelled.cancel() is True
    assert moved.reschedule(1.0) is True
    clock.advance(1.0)
    timer.advance_clock()
    for ticket in executor.tickets:
        ticket()
    assert ran == [2, 3]


def test_a_pool_that_was_shut_down_does_not_stop_the_reaper(make_timer, caplog):
    """Its RuntimeError is logged, and other executors are served."""
    pool = concurrent.futures.ThreadPoolExecutor(1)
    pool.shutdown()
    timer = make_timer(executor=pool)
    task = timer.schedule(0.001, list)
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        assert timer.submit(0.005, pow, 3, 2, executor=other).result(timeout=WAIT) == 9
    assert task.state == "QUEUED"
    assert timer.close() == [task]


def test_an_interrupt_inside_submit_loses_no_task(make_timer, clock, collecting):
    """R8: KeyboardInterrupt leaves `advance_clock`; what was due reaches its executor on the next turn."""

    class Interrupted(concurrent.futures.Executor):
        interrupted = False

        def submit(self, fn, /, *args, **kwargs):
            if not self.interrupted:
                self.interrupted = True
                raise KeyboardInterrupt
            return collecting.submit(fn)

    executor = Interrupted()
    timer = make_timer(tick=1.0, executor=collecting, clock=clock, start=False)
    ran = []
    for number in range(10):
        timer.schedule(1.0, ran.append, number, executor=executor if number < 5 else None)
    clock.advance(1.0)
    with pytest.raises(KeyboardInterrupt):
        timer.advance_clock()
    timer.advance_clock()
    collecting.run_all()
    assert sorted(ran) == list(range(10))
    assert len(timer) == 0


@pytest.mark.parametrize("name", ["ProcessPoolExecutor", "InterpreterPoolExecutor"])
def test_a_pool_outside_this_interpreter_is_refused(tw, make_timer, name):
    """A callback cannot follow its handle into another process: ValueError, for timer and task alike."""
    if not hasattr(concurrent.futures, name):
        pytest.skip(f"no {name} in this Python")
    timer = make_timer()
    with getattr(concurrent.futures, name)(1) as pool:
        with pytest.raises(ValueError, match="executor"):
            tw.Timer(executor=pool)
        with pytest.raises(ValueError, match="executor"):
            timer.schedule(1.0, list, executor=pool)
    assert len(timer) == 0


@pytest.mark.parametrize("executor", ["outline", 3])
def test_what_is_no_executor_is_refused(tw, timer, executor):
    """The message names the argument and the value."""
    with pytest.raises((ValueError, TypeError), match=f"executor must be .*got {executor!r}"):
        tw.Timer(executor=executor, start=False)
    with pytest.raises((ValueError, TypeError), match=f"executor must be .*got {executor!r}"):
        timer.schedule(1.0, list, executor=executor)


def test_callbacks_run_in_the_workers_own_context(make_timer):
    """Context variables of the one who schedules do not reach a worker, as with a pool."""
    variable = contextvars.ContextVar("variable", default="worker's")
    variable.set("caller's")
    timer = make_timer()
    assert run_and_wait(timer, variable.get) == "worker's"
