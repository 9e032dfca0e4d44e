"""What stands behind `Timer.submit` and `Timer.limit`: callbacks that settle a future.

A future is settled once, by whoever is first; the others meet InvalidStateError and give way.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, Generic, TypeVar

from tickwheel._core import TimerTask

__all__ = ["Deadline", "Submission"]

T = TypeVar("T")


def _take(token: list[None], future: Future[T]) -> bool:
    """Whether this is the first of call and cancellation, which then tells the future (and so the waiters
    of a cancelled one). False too for a call that comes after `cancel()`."""
    try:
        token.pop()
    except IndexError:
        return False
    return future.set_running_or_notify_cancel()


class Submission(Generic[T]):
    """A call whose result goes to a future. Cancelling the future unlinks the task."""

    def __init__(self, fn: Callable[..., T], args: tuple[Any, ...]) -> None:
        self._fn = fn
        self._args = args
        self._token = [None]
        self.future: Future[T] = Future()

    def __call__(self) -> None:
        if not _take(self._token, self.future):
            return
        try:
            result = self._fn(*self._args)
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

    def follow(self, task: TimerTask) -> None:
        """From now on `task` is cancelled with the future."""
        token = self._token  # not self, which refers to the future: the callback stays with it

        def done(future: Future[T]) -> None:
            if future.cancelled():
                task.cancel()
                _take(token, future)

        self.future.add_done_callback(done)

    def abandon(self) -> None:
        """The timer is closed: the call will not be made."""
        self.future.cancel()


class Deadline(Generic[T]):
    """A future that has the result of another, or TimeoutError if that takes too long."""

    def __init__(self, inner: Future[T], timeout: float) -> None:
        self._inner = [inner]  # until one of the two is done
        self._timeout = timeout
        self.future: Future[T] = Future()
        inner.add_done_callback(self._copy)  # at once, if it is done already

    def __call__(self) -> None:
        try:
            self.future.set_exception(TimeoutError(f"no result within {self._timeout:g} s"))
        except InvalidStateError:
            pass

    def follow(self, task: TimerTask) -> None:
        """From now on the first of the two futures that is done settles all."""
        watched = self._inner  # not self, as above

        def done(future: Future[T]) -> None:
            task.cancel()
            if future.cancelled():
                future.set_running_or_notify_cancel()  # tells its waiters
            try:
                inner = watched.pop()
            except IndexError:  # it is done
                return
            inner.cancel()

        self.future.add_done_callback(done)

    def _copy(self, inner: Future[T]) -> None:
        self._inner.clear()
        if inner.cancelled():
            self.future.cancel()
            return
        error = inner.exception()
        try:
            if error is None:
                self.future.set_result(inner.result())
            else:
                self.future.set_exception(error)
        except InvalidStateError:
            pass  # too late: it has timed out or was cancelled

    def abandon(self) -> None:
        """The timer is closed: nobody would see to the timeout."""
        self.future.cancel()
