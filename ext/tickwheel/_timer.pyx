"""TimerFront: what `Timer` inherits, so that scheduling is one C call without a Python frame."""
from cpython.object cimport PyObject
from libc.math cimport isfinite

from tickwheel._bucket cimport node_is_linked
from tickwheel._levels cimport tw_rare
from tickwheel._ready cimport PeriodicTask, ReadyQueue, RoutedTask
from tickwheel._task cimport (
    CONSTRUCTED, IDLE, PENDING, PERIODIC, ROUTED, State, TimerTask, call_in_context, call_of, claim,
    unclaim,
)
from tickwheel._timercore cimport TimerCore

cdef extern from "Python.h":
    bint PyCallable_Check(PyObject* callable) noexcept

cdef tuple MISSED = ("skip", "burst", "delay")     # indexed by Missed


cdef inline int check_finite(double value, str name) except -1:
    if tw_rare(not isfinite(value)):
        raise ValueError(f"{name} must be finite, got {value}")
    return 0


cdef inline int check_callable(object callback) except -1:
    if tw_rare(not PyCallable_Check(<PyObject*>callback)):
        raise TypeError(f"callback must be callable, got {callback!r}")
    return 0


cdef inline TimerCore core_of(TimerFront front):
    if tw_rare(front._core is None):
        raise RuntimeError("Timer.__init__ has not been called")
    return front._core


cdef inline object call_for(ReadyQueue queue, object callback, tuple args):
    if tw_rare(queue.in_context):
        return call_in_context(callback, args)
    return call_of(callback, args)


cdef inline TimerTask schedule_once(
    TimerFront front, double seconds, bint from_now, object callback, tuple args, object executor
):
    """A handle that is due in `seconds`, or at them."""
    cdef TimerCore core = core_of(front)
    cdef TimerTask task
    cdef double now
    check_callable(callback)
    if executor is None:
        task = TimerTask.__new__(TimerTask)
        task.call = call_for(core.queue, callback, args)
    else:
        task = front.routed(executor)
        task.call = call_for(core.queue_of(task), callback, args)
    task.owner = core
    now = core.now()
    task.delay = seconds if from_now else seconds - now
    task.when_ = now + seconds if from_now else seconds
    core.start(task, now, task.delay <= 0)
    return task


cdef class TimerFront:
    """The methods of `Timer` that are called once a task: one C function each, no Python frame.

    `Timer` above it provides `_queue_for(executor) -> ReadyQueue`.
    """

    def __init__(self, TimerCore core not None):
        self._core = core

    cdef RoutedTask routed(self, object executor):
        cdef RoutedTask task = RoutedTask.__new__(RoutedTask)
        task.queue = self._queue_for(executor)
        task.flags = ROUTED
        return task

    def schedule(self, double delay, callback, /, *args, executor=None):
        """Call `callback(*args)` once, `delay` seconds from now; returns the handle.

        Never early, and less than a tick late while the reaper gets to run (R1). A delay <= 0 is
        handed to the executor at once (R4). O(levels). ValueError: NaN or infinite. RuntimeError:
        the timer is closed. `TooManyPending`: `max_pending` tasks are.
        """
        check_finite(delay, "delay")
        return schedule_once(self, delay, True, callback, args, executor)

    def schedule_at(self, double when, callback, /, *args, executor=None):
        """The same at `when`, seconds on the timer's clock (`time()`). One that has passed is due at once."""
        check_finite(when, "when")
        return schedule_once(self, when, False, callback, args, executor)

    def schedule_every(self, double interval, callback, /, *args, missed="skip", executor=None):
        """Call `callback(*args)` every `interval` seconds, first in `interval` seconds; returns the handle.

        Runs never overlap and do not drift. `missed` says what becomes of runs whose time passed
        while one was running: "skip" drops them, "burst" makes up for them, "delay" counts the
        interval from the end of the last run.
        """
        cdef TimerCore core = core_of(self)
        cdef PeriodicTask task
        cdef double now
        check_finite(interval, "interval")
        check_callable(callback)
        if interval <= 0:
            raise ValueError(f"interval must be > 0, got {interval:g}")
        if interval < 1e-9:
            raise ValueError(f"interval must be >= 1e-09 (1 ns), got {interval:g}")
        if missed not in MISSED:
            raise ValueError(f"missed must be 'skip', 'burst' or 'delay', got {missed!r}")
        task = PeriodicTask.__new__(PeriodicTask)
        task.flags = ROUTED | PERIODIC
        task.queue = None if executor is None else self._queue_for(executor)
        task.call = call_for(core.queue_of(task), callback, args)
        task.missed = MISSED.index(missed)
        task.interval = interval
        now = core.now()
        task.owner = core
        task.delay = interval
        task.when_ = now + interval
        task.move_grid(task.when_)
        core.start(task, now, False)
        return task

    def add(self, TimerTask task not None):
        """Schedule a task of your own, `task.delay` seconds from now.

        RuntimeError if it is pending anywhere, or is a handle that fired or was cancelled.
        """
        cdef TimerCore core = core_of(self)
        cdef double now
        cdef State before
        if not task.flags & CONSTRUCTED and type(task) not in HANDLES:
            raise RuntimeError(f"{type(task).__name__}.__init__ must call TimerTask.__init__(delay)")
        before = claim(task, core)
        try:
            if before != IDLE and type(task) in HANDLES:
                raise RuntimeError(f"the task has no callback any more: {task!r}")
            now = core.now()
            task.when_ = now + task.delay
            if task.flags & PERIODIC:
                (<PeriodicTask>task).move_grid(task.when_)
            core.start(task, now, task.delay <= 0)
        except BaseException:
            if task.state == PENDING and not node_is_linked(&task.node):
                unclaim(task, before)
            raise

    def time(self):
        """Seconds on the timer's clock."""
        return core_of(self).now()

    def __len__(self):
        cdef TimerCore core = core_of(self)
        return 0 if core.forked else core.pending

    def _check(self):
        """AssertionError that names the broken invariant (I1-I6)."""
        core_of(self).check()


cdef frozenset HANDLES = frozenset({TimerTask, RoutedTask, PeriodicTask})
