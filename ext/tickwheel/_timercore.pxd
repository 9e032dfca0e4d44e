"""TimerCore: what the floor above asks of a timer: the reaper, the executors, Timer."""
from tickwheel._firing cimport FiringCore


cdef class TimerCore(FiringCore):
    cdef int post(self, object chore) except -1
    cdef void pending_range(self, double* first, double* last) noexcept
