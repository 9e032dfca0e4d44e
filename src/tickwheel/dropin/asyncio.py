"""asyncio's event loop with its timers in the wheel.

`run(main())`, or `asyncio.Runner(loop_factory=new_event_loop)`, and all that stands on asyncio's timers gets
the wheel's: `asyncio.timeout`, `wait_for`, `sleep`, and the libraries above them.

Only where timers are kept is different: how a loop turns is asyncio's own code.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Handle
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from math import inf
from typing import Any, TypeVar

from tickwheel._loopcore import LoopFront, Timeout, WheelHandle, timeout, timeout_at

__all__ = ["LoopTimer", "Timeout", "WheelEventLoop", "new_event_loop", "run", "timeout", "timeout_at"]

T = TypeVar("T")


class WheelTimers(LoopFront):
    """The timers of a loop that is built on `asyncio.BaseEventLoop`: to be inherited before it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        above: Any = super(LoopFront, self)
        self._drive(above._run_once)

    def run_forever(self) -> None:
        """Run until `stop()` is called."""
        above: Any = super()
        self._runs(True)
        try:
            above.run_forever()
        finally:
            self._runs(False)

    def _make_handle(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> WheelHandle:
        """A handle with all that asyncio checks and remembers in debug mode."""
        loop: Any = self
        loop._check_closed()
        loop._check_thread()
        loop._check_callback(callback, "call_at")
        handle = WheelHandle(when, callback, args, loop, context)
        if handle._source_traceback:
            del handle._source_traceback[-1]
        return handle

    def close(self) -> None:
        """Close the loop; its timers are dropped, as asyncio does."""
        above: Any = super()
        above.close()
        self._drop_timers()


class WheelEventLoop(WheelTimers, asyncio.SelectorEventLoop):
    """`asyncio.SelectorEventLoop` with its timers in the wheel: `call_later` and `cancel` are O(1), and
    a cancelled timer is gone. Its handles are `asyncio.TimerHandle`s that can be rescheduled too."""


class LoopTimer(LoopFront):
    """`call_later` and `call_at` for a loop of any kind, one that runs already too: on the wheel, with one
    `loop.call_at` for all, at the next bucket's expiration.

    Its handles are `asyncio.TimerHandle`s that can be rescheduled too. At most `max_batch` callbacks run
    in a turn of the loop, so that thousands due at once leave it its time. Not thread-safe, as the loop.
    """

    def __init__(self, loop: AbstractEventLoop, *, max_batch: int = 1000) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch must be >= 1, got {max_batch}")
        self._served = loop
        self._max_batch = max_batch
        self._due: deque[WheelHandle] = deque()
        self._waker: Handle | None = None
        self._serve(loop)

    def time(self) -> float:
        """Seconds on the loop's clock."""
        return self._served.time()

    def _arm(self) -> None:
        if self._waker is not None:
            self._waker.cancel()
        self._armed = self._next_expiration()
        self._waker = None if self._armed == inf else self._served.call_at(self._armed, self._turn)

    def _turn(self) -> None:
        """Run what is due."""
        due = self._due
        due.extend(self._pull(self.time()))
        try:
            for _ in range(min(len(due), self._max_batch)):
                if not due:  # a callback has closed the timer
                    break
                handle = due.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            self._waker = None
            if due:
                self._armed = -inf
                self._waker = self._served.call_soon(self._turn)
            else:
                self._arm()

    def _make_handle(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> WheelHandle:
        if self._closed:
            raise RuntimeError("the timer is closed")
        return WheelHandle(when, callback, args, self._served, context)

    def close(self) -> None:
        """Drop all timers and take no more. The loop is not touched."""
        self._closed = True
        self._due.clear()
        self._drop_timers()
        if self._waker is not None:
            self._waker.cancel()
            self._waker = None


def new_event_loop() -> WheelEventLoop:
    """For `asyncio.Runner(loop_factory=new_event_loop)`."""
    return WheelEventLoop()


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """`asyncio.run` on a `WheelEventLoop`."""
    with asyncio.Runner(debug=debug, loop_factory=new_event_loop) as runner:
        return runner.run(main)
