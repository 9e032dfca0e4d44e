"""What the benchmark asks of a purgatory, so that every design is measured by the same lines."""
from collections.abc import Hashable, Sequence
from typing import Any, Protocol


class Purgatory(Protocol):
    """A design. All take the same keywords, in seconds, slots and requests, and use what they need.

    `Operation(timeout)` is the base class of what it holds, with the hooks `try_complete`, `on_complete`
    and `on_expiration`, with `force_complete()` and `is_completed`. A thread of a design that cannot go on
    ends by its exception, which `threading.excepthook` sees.
    """

    name: str
    summary: str
    Operation: type[Any]

    def __init__(self, *, tick: float = 0.001, wheel_size: int = 20, purge_interval: int = 1000) -> None: ...

    def try_complete_else_watch(self, operation: Any, keys: Sequence[Hashable]) -> bool:
        """Try; watch every key; try again; if it is still not complete, start its timeout. Whether it
        is complete on return. `keys` are not empty, and each is there once."""
        ...

    def check_and_complete(self, key: Hashable) -> int:
        """Try the operations that watch a key: how many this call completed."""
        ...

    def close(self) -> object:
        """End all threads and forget all operations. Not while others use it."""
        ...

    @property
    def watched(self) -> int:
        """(operation, key) pairs in the watcher lists, those of completed operations included."""
        ...

    @property
    def delayed(self) -> int:
        """Operations whose timeout is still to come."""
        ...

    @property
    def queue_length(self) -> int:
        """Entries in what finds the next deadline, dead ones included."""
        ...

    @property
    def wakeups(self) -> int:
        """How often a thread woke to look for something due."""
        ...

    @property
    def purges(self) -> int:
        """Scans of all watcher lists, or of the whole queue, for completed operations."""
        ...

    @property
    def threads(self) -> int:
        """The most threads that it ever had at once."""
        ...
