"""No purgatory: what the benchmark itself costs."""
from collections.abc import Hashable, Sequence

from tickwheel._core import DelayedOperation


class BarePurgatory:
    """Tries once and remembers nothing. Operations complete by `force_complete` alone, and never expire.

    They are the package's own, which cost less than `LockedOperation`: so this row bounds all others.
    """

    name = "harness"
    summary = "no purgatory at all: what the harness itself costs, contained in every other row"
    Operation = DelayedOperation
    watched = delayed = queue_length = wakeups = purges = threads = 0

    def __init__(self, *, tick: float = 0.001, wheel_size: int = 20, purge_interval: int = 1000) -> None:
        pass

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Sequence[Hashable]) -> bool:
        if operation.try_complete():
            operation.force_complete()
        return operation.is_completed

    def check_and_complete(self, key: Hashable) -> int:
        return 0

    def close(self) -> None:
        pass
