"""Executors: who runs the callbacks of a timer.

The timer's own worker (one thread, fed in batches), `"inline"` (whoever turns the wheel), or any
`concurrent.futures.Executor` that runs in this process.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

from tickwheel._core import ReadyQueue, TimerCore
from tickwheel.log import logger

__all__ = ["Executor", "ForeignExecutor", "Worker"]


class Executor(Protocol):
    """What is asked of an executor: `concurrent.futures.Executor.submit`."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...


class Worker:
    """The default executor: one daemon thread, started when the first task is due.

    It takes tasks from its queue one at a time, so that what has not started can still be
    cancelled, and is woken once for all that came together.
    """

    def __init__(self, core: TimerCore, name: str) -> None:
        self._core = core
        self._gate = threading.Lock()  # held while there is nothing to do
        self._gate.acquire()
        self._started = False
        self._starting = threading.RLock()  # a destructor may feed it while it is started
        self.queue = ReadyQueue(feed=self._feed)
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def _feed(self) -> None:
        self._wake()
        if not self._started:
            self._start()

    def _start(self) -> None:
        with self._starting:
            if self._started:
                return
            self._started = True
            try:
                self._thread.start()
            except RuntimeError as error:
                self._started = False
                # At exit tasks stay queued as at `close(wait=False)`; only 3.13 has an error class for it.
                if "interpreter shutdown" not in str(error):
                    logger().exception("the worker %r cannot start: its tasks stay queued", self._thread.name)

    def _wake(self) -> None:
        try:
            self._gate.release()
        except RuntimeError:
            pass  # it has been woken already, and looks at the queue after that

    def _work(self) -> None:
        while not self._core.closed:
            self._gate.acquire()
            self._core.run_queue(self.queue)

    def stop(self) -> None:
        """Let the thread end; the core is closed."""
        self._wake()

    def join(self) -> None:
        with self._starting:
            started = self._started
        if started and self._thread is not threading.current_thread():
            self._thread.join()


class ForeignExecutor:
    """An executor that the timer did not make: it is given tickets, and never shut down.

    TypeError: it has no `submit`. ValueError: it runs in other processes or interpreters, where a
    ticket means nothing.
    """

    def __init__(self, executor: Executor) -> None:
        if isinstance(executor, str):
            raise ValueError(f"executor must be 'inline' where it is a string, got {executor!r}")
        if not callable(getattr(executor, "submit", None)):
            raise TypeError(f"executor must be 'inline' or have a submit method, got {executor!r}")
        for module, name in (
            ("concurrent.futures.process", "ProcessPoolExecutor"),
            ("concurrent.futures.interpreter", "InterpreterPoolExecutor"),
        ):
            kind = getattr(sys.modules.get(module), name, None)
            if kind is not None and isinstance(executor, kind):
                raise ValueError(f"executor must run in this process, got {executor!r}")
        self._executor = executor
        self.in_context = getattr(executor, "in_context", False) is True

    def submit(self, ticket: Callable[[], None]) -> None:
        try:
            self._executor.submit(ticket)
        except Exception:
            logger().exception("%r refused %r: it stays queued", self._executor, ticket)
