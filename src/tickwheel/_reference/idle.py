"""IdleFront and its clients in plain Python: the mirror of `_idle.pyx`.

The protocol
------------
A key is online iff `_clients` has a client for it. The dictionary changes under the tracker's lock alone; a
touch takes no lock. Nothing is lost between them, since

    a touch                                     who ends a client, under the lock
    1. finds the client of the key              1. takes the client offline: `online = False`
    2. stores its stamp                         2. reads its stamp
    3. looks whether it is online               3. not due: online again, and the task is moved
       yes: done                                   due: out of the dictionary
       no: once more, under the lock            4. reads the stamp once more. Not due: back again

A stamp that comes too late to be read at 2 belongs to a touch that finds the client offline. It waits for
the lock, and then finds the client online again, or begins the key anew. The other way round (the stamp
read, then the client taken offline) a whole touch fits between the two, and is lost.

Step 4 is for calls that come from within, in the thread that has the lock: of a key's `__eq__`, a
destructor, a signal's handler. Such a touch finds the client in the dictionary, though offline, stores its
stamp and is done: the end that goes on afterwards will see it. One that comes after 3 finds no client.

A client that is gone has no task, and never comes online again: whoever found it earlier begins anew. In
the compiled core 2 and 3 of a touch are one step, and 1 to 3 of the end but for the dictionary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tickwheel._reference.task import TimerTask
from tickwheel._reference.timercore import TimerCore

NS = 1e-9  # seconds: as for any deadline (R1), what is nearer than this has come


class IdleClient:
    """A key from coming online to going offline; its identity tells it from the key's next time.

    `stamp` and `born` are seconds on the timer's clock; `task` calls it. Its methods are for who has the
    tracker's lock.
    """

    __slots__ = ("_tracker", "born", "key", "online", "stamp", "task")

    def __init__(self, tracker: Any, key: Any, now: float) -> None:
        self._tracker = tracker
        self.key = key
        self.born = self.stamp = now
        self.online = True
        self.task: TimerTask | None = None  # None: gone for good

    def __call__(self) -> None:
        self._tracker._look(self)

    def keep(self, now: float) -> bool:
        """A touch that has the lock. False: it is gone."""
        self.stamp = now
        return self.task is not None

    def left(self, now: float, timeout: float, max_age: float) -> float:
        """Seconds until it is due; 0.0: it is, by a nanosecond."""
        left = min(self.stamp + timeout, self.born + max_age) - now
        return left if left >= NS else 0.0

    def look(self, now: float, timeout: float, max_age: float) -> float:
        """The same, and it goes offline if it is due; else it is online, unless it is gone."""
        self.online = False
        left = self.left(now, timeout, max_age)
        if left and self.task is not None:  # no call from here on: it cannot have gone in between
            self.online = True
        return left

    def leave(self) -> None:
        """Go offline for good, with the task."""
        self.online = False
        task, self.task = self.task, None
        if task is not None:
            task.cancel()


class IdleFront:
    """The method of `IdleTracker` that is called once a packet.

    `IdleTracker` above it provides `_begin(key) -> bool`, a touch of a key that is not online, and
    `_check_key(key)`, which raises if the key is not hashable.
    """

    _begin: Callable[[Any], bool]
    _check_key: Callable[[Any], None]

    def __init__(self, core: TimerCore) -> None:
        self._now = core.now
        self._clients: dict[Any, IdleClient] = {}

    def touch(self, key: Any) -> bool:
        """The client is alive. True: it was offline, and has just come online.

        O(1): a look-up, a store and no lock for a key that is online. TypeError: `key` is not hashable.
        RuntimeError: the tracker is closed. For a key that comes online also what the timer raises: it is
        closed, or full (`TooManyPending`).
        """
        now = self._now()
        try:
            client = self._clients.get(key)
        except TypeError:
            self._check_key(key)
            raise
        if client is not None:
            client.stamp = now
            if client.online:
                return False
        return self._begin(key)
