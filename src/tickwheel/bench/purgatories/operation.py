"""What the old designs hold: an operation that is tried under its own lock and completes exactly once."""
from threading import RLock

from tickwheel.log import logger


class LockedOperation:
    """Completes by an event, by `force_complete`, or after `timeout` seconds, whichever comes first.

    Subclass it, and say in `try_complete` whether it can complete now. `on_complete` runs once, after the
    lock is free; `on_expiration` after it, and only if the timeout won.
    """

    __slots__ = ("_lock", "is_completed", "timeout")

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.is_completed = False
        self._lock = RLock()

    def try_complete(self) -> bool:
        raise NotImplementedError

    def on_complete(self) -> None:
        pass

    def on_expiration(self) -> None:
        pass

    def force_complete(self) -> bool:
        """True for one caller, which runs `on_complete`. Waits for a thread inside `try_complete`."""
        with self._lock:
            if self.is_completed:
                return False
            self.is_completed = True
        self._finish()
        return True

    def attempt(self) -> bool:
        """Try it, unless it is complete: whether this call completed it."""
        with self._lock:
            if self.is_completed:
                return False
            # `try_complete` may call `force_complete` itself: then all is done.
            if not self.try_complete() or self.is_completed:
                return self.is_completed
            self.is_completed = True
        self._finish()
        return True

    def expire(self) -> None:
        """The timeout has come. An error of a callback is logged: it must not end the expiring thread."""
        try:
            if self.force_complete():
                self.on_expiration()
        except MemoryError:
            raise  # a design that runs out of memory is to be seen dying of it
        except Exception:
            logger().exception("%r raised", self)

    def _finish(self) -> None:
        self.on_complete()
