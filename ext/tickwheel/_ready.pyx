"""Ready queues, and the tasks that know more than a `TimerTask`: see `_ready.pxd`."""
cimport cython
from libc.stdint cimport int64_t

from tickwheel._bucket cimport bucket_init
from tickwheel._task cimport TimerTask


@cython.no_gc_clear
@cython.final
cdef class ReadyQueue:
    """QUEUED tasks on their way to one executor.

    With neither `feed` nor `executor` it is inline: whoever turns the wheel runs them.
    """

    def __cinit__(self, *, feed=None, executor=None, bint in_context=False):
        bucket_init(&self.tasks)
        bucket_init(&self.held)
        self.feed = feed
        self.executor = executor
        self.in_context = in_context


@cython.no_gc
cdef class RoutedTask(TimerTask):
    """A task with an executor of its own."""


@cython.no_gc
@cython.final
cdef class PeriodicTask(RoutedTask):
    """A task that is armed again when its callback has returned (R3: its runs never overlap)."""

    cdef void move_grid(self, double start) noexcept:
        """Count the runs from the one that is due at `start`."""
        self.base = start
        self.runs = 0

    cdef void plan_next(self, double now) noexcept:
        """Set `when_` to the next run's, seen from `now`. No drift: counted from `base`."""
        cdef double missed = now + 1e-9     # what is due on this tick counts as now (R1)
        if self.missed == DELAY:
            self.base = now
            self.runs = 0
        self.runs += 1
        if self.missed == SKIP and self.base + self.runs * self.interval <= missed:
            self.runs = <int64_t>((missed - self.base) / self.interval)
            while self.base + self.runs * self.interval <= missed:  # once, or twice: the quotient is rounded
                self.runs += 1
        self.when_ = self.base + self.runs * self.interval
