"""The contenders: one small class each, every one at its best.

A peer says in source text how a timer is scheduled and cancelled with its own API, so that
the timed loops (`micro`) hold nothing but that: no wrapper, no frame that its user would not
have. `schedule` reads `delay` (seconds) and `callback`, and sets `handle`; `cancel` reads
`handle`. Other names in them are what `names()` returns, bound as locals.

`run(steps)` takes the measuring generator to its end in the place where the peer's users
live (inside the running loop, in a greenlet) and turns the peer's loop once at each `yield`.
"""
import asyncio
import sched
import threading
import time
from collections.abc import Iterator
from typing import Any, ClassVar

from tickwheel.bench.designs import CompactedHeapTimers, HeapTimers, SparseTimers
from tickwheel.extras import require
from tickwheel.timer import Timer

OPERATIONS = ("schedule", "cancel", "cancel-hot", "churn", "expire", "memory")


class Peer:
    """What all contenders share; a subclass is made anew for each batch."""

    name: ClassVar[str]
    about: ClassVar[str]
    module: ClassVar[str | None] = None     # needed beside Python; the `bench` extra installs it
    core: ClassVar[str | None] = None       # TICKWHEEL_CORE in the measuring process
    schedule: ClassVar[str] = "handle = schedule(delay, callback)"
    cancel: ClassVar[str] = "handle.cancel()"
    operations: ClassVar[tuple[str, ...]] = OPERATIONS
    chunk: ClassVar[int] = 1000             # operations between two turns of its loop
    patience_s: ClassVar[float] = 20.0      # a batch that took so long is cut at a chunk
    largest: ClassVar[int | None] = None    # pending timers that it can reasonably be asked for
    lives_on: ClassVar[bool] = False        # what a batch left pending would be there in the next
    own_thread: ClassVar[bool] = False      # fires by itself: nobody turns it

    def names(self) -> dict[str, Any]:
        raise NotImplementedError

    def run(self, steps: Iterator[None]) -> None:
        for _ in steps:
            self.turn()

    def turn(self) -> None:
        raise NotImplementedError

    def pending(self) -> int:
        """Timers that have not fired; asked of peers with a thread of their own."""
        raise NotImplementedError

    def close(self) -> None:
        pass


class EmptyLoop(Peer):
    name = "empty-loop"
    about = "no timer at all: what the measuring loop itself costs, contained in every other row"
    schedule = "handle = None"      # an object would have memory of its own, to be missed in the caches
    cancel = "handle"
    operations = ("schedule", "cancel", "cancel-hot", "churn")

    def names(self) -> dict[str, Any]:
        return {}

    def turn(self) -> None:
        pass


class Tickwheel(Peer):
    name = "tickwheel"
    about = "Timer(start=False, executor='inline'), turned by advance_clock()"
    start: ClassVar[bool] = False

    def __init__(self) -> None:
        self._timer = Timer(tick=0.001, executor="inline", start=self.start)

    def names(self) -> dict[str, Any]:
        return {"schedule": self._timer.schedule}

    def turn(self) -> None:
        self._timer.advance_clock()

    def pending(self) -> int:
        return len(self._timer)

    def close(self) -> None:
        self._timer.close()


class TickwheelReaper(Tickwheel):
    name = "tickwheel-reaper"
    about = "the same with its reaper thread running, which schedule may have to wake"
    start = True
    own_thread = True

    def turn(self) -> None:
        pass


class Reference(Tickwheel):
    name = "reference"
    about = "tickwheel's pure-Python core: TICKWHEEL_CORE=python"
    core = "python"


class Heap(Peer):
    name = "heapq"
    about = "a heap with lazy deletion in plain Python; garbage stays until its deadline"
    cancel = "cancel(handle)"
    design: ClassVar[type[HeapTimers] | type[SparseTimers]] = HeapTimers

    def __init__(self) -> None:
        self._timers = self.design()

    def names(self) -> dict[str, Any]:
        return {"schedule": self._timers.schedule, "cancel": self._timers.cancel}

    def turn(self) -> None:
        self._timers.turn()


class CompactedHeap(Heap):
    name = "heapq-compacted"
    about = "the same, rebuilt once half of it is garbage"
    design = CompactedHeapTimers


class Sparse(Heap):
    name = "sparse"
    about = "a map of tick -> bucket and a heap of ticks in plain Python: no wheel"
    design = SparseTimers


class Asyncio(Peer):
    name = "asyncio"
    about = "call_later of the standard loop, measured inside the running loop"

    def __init__(self) -> None:
        self._loop = self.new_event_loop()

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()

    def names(self) -> dict[str, Any]:
        return {"schedule": self._loop.call_later}

    def run(self, steps: Iterator[None]) -> None:
        async def turning() -> None:
            for _ in steps:
                await asyncio.sleep(0)

        self._loop.run_until_complete(turning())

    def close(self) -> None:
        self._loop.close()


class Uvloop(Asyncio):
    name = "uvloop"
    about = "call_later of uvloop, measured inside the running loop"
    module = "uvloop"

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop: asyncio.AbstractEventLoop = require("uvloop", "the uvloop peer", "bench").new_event_loop()
        return loop


class Gevent(Peer):
    name = "gevent"
    about = "raw timers of gevent's libev loop, which read the loop's cached time, not the clock"
    module = "gevent"
    # Without keyword arguments: they take the slow way through its Cython signature.
    schedule = "handle = timer(delay); handle.start(callback)"
    cancel = "handle.stop()"
    lives_on = True

    def __init__(self) -> None:
        self._gevent = require("gevent", "the gevent peer", "bench")
        self._loop = self._gevent.get_hub().loop

    def names(self) -> dict[str, Any]:
        return {"timer": self._loop.timer}

    def run(self, steps: Iterator[None]) -> None:
        def turning() -> None:
            for _ in steps:
                self._gevent.sleep(0)

        self._gevent.spawn(turning).get()


class Twisted(Peer):
    name = "twisted"
    about = "reactor.callLater, turned by reactor.iterate(0)"
    module = "twisted"
    lives_on = True

    def __init__(self) -> None:
        self._reactor = require("twisted.internet.reactor", "the twisted peer", "bench")

    def names(self) -> dict[str, Any]:
        return {"schedule": self._reactor.callLater}

    def turn(self) -> None:
        self._reactor.iterate(0)


class Sched(Peer):
    name = "sched"
    about = "sched.scheduler; its cancel is O(pending)"
    schedule = "handle = enter(delay, 0, callback)"
    cancel = "cancel(handle)"
    chunk = 10
    patience_s = 2.0

    def __init__(self) -> None:
        # By default it sleeps for 0 seconds after each event, which costs ten times what the event does.
        self._scheduler = sched.scheduler(time.monotonic, lambda _: None)

    def names(self) -> dict[str, Any]:
        return {"enter": self._scheduler.enter, "cancel": self._scheduler.cancel}

    def turn(self) -> None:
        self._scheduler.run(blocking=False)


class Threading(Peer):
    name = "threading"
    about = "threading.Timer: a thread each, so asked for 1,000 only"
    schedule = "handle = Timer(delay, callback); handle.start()"
    largest = 1000
    lives_on = True
    own_thread = True

    def names(self) -> dict[str, Any]:
        return {"Timer": threading.Timer}

    def turn(self) -> None:
        pass

    def pending(self) -> int:
        return sum(isinstance(thread, threading.Timer) for thread in threading.enumerate())


PEERS: dict[str, type[Peer]] = {
    peer.name: peer
    for peer in (
        Tickwheel, TickwheelReaper, Reference, Heap, CompactedHeap, Sparse, Asyncio, Uvloop,
        Gevent, Twisted, Sched, Threading, EmptyLoop,
    )
}
