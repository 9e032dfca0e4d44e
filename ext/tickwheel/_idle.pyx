"""IdleFront: what `IdleTracker` inherits, so that a touch is one C call without a Python frame; its clients.

Here a touch is one indivisible step, and the end of a client another: with the GIL since nothing in them
could release it, else by a critical section on the front. Between a key's `__hash__` and `__eq__`, which may
call anything, and the step itself nothing happens. `_reference/idle.py` has to do the same in smaller steps.
"""
from operator import attrgetter

cimport cython
from cpython.object cimport Py_EQ, PyObject, PyObject_Hash, PyObject_RichCompareBool
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free

from tickwheel._levels cimport tw_rare
from tickwheel._stamptable cimport (
    FEWEST, Search, Slot, StampTable, search_first, search_next, stamps_check, stamps_init, stamps_make_room,
    stamps_of, stamps_put, stamps_take,
)
from tickwheel._task cimport TimerTask
from tickwheel._timercore cimport TimerCore

cdef extern from "Python.h":
    Py_hash_t hash_or_minus_one "PyObject_Hash"(object) noexcept

cdef by_number = attrgetter("number")

cdef int propagate() except -1:
    """Raise the error that a C call has set."""
    return -1


# Not tracked by the garbage collector: what would keep a client in a cycle is its task, which is not either,
# and which lets go of it when the client leaves.
@cython.no_gc
@cython.final
cdef class IdleClient:
    """A key from coming online to going offline; its identity tells it from the key's next time.

    `task` calls it; its methods are for who has the tracker's lock. Its stamp is in the front's table.
    """

    cdef readonly object key
    cdef readonly double born       # seconds on the timer's clock
    cdef readonly int64_t number    # in the order of coming online
    cdef public TimerTask task      # None: gone for good
    cdef object tracker
    cdef Py_hash_t hash

    def __cinit__(self, IdleFront tracker not None, key, double now):
        self.tracker = tracker
        self.key = key
        self.born = now
        self.hash = PyObject_Hash(key)

    def __call__(self):
        self.tracker._look(self)

    def leave(self):
        """Go for good, with the task."""
        cdef TimerTask task = self.task
        self.task = None
        if task is not None:
            task.cancel()


cdef class IdleFront:
    """Who is online, and the method of `IdleTracker` that is called once a packet: one C function.

    `IdleTracker` above it provides `_begin(key) -> bool`, a touch of a key that is not online, and
    `_check_key(key)`, which raises if the key is not hashable. The names with an underscore are for who has
    its lock.
    """

    cdef TimerCore core
    cdef double timeout         # seconds
    cdef double max_age
    cdef StampTable table       # a slot's owner is its client, to which it holds a reference
    cdef object section         # an object whose critical section guards the table; another one after fork
    cdef int64_t arrivals

    def __cinit__(self):
        self.section = object()
        if not stamps_init(&self.table, FEWEST):
            raise MemoryError

    def __init__(self, TimerCore core not None, double timeout, double max_age):
        self.core = core
        self.timeout = timeout
        self.max_age = max_age

    def __dealloc__(self):
        if self.table.slots != NULL:
            forget(self.table)

    cdef Slot* find(self, key, Py_hash_t hash) except? NULL:
        """In the section, which a key's `__eq__` may leave: the key's slot as it is now. NULL: none."""
        cdef object other
        cdef Search search
        cdef uint64_t changes
        cdef bint equal
        search_first(&self.table, hash, &search)
        while search.slot.key != <PyObject*>key:
            if search.slot.key == NULL:
                return NULL
            if search.slot.hash == hash and search.slot.owner != NULL:
                changes = self.table.changes
                other = (<IdleClient>search.slot.owner).key
                equal = PyObject_RichCompareBool(other, key, Py_EQ)
                other = None    # its destructor may call anything, too
                if changes != self.table.changes:
                    search_first(&self.table, hash, &search)
                    continue
                if equal:
                    break
            search_next(&self.table, &search)
        return search.slot

    cdef bint keep(self, key, Py_hash_t hash, double now) except -1:
        """A touch of a key that is online, with the time of its beginning. False: it is not."""
        cdef Slot* slot
        with cython.critical_section(self.section):
            slot = self.find(key, hash)
            if slot != NULL and slot.stamp < now:   # another's may be later
                slot.stamp = now
        return slot != NULL

    def touch(self, key):
        """The client is alive. True: it was offline, and has just come online.

        O(1): a look-up, a store and no lock for a key that is online. TypeError: `key` is not hashable.
        RuntimeError: the tracker is closed. For a key that comes online also what the timer raises: it is
        closed, or full (`TooManyPending`).
        """
        cdef Py_hash_t hash
        cdef double now
        if tw_rare(self.core is None):
            raise RuntimeError("IdleTracker.__init__ has not been called")
        now = self.core.now()
        hash = hash_or_minus_one(key)
        if tw_rare(hash == -1):
            try:
                propagate()
            except TypeError:
                self._check_key(key)
                raise
        if self.keep(key, hash, now):
            return False
        return self._begin(key)

    def __len__(self):
        """How many keys are online."""
        return self.table.count

    def __contains__(self, key):
        cdef Py_hash_t hash = PyObject_Hash(key)
        cdef Slot* slot
        with cython.critical_section(self.section):
            slot = self.find(key, hash)
        return slot != NULL

    def _keep(self, key):
        """A touch. False: the key is not online, and nothing was done."""
        cdef double now = self.core.now()
        return self.keep(key, PyObject_Hash(key), now)

    def _enter(self, IdleClient client not None):
        """The client comes online. False: its key is online already, by a call from within; that one is
        touched. MemoryError: nothing has changed."""
        cdef double now = self.core.now()
        cdef Slot* found
        cdef Slot slot
        with cython.critical_section(self.section):
            found = self.find(client.key, client.hash)
            if found != NULL:
                found.stamp = max(found.stamp, now)
            else:       # no call from here on
                if not stamps_make_room(&self.table):
                    raise MemoryError
                slot.hash = client.hash
                slot.key = <PyObject*>client.key
                slot.owner = <PyObject*>client
                slot.stamp = client.born
                stamps_put(&self.table, slot)
                Py_INCREF(client)
                self.arrivals += 1
                client.number = self.arrivals
        return found == NULL

    def _take(self, key):
        """The client of a key that goes offline; None: it was not online."""
        cdef Py_hash_t hash = PyObject_Hash(key)
        cdef IdleClient client = None
        cdef Slot* slot
        with cython.critical_section(self.section):
            slot = self.find(key, hash)
            if slot != NULL:
                client = <IdleClient>slot.owner
                stamps_take(&self.table, slot)
                Py_DECREF(client)
        return client

    def _end(self, IdleClient client not None):
        """The client's task has called: "idle" or "aged" where it was due and has gone offline. None: it will
        call again when it is due, or it has gone, and nobody is to be told."""
        cdef TimerTask task = client.task
        cdef double now = self.core.now()
        cdef double silent = 0
        cdef double aged = client.born + self.max_age
        cdef double left = 0
        cdef Slot* slot
        with cython.critical_section(self.section):
            slot = stamps_of(&self.table, client.hash, <PyObject*>client)
            if slot != NULL:
                silent = slot.stamp + self.timeout
                left = min(silent, aged) - now
                if left < 1e-9:     # what is nearer has come (R1)
                    stamps_take(&self.table, slot)
                    Py_DECREF(client)
        if slot != NULL and left >= 1e-9:
            task.reschedule(left)
            return None
        client.leave()
        if slot == NULL:    # it never came online: something was raised on the way
            return None
        return "aged" if aged < silent else "idle"

    def _all(self):
        """The clients online, in the order in which they came."""
        return self.collect(False)

    def _take_all(self):
        """The same, and they go offline."""
        return self.collect(True)

    cdef list collect(self, bint take):
        cdef list clients = []
        cdef size_t n = 0
        cdef size_t i
        cdef Slot* slot
        while <size_t>len(clients) != self.table.count:     # what is allocated may call anything
            clients = [None] * self.table.count
        with cython.critical_section(self.section):
            for i in range(self.table.mask + 1):
                slot = &self.table.slots[i]
                if slot.owner != NULL:
                    client = <IdleClient>slot.owner
                    clients[n] = client
                    n += 1
                    if take:
                        stamps_take(&self.table, slot)
                        Py_DECREF(client)
        clients.sort(key=by_number)
        return clients

    def _forget(self):
        """In a child of fork, where another thread may have been in the section, which nobody leaves then."""
        cdef StampTable old = self.table
        self.section = object()
        if not stamps_init(&self.table, FEWEST):
            self.table = old
            raise MemoryError
        forget(old)

    def _check_clients(self):
        """AssertionError that names what is broken."""
        cdef const char* broken = stamps_check(&self.table)
        if broken != NULL:
            raise AssertionError(f"D3: {broken.decode()}")


cdef void forget(StampTable table) noexcept:
    """Of a table that nobody refers to any more: its references and its memory."""
    cdef size_t i
    for i in range(table.mask + 1):
        if table.slots[i].owner != NULL:
            Py_DECREF(<IdleClient>table.slots[i].owner)
    free(table.slots)
