"""WheelCore: levels that hold tasks; what `TimingWheel` and the timer's core have in common."""
from libc.stdint cimport int64_t

from tickwheel._bucket cimport Bucket
from tickwheel._levels cimport Levels
from tickwheel._task cimport TaskOwner, TimerTask


cdef class WheelCore(TaskOwner):
    cdef Levels levels
    cdef Bucket due             # PENDING tasks whose tick has come, in the order of their firing
    cdef int64_t pending        # live tasks, on whatever list

    cdef void release(self, TimerTask task) noexcept
    cdef list take_back(self, Bucket* bucket, list tasks)
    cdef list take_back_all(self)
