"""Clocks: what time it is, and how to sleep until then.

A clock is any object with

    time() -> float                 seconds; R6 holds even where it steps back
    sleeper(idle) -> Sleeper        one for each thread that sleeps by this clock

and a sleeper one with

    wait_until(when)                return when time() >= when, or when woken; inf: when woken
    wake()                          end the wait that is on, or else the next one; from any thread
    close()                         it will not be used again

`idle()` says whether no callback of the sleeping timer runs or waits: only a clock that moves
by itself (`ManualClock(auto=True)`) asks. Such a sleeper also has `poke()`: look again.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Protocol

from tickwheel.bootclock import BootClock
from tickwheel.locksleeper import LockSleeper

__all__ = ["BootClock", "Clock", "ManualClock", "MonotonicClock", "Sleeper"]


class Sleeper(Protocol):
    def wait_until(self, when: float) -> None: ...
    def wake(self) -> None: ...
    def close(self) -> None: ...


class Clock(Protocol):
    def time(self) -> float: ...
    def sleeper(self, idle: Callable[[], bool], /) -> Sleeper: ...


class MonotonicClock:
    """`time.monotonic`: the default. It stands still while the machine is suspended, where the
    system's does (Linux); deadlines then come that much later."""

    def time(self) -> float:
        return time.monotonic()

    def sleeper(self, idle: Callable[[], bool], /) -> Sleeper:
        return LockSleeper(self.time)


class ManualClock:
    """A clock for tests: it stands still until `advance` moves it, and wakes the timers that sleep by it.

    `auto=True`: it jumps to the next deadline by itself when every timer on it would sleep and no
    callback of theirs runs or waits, so that hours pass in milliseconds.

    >>> clock = ManualClock(start=100.0)
    >>> clock.advance(2.5)
    >>> clock.time()
    102.5
    """

    def __init__(self, start: float = 0.0, *, auto: bool = False) -> None:
        if not math.isfinite(start):
            raise ValueError(f"start must be finite, got {start}")
        self._now = float(start)
        self._auto = auto
        self._sleepers: list[_ManualSleeper] = []
        # An RLock underneath: a destructor may call back while this thread is inside.
        self._changed = threading.Condition()

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward. ValueError: `seconds` is negative or not finite."""
        if not (0 <= seconds < math.inf):
            raise ValueError(f"seconds must be >= 0 and finite, got {seconds}")
        with self._changed:
            if self._now + seconds == math.inf:
                raise ValueError(f"seconds must leave the clock finite, got {seconds} at {self._now}")
            self._now += seconds
            self._changed.notify_all()

    def sleeper(self, idle: Callable[[], bool], /) -> Sleeper:
        sleeper = _ManualSleeper(self, idle)
        with self._changed:
            self._sleepers.append(sleeper)
        return sleeper

    def forget_sleepers(self) -> None:
        """In a child of fork: the threads that slept by this clock are gone, maybe with its lock."""
        self._sleepers = []
        self._changed = threading.Condition()

    def _jump(self) -> bool:
        """Under the lock: move to the next deadline if every timer on this clock waits for it."""
        if not self._auto or not all(sleeper.at_rest() for sleeper in self._sleepers):
            return False
        nearest = min(sleeper.when for sleeper in self._sleepers)
        if nearest == math.inf:
            return False
        self._now = max(self._now, nearest)
        self._changed.notify_all()
        return True


class _ManualSleeper:
    def __init__(self, clock: ManualClock, idle: Callable[[], bool]) -> None:
        self._clock = clock
        self._idle = idle
        self._woken = False
        self._waiting = False
        self.when = math.inf

    def at_rest(self) -> bool:
        return self._waiting and not self._woken and self._clock.time() < self.when and self._idle()

    def wait_until(self, when: float) -> None:
        clock = self._clock
        with clock._changed:
            self.when = when
            self._waiting = True
            while not self._woken and clock._now < when:
                if not clock._jump():
                    clock._changed.wait()
            self._waiting = self._woken = False

    def wake(self) -> None:
        with self._clock._changed:
            self._woken = True
            self._clock._changed.notify_all()

    def poke(self) -> None:
        with self._clock._changed:
            self._clock._changed.notify_all()

    def close(self) -> None:
        with self._clock._changed:
            if self in self._clock._sleepers:  # not in a child of fork
                self._clock._sleepers.remove(self)
            self._clock._changed.notify_all()
