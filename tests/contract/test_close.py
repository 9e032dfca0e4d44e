"""R9: the end of a timer."""

import concurrent.futures
import threading
import weakref

import pytest

WAIT = 30


def ids(tasks):
    return {id(task) for task in tasks}


def test_close_returns_what_never_started(timer, advance):
    """R9: the pending tasks are IDLE again, with their callbacks; those that fired are not among them."""
    fired = timer.schedule(1.0, list)
    cancelled = timer.schedule(2.0, list)
    tasks = [timer.schedule(delay, print, delay) for delay in (2.0, 50.0, 3000.0, 1e9)]
    cancelled.cancel()
    advance(1.0)
    returned = timer.close()
    assert ids(returned) == ids(tasks)
    assert len(returned) == 4
    for task in returned:
        assert (task.state, task.callback) == ("IDLE", print)
        assert (task.cancel(), task.reschedule(1.0)) == (False, False)
    assert fired.state == "FIRED"
    assert len(timer) == 0


def test_close_asks_no_callback_for_anything(timer):
    """R9: one that raises for every attribute is returned like the others."""

    class Gone:
        def __call__(self):
            pass

    gone = Gone()
    tasks = [timer.schedule(1.0, list), timer.schedule(2.0, weakref.proxy(gone)), timer.schedule(3.0, list)]
    future = timer.submit(4.0, list)
    del gone
    assert ids(timer.close()) == ids(tasks)
    assert future.cancelled()
    assert {task.state for task in tasks} == {"IDLE"}


def test_close_is_idempotent(timer):
    """R9: a second call returns nothing and harms nothing."""
    task = timer.schedule(1.0, list)
    assert [timer.close(), timer.close(), timer.close(wait=False)] == [[task], [], []]


def test_nothing_can_be_scheduled_after_close(tw, timer, clock):
    """R9: RuntimeError, whichever way in; a task refused is IDLE."""
    timer.close()
    task = tw.TimerTask(1.0)
    future = concurrent.futures.Future()
    for call in (
        lambda: timer.schedule(1.0, list),
        lambda: timer.schedule(0, list),
        lambda: timer.schedule_at(5.0, list),
        lambda: timer.schedule_every(1.0, list),
        lambda: timer.submit(1.0, list),
        lambda: timer.limit(future, 1.0),
        lambda: timer.add(task),
    ):
        with pytest.raises(RuntimeError, match="close"):
            call()
    assert len(timer) == 0
    assert task.state == "IDLE"
    assert timer.stats().scheduled == 0


def test_a_with_block_closes(tw, clock):
    """`with Timer() as t`, also when the block fails."""
    with tw.Timer(clock=clock) as timer:
        task = timer.schedule(1.0, list)
    assert task.state == "IDLE"
    with pytest.raises(ZeroDivisionError), tw.Timer(clock=clock) as timer:
        raise ZeroDivisionError
    with pytest.raises(RuntimeError):
        timer.schedule(1.0, list)


def test_close_takes_back_what_waits_in_the_queue(busy, clock, gate):
    """R9: what was handed over but has not started is returned, and never runs."""
    ran = []
    tasks = [busy.schedule(1.0, ran.append, number) for number in range(2000)]
    clock.advance(1.0)
    busy.advance_clock()
    assert {task.state for task in tasks} == {"QUEUED"}
    returned = busy.close(wait=False)
    assert len(returned) == 2000
    assert ids(returned) == ids(tasks)
    assert {task.state for task in tasks} == {"IDLE"}
    gate.open()
    busy.close()
    assert ran == []


def test_close_takes_back_what_waits_in_a_pool(make_timer, gate):
    """R9: also from an executor that is not the timer's: its entries then do nothing."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(gate.hold)
        gate.wait_entered()
        timer = make_timer(executor=pool)
        ran = []
        tasks = [timer.schedule(0, ran.append, number) for number in range(10)]
        assert ids(timer.close()) == ids(tasks)
        gate.open()
    assert ran == []


def test_what_close_took_back_is_not_submitted(make_timer, clock, collecting):
    """R9: a turn that is handing over when the timer is closed gives executors nothing more."""

    class Closing(concurrent.futures.Executor):
        def submit(self, fn, /, *args, **kwargs):
            returned.extend(timer.close(wait=False))
            return collecting.submit(fn)

    timer = make_timer(tick=1.0, executor=Closing(), clock=clock, start=False)
    ran, returned = [], []
    tasks = [timer.schedule(1.0, ran.append, number) for number in range(8)]
    clock.advance(1.0)
    timer.advance_clock()
    assert len(collecting.tickets) == 1
    collecting.run_all()
    assert ran == []
    assert ids(returned) == ids(tasks)


@pytest.mark.parametrize("kind", ["worker", "inline", "pool"])
def test_close_waits_for_a_running_callback(make_timer, gate, kind):
    """R9: when close returns, what ran has ended."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        timer = make_timer(executor={"worker": None, "inline": "inline", "pool": pool}[kind])
        ended = []

        def callback():
            gate.hold()
            ended.append(1)

        timer.schedule(0, callback)
        gate.wait_entered()
        opener = threading.Timer(0.05, gate.open)
        opener.start()
        assert timer.close() == []
        assert ended == [1]
        opener.join()


@pytest.mark.parametrize("kind", ["worker", "inline", "pool"])
def test_close_need_not_wait(make_timer, gate, kind):
    """R9: `wait=False` returns while a callback runs."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        timer = make_timer(executor={"worker": None, "inline": "inline", "pool": pool}[kind])
        timer.schedule(0, gate.hold)
        gate.wait_entered()
        later = timer.schedule(3600.0, list)
        assert timer.close(wait=False) == [later]
        assert not gate.opened.is_set()
        gate.open()


@pytest.mark.parametrize("kind", ["worker", "inline", "pool"])
def test_close_from_a_callback_does_not_wait_for_itself(make_timer, kind):
    """R9: from inside a callback it returns, on each kind of executor."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        timer = make_timer(executor={"worker": None, "inline": "inline", "pool": pool}[kind])
        returned = []
        finished = threading.Event()
        later = timer.schedule(3600.0, list)

        def callback():
            returned.append(timer.close())
            finished.set()

        timer.schedule(0.001, callback)
        assert finished.wait(WAIT)
        assert returned == [[later]]
        assert timer.close() == []


def test_close_from_on_error_does_not_wait_for_itself(make_timer, caplog):
    """R9: `on_error` is part of the callback."""
    finished = threading.Event()

    def on_error(task, error):
        timer.close()
        finished.set()

    timer = make_timer(on_error=on_error)
    timer.schedule(0, divmod, 1, 0)
    assert finished.wait(WAIT)


def test_close_from_a_callback_while_another_thread_closes(make_timer, gate):
    """R9: whoever comes first takes the tasks; neither waits for the other for ever."""
    timer = make_timer()
    returned = []
    later = timer.schedule(3600.0, list)

    def callback():
        gate.hold()
        returned.extend(timer.close())

    timer.schedule(0, callback)
    gate.wait_entered()
    closer = threading.Thread(target=lambda: returned.extend(timer.close()))
    closer.start()
    gate.open()
    closer.join(WAIT)
    assert not closer.is_alive()
    assert returned == [later]


def test_two_callbacks_that_close_at_once(make_timer):
    """R9: on a pool, two callbacks close the timer at the same time: neither waits for the other."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        timer = make_timer(executor=pool)
        barrier = threading.Barrier(2)
        returned, both = [], threading.Event()
        later = timer.schedule(3600.0, list)

        def callback():
            barrier.wait(WAIT)
            returned.extend(timer.close())
            barrier.wait(WAIT)
            both.set()

        for _ in range(2):
            timer.schedule(0.001, callback)
        assert both.wait(WAIT)
        timer.close()
    assert returned == [later]


def test_many_threads_close_at_once(make_timer):
    """R9: each task is returned once, to one of them."""
    timer = make_timer(tick=1.0)
    tasks = [timer.schedule(3600.0 + n, list) for n in range(5000)]
    barrier = threading.Barrier(4)
    returned = []

    def close():
        barrier.wait(WAIT)
        returned.append(timer.close())

    threads = [threading.Thread(target=close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert sum(map(len, returned)) == 5000
    assert ids(task for part in returned for task in part) == ids(tasks)


def test_close_ends_the_threads(make_timer):
    """R9: reaper and worker are gone when close has returned."""
    before = threading.active_count()
    for executor in (None, "inline"):
        timer = make_timer(executor=executor)
        timer.submit(0, list).result(timeout=WAIT)
        timer.schedule(3600.0, list)
        timer.close()
        assert threading.active_count() == before


def test_close_of_a_timer_that_was_never_used(make_timer):
    """R9: there may be no thread to end."""
    before = threading.active_count()
    assert make_timer().close() == []
    assert threading.active_count() == before


def test_close_ends_a_wait_by_hand(make_timer):
    """R9: whoever waits in `advance_clock` comes back."""
    timer = make_timer(executor="inline", start=False)
    timer.schedule(3600.0, list)
    entered = threading.Event()

    def turn():
        entered.set()
        timer.advance_clock(timeout=3600.0)

    turner = threading.Thread(target=turn)
    turner.start()
    assert entered.wait(WAIT)
    timer.close()
    turner.join(WAIT)
    assert not turner.is_alive()


def test_close_by_another_thread_during_a_turn(timer, clock):
    """R9: what the turn has not started yet is returned, and the turn ends."""
    ran, returned = [], []

    def close_elsewhere():
        ran.append("first")
        thread = threading.Thread(target=lambda: returned.extend(timer.close(wait=False)))
        thread.start()
        thread.join(WAIT)

    timer.schedule(1.0, close_elsewhere)
    rest = [timer.schedule(1.0, ran.append, number) for number in range(10)]
    clock.advance(1.0)
    assert timer.advance_clock() == 1
    assert ran == ["first"]
    assert ids(returned) == ids(rest)


def test_the_account_is_settled_after_close(timer, advance, rng):
    """R3: each scheduling has ended in one of the three ways."""
    tasks = [timer.schedule(rng.randrange(1, 1000), list) for _ in range(1000)]
    for task in rng.sample(tasks, 300):
        task.cancel()
    advance(400.0)
    returned = timer.close()
    stats = timer.stats()
    assert stats.scheduled == 1000 == stats.fired + stats.cancelled + len(returned)
    assert (stats.cancelled, stats.pending) == (300, 0)
    assert sorted(task.state for task in tasks) == sorted(
        ["FIRED"] * stats.fired + ["CANCELLED"] * 300 + ["IDLE"] * len(returned)
    )
