"""TimerCore: what the floor above asks of a timer: the reaper, the executors, Timer."""
cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport INT64_MAX, int64_t

from tickwheel._bucket cimport Bucket, Node, bucket_init, bucket_is_empty, node_unlink
from tickwheel._firing cimport FiringCore
from tickwheel._histogram cimport HISTOGRAM_SIZE
from tickwheel._levels cimport (
    Levels, levels_advance, levels_free, levels_init, levels_next_expiration, levels_reserve,
)
from tickwheel._ready cimport ReadyQueue
from tickwheel._runners cimport runners_find
from tickwheel._task cimport TimerTask, task_of
from tickwheel._ticks cimport Grid, deadline_tick, now_tick
from tickwheel._timerstate cimport NEVER, REFUSED, UNARMED, WAKE, link
from tickwheel._wheel cimport checked_size

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident() noexcept


@cython.no_gc_clear
@cython.final
cdef class TimerCore(FiringCore):
    """Levels, ready queues and counters of one timer: what the reaper and the tasks know of it."""

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

    cdef int post(self, object chore) except -1:
        """Let the next turn call `chore()` first, which must not raise; soon."""
        self.chores.append(chore)
        return self.carry_out(None, WAKE)

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
            if self.closed_ or self.tickets or self.chores or not (
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
        return self.runners.count == 0 and self.queued == 0

    def in_callback(self):
        """Whether this thread is inside a callback of this timer."""
        if self.forked:
            return False
        with cython.critical_section(self):
            return runners_find(&self.runners, PyThread_get_thread_ident()) >= 0

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
            self.carry_out(None, REFUSED)
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
                    link(self, task, deadline_tick(task.when_, &self.grid))
                self.armed = UNARMED
        if closed:
            self.carry_out(None, REFUSED)
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

    @property
    def buckets(self):
        """Non-empty buckets: the length of the bucket heap."""
        return self.levels.heap.size

    @property
    def cascades(self):
        """Tasks that a coarser wheel has handed down so far."""
        return self.levels.cascades

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
