"""The simple wheel: one ring of slots, turned by a ticker."""
from math import ceil
from threading import Thread, current_thread
from time import monotonic

from tickwheel.bench.purgatories.expirer import Expirer
from tickwheel.bench.purgatories.watching import WatchingOperation, WatchingPurgatory

Slot = dict[WatchingOperation, int]     # -> its deadline's tick, which also says in which round it is due


class RingPurgatory(WatchingPurgatory):
    """`wheel_size` slots; a deadline goes into slot `tick % wheel_size`, however many rounds away it is.

    The ticker wakes every tick, looks through one slot, and starts a thread for each operation that is due
    in this round. Starting and stopping a timeout is O(1). Its three faults can be read from its counters:

        wakeups     a tick each, also where nothing is pending
        threads     at once, the ticker included; `started`: threads in all
        scanned     entries looked at: timeout / (tick * wheel_size) for each operation that expires

    Where the system has no more threads, the ticker dies of a RuntimeError.
    """

    name = "ring"
    summary = "one ring of slots, a ticker that wakes every tick, a thread for each due operation"

    def __init__(self, *, tick: float = 0.001, wheel_size: int = 20, purge_interval: int = 1000) -> None:
        super().__init__()
        self.threads = 1
        self.started = 0
        self.scanned = 0
        self._running: set[Thread] = set()
        self._tick = tick
        self._rate = 1.0 / tick
        self._slots: list[Slot] = [{} for _ in range(wheel_size)]
        self._now_tick = int(monotonic() * self._rate)      # the last whose slot was, or is, looked through
        self._expirer = Expirer("ring-ticker", self._turn)
        self._expirer.armed = (self._now_tick + 1) * tick
        self._expirer.start()

    def _start_timeout(self, operation: WatchingOperation) -> None:
        deadline_tick = ceil((monotonic() + operation.timeout) * self._rate)
        while True:
            deadline_tick = max(deadline_tick, self._now_tick + 1)
            slot = self._slots[deadline_tick % len(self._slots)]
            operation.deadline_tick = deadline_tick
            slot[operation] = deadline_tick
            # If the ticker has passed by meanwhile, it has taken it, or it has to go further on.
            if self._now_tick < deadline_tick or slot.pop(operation, None) is None:
                return

    def _stop_timeout(self, operation: WatchingOperation) -> None:
        deadline_tick = operation.deadline_tick
        if deadline_tick is not None:
            self._slots[deadline_tick % len(self._slots)].pop(operation, None)

    def _turn(self) -> None:
        size = len(self._slots)
        now_tick = int(monotonic() * self._rate)
        # A ticker that was held up by more than a round looks once through each slot.
        for tick in range(max(self._now_tick, now_tick - size) + 1, now_tick + 1):
            self._now_tick = tick
            slot = self._slots[tick % size]
            if slot:
                self._scan(slot, tick)
        self._expirer.armed = (now_tick + 1) * self._tick

    def _scan(self, slot: Slot, tick: int) -> None:
        entries = slot.copy()
        self.scanned += len(entries)
        for operation, deadline_tick in entries.items():
            if deadline_tick <= tick and slot.pop(operation, None) is not None:
                self._start_thread(operation)

    def _start_thread(self, operation: WatchingOperation) -> None:
        thread = Thread(target=self._expire, args=(operation,), name="ring-task", daemon=True)
        self._running.add(thread)
        self.started += 1
        self.threads = max(self.threads, 1 + len(self._running))
        try:
            thread.start()
        except RuntimeError:
            self._running.remove(thread)
            raise

    def _expire(self, operation: WatchingOperation) -> None:
        try:
            operation.expire()
        finally:
            self._running.discard(current_thread())

    def close(self) -> None:
        self._expirer.close()
        for thread in self._running.copy():
            thread.join()
        for slot in self._slots:
            slot.clear()
        self._watchers.clear()

    @property
    def delayed(self) -> int:
        return sum(map(len, self._slots))

    @property
    def queue_length(self) -> int:
        return self.delayed

    @property
    def wakeups(self) -> int:
        return self._expirer.wakeups
