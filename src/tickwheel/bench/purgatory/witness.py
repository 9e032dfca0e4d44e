"""Who looks on while a run goes on, and who ends it before its time."""
from __future__ import annotations

import gc
import logging
import os
import sys
import threading
from importlib.util import find_spec
from time import sleep, thread_time_ns
from types import TracebackType
from typing import Self

from tickwheel.bench.micro import resident_bytes
from tickwheel.bench.purgatories.interface import Purgatory
from tickwheel.log import logger

LOOK_EVERY_S = 0.008
RESERVE = 1 << 20       # bytes
ENDS_S = 20.0           # after an error a run has ended, or never will
NO_LOCK = "can't allocate lock"     # a RuntimeError: how a lock says that there is no memory


class Witness:
    """The peaks of a purgatory's queue and its process's memory: `look_on` looks every few milliseconds."""

    def __init__(self, purgatory: Purgatory) -> None:
        self.queue_length = 0
        self.resident: int | None = resident_bytes() if os.path.exists("/proc/self/statm") else None
        self._resident_before = self.resident
        self._purgatory = purgatory

    @property
    def growth(self) -> int | None:
        """Bytes of resident memory at the peak, above those at the start; None: the system does not tell."""
        return None if self.resident is None else self.resident - (self._resident_before or 0)

    def look_on(self, over: threading.Event) -> None:
        purgatory = self._purgatory
        while not over.wait(LOOK_EVERY_S):
            self.queue_length = max(self.queue_length, purgatory.queue_length)
            if self.resident is not None:
                self.resident = max(self.resident, resident_bytes())


class Collections:
    """How often the garbage collector runs within the block, and for how long.

    In the time of the thread that collects: the callbacks are Python, before which it may have to let go
    of the GIL.
    """

    def __init__(self) -> None:
        self.count = 0
        self.ns = 0
        self._begin = 0

    def __enter__(self) -> Self:
        gc.callbacks.append(self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gc.callbacks.remove(self._note)

    def _note(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._begin = thread_time_ns()
        else:
            self.ns += thread_time_ns() - self._begin
            self.count += 1


class Trouble:
    """The first error of a run, in whatever thread: made before the run, for memory may be short after it.

    Errors of threads and of callbacks come here instead of stderr; the thread that enqueues notes its own.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._reserve: bytearray | None = bytearray(RESERVE)
        self._limited = False
        logger().addHandler(_Listener(self))
        threading.excepthook = lambda args: self.note(args.exc_value)
        sys.unraisablehook = lambda args: self.note(args.exc_value)

    def limit_memory(self, more: int) -> None:
        """From now on the data segment of this process may grow by so many bytes."""
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        self._limited = True
        resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + more, hard))

    def note(self, error: BaseException | None) -> None:
        # First of all: without memory nothing can be said.
        self._reserve = None
        if self._limited:
            import resource

            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        if self.error is None:
            self.error = error
            threading.Thread(target=self._insist, name="end", daemon=True).start()

    def _insist(self) -> None:
        """End the process where the run does not: after an error at any place, a design may hang."""
        sleep(ENDS_S)
        print(f"{self}, and then no end", file=sys.stderr, flush=True)
        os._exit(1)

    def __str__(self) -> str:
        if isinstance(self.error, MemoryError) or str(self.error) == NO_LOCK:
            return "out of memory"
        return f"{type(self.error).__name__}: {self.error}"


class _Listener(logging.Handler):
    """The library logs what callbacks raise: that is noted."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(logging.ERROR)
        self._trouble = trouble

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._trouble.note(record.exc_info[1])


def can_limit_memory() -> bool:
    return find_spec("resource") is not None and os.path.exists("/proc/self/status")


def _data_bytes() -> int:
    """What RLIMIT_DATA counts: the private writable memory that this process has mapped."""
    with open("/proc/self/status", encoding="ascii") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name == "VmData":
                return int(value.split()[0]) * 1024
    raise OSError("VmData is not in /proc/self/status: memory cannot be limited here")
