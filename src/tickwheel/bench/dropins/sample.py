"""What one process measured."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    figure: float               # in the story's unit, the less the better
    beside: int | None = None   # what the story counts beside it
