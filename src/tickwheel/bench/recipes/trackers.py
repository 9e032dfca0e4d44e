"""Who fell silent, the other designs. Each with one interface, that of `IdleTracker`:

    touch(key)      a sign of life
    remove(key)     forget it: True if it was there
    len, close
    on_idle(key)    called once for each silence of `timeout` seconds, from a thread

    Rearm       a timer for each key, moved at each touch
    Scan        a dictionary of stamps, looked through each second
    Ring        a slot for each second, a set of keys: a touch moves its key to the newest slot
    Order       stamps in the order of the last touch: the first is the next to fall silent
    Nothing     no tracker: what drives one costs so much without it
"""
from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from math import ceil
from threading import Event, Lock, Thread
from time import monotonic
from typing import Protocol

from tickwheel._core import TaskState, TimerTask
from tickwheel.timer import Timer

EVERY_S = 1.0       # between two scans, and between two turns of the ring

Key = int
OnIdle = Callable[[Key], object]


class Tracker(Protocol):
    def touch(self, key: Key, /) -> object: ...
    def remove(self, key: Key, /) -> bool: ...
    def __len__(self) -> int: ...
    def close(self) -> object: ...


class Nothing:
    def __init__(self, timeout: float, on_idle: OnIdle) -> None:
        pass

    def touch(self, key: Key) -> None:
        pass

    def remove(self, key: Key) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def close(self) -> None:
        pass


class Rearm:
    """A touch without a lock: `reschedule` is False once the check has begun, and the key begins again."""

    def __init__(self, timeout: float, on_idle: OnIdle, *, timer: Timer | None = None) -> None:
        self._timeout = timeout
        self._on_idle = on_idle
        self._owns_timer = timer is None
        self._timer = Timer(name="rearm") if timer is None else timer
        self._tasks: dict[Key, TimerTask] = {}
        self._lock = Lock()

    def touch(self, key: Key) -> None:
        try:
            if self._tasks[key].reschedule(self._timeout):
                return
        except KeyError:
            pass
        self._begin(key)

    def _begin(self, key: Key) -> None:
        with self._lock:
            task = self._tasks.get(key)
            if task is None or not task.reschedule(self._timeout):
                self._tasks[key] = self._timer.schedule(self._timeout, self._off, key)

    def _off(self, key: Key) -> None:
        with self._lock:
            # A touch that came after this callback began has put a task of its own there.
            task = self._tasks.get(key)
            if task is not None and task.state is TaskState.FIRED:
                del self._tasks[key]
        self._on_idle(key)

    def remove(self, key: Key) -> bool:
        with self._lock:
            task = self._tasks.pop(key, None)
        return task is not None and task.cancel()

    def __len__(self) -> int:
        return len(self._tasks)

    def close(self) -> None:
        if self._owns_timer:
            self._timer.close()


class Driven:
    """Has a thread that calls `turn`, which says how long to sleep until the next call."""

    def __init__(self, start: bool) -> None:
        self._closed = Event()
        self._thread = Thread(target=self._drive, name=type(self).__name__, daemon=True)
        if start:
            self._thread.start()

    def turn(self) -> float:
        raise NotImplementedError

    def _drive(self) -> None:
        while not self._closed.wait(self.turn()):
            pass

    def close(self) -> None:
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join()


class Scan(Driven):
    def __init__(
        self, timeout: float, on_idle: OnIdle, *, time: Callable[[], float] = monotonic, start: bool = True
    ) -> None:
        self._timeout = timeout
        self._on_idle = on_idle
        self._time = time
        self._stamps: dict[Key, float] = {}
        self._lock = Lock()
        super().__init__(start)

    def touch(self, key: Key) -> None:
        self._stamps[key] = self._time()

    def remove(self, key: Key) -> bool:
        with self._lock:
            return self._stamps.pop(key, None) is not None

    def turn(self) -> float:
        begin = self._time()
        latest = begin - self._timeout
        # A copy is made at one stroke: touches add keys meanwhile.
        for key in [key for key, stamp in self._stamps.copy().items() if stamp <= latest]:
            if self._is_over(key, latest):
                self._on_idle(key)
        return max(0.0, begin + EVERY_S - self._time())

    def _is_over(self, key: Key, latest: float) -> bool:
        with self._lock:
            stamp = self._stamps.pop(key, None)
            if stamp is None or stamp <= latest:
                return stamp is not None
            # Touched since the copy was made; a touch that came after the pop is newer and stays.
            self._stamps.setdefault(key, stamp)
            return False

    def __len__(self) -> int:
        return len(self._stamps)


class Ring(Driven):
    """The newest slot is the one that the pointer reaches last: after the timeout, up to a second late."""

    def __init__(self, timeout: float, on_idle: OnIdle, *, start: bool = True) -> None:
        self._on_idle = on_idle
        # A touch may come at the end of its slot's second: hence a slot more.
        self._slots: deque[set[Key]] = deque(set() for _ in range(ceil(timeout / EVERY_S) + 1))
        self._newest = self._slots[-1]
        self._slot_of: dict[Key, set[Key]] = {}
        self._lock = Lock()
        super().__init__(start)

    def touch(self, key: Key) -> None:
        # Without the lock: what is in the newest slot already has nothing to do.
        if self._slot_of.get(key) is self._newest:
            return
        with self._lock:
            slot = self._slot_of.get(key)
            if slot is not None:
                slot.discard(key)
            self._newest.add(key)
            self._slot_of[key] = self._newest

    def remove(self, key: Key) -> bool:
        with self._lock:
            slot = self._slot_of.pop(key, None)
            if slot is not None:
                slot.discard(key)
            return slot is not None

    def turn(self) -> float:
        """Not sooner than a second after the last: a slot more or less between two of them would be early."""
        with self._lock:
            silent = self._slots.popleft()
            for key in silent:
                del self._slot_of[key]
            self._newest = set()
            self._slots.append(self._newest)
            turned = monotonic()
        for key in silent:
            self._on_idle(key)
        return max(0.0, turned + EVERY_S - monotonic())

    def __len__(self) -> int:
        return len(self._slot_of)


class Order(Driven):
    """All keys have one timeout, so the order of the touches is that of the deadlines: no timer at all."""

    def __init__(
        self, timeout: float, on_idle: OnIdle, *, time: Callable[[], float] = monotonic, start: bool = True
    ) -> None:
        self._timeout = timeout
        self._on_idle = on_idle
        self._time = time
        self._stamps: OrderedDict[Key, float] = OrderedDict()
        self._lock = Lock()
        super().__init__(start)

    def touch(self, key: Key) -> None:
        with self._lock:
            self._stamps[key] = self._time()
            self._stamps.move_to_end(key)

    def remove(self, key: Key) -> bool:
        with self._lock:
            return self._stamps.pop(key, None) is not None

    def turn(self) -> float:
        """What is touched meanwhile has a later deadline than the first: nobody need wake the thread."""
        while True:
            with self._lock:
                first = next(iter(self._stamps.items()), None)
                if first is None:
                    return self._timeout
                key, stamp = first
                if (rest := stamp + self._timeout - self._time()) > 0:
                    return rest
                del self._stamps[key]
            self._on_idle(key)

    def __len__(self) -> int:
        return len(self._stamps)
