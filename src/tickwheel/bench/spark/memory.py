"""The memory of Python's workers: read from /proc while they work."""
from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

EVERY_S = 0.05
KIB = 1024


class Peak:
    """The greatest sum, in bytes, that was seen; None: this system has no /proc."""

    def __init__(self) -> None:
        self.bytes: int | None = None

    def seen(self) -> dict[str, float]:
        return {} if self.bytes is None else {"workers MB": self.bytes / 1e6}


@contextmanager
def peak_of_workers() -> Iterator[Peak]:
    """Watches, while the block runs, what this process's descendants in Python hold, added up.

    Only memory of their own: not of files, but what a fork shares is counted in each.
    """
    peak, done = Peak(), Event()

    def watch() -> None:
        while not done.wait(EVERY_S):
            peak.bytes = max(peak.bytes or 0, sum(map(_own_bytes, _workers())))

    watcher = Thread(target=watch, name="peak-of-workers")
    if os.path.exists("/proc/self/status"):
        watcher.start()
    try:
        yield peak
    finally:
        done.set()
        if watcher.ident is not None:
            watcher.join()


def _workers() -> list[int]:
    """The processes named python below this one."""
    children: dict[int, list[int]] = {}
    python = set()
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    before, _, after = file.read().rpartition(")")
            except OSError:
                continue        # it has ended
            children.setdefault(int(after.split()[1]), []).append(int(entry))
            if before.partition("(")[2].startswith("python"):
                python.add(int(entry))
    found, todo = [], [os.getpid()]
    while todo:
        todo += (below := children.get(todo.pop(), []))
        found += [process for process in below if process in python]
    return found


def _own_bytes(process: int) -> int:
    try:
        with open(f"/proc/{process}/status", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * KIB
    except OSError:
        pass        # it has ended
    return 0
