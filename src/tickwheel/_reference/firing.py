"""FiringCore in plain Python: the mirror of `_firing.pyx`."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

from tickwheel._reference.histogram import index_of
from tickwheel._reference.ready import PeriodicTask, ReadyQueue
from tickwheel._reference.scheduling import SchedulingCore
from tickwheel._reference.task import FIRED, PENDING, QUEUED, TimerTask
from tickwheel._reference.ticks import deadline_tick, now_tick
from tickwheel._reference.timerstate import Ticket

BATCH = 1024  # nodes handled in one section

Begun = tuple[Callable[..., object] | None, tuple[Any, ...]]


class FiringCore(SchedulingCore):
    """Hands over what is due, and runs callbacks."""

    def turn(self, now: float) -> int:
        """Hand all that is due at `now` to the executors, and run what is inline.

        Returns how many were handed over (inline: run). A section handles BATCH nodes at most.
        """
        if self.forked:
            return 0
        handed = 0
        wakeups = self._levels.wakeups
        while self._chores:
            self._chores.popleft()()
        with self._lock:
            if self._inside:
                return 0
            self._section(self._take_waiting)
        more = True
        while more:
            with self._lock:
                moved, more, fed = self._section(self._expire, now)
            if fed and self.queue.feed is not None:
                self.queue.feed()
            self._submit_tickets()
            if self._errands:
                self._carry_out()
            ran = self._run(self.inline, self._self_driven)
            handed += moved + ran
            more = not self._closed and (more or ran > 0)
        if self._self_driven and self._levels.wakeups != wakeups:
            self._wakeups += 1
        return handed

    def _take_waiting(self) -> None:
        """In the section: what was due when it was linked has waited for this turn."""
        self.inline.tasks.take_all(self.inline.held)
        self._expired.take_all(self._due)

    def _expire(self, now: float) -> tuple[int, bool, bool]:
        """In the section: queue what is due, BATCH tasks at most. How many were queued for others than
        whoever turns the wheel, whether to call again, and whether there is something for the worker."""
        if self._closed:
            return 0, False, False
        # The tick anew each time: a callback may have changed it.
        left = self._levels.advance(now_tick(now, self._tick), self._expired, BATCH)
        handed = count = 0
        fed = False
        for task in self._expired:
            if count == BATCH:
                break
            count += 1
            task.unlink()
            if task._state is not PENDING:
                continue
            task._state = QUEUED
            task._generation += 1
            queue = self._queue_of(task)
            if queue.executor is not None:
                self._hand_over(task)
                handed += 1
                continue
            queue.tasks.append(task)
            if queue.feed is not None:
                fed = True
                handed += 1
        return handed, left == 0 or bool(self._expired), fed

    def _run(self, queue: ReadyQueue, exits: bool) -> int:
        """Run the tasks of a queue in this thread, one at a time, so that all that has not started
        can still be cancelled, moved or taken back. `exits`: KeyboardInterrupt and SystemExit pass."""
        if not queue.tasks:
            return 0
        thread = threading.get_ident()
        try:
            self._runners.append(thread)
            return self._fire_all(queue, exits)
        finally:
            # The first call here, and in C: no signal handler's exception comes before it.
            self._runners.remove(thread)
            if self.on_idle is not None:
                self._check_idle()

    def _fire_all(self, queue: ReadyQueue, exits: bool) -> int:
        # Not inside the `try` above: CPython 3.13 leaves the jump back of a loop out of it.
        count = 0
        while self._fire_next(queue, exits):
            count += 1
        return count

    def _fire_next(self, queue: ReadyQueue, exits: bool) -> bool:
        """Take the first task of a queue and run it. False: there is none."""
        if not queue.tasks:
            return False
        now = self.now()
        with self._lock:
            try:
                self._inside = True
                task, begun = self._begin_first(queue, now)
                self._leave()
            except BaseException:
                self._recover()
                raise
        if self._errands:
            self._carry_out()
        if begun is None:
            return False
        self._call(task, *begun, exits)
        return True

    def _begin_first(self, queue: ReadyQueue, now: float) -> tuple[TimerTask, Begun | None]:
        """In the section: start the first task of a queue that is still QUEUED, if there is one."""
        begun: Begun | None = None
        while begun is None and (task := queue.tasks.next) is not queue.tasks:
            begun = self._begin(task, now)
        return task, begun

    def redeem(self, ticket: Ticket) -> None:
        """A ticket's call."""
        task = ticket.task
        now = self.now()
        thread = threading.get_ident()
        try:
            self._runners.append(thread)
            with self._lock:
                if task._owner is not self or ticket.is_stale():
                    return
                begun = self._section(self._begin, task, now)
            if self._errands:
                self._carry_out()
            if begun is not None:
                self._call(task, *begun, False)
        finally:
            self._runners.remove(thread)  # as in `_run`
            if self.on_idle is not None:
                self._check_idle()

    def _begin(self, task: TimerTask, now: float) -> Begun | None:
        """In the section: a QUEUED task starts; its callback and arguments. None: it is no longer QUEUED."""
        task.unlink()
        periodic = task if isinstance(task, PeriodicTask) else None
        if task._state is not QUEUED:
            return None
        if periodic is not None:
            task._state = PENDING
            periodic._running = True
            periodic._moved = False
            self._scheduled += 1  # the next run
        else:
            task._state = FIRED
            self._pending -= 1
        callback, args = task._callback, task._args
        if task._state is PENDING:
            self._running.append(task)
        else:
            task._callback = None
            task._args = ()
        late_ns = max(0, int(min((now - task._when) * 1e9, 9.2e18)))
        self._lateness[index_of(late_ns)] += 1
        if late_ns > self._lateness_max:
            self._lateness_max = late_ns
        return callback, args

    def _call(
        self, task: TimerTask, callback: Callable[..., object] | None, args: tuple[Any, ...], exits: bool
    ) -> None:
        """Run a task that has begun. Errors are reported and stop nothing (R8)."""
        try:
            if callback is None:
                task.run()
            else:
                callback(*args)
        except BaseException as error:
            if isinstance(task, PeriodicTask):
                self._rearm(task)
            if exits and isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            with self._lock:
                self._errors += 1
            self.report(task, error)
        else:
            if isinstance(task, PeriodicTask):
                self._rearm(task)

    def _rearm(self, task: PeriodicTask) -> None:
        """A periodic task's callback has returned: on to the next run, unless it was cancelled."""
        now = self.now()
        wake = False
        if self.forked:
            return
        with self._lock:
            if task._owner is not self or not task._running:
                return
            task._running = False
            if task._state is PENDING:
                wake = self._section(self._link_next, task, now)
        if self._errands:
            self._carry_out()
        if wake and self.wake is not None:
            self.wake()

    def _link_next(self, task: PeriodicTask, now: float) -> bool:
        """In the section: a periodic task waits for its next run. True: the reaper must be woken."""
        if not task._moved:
            task.plan_next(now)
        if task.next is not None:
            task.unlink()
        deadline = deadline_tick(task._when, self._tick)
        if task._missed == "burst" and deadline <= self._levels.time:
            task.deadline = deadline
            self._expired.append(task)  # catches up within this turn
            return self._armed != -math.inf
        return self._link(task)
