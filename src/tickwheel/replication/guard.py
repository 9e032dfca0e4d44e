"""Guard: a partition's lock."""

from __future__ import annotations

import threading
from types import TracebackType

from tickwheel.replication.errors import NotLeaderOrFollower, StorageError

__all__ = ["Guard"]


class Guard:
    """A lock under which what the disk refuses is a StorageError.

    Once it is `closed` it lets nobody in: NotLeaderOrFollower.
    """

    def __init__(self, name: object) -> None:
        self._name = name
        self._lock = threading.Lock()
        self.closed = False

    def __enter__(self) -> None:
        self._lock.acquire()
        if self.closed:
            self._lock.release()
            raise NotLeaderOrFollower(f"{self._name} is closed")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
        if isinstance(error, OSError):
            raise StorageError(f"{self._name}: {error}") from error
