"""Expirer: the thread of a design that expires what is due, and sleeps in between."""
from collections.abc import Callable
from math import inf
from threading import Thread
from time import monotonic

from tickwheel.locksleeper import LockSleeper


class Expirer:
    """Calls `turn()` whenever the clock reaches `armed`.

    `turn` sets `armed` anew before it returns. Whoever adds a nearer deadline lowers it and calls `wake`.
    Both write it under the design's lock, so that no deadline is overlooked and none wakes it twice.
    """

    def __init__(self, name: str, turn: Callable[[], None]) -> None:
        self.armed = inf
        self.wakeups = 0
        self._turn = turn
        self._closed = False
        self._sleeper = LockSleeper(monotonic)
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._sleeper.wake()

    def close(self) -> None:
        self._closed = True
        self.wake()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._sleeper.wait_until(self.armed)
            if self._closed:
                return
            self.wakeups += 1
            self._turn()
