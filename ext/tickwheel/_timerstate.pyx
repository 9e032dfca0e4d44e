"""TimerState: what the core of a timer holds, and how a task gets onto one of its lists.

Rules that every function of the timer's core obeys (docs/design.md, "Threads"):

1. Levels, lists, counters, and a task's state, node and `when_` are touched only in the section of
   the core. Inside it nothing runs that could release the GIL or call user code.
2. What a section takes out of a task is kept in a local: it is released after the section.
3. `forked` is read before a section is entered: in a child nobody will ever leave it.
"""
cimport cython
from libc.math cimport INFINITY, isfinite
from libc.stdint cimport int64_t

from tickwheel._bucket cimport bucket_append, bucket_init
from tickwheel._check cimport levels_check, list_check
from tickwheel._ready cimport ReadyQueue, RoutedTask
from tickwheel._runners cimport runners_free
from tickwheel._task cimport QUEUED, ROUTED, TimerTask
from tickwheel._ticks cimport Grid, tw_monotonic
from tickwheel._wheel cimport WheelCore

from collections import deque


class TooManyPending(RuntimeError):
    """`max_pending` tasks are pending: this one was not scheduled, and nothing changed."""


@cython.no_gc
@cython.final
cdef class Ticket:
    """What an executor that is not ours is handed: run this task, if it still waits for this run."""

    def __call__(self):
        self.core.redeem(self)

    def __repr__(self):
        return f"<Ticket for {self.task!r}>"


@cython.no_gc_clear
cdef class TimerState(WheelCore):
    """Levels, lists, clock and counters of one timer, and who is to be told of what."""

    def __cinit__(self, *, wheel_size, start_tick, double tick, clock, bint exact_clock,
                  bint self_driven, max_pending, report):
        bucket_init(&self.handed)
        bucket_init(&self.running)
        bucket_init(&self.expired)
        self.tickets = deque()
        self.chores = deque()
        self.grid = Grid(tick, 1.0 / tick)
        self.latest = -INFINITY
        self.armed = UNARMED
        self.max_pending = NEVER if max_pending is None else min(max_pending, NEVER)
        self.exact_clock = exact_clock
        self.self_driven = self_driven
        self.clock = clock
        self.report = report
        self.inline = ReadyQueue()
        self.queue = self.inline

    def __dealloc__(self):
        runners_free(&self.runners)

    # Time ----------------------------------------------------------------------------------

    cdef double now(self) except? -1.0:
        """Seconds on the timer's clock."""
        return tw_monotonic() if self.exact_clock else self.steady_time()

    cdef double steady_time(self) except? -1.0:
        """The clock's reading. Never less than before (R6)."""
        cdef double reading = self.clock.time()
        if self.forked:
            return reading
        if not isfinite(reading):
            raise ValueError(f"the clock's time() must be finite, got {reading}")
        with cython.critical_section(self):
            if reading > self.latest:
                self.latest = reading
            return self.latest

    # Linking -------------------------------------------------------------------------------

    cdef ReadyQueue queue_of(self, TimerTask task):
        cdef ReadyQueue queue = (<RoutedTask>task).queue if task.flags & ROUTED else None
        if queue is None:
            return self.queue
        # "inline" is this timer's, also for a task that another one returned.
        return queue if queue.executor is not None else self.inline

    cdef Errand hand(self, TimerTask task) noexcept:
        """In the section: a live, unlinked task becomes QUEUED."""
        cdef ReadyQueue queue = self.queue_of(task)
        task.state = QUEUED
        task.generation += 1
        self.queued += 1
        if queue.executor is not None:
            self.hand_over(task)
            return SUBMIT
        if queue.feed is not None:
            bucket_append(&queue.tasks, &task.node)
            return FEED
        bucket_append(&queue.held, &task.node)
        if self.armed == UNARMED:
            return NOTHING
        self.armed = UNARMED
        return WAKE

    cdef int carry_out(self, TimerTask task, Errand errand) except -1:
        """Outside the section: what is left to do, or the error that there was."""
        if errand == REFUSED:
            if self.forked:
                raise RuntimeError(
                    "this timer was made before fork() and is stopped in the child: make a new one"
                )
            if self.closed_:
                raise RuntimeError("the timer is closed")
            raise TooManyPending(f"max_pending is {self.max_pending}, {self.pending} tasks are pending")
        if errand == NO_LEVEL:
            raise MemoryError("no memory for a coarser wheel")
        if errand == WAKE:
            with cython.critical_section(self):
                wake = self.wake
            if wake is not None:    # who waited in advance_clock may have gone meanwhile
                wake()
        elif errand == FEED:
            self.queue_of(task).feed()
        elif errand == SUBMIT:
            self.submit_tickets()
        return 0

    cdef void hand_over(self, TimerTask task) noexcept:
        """In the section: a QUEUED task waits at an executor that is not ours, which will get a ticket."""
        cdef Ticket ticket = Ticket.__new__(Ticket)
        ticket.task = task
        ticket.core = self
        ticket.generation = task.generation
        bucket_append(&self.handed, &task.node)
        self.tickets.append(ticket)

    cdef int submit_tickets(self) except -1:
        """Hand the tickets to their executors. One that raises (what it may not) gets its own again later."""
        cdef Ticket ticket
        while self.tickets:
            try:
                ticket = self.tickets.popleft()
            except IndexError:      # another thread was faster
                return 0
            if ticket.task.state != QUEUED or ticket.task.generation != ticket.generation:
                continue
            try:
                self.queue_of(ticket.task).executor.submit(ticket)
            except BaseException:
                self.tickets.appendleft(ticket)
                raise
        return 0

    cdef int redeem(self, Ticket ticket) except -1:
        """A ticket's call: the floor that fires tasks has it."""
        raise NotImplementedError

    # Wholeness -----------------------------------------------------------------------------

    cdef int idle_check(self) except -1:
        """Tell who waits for it if no callback runs or waits."""
        cdef object on_idle
        with cython.critical_section(self):
            on_idle = self.on_idle
        if on_idle is not None and self.runners.count == 0 and self.queued == 0:
            on_idle()
        return 0

    def check(self):
        """AssertionError that names the broken invariant (I1-I6)."""
        cdef int64_t linked = 0
        cdef int64_t pending
        cdef const char* broken
        with cython.critical_section(self):
            broken = levels_check(&self.levels, &linked)
            if broken == NULL:
                broken = list_check(&self.due, &linked)
            if broken == NULL:
                broken = list_check(&self.expired, &linked)
            if broken == NULL:
                broken = list_check(&self.handed, &linked)
            if broken == NULL:
                broken = list_check(&self.running, &linked)
            if broken == NULL:
                broken = list_check(&self.inline.tasks, &linked)
            if broken == NULL:
                broken = list_check(&self.inline.held, &linked)
            if broken == NULL and self.queue is not self.inline:
                broken = list_check(&self.queue.tasks, &linked)
            pending = self.pending
        if broken != NULL:
            raise AssertionError(broken.decode())
        if linked != pending:
            raise AssertionError(f"I4: the lists hold {linked} tasks, len is {pending}")
