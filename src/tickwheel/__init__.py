"""Millions of timers: hierarchical timing wheels in Cython under thin Python."""

from tickwheel._core import (
    IMPLEMENTATION,
    DelayedOperation,
    TaskState,
    TimerTable,
    TimerTask,
    TimingWheel,
    TooManyPending,
)
from tickwheel.clock import BootClock, ManualClock, MonotonicClock
from tickwheel.loopexecutor import LoopExecutor
from tickwheel.metrics import PurgatoryStats, TimerStats
from tickwheel.purgatory import DelayedOperationPurgatory
from tickwheel.timer import Timer

__version__ = "0.1.0"

__all__ = [
    "IMPLEMENTATION",
    "BootClock",
    "DelayedOperation",
    "DelayedOperationPurgatory",
    "LoopExecutor",
    "ManualClock",
    "MonotonicClock",
    "PurgatoryStats",
    "TaskState",
    "Timer",
    "TimerStats",
    "TimerTable",
    "TimerTask",
    "TimingWheel",
    "TooManyPending",
    "__version__",
]
