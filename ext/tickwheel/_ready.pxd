"""Ready queues, and the tasks that know more than a `TimerTask`: a queue of their own, a period."""
from libc.stdint cimport int64_t

from tickwheel._bucket cimport Bucket
from tickwheel._task cimport TimerTask

cdef class ReadyQueue:
    cdef Bucket tasks           # QUEUED, in the order of their firing
    cdef Bucket held            # inline: due at once, for the next turn
    cdef public object feed     # a worker's: called outside the section when tasks have come
    cdef readonly object executor    # an executor that is not ours; its tasks wait on core.handed
    cdef bint in_context        # its callbacks run in the context in which they were scheduled
    cdef object __weakref__


cdef class RoutedTask(TimerTask):
    cdef ReadyQueue queue       # None: the timer's default


cdef class PeriodicTask(RoutedTask):
    cdef double interval        # seconds
    cdef double base            # seconds: the runs are due at base + runs * interval
    cdef int64_t runs
    cdef int missed

    cdef void move_grid(self, double start) noexcept
    cdef void plan_next(self, double now) noexcept


cdef enum Missed:               # what becomes of runs whose time passed while one was running
    SKIP
    BURST
    DELAY
