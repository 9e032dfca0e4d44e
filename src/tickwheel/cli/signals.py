"""SIGINT and SIGTERM as requests to end in order, for commands that run until they are told."""
from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stopped_by_signals(stop: Callable[[int], object]) -> Iterator[list[int]]:
    """The signals that came in the block, for each of which `stop(number)` is called; it may raise."""
    received: list[int] = []

    def take(number: int, frame: object) -> None:
        stop(number)
        received.append(number)

    before = {number: signal.signal(number, take) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
