"""Watcher lists that a completed operation leaves at once: for the designs that differ in the timer alone."""
from collections.abc import Hashable, Sequence

from tickwheel.bench.purgatories.operation import LockedOperation


class WatchingOperation(LockedOperation):
    """Leaves its purgatory before `on_complete`, in O(its keys)."""

    __slots__ = ("deadline_tick", "keys", "purgatory")

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout)
        self.purgatory: WatchingPurgatory | None = None
        self.keys: Sequence[Hashable] = ()
        self.deadline_tick: int | None = None    # where a timer with ticks has put it

    def _finish(self) -> None:
        if self.purgatory is not None:
            self.purgatory.forget(self)
        self.on_complete()


class WatchingPurgatory:
    """Operations by key; a subclass has the timer: `_start_timeout` and `_stop_timeout`.

    A list is a dict used as an ordered set: it changes by single steps of C, so it needs no lock. A key
    once watched stays in the map, as in 0.8. Nothing is ever purged.
    """

    Operation = WatchingOperation
    purges = 0

    def __init__(self) -> None:
        self._watchers: dict[Hashable, dict[WatchingOperation, None]] = {}

    def _start_timeout(self, operation: WatchingOperation) -> None:
        raise NotImplementedError

    def _stop_timeout(self, operation: WatchingOperation) -> None:
        """Nothing happens if it has none."""
        raise NotImplementedError

    def try_complete_else_watch(self, operation: WatchingOperation, keys: Sequence[Hashable]) -> bool:
        if operation.attempt():
            return True
        operation.keys = keys
        operation.purgatory = self
        watchers = self._watchers
        for key in keys:
            watching = watchers.get(key)
            if watching is None:
                watching = watchers.setdefault(key, {})
            watching[operation] = None
        if operation.attempt():
            return True
        if not operation.is_completed:
            self._start_timeout(operation)
        if not operation.is_completed:
            return False
        # Another thread completed it, and may have missed where it came in after that.
        self.forget(operation)
        return True

    def forget(self, operation: WatchingOperation) -> None:
        watchers = self._watchers
        for key in operation.keys:
            watching = watchers.get(key)
            if watching is not None:
                watching.pop(operation, None)
        self._stop_timeout(operation)

    def check_and_complete(self, key: Hashable) -> int:
        watching = self._watchers.get(key)
        if not watching:
            return 0
        return sum([operation.attempt() for operation in watching.copy()])

    @property
    def watched(self) -> int:
        return sum(map(len, self._watchers.copy().values()))
