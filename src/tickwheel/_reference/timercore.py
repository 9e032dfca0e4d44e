"""TimerCore in plain Python: the mirror of `_timercore.pyx`."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

from tickwheel._reference.firing import FiringCore
from tickwheel._reference.levels import Bucket, check_size
from tickwheel._reference.ready import PeriodicTask, ReadyQueue
from tickwheel._reference.task import IDLE, TimerTask, is_live
from tickwheel._reference.ticks import now_tick
from tickwheel._reference.timerstate import CLOSED, FORKED


class TimerCore(FiringCore):
    """Levels, ready queues and counters of one timer: what the reaper and the tasks know of it."""

    @property
    def closed(self) -> bool:
        return self._closed or self.forked

    @property
    def in_child(self) -> bool:
        return self.forked

    def fork(self) -> None:
        """This process is a child of fork: the core is dead here, and its section may be held for ever."""
        self.forked = True

    def attach(self, wake: Callable[[], None] | None, on_idle: Callable[[], None] | None) -> None:
        """Who is to be woken when something nearer comes, and told when no callback runs or waits."""
        self.wake = wake
        self.on_idle = on_idle

    def wake_reaper(self) -> None:
        """End the sleep of whoever turns the wheel, if somebody sleeps."""
        wake = self.wake
        if wake is not None:
            wake()

    def post(self, chore: Callable[[], None]) -> None:
        """Let the next turn call `chore()` first, which must not raise; soon."""
        self._chores.append(chore)
        self.wake_reaper()

    def turn_now(self) -> int:
        """Hand over all that is due now; returns how many tasks were handed over (inline: run)."""
        return self.turn(self.now())

    def run_queue(self, queue: ReadyQueue) -> int:
        """Run what waits in a queue, in this thread; returns how many tasks."""
        return self._run(queue, False)

    def arm(self) -> float | None:
        """When the reaper is to wake, in seconds; inf: when it is woken. None: there is work now.

        Drops the buckets that cancellations emptied: it never wakes for one of them twice.
        """
        now = self.now()
        if self.forked:
            return None
        with self._lock:
            if self._closed or self._tickets or self._chores or any(
                (self._due, self._expired, self.inline.held, self.inline.tasks)
            ):
                return None
            when = self._section(self._arm_next, now)
        if self._errands:
            self._carry_out()
            return None
        return when

    def _arm_next(self, now: float) -> float | None:
        """In the section: when the next bucket expires; inf: there is none. None: it has expired."""
        expiration = self._levels.next_expiration()
        if expiration is None:
            self._armed = math.inf
            return math.inf
        if expiration <= now_tick(now, self._tick):
            return None
        self._armed = expiration
        return expiration * self._tick

    def woke(self) -> None:
        """The reaper is awake: nobody needs to wake it."""
        if self.forked:
            return
        with self._lock:
            self._armed = -math.inf
            self._wakeups += not self._self_driven  # there, `turn` counts

    def in_callback(self) -> bool:
        """Whether this thread is inside a callback of this timer."""
        return not self.forked and threading.get_ident() in self._runners

    def close(self) -> list[TimerTask]:
        """Take no more tasks, and take back all that have not started: IDLE, in the order of their firing."""
        if self.forked:
            return []
        with self._lock:
            self._closed = True
            if self._taken_back or self._inside:
                return []
            self._taken_back = True
            return self._section(self._take_back)

    def _take_back(self) -> list[TimerTask]:
        """In the section: all that have not started."""
        tasks: list[TimerTask] = []
        rest: Bucket[TimerTask] = Bucket()
        for bucket in self._lists():
            rest.take_all(bucket)
        wakeups, cascades = self._levels.wakeups, self._levels.cascades
        self._levels.advance(2**63 - 1, rest, 2**63 - 1)
        self._levels.wakeups, self._levels.cascades = wakeups, cascades
        for task in rest:
            task.unlink()
            if is_live(task):
                task._state = IDLE
                self._pending -= 1
                self._returned += 1
                if isinstance(task, PeriodicTask):
                    task._running = False
                tasks.append(task)
        return tasks

    def reconfigure(self, tick: float, wheel_size: int) -> None:
        """Put all pending tasks into new levels, from their exact `when`s. O(n + buckets)."""
        if self.forked:
            raise RuntimeError(FORKED)
        check_size(wheel_size)
        with self._lock:
            if self._closed:
                raise RuntimeError(CLOSED)
            if self._inside:
                self._wanted = tick, wheel_size
                return
            self._section(self._rebuild, tick, wheel_size)
        if self._errands:
            self._carry_out()

    @property
    def buckets(self) -> int:
        """Non-empty buckets: the length of the bucket heap."""
        return len(self._levels.heap)

    @property
    def cascades(self) -> int:
        """Tasks that a coarser wheel has handed down so far."""
        return self._levels.cascades

    def counts(self) -> tuple[Any, ...]:
        """pending, scheduled, fired, cancelled, errors, wakeups, lateness_max (ns), lateness histogram."""
        if self.forked:
            return 0, 0, 0, 0, 0, 0, 0, []
        with self._lock:
            fired = self._scheduled - self._cancelled - self._returned - self._pending
            return (
                self._pending, self._scheduled, fired, self._cancelled, self._errors, self._wakeups,
                self._lateness_max, list(self._lateness),
            )  # fmt: skip
