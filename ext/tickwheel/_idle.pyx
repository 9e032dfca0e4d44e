"""IdleFront: what `IdleTracker` inherits, so that a touch is one C call without a Python frame; its clients.

The protocol between a touch and who ends a client is in `_reference/idle.py`. Here each step on a client is
indivisible: with the GIL since nothing in it could release it, else by a critical section on the client.
"""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF

from tickwheel._levels cimport tw_rare
from tickwheel._task cimport TimerTask
from tickwheel._timercore cimport TimerCore

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define TW_GIL 0        /* others may end a client as soon as it is found: with a reference of our own */
    #define tw_find PyDict_GetItemRef
    #else
    #define TW_GIL 1        /* borrowed: its reference count is one more place in memory */
    static CYTHON_INLINE int tw_find(PyObject *dict, PyObject *key, PyObject **found) {
        *found = PyDict_GetItemWithError(dict, key);
        return *found != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
    }
    #endif
    """
    const bint GIL "TW_GIL"
    int tw_find(PyObject* dict, PyObject* key, PyObject** found)

cdef int propagate() except -1:
    """Raise the error that a C call has set."""
    return -1


cdef inline bint stamp(IdleClient client, double now) noexcept:
    """In the client's section: a touch. Whether it is online."""
    client.stamp = now
    return client.online


cdef inline double time_left(IdleClient client, double now, double timeout, double max_age) noexcept:
    """In the client's section: seconds until it is due. What is nearer than 1 ns has come (R1)."""
    cdef double left = min(client.stamp + timeout, client.born + max_age) - now
    return left if left >= 1e-9 else 0


# Not tracked by the garbage collector: what would keep a client in a cycle is its task, which is not either,
# and which lets go of it when the client leaves.
@cython.no_gc
@cython.final
cdef class IdleClient:
    """A key from coming online to going offline; its identity tells it from the key's next time.

    `stamp` and `born` are seconds on the timer's clock; `task` calls it. Its methods are for who has the
    tracker's lock.
    """

    # What a touch needs comes first.
    cdef readonly double stamp
    cdef readonly bint online
    cdef readonly double born
    cdef readonly object key
    cdef public TimerTask task      # None: gone for good
    cdef object tracker

    def __cinit__(self, tracker, key, double now):
        self.tracker = tracker
        self.key = key
        self.born = self.stamp = now
        self.online = True

    def __call__(self):
        self.tracker._look(self)

    def keep(self, double now):
        """A touch that has the lock. False: it is gone."""
        cdef bint kept
        with cython.critical_section(self):
            self.stamp = now
            kept = self.task is not None
        return kept

    def left(self, double now, double timeout, double max_age):
        """Seconds until it is due; 0.0: it is, by a nanosecond."""
        cdef double left
        with cython.critical_section(self):
            left = time_left(self, now, timeout, max_age)
        return left

    def look(self, double now, double timeout, double max_age):
        """The same, and it goes offline if it is due; else it is online, unless it is gone."""
        cdef double left
        with cython.critical_section(self):
            left = time_left(self, now, timeout, max_age)
            self.online = left > 0 and self.task is not None
        return left

    def leave(self):
        """Go offline for good, with the task."""
        cdef TimerTask task
        with cython.critical_section(self):
            self.online = False
            task = self.task
            self.task = None
        if task is not None:
            task.cancel()


cdef class IdleFront:
    """The method of `IdleTracker` that is called once a packet: one C function, no Python frame.

    `IdleTracker` above it provides `_begin(key) -> bool`, a touch of a key that is not online, and
    `_check_key(key)`, which raises if the key is not hashable.
    """

    cdef TimerCore core
    cdef public dict _clients       # key -> IdleClient

    def __init__(self, TimerCore core not None):
        self.core = core
        self._clients = {}

    def touch(self, key):
        """The client is alive. True: it was offline, and has just come online.

        O(1): a look-up, a store and no lock for a key that is online. TypeError: `key` is not hashable.
        RuntimeError: the tracker is closed. For a key that comes online also what the timer raises: it is
        closed, or full (`TooManyPending`).
        """
        cdef PyObject* found = NULL
        cdef bint online = False
        cdef double now
        if tw_rare(self.core is None):
            raise RuntimeError("IdleTracker.__init__ has not been called")
        now = self.core.now()
        if tw_rare(tw_find(<PyObject*>self._clients, <PyObject*>key, &found) < 0):
            try:
                propagate()
            except TypeError:
                self._check_key(key)
                raise
        if found != NULL:
            # The look-up may have run anything, __eq__ of a key: the client's own flag says what it is now.
            if GIL:
                online = stamp(<IdleClient>found, now)
            else:
                with cython.critical_section(<IdleClient>found):
                    online = stamp(<IdleClient>found, now)
                Py_DECREF(<IdleClient>found)
            if online:
                return False
        return self._begin(key)
