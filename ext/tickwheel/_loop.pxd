"""LoopFront: the timers of an event loop."""
from libc.stdint cimport int64_t

from tickwheel._bucket cimport Bucket, Node
from tickwheel._levels cimport Levels
from tickwheel._ticks cimport Grid
from cpython.object cimport PyObject


cdef class LoopCore:
    cdef Levels levels
    cdef Bucket due             # those of this tick, of the next, and of the past
    cdef double soonest         # no `when` among the due is less
    cdef Bucket expired         # those that are on their way to the caller of `pull`
    cdef bint untracked         # whether some handles may be unknown to the collector
    cdef int64_t pending
    cdef Grid grid
    cdef LoopFront front        # who is to be told of a nearer deadline; None: it looks by itself

    cdef bint link(self, PyObject* handle, double when, double now) noexcept
    cdef void release(self, PyObject* handle) noexcept
    cdef int add(self, PyObject* handle, double when, double now) except -1
    cdef double next(self) noexcept
    cdef list pull(self, double end)
    cdef void expire(self, double end) noexcept
    cdef list take_expired(self)
    cdef int drop_all(self) except -1
    cdef int track_all(self) except -1


cdef int cancel_any(object handle) except -1


cdef class LoopFront:
    cdef LoopCore wheel         # None until there is a timer
    cdef object _loop           # of the handles; None: this one
    # asyncio's own names: what it writes there, this class reads without a Python call.
    cdef public bint _closed
    cdef public bint _debug
    cdef object alarm           # a handle in asyncio's heap: due when the next bucket expires
    cdef public double _armed   # when that is, or when `_arm` was told to wake
    cdef object turn            # asyncio's own _run_once
    cdef bint running           # then it is no garbage, nor is what it holds
    cdef double resolution      # of its clock: seconds
    cdef bint through           # whether call_later goes through call_at: a subclass has its own

    cdef int arm(self, double when) except -1
    cdef int tell(self) except -1
    cdef int collect(self) except -1
    cdef double next(self) noexcept
    cdef object start(self, object when, double now, object callback, tuple args, object context)
