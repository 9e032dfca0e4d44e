from collections.abc import Callable
from typing import Any, Self, final

from tickwheel._ready import ReadyQueue
from tickwheel._task import TimerTask
from tickwheel._wheel import WheelCore

class TooManyPending(RuntimeError): ...

@final
class Ticket:
    def __call__(self, *args: Any, **kwargs: Any) -> None: ...

class TimerState(WheelCore):
    queue: ReadyQueue
    @property
    def inline(self) -> ReadyQueue: ...
    def __new__(
        cls,
        *,
        wheel_size: int,
        start_tick: int,
        tick: float,
        clock: Any,
        exact_clock: bool,
        self_driven: bool,
        max_pending: int | None,
        report: Callable[[TimerTask, BaseException], None],
    ) -> Self: ...
    def check(self) -> None: ...
