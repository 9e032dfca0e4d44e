"""BootClock: a clock that counts the time that the machine was suspended.

On Linux it sleeps on a timer of the kernel's boot-time clock, so that what came due during a
suspend fires at resume. `os.timerfd_create` came with Python 3.13; before that it is reached
through ctypes. Elsewhere it looks at the clock once a second.
"""

from __future__ import annotations

import functools
import math
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tickwheel.locksleeper import LockSleeper

if TYPE_CHECKING:
    import ctypes

__all__ = ["BootClock"]

_LOOK_S = 1.0  # how often to look where no boot-time timer exists
_TIMER_ABSTIME = 1


def _boot_clock_id() -> int | None:
    """The system's clock that runs on while suspended; None: time.monotonic is that clock."""
    if sys.platform == "darwin":
        return time.CLOCK_MONOTONIC  # runs on in suspend, unlike time.monotonic there
    return getattr(time, "CLOCK_BOOTTIME", None)


class BootClock:
    """Seconds since boot, suspends included. `lateness_after_resume`: how many seconds late a
    deadline that passed during a suspend may fire after it (0.0: at once)."""

    def __init__(self) -> None:
        self._id = _boot_clock_id()
        self.lateness_after_resume = 0.0 if sys.platform == "linux" else _LOOK_S

    def time(self) -> float:
        return time.monotonic() if self._id is None else time.clock_gettime(self._id)

    def sleeper(self, idle: Callable[[], bool], /) -> _BootSleeper | LockSleeper:
        if sys.platform == "linux":
            return _BootSleeper(self.time)
        return LockSleeper(self.time, longest=_LOOK_S)  # a wait does not know of a suspend


@functools.cache
def _library() -> ctypes.CDLL:
    import ctypes  # here: it costs more to import than the rest of the package

    return ctypes.CDLL(None, use_errno=True)


def _libc(name: str, *args: object) -> int:
    """Call a function of the C library; OSError if it fails."""
    import ctypes

    result: int = getattr(_library(), name)(*args)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


class _BootSleeper:
    """Sleeps in poll() on a boot-time timer and on an event that wakes it."""

    def __init__(self, now: Callable[[], float]) -> None:
        import select  # here: few use this clock

        self._now = now
        flags = os.O_NONBLOCK | os.O_CLOEXEC
        self._timer = _libc("timerfd_create", time.CLOCK_BOOTTIME, flags)
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._timer, select.POLLIN)
        self._poll.register(self._event, select.POLLIN)
        self._closing = threading.RLock()  # a signal handler may wake it while it is woken
        self._closed = False

    def _set(self, when: float) -> None:
        seconds = nanoseconds = 0  # disarmed
        if when != math.inf:
            # Rounded up: woken a nanosecond early it would only go to sleep again.
            seconds, nanoseconds = divmod(max(1, min(math.ceil(when * 1e9), 2**62)), 10**9)
        itimerspec = struct.pack("@llll", 0, 0, seconds, nanoseconds)
        _libc("timerfd_settime", self._timer, _TIMER_ABSTIME, itimerspec, None)

    def wait_until(self, when: float) -> None:
        while self._now() < when:
            self._set(when)
            if any(fd == self._event for fd, _ in self._poll.poll()):
                break
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            pass  # nobody woke it: the time has come

    def wake(self) -> None:
        with self._closing:  # a descriptor that is closed may be another's by now
            if not self._closed:
                os.eventfd_write(self._event, 1)

    def close(self) -> None:
        with self._closing:
            self._closed = True
            os.close(self._timer)
            os.close(self._event)
