"""The lines of a KeyedExecutor, one a key with something to do, and the threads that work on them."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, NamedTuple, NoReturn, TypeAlias

from tickwheel._core import TooManyPending
from tickwheel.log import logger

__all__ = ["Crew", "KeyedStats"]

# F2: so many calls of a line run before its worker takes another line, if one is ready.
TURN = 8

COMPLETED, FAILED, CANCELLED = range(3)
CLOSED = "the executor is shut down"
EXITING = "the interpreter is going down: no more calls are taken"
FORKED = "this executor was made before fork() and has no workers in the child: make a new one"

_exiting = False


class KeyedStats(NamedTuple):
    """What an executor has done so far. At every moment, submitted = pending + running + completed +
    failed + cancelled."""

    pending: int  # calls that wait for their turn, cancelled ones too until it comes
    running: int
    keys: int  # with a call that waits or runs
    longest: int  # the most calls of one key that wait
    blocked: int  # submits that wait for room; their calls are counted once they are in
    submitted: int
    completed: int  # returned
    failed: int  # raised
    cancelled: int  # never started


Call: TypeAlias = tuple[Future[Any], Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]


class Line(deque[Call]):
    """The calls of a key that wait."""

    __slots__ = ("busy", "key", "waiters")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.busy = False  # F1: it is in the ready queue, or a worker has it
        self.waiters = 0  # submits that wait for room in it: it stays in the map


class Waiter:
    """A submit that waits for room: whoever makes room puts its call into the line."""

    __slots__ = ("call", "gate", "line", "refused")

    def __init__(self, line: Line, call: Call) -> None:
        self.line = line
        self.call = call
        self.gate = threading.Lock()
        self.gate.acquire()
        self.refused = False


class Crew:
    """The lines, and the threads that work on them.

    One lock guards it all. It is reentrant, since a key's `__eq__`, a destructor or a signal handler may
    submit while their thread is inside. Calls and futures are run and settled outside of it.
    """

    def __init__(
        self,
        *,
        workers: int,
        max_pending: int | None,
        max_pending_per_key: int | None,
        may_wait: bool,
        name: str,
    ) -> None:
        self._workers = workers
        self._max_pending = sys.maxsize if max_pending is None else max_pending
        self._max_per_key = sys.maxsize if max_pending_per_key is None else max_pending_per_key
        self._may_wait = may_wait
        self._name = name
        self._closed = False
        self._forked = False
        self._begin()
        _crews.add(self)

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._lines: dict[Hashable, Line] = {}
        self._ready: SimpleQueue[Line | None] = SimpleQueue()  # None: time to end, perhaps
        self._waiters: list[Waiter] = []
        self._threads: list[threading.Thread] = []
        self._spare = 0  # workers without a line, less the lines that are ready
        self._keys = 0  # busy lines
        self.pending = 0
        self._running = 0
        self._ended = [0, 0, 0]

    # What submit does

    def take_in(self, key: Hashable, call: Call) -> None:
        interrupts = self._has_lock()
        with self._lock:
            self._check_open()
            if not self._threads:
                self._start_worker()  # raises where there is nobody to do the work
            line = self._lines.get(key)
            if line is None:
                # A destructor may have submitted this key since.
                line = self._lines.setdefault(key, Line(key))
            if self.pending < self._max_pending and len(line) < self._max_per_key:
                self._append(line, call)
                return
            if not self._may_wait or interrupts or self._is_worker():
                self._refuse(line)
            waiter = Waiter(line, call)
            line.waiters += 1
            self._waiters.append(waiter)
        try:
            waiter.gate.acquire()
        except BaseException:  # a signal's handler raised
            self._withdraw(waiter)
            raise
        if waiter.refused:
            raise RuntimeError(CLOSED)

    def _has_lock(self) -> bool:
        """Whether this is a destructor, a signal handler or a key's `__eq__` that runs inside of the crew:
        nobody else gets on while it waits."""
        owned: bool = self._lock._is_owned()  # type: ignore[attr-defined]
        return owned

    def _is_worker(self) -> bool:
        return threading.current_thread() in self._threads

    def _check_open(self) -> None:
        if self._forked:
            raise RuntimeError(FORKED)
        if _exiting:
            raise RuntimeError(EXITING)
        if self._closed:
            raise RuntimeError(CLOSED)

    def _append(self, line: Line, call: Call) -> None:
        line.append(call)
        self.pending += 1
        if not line.busy:
            line.busy = True
            self._keys += 1
            self._make_ready(line)

    def _make_ready(self, line: Line) -> None:
        self._spare -= 1
        self._ready.put(line)
        if self._spare < 0 and len(self._threads) < self._workers:
            try:
                self._start_worker()
            except RuntimeError:
                pass  # no thread to be had: those that there are will come to it

    def _refuse(self, line: Line) -> NoReturn:
        in_line = len(line)
        self._forget_idle(line)
        if in_line >= self._max_per_key:
            raise TooManyPending(f"max_pending_per_key is {self._max_per_key}, {in_line} calls of it wait")
        raise TooManyPending(f"max_pending is {self._max_pending}, {self.pending} calls wait")

    def _forget_idle(self, line: Line) -> None:
        if not line.busy and not line.waiters:
            try:
                del self._lines[line.key]
                if line.busy:  # the key's own code has submitted it meanwhile
                    self._lines.setdefault(line.key, line)
            except BaseException:
                pass  # a key that cannot be found: its line stays, idle, for the next submit of the key

    def _withdraw(self, waiter: Waiter) -> None:
        with self._lock:
            waits = waiter in self._waiters
            if waits:
                self._waiters.remove(waiter)
                self._let_go(waiter)
        if not waits:  # its call is in the line already
            waiter.call[0].cancel()

    def _let_go(self, waiter: Waiter) -> None:
        waiter.line.waiters -= 1
        self._forget_idle(waiter.line)

    # What workers do

    def _start_worker(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=False)
        thread.start()
        self._threads.append(thread)
        self._spare += 1

    def _work(self) -> None:
        while not self._forked:
            line = self._ready.get()
            if line is not None:
                self._take_turn(line)
                del line  # an idle worker pins nothing
            elif self._may_end():
                return

    def _take_turn(self, line: Line) -> None:
        turn = TURN
        while self._run_next(line, turn):
            turn -= 1

    def _run_next(self, line: Line, turn: int) -> bool:
        """Run the next call of the line. False: the turn is over, and the line where it belongs."""
        with self._lock:
            if not line or (turn <= 0 and not self._ready.empty()):
                self._spare += 1
                self._put_back(line)
                return False
            future, fn, args, kwargs = line.popleft()
            self.pending -= 1
            self._running += 1
            if self._waiters:
                self._admit()
        try:
            wanted = future.set_running_or_notify_cancel()
        except RuntimeError:  # somebody else has set its result: it is logged by then
            wanted = False
        if not wanted:
            self._count(CANCELLED)
            return True
        # The counts come first: who has the result finds it counted.
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:
            self._count(FAILED)
            _settle(future.set_exception, error)
            del future, fn, args, kwargs  # the traceback holds this frame
        else:
            self._count(COMPLETED)
            _settle(future.set_result, result)
        return not self._forked

    def _put_back(self, line: Line) -> None:
        if line:
            self._make_ready(line)
        else:
            line.busy = False
            self._keys -= 1
            self._forget_idle(line)

    def _admit(self) -> None:
        """F3: a call has left its line, so there is room for one more at most: the first that fits."""
        for waiter in self._waiters:
            if len(waiter.line) < self._max_per_key:
                self._waiters.remove(waiter)
                waiter.line.waiters -= 1
                self._append(waiter.line, waiter.call)
                waiter.gate.release()
                return

    def _count(self, outcome: int) -> None:
        with self._lock:
            if not self._forked:  # else the call forked, and goes on in the child
                self._running -= 1
                self._ended[outcome] += 1

    def _may_end(self) -> bool:
        """Whether a worker that came to the end of the queue may go. Lines that others work on are no
        reason to stay: they take them up again themselves."""
        with self._lock:
            empty = self._ready.empty()
            self._ready.put(None)  # for the next worker
            return empty

    # What the executor's owner does

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                self._let_go(waiter)
                waiter.refused = True
                waiter.gate.release()
            self._ready.put(None)

    def drop_pending(self) -> list[Future[Any]]:
        calls: list[Call] = []
        with self._lock:
            for line in list(self._lines.values()):
                while line:
                    calls.append(line.popleft())
            self.pending -= len(calls)
            self._ended[CANCELLED] += len(calls)
        return [call[0] for call in calls]

    def join(self) -> None:
        if not self._has_lock() and not self._is_worker():  # else it would wait for itself
            for thread in self._threads:  # one that is started meanwhile comes at the end
                thread.join()

    def stats(self) -> KeyedStats:
        with self._lock:
            completed, failed, cancelled = self._ended
            return KeyedStats(
                pending=self.pending,
                running=self._running,
                keys=self._keys,
                longest=max(map(len, list(self._lines.values())), default=0),
                blocked=len(self._waiters),
                submitted=self.pending + self._running + sum(self._ended),
                completed=completed,
                failed=failed,
                cancelled=cancelled,
            )

    def fork(self) -> None:
        """In the child: the workers are gone, and whatever they held is held for ever."""
        self._forked = self._closed = True
        self._begin()


def _settle(set_outcome: Callable[[Any], None], outcome: object) -> None:
    """Nothing of this ends the worker: somebody else has set the outcome, or a done callback raised."""
    try:
        set_outcome(outcome)
    except BaseException:
        logger().exception("the outcome of a call could not be told: %r", outcome)


_crews: weakref.WeakSet[Crew] = weakref.WeakSet()


def _close_all() -> None:
    """At the interpreter's exit: the workers do what waits, and `threading` waits for them."""
    global _exiting  # noqa: PLW0603
    _exiting = True
    for crew in list(_crews):
        crew.close()


def _after_fork() -> None:
    for crew in list(_crews):
        crew.fork()


# `atexit` comes too late: `threading` has waited for idle workers by then.
try:
    threading._register_atexit(_close_all)  # type: ignore[attr-defined]
except RuntimeError:  # imported on the way out
    _exiting = True
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
