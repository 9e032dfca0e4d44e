"""`LoopExecutor`: one timer for threads and asyncio loops."""

import asyncio
import contextvars
import threading
import time

import pytest

WAIT = 30


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def turn_loop(loop, turns=1):
    for _ in range(turns):
        loop.run_until_complete(asyncio.sleep(0))


def test_a_loop_runs_callbacks_on_its_own_thread(tw, make_timer, loop):
    """`LoopExecutor(loop)` delivers to the loop while the reaper is another thread."""
    timer = make_timer(executor=tw.LoopExecutor(loop))

    async def story():
        arrived = loop.create_future()
        timer.schedule(0.001, lambda: arrived.set_result((threading.get_ident(), asyncio.get_running_loop())))
        return await asyncio.wait_for(arrived, WAIT)

    assert loop.run_until_complete(story()) == (threading.get_ident(), loop)


def test_a_loop_is_woken_once_for_a_batch(tw, make_timer, clock, loop):
    """A thousand due at once cost one wake-up of the loop."""
    wakes, ran = [], []
    threadsafe = loop.call_soon_threadsafe
    loop.call_soon_threadsafe = lambda *args, **kwargs: wakes.append(args) or threadsafe(*args, **kwargs)
    timer = make_timer(tick=1.0, executor=tw.LoopExecutor(loop), clock=clock, start=False)
    for number in range(1000):
        timer.schedule(1.0, ran.append, number)
    clock.advance(1.0)
    assert timer.advance_clock() == 1000
    assert len(wakes) == 1
    assert ran == []
    turn_loop(loop, 5)
    assert ran == list(range(1000))


def test_a_loop_is_given_its_time_between_batches(tw, make_timer, clock, loop):
    """At most `max_batch` callbacks a turn: 30,000 timers due at once leave room for everything else."""
    timer = make_timer(tick=1.0, executor=tw.LoopExecutor(loop, max_batch=100), clock=clock, start=False)
    ran = []
    for number in range(30_000):
        timer.schedule(1.0, ran.append, number)
    clock.advance(1.0)
    assert timer.advance_clock() == 30_000
    steps = []

    async def watch():
        while len(ran) < 30_000:
            before = len(ran)
            await asyncio.sleep(0)
            steps.append(len(ran) - before)

    loop.run_until_complete(asyncio.wait_for(watch(), WAIT))
    assert ran == list(range(30_000))
    assert max(steps) <= 100


def test_a_loops_callbacks_run_in_the_context_of_schedule(tw, make_timer, clock, loop):
    """As `call_later` has it: the context captured when it was scheduled."""
    timer = make_timer(tick=1.0, executor="inline", clock=clock, start=False)
    executor = tw.LoopExecutor(loop)
    variable = contextvars.ContextVar("variable", default=None)
    seen = []
    for value in ("first", "second"):
        variable.set(value)
        timer.schedule(1.0, lambda: seen.append(variable.get()), executor=executor)
    variable.set("later")
    clock.advance(1.0)
    timer.advance_clock()
    turn_loop(loop, 3)
    assert seen == ["first", "second"]


def test_a_task_waiting_for_its_loop_can_be_cancelled_or_moved(tw, make_timer, clock, loop):
    """R3: until the loop has come round, nothing has started."""
    timer = make_timer(tick=1.0, executor=tw.LoopExecutor(loop), clock=clock, start=False)
    ran = []
    cancelled = timer.schedule(1.0, ran.append, "cancelled")
    moved = timer.schedule(1.0, ran.append, "moved")
    kept = timer.schedule(1.0, ran.append, "kept")
    clock.advance(1.0)
    timer.advance_clock()
    assert cancelled.state == moved.state == kept.state == "QUEUED"
    assert cancelled.cancel() is True
    assert moved.reschedule(1.0) is True
    turn_loop(loop, 3)
    assert ran == ["kept"]
    clock.advance(1.0)
    timer.advance_clock()
    turn_loop(loop, 3)
    assert ran == ["kept", "moved"]


def test_an_error_on_the_loop_is_reported_as_anywhere(tw, make_timer, clock, loop, caplog):
    """R8: logged and reported by the timer; the loop and its other callbacks go on."""
    reports, ran = [], []
    timer = make_timer(
        executor=tw.LoopExecutor(loop),
        clock=clock,
        start=False,
        on_error=lambda task, error: reports.append(task),
    )
    task = timer.schedule(0, divmod, 1, 0)
    timer.schedule(0, ran.append, 1)
    turn_loop(loop, 3)
    assert reports == [task]
    assert ran == [1]
    assert [record.name for record in caplog.records] == ["tickwheel"]


def test_a_closed_loop_does_not_stop_the_reaper(tw, make_timer, loop, caplog):
    """Its error is logged, the task stays queued, and `close` returns it."""
    timer = make_timer()
    loop.close()
    task = timer.schedule(0.001, list, executor=tw.LoopExecutor(loop))
    assert timer.submit(0.005, pow, 3, 2).result(timeout=WAIT) == 9
    assert task.state == "QUEUED"
    assert timer.close() == [task]


def test_one_timer_serves_threads_and_loops_together(tw, make_timer):
    """Two loops in threads of their own, and a worker, on one wheel."""
    timer = make_timer()
    loops = [asyncio.new_event_loop() for _ in range(2)]
    threads = [threading.Thread(target=loop.run_forever) for loop in loops]
    for thread in threads:
        thread.start()
    executors = [None, *(tw.LoopExecutor(loop) for loop in loops)]
    futures = [timer.submit(n % 7 / 1000, threading.get_ident, executor=executors[n % 3]) for n in range(300)]
    idents = [future.result(timeout=WAIT) for future in futures]
    assert [set(idents[1::3]), set(idents[2::3])] == [{threads[0].ident}, {threads[1].ident}]
    assert len(set(idents)) == 3
    for loop, thread in zip(loops, threads, strict=True):
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT)
        loop.close()


def test_a_loop_may_schedule_for_itself(tw, make_timer, loop):
    """Scheduling from the loop's own thread, due at once, wakes that loop."""
    timer = make_timer()
    executor = tw.LoopExecutor(loop)

    async def story():
        for _ in range(50):
            arrived = loop.create_future()
            timer.schedule(0, arrived.set_result, time.monotonic(), executor=executor)
            await asyncio.wait_for(arrived, WAIT)

    loop.run_until_complete(story())


@pytest.mark.parametrize("max_batch", [0, -1])
def test_a_bad_batch_is_named(tw, loop, max_batch):
    """ValueError names the argument, the rule and the value seen."""
    with pytest.raises(ValueError, match=f"^max_batch must be >= 1, got {max_batch}$"):
        tw.LoopExecutor(loop, max_batch=max_batch)
