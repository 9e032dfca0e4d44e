"""TimerTask: the handle of one scheduling. See `_task.pxd` for its layout."""
cimport cython
from libc.math cimport NAN, isfinite

import enum


class TaskState(enum.StrEnum):
    """Where a task is in its life: a string, so that it compares with one."""

    IDLE = "IDLE"
    PENDING = "PENDING"
    QUEUED = "QUEUED"
    FIRED = "FIRED"
    CANCELLED = "CANCELLED"


cdef tuple STATES = tuple(TaskState)        # indexed by State


cdef class TaskOwner:
    """What holds tasks: a `TimingWheel`, or a `TimerCore` behind a `Timer`."""

    cdef int cancel_task(self, TimerTask task) except -2:
        raise NotImplementedError

    cdef int reschedule_task(self, TimerTask task, double delay) except -2:
        raise NotImplementedError


# Tasks are not tracked by the garbage collector: 1.5 to 3 times faster, at the price that a cycle
# through a pending task lives until it fires or is cancelled, which drop its references (R10).
# A Python subclass is tracked again.
@cython.no_gc
@cython.freelist(256)
cdef class TimerTask:
    """The handle of one scheduling; with `run()` overridden, the base of your own tasks.

    `TimerTask(delay)`: seconds after `Timer.add`. Subclass instances may be added again
    after they fired or were cancelled. `Timer.schedule` makes handles of this class itself.
    """

    def __init__(self, double delay):
        if not isfinite(delay):
            raise ValueError(f"delay must be finite, got {delay}")
        if is_live(self):
            raise RuntimeError(f"the task is already {STATES[self.state].lower()}: {self!r}")
        self.delay = delay
        self.flags |= CONSTRUCTED

    def run(self):
        """What the task does when it fires: override it. By default, call the callback if there is one."""
        cdef object callback = self.callback_
        cdef object args = self.args_
        if callback is not None:
            if args is None:
                callback()
            else:
                callback(*args)

    def cancel(self):
        """Take the task back. True if this call prevented the firing; at most once. O(1). R3."""
        cdef int answer = ELSEWHERE
        cdef TaskOwner owner
        while answer == ELSEWHERE:
            owner = owner_of(self)
            if owner is None or owner.forked:
                return False
            answer = owner.cancel_task(self)
        return answer == 1

    def reschedule(self, double delay):
        """Let it fire `delay` seconds from now instead, with the same handle. False if it already
        fired or was cancelled. O(1). R5."""
        cdef int answer = ELSEWHERE
        cdef TaskOwner owner
        if not isfinite(delay):
            raise ValueError(f"delay must be finite, got {delay}")
        while answer == ELSEWHERE:
            owner = owner_of(self)
            if owner is None or owner.forked:
                return False
            answer = owner.reschedule_task(self, delay)
        return answer == 1

    @property
    def when(self):
        """The deadline on the timer's clock, in seconds; NaN before the first scheduling."""
        return self.when_ if self.owner is not None else NAN

    @property
    def state(self):
        """A `TaskState`: IDLE, PENDING, QUEUED, FIRED or CANCELLED."""
        cdef TaskOwner owner = owner_of(self)
        if owner is not None and owner.forked and is_live(self):
            return STATES[CANCELLED]
        return STATES[self.state]

    @property
    def callback(self):
        """What was scheduled; None once fired or cancelled, and for tasks that override run()."""
        return self.callback_

    @property
    def args(self):
        """Its arguments, a tuple; None once fired or cancelled."""
        if self.state == FIRED or self.state == CANCELLED:
            return None
        return () if self.args_ is None else self.args_

    def __repr__(self):
        when = f" when={self.when_:.6f}" if self.owner is not None else ""
        callback = f" callback={self.callback_!r}" if self.callback_ is not None else ""
        return f"<{type(self).__name__} {STATES[self.state]}{when}{callback}>"


cdef State claim(TimerTask task, TaskOwner owner) except *:
    """Make `owner` the owner of a task that is not live, and the task PENDING, though not linked yet.

    Returns the state before, for `unclaim`. RuntimeError if the task is live, or a handle
    whose callback is gone. Of two threads that claim one task, one gets it.
    """
    cdef State before
    cdef TaskOwner _last = owner        # DECREF after the section
    with cython.critical_section(task):
        before = <State>task.state
        if before != PENDING and before != QUEUED:
            _last = task.owner
            task.owner = owner
            task.state = PENDING
    if before == PENDING or before == QUEUED:
        raise RuntimeError(f"the task is already {STATES[before].lower()}: {task!r}")
    return before


cdef void unclaim(TimerTask task, State before) noexcept:
    """Undo `claim`: the task was not linked."""
    task.state = before
