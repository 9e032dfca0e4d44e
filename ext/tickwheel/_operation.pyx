"""DelayedOperation, and who runs its callbacks, when: docs/purgatory.md tells the story of the locks.

Rules that every function here obeys:

1. An operation's fate, notes and `inside` are touched only in the operation's own section.
2. User code runs outside every section, and between `begin` and `end` of its thread.
"""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint8_t

from tickwheel._task cimport CANCELLED, FIRED, PENDING, State, TaskOwner, TimerTask, construct, is_live

import logging
from collections import deque

cdef extern from *:
    """
    #ifdef _MSC_VER
    #define TW_THREAD_LOCAL __declspec(thread)
    #else
    #define TW_THREAD_LOCAL __thread
    #endif
    /* Not on the C stack: greenlets swap that out. */
    static TW_THREAD_LOCAL long tw_depth;           /* entries: one in the other's callback */
    static TW_THREAD_LOCAL PyObject *tw_errands;    /* a deque; NULL: there are none */
    static TW_THREAD_LOCAL PyObject *tw_exit;       /* KeyboardInterrupt or SystemExit: raised at the end */
    """
    long tw_depth
    PyObject* tw_errands
    PyObject* tw_exit

cdef extern from "Python.h":
    PyObject* PyObject_CallMethodNoArgs(PyObject* object, PyObject* name)
    unsigned long PyThread_get_thread_ident() noexcept

cdef str TRY_COMPLETE = "try_complete"
cdef str ON_COMPLETE = "on_complete"
cdef str ON_EXPIRATION = "on_expiration"


cdef int propagate() except -1:
    """Raise the error that a C call has set."""
    return -1


# Entries and errands ---------------------------------------------------------------------------

cdef void begin() noexcept:
    """From here to `end`, what this thread's callbacks ask for becomes an errand."""
    global tw_depth
    tw_depth += 1


cdef int end() except -1:
    """Carry out the errands, if this is the outermost entry, and raise what was kept back for its end."""
    global tw_depth, tw_exit
    cdef object error
    run_errands()
    tw_depth -= 1
    if tw_depth == 0 and tw_exit != NULL:
        error = <object>tw_exit
        Py_DECREF(error)
        tw_exit = NULL
        raise error
    return 0


cdef bint in_callback() noexcept:
    """Between `begin` and `end`: whether that is inside a callback of this thread."""
    return tw_depth > 1


cdef int postpone(Errand errand) except -1:
    """Let this thread carry it out when its outermost callback has returned."""
    global tw_errands
    cdef object errands
    if tw_errands == NULL:
        errands = deque()
        if tw_errands == NULL:      # no destructor came first
            Py_INCREF(errands)
            tw_errands = <PyObject*>errands
    (<object>tw_errands).append(errand)
    return 0


cdef int run_errands() except -1:
    """First come first served, outside all callbacks; those that come meanwhile too."""
    global tw_errands
    cdef object errands
    cdef Errand errand
    if tw_depth > 1 or tw_errands == NULL:
        return 0
    errands = <object>tw_errands
    while errands:
        errand = errands.popleft()
        errand.carry_out()
    if not errands and tw_errands == <PyObject*>errands:
        tw_errands = NULL
        Py_DECREF(errands)
    return 0


cdef class Errand:

    cdef int carry_out(self) except -1:
        raise NotImplementedError


@cython.no_gc
@cython.final
cdef class Finish(Errand):
    """Run what a decision has left to do."""

    cdef DelayedOperation operation

    cdef int carry_out(self) except -1:
        return run_finish(self.operation)


# Callbacks --------------------------------------------------------------------------------------

cdef int call_back(DelayedOperation operation, str name) except -1:
    """Call a method of the user's: the truth of a `try_complete`. One that raises is reported, and False."""
    cdef PyObject* result = PyObject_CallMethodNoArgs(<PyObject*>operation, <PyObject*>name)
    cdef object answer = None
    if result != NULL:
        answer = <object>result
        Py_DECREF(answer)
        if answer is None or answer is False or name is not TRY_COMPLETE:
            return False
        if answer is True:
            return True
    try:
        if result == NULL:
            propagate()
        return bool(answer)
    except BaseException as error:
        failed(operation, error)
    return False


cdef int failed(DelayedOperation operation, object error) except -1:
    """A callback has raised (R8)."""
    global tw_exit
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        if tw_exit == NULL:
            Py_INCREF(error)
            tw_exit = <PyObject*>error
    elif operation.keeper is not None:
        operation.keeper.report(operation, error)
    else:
        logging.getLogger("tickwheel").error("%r raised", operation, exc_info=error)
    return 0


cdef int finish(DelayedOperation operation) except -1:
    """Run the callbacks of a completed operation: now, or, inside a callback, as an errand."""
    cdef Finish errand
    if tw_depth == 1:
        return run_finish(operation)
    errand = Finish.__new__(Finish)
    errand.operation = operation
    return postpone(errand)


cdef int run_finish(DelayedOperation operation) except -1:
    call_back(operation, ON_COMPLETE)
    if operation.fate == EXPIRED:
        call_back(operation, ON_EXPIRATION)
    return 0


# Deciding ---------------------------------------------------------------------------------------

cdef Decision decide(DelayedOperation operation, Fate fate, State left) except *:
    """Give an operation its fate, if it has none, and take it out of its lists and its timer; its task
    is `left` in that state. The one who wins runs the finish, unless it is handed to a thread inside."""
    cdef Decision decision = WON
    cdef Keeper keeper
    with cython.critical_section(operation):
        keeper = operation.keeper
        if operation.fate != UNDECIDED:
            decision = LOST
        else:
            operation.fate = fate
            operation.leaving += fate == DROPPED
            if operation.inside != 0 and fate != DROPPED:
                operation.notes |= FINISH
                if fate == COMPLETED and operation.inside == PyThread_get_thread_ident():
                    operation.notes |= MINE
                decision = HANDED
    if decision != LOST:
        if keeper is not None:
            keeper.let_go(operation, left)
        if fate == DROPPED:
            with cython.critical_section(operation):
                operation.leaving -= 1
    return decision


cdef bint come_in(DelayedOperation operation, Keeper keeper, TaskOwner owner) except -1:
    """Give the keeper, and its timer, an operation that nobody has, and go inside. False: it is complete.

    RuntimeError: it is in a purgatory or a timer, or a thread is not done with it. Of two that bring
    it at once, one gets it.
    """
    cdef bint taken = False
    cdef bint busy = False
    cdef Keeper _keeper = None      # DECREF after the section
    cdef TaskOwner _owner = None
    with cython.critical_section(operation):
        # All or nothing, in the section: a claim that is taken back would undo another thread's.
        if operation.fate != COMPLETED and operation.fate != EXPIRED:
            # The state alone does not tell whether somebody has it: with its timer closed, it is IDLE.
            taken = is_live(operation) or (operation.fate == UNDECIDED and operation.keeper is not None)
            busy = operation.inside != 0 or operation.leaving != 0
            if not taken and not busy:
                _owner = operation.owner
                _keeper = operation.keeper
                operation.state = PENDING
                operation.owner = owner
                operation.inside = PyThread_get_thread_ident()
                operation.keeper = keeper
                operation.fate = UNDECIDED
                return True
    if taken:
        raise RuntimeError(f"the operation is already in a purgatory or a timer: {operation!r}")
    if busy:
        raise RuntimeError(f"the operation was dropped, and a thread is not done with it: {operation!r}")
    return False


cdef bint go_inside(DelayedOperation operation) except -1:
    """Enter `try_complete`. False: it is decided; or another thread is inside, and will try once more."""
    cdef bint inside = False
    with cython.critical_section(operation):
        if operation.fate == UNDECIDED:
            if operation.inside == 0:
                operation.inside = PyThread_get_thread_ident()
                inside = True
            else:
                operation.notes |= AGAIN
    return inside


cdef int try_once(DelayedOperation operation) except -1:
    """Inside: call `try_complete`."""
    if call_back(operation, TRY_COMPLETE):
        decide(operation, COMPLETED, CANCELLED)
    return 0


cdef bint come_out(DelayedOperation operation, uint8_t* notes) except -1:
    """Leave `try_complete`, with the notes that others left. False: it must be tried once more."""
    cdef bint out = True
    with cython.critical_section(operation):
        if operation.fate == UNDECIDED and operation.notes & AGAIN:
            operation.notes &= ~AGAIN
            out = False
        else:
            operation.inside = 0
            notes[0] = operation.notes
            operation.notes = 0
    return out


cdef bint attempt(DelayedOperation operation) except -1:
    """Try to complete an operation: whether that did it. Between `begin` and `end`."""
    cdef uint8_t notes = 0
    if not go_inside(operation):
        return False
    try_once(operation)
    while not come_out(operation, &notes):
        try_once(operation)
    if notes & FINISH:
        finish(operation)
    return notes & MINE != 0


@cython.no_gc
cdef class DelayedOperation(TimerTask):
    """The base of your own: an operation that completes when one of its keys says so, or after `timeout`
    seconds, exactly once.

    Override `try_complete`, `on_complete`, `on_expiration`, and give it to a
    `DelayedOperationPurgatory`. ValueError: the timeout is NaN or infinite.
    """

    def __init__(self, double timeout):
        construct(self, timeout, "timeout")

    def try_complete(self):
        """Whether the operation can complete now: return True then, or call `force_complete()`.

        Never runs in two threads at once, nor after the operation was decided.
        """
        return False

    def on_complete(self):
        """What completing means. Runs exactly once, in one thread, whoever decided."""

    def on_expiration(self):
        """Runs after `on_complete`, only if the timeout won."""

    def run(self):
        """The timeout has come."""
        begin()
        try:
            if decide(self, EXPIRED, FIRED) == WON:
                finish(self)
        finally:
            end()

    def force_complete(self):
        """Complete it now. True if this call won; `on_complete` has run then, unless it was handed to a
        thread that is inside `try_complete`, or this is inside a callback. Never waits. O(its keys)."""
        cdef Decision decision
        begin()
        try:
            decision = decide(self, COMPLETED, CANCELLED)
            if decision == WON:
                finish(self)
        finally:
            end()
        return decision != LOST

    def cancel(self):
        """Drop it: it leaves every list and the timer, and never completes. True if this call did so. R3."""
        cdef Keeper keeper
        cdef bint alone = False
        with cython.critical_section(self):
            keeper = self.keeper
            if keeper is None or keeper.forked():
                if self.owner is None:
                    return False
                # No purgatory has it, and none gets it while a timer is asked: that could not tell its own
                # task from one of a purgatory, which is taken out by whoever decides, and by nobody else.
                alone = True
                self.leaving += 1
        if not alone:
            return decide(self, DROPPED, CANCELLED) != LOST
        try:
            return TimerTask.cancel(self)
        finally:
            with cython.critical_section(self):
                self.leaving -= 1

    @property
    def is_completed(self):
        """Whether it is decided that it completes, or has expired; `on_complete` may be yet to run."""
        return self.fate == COMPLETED or self.fate == EXPIRED


cdef class Keeper:

    cdef bint forked(self) noexcept:
        return False

    cdef int let_go(self, DelayedOperation operation, State left) except -1:
        raise NotImplementedError

    cdef int report(self, DelayedOperation operation, object error) except -1:
        raise NotImplementedError
