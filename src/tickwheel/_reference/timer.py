"""TimerFront in plain Python: the mirror of `_timer.pyx`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tickwheel._reference.ready import PeriodicTask, ReadyQueue, RoutedTask
from tickwheel._reference.task import (
    IDLE,
    PENDING,
    ContextCall,
    TimerTask,
    check_finite,
    check_task,
    claim,
)
from tickwheel._reference.timercore import TimerCore

MISSED = ("skip", "burst", "delay")
HANDLES = (TimerTask, RoutedTask, PeriodicTask)


class TimerFront:
    """The methods of `Timer` that are called once a task.

    `Timer` above it provides `_queue_for(executor) -> ReadyQueue`.
    """

    _queue_for: Callable[[Any], ReadyQueue]

    def __init__(self, core: TimerCore) -> None:
        self._core = core

    def _schedule_once(
        self,
        seconds: float,
        from_now: bool,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        executor: Any,
    ) -> TimerTask:
        """A handle that is due in `seconds`, or at them."""
        if not callable(callback):
            raise TypeError(f"callback must be callable, got {callback!r}")
        if executor is not None:
            routed = RoutedTask.__new__(RoutedTask)
            routed._queue = self._queue_for(executor)
            task: TimerTask = routed
        else:  # by hand: two calls less
            task = object.__new__(TimerTask)
            task.prev = task.next = None
            task._state = IDLE
            task._generation = 0
        core = self._core
        task._callback = callback
        task._args = args
        if core._queue_of(task).in_context:
            task._callback = ContextCall(callback)
        now = core.now()
        if from_now:
            delay, when = seconds, now + seconds
        else:
            delay, when = seconds - now, seconds
        task._delay = delay
        task._when = when
        core.start(task, now, delay <= 0)
        return task

    def schedule(
        self, delay: float, callback: Callable[..., object], /, *args: Any, executor: Any = None
    ) -> TimerTask:
        """Call `callback(*args)` once, `delay` seconds from now; returns the handle.

        Never early, and less than a tick late while the reaper gets to run (R1). A delay <= 0 is
        handed to the executor at once (R4). O(levels). ValueError: NaN or infinite. RuntimeError:
        the timer is closed. `TooManyPending`: `max_pending` tasks are.
        """
        return self._schedule_once(check_finite(delay, "delay"), True, callback, args, executor)

    def schedule_at(
        self, when: float, callback: Callable[..., object], /, *args: Any, executor: Any = None
    ) -> TimerTask:
        """The same at `when`, seconds on the timer's clock (`time()`). One that has passed is due at once."""
        return self._schedule_once(check_finite(when, "when"), False, callback, args, executor)

    def schedule_every(
        self,
        interval: float,
        callback: Callable[..., object],
        /,
        *args: Any,
        missed: str = "skip",
        executor: Any = None,
    ) -> TimerTask:
        """Call `callback(*args)` every `interval` seconds, first in `interval` seconds; returns the handle.

        Runs never overlap and do not drift. `missed` says what becomes of runs whose time passed
        while one was running: "skip" drops them, "burst" makes up for them, "delay" counts the
        interval from the end of the last run.
        """
        interval = check_finite(interval, "interval")
        if not callable(callback):
            raise TypeError(f"callback must be callable, got {callback!r}")
        if interval <= 0:
            raise ValueError(f"interval must be > 0, got {interval:g}")
        if interval < 1e-9:
            raise ValueError(f"interval must be >= 1e-09 (1 ns), got {interval:g}")
        if missed not in MISSED:
            raise ValueError(f"missed must be 'skip', 'burst' or 'delay', got {missed!r}")
        task = PeriodicTask.__new__(PeriodicTask)
        task._delay = interval
        task._queue = None if executor is None else self._queue_for(executor)
        task._callback = ContextCall(callback) if self._core._queue_of(task).in_context else callback
        task._args = args
        task._missed = missed
        task._interval = interval
        task._running = task._moved = False
        now = self._core.now()
        task._when = now + interval
        task.move_grid(task._when)
        self._core.start(task, now, False)
        return task

    def add(self, task: TimerTask) -> None:
        """Schedule a task of your own, `task.delay` seconds from now.

        RuntimeError if it is pending anywhere, or is a handle that fired or was cancelled.
        """
        core = self._core
        if math.isnan(check_task(task)._delay):
            raise RuntimeError(f"{type(task).__name__}.__init__ must call TimerTask.__init__(delay)")
        before = claim(task)
        try:
            if before is not IDLE and type(task) in HANDLES:
                raise RuntimeError(f"the task has no callback any more: {task!r}")
            now = core.now()
            task._when = now + task._delay
            if isinstance(task, PeriodicTask):
                task.move_grid(task._when)
            core.start(task, now, task._delay <= 0)
        except BaseException:
            if task._state is PENDING and not task.is_linked():
                task._state = before
            raise

    def time(self) -> float:
        """Seconds on the timer's clock."""
        return self._core.now()

    def __len__(self) -> int:
        return 0 if self._core.forked else self._core._pending

    def _check(self) -> None:
        """AssertionError that names the broken invariant (I1-I5)."""
        self._core.check()
