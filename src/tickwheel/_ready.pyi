from collections.abc import Callable
from typing import Any, Self, final

from tickwheel._task import TimerTask

@final
class ReadyQueue:
    feed: Callable[[], None] | None
    @property
    def executor(self) -> Any: ...
    def __new__(
        cls, *, feed: Callable[[], None] | None = None, executor: Any = None, in_context: bool = False
    ) -> Self: ...

class RoutedTask(TimerTask): ...
@final
class PeriodicTask(RoutedTask): ...
