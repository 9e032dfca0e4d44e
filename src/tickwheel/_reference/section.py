"""Section: how threads, destructors and signal handlers share a core's lists (docs/design.md, "Threads").

A method that touches levels, lists or counters does so in the *section*, under an RLock. Destructors and
signal handlers may run at almost any point, also inside this thread's own section, and call back. Such
a nested call

1. finds `_inside` set, and decides by states alone: from reading a task's state to writing it
   there is no call and no backward jump, and between those CPython lets nobody in;
2. leaves the lists to the outer holder, which *settles* the task before it leaves.

Hence the rule for the outer holder: the state says what a task is, the list only where it was put.
A signal handler that raises inside the section tears a list; `_recover` makes it whole from the states.
In the compiled core nobody gets into the section, so this file has no mirror.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from tickwheel._reference.levels import Bucket, Levels
from tickwheel._reference.ready import PeriodicTask
from tickwheel._reference.task import PENDING, TimerTask, is_live
from tickwheel._reference.ticks import LAST_TICK, deadline_tick, now_tick
from tickwheel._reference.timerstate import TimerState

Given = TypeVarTuple("Given")
Answer = TypeVar("Answer")


class Section(TimerState):
    """The steps that every section ends with."""

    def _section(self, step: Callable[[*Given], Answer], *args: *Given) -> Answer:
        """With the lock held, and not inside: take a step, then leave.

        What happens once a task, in `scheduling` and `_fire_next`, says the same in full: a call less.
        """
        try:
            self._inside = True
            answer = step(*args)
            self._leave()
        except BaseException:
            self._recover()
            raise
        return answer

    def _leave(self) -> None:
        """The outer holder's last step: see to what nested calls have left."""
        while self._unsettled or self._wanted is not None:
            if self._wanted is not None:
                (tick, wheel_size), self._wanted = self._wanted, None
                self._rebuild(tick, wheel_size)
                continue
            task, at_once = self._unsettled.popleft()
            if task.next is not None:
                task.unlink()
            if is_live(task) and task._owner is self and not self._closed:
                errand = self._hand(task) if at_once else self.wake if self._link(task) else None
                if errand is not None:
                    self._errands.append(errand)
        self._inside = False

    def _carry_out(self) -> None:
        """Outside the section: what settling has left to do."""
        while self._errands:
            self._errands.popleft()()

    def _rebuild(self, tick: float, wheel_size: int) -> None:
        """In the section: move all tasks to new levels."""
        old = self._levels
        first = min((deadline_tick(task._when, tick) for task in old.nodes()), default=LAST_TICK)
        # From just before the first, so that all are linked and come in the order of their ticks (R2).
        levels: Levels[TimerTask] = Levels(wheel_size, min(now_tick(self.now(), tick), first - 1))
        levels.wakeups, levels.cascades = old.wakeups, old.cascades
        tasks: Bucket[TimerTask] = Bucket()
        old.advance(2**63 - 1, tasks, 2**63 - 1)
        self._levels, self._tick = levels, tick
        for task in tasks:
            task.unlink()
            if is_live(task):
                self._link(task)
        self._alarm()

    def _alarm(self) -> None:
        """In the section: what the reaper sleeps for may be wrong."""
        self._armed = -math.inf
        if self.wake is not None:
            self._errands.append(self.wake)

    def _recover(self) -> None:
        """In the section: an exception has struck in it. Nothing here raises: it was a signal handler's,
        and a list may be torn. Put all live tasks into new lists, as their states say. O(objects).
        """
        for _ in range(100):
            try:
                # A collection's own list knows also those that only a frame of the traceback holds.
                tasks = [
                    each
                    for each in gc.get_objects()
                    if issubclass(type(each), TimerTask)
                    and getattr(each, "_owner", None) is self
                    and is_live(each)
                ]
                tasks.sort(key=lambda task: task._when)
                self._levels.empty()
                for bucket in self._lists():
                    bucket.empty()
                self._unsettled.clear()
                self._pending = len(tasks)
                for task in tasks:
                    task.prev = task.next = None
                    if isinstance(task, PeriodicTask) and task._running:
                        self._running.append(task)
                    elif task._state is PENDING:
                        self._link(task)
                    else:
                        errand = self._hand(task)
                        if errand is not None:
                            self._errands.append(errand)
                self._alarm()
                self._inside = False
                return
            except BaseException:
                continue  # struck again
        raise RuntimeError("the timer could not be made whole: exceptions keep striking")
