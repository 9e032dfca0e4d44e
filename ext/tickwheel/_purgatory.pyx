"""PurgatoryCore: who waits for which key, and for how long; and the front that the purgatory inherits.

docs/purgatory.md tells who may run what under which lock. Rules that every function here obeys:

1. The table, the lists on it, the counters, and an operation's `watches`, `linked` and `delayed` are
   touched only in the core's section. Nothing inside it could release the GIL or call user code.
2. A key is hashed and compared outside of the section; watchers whose address is kept meanwhile are pinned.
3. What leaves the lists is released after the section.
"""
cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport Py_EQ, PyObject, PyObject_Hash, PyObject_RichCompareBool
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc

from tickwheel._bucket cimport node_is_linked
from tickwheel._histogram cimport HISTOGRAM_SIZE, histogram_add
from tickwheel._levels cimport tw_rare
from tickwheel._operation cimport (
    COMPLETED, DROPPED, EXPIRED, FINISH, LOST, UNDECIDED, DelayedOperation, Errand, Keeper,
    attempt, begin, come_in, come_out, decide, end, finish, in_callback, postpone, run_errands, try_once,
)
from tickwheel._task cimport CANCELLED, CONSTRUCTED, IDLE, PENDING, State, unclaim
from tickwheel._timercore cimport TimerCore
from tickwheel._tracking cimport tw_track, tw_untrack
from tickwheel._watchers cimport (
    Watch, Watchers, table_add, table_check, table_find, table_init, table_size,
    watch_link, watch_unlink, watchers_unpin,
)

cdef str CLOSED = "the purgatory is closed"


cdef int release(Watchers* unused, Watch* gone) except -1:
    """Outside the section: free watchers that nobody needs, and blocks of watches that are on no list."""
    cdef Watchers* watchers
    cdef Watch* watch
    while gone != NULL:
        watch = gone
        gone = watch.next
        operation = <object>watch.operation
        PyMem_Free(watch)
        Py_DECREF(operation)        # the lists'
    while unused != NULL:
        watchers = unused
        unused = watchers.chain
        key = <object>watchers.key
        free(watchers)
        Py_DECREF(key)
    return 0


@cython.no_gc
@cython.final
cdef class Check(Errand):
    """Check a key: it was asked for inside a callback. Its watchers are pinned."""

    cdef PurgatoryCore core
    cdef Watchers* watchers

    cdef int carry_out(self) except -1:
        cdef Watchers* watchers = self.watchers
        self.watchers = NULL
        self.core.check_watchers(watchers, False)
        return 0


@cython.no_gc_clear
@cython.final
cdef class PurgatoryCore(Keeper):
    """Keys, watches and counters of one purgatory. An operation in its lists holds a reference to it, and
    it one to the operation: whoever stands in front of it closes it when he goes."""

    def __cinit__(self, TimerCore timer not None, purge_interval):
        self.timer = timer
        self.purge_interval = -1 if purge_interval is None else purge_interval
        if not table_init(&self.table):
            raise MemoryError("no memory for a purgatory's keys")

    def __dealloc__(self):
        free(self.table.slots)

    # Keys ---------------------------------------------------------------------------------------

    cdef Watchers* find(self, object key, Py_hash_t hash, bint add) except? NULL:
        """The watchers of a key, pinned. NULL: it has none, and none were to be added."""
        cdef Watchers* watchers
        cdef Watchers* before
        cdef Watchers* unused
        cdef int64_t added
        cdef bint sure = False
        while not sure:
            unused = NULL
            with cython.critical_section(self):
                added = self.table.added
                watchers = table_find(&self.table, NULL, hash)
            while watchers != NULL:
                try:
                    # The key in the table stays while its watchers are pinned.
                    if PyObject_RichCompareBool(<object>watchers.key, key, Py_EQ):
                        return watchers
                except BaseException:
                    with cython.critical_section(self):
                        watchers_unpin(&self.table, watchers, &unused)
                    release(unused, NULL)
                    raise
                with cython.critical_section(self):
                    before = watchers
                    watchers = table_find(&self.table, before, hash)
                    watchers_unpin(&self.table, before, &unused)
                release(unused, NULL)
                unused = NULL
            with cython.critical_section(self):
                # If others came meanwhile, the key's own may be among them.
                sure = self.table.added == added
                if sure and add:
                    watchers = table_add(&self.table, <PyObject*>key, hash)
                    if watchers != NULL:
                        Py_INCREF(key)
        if add and watchers == NULL:
            raise MemoryError("no memory for a purgatory's keys")
        return watchers

    cdef Watch* resolve(self, DelayedOperation operation, tuple keys) except NULL:
        """A block of watches, one a key, on no list yet, their watchers pinned. All that the keys' own
        code can spoil is spoiled here."""
        cdef Py_ssize_t count = len(keys)
        cdef Py_ssize_t i = 0
        cdef object key
        cdef Watch* watches = <Watch*>PyMem_Malloc(count * sizeof(Watch))
        if watches == NULL:
            raise MemoryError(f"no memory for {count} keys")
        try:
            for i in range(count):
                key = keys[i]
                watches[i].prev = NULL
                watches[i].operation = <PyObject*>operation
                watches[i].watchers = self.find(key, PyObject_Hash(key), True)
        except BaseException:
            self.discard(watches, i)
            raise
        return watches

    cdef int discard(self, Watch* watches, Py_ssize_t count) except -1:
        """Free a block of watches that are on no list."""
        cdef Watchers* unused = NULL
        cdef Py_ssize_t i
        with cython.critical_section(self):
            for i in range(count):
                watchers_unpin(&self.table, watches[i].watchers, &unused)
        PyMem_Free(watches)
        return release(unused, NULL)

    # Watching -----------------------------------------------------------------------------------

    cdef bint watch(self, DelayedOperation operation, tuple keys) except -1:
        """Try, watch all keys, try again; then into the timer. Whether the operation is complete.
        Before the first try its keys are known to be good, and its place in the timer is reserved."""
        cdef Py_ssize_t count = len(keys)
        cdef Watch* watches = NULL
        cdef bint refused
        cdef bint admitted = False
        self.timer.reserve()
        try:
            watches = self.resolve(operation, keys)
            admitted = self.admit(operation)
        finally:
            if not admitted:
                self.timer.unreserve()
                if watches != NULL:
                    self.discard(watches, count)
        if not admitted:
            return True
        try:
            refused = self.try_and_watch(operation, watches, count)
        except BaseException:       # an interrupt in a callback, a closed timer: nothing stays watched
            decide(operation, DROPPED, CANCELLED)
            if operation.state == PENDING and not node_is_linked(&operation.node):
                unclaim(operation, IDLE)
            raise
        if operation.fate == COMPLETED or operation.fate == EXPIRED:
            return True
        if refused:
            raise RuntimeError(CLOSED)
        return False

    cdef bint try_and_watch(self, DelayedOperation operation, Watch* watches, Py_ssize_t count) except -1:
        """Inside, with watches of its own. True: refused, the purgatory is closed."""
        cdef uint8_t notes = 0
        cdef bint refused
        begin()
        try:
            if operation.fate == UNDECIDED:
                try_once(operation)
            refused = not self.link(operation, watches, count)
            if refused:
                decide(operation, DROPPED, IDLE)
            elif operation.fate == UNDECIDED:
                try_once(operation)
            # Inside until it is in the timer: only then may another thread drop it and bring it again.
            if operation.fate == UNDECIDED:
                try:
                    self.delay(operation)
                except BaseException:
                    decide(operation, DROPPED, CANCELLED)
                    come_out(operation, &notes)
                    if notes & FINISH:      # it was completed meanwhile
                        finish(operation)
                    raise
            else:
                self.timer.unreserve()
                unclaim(operation, IDLE if self.closed_ else CANCELLED)
            while not come_out(operation, &notes):
                try_once(operation)
            if notes & FINISH:
                finish(operation)
        finally:
            end()
        return refused

    cdef bint admit(self, DelayedOperation operation) except -1:
        """Make the operation ours alone, and go inside. False: it is complete."""
        if self.closed_:
            raise RuntimeError(CLOSED)
        if not operation.flags & CONSTRUCTED:
            kind = type(operation).__name__
            raise RuntimeError(f"{kind}.__init__ must call DelayedOperation.__init__(timeout)")
        return come_in(operation, self, self.timer)

    cdef bint link(self, DelayedOperation operation, Watch* watches, Py_ssize_t count) except -1:
        """Put the watches on their lists, unless the operation is decided. False: the purgatory is closed."""
        cdef Watchers* unused = NULL
        cdef Py_ssize_t i
        cdef bint closed
        cdef bint linked = False
        with cython.critical_section(self):
            closed = self.closed_
            if not closed and operation.fate == UNDECIDED:
                linked = True
                self.table.stamp += 1
                operation.watches = watches
                operation.watch_count = count
                operation.linked = 0
                for i in range(count):
                    if watches[i].watchers.stamp != self.table.stamp:   # else the key was named twice
                        watches[i].watchers.stamp = self.table.stamp
                        watch_link(&self.table, &watches[i])
                        operation.linked += 1
                    watchers_unpin(&self.table, watches[i].watchers, &unused)
                self.estimate += 1
                self.waiting += 1
                Py_INCREF(operation)    # the lists'
                tw_untrack(<PyObject*>operation)
        if not linked:
            self.discard(watches, count)
        return not closed

    cdef int delay(self, DelayedOperation operation) except -1:
        """Put a watched operation into the timer, and out again if it was decided meanwhile."""
        cdef double now
        try:
            now = self.timer.now()
        except BaseException:       # a clock of the user's
            self.timer.unreserve()
            raise
        with cython.critical_section(self):
            # Before it is there: once it is, it may be dropped and be in another purgatory in no time.
            if operation.fate == UNDECIDED:
                operation.delayed = True
                self.delayed += 1
        operation.when_ = now + operation.delay
        self.timer.start_reserved(operation, now, operation.delay <= 0)
        if operation.fate != UNDECIDED:
            self.timer.withdraw(operation, IDLE if self.closed_ else CANCELLED)
        return 0

    # Leaving ------------------------------------------------------------------------------------

    cdef void take(self, Watch* watch, Watchers** unused, Watch** gone) noexcept:
        """In the section: take a watch off its list. The block of an operation that is on no list
        any more goes before `gone`, linked by the `next` of its first watch."""
        cdef DelayedOperation operation = <DelayedOperation>watch.operation
        watch_unlink(&self.table, watch, unused)
        operation.linked -= 1
        if operation.linked == 0:
            watch = operation.watches
            operation.watches = NULL
            watch.next = gone[0]
            gone[0] = watch

    cdef int let_go(self, DelayedOperation operation, State left) except -1:
        """A decided operation leaves the timer, and, unless it waits for a purge, the lists. O(its keys)."""
        cdef Watchers* unused = NULL
        cdef Watch* gone = NULL
        cdef Watch* watches
        cdef Py_ssize_t i
        cdef bint purge = False
        if self.timer.forked:
            return 0
        with cython.critical_section(self):
            self.fates[operation.fate] += 1
            if operation.delayed:
                operation.delayed = False
                self.delayed -= 1
            watches = operation.watches
            if watches != NULL:
                self.waiting -= 1
                if self.purge_interval < 0 or operation.fate == DROPPED:
                    for i in range(operation.watch_count):
                        if watches[i].prev != NULL:
                            self.take(&watches[i], &unused, &gone)
                if self.purge_interval >= 0 and self.estimate - self.waiting > self.purge_interval:
                    self.estimate = self.waiting
                    purge = not self.purging
                    self.purging = True
        tw_track(<PyObject*>operation)
        if operation.fate == EXPIRED:
            self.count_lateness(operation)
        else:
            self.timer.withdraw(operation, left)
        release(unused, gone)
        if purge:
            self.timer.post(self.purge)
        return 0

    cdef int count_lateness(self, DelayedOperation operation) except -1:
        cdef double late
        cdef int64_t late_ns
        try:
            late = (self.timer.now() - operation.when_) * 1e9
        except BaseException as error:      # a clock of the user's
            return self.report(operation, error)
        late_ns = <int64_t>min(late, 9.2e18) if late > 0 else 0
        with cython.critical_section(self):
            histogram_add(self.lateness, late_ns)
            self.lateness_max = max(self.lateness_max, late_ns)
        return 0

    cdef list undecided(self, Watchers* watchers):
        """The undecided operations of a list, as they came; the others leave it. Unpins it."""
        cdef list operations = []
        cdef Watchers* unused = NULL
        cdef Watch* gone = NULL
        cdef Watch* watch
        cdef Watch* following
        with cython.critical_section(self):
            watch = watchers.root.next
            while watch != &watchers.root:
                following = watch.next
                if (<DelayedOperation>watch.operation).fate == UNDECIDED:
                    operations.append(<object>watch.operation)
                elif self.purge_interval >= 0:      # else whoever decided is about to take it
                    self.take(watch, &unused, &gone)
                watch = following
            watchers_unpin(&self.table, watchers, &unused)
        release(unused, gone)
        return operations

    cdef list drop(self, list operations, State left):
        """Take undecided operations out of everything; those that nobody else decided first."""
        return [operation for operation in operations if decide(operation, DROPPED, left) != LOST]

    # Checking -----------------------------------------------------------------------------------

    cdef int64_t check_key(self, object key) except -1:
        cdef Watchers* watchers
        cdef Check errand
        cdef int64_t completed = 0
        if self.timer.forked:
            return 0
        watchers = self.find(key, PyObject_Hash(key), False)
        if watchers == NULL:
            return 0
        begin()
        try:
            if in_callback():
                errand = Check.__new__(Check)
                errand.core = self
                errand.watchers = watchers
                postpone(errand)
            else:
                completed = self.check_watchers(watchers, True)
        finally:
            end()
        return completed

    cdef int64_t check_watchers(self, Watchers* watchers, bint outermost) except -1:
        """Try all that wait on a list, now. How many this call completed. Unpins it."""
        cdef int64_t completed = 0
        cdef DelayedOperation operation
        for operation in self.undecided(watchers):
            completed += attempt(operation)
            if outermost:       # an errand's errands queue behind it: a chain of them must not recurse
                run_errands()
        return completed

    # For the floor above ------------------------------------------------------------------------

    cdef bint forked(self) noexcept:
        return self.timer.forked

    cdef int64_t sweep(self) except -1:
        """Take completed operations out of all lists: how many watches. O(watches)."""
        cdef Watchers** lists
        cdef Watchers* watchers
        cdef int64_t i, before
        cdef int64_t count = 0
        with cython.critical_section(self):
            before = self.table.watched
            lists = <Watchers**>malloc(max(self.table.count, 1) * sizeof(Watchers*))
            if lists != NULL:
                for i in range(table_size(&self.table)):
                    watchers = self.table.slots[i]
                    while watchers != NULL:
                        watchers.pins += 1
                        lists[count] = watchers
                        count += 1
                        watchers = watchers.chain
        if lists == NULL:
            raise MemoryError("no memory for a purge")
        for i in range(count):
            self.undecided(lists[i])
        free(lists)
        return before - self.table.watched

    def purge(self):
        """What a completion asked for: take completed operations out of all lists."""
        cdef int64_t purged
        if self.timer.forked:
            return
        with cython.critical_section(self):
            self.purging = False
        purged = self.sweep()
        with cython.critical_section(self):
            self.purges += 1
            self.purged += purged

    def close(self):
        """Take no more operations, and drop all that wait: IDLE, in the order of their deadlines."""
        cdef list operations = []
        cdef Watchers* watchers
        cdef Watch* watch
        cdef int64_t i
        if self.timer.forked:
            return operations
        with cython.critical_section(self):
            self.closed_ = True
            for i in range(table_size(&self.table)):
                watchers = self.table.slots[i]
                while watchers != NULL:
                    watch = watchers.root.next
                    while watch != &watchers.root:
                        if watch == (<DelayedOperation>watch.operation).watches:    # each once
                            operations.append(<object>watch.operation)
                        watch = watch.next
                    watchers = watchers.chain
        operations = self.drop(operations, IDLE)
        if self.purge_interval >= 0:
            self.sweep()
        operations.sort(key=by_deadline)
        return operations

    @property
    def closed(self):
        return self.closed_ or self.timer.forked

    cdef int report(self, DelayedOperation operation, object error) except -1:
        with cython.critical_section(self):
            self.errors += 1
        self.timer.report(operation, error)
        return 0

    def counts(self):
        """watched, delayed, completed, expired, dropped, errors, purges, purged, lateness_max (ns),
        lateness histogram."""
        cdef list lateness
        cdef Py_ssize_t i
        if self.timer.forked:
            return 0, 0, 0, 0, 0, 0, 0, 0, 0, []
        lateness = [self.lateness[i] for i in range(HISTOGRAM_SIZE)]
        with cython.critical_section(self):
            return (
                self.table.watched, self.delayed, self.fates[<int>COMPLETED], self.fates[<int>EXPIRED],
                self.fates[<int>DROPPED], self.errors, self.purges, self.purged, self.lateness_max, lateness,
            )

    def check(self):
        """AssertionError that names the broken invariant."""
        cdef const char* broken
        with cython.critical_section(self):
            broken = table_check(&self.table)
        if broken != NULL:
            raise AssertionError(broken.decode())


def by_deadline(DelayedOperation operation not None):
    return operation.when_


cdef inline PurgatoryCore core_of(PurgatoryFront front):
    if tw_rare(front._core is None):
        raise RuntimeError("DelayedOperationPurgatory.__init__ has not been called")
    return front._core


cdef class PurgatoryFront:
    """The methods of `DelayedOperationPurgatory` that are called once an operation or an event."""

    def __init__(self, PurgatoryCore core not None):
        self._core = core

    def try_complete_else_watch(self, DelayedOperation operation not None, keys):
        """Try to complete an operation; if it cannot be yet, let it wait for its keys and its timeout.

        True iff it is complete on return. `try_complete` is called, and once more when all keys are
        watched, so that no event is missed; a key that is named twice is watched once. ValueError: no
        keys. RuntimeError: it is in a purgatory, or this one is closed. `TooManyPending`: `max_pending`
        tasks are in the timer. O(keys + levels).
        """
        cdef PurgatoryCore core = core_of(self)
        if isinstance(keys, (str, bytes)):
            raise TypeError(f"keys must be an iterable of keys, got {keys!r}")
        cdef tuple names = tuple(keys)
        if not names:
            raise ValueError(f"keys must name at least one key, got {keys!r}")
        if operation.fate == COMPLETED or operation.fate == EXPIRED:
            return True
        return core.watch(operation, names)

    def check_and_complete(self, key):
        """Something happened to `key`: try all operations that watch it. How many this call completed.

        One that another thread is inside of is handed to that thread; inside a callback the check
        is made when that has returned, and this returns 0. O(operations watching the key).
        """
        return core_of(self).check_key(key)

    def cancel_for_key(self, key):
        """Drop all operations that watch `key`, from every list and the timer, and return them; those
        that were complete are not among them. O(operations x their keys)."""
        cdef PurgatoryCore core = core_of(self)
        if core.timer.forked:
            return []
        cdef Watchers* watchers = core.find(key, PyObject_Hash(key), False)
        return [] if watchers == NULL else core.drop(core.undecided(watchers), CANCELLED)

    @property
    def watched(self):
        """(operation, key) pairs in the lists."""
        cdef PurgatoryCore core = core_of(self)
        return 0 if core.timer.forked else core.table.watched

    @property
    def delayed(self):
        """Operations that wait for their timeout."""
        cdef PurgatoryCore core = core_of(self)
        return 0 if core.timer.forked else core.delayed

    def _check(self):
        """AssertionError that names the broken invariant of lists or table."""
        core_of(self).check()
