"""LoopExecutor: an asyncio loop as the executor of a timer. One timer serves threads and loops together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["LoopExecutor"]


class Loop(Protocol):
    """What is asked of a loop: asyncio's, uvloop's, any that has these two."""

    def call_soon(self, callback: Callable[[], object], /) -> Any: ...
    def call_soon_threadsafe(self, callback: Callable[[], object], /) -> Any: ...


class LoopExecutor:
    """Runs a timer's callbacks on `loop`, each in the context in which it was scheduled, as asyncio does.

    The loop is woken once for all that came together. At most `max_batch` callbacks run in one turn of it
    (None: all that there are), so that thousands due at once leave it its time. It is never closed.
    """

    in_context = True

    def __init__(self, loop: Loop, max_batch: int | None = None) -> None:
        if max_batch is not None and max_batch < 1:
            raise ValueError(f"max_batch must be >= 1, got {max_batch}")
        self._loop = loop
        self._max_batch = max_batch
        self._tickets: deque[Callable[[], object]] = deque()
        self._woken = False  # `_turn` will come, and has not begun

    def submit(self, ticket: Callable[[], object]) -> None:
        """Call it on the loop. From any thread. RuntimeError: the loop is closed."""
        self._tickets.append(ticket)
        if self._woken:
            return
        self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._turn)
        except BaseException:
            self._woken = False
            self._tickets.remove(ticket)
            raise

    def _turn(self) -> None:
        # First: whoever comes after this line wakes the loop anew, and whoever came before it is served.
        self._woken = False
        count = len(self._tickets)
        if self._max_batch is not None and count > self._max_batch:
            count = self._max_batch
            self._woken = True
            self._loop.call_soon(self._turn)
        for _ in range(count):
            self._tickets.popleft()()

    def __repr__(self) -> str:
        return f"<LoopExecutor for {self._loop!r}>"
