"""What is behind all `threading.Timer` drop-ins of a process: two wheels, from their first use to the exit.

Two, since the interpreter's exit waits for one kind of timers and not for the other (`daemon`): that
one of the wheels is empty is all that exit needs to know, and nobody counts.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from tickwheel._core import TimerTask
from tickwheel.dropin.elasticpool import ElasticPool
from tickwheel.timer import Timer

__all__ = ["SharedWheel", "shared"]


class SharedWheel:
    """A `Timer`, made when something is first scheduled, and the pool that runs what is due."""

    schedule: Callable[[float, Callable[[], None]], TimerTask]  # RuntimeError from the interpreter's exit on

    def __init__(self, name: str) -> None:
        self.timer: Timer | None = None
        self.pool = ElasticPool()
        self.schedule = self._schedule_first
        self._name = name
        self._making = threading.RLock()

    def _schedule_first(self, delay: float, callback: Callable[[], None]) -> TimerTask:
        with self._making:
            if self.timer is None:
                self.timer = Timer(executor=self.pool, name=self._name)
                self.schedule = self.timer.schedule  # from now on without a frame between
        return self.schedule(delay, callback)

    def refuse(self) -> None:
        with self._making:
            self.schedule = _refuse


def _refuse(delay: float, callback: Callable[[], None]) -> TimerTask:
    raise RuntimeError("the interpreter is going down")


class Shared:
    def __init__(self) -> None:
        self.open()

    def open(self) -> None:
        """At first, and in a child of fork, where nothing is pending and no thread is left."""
        self.process = object()  # who was started in another one is not alive here
        self.making = threading.RLock()  # held while a timer gets what is seldom asked for
        self.ended: threading.Event | None = None  # while exit waits: set when a timer has stopped
        self.holding = SharedWheel("threading.Timer")
        self.daemonic = SharedWheel("threading.Timer-daemon")

    def _open_in_child(self) -> None:
        self.holding.pool.abandon()
        self.daemonic.pool.abandon()
        self.open()

    def _refuse(self) -> None:
        self.holding.refuse()
        self.daemonic.refuse()

    def _hold_exit(self) -> None:
        """At the interpreter's exit, before `threading` joins its threads: wait until all that are no daemons
        have fired or were cancelled. What starts from now on is refused, and takes a thread of its own."""
        self.ended = ended = threading.Event()
        refused = threading.Event()

        def take_over() -> None:
            refused.set()
            ended.set()

        self._refuse()
        # CPython 3.12.0 and 3.12.1 start no thread on the way out: there this one does the work.
        self.holding.pool.on_refusal(take_over)
        self.daemonic.pool.on_refusal(lambda: None)  # they are abandoned soon
        timer = self.holding.timer
        if timer is None:
            return
        while len(timer):
            ended.wait()
            ended.clear()
            if refused.is_set():
                self.holding.pool.run_waiting()
        for task in timer.close(wait=False):
            if task.callback is not None:  # its start had passed the gate before it was shut
                time.sleep(max(0.0, task.when - timer.time()))
                task.callback()
        timer.close()  # waits for functions that run


shared = Shared()
try:
    # `atexit` comes too late: `threading` has joined its threads by then, and none can be started.
    threading._register_atexit(shared._hold_exit)  # type: ignore[attr-defined]
except RuntimeError:  # imported on the way out
    shared._refuse()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=shared._open_in_child)
