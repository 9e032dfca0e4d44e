"""IdleTracker: clients that fall silent, each told once. A touch is a look-up and a stamp."""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, TypeVar

from tickwheel._core import IdleClient, IdleFront
from tickwheel.closing import Closing
from tickwheel.recipes.arguments import check_hashable, check_timer, seconds
from tickwheel.timer import Timer

__all__ = ["IdleStats", "IdleTracker"]

K = TypeVar("K", bound=Hashable)

CLOSED = "the tracker is closed"


class IdleStats(NamedTuple):
    """What an `IdleTracker` has done so far.

    arrived == idle + aged + removed + online, but for the keys that `close()` returned.
    """

    online: int  # keys tracked now
    arrived: int  # how often a key came online
    idle: int  # how often one was silent for the timeout
    aged: int  # how often one reached max_age before that
    removed: int  # how often `remove` returned True
    checks: int  # how often the timer looked at a key: once a timeout and key online, whatever the touches


class IdleTracker(Closing, IdleFront, Generic[K]):
    """Calls `on_idle(key)` once for each key that has not been touched for `timeout` seconds.

    timeout     seconds, > 0
    on_idle     called in the timer's executor, outside every lock; it may touch, remove and close
    max_age     seconds after coming online at which a key goes offline though it is touched; None: never
    timer       the timer to use; None for one of its own, which `close()` closes

    >>> tracker = IdleTracker(30.0, print)
    >>> tracker.touch("client 7"), tracker.touch("client 7"), len(tracker)
    (True, False, 1)
    >>> tracker.close()
    ['client 7']

    A key goes offline `timeout` after its last touch or `max_age` after its first, whichever comes first; at
    the same time: as silent. Never before that, and as much later as the timer's tick and executor make
    it. It is reported once, and may come again. About 240 bytes a key. Close it, or use it as a context
    manager: while keys are online, their tasks hold the tracker.
    """

    # `_reference/idle.py` says how a touch without the lock and an end under it come by each other. A key's
    # __eq__, a destructor or a signal's handler may call anything here from within, in the same thread. Hence
    # an RLock; each change is decided by one operation of the front; a client that is not in it has gone, or
    # goes when it is due, and is not told.

    def __init__(
        self,
        timeout: float,
        on_idle: Callable[[K], object],
        *,
        max_age: float | None = None,
        timer: Timer | None = None,
    ) -> None:
        self._timeout = seconds(timeout, "timeout")
        self._max_age = math.inf if max_age is None else seconds(max_age, "max_age")
        if not callable(on_idle):
            raise TypeError(f"on_idle must be callable, got {on_idle!r}")
        check_timer(timer)
        self._on_idle = on_idle
        self._owns_timer = timer is None
        self._timer = Timer(name="idle") if timer is None else timer
        super().__init__(self._timer._core, self._timeout, self._max_age)
        self._time = self._timer.time
        self._lock = threading.RLock()
        self._closed = False
        self._arrived = self._idle = self._aged = self._removed = self._checks = 0
        _trackers.add(self)

    if TYPE_CHECKING:

        def touch(self, key: K) -> bool: ...

    def _begin(self, key: K) -> bool:
        """A touch of a key that was not online a moment ago."""
        with self._lock:
            if self._closed:
                raise RuntimeError(CLOSED)
            if self._keep(key):
                return False
            client = IdleClient(self, key, self._time())
            # Periodic, and moved at each look: its place in the timer is its own, no move is refused.
            client.task = self._timer.schedule_every(min(self._timeout, self._max_age), client)
            if not self._enter(client):
                client.leave()
                return False
            if self._closed and self._take(key) is client:  # too late for `close` to see it
                client.leave()
                raise RuntimeError(CLOSED)
            self._arrived += 1
            return True

    def _look(self, client: IdleClient) -> None:
        """What a client's task calls: end the client if it is due, else look again when it will be."""
        with self._lock:
            if client.task is None:  # it was removed while this call waited for the lock
                return
            self._checks += 1
            how = self._end(client)
            if how is None:
                return
            self._idle += how == "idle"
            self._aged += how == "aged"
        self._on_idle(client.key)

    def remove(self, key: K) -> bool:
        """The client has gone by itself. True: it was online, and will not be reported. O(1)."""
        self._check_key(key)
        with self._lock:
            client = self._take(key)
            if client is None:
                return False
            client.leave()
            self._removed += 1
            return True

    def stats(self) -> IdleStats:
        """What it has done so far: see `IdleStats`."""
        with self._lock:
            return IdleStats(
                online=len(self),
                arrived=self._arrived,
                idle=self._idle,
                aged=self._aged,
                removed=self._removed,
                checks=self._checks,
            )

    def close(self) -> list[K]:
        """Stop, and return the keys that were online, in the order in which they came: they are not reported.

        From any thread and from `on_idle`, any number of times: later calls return nothing. Its own timer is
        closed, which waits for calls of `on_idle` that run, unless called from one; on another's timer one
        that has begun may outlast this call.
        """
        with self._lock:
            self._closed = True
            clients = self._take_all()
            for client in clients:
                client.leave()
        if self._owns_timer:
            self._timer.close()
        return [client.key for client in clients]

    def _after_fork(self) -> None:
        """In a child: its timer is empty, and the lock may be held by a thread that is gone."""
        self._lock = threading.RLock()
        self._forget()

    def _check(self) -> None:
        """AssertionError that names the broken invariant."""
        with self._lock:
            self._check_clients()
            clients = self._all()
            assert len(clients) == len(self), "D3: another number of clients than of keys"
            for client in clients:
                assert client.key in self, f"D3: {client.key!r} is not found"
                assert client.task is not None, f"D3: {client.key!r} is online and has no task"
                state = client.task.state
                assert state in ("PENDING", "QUEUED"), f"D3: {client.key!r} is online and its task {state}"

    _check_key = staticmethod(check_hashable)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot copy or pickle {self!r}: it has a timer and tasks")

    def __repr__(self) -> str:
        return f"<IdleTracker: {'closed' if self._closed else f'{len(self)} online'}>"


_trackers: weakref.WeakSet[IdleTracker[Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for tracker in list(_trackers):
        tracker._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
