"""What the batch calls of a table and a replay have in common: their arguments, and one call at a time."""

from __future__ import annotations

import sys
from array import array
from operator import index
from threading import Lock
from typing import Any, TypeAlias

Int64s: TypeAlias = "array[int]"

NATIVE = "@=<" if sys.byteorder == "little" else "@=>"


def int64_of(name: str, value: Any) -> int:
    number = index(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{name} must fit 64 bits, got {number}")
    return number


def int64s_of(name: str, values: Any) -> Int64s:
    """A copy of the buffer's items."""
    try:
        view = memoryview(values)
    except TypeError:
        raise TypeError(f"{name} must be a buffer of int64, got {type(values).__name__}") from None
    if view.itemsize != 8 or view.format.lstrip(NATIVE) not in ("q", "l"):
        raise ValueError(f"{name} must be a buffer of int64 (format 'q'), got format {view.format!r}")
    if view.ndim != 1 or not view.c_contiguous:
        raise ValueError(
            f"{name} must be contiguous and have one dimension, got {view.ndim}, strides {view.strides}"
        )
    return array("q", view.tobytes())


class OneCall:
    """One call at a time: a second one, from a thread or a destructor, is refused and changes nothing."""

    __slots__ = ("_lock", "_owner")

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._lock = Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(f"{self._owner} is in use by another call")

    def __exit__(self, *_: object) -> None:
        self._lock.release()
