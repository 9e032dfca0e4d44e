"""ReplayKernel: a trace of requests through the wheel in virtual time: see `_replay.pxd`."""
from cpython.array cimport array
from libc.stdint cimport int64_t

from tickwheel._histogram cimport HISTOGRAM_SIZE
from tickwheel._onecall cimport OneCall, int64_of, int64s_of, items_of, longs_of, new_int64s


cdef class ReplayKernel(OneCall):
    """ReplayKernel(tick, timeout, wheel_size=512): requests through the wheel in virtual time.

    All times are int64 in the trace's own unit. Memory is bounded by what is pending and one batch.
    """
    cdef Replay replay
    cdef bint finished

    def __cinit__(self, tick, timeout, wheel_size=512):
        cdef int64_t step = int64_of("tick", tick)
        cdef int64_t wait = int64_of("timeout", timeout)
        cdef int64_t size = int64_of("wheel_size", wheel_size)
        if step < 1:
            raise ValueError(f"tick must be >= 1, got {step}")
        if wait < 0:
            raise ValueError(f"timeout must be >= 0, got {wait}")
        if size < 2:
            raise ValueError(f"wheel_size must be >= 2, got {size}")
        if not replay_init(&self.replay, step, wait, size):
            raise MemoryError(f"no memory for wheel_size {size}")

    def __dealloc__(self):
        replay_free(&self.replay)

    def feed(self, arrivals, completions):
        """Play these requests: (rows, fires) of those that were decided, in that order. A row is a
        request's number from 0; a fire is the time it expired, INT64_MAX for a completed one.
        `arrivals` ascend from call to call; a completion of INT64_MAX never comes. After a
        ValueError nothing has changed."""
        cdef object starts = int64s_of("arrivals", arrivals)
        cdef object ends = int64s_of("completions", completions)
        cdef const int64_t* arrived = items_of(starts)
        cdef const int64_t* completed = items_of(ends)
        cdef int64_t n = len(starts)
        cdef int64_t i = n
        cdef Fault fault
        cdef int64_t last
        if len(ends) != n:
            raise ValueError(f"completions must be as many as arrivals, got {len(ends)} and {n}")
        self.begin()
        try:
            if self.finished:
                raise RuntimeError("the replay has finished")
            with nogil:
                fault = replay_check(&self.replay, arrived, completed, &i)
            if fault != FINE:
                raise ValueError(self.described(fault, i, arrived, completed))
            last = min(arrived[n - 1], self.replay.latest) if n > 0 else self.replay.arrival
            if n > 0 and not replay_reserve(&self.replay, n, last):
                raise MemoryError(f"no memory for {n} more requests")
            with nogil:
                replay_feed(&self.replay, arrived, completed, n, last)
            return self.decided()
        finally:
            self.end()

    def finish(self):
        """Let all that is pending complete or expire: (rows, fires) as from `feed`, which ends here."""
        self.begin()
        try:
            self.finished = True
            with nogil:
                replay_finish(&self.replay)
            return self.decided()
        finally:
            self.end()

    @property
    def completed(self):
        return self.replay.completed

    @property
    def expired(self):
        return self.replay.expired

    @property
    def pending(self):
        return replay_pending(&self.replay)

    @property
    def peak_pending(self):
        """The most that was pending once all events of an instant had happened."""
        return max(self.replay.peak, replay_pending(&self.replay))

    @property
    def wakeups(self):
        """Distinct ticks at which a bucket expired that was not empty."""
        return self.replay.levels.wakeups

    @property
    def cascades(self):
        """Requests put in anew because a coarse bucket expired."""
        return self.replay.levels.cascades

    @property
    def events(self):
        """Arrivals, completions and expiries so far."""
        return self.replay.rows + self.replay.completed + self.replay.expired

    @property
    def lateness_counts(self):
        """How late those that expired did, for `metrics.percentile`."""
        return [self.replay.lateness_counts[i] for i in range(HISTOGRAM_SIZE)]

    @property
    def lateness_max(self):
        return self.replay.lateness_max

    cdef str described(self, Fault fault, int64_t i, const int64_t* arrivals, const int64_t* completions):
        cdef int64_t row = self.replay.rows + i
        if fault == NOT_ASCENDING:
            previous = arrivals[i - 1] if i > 0 else self.replay.arrival
            return f"row {row}: arrivals must ascend, got {arrivals[i]} after {previous}"
        if fault == COMPLETED_BEFORE:
            return f"row {row}: completion must be >= arrival, got {completions[i]} and {arrivals[i]}"
        return (f"row {row}: arrival + timeout, rounded up to a tick, must fit 64 bits, "
                f"got {arrivals[i]} + {self.replay.timeout}")

    cdef tuple decided(self):
        cdef int64_t i, n = self.replay.decision_count
        cdef array rows = new_int64s(n)
        cdef array fires = new_int64s(n)
        cdef int64_t* out_rows = longs_of(rows)
        cdef int64_t* out_fires = longs_of(fires)
        for i in range(n):
            out_rows[i] = self.replay.decisions[i].row
            out_fires[i] = self.replay.decisions[i].fire
        self.replay.decision_count = 0
        return rows, fires
