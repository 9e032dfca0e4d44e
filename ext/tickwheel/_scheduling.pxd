"""SchedulingCore: how a task comes to a timer, is moved, and is taken back."""
cimport cython

from tickwheel._task cimport State, TimerTask
from tickwheel._timerstate cimport Errand, TimerState


cdef class SchedulingCore(TimerState):
    cdef int start(self, TimerTask task, double now, bint at_once) except -1
    cdef int reserve(self) except -1
    cdef void unreserve(self) noexcept
    cdef int start_reserved(self, TimerTask task, double now, bint at_once) except -1
    cdef int withdraw(self, TimerTask task, State left) except -2

    # Final is what no other file calls: a direct call.

    @cython.final
    cdef Errand place(self, TimerTask task, double now, bint at_once) noexcept

    @cython.final
    cdef int started(self, TimerTask task, Errand errand) except -1

    @cython.final
    cdef void follow(self, double now) noexcept
