"""TimerTask, the handle, and what a task knows of the wheel or timer that holds it."""
cimport cython
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t

from tickwheel._bucket cimport Node, node_is_linked

cdef extern from "Python.h":
    object PyContext_CopyCurrent()


cdef enum State:
    IDLE
    PENDING
    QUEUED
    FIRED
    CANCELLED


cdef enum Flag:
    CONSTRUCTED = 1             # __init__ has run: `delay` is set
    ROUTED = 2                  # a RoutedTask: it has a ready queue of its own
    PERIODIC = 4                # a PeriodicTask
    RUNNING = 8                 # periodic: its callback runs, the node is on the core's running list
    MOVED = 16                  # periodic: rescheduled while it ran


cdef class TimerTask:
    # 80 bytes, in the order in which a firing touches them.
    cdef Node node
    cdef uint32_t generation    # counts the queueings: a ticket of an earlier one is stale
    cdef uint8_t state
    cdef uint8_t flags
    cdef TaskOwner owner        # replaced only while the task is not live
    cdef object call            # None: run() is called; a `Call`: with arguments; else the callback
    cdef double when_           # seconds on the owner's clock
    cdef double delay           # seconds


cdef class Call:
    cdef object callback
    cdef tuple args


cdef class ContextCall(Call):
    cdef object context         # contextvars: the callback runs in it


cdef inline object call_of(object callback, tuple args):
    """What a task keeps of `callback(*args)`."""
    cdef Call call
    if PyTuple_GET_SIZE(args) == 0 and not isinstance(callback, Call):
        return callback
    call = Call.__new__(Call)
    call.callback = callback
    call.args = args
    return call


cdef inline object call_in_context(object callback, tuple args):
    """The same, for a call in a copy of the current context."""
    cdef ContextCall call = ContextCall.__new__(ContextCall)
    call.callback = callback
    call.args = args
    call.context = PyContext_CopyCurrent()
    return call


cdef class TaskOwner:
    cdef bint forked            # a child of fork: the section may be held by a thread that is gone
    cdef int cancel_task(self, TimerTask task) except -2
    cdef int reschedule_task(self, TimerTask task, double delay) except -2


cdef enum:
    ELSEWHERE = -1              # answer of both: the task has another owner by now


cdef inline bint is_live(TimerTask task) noexcept:
    return task.state == PENDING or task.state == QUEUED


cdef inline bint is_linked(TimerTask task) noexcept:
    """Live, and on a list: not only claimed."""
    return is_live(task) and node_is_linked(&task.node)


cdef inline TimerTask task_of(Node* node):
    # TimerTask has no virtual methods: its first member follows the object's head.
    return <TimerTask><PyObject*>(<char*>node - sizeof(PyObject))


cdef inline TaskOwner owner_of(TimerTask task):
    """The owner, read under the task's own section: `claim` may be replacing it."""
    with cython.critical_section(task):
        return task.owner


cdef int construct(TimerTask task, double delay, str name) except -1
cdef State claim(TimerTask task, TaskOwner owner) except *
cdef void unclaim(TimerTask task, State before) noexcept
