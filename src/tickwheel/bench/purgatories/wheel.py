"""The purgatory of this package, as the benchmark runs it."""
from tickwheel._core import DelayedOperation
from tickwheel.purgatory import DelayedOperationPurgatory
from tickwheel.timer import Timer


class WheelPurgatory(DelayedOperationPurgatory):
    """Its hot methods are the core's: nothing of ours stands before them. Timeouts run on the reaper."""

    name = "wheel"
    summary = "DelayedOperationPurgatory: a completed operation leaves its wheel and every list at once"
    Operation = DelayedOperation
    threads = 1
    keeps_completed = False

    def __init__(self, *, tick: float = 0.001, wheel_size: int = 20, purge_interval: int = 1000) -> None:
        super().__init__(
            self.name,
            timer=Timer(tick=tick, wheel_size=wheel_size, executor="inline", name=self.name),
            purge_interval=purge_interval if self.keeps_completed else None,
        )

    def close(self) -> list[DelayedOperation]:
        operations = super().close()
        self.timer.close()
        return operations

    @property
    def queue_length(self) -> int:
        return self.timer._core.buckets

    @property
    def wakeups(self) -> int:
        return self.timer.stats().wakeups

    @property
    def purges(self) -> int:
        return self.stats().purges


class PurgedWheelPurgatory(WheelPurgatory):
    """As in Kafka since the wheel: the queue is exact, the lists are purged by the number of completed."""

    name = "wheel-purged"
    summary = "the same with a purge interval: completed operations stay in the lists until a purge"
    keeps_completed = True
