"""KeyedExecutor: calls of one key run in order and one at a time, those of other keys beside them."""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from types import TracebackType
from typing import Literal, ParamSpec, TypeVar

from tickwheel.recipes.arguments import check_hashable
from tickwheel.recipes.keyedcrew import Crew, KeyedStats

__all__ = ["KeyedExecutor", "KeyedStats"]

P = ParamSpec("P")
T = TypeVar("T")

_numbers = itertools.count(1)


class KeyedExecutor:
    """Runs calls in `workers` threads: in the order of their submit within a key, in parallel between keys.

    workers               threads at most, each started when a call finds none free
    max_pending           calls that wait at most, of all keys
    max_pending_per_key   calls that wait at most, of one key
    on_full               "wait": `submit` waits for room, first come, first served; "raise": TooManyPending
    name                  of the threads

    >>> with KeyedExecutor(workers=12) as executor:
    ...     future = executor.submit("client 7", len, "event")
    ...     future.result()
    5

    A call that blocks holds its worker and its key, nothing else. A key with many calls waiting holds one
    worker at a time, and goes behind the others that are ready after a few calls. The interpreter's exit
    and an executor that is dropped are as with `concurrent.futures.ThreadPoolExecutor`: what was submitted
    is done. In a child of fork, its use is RuntimeError.
    """

    def __init__(
        self,
        workers: int,
        *,
        max_pending: int | None = None,
        max_pending_per_key: int | None = None,
        on_full: Literal["wait", "raise"] = "wait",
        name: str | None = None,
    ) -> None:
        if on_full not in ("wait", "raise"):
            raise ValueError(f"on_full must be 'wait' or 'raise', got {on_full!r}")
        self._crew = crew = Crew(
            workers=_at_least_one("workers", workers),
            max_pending=None if max_pending is None else _at_least_one("max_pending", max_pending),
            max_pending_per_key=(
                None
                if max_pending_per_key is None
                else _at_least_one("max_pending_per_key", max_pending_per_key)
            ),
            may_wait=on_full == "wait",
            name=f"tickwheel-keyed-{next(_numbers)}" if name is None else name,
        )
        # The workers hold the crew and not this: once this is dropped, they end.
        weakref.finalize(self, crew.close).atexit = False

    def submit(self, key: Hashable, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """The future of `fn(*args, **kwargs)`, which runs after all calls of `key` submitted before.

        TypeError: `key` is not hashable, or `fn` not callable. RuntimeError: after `shutdown`, also where
        this waits for room. `TooManyPending`: there is no room, and `on_full` is "raise" or this is one of
        the executor's own workers, which must not wait for themselves; nothing has changed.

        A future that is cancelled keeps its place until its turn comes, and is passed over then.
        """
        if not callable(fn):
            raise TypeError(f"fn must be callable, got {fn!r}")
        future: Future[T] = Future()
        try:
            self._crew.take_in(key, (future, fn, args, kwargs))
        except TypeError:
            check_hashable(key)
            raise
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; what waits is still run, or cancelled with `cancel_futures`.

        With `wait`, return when all workers have ended; from one of them, at once. Whoever waits for room in
        `submit` gets RuntimeError. Idempotent.
        """
        self._crew.close()
        if cancel_futures:
            for future in self._crew.drop_pending():
                # Both steps: `concurrent.futures.wait` hears of the second alone.
                if future.cancel():
                    future.set_running_or_notify_cancel()
        if wait:
            self._crew.join()

    def stats(self) -> KeyedStats:
        """Figures of one moment. O(keys with calls)."""
        return self._crew.stats()

    def __len__(self) -> int:
        """Calls that wait."""
        return self._crew.pending

    def __enter__(self) -> KeyedExecutor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()


def _at_least_one(name: str, value: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number >= 1, got {value!r}") from None
    if number < 1:
        raise ValueError(f"{name} must be >= 1, got {value!r}")
    return number
