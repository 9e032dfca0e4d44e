"""PurgatoryCore and the front of the purgatory, in plain Python: the mirror of `_purgatory.pyx`.

The section of the core is an RLock. What must be whole in it for destructors and signal handlers is in
`watchers`; whatever they decide while an operation is being linked, the linking sees at its end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from tickwheel._reference.histogram import SIZE, index_of
from tickwheel._reference.operation import (
    COMPLETED,
    DROPPED,
    EXPIRED,
    FINISH,
    LOST,
    UNDECIDED,
    DelayedOperation,
    attempt,
    begin,
    come_in,
    come_out,
    decide,
    end,
    finish,
    in_callback,
    postpone,
    run_errands,
    try_once,
)
from tickwheel._reference.task import CANCELLED, IDLE, PENDING, TaskState
from tickwheel._reference.timercore import TimerCore
from tickwheel._reference.watchers import Watchers, WatchTable

CLOSED = "the purgatory is closed"

Watching = Watchers[DelayedOperation]


class PurgatoryCore:
    """Keys, watches and counters of one purgatory."""

    def __init__(self, timer: TimerCore, purge_interval: int | None) -> None:
        self.timer = timer
        self._purge_interval = purge_interval
        self._lock = threading.RLock()
        self._closed = False
        self._purging = False  # a purge is asked for
        self.table: WatchTable[DelayedOperation] = WatchTable()
        self._estimate = 0  # of the operations in the lists, completed ones too
        self._waiting = 0  # of those in the lists: undecided
        self._delayed = 0  # of these: in the timer
        self._completed = self._expired = self._dropped = 0
        self._errors = self._purges = self._purged = self._lateness_max = 0
        self._lateness = [0] * SIZE

    # Keys

    def find(self, key: object, add: bool) -> Watching | None:
        """The watchers of a key, pinned. None: it has none, and none were to be added."""
        hashed = hash(key)
        while True:
            with self._lock:
                version = self.table.version
                chain = self.table.chain(hashed)
            for watchers in chain:
                with self._lock:
                    pinned = self.table.pin(watchers)
                if pinned:
                    same = False
                    try:
                        same = watchers.key is key or bool(watchers.key == key)
                    finally:
                        if not same:
                            with self._lock:
                                self.table.unpin(watchers)
                    if same:
                        return watchers
            fresh: Watching | None = Watchers(key, hashed) if add else None
            with self._lock:
                # If others came meanwhile, the key's own may be among them.
                if fresh is None and self.table.version == version:
                    return None
                if fresh is not None and self.table.add(fresh, version):
                    return fresh

    def _resolve(self, keys: tuple[object, ...], pinned: list[Watching]) -> None:
        """Pin the watchers of all keys. All that the keys' own code can spoil is spoiled here."""
        for key in keys:
            watchers = self.find(key, True)
            assert watchers is not None
            pinned.append(watchers)

    def _unpin(self, pinned: list[Watching]) -> None:
        with self._lock:
            for watchers in pinned:
                self.table.unpin(watchers)

    # Watching

    def watch(self, operation: DelayedOperation, keys: tuple[object, ...]) -> bool:
        """Try, watch all keys, try again; then into the timer. Whether the operation is complete.
        Before the first try its keys are known to be good, and its place in the timer is reserved."""
        pinned: list[Watching] = []
        admitted = False
        self.timer.reserve()
        try:
            self._resolve(keys, pinned)
            admitted = self._admit(operation)
        finally:
            if not admitted:
                self.timer.unreserve()
                self._unpin(pinned)
        if not admitted:
            return True
        try:
            refused = self._try_and_watch(operation, pinned)
        except BaseException:  # an interrupt in a callback, a closed timer: nothing stays watched
            decide(operation, DROPPED, CANCELLED)
            if operation._state is PENDING and operation._owner is None:
                operation._state = IDLE
            raise
        if operation.is_completed:
            return True
        if refused:
            raise RuntimeError(CLOSED)
        return False

    def _try_and_watch(self, operation: DelayedOperation, pinned: list[Watching]) -> bool:
        """Inside, with watches of its own. True: refused, the purgatory is closed."""
        begin()
        try:
            if operation._fate is UNDECIDED:
                try_once(operation)
            refused = not self._link(operation, pinned)
            if refused:
                decide(operation, DROPPED, IDLE)
            elif operation._fate is UNDECIDED:
                try_once(operation)
            # Inside until it is in the timer: only then may another thread drop it and bring it again.
            if operation._fate is UNDECIDED:
                try:
                    self._delay(operation)
                except BaseException:
                    decide(operation, DROPPED, CANCELLED)
                    if (come_out(operation) or 0) & FINISH:  # it was completed meanwhile
                        finish(operation)
                    raise
            else:
                self.timer.unreserve()
                operation._state = self._left()
            while (notes := come_out(operation)) is None:
                try_once(operation)
            if notes & FINISH:
                finish(operation)
        finally:
            end()
        return refused

    def _left(self) -> TaskState:
        """The state of an operation that was decided before it was in the timer."""
        return IDLE if self._closed else CANCELLED

    def _admit(self, operation: DelayedOperation) -> bool:
        """Make the operation ours alone, and go inside. False: it is complete."""
        if self._closed:
            raise RuntimeError(CLOSED)
        if operation._delay != operation._delay:
            kind = type(operation).__name__
            raise RuntimeError(f"{kind}.__init__ must call DelayedOperation.__init__(timeout)")
        return come_in(operation, self)

    def _link(self, operation: DelayedOperation, pinned: list[Watching]) -> bool:
        """Put the operation on the lists, unless it is decided. False: the purgatory is closed."""
        watches = tuple(pinned)
        with self._lock:
            if not self._closed and operation._fate is UNDECIDED:
                for watchers in watches:
                    self.table.link(watchers, operation)
                # From reading the fate to writing the last figure there is no call: nobody comes between.
                if operation._fate is UNDECIDED:
                    operation._watches = watches
                    self._estimate += 1
                    self._waiting += 1
                else:  # a handler has met what was linked until then
                    self._take(operation, watches)
            self._unpin(pinned)
            return not self._closed

    def _delay(self, operation: DelayedOperation) -> None:
        """Put a watched operation into the timer, and out again if it was decided meanwhile."""
        try:
            now = self.timer.now()
        except BaseException:  # a clock of the user's
            self.timer.unreserve()
            raise
        with self._lock:
            # Before it is there: once it is, it may be dropped and be in another purgatory in no time.
            if operation._fate is UNDECIDED:
                operation._delayed = True
                self._delayed += 1
        operation._when = now + operation._delay
        self.timer.start_reserved(operation, now, operation._delay <= 0)
        if operation._fate is not UNDECIDED:
            self.timer.withdraw(operation, self._left())

    # Leaving

    def _take(self, operation: DelayedOperation, watches: Iterable[Watching]) -> None:
        for watchers in watches:
            self.table.unlink(watchers, operation)

    def let_go(self, operation: DelayedOperation, left: TaskState) -> None:
        """A decided operation leaves the timer, and, unless it waits for a purge, the lists. O(its keys)."""
        if self.timer.forked:
            return
        purge = False
        with self._lock:
            if operation._fate is COMPLETED:
                self._completed += 1
            elif operation._fate is EXPIRED:
                self._expired += 1
            else:
                self._dropped += 1
            if operation._delayed:
                operation._delayed = False
                self._delayed -= 1
            watches, operation._watches = operation._watches, ()
            if watches:
                self._waiting -= 1
                if self._purge_interval is None or operation._fate is DROPPED:
                    self._take(operation, watches)
                if self._purge_interval is not None and self._estimate - self._waiting > self._purge_interval:
                    self._estimate = self._waiting
                    purge, self._purging = not self._purging, True
        if operation._fate is EXPIRED:
            self._count_lateness(operation)
        else:
            self.timer.withdraw(operation, left)
        if purge:
            self.timer.post(self.purge)

    def _count_lateness(self, operation: DelayedOperation) -> None:
        try:
            late = (self.timer.now() - operation._when) * 1e9
        except BaseException as error:  # a clock of the user's
            self.report(operation, error)
            return
        late_ns = max(0, int(min(late, 9.2e18)))
        with self._lock:
            self._lateness[index_of(late_ns)] += 1
            if late_ns > self._lateness_max:
                self._lateness_max = late_ns

    def _undecided(self, watchers: Watching) -> list[DelayedOperation]:
        """The undecided operations of a list, as they came; the others leave it. Unpins it."""
        with self._lock:
            operations = list(watchers.operations.values())
            for operation in operations:
                if operation._fate is not UNDECIDED:
                    self.table.unlink(watchers, operation)
            self.table.unpin(watchers)
        return [operation for operation in operations if operation._fate is UNDECIDED]

    def _drop(self, operations: list[DelayedOperation], left: TaskState) -> list[DelayedOperation]:
        """Take undecided operations out of everything; those that nobody else decided first."""
        return [operation for operation in operations if decide(operation, DROPPED, left) is not LOST]

    # Checking

    def check_key(self, key: object) -> int:
        if self.timer.forked:
            return 0
        watchers = self.find(key, False)
        if watchers is None:
            return 0
        found = watchers
        begin()
        try:
            if not in_callback():
                return self._check_watchers(found, True)
            postpone(lambda: self._check_watchers(found, False))
            return 0
        finally:
            end()

    def _check_watchers(self, watchers: Watching, outermost: bool) -> int:
        """Try all that wait on a list, now. How many this call completed. Unpins it."""
        completed = 0
        for operation in self._undecided(watchers):
            completed += attempt(operation)
            if outermost:  # an errand's errands queue behind it: a chain of them must not recurse
                run_errands()
        return completed

    def cancel_key(self, key: object) -> list[DelayedOperation]:
        if self.timer.forked:
            return []
        watchers = self.find(key, False)
        return [] if watchers is None else self._drop(self._undecided(watchers), CANCELLED)

    # For the floor above

    @property
    def forked(self) -> bool:
        return self.timer.forked

    def _sweep(self) -> int:
        """Take completed operations out of all lists: how many watches. O(watches)."""
        before = self.table.watched
        for watchers in self.table:
            with self._lock:
                pinned = self.table.pin(watchers)
            if pinned:
                self._undecided(watchers)
        return before - self.table.watched

    def purge(self) -> None:
        """What a completion asked for: take completed operations out of all lists."""
        if self.timer.forked:
            return
        with self._lock:
            self._purging = False
        purged = self._sweep()
        with self._lock:
            self._purges += 1
            self._purged += purged

    def close(self) -> list[DelayedOperation]:
        """Take no more operations, and drop all that wait: IDLE, in the order of their deadlines."""
        if self.timer.forked:
            return []
        with self._lock:
            self._closed = True
            waiting = {
                number: operation
                for watchers in self.table
                for number, operation in watchers.operations.items()
            }
        operations = self._drop(list(waiting.values()), IDLE)
        self._sweep()
        operations.sort(key=lambda operation: operation._when)
        return operations

    @property
    def closed(self) -> bool:
        return self._closed or self.timer.forked

    def report(self, operation: DelayedOperation, error: BaseException) -> None:
        with self._lock:
            self._errors += 1
        self.timer.report(operation, error)

    def counts(self) -> tuple[Any, ...]:
        """watched, delayed, completed, expired, dropped, errors, purges, purged, lateness_max (ns),
        lateness histogram."""
        if self.timer.forked:
            return 0, 0, 0, 0, 0, 0, 0, 0, 0, []
        with self._lock:
            return (
                self.table.watched, self._delayed, self._completed, self._expired, self._dropped,
                self._errors, self._purges, self._purged, self._lateness_max, list(self._lateness),
            )  # fmt: skip

    def check(self) -> None:
        """AssertionError that names the broken invariant."""
        with self._lock:
            self.table.check()


class PurgatoryFront:
    """The methods of `DelayedOperationPurgatory` that are called once an operation or an event."""

    def __init__(self, core: PurgatoryCore) -> None:
        self._core = core

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[object]) -> bool:
        """Try to complete an operation; if it cannot be yet, let it wait for its keys and its timeout.

        True iff it is complete on return. `try_complete` is called, and once more when all keys are
        watched, so that no event is missed; a key that is named twice is watched once. ValueError: no
        keys. RuntimeError: it is in a purgatory, or this one is closed. `TooManyPending`: `max_pending`
        tasks are in the timer. O(keys + levels).
        """
        if not isinstance(operation, DelayedOperation):
            raise TypeError(f"operation must be a DelayedOperation, got {operation!r}")
        if isinstance(keys, str | bytes):
            raise TypeError(f"keys must be an iterable of keys, got {keys!r}")
        names = tuple(keys)
        if not names:
            raise ValueError(f"keys must name at least one key, got {keys!r}")
        if operation.is_completed:
            return True
        return self._core.watch(operation, names)

    def check_and_complete(self, key: object) -> int:
        """Something happened to `key`: try all operations that watch it. How many this call completed.

        One that another thread is inside of is handed to that thread; inside a callback the check
        is made when that has returned, and this returns 0. O(operations watching the key).
        """
        return self._core.check_key(key)

    def cancel_for_key(self, key: object) -> list[DelayedOperation]:
        """Drop all operations that watch `key`, from every list and the timer, and return them; those
        that were complete are not among them. O(operations x their keys)."""
        return self._core.cancel_key(key)

    @property
    def watched(self) -> int:
        """(operation, key) pairs in the lists."""
        return 0 if self._core.timer.forked else self._core.table.watched

    @property
    def delayed(self) -> int:
        """Operations that wait for their timeout."""
        return 0 if self._core.timer.forked else self._core._delayed

    def _check(self) -> None:
        """AssertionError that names the broken invariant of lists or table."""
        self._core.check()
