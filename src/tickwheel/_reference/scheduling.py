"""SchedulingCore in plain Python: the mirror of `_scheduling.pyx`."""

from __future__ import annotations

from collections.abc import Callable

from tickwheel._reference.ready import PeriodicTask
from tickwheel._reference.section import Section
from tickwheel._reference.task import CANCELLED, PENDING, TaskState, TimerTask, is_live
from tickwheel._reference.ticks import now_tick
from tickwheel._reference.timerstate import CLOSED, FORKED, TooManyPending


class SchedulingCore(Section):
    """Start, cancel, reschedule."""

    def start(self, task: TimerTask, now: float, at_once: bool) -> None:
        """Schedule an unlinked task that is the caller's alone, and whose `_when` is set."""
        if self.forked:
            raise RuntimeError(FORKED)
        with self._lock:
            self._check_room()
            errand = self._place(task, now, at_once)
        if errand is not None:
            errand()
        if self._errands:
            self._carry_out()

    def reserve(self) -> None:
        """Keep a place for a task, which is then started by `start_reserved`, or not: `unreserve`."""
        if self.forked:
            raise RuntimeError(FORKED)
        with self._lock:
            self._check_room()
            self._reserved += 1

    def unreserve(self) -> None:
        with self._lock:
            self._reserved -= 1

    def start_reserved(self, task: TimerTask, now: float, at_once: bool) -> None:
        """`start` in the place that was reserved, which is used up, whatever comes of it."""
        with self._lock:
            self._reserved -= 1
            if self._closed:
                raise RuntimeError(CLOSED)
            errand = self._place(task, now, at_once)
        if errand is not None:
            errand()
        if self._errands:
            self._carry_out()

    def _check_room(self) -> None:
        if self._closed:
            raise RuntimeError(CLOSED)
        if self._pending + self._reserved >= self._max_pending:
            raise TooManyPending(f"max_pending is {self._max_pending}, {self._pending} tasks are pending")

    def _place(self, task: TimerTask, now: float, at_once: bool) -> Callable[[], None] | None:
        """In the section: the task becomes pending. Returns what is to be done outside of it."""
        errand: Callable[[], None] | None = None
        self._pending += 1
        self._scheduled += 1
        task._state = PENDING
        task._owner = self
        if self._inside:
            self._unsettled.append((task, at_once))
            return None
        try:
            self._inside = True
            if at_once:
                errand = self._hand(task)
            else:
                if int(now / self._tick) > self._levels.time:
                    self._follow(now)
                if self._link(task):
                    errand = self.wake
            self._leave()
        except BaseException:
            self._recover()
            raise
        return errand

    def _follow(self, now: float) -> None:
        """In the section: move the levels' clock to `now` if nothing is due until then, so that a
        timer that idled does not place what comes next in too coarse a bucket."""
        tick = now_tick(now, self._tick)
        if tick > self._levels.time and not self._due:
            expiration = self._levels.next_expiration()
            if expiration is None or expiration > tick:
                self._levels.set_time(tick)

    def cancel_task(self, task: TimerTask) -> bool:
        return self.withdraw(task, CANCELLED)

    def withdraw(self, task: TimerTask, left: TaskState) -> bool:
        """Take a live task back: CANCELLED, or IDLE, with what it calls."""
        callback: object = None  # released after the section
        args: object = None
        if self.forked:
            return False
        with self._lock:
            if task._owner is not self or not is_live(task):
                return False
            task._state = left
            self._pending -= 1
            if left is CANCELLED:
                self._cancelled += 1
                callback, task._callback = task._callback, None
                args, task._args = task._args, ()
            else:
                self._returned += 1
            if self._inside:
                self._unsettled.append((task, False))
            else:
                try:
                    self._inside = True
                    if task.next is not None:
                        task.unlink()
                    self._leave()
                except BaseException:
                    self._recover()
                    raise
        del callback, args
        if self._errands:
            self._carry_out()
        if self.on_idle is not None:
            self._check_idle()
        return True

    def reschedule_task(self, task: TimerTask, delay: float) -> bool:
        now = self.now()
        errand: Callable[[], None] | None = None
        periodic = task if isinstance(task, PeriodicTask) else None
        with self._lock:
            if self._closed or task._owner is not self or not is_live(task):
                return False
            task._when = now + delay
            if periodic is not None and periodic._running:
                periodic._moved = True
                periodic.move_grid(max(task._when, now))
                return True
            task._state = PENDING
            if self._inside:
                if periodic is not None:
                    periodic.move_grid(max(task._when, now))
                self._unsettled.append((task, delay <= 0))
                return True
            try:
                self._inside = True
                if periodic is not None:
                    periodic.move_grid(max(task._when, now))
                task.unlink()
                if delay <= 0:
                    errand = self._hand(task)
                elif self._link(task):
                    errand = self.wake
                self._leave()
            except BaseException:
                self._recover()
                raise
        if errand is not None:
            errand()
        if self._errands:
            self._carry_out()
        if self.on_idle is not None:
            self._check_idle()
        return True
