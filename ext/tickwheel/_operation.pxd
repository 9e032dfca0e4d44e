"""DelayedOperation: a task that an event may complete before its timeout does."""
from libc.stdint cimport uint8_t, uint32_t

from tickwheel._task cimport State, TaskOwner, TimerTask
from tickwheel._watchers cimport Watch


cdef enum Fate:
    UNDECIDED
    COMPLETED
    EXPIRED
    DROPPED                     # cancelled, or handed back: it may be watched again


cdef enum Note:                 # for the thread that is inside try_complete
    AGAIN = 1                   # something happened meanwhile: try once more
    FINISH = 2                  # it was decided meanwhile: run on_complete
    MINE = 4                    # by the thread inside itself, not by the timeout


cdef enum Decision:
    LOST                        # it was decided before
    WON                         # the caller runs the finish
    HANDED                      # the thread inside runs the finish


cdef class DelayedOperation(TimerTask):
    cdef uint8_t fate
    cdef uint8_t notes
    cdef uint8_t delayed        # counted as such by its purgatory
    cdef uint32_t leaving       # threads that take it out of lists or timer: until then nobody brings it
    cdef unsigned long inside   # the thread in its try_complete; 0: none
    cdef Keeper keeper          # of the purgatory that has it or had it last
    cdef Watch* watches         # a block of `watch_count`, of which `linked` are on lists; NULL: none is
    cdef uint32_t watch_count
    cdef uint32_t linked


cdef class Keeper:
    """What an operation knows of its purgatory."""
    cdef bint forked(self) noexcept
    cdef int let_go(self, DelayedOperation operation, State left) except -1
    cdef int report(self, DelayedOperation operation, object error) except -1


cdef class Errand:
    """What a thread does when it has returned from the callback that it is in."""
    cdef int carry_out(self) except -1


cdef void begin() noexcept
cdef int end() except -1
cdef bint in_callback() noexcept
cdef int postpone(Errand errand) except -1
cdef int run_errands() except -1

cdef Decision decide(DelayedOperation operation, Fate fate, State left) except *
cdef bint come_in(DelayedOperation operation, Keeper keeper, TaskOwner owner) except -1
cdef bint attempt(DelayedOperation operation) except -1
cdef bint go_inside(DelayedOperation operation) except -1
cdef int try_once(DelayedOperation operation) except -1
cdef bint come_out(DelayedOperation operation, uint8_t* notes) except -1
cdef int finish(DelayedOperation operation) except -1
