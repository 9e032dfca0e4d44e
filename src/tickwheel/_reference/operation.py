"""DelayedOperation, and who runs its callbacks, when, in plain Python: the mirror of `_operation.pyx`.

docs/purgatory.md tells the story of the locks. The section of an operation is one lock for all of them, and
inside it there is no call: destructors and signal handlers, which may come back here, find it whole.
"""

from __future__ import annotations

import enum
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, Self

from tickwheel._reference.task import CANCELLED, FIRED, PENDING, QUEUED, TaskState, TimerTask, check_finite

if TYPE_CHECKING:
    from tickwheel._reference.watchers import Watchers


class Fate(enum.Enum):
    """What became of an operation."""

    UNDECIDED = enum.auto()
    COMPLETED = enum.auto()
    EXPIRED = enum.auto()
    DROPPED = enum.auto()  # cancelled, or handed back: it may be watched again


UNDECIDED, COMPLETED, EXPIRED, DROPPED = Fate


class Decision(enum.Enum):
    """What came of deciding."""

    LOST = enum.auto()  # it was decided before
    WON = enum.auto()  # the caller runs the finish
    HANDED = enum.auto()  # the thread inside runs the finish


LOST, WON, HANDED = Decision

TRY_COMPLETE = "try_complete"

# Notes for the thread that is inside `try_complete`.
AGAIN = 1  # something happened meanwhile: try once more
FINISH = 2  # it was decided meanwhile: run on_complete
MINE = 4  # by the thread inside itself, not by the timeout


class Keeper(Protocol):
    """What an operation knows of its purgatory."""

    @property
    def forked(self) -> bool: ...
    def let_go(self, operation: DelayedOperation, left: TaskState) -> None: ...
    def report(self, operation: DelayedOperation, error: BaseException) -> None: ...


class _Thread(threading.local):
    """What a thread has to do."""

    def __init__(self) -> None:
        self.depth = 0  # entries that it is in, one in the other's callback
        self.errands: deque[Callable[[], object]] = deque()
        self.exit: BaseException | None = None  # the KeyboardInterrupt or SystemExit to raise at the end


class _Section:
    """The lock of all operations."""

    lock = threading.RLock()

    @classmethod
    def renew(cls) -> None:
        """In a child of fork, the old one may be held by a thread that is gone."""
        cls.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Section.renew)

_thread = _Thread()


# Entries and errands


def begin() -> None:
    """From here to `end`, what this thread's callbacks ask for becomes an errand."""
    _thread.depth += 1


def end() -> None:
    """Carry out the errands, if this is the outermost entry, and raise what was kept back for its end."""
    thread = _thread
    while True:
        run_errands()
        thread.depth -= 1
        if thread.depth or not thread.errands:
            break
        thread.depth += 1  # a signal handler left one more
    if not thread.depth and thread.exit is not None:
        error, thread.exit = thread.exit, None
        raise error


def in_callback() -> bool:
    """Between `begin` and `end`: whether that is inside a callback of this thread."""
    return _thread.depth > 1


def postpone(errand: Callable[[], object]) -> None:
    """Let this thread carry it out when its outermost callback has returned."""
    _thread.errands.append(errand)


def run_errands() -> None:
    """First come first served, outside all callbacks; those that come meanwhile too."""
    thread = _thread
    while thread.depth == 1 and thread.errands:
        thread.errands.popleft()()


# Callbacks


def _call_back(operation: DelayedOperation, name: str) -> bool:
    """Call a method of the user's: the truth of a `try_complete`. One that raises is reported, and False."""
    try:
        answer = getattr(operation, name)()
        return name == TRY_COMPLETE and bool(answer)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            if _thread.exit is None:
                _thread.exit = error
        elif operation._keeper is not None:
            operation._keeper.report(operation, error)
        else:
            logging.getLogger("tickwheel").error("%r raised", operation, exc_info=error)
    return False


def finish(operation: DelayedOperation) -> None:
    """Run the callbacks of a completed operation: now, or, inside a callback, as an errand."""
    if _thread.depth == 1:
        _run_finish(operation)
    else:
        postpone(lambda: _run_finish(operation))


def _run_finish(operation: DelayedOperation) -> None:
    _call_back(operation, "on_complete")
    if operation._fate is EXPIRED:
        _call_back(operation, "on_expiration")


# Deciding


def decide(operation: DelayedOperation, fate: Fate, left: TaskState) -> Decision:
    """Give an operation its fate, if it has none, and take it out of its lists and its timer; its task
    is `left` in that state. The one who wins runs the finish, unless it is handed to a thread inside."""
    thread = threading.get_ident()
    decision = WON
    with _Section.lock:
        if operation._fate is not UNDECIDED:
            return LOST
        operation._fate = fate
        operation._leaving += fate is DROPPED
        if operation._inside and fate is not DROPPED:
            mine = fate is COMPLETED and operation._inside == thread
            operation._notes |= FINISH | MINE if mine else FINISH
            decision = HANDED
        keeper = operation._keeper
    if keeper is not None:
        keeper.let_go(operation, left)
    if fate is DROPPED:
        with _Section.lock:
            operation._leaving -= 1
    return decision


def come_in(operation: DelayedOperation, keeper: Keeper) -> bool:
    """Give the keeper an operation that nobody has, and go inside. False: it is complete.

    RuntimeError: it is in a purgatory or a timer, or a thread is not done with it. Of two that bring
    it at once, one gets it.
    """
    thread = threading.get_ident()
    with _Section.lock:
        # All or nothing, in the section: a claim that is taken back would undo another thread's.
        if operation._fate is COMPLETED or operation._fate is EXPIRED:
            return False
        # The state alone does not tell whether somebody has it: with its timer closed, it is IDLE.
        live = operation._state is PENDING or operation._state is QUEUED
        taken = live or (operation._fate is UNDECIDED and operation._keeper is not None)
        if not taken and not operation._inside and not operation._leaving:
            operation._state = PENDING
            operation._owner = None
            operation._inside = thread
            operation._keeper = keeper
            operation._fate = UNDECIDED
            return True
    if taken:
        raise RuntimeError(f"the operation is already in a purgatory or a timer: {operation!r}")
    raise RuntimeError(f"the operation was dropped, and a thread is not done with it: {operation!r}")


def go_inside(operation: DelayedOperation) -> bool:
    """Enter `try_complete`. False: it is decided; or another thread is inside, and will try once more."""
    thread = threading.get_ident()
    with _Section.lock:
        if operation._fate is not UNDECIDED:
            return False
        if operation._inside:
            operation._notes |= AGAIN
            return False
        operation._inside = thread
    return True


def try_once(operation: DelayedOperation) -> None:
    """Inside: call `try_complete`."""
    if _call_back(operation, TRY_COMPLETE):
        decide(operation, COMPLETED, CANCELLED)


def come_out(operation: DelayedOperation) -> int | None:
    """Leave `try_complete`, with the notes that others left. None: it must be tried once more."""
    with _Section.lock:
        if operation._fate is UNDECIDED and operation._notes & AGAIN:
            operation._notes &= ~AGAIN
            return None
        operation._inside = 0
        notes, operation._notes = operation._notes, 0
        return notes


def attempt(operation: DelayedOperation) -> bool:
    """Try to complete an operation: whether that did it. Between `begin` and `end`."""
    if not go_inside(operation):
        return False
    notes = None
    while notes is None:
        try_once(operation)
        notes = come_out(operation)
    if notes & FINISH:
        finish(operation)
    return notes & MINE != 0


class DelayedOperation(TimerTask):
    """The base of your own: an operation that completes when one of its keys says so, or after `timeout`
    seconds, exactly once.

    Override `try_complete`, `on_complete`, `on_expiration`, and give it to a
    `DelayedOperationPurgatory`. ValueError: the timeout is NaN or infinite.
    """

    __slots__ = ("_delayed", "_fate", "_inside", "_keeper", "_leaving", "_notes", "_watches")

    _fate: Fate
    _notes: int
    _inside: int  # the thread in its try_complete; 0: none
    _keeper: Keeper | None  # of the purgatory that has it or had it last
    _watches: tuple[Watchers[DelayedOperation], ...]  # whose lists it is on
    _leaving: int  # threads that take it out of its lists or its timer: until then nobody brings it
    _delayed: bool  # counted as such by its purgatory

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        operation = super().__new__(cls)
        operation._fate = UNDECIDED
        operation._notes = operation._inside = operation._leaving = 0
        operation._keeper = None
        operation._watches = ()
        operation._delayed = False
        return operation

    def __init__(self, timeout: float) -> None:
        super().__init__(check_finite(timeout, "timeout"))

    def try_complete(self) -> bool:
        """Whether the operation can complete now: return True then, or call `force_complete()`.

        Never runs in two threads at once, nor after the operation was decided.
        """
        return False

    def on_complete(self) -> None:
        """What completing means. Runs exactly once, in one thread, whoever decided."""

    def on_expiration(self) -> None:
        """Runs after `on_complete`, only if the timeout won."""

    def run(self) -> None:
        """The timeout has come."""
        begin()
        try:
            if decide(self, EXPIRED, FIRED) is WON:
                finish(self)
        finally:
            end()

    def force_complete(self) -> bool:
        """Complete it now. True if this call won; `on_complete` has run then, unless it was handed to a
        thread that is inside `try_complete`, or this is inside a callback. Never waits. O(its keys)."""
        begin()
        try:
            decision = decide(self, COMPLETED, CANCELLED)
            if decision is WON:
                finish(self)
        finally:
            end()
        return decision is not LOST

    def cancel(self) -> bool:
        """Drop it: it leaves every list and the timer, and never completes. True if this call did so. R3."""
        keeper = self._keeper
        if keeper is None or keeper.forked:
            with _Section.lock:
                alone = self._keeper is keeper
                if alone and self._owner is None:
                    return False
                # No purgatory has it, and none gets it while a timer is asked: that could not tell its own
                # task from one of a purgatory, which is taken out by whoever decides, and by nobody else.
                self._leaving += alone
            if alone:
                try:
                    return super().cancel()
                finally:
                    with _Section.lock:
                        self._leaving -= 1
        return decide(self, DROPPED, CANCELLED) is not LOST

    @property
    def is_completed(self) -> bool:
        """Whether it is decided that it completes, or has expired; `on_complete` may be yet to run."""
        return self._fate is COMPLETED or self._fate is EXPIRED
