"""Debug mode: what asyncio checks, remembers and warns of."""

import asyncio
import inspect
import logging
import threading

import pytest

CALLS = ["call_later", "call_at"]


@pytest.fixture
def debugged(loop):
    loop.set_debug(True)
    return loop


@pytest.mark.parametrize("call", CALLS)
def test_the_source_of_a_timer_is_remembered(debugged, call):
    """Its last line is the caller's, whatever lies between."""
    handle, line = getattr(debugged, call)(3600, print), inspect.currentframe().f_lineno
    last = handle._source_traceback[-1]
    assert (last.filename, last.lineno) == (__file__, line)
    assert f"created at {__file__}:{line}" in repr(handle)


def test_a_timer_says_what_it_is(debugged, loop):
    """repr: when, callback and arguments; after cancelling still, in debug mode."""
    handle = debugged.call_at(3600.5, divmod, 7, 2)
    assert "when=3600.5" in repr(handle)
    assert "divmod(7, 2)" in repr(handle)
    handle.cancel()
    assert repr(handle).startswith("<WheelHandle cancelled when=3600.5 divmod(7, 2)")
    loop.set_debug(False)
    plain = loop.call_at(3600.5, divmod, 7, 2)
    stock = asyncio.TimerHandle(3600.5, divmod, (7, 2), loop)
    assert repr(plain) == repr(stock).replace("TimerHandle", "WheelHandle")
    plain.cancel()
    assert "cancelled when=3600.5" in repr(plain)
    assert "divmod" not in repr(plain)


def test_a_slow_callback_is_warned_of(debugged, caplog):
    """`slow_callback_duration`: the timer is named, where it was made too."""
    debugged.slow_callback_duration = 0.0
    debugged.call_later(0.001, debugged.stop)
    with caplog.at_level(logging.WARNING, logger="asyncio"):
        debugged.run_forever()
    warned = [record.getMessage() for record in caplog.records]
    assert any("Executing <WheelHandle when=" in each and __file__ in each for each in warned), warned


@pytest.mark.parametrize("call", CALLS)
def test_only_the_loops_own_thread_may_call(debugged, call):
    """RuntimeError from another thread while the loop runs, and nothing is added."""
    errors = []

    def elsewhere():
        try:
            getattr(debugged, call)(1.0, print)
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=elsewhere)

    def inside():
        thread.start()
        thread.join()
        debugged.stop()

    debugged.call_soon(inside)
    debugged.run_forever()
    assert len(errors) == 1
    assert "Non-thread-safe operation" in errors[0]
    assert len(debugged) == 0


@pytest.mark.parametrize("call", CALLS)
def test_a_coroutine_is_no_callback(debugged, call):
    """TypeError, as asyncio."""

    async def coroutine():
        """Never runs."""

    method = getattr(debugged, call)
    with pytest.raises(TypeError, match=r"coroutines cannot be used with call_at\(\)"):
        method(1.0, coroutine)
    with pytest.raises(TypeError, match="a callable object was expected by call_at"):
        method(1.0, 3)
    assert len(debugged) == 0


def test_debug_mode_may_come_and_go(loop):
    """Handles of both kinds live side by side."""
    ran = []
    for number in range(10):
        loop.set_debug(number % 2 == 0)
        loop.call_later(number / 1000, ran.append, number)
    gone = loop.call_later(0.001, pytest.fail)
    loop.set_debug(True)
    gone.cancel()
    loop.call_later(0.02, loop.stop)
    loop.run_forever()
    assert ran == list(range(10))
    assert "cancelled" in repr(gone)


def test_an_error_names_the_source_of_its_timer(debugged):
    """The exception handler gets the traceback of where the timer was made."""
    contexts = []
    debugged.set_exception_handler(lambda loop, context: contexts.append(context))
    debugged.call_later(0.001, divmod, 1, 0)
    debugged.call_later(0.002, debugged.stop)
    debugged.run_forever()
    assert contexts[0]["source_traceback"][-1].filename == __file__


@pytest.mark.parametrize("debug", [False, True])
def test_a_closed_loop_takes_no_timer(make_loop, debug):
    """RuntimeError, whatever the mode."""
    loop = make_loop()
    loop.set_debug(debug)
    loop.close()
    for call in CALLS:
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            getattr(loop, call)(1.0, print)


def test_a_task_that_is_destroyed_pending_is_reported(aio):
    """Running asyncio's own programs in debug mode changes nothing for them."""

    async def main():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(n / 1000, n)) for n in range(20)]
        return [task.result() for task in tasks]

    assert aio.run(main(), debug=True) == list(range(20))
