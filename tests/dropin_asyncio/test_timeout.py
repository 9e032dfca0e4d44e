"""`timeout` and `timeout_at` beside asyncio's own: one suite, on every loop that is here."""
# ruff: noqa: PT012 (what is tried is a block)

import asyncio
import contextlib
import importlib
import sys

import pytest

KINDS = ["asyncio's on its loop", "asyncio's on ours", "ours on ours", "ours on asyncio's", "ours on uvloop"]


@pytest.fixture(params=KINDS)
def kind(request):
    if request.param == "ours on uvloop":
        pytest.importorskip("uvloop")
    return request.param


@pytest.fixture
def timeouts(aio, kind):
    """The module whose `timeout`, `timeout_at` and `Timeout` are tried."""
    return asyncio if kind.startswith("asyncio's") else aio


@pytest.fixture
def run(aio, kind):
    """Runs a coroutine on the loop that is tried."""
    if kind.endswith("on ours"):
        factory = aio.new_event_loop
    elif kind.endswith("uvloop"):
        factory = importlib.import_module("uvloop").new_event_loop
    else:
        factory = asyncio.SelectorEventLoop

    def run(story, *, debug=False):
        with asyncio.Runner(loop_factory=factory, debug=debug) as runner:
            return runner.run(story())

    return run


async def forever():
    await asyncio.get_running_loop().create_future()


def test_a_block_that_ends_in_time(timeouts, run):
    """It passes; the block tells its deadline and that it has not expired."""

    async def story():
        loop = asyncio.get_running_loop()
        before = loop.time()
        async with timeouts.timeout(60) as block:
            assert isinstance(block, timeouts.Timeout)
            assert before + 60 <= block.when() <= loop.time() + 60
            assert block.expired() is False
            await asyncio.sleep(0)
        assert block.expired() is False
        assert before + 60 <= block.when() <= loop.time() + 60
        return "passed"

    assert run(story) == "passed"


def test_a_block_that_takes_too_long(timeouts, run):
    """TimeoutError, from the CancelledError that ended it; the task is as if nothing had been."""

    async def story():
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError) as caught:
            async with timeouts.timeout(0.01) as block:
                await forever()
        assert block.expired() is True
        assert loop.time() >= block.when() - 1e-3  # uvloop's clock is in milliseconds
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(0)

    run(story)


def test_timeout_at(timeouts, run):
    """The same at a time of the loop's clock; it may be made outside of everything."""

    async def story():
        loop = asyncio.get_running_loop()
        when = loop.time() + 0.01
        with pytest.raises(TimeoutError):
            async with timeouts.timeout_at(when) as block:
                assert block.when() == when
                await forever()
        assert block.expired()
        assert block.when() == when
        async with timeouts.timeout_at(None) as block:
            assert block.when() is None

    run(story)
    assert timeouts.timeout_at(5.0).when() == 5.0
    assert timeouts.Timeout(7.0).when() == 7.0


def test_none_is_no_limit(timeouts, run):
    """`timeout(None)` can be given a deadline later."""

    async def story():
        async with timeouts.timeout(None) as block:
            assert block.when() is None
            await asyncio.sleep(0.01)
        assert not block.expired()
        with pytest.raises(TimeoutError):
            async with timeouts.timeout(None) as block:
                block.reschedule(asyncio.get_running_loop().time() + 0.01)
                await forever()
        assert block.expired()

    run(story)


@pytest.mark.parametrize("delay", [0, -1, -1e9])
def test_no_time_at_all(timeouts, run, delay):
    """A block whose time is up is cancelled where it first waits, be it sleep(0)."""

    async def story():
        ran = []
        with pytest.raises(TimeoutError):
            async with timeouts.timeout(delay) as block:
                ran.append("entered")
                await asyncio.sleep(0)
                ran.append("passed")
        assert block.expired()
        with pytest.raises(TimeoutError):
            async with timeouts.timeout_at(asyncio.get_running_loop().time() + delay):
                await forever()
        async with timeouts.timeout(delay):
            ran.append("never waits")
        await asyncio.sleep(0.002)
        assert ran == ["entered", "never waits"]
        assert asyncio.current_task().cancelling() == 0

    run(story)


def test_rescheduled_into_the_past(timeouts, run):
    """It is cancelled where it next waits."""

    async def story():
        with pytest.raises(TimeoutError):
            async with timeouts.timeout(60) as block:
                block.reschedule(asyncio.get_running_loop().time() - 1)
                await asyncio.sleep(0)
                pytest.fail("not cancelled")
        assert block.expired()

    run(story)


def test_rescheduled(timeouts, run):
    """Later, earlier, and to None; `when` follows."""

    async def story():
        loop = asyncio.get_running_loop()
        async with timeouts.timeout(0.005) as block:
            block.reschedule(loop.time() + 60)
            await asyncio.sleep(0.02)
            when = loop.time() + 50
            block.reschedule(when)
            assert block.when() == when
            block.reschedule(None)
            assert block.when() is None
        assert not block.expired()
        with pytest.raises(TimeoutError):
            async with timeouts.timeout(60) as block:
                block.reschedule(loop.time() + 0.005)
                await forever()

    run(story)


def test_rescheduled_at_the_wrong_time(timeouts, run):
    """RuntimeError before it is entered, once it expires, and after it was left."""

    async def story():
        with pytest.raises(RuntimeError, match="has not been entered"):
            timeouts.timeout(1).reschedule(2)
        async with timeouts.timeout(60) as block:
            pass
        with pytest.raises(RuntimeError, match="Cannot change state of finished Timeout"):
            block.reschedule(2)
        with pytest.raises(TimeoutError):
            async with timeouts.timeout(0) as block:
                try:
                    await forever()
                finally:
                    with pytest.raises(RuntimeError, match="Cannot change state of expiring Timeout"):
                        block.reschedule(2)
        with pytest.raises(RuntimeError, match="Cannot change state of expired Timeout"):
            block.reschedule(2)

    run(story)


def test_entered_twice(timeouts, run):
    """RuntimeError, while it runs and afterwards; the one that runs goes on."""

    async def story():
        async with timeouts.timeout(60) as block:
            with pytest.raises(RuntimeError, match="has already been entered"):
                async with block:
                    pytest.fail("entered")
        with pytest.raises(RuntimeError, match="has already been entered"):
            async with block:
                pytest.fail("entered")
        assert not block.expired()

    run(story)


def test_outside_a_task(timeouts, run):
    """RuntimeError, from a callback of the loop and without a loop."""

    async def story():
        loop = asyncio.get_running_loop()
        outcome = loop.create_future()

        async def enter():
            async with timeouts.timeout(1):
                pytest.fail("entered")

        def callback():
            coroutine = enter()
            try:
                coroutine.send(None)
            except RuntimeError as error:
                outcome.set_result(str(error))
            finally:
                coroutine.close()

        loop.call_soon(callback)
        assert await outcome == "Timeout should be used inside a task"

    run(story)
    with pytest.raises(RuntimeError, match="no running event loop"):
        timeouts.timeout(1)


@pytest.mark.parametrize("outer_first", [True, False])
def test_nested(timeouts, run, outer_first):
    """Each raises its own: the one whose time comes, and the other does not expire."""

    async def story():
        delays = (0.01, 60) if outer_first else (60, 0.01)
        with pytest.raises(TimeoutError):
            async with timeouts.timeout(delays[0]) as outer:
                try:
                    async with timeouts.timeout(delays[1]) as inner:
                        await forever()
                except asyncio.CancelledError:
                    assert outer_first
                    raise
                except TimeoutError:
                    assert not outer_first
                    raise
        assert (outer.expired(), inner.expired()) == (outer_first, not outer_first)
        assert asyncio.current_task().cancelling() == 0

    run(story)


def test_nested_and_both_due(timeouts, run):
    """Of one moment: both expire, one TimeoutError comes out, and no cancellation is left."""

    async def story():
        when = asyncio.get_running_loop().time() + 0.01
        with pytest.raises(TimeoutError):
            async with timeouts.timeout_at(when) as outer:
                with pytest.raises(TimeoutError):
                    async with timeouts.timeout_at(when) as inner:
                        await forever()
                assert inner.expired()
                await forever()
        assert outer.expired()
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(0)

    run(story)


def test_a_mixture_of_both_kinds(aio, timeouts, run):
    """asyncio's timeouts and ours, one in the other."""

    async def story():
        for outer, inner in ((asyncio, aio), (aio, asyncio), (timeouts, timeouts)):
            with pytest.raises(TimeoutError):
                async with outer.timeout(60) as patient, inner.timeout(0.005):
                    await forever()
            assert not patient.expired()
            with pytest.raises(TimeoutError):
                async with outer.timeout(0.005) as hasty, inner.timeout(60) as patient:
                    await forever()
            assert (hasty.expired(), patient.expired()) == (True, False)

    run(story)


@pytest.mark.parametrize("expired", [False, True])
def test_cancelled_from_outside(timeouts, run, expired):
    """A cancellation that was asked for stays one, also where the timeout came just before or after it."""

    async def story():
        blocks = []

        async def inner():
            async with timeouts.timeout(0.005 if expired else 60) as block:
                blocks.append(block)
                try:
                    await forever()
                finally:
                    if expired:
                        asyncio.current_task().cancel("from outside")

        task = asyncio.ensure_future(inner())
        await asyncio.sleep(0)
        if not expired:
            task.cancel("from outside")
        with pytest.raises((asyncio.CancelledError, TimeoutError)) as caught:
            await task
        assert blocks[0].expired() is expired
        return type(caught.value), task.cancelling(), task.cancelled()

    outcome = run(story)
    assert outcome == (asyncio.CancelledError, 1, True)


def test_cancelled_before_it_was_entered(timeouts, run):
    """What was asked for before is not counted to the timeout: it is a TimeoutError still."""

    async def story():
        async def inner():
            try:
                await forever()
            except asyncio.CancelledError:
                with pytest.raises(TimeoutError):
                    async with timeouts.timeout(0.005):
                        await forever()
                return asyncio.current_task().cancelling()

        task = asyncio.ensure_future(inner())
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert run(story) == 1


def test_another_error_passes(timeouts, run):
    """In time it is what it is; one that follows a timeout is what asyncio makes of it."""

    async def story():
        with pytest.raises(LookupError):
            async with timeouts.timeout(60):
                raise LookupError
        caught = None
        try:
            async with timeouts.timeout(0.005) as block:
                try:
                    await forever()
                finally:
                    raise LookupError("on the way out")
        except LookupError as error:
            caught = error
        assert block.expired()
        context = caught.__context__
        # Since 3.13 the cancellation that it came of is shown as the timeout's.
        newer = sys.version_info >= (3, 13)
        assert isinstance(context, TimeoutError if newer else asyncio.CancelledError)
        assert asyncio.current_task().cancelling() == 0

    run(story)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="asyncio does so since 3.13")
def test_the_cancellations_in_a_group_become_timeouts(timeouts, run):
    """An ExceptionGroup on the way out of an expired block: its errors' contexts show the timeout."""

    async def story():
        group = None
        try:
            async with timeouts.timeout(0.005):
                try:
                    await forever()
                except asyncio.CancelledError as error:
                    lost = LookupError()
                    lost.__context__ = error
                    raise ExceptionGroup("several", [lost]) from error
        except ExceptionGroup as error:
            group = error
        return type(group.exceptions[0].__context__), asyncio.current_task().cancelling()

    assert run(story) == (TimeoutError, 0)


def test_a_task_group_inside(timeouts, run):
    """The group's tasks are cancelled, and one TimeoutError comes out."""

    async def story():
        tasks = []
        with pytest.raises(TimeoutError):
            async with timeouts.timeout(0.005), asyncio.TaskGroup() as group:
                tasks = [group.create_task(forever()) for _ in range(3)]
        assert all(task.cancelled() for task in tasks)
        assert asyncio.current_task().cancelling() == 0

    run(story)


def test_the_block_may_swallow_its_cancellation(timeouts, run):
    """Then nothing is raised; it has expired all the same, and the task can be cancelled as before."""

    async def story():
        async with timeouts.timeout(0.005) as block:
            try:
                await forever()
            except asyncio.CancelledError:
                pass
        assert block.expired()
        return asyncio.current_task().cancelling()

    assert run(story) == 0


def test_left_before_it_fires_it_never_fires(timeouts, run):
    """The timer goes with the block."""

    async def story():
        loop = asyncio.get_running_loop()
        for _ in range(20):
            async with timeouts.timeout(0.002):
                pass
        await asyncio.sleep(0.01)
        assert asyncio.current_task().cancelling() == 0
        return len(loop) if hasattr(loop, "__len__") else 0

    assert run(story) == 0


@pytest.mark.parametrize("debug", [False, True])
def test_what_it_says_of_itself(timeouts, run, debug):
    """repr: the state and, while it runs, the deadline."""

    async def story():
        block = timeouts.timeout_at(12345678.5)
        said = [repr(block)]
        async with block:
            said.append(repr(block))
        said.append(repr(block))
        with pytest.raises(TimeoutError):
            async with timeouts.timeout(0) as block:
                try:
                    await forever()
                finally:
                    said.append(repr(block))
        said.append(repr(block))
        return said

    assert run(story, debug=debug) == [
        "<Timeout [created]>",
        "<Timeout [active] when=12345678.5>",
        "<Timeout [finished]>",
        "<Timeout [expiring]>",
        "<Timeout [expired]>",
    ]


def test_many_at_once(timeouts, run):
    """Hundreds of tasks, some in time and some not: each gets what is its own."""

    async def one(number):
        try:
            async with timeouts.timeout(0.004 if number % 2 else 60):
                await asyncio.sleep(60 if number % 2 else 0.006)
        except TimeoutError:
            return "late"
        return "in time"

    async def story():
        return await asyncio.gather(*map(one, range(400)))

    assert run(story) == ["in time", "late"] * 200


def test_what_it_awaits_is_asyncios_own_protocol(timeouts, run):
    """`__aenter__` gives the block itself; AsyncExitStack takes it as it takes asyncio's."""

    async def story():
        async with contextlib.AsyncExitStack() as stack:
            block = await stack.enter_async_context(timeouts.timeout(60))
            assert isinstance(block, timeouts.Timeout)
        with pytest.raises(TimeoutError):
            async with contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(timeouts.timeout(0.005))
                await forever()

    run(story)
