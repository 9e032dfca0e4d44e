"""TimerCore: what the reaper, the executors and the tasks know of a timer."""
from libc.stdint cimport int64_t

from tickwheel._bucket cimport Bucket
from tickwheel._histogram cimport HISTOGRAM_SIZE
from tickwheel._ready cimport PeriodicTask, ReadyQueue
from tickwheel._task cimport TimerTask
from tickwheel._ticks cimport Grid
from tickwheel._wheel cimport WheelCore


cdef struct Runner:             # a thread that runs callbacks of this core; lives on that thread's stack
    unsigned long thread
    Runner* next


cdef enum Errand:               # what is left to do for a task when the section has been left
    NOTHING
    WAKE                        # the reaper sleeps for something later
    FEED                        # tell the worker
    SUBMIT                      # give the executor a ticket
    REFUSED                     # it was not done: closed, or max_pending reached
    NO_LEVEL                    # it was not done: no memory for the level


cdef class TimerCore(WheelCore):
    cdef bint closed_
    cdef bint exact_clock       # time.monotonic itself: read without a Python call
    cdef bint self_driven       # no reaper: advance_clock turns the wheel
    cdef Grid grid
    cdef double latest          # seconds: the latest reading of a clock that is not time.monotonic
    cdef int64_t armed          # the tick that the reaper sleeps for; UNARMED while it is awake
    cdef int64_t max_pending
    cdef int64_t queued         # of the pending: QUEUED
    cdef int64_t fired
    cdef int64_t cancelled
    cdef int64_t returned
    cdef int64_t errors
    cdef int64_t wakeups
    cdef int64_t lateness_max   # ns
    cdef int64_t lateness[HISTOGRAM_SIZE]
    cdef Bucket handed          # QUEUED at executors that are not ours
    cdef Bucket expired         # PENDING tasks that this turn has found due, until they are queued
    cdef Bucket running         # PENDING periodic tasks whose callback runs
    cdef Runner* runners
    cdef object clock
    cdef object report          # callable(task, exception)
    cdef object wake            # callable: wakes whoever sleeps until something is due; or None
    cdef object on_idle         # callable: no callback runs or waits any more; or None
    cdef object tickets         # a deque: those that their executors have not got yet
    cdef readonly ReadyQueue inline
    cdef public ReadyQueue queue     # where tasks without a queue of their own go

    cdef double now(self) except? -1.0
    cdef int start(self, TimerTask task, double now, bint at_once) except -1
    cdef Errand link(self, TimerTask task, int64_t deadline) noexcept
    cdef Errand hand(self, TimerTask task) noexcept
    cdef int carry_out(self, TimerTask task, Errand errand) except -1
    cdef void hand_over(self, TimerTask task) noexcept
    cdef int submit_tickets(self) except -1
    cdef int64_t expire(self, double now, bint* more, bint* fed) noexcept
    cdef ReadyQueue queue_of(self, TimerTask task)
    cdef int64_t turn(self, double now) except -1
    cdef int64_t run(self, ReadyQueue queue, bint exits) except -1
    cdef int fire_next(self, ReadyQueue queue, bint exits) except -1
    cdef void begin(self, TimerTask task, double now) noexcept
    cdef int call(self, TimerTask task, object call, bint exits) except -1
    cdef void follow(self, double now) noexcept
    cdef void pending_range(self, double* first, double* last) noexcept
    cdef int rearm(self, PeriodicTask task) except -1
    cdef void enter(self, Runner* runner) noexcept
    cdef int leave(self, Runner* runner) except -1
    cdef int idle_check(self) except -1
