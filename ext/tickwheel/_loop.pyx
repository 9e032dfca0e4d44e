"""asyncio's timers on the wheel: `LoopFront`, which event loops inherit, and the handles that it makes.

A handle is an `asyncio.TimerHandle` with room for a `Node` behind its slots: the wheel links handles
themselves, so that making, cancelling and dropping one touches little memory. It holds one reference to each.
"""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.math cimport INFINITY, isnan
from libc.stdint cimport INT64_MAX, int64_t

from tickwheel._bucket cimport (
    Bucket, Node, bucket_append, bucket_init, bucket_is_empty, bucket_take_all,
    node_is_linked, node_unlink,
)
from tickwheel._levels cimport (
    DUE, NO_MEMORY, Insertion, levels_advance, levels_free, levels_init, levels_insert,
    levels_next_expiration, levels_reserve, tw_prefetch, tw_rare,
)
from tickwheel._ticks cimport Grid, deadline_tick, now_tick, tw_monotonic
from tickwheel._tracking cimport tw_track, tw_untrack

from asyncio import TimerHandle
from contextvars import Context
from heapq import heapify, heappush
from operator import attrgetter

cdef extern from *:
    """
    #include <structmember.h>
    #define TW_AT(object, offset) ((char *)(object) + (offset))
    #define TW_SLOT(object, offset) (*(PyObject **)TW_AT(object, offset))
    /* Where instances of a type keep a slot of theirs; -1 with an error set: it has no such slot. */
    static Py_ssize_t tw_slot_offset(PyObject *type, const char *name) {
        Py_ssize_t offset = -1;
        PyObject *slot = PyObject_GetAttrString(type, name);
        if (slot == NULL) return -1;
        if (Py_TYPE(slot) == &PyMemberDescr_Type) offset = ((PyMemberDescrObject *)slot)->d_member->offset;
        else PyErr_Format(PyExc_TypeError, "%s.%s is no slot", ((PyTypeObject *)type)->tp_name, name);
        Py_DECREF(slot);
        return offset;
    }
    /* For an object that nobody else has seen yet: its slots are empty. */
    #define tw_slot_init(object, offset, value) (TW_SLOT(object, offset) = Py_NewRef(value))
    static void tw_slot_set(PyObject *object, Py_ssize_t offset, PyObject *value) {
        PyObject *before = TW_SLOT(object, offset);
        TW_SLOT(object, offset) = Py_NewRef(value);
        Py_XDECREF(before);
    }
    /* A subclass with `room` more bytes, cleared in a new instance, that the collector does not look at. */
    static PyObject *tw_widen(PyObject *base, const char *name, int room) {
        PyType_Slot slots[] = {{0, NULL}};
        PyType_Spec spec = {name, (int)((PyTypeObject *)base)->tp_basicsize + room, 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
        return PyType_FromSpecWithBases(&spec, base);
    }
    #define tw_basicsize(type) (((PyTypeObject *)(type))->tp_basicsize)
    #define tw_new(type) (((PyTypeObject *)(type))->tp_alloc((PyTypeObject *)(type), 0))
    #define tw_traverse(type) (((PyTypeObject *)(type))->tp_traverse)
    #define tw_set_traverse(type, function) (tw_traverse(type) = (function))
    """
    ctypedef int (*visitproc)(PyObject*, void*) noexcept
    ctypedef int (*traverseproc)(PyObject*, visitproc, void*) noexcept
    void* tw_at "TW_AT"(PyObject* object, Py_ssize_t offset) noexcept
    PyObject* tw_slot "TW_SLOT"(PyObject* object, Py_ssize_t offset) noexcept
    Py_ssize_t tw_slot_offset(object type, const char* name) except -1
    void tw_slot_init(PyObject* object, Py_ssize_t offset, PyObject* value) noexcept
    void tw_slot_set(PyObject* object, Py_ssize_t offset, PyObject* value) noexcept
    object tw_widen(object base, const char* name, int room)
    Py_ssize_t tw_basicsize(object type) noexcept
    PyObject* tw_new(PyObject* type) except NULL
    traverseproc tw_traverse(PyObject* type) noexcept
    void tw_set_traverse(PyObject* type, traverseproc function) noexcept

cdef extern from "Python.h":
    object PyContext_CopyCurrent()

cdef enum:
    BATCH = 1024                # nodes handled in one section

# A tick is far below what a selector can sleep; a turn of the lowest wheel is 1/16 s, of the next 32 s.
cdef double TICK = 1.0 / 8192
cdef int64_t WHEEL_SIZE = 512

by_when = attrgetter("_when")


def nothing():
    """The callback of an alarm."""


cdef struct Hook:               # what a handle has behind its slots
    Node node
    double when
    PyObject* core              # borrowed; only while the node is linked


cdef Py_ssize_t HOOK = tw_basicsize(TimerHandle)


class WheelHandle(tw_widen(TimerHandle, b"tickwheel._loop.WideHandle", sizeof(Hook))):
    """An `asyncio.TimerHandle` whose timer is in the wheel: `cancel()` takes it out at once, and
    `reschedule(delay)` moves it in place."""

    __slots__ = ()

    @cython.binding(True)
    def cancel(self):
        """Take the callback back. O(1)."""
        cancel_handle(<PyObject*>self)

    @cython.binding(True)
    def reschedule(self, delay):
        """Call it `delay` seconds from now instead. False: it was called or cancelled, or the loop is
        about to call it. O(1)."""
        if not is_held(<PyObject*>self):
            return False
        now = self._loop.time()
        when = now + delay
        if not move(<PyObject*>self, when, now):
            return False
        tw_slot_set(<PyObject*>self, WHEN, <PyObject*>when)
        return True

    @cython.binding(True)
    def __lt__(self, other):
        if isinstance(other, TimerHandle):
            return self._when < other._when
        return NotImplemented


cdef Py_ssize_t CALLBACK = tw_slot_offset(WheelHandle, b"_callback")
cdef Py_ssize_t ARGS = tw_slot_offset(WheelHandle, b"_args")
cdef Py_ssize_t CANCELLED = tw_slot_offset(WheelHandle, b"_cancelled")
cdef Py_ssize_t LOOP = tw_slot_offset(WheelHandle, b"_loop")
cdef Py_ssize_t TRACEBACK = tw_slot_offset(WheelHandle, b"_source_traceback")
cdef Py_ssize_t REPR = tw_slot_offset(WheelHandle, b"_repr")
cdef Py_ssize_t CONTEXT = tw_slot_offset(WheelHandle, b"_context")
cdef Py_ssize_t SCHEDULED = tw_slot_offset(WheelHandle, b"_scheduled")
cdef Py_ssize_t WHEN = tw_slot_offset(WheelHandle, b"_when")
cdef PyObject* HANDLE = <PyObject*>WheelHandle


cdef inline Hook* hook_of(PyObject* handle) noexcept:
    return <Hook*>tw_at(handle, HOOK)


cdef inline PyObject* handle_of(Node* node) noexcept:
    return <PyObject*>(<char*>node - HOOK)


cdef inline bint is_held(PyObject* handle) noexcept:
    return node_is_linked(&hook_of(handle).node)


cdef int check_when(double when) except -1:
    if isnan(when):
        raise ValueError(f"when must be a number, got {when}")
    return 0


cdef int cancel_any(object handle) except -1:
    """`handle.cancel()`, without a Python call where it is one of ours."""
    if type(handle) is WheelHandle:
        return cancel_handle(<PyObject*>handle)
    handle.cancel()
    return 0


cdef int cancel_handle(PyObject* me) except -1:
    """What `WheelHandle.cancel` does."""
    cdef PyObject* context = tw_slot(me, CONTEXT)
    # At random this is a walk through cold memory: let it come all at once.
    tw_prefetch(context)
    tw_prefetch(<char*>context - 16)
    tw_prefetch(tw_slot(me, WHEN))
    tw_prefetch(hook_of(me).node.prev)
    tw_prefetch(hook_of(me).node.next)
    if tw_slot(me, CANCELLED) == <PyObject*><object>True:
        return 0
    withdraw(me)
    tw_slot_set(me, CANCELLED, <PyObject*><object>True)
    if tw_slot(me, TRACEBACK) != <PyObject*>None:   # made in debug mode
        (<object>me)._repr = repr(<object>me)
    tw_slot_set(me, CALLBACK, <PyObject*>None)
    tw_slot_set(me, ARGS, <PyObject*>None)
    tw_slot_set(me, CONTEXT, <PyObject*>None)   # it too may pin much (R10)
    return 0


cdef int withdraw(PyObject* handle) except -1:
    """Take a handle out of its wheel, if it is in one."""
    cdef LoopCore core
    cdef bint held
    if not is_held(handle):
        return 0
    core = <LoopCore>hook_of(handle).core
    with cython.critical_section(core):
        held = is_held(handle)
        if held:
            core.release(handle)
    if held:
        tw_track(handle)
        Py_DECREF(<object>handle)   # the wheel's; the caller has its own
    return 0


cdef bint move(PyObject* handle, double when, double now) except -1:
    """Move a handle within its wheel. False: it is not in one."""
    cdef LoopCore core = <LoopCore>hook_of(handle).core
    cdef bint held
    cdef bint memory = True
    check_when(when)
    with cython.critical_section(core):
        held = is_held(handle)
        if held:
            memory = levels_reserve(&core.levels, deadline_tick(when, &core.grid))
            if memory:
                node_unlink(&hook_of(handle).node)
                core.link(handle, when, now)
    if not memory:
        raise MemoryError("no memory for a coarser wheel")
    if core.front is not None:
        core.front.tell()
    return held


@cython.no_gc_clear
@cython.final
cdef class LoopCore:
    """The wheel of one event loop, in seconds. Its clock is a tick ahead of the loop's: what is less than
    a tick away is in the due list, and taken from there to the exact time."""

    def __cinit__(self, double now):
        self.grid = Grid(TICK, 1.0 / TICK)
        bucket_init(&self.due)
        bucket_init(&self.expired)
        if not levels_init(&self.levels, WHEEL_SIZE, now_tick(now, &self.grid)):
            raise MemoryError("no memory for a wheel")

    def __dealloc__(self):
        self.drop_all()
        levels_free(&self.levels)

    cdef bint link(self, PyObject* handle, double when, double now) noexcept:
        """In the section. False: no memory for the level that it needs."""
        cdef Node* node = &hook_of(handle).node
        cdef int64_t expiration
        cdef Insertion insertion = DUE
        hook_of(handle).when = when
        if when > now:
            node.deadline = deadline_tick(when, &self.grid)
            insertion = levels_insert(&self.levels, node, &expiration)
        if insertion == DUE:
            if bucket_is_empty(&self.due) or when < self.soonest:
                self.soonest = when
            bucket_append(&self.due, node)
        return insertion != NO_MEMORY

    cdef void release(self, PyObject* handle) noexcept:
        """In the section: a handle leaves the wheel, whose reference is now the caller's."""
        node_unlink(&hook_of(handle).node)
        self.pending -= 1
        tw_slot_set(handle, SCHEDULED, <PyObject*><object>False)

    cdef int add(self, PyObject* handle, double when, double now) except -1:
        """Hold a new handle until `when`."""
        cdef bint linked
        with cython.critical_section(self):
            linked = self.link(handle, when, now)
            if linked:
                hook_of(handle).core = <PyObject*>self
                self.pending += 1
                Py_INCREF(<object>handle)
        if not linked:
            raise MemoryError("no memory for a coarser wheel")
        return 0

    cdef double next(self) noexcept:
        """Seconds at which the first of the due is, or the next bucket expires; inf: there is none.
        Amortised O(1)."""
        cdef int64_t expiration
        cdef double when = INFINITY
        with cython.critical_section(self):
            if not bucket_is_empty(&self.due):
                when = self.soonest
            elif levels_next_expiration(&self.levels, &expiration):
                when = (expiration - 1) * self.grid.tick    # the first of it may be due as soon as that
        return when

    cdef list pull(self, double end):
        """Take out the handles whose `when` is before `end`, in its order."""
        cdef list handles
        cdef bint more = True
        while more:
            with cython.critical_section(self):
                more = levels_advance(&self.levels, now_tick(end + TICK, &self.grid), &self.due, BATCH) == 0
        with cython.critical_section(self):
            self.expire(end)
        handles = self.take_expired()
        if len(handles) > 1:
            handles.sort(key=by_when)
        return handles

    cdef void expire(self, double end) noexcept:
        """In the section: move what is due before `end` to the expired."""
        cdef Node* node = self.due.root.next
        cdef Node* after
        cdef double when
        self.soonest = INFINITY
        while node != &self.due.root:
            after = node.next
            when = hook_of(handle_of(node)).when
            if when < end:
                node_unlink(node)
                bucket_append(&self.expired, node)
            elif when < self.soonest:
                self.soonest = when
            node = after

    cdef list take_expired(self):
        cdef list handles = []
        cdef PyObject* handle = NULL
        cdef bint more = True
        while more:
            with cython.critical_section(self):
                more = not bucket_is_empty(&self.expired)
                if more:
                    handle = handle_of(self.expired.root.next)
                    self.release(handle)
            if more:
                tw_track(handle)
                handles.append(<object>handle)
                Py_DECREF(<object>handle)
        return handles

    cdef int drop_all(self) except -1:
        """Let all handles go, as a loop does that is closed."""
        cdef bint more = True
        while more:
            with cython.critical_section(self):
                more = levels_advance(&self.levels, INT64_MAX, &self.due, BATCH) == 0
        with cython.critical_section(self):
            bucket_take_all(&self.expired, &self.due)
        self.take_expired()
        return 0

    cdef int track_all(self) except -1:
        """Let the collector know every handle: the loop stops, and may be dropped with them. O(n)."""
        cdef int64_t slot
        cdef int i
        if self.untracked:
            with cython.critical_section(self):
                track_handles(&self.due)
                for i in range(self.levels.count):
                    for slot in range(self.levels.wheel_size):
                        track_handles(&self.levels.level[i].buckets[slot])
                self.untracked = False
        return 0


cdef inline void track_handles(Bucket* bucket) noexcept:
    cdef Node* node = bucket.root.next
    while node != &bucket.root:
        tw_track(handle_of(node))
        node = node.next


# The collector ----------------------------------------------------------------------------------

cdef traverseproc traverse_fields = tw_traverse(<PyObject*>LoopCore)


cdef int visit_handles(Bucket* bucket, visitproc visit, void* arg) noexcept:
    cdef Node* node = bucket.root.next
    cdef int stop = 0
    while node != &bucket.root and stop == 0:
        stop = visit(handle_of(node), arg)
        node = node.next
    return stop


cdef int traverse(PyObject* self, visitproc visit, void* arg) noexcept:
    """`tp_traverse`: the handles are ours."""
    cdef LoopCore core = <LoopCore>self
    cdef int64_t slot
    cdef int i
    cdef int stop = traverse_fields(self, visit, arg)
    if stop == 0:
        stop = visit_handles(&core.due, visit, arg)
    if stop == 0:
        stop = visit_handles(&core.expired, visit, arg)
    for i in range(core.levels.count):
        for slot in range(core.levels.wheel_size):
            if stop == 0:
                stop = visit_handles(&core.levels.level[i].buckets[slot], visit, arg)
    return stop


tw_set_traverse(<PyObject*>LoopCore, traverse)


cdef class LoopFront:
    """The timers of an event loop: `call_later` and `call_at` are one C function each.

    Of a loop built on `asyncio.BaseEventLoop`, if it calls `_drive`: then this class turns it, with asyncio's
    own code and an *alarm*, a handle in asyncio's heap that does nothing, due when the next bucket expires.
    When the events are dealt with, what is due goes into that heap, from where asyncio takes it in the
    same turn. Or of another loop, for which the handles are made, if it calls `_serve`.

    `_make_handle(when, callback, args, context)` makes handles in debug mode, and says what is wrong
    with a closed loop.
    """

    def __cinit__(self, *args, **kwargs):
        self._armed = INFINITY
        # What a subclass does in `call_at`, asyncio does for `call_later` too.
        self.through = type(self).call_at is not LoopFront.call_at

    def _drive(self, turn):
        """Stand before asyncio's `_run_once`, the bound method given."""
        self.turn = turn
        self.alarm = TimerHandle(INFINITY, nothing, (), self, Context())

    def _serve(self, loop):
        """Make the handles for another loop, and call `_arm()` when one is due before `_armed`."""
        self._loop = loop

    def _run_once(self):
        cdef double when = self.next()
        if when != self._armed or (
            when < INFINITY and tw_slot(<PyObject*>self.alarm, SCHEDULED) != <PyObject*><object>True
        ):
            self.arm(when)
        self.turn()

    def _runs(self, bint running):
        """The loop begins to run, or has stopped.

        One that runs is no garbage, so its new handles are spared the collector. Once it has stopped it may
        be dropped, and cycles through handles that others hold too are the collector's to find.
        """
        self.running = running
        if not running and self.wheel is not None:
            self.wheel.track_all()

    cdef int arm(self, double when) except -1:
        """Let the alarm be due at that time."""
        cdef PyObject* alarm = <PyObject*>self.alarm
        cdef list heap = self._scheduled
        if tw_slot(alarm, SCHEDULED) == <PyObject*><object>True:
            heap[:] = [handle for handle in heap if handle is not self.alarm]
            heapify(heap)
        self._armed = when
        self.alarm._when = when
        self.alarm._cancelled = False
        self.alarm._scheduled = when < INFINITY
        if when < INFINITY:
            heappush(heap, self.alarm)
        return 0

    @property
    def _clock_resolution(self):
        """asyncio's. It reads this once a turn, right before it takes what is due from its heap.
        `_process_events` comes a little earlier, but subclasses have their own."""
        if self._armed < INFINITY:
            self.collect()
        return self.resolution

    @_clock_resolution.setter
    def _clock_resolution(self, double seconds):
        self.resolution = seconds

    cdef int collect(self) except -1:
        """Put what is due into asyncio's heap."""
        cdef double end = self.time() + self.resolution
        if end + TICK >= self._armed:
            for handle in self.wheel.pull(end):
                heappush(self._scheduled, handle)
            if end > self._armed:
                self.alarm._cancelled = True    # it need not run
        return 0

    cdef object start(self, object when, double now, object callback, tuple args, object context):
        cdef double deadline = when
        cdef PyObject* new
        cdef object handle
        check_when(deadline)
        if tw_rare(self._closed or self._debug):
            handle = self._make_handle(when, callback, args, context)
            new = <PyObject*>handle
        else:
            if context is None:
                context = PyContext_CopyCurrent()
            new = tw_new(HANDLE)
            tw_untrack(new)
            handle = <object>new
            Py_DECREF(handle)
            tw_slot_init(new, CALLBACK, <PyObject*>callback)
            tw_slot_init(new, ARGS, <PyObject*>args)
            tw_slot_init(new, CANCELLED, <PyObject*><object>False)
            tw_slot_init(new, LOOP, <PyObject*>(self if self._loop is None else self._loop))
            tw_slot_init(new, TRACEBACK, <PyObject*>None)
            tw_slot_init(new, REPR, <PyObject*>None)
            tw_slot_init(new, CONTEXT, <PyObject*>context)
            tw_slot_init(new, WHEN, <PyObject*>when)
        tw_slot_set(new, SCHEDULED, <PyObject*><object>True)
        if tw_rare(self.wheel is None):
            self.wheel = LoopCore(self.time())      # not before: a subclass may have a clock of its own
            self.wheel.front = None if self._loop is None else self
        self.wheel.add(new, deadline, now)
        if self.running:
            self.wheel.untracked = True
        else:
            tw_track(new)
        if tw_rare(self._loop is not None):
            self.tell()
        return handle

    cdef int tell(self) except -1:
        """One who serves another loop may have to wake earlier."""
        if self.wheel.next() < self._armed:
            self._arm()
        return 0

    def call_later(self, delay, callback, *args, context=None):
        """Call `callback(*args)` in `delay` seconds, in `context` or a copy of the current one; returns the
        handle, an `asyncio.TimerHandle` that can be rescheduled too. O(levels)."""
        if delay is None:
            raise TypeError("delay must not be None")
        now = self.time()
        if tw_rare(self.through):
            return self.call_at(now + delay, callback, *args, context=context)
        return self.start(now + delay, now, callback, args, context)

    def call_at(self, when, callback, *args, context=None):
        """The same at `when`, on the loop's clock."""
        if when is None:
            raise TypeError("when must not be None")
        return self.start(when, -INFINITY, callback, args, context)

    def time(self):
        """Seconds on the loop's clock, which is `time.monotonic`."""
        return tw_monotonic()

    cdef double next(self) noexcept:
        return INFINITY if self.wheel is None else self.wheel.next()

    def _next_expiration(self):
        """When something may be due: seconds; inf: never."""
        return self.next()

    def _pull(self, double now):
        """The handles that are due at `now`, in the order of their `when`. They are the caller's to run."""
        return [] if self.wheel is None else self.wheel.pull(now + 1e-9)

    def _drop_timers(self):
        """Let all handles go."""
        if self.wheel is not None:
            self.wheel.drop_all()

    def __bool__(self):
        """True, as every loop is, with timers or without."""
        return True

    def __len__(self):
        """Handles in the wheel."""
        return 0 if self.wheel is None else self.wheel.pending
