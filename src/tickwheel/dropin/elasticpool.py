"""ElasticPool: threads that run what they are given, more of them only while functions block."""

from __future__ import annotations

import _thread
import time
from collections import deque
from collections.abc import Callable

from tickwheel.log import logger

__all__ = ["ElasticPool"]

IDLE_S = 5.0  # how long a thread waits for work before it ends
LOOK_S = 0.00025  # how long the next thread looks on before it helps


class ElasticPool:
    """An executor for `Timer`: `submit(job)`, and no more. It has no thread until then.

    No job waits long for others that block: whoever takes a job while more are waiting first sees to it
    that another thread is on its way. One at a time is on its way, and it looks on as long as the others
    get through a job each in `LOOK_S`: a burst of short jobs does not become a burst of threads.

    The threads are bare: they are not in `threading.enumerate()`, and exit does not wait for them.
    There is no lock to wait for, since signal handlers and destructors may submit while their thread is
    inside: lists change by single steps, each of which is whole.
    """

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], object]] = deque()
        self._taken = 0  # jobs, roughly: threads may count at once
        self._members: set[int] = set()  # the threads that take jobs
        self._gates: list[_thread.LockType] = []  # of idle threads; the last is woken first
        self._starting = _thread.allocate_lock()  # held while a thread is on its way
        self._abandoned = False
        self._refused: Callable[[], object] | None = None

    def submit(self, job: Callable[[], object]) -> None:
        self._jobs.append(job)
        self._rouse()

    def abandon(self) -> None:
        """This process is a child of fork, and the one thread in it may be ours: it ends with its job."""
        self._abandoned = True

    def on_refusal(self, refused: Callable[[], object]) -> None:
        """From now on `refused()` is called when no thread can be started, instead of logging it."""
        self._refused = refused
        if self._jobs:  # those of an earlier refusal, perhaps
            self._rouse()

    def run_waiting(self) -> None:
        """Run the jobs that wait, in this thread."""
        while True:
            try:
                job = self._jobs.popleft()
            except IndexError:
                return
            job()

    def _rouse(self) -> None:
        """Let one more thread look at the jobs, unless one that is on its way will."""
        try:
            gate = self._gates.pop()
        except IndexError:
            self._start()
        else:
            gate.release()

    def _start(self) -> None:
        if not self._starting.acquire(blocking=False):
            return
        try:
            _thread.start_new_thread(self._work, ())
        except RuntimeError as error:
            self._starting.release()
            if self._refused is not None:
                self._refused()
            elif "interpreter shutdown" not in str(error):  # if so, `on_refusal` is about to be called
                logger().exception("no thread can be started: %d due functions wait", len(self._jobs))

    def _work(self) -> None:
        self._look_on()
        ident = _thread.get_ident()
        self._members.add(ident)
        self._starting.release()  # before the jobs are looked at, so that none is overlooked
        try:
            self._take_jobs()
        finally:
            self._members.discard(ident)

    def _look_on(self) -> None:
        while self._jobs and self._members:
            before = self._taken
            time.sleep(LOOK_S)
            if self._taken - before < len(self._members):
                return

    def _take_jobs(self) -> None:
        gate = _thread.allocate_lock()
        gate.acquire()
        while not self._abandoned:
            try:
                job = self._jobs.popleft()
            except IndexError:
                if not self._rest(gate):
                    return
                continue
            self._taken += 1
            if self._jobs:
                self._rouse()
            job()
            del job  # what it refers to must not live as long as an idle thread

    def _rest(self, gate: _thread.LockType) -> bool:
        """Wait until there may be a job. False: there was none for a while."""
        self._gates.append(gate)
        # A job may have come before the gate was there to be found.
        if not self._jobs and gate.acquire(timeout=IDLE_S):
            return True
        try:
            self._gates.remove(gate)
        except ValueError:
            gate.acquire()  # somebody has found it: the release is for sure
            return True
        return bool(self._jobs)
