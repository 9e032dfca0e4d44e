"""`timeout()` for asyncio, at the price of one handle in the wheel as long as it does not fire.

What happens when one does fire is asyncio's own code, of the interpreter that runs.
"""
cimport cython
from cpython.object cimport PyObject
from libc.math cimport INFINITY

from tickwheel._loop cimport LoopFront, cancel_any

from asyncio import current_task, get_running_loop
from asyncio import Timeout as Stock
from contextvars import Context

cdef extern from *:
    """
    #define tw_set_next(type, function) (((PyTypeObject *)(type))->tp_iternext = (function))
    """
    ctypedef PyObject* (*iternextfunc)(PyObject*) except? NULL
    void tw_set_next(PyObject* type, iternextfunc function) noexcept

cdef extern from "Python.h":
    PyObject* PyExc_StopIteration
    void PyErr_SetObject(PyObject* type, PyObject* value) noexcept

cdef enum State:
    CREATED
    ENTERED
    EXPIRING
    EXPIRED
    EXITED

cdef tuple STATES = ("created", "active", "expiring", "expired", "finished")    # asyncio's words
cdef object NOWHERE = Context()     # the callback reads no variable: no need for a copy of its own


@cython.no_gc
@cython.final
cdef class Instant:
    """What `__aenter__` and `__aexit__` return: awaited, it enters its block, if it has one, and is done. No
    coroutine is made and driven for it."""

    cdef Timeout block

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        """`finish`, in its place."""


cdef PyObject* finish(PyObject* instant) except? NULL:
    cdef Timeout block = (<Instant>instant).block
    if block is not None:
        block.enter()
        # In Cython, `raise StopIteration(value)` costs as much as all the rest: it writes a traceback.
        PyErr_SetObject(PyExc_StopIteration, <PyObject*>block)
    return NULL     # with no error set: StopIteration without a value


tw_set_next(<PyObject*>Instant, finish)

cdef Instant DONE = Instant()


@cython.freelist(64)
@cython.final
cdef class Timeout:
    """An `asyncio.Timeout`: what it does, and its methods."""

    cdef object loop            # None until it is entered, or known
    cdef object deadline        # seconds on the loop's clock; None: never
    cdef object task
    cdef object handle
    cdef int cancelling         # the task's cancellation requests on entry
    cdef State state

    def __init__(self, when):
        self.deadline = when

    def when(self):
        """The deadline on the loop's clock; None: there is none."""
        return self.deadline

    def expired(self):
        """Whether the timeout has come while the block ran."""
        return self.state == EXPIRING or self.state == EXPIRED

    def reschedule(self, when):
        """Move the deadline. RuntimeError: the block is not running, or its time has come."""
        if self.state == CREATED:
            raise RuntimeError("Timeout has not been entered")
        if self.state != ENTERED:
            raise RuntimeError(f"Cannot change state of {STATES[self.state]} Timeout")
        self.disarm()
        self.deadline = when
        self.arm()

    cdef int arm(self) except -1:
        if self.deadline is None:
            return 0
        if self.deadline <= self.loop.time():
            self.handle = self.loop.call_soon(expire, self)
        elif isinstance(self.loop, LoopFront) and not (<LoopFront>self.loop).through:
            self.handle = (<LoopFront>self.loop).start(
                self.deadline, -INFINITY, expire, (self,), NOWHERE
            )
        else:
            self.handle = self.loop.call_at(self.deadline, expire, self)
        return 0

    cdef int disarm(self) except -1:
        cdef object handle
        handle, self.handle = self.handle, None
        if handle is not None:
            cancel_any(handle)
        return 0

    def __aenter__(self):
        cdef Instant entry = Instant.__new__(Instant)
        entry.block = self
        return entry

    cdef int enter(self) except -1:
        cdef object task
        if self.state != CREATED:
            raise RuntimeError("Timeout has already been entered")
        task = current_task()
        if task is None:
            raise RuntimeError("Timeout should be used inside a task")
        if self.loop is None:
            self.loop = get_running_loop()
        self.state = ENTERED
        self.task = task
        self.cancelling = task.cancelling()
        self.arm()
        return 0

    def __aexit__(self, kind, error, trace):
        self.disarm()
        if self.state == ENTERED:
            self.state = EXITED
            return DONE
        self.state = EXPIRED
        return self.as_stock().__aexit__(kind, error, trace)

    cdef object as_stock(self):
        """asyncio's own, in the same state: its time has come."""
        stock = Stock(self.deadline)
        stock._state = type(stock._state).EXPIRING
        stock._task = self.task
        stock._cancelling = self.cancelling
        return stock

    def __repr__(self):
        when = None if self.deadline is None else round(self.deadline, 3)
        info = f" when={when}" if self.state == ENTERED else ""
        return f"<Timeout [{STATES[self.state]}]{info}>"


def expire(Timeout block not None):
    """Its time has come: the task is cancelled."""
    block.task.cancel()
    block.state = EXPIRING
    block.handle = None


def timeout(delay):
    """`asyncio.timeout(delay)`: let the block run for `delay` seconds at most; None: as long as it takes."""
    cdef Timeout block = Timeout.__new__(Timeout)
    block.loop = get_running_loop()
    if delay is not None:
        block.deadline = block.loop.time() + delay
    return block


def timeout_at(when):
    """`asyncio.timeout_at(when)`: the same until `when` on the loop's clock."""
    return Timeout(when)
