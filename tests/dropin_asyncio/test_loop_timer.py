"""`LoopTimer`: the wheel beside a loop of any kind, one that runs already too."""

import asyncio
import contextvars
import importlib

import pytest

VARIABLE = contextvars.ContextVar("VARIABLE", default="unset")


@pytest.fixture(params=["asyncio's", "ours", "uvloop"])
def run(aio, request):
    """Runs a coroutine function, given a `LoopTimer` on the loop that runs."""
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
        factory = importlib.import_module("uvloop").new_event_loop
    else:
        factory = aio.new_event_loop if request.param == "ours" else asyncio.SelectorEventLoop

    async def with_timer(story):
        timer = aio.LoopTimer(asyncio.get_running_loop())
        try:
            return await story(timer)
        finally:
            timer.close()

    def run(story):
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(with_timer(story))

    return run


def test_one_alarm_for_all(run):
    """Thousands of timers, one timer of the loop's; in order, never early, each a TimerHandle."""

    async def story(timer):
        loop = asyncio.get_running_loop()
        ran, last = [], loop.time() + 0.02
        handles = [
            timer.call_at(last - number / 100_000, lambda number=number: ran.append((number, loop.time())))
            for number in range(1000)
        ]
        assert all(isinstance(handle, asyncio.TimerHandle) for handle in handles)
        assert len(timer) == 1000
        await asyncio.sleep(0.05)
        assert [number for number, _ in ran] == list(range(999, -1, -1))
        for number, now in ran:
            assert now >= handles[number].when() - 1e-3  # uvloop's clock is in milliseconds
        assert len(timer) == 0

    run(story)


def test_the_nearest_wakes_it(run):
    """Earlier timers, and later ones that are moved nearer, do not wait for the first."""

    async def story(timer):
        loop = asyncio.get_running_loop()
        done = [loop.create_future() for _ in range(3)]
        timer.call_later(3600, pytest.fail)
        moved = timer.call_later(1800, done[0].set_result, "moved")
        timer.call_later(0.02, done[1].set_result, "second")
        timer.call_later(0.001, done[2].set_result, "third")
        assert moved.reschedule(0.005)
        async with asyncio.timeout(30):
            assert await asyncio.gather(*done) == ["moved", "second", "third"]
        assert len(timer) == 1

    run(story)


def test_a_delay_of_zero(run):
    """Due in the next turns of the loop; from a callback too."""

    async def story(timer):
        done = asyncio.get_running_loop().create_future()
        timer.call_later(0, timer.call_later, -1, done.set_result, "done")
        async with asyncio.timeout(30):
            assert await done == "done"

    run(story)


def test_a_batch_leaves_the_loop_its_turns(run):
    """At most `max_batch` callbacks in a turn; what waits can be cancelled."""

    async def story(timer):
        loop = asyncio.get_running_loop()
        small = type(timer)(loop, max_batch=10)
        ran, turns = [], []

        def count():
            turns.append(len(ran))
            if len(ran) < 99:
                loop.call_soon(count)

        handles = [small.call_at(loop.time(), ran.append, number) for number in range(100)]
        small.call_at(loop.time(), loop.call_soon, count)
        handles[50].cancel()
        await asyncio.sleep(0.02)
        loop.call_soon(count)
        while len(ran) < 99:
            await asyncio.sleep(0)
        small.close()
        assert ran == [number for number in range(100) if number != 50]

    run(story)


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_of_nothing_is_refused(aio, loop, size):
    """ValueError."""
    with pytest.raises(ValueError, match=f"max_batch must be >= 1, got {size}"):
        aio.LoopTimer(loop, max_batch=size)


def test_errors_and_contexts(run):
    """An error goes to the loop's exception handler, and the rest runs; each in its own context."""

    async def story(timer):
        loop = asyncio.get_running_loop()
        contexts, seen = [], []
        loop.set_exception_handler(lambda loop, context: contexts.append(context["exception"]))
        timer.call_later(0.001, divmod, 1, 0)
        token = VARIABLE.set("then")
        timer.call_later(0.001, lambda: seen.append(VARIABLE.get()))
        VARIABLE.reset(token)
        timer.call_later(0.002, lambda: seen.append(VARIABLE.get()))
        await asyncio.sleep(0.02)
        assert [type(each) for each in contexts] == [ZeroDivisionError]
        assert seen == ["then", "unset"]

    run(story)


def test_close(run):
    """Nothing runs, nothing is taken, and the loop is as it was."""

    async def story(timer):
        handle = timer.call_later(0.001, pytest.fail)
        timer.close()
        timer.close()
        assert (len(timer), handle.reschedule(1), handle.cancelled()) == (0, False, False)
        for call in (timer.call_later, timer.call_at):
            with pytest.raises(RuntimeError, match="the timer is closed"):
                call(1.0, print)
        await asyncio.sleep(0.01)

    run(story)


def test_a_dropped_timer_is_collected(fresh):
    """With its loop, timers pending: in cycles through callbacks and handles."""
    fresh(
        """
import asyncio, gc, weakref
from tickwheel.dropin.asyncio import LoopTimer

class Thing:
    def ring(self):
        pass

async def story():
    timer = LoopTimer(asyncio.get_running_loop())
    refs = [weakref.ref(timer)]
    for n in range(20):
        thing = Thing()
        thing.timer = timer
        thing.handle = timer.call_later(100.0 + n, thing.ring)
        thing.handle.reschedule(200.0 - n)
        refs.append(weakref.ref(thing))
    gc.collect()
    assert all(ref() is not None for ref in refs)
    return refs

refs = asyncio.run(story())
gc.collect()
gc.collect()
assert not any(ref() for ref in refs), sum(ref() is not None for ref in refs)
"""
    )


def test_a_callback_may_close_the_timer(run):
    """What was due with it does not run, and nothing is said of an error."""

    async def story(timer):
        loop = asyncio.get_running_loop()
        ran, said = [], []
        loop.set_exception_handler(lambda loop, context: said.append(context))
        timer.call_later(0, timer.close)
        for number in range(3):
            timer.call_later(0, ran.append, number)
        await asyncio.sleep(0.01)
        return ran, said, len(timer)

    assert run(story) == ([], [], 0)
