"""TimerCore: levels, ready queues and counters of one timer.

Rules that every function here obeys (docs/design.md, "Threads"):

1. Levels, lists, counters, and a task's state, node and `when_` are touched only in the section of
   the core. Inside it nothing runs that could release the GIL or call user code.
2. What a section takes out of a task is kept in a local: it is released after the section.
3. `forked` is read before a section is entered: in a child nobody will ever leave it.
"""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.math cimport INFINITY, isfinite
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint32_t

from tickwheel._bucket cimport (
    Bucket, Node, bucket_append, bucket_init, bucket_is_empty, bucket_take_all, node_unlink,
)
from tickwheel._check cimport CHECKED, levels_check, list_check
from tickwheel._histogram cimport HISTOGRAM_SIZE, histogram_add
from tickwheel._levels cimport (
    DUE, NO_MEMORY, Insertion, Levels, levels_advance, levels_free, levels_init, levels_insert,
    levels_next_expiration, levels_reserve, levels_set_time, tw_rare,
)
from tickwheel._ready cimport BURST, PeriodicTask, ReadyQueue, RoutedTask
from tickwheel._task cimport (
    CANCELLED, ELSEWHERE, FIRED, MOVED, PENDING, PERIODIC, QUEUED, ROUTED, RUNNING, Call, TimerTask,
    is_linked, task_of,
)
from tickwheel._ticks cimport Grid, deadline_tick, estimate, now_tick, tw_monotonic
from tickwheel._wheel cimport WheelCore, checked_size, release

from collections import deque

cdef extern from "Python.h":
    PyObject* PyObject_CallNoArgs(PyObject* callable)
    PyObject* PyObject_CallMethodNoArgs(PyObject* object, PyObject* name)
    PyObject* PyObject_Call(PyObject* callable, PyObject* args, PyObject* kwargs)
    unsigned long PyThread_get_thread_ident() noexcept
    int PyErr_CheckSignals() except -1

cdef enum:
    BATCH = 1024                # nodes handled in one section

cdef int64_t UNARMED = INT64_MIN
cdef int64_t NEVER = INT64_MAX
cdef str RUN = "run"
cdef str FORKED = "this timer was made before fork() and is stopped in the child: make a new one"


class TooManyPending(RuntimeError):
    """`max_pending` tasks are pending: this one was not scheduled, and nothing changed."""


cdef int propagate() except -1:
    """Raise the error that a C call has set."""
    return -1


@cython.no_gc
@cython.final
cdef class Ticket:
    """What an executor that is not ours is handed: run this task, if it still waits for this run."""

    cdef TimerTask task
    cdef TimerCore core
    cdef uint32_t generation

    def __call__(self):
        cdef TimerCore core = self.core
        cdef TimerTask task = self.task
        cdef object call
        cdef Runner runner
        cdef double now = core.now()
        core.enter(&runner)
        try:
            with cython.critical_section(core):
                if task.owner is not core or task.state != QUEUED or task.generation != self.generation:
                    return
                call = task.call
                core.begin(task, now)
            core.call(task, call, False)
        finally:
            core.leave(&runner)

    def __repr__(self):
        return f"<Ticket for {self.task!r}>"


@cython.no_gc_clear
@cython.final
cdef class TimerCore(WheelCore):
    """Levels, ready queues and counters of one timer: what the reaper and the tasks know of it."""

    def __cinit__(self, *, wheel_size, start_tick, double tick, clock, bint exact_clock,
                  bint self_driven, max_pending, report):
        bucket_init(&self.handed)
        bucket_init(&self.running)
        bucket_init(&self.expired)
        self.tickets = deque()
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

    # Time ----------------------------------------------------------------------------------

    cdef double now(self) except? -1.0:
        """Seconds on the timer's clock. Never less than before (R6)."""
        cdef double reading
        if self.exact_clock:
            return tw_monotonic()
        reading = self.clock.time()
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

    cdef Errand link(self, TimerTask task, int64_t deadline) noexcept:
        """In the section: link an unlinked task by its deadline: PENDING. WAKE: the reaper must be woken.
        One that is due already waits for the next turn, so that every turn ends.

        NO_LEVEL: no memory for the level that it needs, nothing changed; cannot be after `levels_reserve`.
        """
        cdef Levels* levels = &self.levels
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
                bucket_append(&self.due, &task.node)
        if tw_rare(expiration < self.armed):
            self.armed = expiration     # so that the next nearer one does not wake it again
            return WAKE
        return NOTHING

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

    cdef int start(self, TimerTask task, double now, bint at_once) except -1:
        """Schedule an unlinked task that is the caller's alone, and whose `when_` is set."""
        cdef Errand errand = REFUSED
        if tw_rare(self.forked):
            raise RuntimeError(FORKED)
        with cython.critical_section(self):
            if not tw_rare(self.closed_ or self.pending >= self.max_pending):
                if tw_rare(at_once):
                    errand = self.hand(task)
                else:
                    if estimate(now, &self.grid) > self.levels.time:
                        self.follow(now)
                    errand = self.link(task, deadline_tick(task.when_, &self.grid))
                if errand != NO_LEVEL:
                    self.pending += 1
                    Py_INCREF(task)     # the list's (I6)
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
        cdef object _call    # DECREF after the section: a destructor may call back
        if self.forked:
            return False
        with cython.critical_section(self):
            if task.owner is not self:
                return ELSEWHERE
            if not is_linked(task):
                return False
            if task.state == QUEUED:
                self.queued -= 1
            release(self, task)
            self.cancelled += 1
            task.state = CANCELLED
            task.flags &= ~(RUNNING | MOVED)
            _call, task.call = task.call, None
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
        if self.forked:
            return False
        now = self.now()
        when = now + delay
        with cython.critical_section(self):
            if task.owner is not self:
                return ELSEWHERE
            if self.closed_ or not is_linked(task):
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
                    errand = self.hand(task) if delay <= 0 else self.link(task, deadline)
        if self.pending < CHECKED:
            self.check()
        if tw_rare(errand != NOTHING):
            self.carry_out(task, errand)
        if tw_rare(self.on_idle is not None):
            self.idle_check()
        return True

    # Firing --------------------------------------------------------------------------------

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
        cdef Runner runner
        cdef int64_t count = 0
        if bucket_is_empty(&queue.tasks):
            return 0
        self.enter(&runner)
        try:
            while self.fire_next(queue, exits):
                count += 1
        finally:
            self.leave(&runner)
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
                    errand = self.link(task, deadline)
        if errand != NOTHING:
            self.carry_out(task, errand)
        return 0

    cdef void enter(self, Runner* runner) noexcept:
        runner.thread = PyThread_get_thread_ident()
        if self.forked:
            return
        with cython.critical_section(self):
            runner.next = self.runners
            self.runners = runner

    cdef int leave(self, Runner* runner) except -1:
        cdef Runner** link
        if self.forked:
            return 0
        with cython.critical_section(self):
            link = &self.runners
            while link[0] != runner:
                link = &link[0].next
            link[0] = runner.next
        if self.on_idle is not None:
            self.idle_check()
        return 0

    cdef int idle_check(self) except -1:
        cdef object on_idle
        with cython.critical_section(self):
            on_idle = self.on_idle
        if on_idle is not None and self.runners == NULL and self.queued == 0:
            on_idle()
        return 0

    # For the floor above: the reaper, the executors, Timer ------------------------------------

    @property
    def closed(self):
        return self.closed_ or self.forked

    @property
    def in_child(self):
        return self.forked

    def fork(self):
        """This process is a child of fork: the core is dead here, and nothing of it is released."""
        self.forked = True

    def attach(self, wake, on_idle):
        """Who is to be woken when something nearer comes, and told when no callback runs or waits."""
        cdef object _before     # DECREF after the section
        with cython.critical_section(self):
            _before = self.wake, self.on_idle
            self.wake = wake
            self.on_idle = on_idle

    def wake_reaper(self):
        """End the sleep of whoever turns the wheel, if somebody sleeps."""
        self.carry_out(None, WAKE)

    def turn_now(self):
        """Hand over all that is due now; returns how many tasks were handed over (inline: run)."""
        return self.turn(self.now())

    def run_queue(self, ReadyQueue queue not None):
        """Run what waits in a queue, in this thread; returns how many tasks."""
        return self.run(queue, False)

    def arm(self):
        """When the reaper is to wake, in seconds; inf: when it is woken. None: there is work now.

        Drops the buckets that cancellations emptied: it never wakes for one of them twice.
        """
        cdef int64_t expiration
        cdef double now = self.now()
        if self.forked:
            return None
        with cython.critical_section(self):
            if self.closed_ or self.tickets or not (
                bucket_is_empty(&self.due) and bucket_is_empty(&self.expired)
                and bucket_is_empty(&self.inline.held) and bucket_is_empty(&self.inline.tasks)
            ):
                return None
            if not levels_next_expiration(&self.levels, &expiration):
                self.armed = NEVER
                return INFINITY
            if expiration <= now_tick(now, &self.grid):
                return None
            self.armed = expiration
            return expiration * self.grid.tick

    def woke(self):
        """The reaper is awake: nobody needs to wake it."""
        if self.forked:
            return
        with cython.critical_section(self):
            self.armed = UNARMED
            self.wakeups += not self.self_driven    # there, `turn` counts

    def idle(self):
        """Whether no callback of this timer runs or waits in a queue."""
        return self.runners == NULL and self.queued == 0

    def in_callback(self):
        """Whether this thread is inside a callback of this timer."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        cdef Runner* runner
        if self.forked:
            return False
        with cython.critical_section(self):
            runner = self.runners
            while runner != NULL:
                if runner.thread == thread:
                    return True
                runner = runner.next
        return False

    def close(self):
        """Take no more tasks, and take back all that have not started: IDLE, in the order of their firing."""
        cdef list tasks = []
        if self.forked:
            return tasks
        with cython.critical_section(self):
            if self.closed_:
                return tasks
            self.closed_ = True
        self.take_back(&self.inline.tasks, tasks)
        self.take_back(&self.inline.held, tasks)
        self.take_back(&self.queue.tasks, tasks)
        self.take_back(&self.handed, tasks)
        self.take_back(&self.running, tasks)
        self.take_back(&self.expired, tasks)
        self.take_back(&self.due, tasks)
        tasks += self.take_back_all()
        with cython.critical_section(self):
            self.queued = 0
            self.returned += len(tasks)
        return tasks

    def reconfigure(self, double tick, wheel_size):
        """Put all pending tasks into new levels, from their exact `when`s. O(n + buckets)."""
        cdef Levels old, fresh
        cdef Bucket tasks
        cdef TimerTask task
        cdef Grid grid = Grid(tick, 1.0 / tick)
        cdef double now = self.now()
        cdef double first = now
        cdef double last = now
        cdef int64_t size = checked_size(wheel_size)
        cdef int64_t start
        cdef bint closed
        cdef bint memory = False
        if self.forked:
            raise RuntimeError(FORKED)
        bucket_init(&tasks)
        with cython.critical_section(self):
            closed = self.closed_
            self.pending_range(&first, &last)
            # From just before the first, so that all are linked and come in the order of their ticks (R2).
            start = min(now_tick(now, &grid), deadline_tick(first, &grid) - 1)
            if not closed and levels_init(&fresh, size, start):
                memory = levels_reserve(&fresh, deadline_tick(last, &grid))
                if not memory:
                    levels_free(&fresh)
            if memory:
                old = self.levels
                fresh.wakeups = old.wakeups
                fresh.cascades = old.cascades
                self.levels = fresh
                self.grid = grid
                levels_advance(&old, INT64_MAX, &tasks, INT64_MAX)
                levels_free(&old)
                while not bucket_is_empty(&tasks):
                    task = task_of(tasks.root.next)
                    node_unlink(&task.node)
                    self.link(task, deadline_tick(task.when_, &self.grid))
                self.armed = UNARMED
        if closed:
            raise RuntimeError("the timer is closed")
        if not memory:
            raise MemoryError(f"no memory for a wheel of {wheel_size} buckets")
        self.carry_out(None, WAKE)

    cdef void pending_range(self, double* first, double* last) noexcept:
        """In the section: widen the range by the `when`s in the levels. O(n + buckets)."""
        cdef Bucket* bucket
        cdef Node* node
        cdef int64_t slot
        cdef int i
        for i in range(self.levels.count):
            for slot in range(self.levels.wheel_size):
                bucket = &self.levels.level[i].buckets[slot]
                node = bucket.root.next
                while node != &bucket.root:
                    first[0] = min(first[0], task_of(node).when_)
                    last[0] = max(last[0], task_of(node).when_)
                    node = node.next

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

    def counts(self):
        """pending, scheduled, fired, cancelled, errors, wakeups, lateness_max (ns), lateness histogram."""
        cdef list lateness
        cdef Py_ssize_t i
        if self.forked:
            return 0, 0, 0, 0, 0, 0, 0, []
        lateness = [self.lateness[i] for i in range(HISTOGRAM_SIZE)]
        with cython.critical_section(self):
            return (
                self.pending, self.fired + self.cancelled + self.returned + self.pending, self.fired,
                self.cancelled, self.errors, self.wakeups, self.lateness_max, lateness,
            )
