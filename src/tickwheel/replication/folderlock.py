"""A folder that one process uses at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tickwheel.replication.folders import make_folder

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["locked"]


@contextmanager
def locked(folder: Path, *, flush: bool = False) -> Iterator[None]:
    """Hold `folder` while the block runs. ValueError: another process holds it.

    It is made if need be; `flush`: until its name is on the disk. The system lets go of it however the
    process ends. Where there is no flock, nothing is held.
    """
    make_folder(folder, flush=flush)
    with open(folder / "lock", "a+b") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"data must be in use by no other broker, got {os.fspath(folder)!r}"
                ) from None
        yield
