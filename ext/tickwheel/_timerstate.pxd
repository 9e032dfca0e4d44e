"""TimerState: what the core of a timer holds, and how a task gets onto one of its lists."""
from libc.stdint cimport INT64_MAX as NEVER, INT64_MIN as UNARMED, int64_t, uint32_t

from tickwheel._bucket cimport Bucket, bucket_append
from tickwheel._histogram cimport HISTOGRAM_SIZE
from tickwheel._levels cimport DUE, NO_MEMORY, Insertion, Levels, levels_insert, tw_rare
from tickwheel._ready cimport ReadyQueue
from tickwheel._runners cimport Runners
from tickwheel._task cimport PENDING, TimerTask
from tickwheel._ticks cimport Grid
from tickwheel._wheel cimport WheelCore


cdef enum Errand:               # what is left to do for a task when the section has been left
    NOTHING
    WAKE                        # the reaper sleeps for something later
    FEED                        # tell the worker
    SUBMIT                      # give the executor a ticket
    REFUSED                     # it was not done: forked, closed, or max_pending reached
    NO_LEVEL                    # it was not done: no memory for the level


cdef class Ticket:
    cdef TimerTask task
    cdef TimerState core
    cdef uint32_t generation


cdef class TimerState(WheelCore):
    cdef bint closed_
    cdef bint exact_clock       # time.monotonic itself: read without a Python call
    cdef bint self_driven       # no reaper: advance_clock turns the wheel
    cdef Grid grid
    cdef double latest          # seconds: the latest reading of a clock that is not time.monotonic
    cdef int64_t armed          # the tick that the reaper sleeps for; UNARMED while it is awake
    cdef int64_t max_pending
    cdef int64_t reserved       # places kept for operations that are not pending yet
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
    cdef Runners runners
    cdef object clock
    cdef object report          # callable(task, exception)
    cdef object wake            # callable: wakes whoever sleeps until something is due; or None
    cdef object on_idle         # callable: no callback runs or waits any more; or None
    cdef object tickets         # a deque: those that their executors have not got yet
    cdef object chores          # a deque: what the next turn is to call first
    cdef readonly ReadyQueue inline
    cdef public ReadyQueue queue     # where tasks without a queue of their own go

    cdef double now(self) except? -1.0
    cdef double steady_time(self) except? -1.0
    cdef ReadyQueue queue_of(self, TimerTask task)
    cdef Errand hand(self, TimerTask task) noexcept
    cdef void hand_over(self, TimerTask task) noexcept
    cdef int carry_out(self, TimerTask task, Errand errand) except -1
    cdef int submit_tickets(self) except -1
    cdef int redeem(self, Ticket ticket) except -1
    cdef int idle_check(self) except -1


cdef inline Errand link(TimerState core, TimerTask task, int64_t deadline) noexcept:
    """In the section: link an unlinked task by its deadline: PENDING. WAKE: the reaper must be woken.
    One that is due already waits for the next turn, so that every turn ends.

    NO_LEVEL: no memory for the level that it needs, nothing changed; cannot be after `levels_reserve`.
    """
    cdef Levels* levels = &core.levels
    cdef int64_t expiration = levels.time
    cdef Insertion insertion
    task.node.deadline = deadline
    insertion = levels_insert(levels, &task.node, &expiration)
    if tw_rare(insertion == NO_MEMORY):
        return NO_LEVEL
    task.state = PENDING
    if tw_rare(insertion == DUE):
        if levels.heap.size > 0 and levels.heap.entries[0].expiration == levels.time:
            # A turn is in the middle of that bucket: behind its tasks, not before them (R2).
            task.node.deadline = levels.time
            bucket_append(levels.heap.entries[0].bucket, &task.node)
        else:
            bucket_append(&core.due, &task.node)
    if tw_rare(expiration < core.armed):
        core.armed = expiration     # so that the next nearer one does not wake it again
        return WAKE
    return NOTHING
