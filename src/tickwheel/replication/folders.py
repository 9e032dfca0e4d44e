"""Folders whose names survive a loss of power."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["flush_folder", "make_folder"]


def make_folder(folder: Path, *, flush: bool = False) -> None:
    """Make it where it is missing, with all that it is in. `flush`: until its name is on the disk."""
    if not folder.is_dir():
        if folder.parent != folder:
            make_folder(folder.parent, flush=flush)
        folder.mkdir(exist_ok=True)
    if flush:  # also where it was there: whoever made it may not have come so far
        flush_folder(folder.parent)


def flush_folder(folder: Path) -> None:
    """Have the names in it on the disk, where a system has that apart from the files'."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
