"""FiringCore: from a task that is due to a callback that has returned."""
cimport cython
from libc.stdint cimport int64_t

from tickwheel._ready cimport PeriodicTask, ReadyQueue
from tickwheel._scheduling cimport SchedulingCore
from tickwheel._task cimport TimerTask


cdef class FiringCore(SchedulingCore):
    cdef int64_t turn(self, double now) except -1
    cdef int64_t run(self, ReadyQueue queue, bint exits) except -1

    # Final is what no other file calls: a direct call.

    @cython.final
    cdef int64_t expire(self, double now, bint* more, bint* fed) noexcept

    @cython.final
    cdef int fire_next(self, ReadyQueue queue, bint exits) except -1

    @cython.final
    cdef void begin(self, TimerTask task, double now) noexcept

    @cython.final
    cdef int call(self, TimerTask task, object call, bint exits) except -1

    @cython.final
    cdef int rearm(self, PeriodicTask task) except -1

    @cython.final
    cdef int enter(self) except -1

    @cython.final
    cdef int leave(self) except -1
