"""What an event loop needs of the core. Apart from `_core`, for it imports asyncio, which takes its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwheel._core import IMPLEMENTATION

__all__ = ["LoopFront", "Timeout", "WheelHandle", "timeout", "timeout_at"]

if TYPE_CHECKING or IMPLEMENTATION == "cython":
    from tickwheel._loop import LoopFront, WheelHandle
    from tickwheel._timeout import Timeout, timeout, timeout_at
else:
    from asyncio import Timeout, timeout, timeout_at

    from tickwheel._reference.loop import LoopFront, WheelHandle
