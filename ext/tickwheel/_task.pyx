"""TimerTask: the handle of one scheduling. See `_task.pxd` for its layout."""
cimport cython
from cpython.object cimport PyObject, PyTypeObject
from libc.math cimport NAN, isfinite
from libc.string cimport memset

from tickwheel._slab cimport Slabs, slabs_give, slabs_take

import enum

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define TW_GIL 0        /* memory must be the interpreter's: others may still read what was freed */
    #else
    #define TW_GIL 1
    #endif
    static void tw_set_memory(PyTypeObject *type, allocfunc allocate, freefunc release) {
        type->tp_alloc = allocate;
        type->tp_free = release;
    }
    """
    const bint GIL "TW_GIL"
    ctypedef PyObject* (*allocfunc)(PyTypeObject*, Py_ssize_t) noexcept
    ctypedef void (*freefunc)(void*) noexcept
    void tw_set_memory(PyTypeObject* type, allocfunc allocate, freefunc release) noexcept

cdef extern from "Python.h":
    PyObject* PyType_GenericAlloc(PyTypeObject* type, Py_ssize_t items)
    PyObject* PyObject_Init(void* memory, PyTypeObject* type)
    PyTypeObject* Py_TYPE(PyObject* object)
    PyObject* PyErr_NoMemory()
    void PyObject_Free(void* memory)


class TaskState(enum.StrEnum):
    """Where a task is in its life: a string, so that it compares with one."""

    IDLE = "IDLE"
    PENDING = "PENDING"
    QUEUED = "QUEUED"
    FIRED = "FIRED"
    CANCELLED = "CANCELLED"


cdef tuple STATES = tuple(TaskState)        # indexed by State


@cython.no_gc
cdef class Call:
    """A callback with arguments, in one place: most tasks have none, and are 8 bytes smaller for it."""

    def __call__(self):
        return self.callback(*self.args)


@cython.no_gc
@cython.final
cdef class ContextCall(Call):
    """A callback that runs in a context of its own, as those on an event loop do."""

    def __call__(self):
        return self.context.run(self.callback, *self.args)


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
cdef class TimerTask:
    """The handle of one scheduling; with `run()` overridden, the base of your own tasks.

    `TimerTask(delay)`: seconds after `Timer.add`. Subclass instances may be added again
    after they fired or were cancelled. `Timer.schedule` makes handles of this class itself.
    """

    def __init__(self, double delay):
        construct(self, delay, "delay")

    def run(self):
        """What the task does when it fires: override it. By default, call the callback if there is one."""
        cdef object call = call_in(self)
        if call is not None:
            call()

    def cancel(self):
        """Take the task back. True if this call prevented the firing; at most once. O(1). R3."""
        cdef int answer = ELSEWHERE
        cdef TaskOwner owner
        if GIL:     # nobody replaces the owner meanwhile
            return self.owner is not None and self.owner.cancel_task(self) == 1
        while answer == ELSEWHERE:
            owner = owner_of(self)
            if owner is None:
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
            if owner is None:
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
        cdef object call = call_in(self)
        return (<Call>call).callback if isinstance(call, Call) else call

    @property
    def args(self):
        """Its arguments, a tuple; None once fired or cancelled."""
        if self.state == FIRED or self.state == CANCELLED:
            return None
        cdef object call = call_in(self)
        return (<Call>call).args if isinstance(call, Call) else ()

    def __repr__(self):
        when = f" when={self.when_:.6f}" if self.owner is not None else ""
        cdef object call = call_in(self)
        cdef object what = (<Call>call).callback if isinstance(call, Call) else call
        callback = f" callback={what!r}" if what is not None else ""
        return f"<{type(self).__name__} {STATES[self.state]}{when}{callback}>"


cdef int construct(TimerTask task, double delay, str name) except -1:
    """What `__init__` does; `name` is its argument's."""
    if not isfinite(delay):
        raise ValueError(f"{name} must be finite, got {delay}")
    if is_live(task):
        raise RuntimeError(f"the task is already {STATES[task.state].lower()}: {task!r}")
    task.delay = delay
    task.flags |= CONSTRUCTED
    return 0


cdef object call_in(TimerTask task):
    """What the task calls, read in its owner's section: it may be fired or cancelled meanwhile."""
    cdef TaskOwner owner = owner_of(task)
    if owner is None or owner.forked:
        return task.call
    with cython.critical_section(owner):
        return task.call


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


# Memory --------------------------------------------------------------------------------------

cdef Slabs slabs
slabs.roomy = NULL
slabs.spare = NULL
slabs.count = 0
slabs.size = (<PyTypeObject*>TimerTask).tp_basicsize


cdef enum:
    TASK_WORDS = 10             # of 8 bytes: a constant, so that clearing them is a few stores


cdef PyObject* task_allocate(PyTypeObject* type, Py_ssize_t items) noexcept:
    """`tp_alloc`: handles come from slabs, subclasses from Python's allocator."""
    cdef void* memory
    if type != <PyTypeObject*>TimerTask:
        return PyType_GenericAlloc(type, items)
    memory = slabs_take(&slabs)
    if memory == NULL:
        return PyErr_NoMemory()
    memset(memory, 0, TASK_WORDS * 8)
    return PyObject_Init(memory, type)


cdef void task_free(void* task) noexcept:
    """`tp_free`."""
    if Py_TYPE(<PyObject*>task) == <PyTypeObject*>TimerTask:
        slabs_give(&slabs, task)
    else:
        PyObject_Free(task)


if GIL and slabs.size == TASK_WORDS * 8:
    tw_set_memory(<PyTypeObject*>TimerTask, task_allocate, task_free)
