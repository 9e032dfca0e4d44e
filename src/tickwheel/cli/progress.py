"""A progress bar for long work: on a terminal, and where `rich` (the `report` extra) is installed."""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tickwheel.extras import MissingExtra, require

Show = Callable[[float], object]


@contextmanager
def progress(label: str) -> Iterator[Show]:
    """A function to call with the fraction that is done. The bar is on stderr and goes away at the end."""
    if not (sys.stderr and sys.stderr.isatty()):
        yield lambda fraction: None
        return
    try:
        rich_progress = require("rich.progress", "a progress bar")
        console = require("rich.console", "a progress bar").Console(stderr=True)
    except MissingExtra:
        yield lambda fraction: None
        return
    with rich_progress.Progress(console=console, transient=True) as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda fraction: bar.update(task, completed=fraction)
