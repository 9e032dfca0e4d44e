"""The naive design: a thread for each operation."""
from threading import Lock, Timer

from tickwheel.bench.purgatories.watching import WatchingOperation, WatchingPurgatory


class ThreadPurgatory(WatchingPurgatory):
    """A `threading.Timer` each. A completion cancels it, which wakes its thread to end.

    Where the system has no more threads, `try_complete_else_watch` raises RuntimeError.
    """

    name = "thread"
    summary = "a threading.Timer for each operation"

    def __init__(self, *, tick: float = 0.001, wheel_size: int = 20, purge_interval: int = 1000) -> None:
        super().__init__()
        self.threads = 0
        self.wakeups = 0
        self._timers: dict[WatchingOperation, Timeout] = {}
        self._alive: set[Timeout] = set()
        self._lock = Lock()     # of the counters

    def _start_timeout(self, operation: WatchingOperation) -> None:
        timer = Timeout(self, operation)
        with self._lock:
            self._alive.add(timer)
            self.threads = max(self.threads, len(self._alive))
        self._timers[operation] = timer
        try:
            timer.start()
        except RuntimeError:
            del self._timers[operation]
            self._alive.remove(timer)
            raise

    def _stop_timeout(self, operation: WatchingOperation) -> None:
        timer = self._timers.pop(operation, None)
        if timer is not None:
            timer.cancel()

    def ended(self, timer: "Timeout") -> None:
        with self._lock:
            self._alive.remove(timer)
            self.wakeups += 1

    def close(self) -> None:
        for timer in self._alive.copy():
            timer.cancel()
            timer.join()
        self._timers.clear()
        self._watchers.clear()

    @property
    def delayed(self) -> int:
        return len(self._timers)

    @property
    def queue_length(self) -> int:
        """Threads: those that were cancelled and have not ended yet included."""
        return len(self._alive)


class Timeout(Timer):
    """Tells its purgatory when it ends."""

    def __init__(self, purgatory: ThreadPurgatory, operation: WatchingOperation) -> None:
        super().__init__(operation.timeout, operation.expire)
        self.daemon = True
        self._purgatory = purgatory

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._purgatory.ended(self)
