"""What the tests of the asyncio drop-in share: loops on each core, and loops whose time jumps."""

import asyncio
import contextlib
import importlib
import selectors

import pytest


@pytest.fixture
def aio(tw):
    """`tickwheel.dropin.asyncio`, on one core."""
    del tw
    return importlib.import_module("tickwheel.dropin.asyncio")


@pytest.fixture
def make_loop(aio):
    """Makes loops, by default `WheelEventLoop`s, and closes each when the test is over."""
    with contextlib.ExitStack() as made:

        def make(factory=None, **attributes):
            loop = (factory or aio.new_event_loop)()
            made.callback(loop.close)
            for name, value in attributes.items():
                setattr(loop, name, value)
            return loop

        yield make


@pytest.fixture
def loop(make_loop):
    return make_loop()


@pytest.fixture
def virtual_class(aio):
    """A loop class in virtual time, which starts at 1000 s: where a selector would sleep, time jumps."""
    return in_virtual_time(aio.WheelEventLoop)


@pytest.fixture
def stock_virtual_class():
    """asyncio's own, in virtual time."""
    return in_virtual_time(asyncio.SelectorEventLoop)


@pytest.fixture
def virtual(make_loop, virtual_class):
    return make_loop(virtual_class)


def in_virtual_time(base):
    class Virtual(base):
        def __init__(self):
            super().__init__(Jumper(self))
            self.now = 1000.0

        def time(self):
            return self.now

        def run_until_idle(self):
            """Turn until nothing is left to wait for."""
            with contextlib.suppress(Idle):
                self.run_forever()

    return Virtual


class Idle(BaseException):
    """The loop would sleep for ever."""


class Jumper(selectors.DefaultSelector):
    """Its sleep moves the loop's time at once."""

    def __init__(self, loop):
        super().__init__()
        self.loop = loop

    def select(self, timeout=None):
        events = super().select(0)
        if not events and timeout is None:
            raise Idle
        if not events:
            self.loop.now += timeout
        return events

