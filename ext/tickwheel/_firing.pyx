"""FiringCore: from a task that is due to a callback that has returned.

`turn` moves what is due into the ready queues; whoever serves a queue (`run`), or holds a ticket (`redeem`),
begins a task in the section and calls its callback outside of it.
"""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int64_t

from tickwheel._bucket cimport bucket_append, bucket_is_empty, bucket_take_all, node_unlink
from tickwheel._check cimport CHECKED
from tickwheel._histogram cimport histogram_add
from tickwheel._levels cimport levels_advance, levels_reserve
from tickwheel._ready cimport BURST, PeriodicTask, ReadyQueue
from tickwheel._runners cimport runners_add, runners_remove
from tickwheel._scheduling cimport SchedulingCore
from tickwheel._task cimport FIRED, MOVED, PENDING, PERIODIC, QUEUED, RUNNING, Call, TimerTask, task_of
from tickwheel._ticks cimport deadline_tick, now_tick
from tickwheel._timerstate cimport NO_LEVEL, NOTHING, UNARMED, WAKE, Errand, Ticket, link

cdef extern from "Python.h":
    PyObject* PyObject_CallNoArgs(PyObject* callable)
    PyObject* PyObject_CallMethodNoArgs(PyObject* object, PyObject* name)
    PyObject* PyObject_Call(PyObject* callable, PyObject* args, PyObject* kwargs)
    unsigned long PyThread_get_thread_ident() noexcept
    int PyErr_CheckSignals() except -1

cdef enum:
    BATCH = 1024                # nodes handled in one section

cdef str RUN = "run"


cdef int propagate() except -1:
    """Raise the error that a C call has set."""
    return -1


@cython.no_gc_clear
cdef class FiringCore(SchedulingCore):
    """Hands over what is due, and runs callbacks."""

    cdef int64_t turn(self, double now) except -1:
        """Hand all that is due at `now` to the executors, and run what is inline.

        Returns how many were handed over (inline: run). A section handles BATCH nodes at most.
        """
        cdef int64_t moved, ran
        cdef int64_t handed = 0
        cdef int64_t wakeups = self.levels.wakeups
        cdef bint more = True
        cdef bint fed
        if self.forked:
            return 0
        while self.chores:
            self.chores.popleft()()
        with cython.critical_section(self):
            if not self.closed_:    # `close` may have emptied the one list and not yet the other
                bucket_take_all(&self.inline.tasks, &self.inline.held)
                bucket_take_all(&self.expired, &self.due)
        while more:
            fed = False
            with cython.critical_section(self):
                moved = 0 if self.closed_ else self.expire(now, &more, &fed)
            if self.pending < CHECKED:
                self.check()
            if fed:
                self.queue.feed()
            if self.tickets:
                self.submit_tickets()
            ran = self.run(self.inline, self.self_driven)
            handed += moved + ran
            more = not self.closed_ and (more or ran > 0)
            if self.self_driven:
                PyErr_CheckSignals()
            with nogil:             # let others in: callbacks in C may never do so
                pass
        with cython.critical_section(self):
            self.wakeups += self.self_driven and self.levels.wakeups != wakeups
        return handed

    cdef int64_t expire(self, double now, bint* more, bint* fed) noexcept:
        """In the section: queue what is due, BATCH tasks at most. `more`: call again; `fed`: there is
        something for the worker. Returns how many were queued for others than whoever turns the wheel."""
        # The tick anew each time: a callback may have changed it.
        cdef int64_t left = levels_advance(&self.levels, now_tick(now, &self.grid), &self.expired, BATCH)
        cdef int64_t handed = 0
        cdef int count = 0
        cdef TimerTask task
        cdef ReadyQueue queue
        while count < BATCH and not bucket_is_empty(&self.expired):
            task = task_of(self.expired.root.next)
            node_unlink(&task.node)
            count += 1
            self.queued += 1
            task.state = QUEUED
            task.generation += 1
            queue = self.queue_of(task)
            if queue.executor is not None:
                self.hand_over(task)
                handed += 1
            else:
                bucket_append(&queue.tasks, &task.node)
                if queue.feed is not None:
                    fed[0] = True
                    handed += 1
        more[0] = left == 0 or not bucket_is_empty(&self.expired)
        return handed

    cdef int64_t run(self, ReadyQueue queue, bint exits) except -1:
        """Run the tasks of a queue in this thread, one at a time, so that all that has not started
        can still be cancelled, moved or taken back. `exits`: KeyboardInterrupt and SystemExit pass."""
        cdef int64_t count = 0
        if bucket_is_empty(&queue.tasks):
            return 0
        self.enter()
        try:
            while self.fire_next(queue, exits):
                count += 1
        finally:
            self.leave()
        return count

    cdef int fire_next(self, ReadyQueue queue, bint exits) except -1:
        """Take the first task of a queue and run it. False: there is none."""
        cdef TimerTask task
        cdef object call
        cdef double now
        if bucket_is_empty(&queue.tasks):
            return False
        now = self.now()
        with cython.critical_section(self):
            if bucket_is_empty(&queue.tasks):
                return False
            task = task_of(queue.tasks.root.next)
            call = task.call
            self.begin(task, now)
        self.call(task, call, exits)
        return True

    cdef int redeem(self, Ticket ticket) except -1:
        cdef TimerTask task = ticket.task
        cdef object call
        cdef double now = self.now()
        self.enter()
        try:
            with cython.critical_section(self):
                if task.owner is not self or task.state != QUEUED or task.generation != ticket.generation:
                    return 0
                call = task.call
                self.begin(task, now)
            self.call(task, call, False)
        finally:
            self.leave()
        return 0

    cdef void begin(self, TimerTask task, double now) noexcept:
        """In the section: a QUEUED task starts. The caller holds what it calls."""
        cdef double late = (now - task.when_) * 1e9
        cdef int64_t late_ns = <int64_t>min(late, 9.2e18) if late > 0 else 0
        node_unlink(&task.node)
        self.queued -= 1
        self.fired += 1
        histogram_add(self.lateness, late_ns)
        if late_ns > self.lateness_max:
            self.lateness_max = late_ns
        if task.flags & PERIODIC:
            task.state = PENDING
            task.flags = (task.flags | RUNNING) & ~MOVED
            bucket_append(&self.running, &task.node)
        else:
            task.state = FIRED
            self.pending -= 1
            task.call = None
            Py_DECREF(task)         # the list's; the caller has its own

    cdef int call(self, TimerTask task, object call, bint exits) except -1:
        """Run a task that has begun. Errors are reported and stop nothing (R8)."""
        cdef PyObject* result
        if call is None:
            result = PyObject_CallMethodNoArgs(<PyObject*>task, <PyObject*>RUN)
        elif type(call) is Call:
            result = PyObject_Call(<PyObject*>(<Call>call).callback, <PyObject*>(<Call>call).args, NULL)
        else:
            result = PyObject_CallNoArgs(<PyObject*>call)
        if result != NULL:
            Py_DECREF(<object>result)
            if task.flags & PERIODIC:
                self.rearm(<PeriodicTask>task)
            return 0
        try:
            propagate()
        except BaseException as error:
            if task.flags & PERIODIC:
                self.rearm(<PeriodicTask>task)
            if exits and isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            with cython.critical_section(self):
                self.errors += 1
            self.report(task, error)
        return 0

    cdef int rearm(self, PeriodicTask task) except -1:
        """A periodic task's callback has returned: on to the next run, unless it was cancelled."""
        cdef double now = self.now()
        cdef Errand errand
        cdef int64_t deadline
        if self.forked:
            return 0
        with cython.critical_section(self):
            if task.owner is not self or not task.flags & RUNNING:
                return 0
            if not task.flags & MOVED:
                task.plan_next(now)
            task.flags &= ~(RUNNING | MOVED)
            deadline = deadline_tick(task.when_, &self.grid)
            # Without memory for its level it stays on the running list: pending, but never due.
            errand = NO_LEVEL
            if levels_reserve(&self.levels, deadline):
                node_unlink(&task.node)
                if task.missed == BURST and deadline <= self.levels.time:
                    task.node.deadline = deadline
                    bucket_append(&self.expired, &task.node)    # catches up within this turn
                    errand = WAKE if self.armed != UNARMED else NOTHING
                else:
                    errand = link(self, task, deadline)
        if errand != NOTHING:
            self.carry_out(task, errand)
        return 0

    # Who runs callbacks --------------------------------------------------------------------

    cdef int enter(self) except -1:
        """This thread runs callbacks from now on, until it leaves."""
        cdef bint entered
        if self.forked:
            return 0
        with cython.critical_section(self):
            entered = runners_add(&self.runners, PyThread_get_thread_ident())
        if not entered:
            raise MemoryError("no memory for one more thread that runs callbacks")
        return 0

    cdef int leave(self) except -1:
        if self.forked:
            return 0
        with cython.critical_section(self):
            runners_remove(&self.runners, PyThread_get_thread_ident())
        if self.on_idle is not None:
            self.idle_check()
        return 0
