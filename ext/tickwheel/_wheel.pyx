"""TimingWheel: tasks on a hierarchy of wheels, in ticks. No clock, no thread, no callback."""
cimport cython
from cpython.number cimport PyNumber_Index
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.math cimport NAN
from libc.stdint cimport INT64_MAX, int64_t

from tickwheel._bucket cimport (
    Bucket, bucket_append, bucket_init, bucket_is_empty, node_unlink,
)
from tickwheel._check cimport CHECKED, levels_check, list_check
from tickwheel._levels cimport (
    DUE, INSERTED, NO_MEMORY, Insertion, levels_advance, levels_free, levels_init,
    levels_insert, levels_next_expiration,
)
from tickwheel._task cimport (
    CANCELLED, FIRED, IDLE, MOVED, RUNNING, State, TaskOwner, TimerTask, claim, owner_of, task_of, unclaim,
)

cdef enum:
    BATCH = 1024                # nodes handled in one section


cdef int64_t tick_of(str name, object value) except? -1:
    """Whole numbers only: a C argument would cut a float."""
    value = PyNumber_Index(value)
    if not -2**63 <= value < 2**63:
        raise ValueError(f"{name} must fit 64 bits, got {value}")
    return value


cdef int64_t checked_size(object wheel_size) except -1:
    wheel_size = PyNumber_Index(wheel_size)
    if wheel_size < 2:
        raise ValueError(f"wheel_size must be >= 2, got {wheel_size}")
    if wheel_size > INT64_MAX // 128:
        raise MemoryError(f"no memory for a wheel of {wheel_size} buckets")
    return wheel_size


cdef class WheelCore(TaskOwner):
    """Levels that hold tasks. Each linked task holds a reference to its core, and the core one to
    it (I6): whoever stands in front of the core calls `take_back_all` when it goes."""

    def __cinit__(self, *, wheel_size, start_tick, **_):
        cdef int64_t start = tick_of("start_tick", start_tick)
        bucket_init(&self.due)
        if not levels_init(&self.levels, checked_size(wheel_size), start):
            raise MemoryError(f"no memory for a wheel of {wheel_size} buckets")

    def __dealloc__(self):
        levels_free(&self.levels)

    cdef list take_back(self, Bucket* bucket, list tasks):
        """Move the tasks of a list to `tasks`: IDLE again, with all that they hold. O(n)."""
        cdef TimerTask task
        cdef bint more = True
        while more:
            task = None
            with cython.critical_section(self):
                more = not bucket_is_empty(bucket)
                if more:
                    task = task_of(bucket.root.next)
                    release(self, task)
                    task.state = IDLE
                    task.flags &= ~(RUNNING | MOVED)
            if more:
                tasks.append(task)
                Py_DECREF(task)
        return tasks

    cdef list take_back_all(self):
        """All tasks of the levels, in the order of their deadlines. O(n levels)."""
        cdef int64_t wakeups = self.levels.wakeups
        cdef int64_t cascades = self.levels.cascades
        cdef list tasks = []
        cdef bint more = True
        while more:
            with cython.critical_section(self):
                more = levels_advance(&self.levels, INT64_MAX, &self.due, BATCH) == 0
            self.take_back(&self.due, tasks)
        self.levels.wakeups = wakeups
        self.levels.cascades = cascades
        return tasks


@cython.final
cdef class TickCore(WheelCore):
    """The core behind a `TimingWheel`."""

    cdef int cancel_task(self, TimerTask task) except -2:
        cdef object _call   # DECREF after the section: a destructor may call back
        cdef int held
        if self.forked:
            return False
        with cython.critical_section(self):
            held = holds(self, task)
            if held != 1:
                return held
            release(self, task)
            task.state = CANCELLED
            _call, task.call = task.call, None
        Py_DECREF(task)
        return True

    cdef TimerTask expire(self):
        """Take the first task that is due off its list: FIRED. None: there is none."""
        cdef TimerTask task = None
        with cython.critical_section(self):
            if not bucket_is_empty(&self.due):
                task = task_of(self.due.root.next)
                release(self, task)
                task.state = FIRED
        if task is not None:
            Py_DECREF(task)
        return task

    cdef int reschedule_task(self, TimerTask task, double delay) except -2:
        raise RuntimeError("a TimingWheel knows ticks: use its reschedule(task, deadline_tick)")

    cdef int move(self, TimerTask task, int64_t deadline_tick) except -2:
        cdef int64_t expiration
        cdef int64_t before
        cdef Insertion insertion
        with cython.critical_section(self):
            if holds(self, task) != 1:
                return False
            before = task.node.deadline
            node_unlink(&task.node)
            task.node.deadline = deadline_tick
            insertion = levels_insert(&self.levels, &task.node, &expiration)
            if insertion == DUE:
                bucket_append(&self.due, &task.node)
            elif insertion == NO_MEMORY:
                task.node.deadline = before
                if levels_insert(&self.levels, &task.node, &expiration) == DUE:
                    bucket_append(&self.due, &task.node)
        if insertion == NO_MEMORY:
            raise MemoryError("no memory for a coarser wheel")
        return True


@cython.no_gc
cdef class TimingWheel:
    """A hierarchical timing wheel: `wheel_size` buckets a level, coarser levels made on demand.

    It knows int64 ticks and nothing of clocks: `advance` says what time it is and hands back
    what is due. `Timer` is this with seconds, a thread and callbacks. ValueError: `wheel_size` < 2.

    >>> wheel, task = TimingWheel(), TimerTask(0)
    >>> wheel.add(task, 5), wheel.advance(4), wheel.advance(5) == [task]
    (True, [], True)
    """

    cdef TickCore core

    def __cinit__(self, wheel_size=512, start_tick=0):
        self.core = TickCore(wheel_size=wheel_size, start_tick=start_tick)

    def __dealloc__(self):
        if self.core is not None:
            self.core.take_back_all()

    @property
    def current_tick(self):
        """The tick that the wheel has been advanced to."""
        return self.core.levels.time

    def __len__(self):
        return self.core.pending

    def add(self, TimerTask task not None, deadline_tick):
        """Hold `task` until `deadline_tick`. False: that tick has come, the task was not added.

        O(levels). RuntimeError if the task is pending anywhere.
        """
        cdef TickCore core = self.core
        cdef Insertion insertion
        cdef int64_t expiration
        cdef int64_t deadline = tick_of("deadline_tick", deadline_tick)
        cdef State before = claim(task, core)
        with cython.critical_section(core):
            task.when_ = NAN        # a wheel knows no seconds
            task.node.deadline = deadline
            insertion = levels_insert(&core.levels, &task.node, &expiration)
            if insertion == INSERTED:
                core.pending += 1
                Py_INCREF(task)
            else:
                unclaim(task, before)
        if core.pending < CHECKED:
            self._check()
        if insertion == NO_MEMORY:
            raise MemoryError("no memory for a coarser wheel")
        return insertion == INSERTED

    def cancel(self, TimerTask task not None):
        """Unlink a pending task. True if this call prevented its expiry. O(1). R3."""
        return owner_of(task) is self.core and self.core.cancel_task(task) == 1

    def reschedule(self, TimerTask task not None, deadline_tick):
        """Move a pending task to another tick, in place. False if it is not pending here. O(levels). R5.

        If that tick has come, the next `advance` returns the task.
        """
        return self.core.move(task, tick_of("deadline_tick", deadline_tick)) == 1

    def advance(self, now_tick, limit=None):
        """Move the clock to `now_tick` and return what is due, unlinked, in ascending order of ticks.

        At most `limit` tasks: where that many are returned, call again. An earlier `now_tick`
        than the current one changes nothing (R6). Amortised O(levels) a task.
        """
        cdef TickCore core = self.core
        cdef list tasks = []
        cdef int64_t now = tick_of("now_tick", now_tick)
        cdef int64_t wanted = INT64_MAX
        cdef int64_t left
        cdef TimerTask task
        cdef bint more = True
        if limit is not None:
            limit = PyNumber_Index(limit)
            if limit < 0:
                raise ValueError(f"limit must be >= 0, got {limit}")
            wanted = min(limit, INT64_MAX)
        while more and wanted > 0:
            with cython.critical_section(core):
                left = levels_advance(&core.levels, now, &core.due, min(wanted, BATCH))
            more = left == 0
            task = core.expire()
            while task is not None:
                task.call = None
                tasks.append(task)
                wanted -= 1
                task = core.expire() if wanted > 0 else None
        if core.pending < CHECKED:
            self._check()
        return tasks

    def next_expiration(self):
        """The tick at which the next non-empty bucket expires, or None. Amortised O(log buckets)."""
        cdef TickCore core = self.core
        cdef int64_t expiration
        with cython.critical_section(core):
            if not bucket_is_empty(&core.due):
                return core.levels.time
            if levels_next_expiration(&core.levels, &expiration):
                return expiration
        return None

    def _check(self):
        """AssertionError that names the broken invariant (I1-I6)."""
        cdef TickCore core = self.core
        cdef int64_t linked = 0
        cdef int64_t pending
        cdef const char* broken
        with cython.critical_section(core):
            broken = levels_check(&core.levels, &linked)
            if broken == NULL:
                broken = list_check(&core.due, &linked)
            pending = core.pending
        if broken != NULL:
            raise AssertionError(broken.decode())
        if linked != pending:
            raise AssertionError(f"I4: the lists hold {linked} tasks, len is {pending}")
