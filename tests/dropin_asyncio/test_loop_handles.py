"""The handles: cancel, reschedule, what they say and what they hold."""

import asyncio
import contextvars
import gc
import itertools
import math
import weakref

import pytest

VARIABLE = contextvars.ContextVar("VARIABLE", default="unset")


class Ballast:
    """Something that a handle may pin."""


def test_a_cancelled_timer_is_gone_at_once(loop):
    """Its entry, and its callback, arguments and context are freed without the collector (R10)."""
    gc.disable()
    try:
        callback, argument, value = Ballast(), Ballast(), Ballast()
        refs = [weakref.ref(each) for each in (callback, argument, value)]
        context = contextvars.Context()
        context.run(VARIABLE.set, value)
        handle = loop.call_later(3600, lambda *args, callback=callback: None, argument, context=context)
        del callback, argument, value, context
        assert len(loop) == 1
        assert all(ref() is not None for ref in refs)
        handle.cancel()
        assert len(loop) == 0
        assert [ref() for ref in refs] == [None] * 3
        again = weakref.ref(handle)
        del handle
        assert again() is None
    finally:
        gc.enable()


def test_a_fired_timer_is_freed_with_its_handle(virtual):
    """What ran is let go without the collector."""
    gc.disable()
    try:
        argument = Ballast()
        ref = weakref.ref(argument)
        handle = weakref.ref(virtual.call_later(1.0, lambda argument: None, argument))
        del argument
        assert handle() is not None
        virtual.run_until_idle()
        assert (ref(), handle(), len(virtual)) == (None, None, 0)
    finally:
        gc.enable()


def test_keepalives_are_counted_exactly(virtual):
    """50,000 connections, each refreshed many times: 50,000 entries; in asyncio's heap, an alarm at most."""
    connections = 50_000
    keepalives = [virtual.call_later(30, pytest.fail) for _ in range(connections)]
    for turn in range(6):
        for number, handle in enumerate(keepalives):
            handle.cancel()
            keepalives[number] = virtual.call_later(30, pytest.fail)
        virtual.call_later(1.0 + turn % 2, virtual.stop)
        virtual.run_forever()
        assert len(virtual) == connections
        assert len(virtual._scheduled) <= 1
    for handle in keepalives:
        handle.cancel()
    assert len(virtual) == 0


def test_a_handle_tells_its_time_for_ever(virtual):
    """`when()` before and after firing, and after cancelling."""
    fired, cancelled = virtual.call_at(1001.5, int), virtual.call_at(1002.5, int)
    cancelled.cancel()
    virtual.run_until_idle()
    assert (fired.when(), fired.cancelled()) == (1001.5, False)
    assert (cancelled.when(), cancelled.cancelled()) == (1002.5, True)
    fired.cancel()
    assert fired.cancelled()
    assert fired.when() == 1001.5
    cancelled.cancel()


def test_cancel_wins_until_the_callback_starts(virtual):
    """Also over a timer that this turn has found due, already in the ready queue."""
    ran = []

    def first():
        ran.append("first")
        second.cancel()

    virtual.call_at(1001, first)
    second = virtual.call_at(1001, ran.append, "second")
    virtual.run_until_idle()
    assert ran == ["first"]
    assert second.cancelled()


def test_a_callback_may_cancel_itself(virtual):
    """Too late to matter, and no harm."""
    ran = []

    def cancel():
        handle.cancel()
        ran.append(handle.cancelled())

    handle = virtual.call_later(1.0, cancel)
    virtual.run_until_idle()
    assert ran == [True]


def test_handles_compare_and_hash_as_asyncios(loop):
    """By `when`, with each other and with asyncio's own."""
    early, late = loop.call_at(1.0, print), loop.call_at(2.0, print)
    stock = asyncio.TimerHandle(1.5, print, (), loop)
    assert early < stock < late
    assert late > stock >= early
    assert sorted([late, stock, early]) == [early, stock, late]
    assert early == loop.call_at(1.0, print) != loop.call_at(1.0, repr)
    assert hash(early) == hash(1.0)
    assert early.__lt__(1.0) is NotImplemented


class TestReschedule:
    """`reschedule(delay)`: the same handle, another time."""

    def test_earlier_and_later(self, virtual):
        """It runs once, at its last time."""
        ran = []
        earlier = virtual.call_later(50.0, lambda: ran.append(("earlier", virtual.now)))
        later = virtual.call_later(1.0, lambda: ran.append(("later", virtual.now)))
        assert earlier.reschedule(2.0)
        assert later.reschedule(3.0)
        assert (earlier.when(), later.when(), len(virtual)) == (1002.0, 1003.0, 2)
        virtual.run_until_idle()
        assert ran == [("earlier", 1002.0), ("later", 1003.0)]

    def test_into_the_past(self, virtual):
        """It is due at once."""
        ran = []
        handle = virtual.call_later(50.0, lambda: ran.append(virtual.now))
        assert handle.reschedule(-5.0)
        assert handle.when() == 995.0
        virtual.run_until_idle()
        assert ran == [1000.0]

    @pytest.mark.parametrize("delay", [0.0, 0.25, 100.0, 1e6])
    def test_from_another_timer(self, virtual, delay):
        """From inside a callback of the same loop."""
        ran = []
        handle = virtual.call_later(2.0, lambda: ran.append(virtual.now))
        virtual.call_later(1.0, lambda: ran.append(handle.reschedule(delay)))
        virtual.run_until_idle()
        assert ran == [True, 1001.0 + delay]

    def test_again_and_again(self, virtual, rng):
        """A keepalive that is moved before it is due never runs, and is one entry."""
        handle = virtual.call_later(30.0, virtual.stop)
        moves = itertools.count()

        def move():
            assert handle.reschedule(30.0)
            assert len(virtual) == 1
            if next(moves) < 500:
                virtual.call_later(rng.uniform(0, 29), move)

        move()
        virtual.run_forever()
        assert next(moves) == 501
        assert (len(virtual), virtual.now >= handle.when()) == (0, True)

    def test_after_it_was_called(self, virtual):
        """False, and its time stays what it was."""
        ran = []
        handle = virtual.call_later(1.0, lambda: ran.append(handle.reschedule(1.0)))
        virtual.run_until_idle()
        assert handle.reschedule(1.0) is False
        assert (ran, handle.when(), len(virtual)) == ([False], 1001.0, 0)

    def test_after_it_was_cancelled(self, virtual):
        """False."""
        handle = virtual.call_later(1.0, pytest.fail)
        handle.cancel()
        assert handle.reschedule(1.0) is False
        virtual.run_until_idle()

    def test_when_the_loop_is_about_to_call_it(self, virtual):
        """False: it is in the ready queue, and runs."""
        ran = []
        virtual.call_at(1001, lambda: ran.append(second.reschedule(5.0)))
        second = virtual.call_at(1001, lambda: ran.append(virtual.now))
        virtual.run_until_idle()
        assert ran == [False, 1001]

    @pytest.mark.parametrize("delay", [math.nan, "1", None])
    def test_to_what_is_no_time(self, virtual, delay):
        """Refused, and it stays where it was."""
        ran = []
        handle = virtual.call_later(1.0, ran.append, "ran")
        with pytest.raises((ValueError, TypeError)):
            handle.reschedule(delay)
        assert (handle.when(), len(virtual)) == (1001.0, 1)
        virtual.run_until_idle()
        assert ran == ["ran"]


def test_the_context_is_captured_when_the_timer_is_made(virtual):
    """As asyncio does: what the callback sets stays its own."""
    seen = []

    def look():
        seen.append(VARIABLE.get())
        VARIABLE.set("changed")

    token = VARIABLE.set("then")
    virtual.call_later(1.0, look)
    virtual.call_at(1002, look)
    VARIABLE.reset(token)
    virtual.run_until_idle()
    assert seen == ["then", "then"]
    assert VARIABLE.get() == "unset"


def test_a_context_may_be_given(virtual):
    """`context=` is the one that the callback runs in, not a copy."""
    context = contextvars.Context()
    handle = virtual.call_later(1.0, VARIABLE.set, "inside", context=context)
    virtual.call_at(1001, VARIABLE.set, "inside too", context=contextvars.Context())
    if hasattr(handle, "get_context"):
        assert handle.get_context() is context
    virtual.run_until_idle()
    assert context[VARIABLE] == "inside"
    assert VARIABLE.get() == "unset"


def test_a_handle_may_be_made_by_hand(aio, virtual):
    """Like asyncio's class: it is in no wheel, and a subclass is as good."""
    handle_type = type(virtual.call_later(1.0, print))

    class Mine(handle_type):
        """With a dict of its own."""

    for kind in (handle_type, Mine):
        handle = kind(1001.0, print, (1,), virtual)
        assert (handle.when(), handle.cancelled(), handle.reschedule(1.0)) == (1001.0, False, False)
        handle.cancel()
        assert handle.cancelled()
    assert len(virtual) == 1


def test_debug_handles_of_a_subclass_of_the_loop(make_loop, virtual_class):
    """Debug mode makes its handles by another way: they are as good."""
    loop = make_loop(virtual_class)
    loop.set_debug(True)
    ran = []
    moved = loop.call_later(9.0, ran.append, "moved")
    loop.call_later(2.0, ran.append, "second")
    loop.call_later(1.5, ran.append, "gone").cancel()
    assert moved.reschedule(1.0)
    assert len(loop) == 2
    loop.run_until_idle()
    assert ran == ["moved", "second"]
