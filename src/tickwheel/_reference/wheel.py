"""TimingWheel in plain Python: the mirror of `_wheel.pyx`."""

from __future__ import annotations

import math
import operator
import threading
from typing import NoReturn

from tickwheel._reference.levels import Bucket, Levels
from tickwheel._reference.task import CANCELLED, FIRED, IDLE, TaskOwner, TimerTask, check_task, claim, is_live

BATCH = 1024  # nodes handled at once


class TickCore(TaskOwner):
    """What is behind a `TimingWheel`: its tasks refer to it, so that a wheel can be dropped with them."""

    def __init__(self, wheel_size: int, start_tick: int) -> None:
        self.forked = False
        self.lock = threading.RLock()
        self.levels: Levels[TimerTask] = Levels(wheel_size, start_tick)
        self.due: Bucket[TimerTask] = Bucket()  # PENDING tasks whose tick has come
        self.pending = 0

    def release(self, task: TimerTask) -> None:
        task.unlink()
        self.pending -= 1

    def cancel_task(self, task: TimerTask) -> bool:
        with self.lock:
            if task._owner is not self or not is_live(task):
                return False
            self.release(task)
            task._state = CANCELLED
            gone = task._callback, task._args
            task._callback = None
            task._args = ()
        del gone  # after the section: a destructor may call back
        return True

    def reschedule_task(self, task: TimerTask, delay: float) -> bool:
        raise RuntimeError("a TimingWheel knows ticks: use its reschedule(task, deadline_tick)")

    def take_back_all(self) -> None:
        """All tasks are IDLE again: their wheel is gone."""
        self.levels.advance(2**63 - 1, self.due, 2**63 - 1)
        for task in self.due:
            self.release(task)
            task._state = IDLE


class TimingWheel:
    """A hierarchical timing wheel: `wheel_size` buckets a level, coarser levels made on demand.

    It knows int64 ticks and nothing of clocks: `advance` says what time it is and hands back
    what is due. `Timer` is this with seconds, a thread and callbacks. ValueError: `wheel_size` < 2.

    >>> wheel, task = TimingWheel(), TimerTask(0)
    >>> wheel.add(task, 5), wheel.advance(4), wheel.advance(5) == [task]
    (True, [], True)
    """

    def __init__(self, wheel_size: int = 512, start_tick: int = 0) -> None:
        wheel_size = operator.index(wheel_size)
        if wheel_size < 2:
            raise ValueError(f"wheel_size must be >= 2, got {wheel_size}")
        self._core = TickCore(wheel_size, tick_of("start_tick", start_tick))

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None:
            core.take_back_all()

    @property
    def current_tick(self) -> int:
        """The tick that the wheel has been advanced to."""
        return self._core.levels.time

    def __len__(self) -> int:
        return self._core.pending

    def add(self, task: TimerTask, deadline_tick: int) -> bool:
        """Hold `task` until `deadline_tick`. False: that tick has come, the task was not added.

        O(levels). RuntimeError if the task is pending anywhere.
        """
        core = self._core
        deadline = tick_of("deadline_tick", deadline_tick)
        before = claim(check_task(task))
        with core.lock:
            task._when = math.nan  # a wheel knows no seconds
            task.deadline = deadline
            if core.levels.insert(task) is None:
                task._state = before
                return False
            task._owner = core
            core.pending += 1
        return True

    def cancel(self, task: TimerTask) -> bool:
        """Unlink a pending task. True if this call prevented its expiry. O(1). R3."""
        return self._core.cancel_task(check_task(task))

    def reschedule(self, task: TimerTask, deadline_tick: int) -> bool:
        """Move a pending task to another tick, in place. False if it is not pending here. O(levels). R5.

        If that tick has come, the next `advance` returns the task.
        """
        core = self._core
        deadline = tick_of("deadline_tick", deadline_tick)
        with core.lock:
            if check_task(task)._owner is not core or not is_live(task):
                return False
            task.unlink()
            task.deadline = deadline
            if core.levels.insert(task) is None:
                core.due.append(task)
        return True

    def advance(self, now_tick: int, limit: int | None = None) -> list[TimerTask]:
        """Move the clock to `now_tick` and return what is due, unlinked, in ascending order of ticks.

        At most `limit` tasks: where that many are returned, call again. An earlier `now_tick`
        than the current one changes nothing (R6). Amortised O(levels) a task.
        """
        core = self._core
        now = tick_of("now_tick", now_tick)
        if limit is not None and operator.index(limit) < 0:
            raise ValueError(f"limit must be >= 0, got {limit}")
        tasks: list[TimerTask] = []
        gone: list[object] = []  # released after the section
        more = True
        while more and (limit is None or len(tasks) < limit):
            with core.lock:
                budget = BATCH if limit is None else min(BATCH, limit - len(tasks))
                more = core.levels.advance(now, core.due, budget) == 0
                for task in core.due:
                    if limit is not None and len(tasks) == limit:
                        break
                    core.release(task)
                    task._state = FIRED
                    gone.append((task._callback, task._args))
                    task._callback = None
                    task._args = ()
                    tasks.append(task)
        return tasks

    def next_expiration(self) -> int | None:
        """The tick at which the next non-empty bucket expires, or None. Amortised O(log buckets)."""
        core = self._core
        with core.lock:
            return core.levels.time if core.due else core.levels.next_expiration()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot copy or pickle {self!r}")

    def _check(self) -> None:
        """AssertionError that names the broken invariant (I1-I5)."""
        core = self._core
        with core.lock:
            linked = core.levels.check() + core.due.check()
            assert linked == core.pending, f"I4: the lists hold {linked} tasks, len is {core.pending}"


def tick_of(name: str, value: int) -> int:
    """Whole numbers only."""
    value = operator.index(value)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{name} must fit 64 bits, got {value}")
    return value


