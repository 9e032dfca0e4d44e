"""PurgatoryFront: what `DelayedOperationPurgatory` inherits, and the core behind it."""
from libc.stdint cimport int64_t

from tickwheel._histogram cimport HISTOGRAM_SIZE
from tickwheel._operation cimport DelayedOperation, Keeper
from tickwheel._task cimport State
from tickwheel._timercore cimport TimerCore
from tickwheel._watchers cimport Watch, Watchers, WatchTable


cdef class PurgatoryCore(Keeper):
    cdef TimerCore timer
    cdef WatchTable table
    cdef bint closed_
    cdef bint purging           # a purge is asked for
    cdef int64_t purge_interval     # -1: completed operations leave at once
    cdef int64_t estimate       # of the operations in the lists, completed ones too
    cdef int64_t waiting        # of those in the lists: undecided
    cdef int64_t delayed        # of these: in the timer
    cdef int64_t fates[4]       # operations, indexed by Fate
    cdef int64_t errors
    cdef int64_t purges
    cdef int64_t purged         # watches
    cdef int64_t lateness_max   # ns
    cdef int64_t lateness[HISTOGRAM_SIZE]

    cdef Watchers* find(self, object key, Py_hash_t hash, bint add) except? NULL
    cdef Watch* resolve(self, DelayedOperation operation, tuple keys) except NULL
    cdef int discard(self, Watch* watches, Py_ssize_t count) except -1
    cdef bint admit(self, DelayedOperation operation) except -1
    cdef bint link(self, DelayedOperation operation, Watch* watches, Py_ssize_t count) except -1
    cdef int delay(self, DelayedOperation operation) except -1
    cdef bint try_and_watch(self, DelayedOperation operation, Watch* watches, Py_ssize_t count) except -1
    cdef bint watch(self, DelayedOperation operation, tuple keys) except -1
    cdef int64_t check_key(self, object key) except -1
    cdef int64_t check_watchers(self, Watchers* watchers, bint outermost) except -1
    cdef list undecided(self, Watchers* watchers)
    cdef int64_t sweep(self) except -1
    cdef list drop(self, list operations, State left)
    cdef void take(self, Watch* watch, Watchers** unused, Watch** gone) noexcept
    cdef int count_lateness(self, DelayedOperation operation) except -1


cdef class PurgatoryFront:
    cdef readonly PurgatoryCore _core
