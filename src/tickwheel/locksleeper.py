"""LockSleeper: a thread asleep in a lock that is held. The cheapest sleep and wake that threads have."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

__all__ = ["LockSleeper"]


class LockSleeper:
    """A sleeper (see `tickwheel.clock`) for a clock that runs by itself.

    `longest`: seconds, how long to wait before looking at the clock again.
    """

    def __init__(self, now: Callable[[], float], longest: float = threading.TIMEOUT_MAX) -> None:
        self._now = now
        self._longest = longest
        self._gate = threading.Lock()
        self._gate.acquire()

    def wait_until(self, when: float) -> None:
        if when == math.inf:
            self._gate.acquire()
            return
        while (left := when - self._now()) > 0:
            if self._gate.acquire(timeout=min(left, self._longest)):
                return
        # A wake that came meanwhile asked for no more than this.
        self._gate.acquire(blocking=False)

    def wake(self) -> None:
        try:
            self._gate.release()
        except RuntimeError:
            pass  # the last wake has not been noticed yet: one is enough

    def close(self) -> None:
        pass
