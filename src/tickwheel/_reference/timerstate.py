"""TimerState in plain Python: the mirror of `_timerstate.pyx`. Who may touch it, and when: `section`."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tickwheel._reference.histogram import SIZE
from tickwheel._reference.levels import Bucket, Levels
from tickwheel._reference.ready import ReadyQueue, RoutedTask
from tickwheel._reference.task import PENDING, QUEUED, TaskOwner, TimerTask, check_finite
from tickwheel._reference.ticks import deadline_tick

FORKED = "this timer was made before fork() and is stopped in the child: make a new one"
CLOSED = "the timer is closed"


class TooManyPending(RuntimeError):
    """`max_pending` tasks are pending: this one was not scheduled, and nothing changed."""


class Ticket:
    """What an executor that is not ours is handed: run this task, if it still waits for this run."""

    __slots__ = ("_core", "_generation", "task")

    def __init__(self, core: TimerState, task: TimerTask) -> None:
        self._core = core
        self.task = task
        self._generation = task._generation

    def is_stale(self) -> bool:
        return self.task._state is not QUEUED or self.task._generation != self._generation

    def __call__(self) -> None:
        self._core.redeem(self)

    def __repr__(self) -> str:
        return f"<Ticket for {self.task!r}>"


class TimerState(TaskOwner):
    """Levels, lists, clock and counters of one timer, and who is to be told of what."""

    def __init__(
        self,
        *,
        wheel_size: int,
        start_tick: int,
        tick: float,
        clock: Any,
        exact_clock: bool,
        self_driven: bool,
        max_pending: int | None,
        report: Callable[[TimerTask, BaseException], None],
    ) -> None:
        self.forked = False
        self._closed = False
        self._taken_back = False
        self._lock = threading.RLock()
        self._inside = False
        self._chores: deque[Callable[[], None]] = deque()  # what the next turn is to call first
        self._reserved = 0  # places kept for operations that are not pending yet
        self._tickets: deque[Ticket] = deque()  # those that their executors have not got yet
        self._unsettled: deque[tuple[TimerTask, bool]] = deque()  # and whether it is due at once
        self._errands: deque[Callable[[], None]] = deque()
        self._wanted: tuple[float, int] | None = None  # by `reconfigure`: tick and wheel size
        self._self_driven = self_driven
        self._tick = tick
        self._max_pending = 2**63 - 1 if max_pending is None else min(max_pending, 2**63 - 1)
        self._levels: Levels[TimerTask] = Levels(wheel_size, start_tick)
        self._due: Bucket[TimerTask] = Bucket()  # PENDING, their tick had come when they were linked
        self._expired: Bucket[TimerTask] = Bucket()  # PENDING, found due by this turn, until they are queued
        self._handed: Bucket[TimerTask] = Bucket()  # QUEUED at executors that are not ours
        self._running: Bucket[TimerTask] = Bucket()  # PENDING periodic tasks whose callback runs
        self._runners: list[int] = []  # threads that run callbacks
        self._armed = -math.inf  # the tick that the reaper sleeps for; -inf while it is awake
        self._pending = self._scheduled = self._cancelled = self._returned = 0
        self._errors = self._wakeups = self._lateness_max = 0
        self._lateness = [0] * SIZE
        self._latest = -math.inf
        self.report = report
        self._clock_time: Callable[[], float] = clock.time
        self.now: Callable[[], float] = time.monotonic if exact_clock else self._steady_time
        self.wake: Callable[[], None] | None = None
        self.on_idle: Callable[[], None] | None = None
        self.inline = ReadyQueue()
        self.queue = self.inline

    # Time

    def _steady_time(self) -> float:
        """The clock's reading. Never less than before (R6)."""
        if self.forked:
            return self._clock_time()
        reading = check_finite(self._clock_time(), "the clock's time()")
        with self._lock:
            if reading > self._latest:
                self._latest = reading
            return self._latest

    # Linking

    def _queue_of(self, task: TimerTask) -> ReadyQueue:
        queue = task._queue if isinstance(task, RoutedTask) else None
        if queue is None:
            return self.queue
        # "inline" is this timer's, also for a task that another one returned.
        return queue if queue.executor is not None else self.inline

    def _link(self, task: TimerTask) -> bool:
        """In the section: link a live, unlinked task by its `_when`. True: the reaper must be woken.
        One that is due already waits for the next turn, so that every turn ends.
        """
        levels = self._levels
        if task._state is not PENDING and task._state is not QUEUED:
            return False  # a nested call was faster
        task._state = PENDING
        task.deadline = deadline_tick(task._when, self._tick)
        expiration = levels.insert(task)
        if expiration is None:
            expiration = levels.time
            if levels.heap and levels.heap[0][0] == expiration:
                # A turn is in the middle of that bucket: behind its tasks, not before them (R2).
                task.deadline = expiration
                levels.heap[0][2].append(task)
            else:
                self._due.append(task)
        if expiration < self._armed:
            self._armed = expiration  # so that the next nearer one does not wake it again
            return True
        return False

    def _hand(self, task: TimerTask) -> Callable[[], None] | None:
        """In the section: a live, unlinked task becomes QUEUED. Returns what is to be done outside of it."""
        queue = self._queue_of(task)
        if task._state is not PENDING and task._state is not QUEUED:
            return None  # a nested call was faster
        task._state = QUEUED
        task._generation += 1
        if queue.executor is not None:
            self._hand_over(task)
            return self._submit_tickets
        if queue.feed is not None:
            queue.tasks.append(task)
            return queue.feed
        queue.held.append(task)
        armed, self._armed = self._armed, -math.inf
        return None if armed == -math.inf else self.wake

    def _hand_over(self, task: TimerTask) -> None:
        """In the section: a QUEUED task waits at an executor that is not ours, which will get a ticket."""
        self._handed.append(task)
        self._tickets.append(Ticket(self, task))

    def _submit_tickets(self) -> None:
        """Hand the tickets to their executors. One that raises (what it may not) gets its own again later."""
        while self._tickets:
            try:
                ticket = self._tickets.popleft()
            except IndexError:  # another thread was faster
                return
            if ticket.is_stale():
                continue
            try:
                self._queue_of(ticket.task).executor.submit(ticket)
            except BaseException:
                self._tickets.appendleft(ticket)
                raise

    def redeem(self, ticket: Ticket) -> None:
        """A ticket's call: the floor that fires tasks has it."""
        raise NotImplementedError

    # Wholeness

    def idle(self) -> bool:
        """Whether no callback of this timer runs or waits in a queue."""
        queues = self.inline, self.queue
        return not (self._runners or self._handed or any(queue.tasks or queue.held for queue in queues))

    def _check_idle(self) -> None:
        """Tell who waits for it if no callback runs or waits."""
        on_idle = self.on_idle
        if on_idle is not None and self.idle():
            on_idle()

    def _lists(self) -> list[Bucket[TimerTask]]:
        """All lists but those of the levels."""
        queues = [self.inline.tasks, self.inline.held]
        if self.queue is not self.inline:
            queues.append(self.queue.tasks)
        return [*queues, self._handed, self._running, self._expired, self._due]

    def check(self) -> None:
        """AssertionError that names the broken invariant (I1-I5)."""
        with self._lock:
            linked = self._levels.check() + sum(bucket.check() for bucket in self._lists())
            assert linked == self._pending, f"I4: the lists hold {linked} tasks, len is {self._pending}"
