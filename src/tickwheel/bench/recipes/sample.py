"""What a cell sees: figures by their names, which are the columns of its story."""
from __future__ import annotations

import os
from dataclasses import dataclass

from tickwheel.bench.micro import resident_bytes

# Faults, counted: none of them may happen.
MISSING, TWICE, EARLY, WRONG, DISORDER = "missing", "twice", "early", "wrong", "out of order"
FAULTS = (MISSING, TWICE, EARLY, WRONG, DISORDER)


@dataclass(frozen=True, slots=True)
class Sample:
    seen: dict[str, float]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a whole run: each story takes what it needs."""

    clients: int
    rate: float             # messages a second
    busy_rate: float        # of the busy story
    timeout_s: float
    keys: int               # of the stream with duplicates
    calls: int
    hot_s: float            # how long there is a hot key


def memory() -> int | None:
    """Resident bytes; None: this system has no /proc."""
    return resident_bytes() if os.path.exists("/proc/self/statm") else None


def share(values: list[float], part: float) -> float:
    """The value below which that part of them lies; the values sorted."""
    return values[min(len(values) - 1, int(len(values) * part))]
