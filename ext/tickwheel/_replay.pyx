"""ReplayKernel: a trace of requests through the wheel in virtual time: see `_replay.pxd`."""
from cpython.array cimport array
from libc.stdint cimport int64_t

from tickwheel._curve cimport Curve
from tickwheel._histogram cimport HISTOGRAM_SIZE
from tickwheel._onecall cimport OneCall, int64_of, int64s_of, items_of, longs_of, new_int64s


cdef class ReplayKernel(OneCall):
    """ReplayKernel(tick, timeout, wheel_size=512, purge_interval=None): requests through the wheel in
    virtual time.

    All times are int64 in the trace's own unit. A timeout of None: each row brings its own. Memory is
    bounded by what is pending and one batch.
    """
    cdef Replay replay
    cdef bint finished

    def __cinit__(self, tick, timeout, wheel_size=512, purge_interval=None):
        cdef int64_t step = int64_of("tick", tick)
        cdef int64_t wait = -1 if timeout is None else int64_of("timeout", timeout)
        cdef int64_t size = int64_of("wheel_size", wheel_size)
        cdef int64_t most = -1 if purge_interval is None else int64_of("purge_interval", purge_interval)
        if step < 1:
            raise ValueError(f"tick must be >= 1, got {step}")
        if wait < 0 and timeout is not None:
            raise ValueError(f"timeout must be >= 0, got {wait}")
        if size < 2:
            raise ValueError(f"wheel_size must be >= 2, got {size}")
        if most < 0 and purge_interval is not None:
            raise ValueError(f"purge_interval must be >= 0, got {most}")
        if not replay_init(&self.replay, step, wait, size, most):
            raise MemoryError(f"no memory for wheel_size {size}")

    def __dealloc__(self):
        replay_free(&self.replay)

    def feed(self, arrivals, completions, timeouts=None):
        """Play these requests: (rows, fires) of those that were decided, in that order. A row is a
        request's number from 0; a fire is the time it expired, INT64_MAX for a completed one.
        `arrivals` ascend from call to call; a completion of INT64_MAX never comes. `timeouts`: where the
        kernel's own is None. After a ValueError nothing has changed."""
        cdef object starts = int64s_of("arrivals", arrivals)
        cdef object ends = int64s_of("completions", completions)
        cdef object waits = None
        cdef Batch batch
        cdef int64_t row
        cdef Fault fault
        if (timeouts is None) != (self.replay.timeout >= 0):
            raise ValueError("timeouts must be given to a kernel without a timeout, and to no other")
        batch.n = len(starts)
        batch.arrivals = items_of(starts)
        batch.completions = items_of(ends)
        batch.timeouts = NULL
        if len(ends) != batch.n:
            raise ValueError(f"completions must be as many as arrivals, got {len(ends)} and {batch.n}")
        if timeouts is not None:
            waits = int64s_of("timeouts", timeouts)
            batch.timeouts = items_of(waits)
            if len(waits) != batch.n:
                raise ValueError(f"timeouts must be as many as arrivals, got {len(waits)} and {batch.n}")
        self.begin()
        try:
            if self.finished:
                raise RuntimeError("the replay has finished")
            with nogil:
                fault = replay_check(&self.replay, &batch, &row)
            if fault != FINE:
                raise ValueError(self.described(fault, &batch, row))
            if batch.n > 0 and not replay_reserve(&self.replay, &batch):
                raise MemoryError(f"no memory for {batch.n} more requests")
            with nogil:
                replay_feed(&self.replay, &batch)
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
        return max(self.pending_curve[2], default=0)

    @property
    def pending_curve(self):
        """(start, width, peaks): `peaks[i]` is the most that was pending, once all events of an instant had
        happened, at any time from start + i * width until before start + (i + 1) * width. From the first
        arrival to the last event in 256 intervals at most, of the least power of two that does; each
        starts at a multiple of its width. Without requests (0, 1, [])."""
        # A copy: another thread may be in `feed`, and what is read twice must be the same.
        cdef Curve curve = self.replay.curve
        cdef int64_t width = <int64_t>1 << curve.shift
        cdef list peaks = [curve.peaks[i] for i in range(curve.last + 1)]
        if peaks:
            peaks[curve.last] = max(peaks[curve.last], replay_pending(&self.replay))
        return curve.first * width, width, peaks

    @property
    def purges(self):
        """How often more than `purge_interval` of those that had ended were in the watcher lists."""
        return self.replay.purges

    @property
    def purged(self):
        """Requests that the purges took out of the watcher lists."""
        return self.replay.purged

    @property
    def peak_watched(self):
        """The most in the watcher lists right after a request was put there."""
        return self.replay.peak_watched

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

    cdef str described(self, Fault fault, const Batch* batch, int64_t i):
        cdef int64_t row = self.replay.rows + i
        arrival = batch.arrivals[i]
        if fault == NOT_ASCENDING:
            return f"row {row}: arrivals must ascend, got {arrival} after {batch.last_arrival}"
        if fault == COMPLETED_BEFORE:
            return f"row {row}: completion must be >= arrival, got {batch.completions[i]} and {arrival}"
        timeout = batch_timeout(&self.replay, batch, i)
        if fault == NEGATIVE_TIMEOUT:
            return f"row {row}: timeout must be >= 0, got {timeout}"
        return (f"row {row}: arrival + timeout, rounded up to a tick, must fit 64 bits, "
                f"got {arrival} + {timeout}")

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
