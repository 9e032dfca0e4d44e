"""The package's logger, imported when there is something to say: `logging` costs more than all the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger

__all__ = ["logger"]


def logger() -> Logger:
    import logging

    return logging.getLogger("tickwheel")
