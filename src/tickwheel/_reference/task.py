"""TimerTask, the handle, in plain Python: the mirror of `_task.pyx`."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, NoReturn, Self

from tickwheel._reference.levels import Node


class TaskState(enum.StrEnum):
    """Where a task is in its life: a string, so that it compares with one."""

    IDLE = "IDLE"
    PENDING = "PENDING"
    QUEUED = "QUEUED"
    FIRED = "FIRED"
    CANCELLED = "CANCELLED"


IDLE, PENDING, QUEUED, FIRED, CANCELLED = TaskState


class ContextCall:
    """A callback that runs in a context of its own, as those on an event loop do."""

    __slots__ = ("callback", "context")

    def __init__(self, callback: Callable[..., object]) -> None:
        self.callback = callback
        self.context = copy_context()

    def __call__(self, *args: Any) -> object:
        return self.context.run(self.callback, *args)


class TaskOwner:
    """What holds tasks: a `TimingWheel`, or a `TimerCore` behind a `Timer`."""

    forked: bool  # a child of fork: the section may be held by a thread that is gone

    def cancel_task(self, task: TimerTask) -> bool:
        raise NotImplementedError

    def reschedule_task(self, task: TimerTask, delay: float) -> bool:
        raise NotImplementedError


class TimerTask(Node):
    """The handle of one scheduling; with `run()` overridden, the base of your own tasks.

    `TimerTask(delay)`: seconds after `Timer.add`. Subclass instances may be added again
    after they fired or were cancelled. `Timer.schedule` makes handles of this class itself.
    """

    __slots__ = ("_args", "_callback", "_delay", "_generation", "_owner", "_state", "_when")

    _state: TaskState
    _when: float  # seconds on the owner's clock
    _delay: float  # seconds
    _generation: int  # counts the queueings: a ticket of an earlier one is stale
    _owner: TaskOwner | None
    _callback: Callable[..., object] | None
    _args: tuple[Any, ...]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        task = super().__new__(cls)
        task.prev = task.next = None
        task.deadline = 0
        task._owner = None
        task._callback = None
        task._args = ()
        task._delay = task._when = math.nan  # until __init__, until the first scheduling
        task._state = IDLE
        task._generation = 0
        return task

    def __init__(self, delay: float) -> None:
        delay = check_finite(delay, "delay")
        if is_live(self):
            raise RuntimeError(f"the task is already {self._state.lower()}: {self!r}")
        self._delay = delay

    def run(self) -> object:
        """What the task does when it fires: override it. By default, call the callback if there is one."""
        if self._callback is not None:
            self._callback(*self._args)
        return None

    def cancel(self) -> bool:
        """Take the task back. True if this call prevented the firing; at most once. O(1). R3."""
        owner = self._owner
        return owner is not None and not owner.forked and owner.cancel_task(self)

    def reschedule(self, delay: float) -> bool:
        """Let it fire `delay` seconds from now instead, with the same handle. False if it already
        fired or was cancelled. O(1). R5."""
        delay = check_finite(delay, "delay")
        owner = self._owner
        return owner is not None and not owner.forked and owner.reschedule_task(self, delay)

    @property
    def when(self) -> float:
        """The deadline on the timer's clock, in seconds; NaN before the first scheduling."""
        return self._when

    @property
    def state(self) -> TaskState:
        """IDLE, PENDING, QUEUED, FIRED or CANCELLED."""
        if self._owner is not None and self._owner.forked and is_live(self):
            return CANCELLED
        return self._state

    @property
    def callback(self) -> Callable[..., object] | None:
        """What was scheduled; None once fired or cancelled, and for tasks that override run()."""
        callback = self._callback
        return callback.callback if type(callback) is ContextCall else callback

    @property
    def args(self) -> tuple[Any, ...] | None:
        """Its arguments, a tuple; None once fired or cancelled."""
        return None if self._state is FIRED or self._state is CANCELLED else self._args

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot copy or pickle {self!r}: it is linked to others")

    def __repr__(self) -> str:
        when = "" if math.isnan(self._when) else f" when={self._when:.6f}"
        callback = "" if self.callback is None else f" callback={self.callback!r}"
        return f"<{type(self).__name__} {self._state}{when}{callback}>"


def is_live(task: TimerTask) -> bool:
    return task._state is PENDING or task._state is QUEUED


def claim(task: TimerTask) -> TaskState:
    """Make a task that is not live PENDING, though it has no owner until one links it.

    Returns the state before, for undoing it. RuntimeError if the task is live.
    """
    # From the reading to the writing of the state there is no call: nobody comes between.
    before = task._state
    if before is not PENDING and before is not QUEUED:
        task._state = PENDING
        task._owner = None
        return before
    raise RuntimeError(f"the task is already {before.lower()}: {task!r}")


def check_task(task: TimerTask) -> TimerTask:
    if not isinstance(task, TimerTask):
        raise TypeError(f"task must be a TimerTask, got {task!r}")
    return task


def check_finite(value: float, name: str) -> float:
    """The value as a float, read once: its `__float__` is user code. TypeError for what is no number."""
    if type(value) is not float:
        if isinstance(value, str | bytes | bytearray):
            raise TypeError(f"must be real number, not {type(value).__name__}")
        value = float(value)
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")
    return value
