"""Millions of timers: hierarchical timing wheels in Cython under thin Python."""

from tickwheel._core import (
    IMPLEMENTATION,
    TaskState,
    TimerTable,
    TimerTask,
    TimingWheel,
    TooManyPending,
)
from tickwheel.clock import BootClock, ManualClock, MonotonicClock
from tickwheel.metrics import TimerStats
from tickwheel.timer import Timer

__version__ = "0.1.0"

__all__ = [
    "IMPLEMENTATION",
    "BootClock",
    "ManualClock",
    "MonotonicClock",
    "TaskState",
    "Timer",
    "TimerStats",
    "TimerTable",
    "TimerTask",
    "TimingWheel",
    "TooManyPending",
    "__version__",
]
