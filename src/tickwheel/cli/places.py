"""Where a command reads and writes: no result takes the place of what it is made from."""
from __future__ import annotations

import os
from collections.abc import Iterable


def has_scheme(place: str) -> bool:
    """Whether it is a URL, which is left to Spark."""
    return "://" in place


def is_inside(place: str, folder: str) -> bool:
    """Whether it is that folder, or in it."""
    if has_scheme(place) or has_scheme(folder):
        return False
    outer = os.path.realpath(folder)
    return os.path.commonpath([outer, os.path.realpath(place)]) == outer


def check_results(traces: Iterable[str], **results: str | None) -> None:
    """ValueError unless the results are files of their own, and in no folder that is a trace."""
    names = {os.path.realpath(trace): "trace" for trace in traces}
    for name, path in results.items():
        if path is None:
            continue
        other = names.setdefault(os.path.realpath(path), name)
        if other != name:
            raise ValueError(f"--{name} must be another file than the {other}, got {path!r}")
        if any(is_inside(path, trace) for trace in traces):
            raise ValueError(f"--{name} must not be inside the folder that is the trace, got {path!r}")
