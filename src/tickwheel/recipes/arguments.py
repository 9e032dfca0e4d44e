"""What the recipes ask of their arguments, in the same words."""

from __future__ import annotations

import math

from tickwheel.timer import Timer

__all__ = ["check_hashable", "check_timer", "seconds"]

NS = 1e-9  # seconds: as for any deadline (R1), what is nearer than this has come


def seconds(value: float, name: str) -> float:
    """A duration, finite and no shorter than a nanosecond. TypeError, ValueError: `name` and the value."""
    if isinstance(value, str | bytes):
        raise TypeError(f"{name} must be a number of seconds, got {value!r}")
    if not NS <= value < math.inf:
        rule = "> 0" if value <= 0 else ">= 1e-09 (1 ns) and finite"
        raise ValueError(f"{name} must be {rule}, got {value}")
    return float(value)


def check_timer(timer: object) -> None:
    """TypeError: it is neither a Timer nor None."""
    if timer is not None and not isinstance(timer, Timer):
        raise TypeError(f"timer must be a Timer, got {timer!r}")


def check_hashable(key: object) -> None:
    """TypeError that names the key, where its own would name only its type."""
    try:
        hash(key)
    except TypeError:
        raise TypeError(f"key must be hashable, got {key!r}") from None
