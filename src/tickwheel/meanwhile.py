"""A thread beside a block: what looks on, or shows how far it is, while something else runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


@contextmanager
def meanwhile(work: Callable[[Event], object], name: str) -> Iterator[None]:
    """While the block runs, `work(over)` does, in a daemon thread of that name.

    `over` is set at the block's end, which waits for `work` to return: it sleeps with `over.wait(seconds)`.
    """
    over = Event()
    thread = Thread(target=work, args=(over,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
