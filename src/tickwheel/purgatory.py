"""DelayedOperationPurgatory: operations that wait for an event or for their timeout."""

from __future__ import annotations

import atexit
import operator
import warnings
import weakref
from typing import NoReturn

from tickwheel._core import DelayedOperation, PurgatoryCore, PurgatoryFront
from tickwheel.closing import Closing
from tickwheel.metrics import PurgatoryStats, percentile
from tickwheel.timer import Timer

__all__ = ["DelayedOperationPurgatory"]


class DelayedOperationPurgatory(Closing, PurgatoryFront):
    """Holds delayed operations until something happens to one of their keys, or until their timeout.

    name            for people
    timer           where the timeouts are; None for a timer of its own, which it closes
    purge_interval  None: a completed operation leaves every list at once. N: as in Kafka, completed ones stay
                    until there are more than N, and are purged together

    >>> class Answer(DelayedOperation):
    ...     def on_complete(self):
    ...         print("answered")
    >>> with DelayedOperationPurgatory() as purgatory:
    ...     answer = Answer(30.0)
    ...     waits = not purgatory.try_complete_else_watch(answer, ["topic-0"])
    ...     won = answer.force_complete()
    answered

    Close it, or use it as a context manager; one that is dropped warns (ResourceWarning) and closes itself.
    """

    def __init__(
        self, name: str = "purgatory", *, timer: Timer | None = None, purge_interval: int | None = None
    ) -> None:
        if timer is not None and not isinstance(timer, Timer):
            raise TypeError(f"timer must be a Timer, got {timer!r}")
        if purge_interval is not None and operator.index(purge_interval) < 0:
            raise ValueError(f"purge_interval must be >= 0, got {purge_interval}")
        self.name = name
        self._owns_timer = timer is None
        if timer is None:
            timer = Timer(name=name)
            timer._is_owned = True
        self.timer = timer
        super().__init__(PurgatoryCore(self.timer._core, purge_interval))
        _purgatories.add(self)

    def stats(self) -> PurgatoryStats:
        """What it has done so far: see `PurgatoryStats`. Lateness is at most 1/64 too great."""
        watched, delayed, completed, expired, dropped, errors, purges, purged, latest, lateness = (
            self._core.counts()
        )
        return PurgatoryStats(
            watched=watched,
            delayed=delayed,
            completed=completed,
            expired=expired,
            dropped=dropped,
            errors=errors,
            purged=purged,
            purges=purges,
            lateness_p50=percentile(lateness, 0.50, latest) / 1e9,
            lateness_p99=percentile(lateness, 0.99, latest) / 1e9,
            lateness_max=latest / 1e9,
        )

    def close(self) -> list[DelayedOperation]:
        """Stop, and return the operations that never completed, in the order of their deadlines: IDLE again.

        From any thread and any callback, any number of times: later calls return nothing. A timer of
        its own is closed, which waits for callbacks that run, unless called from one.
        """
        operations = self._core.close()
        if self._owns_timer:
            self.timer.close()
        return operations

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot copy or pickle {self!r}: it has operations")

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else f"{self.watched} watched, {self.delayed} delayed"
        return f"<DelayedOperationPurgatory {self.name!r}: {state}>"

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None and not core.closed:
            try:
                warnings.warn(f"unclosed purgatory {self!r}", ResourceWarning, source=self, stacklevel=2)
            finally:  # it raises where warnings are errors
                core.close()
                if self._owns_timer:
                    self.timer.close(wait=False)


_purgatories: weakref.WeakSet[DelayedOperationPurgatory] = weakref.WeakSet()


def _close_all() -> None:
    """At the interpreter's exit, before the timers: nobody waits for their threads."""
    for purgatory in list(_purgatories):
        purgatory._core.close()


atexit.register(_close_all)
