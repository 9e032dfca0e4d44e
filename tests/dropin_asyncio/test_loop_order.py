"""When callbacks run, and in what order: as on asyncio's loop."""

import asyncio
import math
import random
import signal
import socket
import threading

import pytest

YEAR = 365.25 * 86400


def test_never_early(loop, rng):
    """A callback runs at or after `when()`, on the loop's own clock."""
    ran = []

    def ring(number):
        ran.append((loop.time(), handles[number].when()))

    handles = [loop.call_later(rng.uniform(0, 0.05), ring, number) for number in range(300)]
    loop.call_later(0.06, loop.stop)
    loop.run_forever()
    assert len(ran) == 300
    for now, when in ran:
        assert now >= when - loop._clock_resolution, (now, when)


def test_never_early_inside_a_tick(virtual, rng):
    """The same where deadlines lie anywhere within ticks, and time is what the selector slept."""
    ran = []
    whens = [1000 + rng.random() * 10 ** rng.randint(-5, 5) for _ in range(2000)]
    for when in whens:
        virtual.call_at(when, lambda when=when: ran.append((virtual.now, when)))
    virtual.run_until_idle()
    assert [when for _, when in ran] == sorted(whens)
    for now, when in ran:
        assert when - 1.1e-9 <= now < when + 1 / 8192 + 1e-9


def test_due_together_run_in_the_order_of_when(virtual):
    """What one turn finds due runs by `when`, though one tick holds it all."""
    ran = []
    whens = [1000.5 + n * 1e-7 for n in range(200)]
    for when in random.Random(1).sample(whens, len(whens)):
        virtual.call_at(when, ran.append, when)
    virtual.now = 1001.0
    virtual.run_until_idle()
    assert ran == whens


def test_call_soon_keeps_its_order(virtual):
    """Callbacks of call_soon run as they were made, and those of a turn before timers that it finds due."""
    ran = []
    virtual.call_later(0, ran.append, "timer")
    for number in range(5):
        virtual.call_soon(ran.append, number)
    virtual.call_soon(lambda: virtual.call_soon(ran.append, "next turn"))
    virtual.run_until_idle()
    assert ran == [0, 1, 2, 3, 4, "timer", "next turn"]


def test_a_timer_made_by_a_callback_waits_for_the_next_turn(virtual):
    """A delay of zero is not this turn's: the loop comes round to I/O between."""
    ran = []

    def again(left):
        ran.append(left)
        if left:
            virtual.call_later(0, again, left - 1)
            virtual.call_soon(ran.append, "soon")

    virtual.call_later(0, again, 2)
    virtual.run_until_idle()
    assert ran == [2, "soon", 1, "soon", 0]


def test_input_comes_before_due_timers(virtual):
    """asyncio's order within a turn: what the selector reports, then what is due."""
    ran = []
    here, there = socket.socketpair()
    with here, there:

        def read():
            here.recv(1)
            ran.append("input")
            virtual.remove_reader(here)

        def busy():
            there.send(b"x")
            virtual.now += 1.0

        virtual.add_reader(here, read)
        virtual.call_later(0.5, ran.append, "timer")
        virtual.call_soon(busy)
        virtual.run_until_idle()
    assert ran == ["input", "timer"]


@pytest.mark.parametrize("delay", [0, -0.0, -1, -1e9, -math.inf, 1e-12])
def test_no_delay_is_still_a_timer_handle(loop, delay):
    """Due at once, and yet a handle with `when()`."""
    ran = []
    handle = loop.call_later(delay, ran.append, delay)
    assert isinstance(handle, asyncio.TimerHandle)
    assert handle.when() <= loop.time()
    loop.call_soon(lambda: loop.call_soon(loop.stop))
    loop.run_forever()
    assert ran == [delay]


@pytest.mark.parametrize("delay", [YEAR, 100 * YEAR, 1e300, math.inf])
def test_far_deadlines_do_not_come(loop, delay):
    """A hundred years work, and so does for ever: as on asyncio's loop."""
    far = loop.call_later(delay, pytest.fail, "too early")
    assert far.when() >= delay
    loop.run_until_complete(asyncio.sleep(0.01))
    assert len(loop) == 1
    far.cancel()
    assert len(loop) == 0


def test_a_hundred_years_pass(virtual):
    """Deadlines of all sizes come in order, through every level."""
    virtual._clock_resolution = 1e-6  # what a float can tell apart then
    ran = []
    delays = [100 * YEAR / 3**n for n in range(30)]
    for delay in delays:
        virtual.call_later(delay, ran.append, delay)
    virtual.run_until_idle()
    assert ran == delays[::-1]
    assert virtual.now == pytest.approx(1000 + 100 * YEAR)


@pytest.mark.parametrize("call", ["call_later", "call_at"])
def test_what_is_no_time_is_refused(loop, call):
    """NaN would sit in the wheel for ever: ValueError. None and text: TypeError, as asyncio."""
    method = getattr(loop, call)
    with pytest.raises(ValueError, match="when must be a number, got nan"):
        method(math.nan, print)
    for nothing in (None, "1.0"):
        with pytest.raises(TypeError):
            method(nothing, print)
    with pytest.raises(TypeError):
        method()
    with pytest.raises(TypeError):
        method(1.0)
    assert len(loop) == 0


def test_whole_seconds_stay_whole(virtual):
    """`when()` gives back the number that was given."""
    handle = virtual.call_at(1001, print)
    assert (handle.when(), type(handle.when())) == (1001, int)


@pytest.mark.parametrize("start", [-1e6, 0.0, 5.0, 1e9])
def test_a_subclass_may_have_its_own_clock(make_loop, virtual_class, start):
    """Everything asks `time()`: a clock may be far from time.monotonic, and be set once the loop is made."""
    loop = make_loop(virtual_class, now=start, _clock_resolution=1e-6)
    ran = []
    first = loop.call_later(1.0, ran.append, "first")
    loop.call_at(start + 3.0, ran.append, "third")
    second = loop.call_later(9.0, ran.append, "second")
    gone = loop.call_later(0.5, ran.append, "gone")
    assert second.reschedule(2.0)
    assert first.when() == start + 1.0
    loop.call_soon(gone.cancel)
    loop.run_until_idle()
    assert ran == ["first", "second", "third"]
    assert start + 3.0 <= loop.now < start + 3.01


def test_time_that_is_set_back_loses_nothing(virtual):
    """R6: timers wait until their time has come again."""
    ran = []
    virtual.call_later(1.0, lambda: setattr(virtual, "now", 900.0))
    virtual.run_until_idle()
    late = virtual.call_later(1.0, ran.append, "late")
    kept = virtual.call_later(1.5, ran.append, "kept")
    moved = virtual.call_later(2.0, ran.append, "moved")
    gone = virtual.call_later(0.5, ran.append, "gone")
    virtual.call_soon(gone.cancel)
    assert len(virtual) == 4
    virtual.call_later(0.75, lambda: ran.append(moved.reschedule(1.0)))
    virtual.run_until_idle()
    assert ran == [True, "late", "kept", "moved"]
    assert (late.when(), kept.when(), moved.when()) == (901.0, 901.5, 901.75)
    assert 901.75 <= virtual.now < 901.76


def test_run_forever_and_stop(virtual):
    """`stop` ends the turn; what the turn has found due still runs, what is later waits for the next run."""
    ran = []
    virtual.call_at(1001, virtual.stop)
    virtual.call_at(1001, ran.append, "same turn")
    virtual.call_at(1002, ran.append, "later")
    virtual.run_forever()
    assert ran == ["same turn"]
    assert len(virtual) == 1
    virtual.run_until_idle()
    assert ran == ["same turn", "later"]


def test_an_error_stops_nothing(virtual):
    """It goes to the exception handler, with the handle and the callback's name."""
    contexts, ran = [], []
    virtual.set_exception_handler(lambda loop, context: contexts.append(context))
    handle = virtual.call_at(1001, divmod, 1, 0)
    virtual.call_at(1001, ran.append, "next")
    virtual.run_until_idle()
    (context,) = contexts
    assert isinstance(context["exception"], ZeroDivisionError)
    assert context["handle"] is handle
    assert context["message"].startswith("Exception in callback divmod(")
    assert ran == ["next"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes_and_loses_nothing(virtual, kind):
    """It ends run_forever; what was due with it runs when the loop does again."""

    def strike():
        raise kind

    ran = []
    virtual.call_at(1001, strike)
    virtual.call_at(1001, ran.append, "due with it")
    virtual.call_at(1002, ran.append, "later")
    with pytest.raises(kind):
        virtual.run_forever()
    assert ran == []
    virtual.run_until_idle()
    assert ran == ["due with it", "later"]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="add_signal_handler is for Unix")
def test_signals_are_handled_between_timers(loop):
    """add_signal_handler works with timers pending, and wakes a loop that waits for one."""
    ran = []

    def on_alarm():
        ran.append("signal")
        loop.stop()

    loop.add_signal_handler(signal.SIGALRM, on_alarm)
    far = loop.call_later(3600, ran.append, "far")
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    loop.run_forever()
    loop.remove_signal_handler(signal.SIGALRM)
    assert ran == ["signal"]
    assert not far.cancelled()


def test_threads_may_call_in(loop):
    """call_soon_threadsafe wakes a loop that sleeps for a far timer."""
    loop.call_later(3600, print)
    thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(loop.stop))
    loop.call_soon(thread.start)
    loop.run_forever()
    thread.join()


def test_close_drops_what_is_pending(loop):
    """No timer runs, is held or holds on; its handle answers still."""
    handle = loop.call_later(0, pytest.fail, "a closed loop runs nothing")
    far = loop.call_later(3600, print)
    loop.close()
    assert len(loop) == 0
    assert (handle.cancelled(), handle.reschedule(1.0)) == (False, False)
    handle.cancel()
    assert (handle.cancelled(), far.when() > 3600 - 1) == (True, True)
    for call in (loop.call_later, loop.call_at):
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            call(1.0, print)
    loop.close()


def test_a_running_loop_cannot_be_closed(loop):
    """RuntimeError, and its timers stay."""
    ran = []

    def close():
        with pytest.raises(RuntimeError, match="Cannot close a running event loop"):
            loop.close()

    loop.call_soon(close)
    loop.call_later(0, ran.append, "still there")
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    assert ran == ["still there"]


def test_a_loop_without_timers_is_true(loop):
    """As every loop is: `loop or get_event_loop()` is common."""
    assert len(loop) == 0
    assert loop


def test_the_clock_is_asyncios(aio):
    """`run` runs on a wheel; sleep, wait_for and asyncio.timeout are asyncio's, on its clock."""

    async def main():
        loop = asyncio.get_running_loop()
        assert isinstance(loop, aio.WheelEventLoop)
        begin = loop.time()
        await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(3600), 0.01)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(3600)
        assert loop.time() - begin >= 0.03 - 3 * loop._clock_resolution
        assert len(loop) == 0
        return "done"

    assert aio.run(main()) == "done"
    with asyncio.Runner(loop_factory=aio.new_event_loop) as runner:
        assert runner.run(main()) == "done"
