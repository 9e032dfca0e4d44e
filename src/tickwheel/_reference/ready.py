"""Ready queues, and the tasks that know more than a `TimerTask`: the mirror of `_ready.pyx`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tickwheel._reference.levels import Bucket
from tickwheel._reference.task import TimerTask


class ReadyQueue:
    """QUEUED tasks on their way to one executor.

    With neither `feed` nor `executor` it is inline: whoever turns the wheel runs them.
    """

    def __init__(
        self, *, feed: Callable[[], None] | None = None, executor: Any = None, in_context: bool = False
    ) -> None:
        self.tasks: Bucket[TimerTask] = Bucket()  # in the order of their firing
        self.held: Bucket[TimerTask] = Bucket()  # inline: due at once, for the next turn
        self.feed = feed
        self.executor = executor
        self.in_context = in_context  # its callbacks run in the context in which they were scheduled


class RoutedTask(TimerTask):
    """A task with an executor of its own."""

    __slots__ = ("_queue",)

    _queue: ReadyQueue | None  # None: the timer's default


class PeriodicTask(RoutedTask):
    """A task that is armed again when its callback has returned (R3: its runs never overlap)."""

    __slots__ = ("_base", "_interval", "_missed", "_moved", "_running", "_runs")

    _interval: float  # seconds
    _base: float  # seconds: the runs are due at base + runs * interval
    _runs: int
    _missed: str
    _running: bool  # its callback runs; it is on the core's running list
    _moved: bool  # rescheduled while it ran

    def move_grid(self, start: float) -> None:
        """Count the runs from the one that is due at `start`."""
        self._base = start
        self._runs = 0

    def plan_next(self, now: float) -> None:
        """Set `_when` to the next run's, seen from `now`. No drift: counted from `_base`."""
        if self._missed == "delay":
            self._base = now
            self._runs = 0
        self._runs += 1
        missed = now + 1e-9  # what is due on this tick counts as now (R1)
        if self._missed == "skip" and self._base + self._runs * self._interval <= missed:
            self._runs = int((missed - self._base) / self._interval)
            # Once, or twice: the quotient is rounded.
            while self._base + self._runs * self._interval <= missed:
                self._runs += 1
        self._when = self._base + self._runs * self._interval
