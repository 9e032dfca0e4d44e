"""The reaper: the thread that advances the clock, and sleeps until something is due."""

from __future__ import annotations

from tickwheel._core import TimerCore
from tickwheel.clock import Sleeper

__all__ = ["reap"]


def reap(core: TimerCore, sleeper: Sleeper) -> None:
    """Turn the wheel until the core is closed. It knows no `Timer`, which can be dropped meanwhile.

    A wake between `arm` and `wait_until` is not lost: a sleeper remembers it.
    """
    try:
        while not core.closed:
            core.turn_now()
            when = core.arm()
            if when is not None:
                sleeper.wait_until(when)
                core.woke()
    finally:
        sleeper.close()
