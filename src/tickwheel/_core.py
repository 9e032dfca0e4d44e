"""The one place that chooses the core: compiled where it is there, else the pure-Python reference.

`TICKWHEEL_CORE=cython` insists on the compiled one, `TICKWHEEL_CORE=python` on the reference.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

__all__ = [
    "IMPLEMENTATION",
    "DelayedOperation",
    "IdleClient",
    "IdleFront",
    "PurgatoryCore",
    "PurgatoryFront",
    "ReadyQueue",
    "ReplayKernel",
    "TaskState",
    "TimerCore",
    "TimerFront",
    "TimerTable",
    "TimerTask",
    "TimingWheel",
    "TooManyPending",
]


def _choose() -> str:
    wanted = os.environ.get("TICKWHEEL_CORE", "")
    if wanted not in ("", "cython", "python"):
        raise ValueError(f"TICKWHEEL_CORE must be cython or python, got {wanted!r}")
    if wanted:
        return wanted
    # Looked for, not tried: a compiled core that is there but broken is not passed over in silence.
    return "cython" if importlib.util.find_spec("tickwheel._task") else "python"


IMPLEMENTATION = _choose()

if TYPE_CHECKING or IMPLEMENTATION == "cython":
    try:
        from tickwheel._idle import IdleClient, IdleFront
        from tickwheel._operation import DelayedOperation
        from tickwheel._purgatory import PurgatoryCore, PurgatoryFront
        from tickwheel._ready import ReadyQueue
        from tickwheel._replay import ReplayKernel
        from tickwheel._table import TimerTable
        from tickwheel._task import TaskState, TimerTask
        from tickwheel._timer import TimerFront
        from tickwheel._timercore import TimerCore
        from tickwheel._timerstate import TooManyPending
        from tickwheel._wheel import TimingWheel
    except ModuleNotFoundError as error:
        raise ImportError(f"TICKWHEEL_CORE=cython: the compiled core is not installed ({error})") from None
else:
    from tickwheel._reference.idle import IdleClient, IdleFront
    from tickwheel._reference.operation import DelayedOperation
    from tickwheel._reference.purgatory import PurgatoryCore, PurgatoryFront
    from tickwheel._reference.ready import ReadyQueue
    from tickwheel._reference.replay import ReplayKernel
    from tickwheel._reference.table import TimerTable
    from tickwheel._reference.task import TaskState, TimerTask
    from tickwheel._reference.timer import TimerFront
    from tickwheel._reference.timercore import TimerCore
    from tickwheel._reference.timerstate import TooManyPending
    from tickwheel._reference.wheel import TimingWheel
