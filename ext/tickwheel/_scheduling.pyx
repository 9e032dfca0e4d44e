"""SchedulingCore: how a task comes to a timer, is moved, and is taken back. Called once a task or more."""
cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t

from tickwheel._bucket cimport bucket_is_empty, node_unlink
from tickwheel._check cimport CHECKED
from tickwheel._levels cimport levels_next_expiration, levels_reserve, levels_set_time, tw_rare
from tickwheel._ready cimport PeriodicTask
from tickwheel._task cimport CANCELLED, MOVED, PERIODIC, QUEUED, RUNNING, State, TimerTask
from tickwheel._ticks cimport deadline_tick, estimate, now_tick
from tickwheel._timerstate cimport NO_LEVEL, NOTHING, REFUSED, Errand, TimerState, link
from tickwheel._wheel cimport holds, release


@cython.no_gc_clear
cdef class SchedulingCore(TimerState):
    """Start, cancel, reschedule: in C, without a call that is not direct unless something is rare."""

    cdef int start(self, TimerTask task, double now, bint at_once) except -1:
        """Schedule an unlinked task that is the caller's alone, and whose `when_` is set."""
        cdef Errand errand = REFUSED
        if tw_rare(self.forked):
            self.carry_out(task, REFUSED)
        with cython.critical_section(self):
            if not tw_rare(self.closed_ or self.pending + self.reserved >= self.max_pending):
                errand = self.place(task, now, at_once)
        return self.started(task, errand)

    cdef int reserve(self) except -1:
        """Keep a place for a task, which is then started by `start_reserved`, or not: `unreserve`."""
        cdef bint refused
        if tw_rare(self.forked):
            self.carry_out(None, REFUSED)
        with cython.critical_section(self):
            refused = self.closed_ or self.pending + self.reserved >= self.max_pending
            self.reserved += not refused
        return self.carry_out(None, REFUSED) if refused else 0

    cdef void unreserve(self) noexcept:
        with cython.critical_section(self):
            self.reserved -= 1

    cdef int start_reserved(self, TimerTask task, double now, bint at_once) except -1:
        """`start` in the place that was reserved, which is used up, whatever comes of it."""
        cdef Errand errand = REFUSED
        with cython.critical_section(self):
            self.reserved -= 1
            if not self.closed_:
                errand = self.place(task, now, at_once)
        return self.started(task, errand)

    @cython.final
    cdef Errand place(self, TimerTask task, double now, bint at_once) noexcept:
        """In the section: the task becomes pending, unless the answer is NO_LEVEL."""
        cdef Errand errand
        if tw_rare(at_once):
            errand = self.hand(task)
        else:
            if estimate(now, &self.grid) > self.levels.time:
                self.follow(now)
            errand = link(self, task, deadline_tick(task.when_, &self.grid))
        if errand != NO_LEVEL:
            self.pending += 1
            Py_INCREF(task)     # the list's (I6)
        return errand

    @cython.final
    cdef int started(self, TimerTask task, Errand errand) except -1:
        """Outside the section: what `place` has left to do."""
        if self.pending < CHECKED:
            self.check()
        if tw_rare(errand != NOTHING):
            self.carry_out(task, errand)
        return 0

    cdef void follow(self, double now) noexcept:
        """In the section: move the levels' clock to `now` if nothing is due until then, so that a
        timer that idled does not place what comes next in too coarse a bucket."""
        cdef int64_t tick = now_tick(now, &self.grid)
        cdef int64_t expiration
        if tick > self.levels.time and bucket_is_empty(&self.due) and (
            not levels_next_expiration(&self.levels, &expiration) or expiration > tick
        ):
            levels_set_time(&self.levels, tick)

    cdef int cancel_task(self, TimerTask task) except -2:
        return self.withdraw(task, CANCELLED)

    @cython.final
    cdef int withdraw(self, TimerTask task, State left) except -2:
        """Take a live task back: CANCELLED, or IDLE, with what it calls."""
        cdef object _call = None    # DECREF after the section: a destructor may call back
        cdef int held
        if self.forked:
            return False
        with cython.critical_section(self):
            held = holds(self, task)
            if held != 1:
                return held
            if task.state == QUEUED:
                self.queued -= 1
            release(self, task)
            task.state = left
            task.flags &= ~(RUNNING | MOVED)
            if left == CANCELLED:
                self.cancelled += 1
                _call, task.call = task.call, None
            else:
                self.returned += 1
        Py_DECREF(task)
        if self.pending < CHECKED:
            self.check()
        if tw_rare(self.on_idle is not None):
            self.idle_check()
        return True

    cdef int reschedule_task(self, TimerTask task, double delay) except -2:
        cdef Errand errand = NOTHING
        cdef double now, when
        cdef int64_t deadline
        cdef int held
        if self.forked:
            return False
        now = self.now()
        when = now + delay
        with cython.critical_section(self):
            held = holds(self, task)
            if held != 1:
                return held
            if self.closed_:
                return False
            deadline = deadline_tick(when, &self.grid)
            if tw_rare(not levels_reserve(&self.levels, deadline)):
                errand = NO_LEVEL
            else:
                task.when_ = when
                if task.flags & PERIODIC:
                    (<PeriodicTask>task).move_grid(max(when, now))
                if task.flags & RUNNING:
                    task.flags |= MOVED
                else:
                    if task.state == QUEUED:
                        self.queued -= 1
                    node_unlink(&task.node)
                    errand = self.hand(task) if delay <= 0 else link(self, task, deadline)
        if self.pending < CHECKED:
            self.check()
        if tw_rare(errand != NOTHING):
            self.carry_out(task, errand)
        if tw_rare(self.on_idle is not None):
            self.idle_check()
        return True
