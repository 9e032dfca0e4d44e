"""What a partition must know again after a restart, on disk: who leads, under which epoch, who is in sync."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from tickwheel.output import whole_text
from tickwheel.replication.folders import flush_folder

__all__ = ["State"]


class State(NamedTuple):
    epoch: int
    leader: int | None
    isr: tuple[int, ...]

    @classmethod
    def load(cls, path: Path) -> State | None:
        """What was saved last; None: nothing was. ValueError names the file and what is in it; OSError."""
        if not path.exists():
            return None
        text = path.read_text(encoding="utf-8", errors="replace")
        try:
            saved = json.loads(text)
            state = cls(saved["epoch"], saved["leader"], tuple(saved["isr"]))
            well_formed = all(type(number) is int for number in (state.epoch, *state.isr))
        except (ValueError, KeyError, TypeError):
            well_formed = False
        if not well_formed:
            raise ValueError(f"{path} must have an epoch, a leader and an isr, got {text[:100]!r}")
        return state

    def save(self, path: Path, *, flush: bool) -> None:
        """Put it in the place of what was there, in one step. OSError: that is there still."""
        with whole_text(str(path)) as file:
            json.dump(self._asdict(), file)
            if flush:
                file.flush()
                os.fsync(file.fileno())
        if flush:
            flush_folder(path.parent)
