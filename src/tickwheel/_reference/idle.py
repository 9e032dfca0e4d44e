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
the compiled core all of a touch is one step, and all of an end another.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

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
    """Who is online, and the method of `IdleTracker` that is called once a packet.

    `IdleTracker` above it provides `_begin(key) -> bool`, a touch of a key that is not online, and
    `_check_key(key)`, which raises if the key is not hashable. The names with an underscore are for who has
    its lock.
    """

    _begin: Callable[[Any], bool]
    _check_key: Callable[[Any], None]

    def __init__(self, core: TimerCore, timeout: float, max_age: float) -> None:
        self._now = core.now
        self._limits = timeout, max_age
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

    def __len__(self) -> int:
        """How many keys are online."""
        return len(self._clients)

    def __contains__(self, key: object) -> bool:
        return key in self._clients

    def _keep(self, key: Any) -> bool:
        """A touch. False: the key is not online, and nothing was done."""
        found = self._clients.get(key)
        return found is not None and found.keep(self._now())

    def _enter(self, client: IdleClient) -> bool:
        """The client comes online. False: its key is online already, by a call from within; that one is
        touched."""
        while (found := self._clients.setdefault(client.key, client)) is not client:
            if found.keep(self._now()):
                return False
        return True

    def _take(self, key: Any) -> IdleClient | None:
        """The client of a key that goes offline; None: it was not online."""
        return self._clients.pop(key, None)

    def _end(self, client: IdleClient) -> Literal["idle", "aged"] | None:
        """The client's task has called: "idle" or "aged" where it was due and has gone offline. None: it will
        call again when it is due, or it has gone, and nobody is to be told."""
        task = client.task
        assert task is not None, "who has gone does not end"
        timeout, max_age = self._limits
        while not (left := client.look(self._now(), timeout, max_age)):
            found = self._clients.pop(client.key, None)
            if found is not client:
                client.leave()  # if it has not gone, it never came: something was raised on the way
            if found is None:
                return None
            stamp = found.stamp
            if found is client and not client.left(self._now(), timeout, max_age):
                break
            # Back, unless the key has come anew in the meantime, as that touch was told.
            if self._clients.setdefault(found.key, found) is not found:
                break
            if found is not client:
                return None
        else:
            task.reschedule(left)
            return None
        found.leave()
        return "aged" if found.born + max_age < stamp + timeout else "idle"

    def _all(self) -> list[IdleClient]:
        """The clients online, in the order in which they came."""
        return list(self._clients.values())

    def _take_all(self) -> list[IdleClient]:
        """The same, and they go offline."""
        clients = []
        with suppress(KeyError):  # until it is empty
            while True:
                clients.append(self._clients.popitem()[1])
        return clients[::-1]

    def _forget(self) -> None:
        """In a child of fork."""
        self._clients = {}

    def _check_clients(self) -> None:
        """AssertionError that names what is broken."""
        for key, client in self._clients.items():
            assert client.online, f"D3: {key!r} is in the dictionary and its client offline"
