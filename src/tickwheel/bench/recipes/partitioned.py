"""What KeyedExecutor is measured against: `hash(key) % n` chooses one of n threads, each with a queue.

The literature's SmartPool. A key is in order because its thread is; what is slow or comes in masses makes
every key of its partition wait, however many of the other threads have nothing to do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, ParamSpec, TypeAlias, TypeVar

__all__ = ["PartitionedExecutor"]

P = ParamSpec("P")
T = TypeVar("T")

_Call: TypeAlias = tuple[Future[Any], Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]
_Queue: TypeAlias = SimpleQueue[_Call | None]


class PartitionedExecutor:
    """Runs the calls of a key in order, in its own thread. Close it: the threads are no daemons."""

    def __init__(self, workers: int) -> None:
        self._queues: list[_Queue] = [SimpleQueue() for _ in range(workers)]
        self._lock = threading.Lock()
        self._closed = False
        self._threads = [threading.Thread(target=_work, args=(queue,)) for queue in self._queues]
        for thread in self._threads:
            thread.start()

    def submit(self, key: Hashable, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """The future of the call. RuntimeError after `shutdown`."""
        future: Future[T] = Future()
        queue = self._queues[hash(key) % len(self._queues)]
        with self._lock:  # nothing may come behind the None of `shutdown`
            if self._closed:
                raise RuntimeError("the executor is shut down")
            queue.put((future, fn, args, kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As in `concurrent.futures`."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for queue in self._queues:
                    if cancel_futures:
                        _cancel_all(queue)
                    queue.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def __enter__(self) -> PartitionedExecutor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()


def _cancel_all(queue: _Queue) -> None:
    while True:
        try:
            call = queue.get_nowait()
        except Empty:
            return
        if call is not None and call[0].cancel():
            call[0].set_running_or_notify_cancel()


def _work(queue: _Queue) -> None:
    while (call := queue.get()) is not None:
        _run(*call)
        del call  # it must not live as long as an idle thread


def _run(
    future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = fn(*args, **kwargs)
    except BaseException as error:
        future.set_exception(error)
        del future, fn, args, kwargs  # the traceback holds this frame
    else:
        future.set_result(result)
