"""TimerCore in plain Python: the mirror of `_timercore.pyx`.

How threads share a core (docs/design.md, "Threads"): a method that touches levels, lists or
counters does so in the *section*, under an RLock. Destructors and signal handlers may run
at almost any point, also inside this thread's own section, and call back. Such a nested call

1. finds `_inside` set, and decides by states alone: from reading a task's state to writing it
   there is no call and no backward jump, and between those CPython lets nobody in;
2. leaves the lists to the outer holder, which *settles* the task before it leaves.

Hence the rule for the outer holder: the state says what a task is, the list only where it was put.
A signal handler that raises inside the section tears a list; `_recover` makes it whole from the states.
"""

from __future__ import annotations

import gc
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tickwheel._reference.histogram import SIZE, index_of
from tickwheel._reference.levels import Bucket, Levels, check_size
from tickwheel._reference.ready import PeriodicTask, ReadyQueue, RoutedTask
from tickwheel._reference.task import (
    CANCELLED,
    FIRED,
    IDLE,
    PENDING,
    QUEUED,
    TimerTask,
    check_finite,
    is_live,
)
from tickwheel._reference.ticks import LAST_TICK, deadline_tick, now_tick

BATCH = 1024  # nodes handled in one section
FORKED = "this timer was made before fork() and is stopped in the child: make a new one"
CLOSED = "the timer is closed"

Begun = tuple[Callable[..., object] | None, tuple[Any, ...]]


class TooManyPending(RuntimeError):
    """`max_pending` tasks are pending: this one was not scheduled, and nothing changed."""


class Ticket:
    """What an executor that is not ours is handed: run this task, if it still waits for this run."""

    __slots__ = ("_core", "_generation", "task")

    def __init__(self, core: TimerCore, task: TimerTask) -> None:
        self._core = core
        self.task = task
        self._generation = task._generation

    def is_stale(self) -> bool:
        return self.task._state is not QUEUED or self.task._generation != self._generation

    def __call__(self) -> None:
        self._core.redeem(self)

    def __repr__(self) -> str:
        return f"<Ticket for {self.task!r}>"


class TimerCore:
    """Levels, ready queues and counters of one timer: what the reaper and the tasks know of it."""

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
        self._report = report
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

    # The section

    def _leave(self) -> None:
        """The outer holder's last step: see to what nested calls have left."""
        while self._unsettled or self._wanted is not None:
            if self._wanted is not None:
                (tick, wheel_size), self._wanted = self._wanted, None
                self._rebuild(tick, wheel_size)
                continue
            task, at_once = self._unsettled.popleft()
            if task.next is not None:
                task.unlink()
            if is_live(task) and task._owner is self and not self._closed:
                errand = self._hand(task) if at_once else self.wake if self._link(task) else None
                if errand is not None:
                    self._errands.append(errand)
        self._inside = False

    def _carry_out(self) -> None:
        """Outside the section: what settling has left to do."""
        while self._errands:
            self._errands.popleft()()

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

    def start(self, task: TimerTask, now: float, at_once: bool) -> None:
        """Schedule an unlinked task that is the caller's alone, and whose `_when` is set."""
        if self.forked:
            raise RuntimeError(FORKED)
        errand: Callable[[], None] | None = None
        with self._lock:
            if self._closed:
                raise RuntimeError(CLOSED)
            if self._pending >= self._max_pending:
                raise TooManyPending(f"max_pending is {self._max_pending}, {self._pending} tasks are pending")
            self._pending += 1
            self._scheduled += 1
            task._state = PENDING
            if self._inside:
                self._unsettled.append((task, at_once))
                return
            try:
                self._inside = True
                if at_once:
                    errand = self._hand(task)
                else:
                    if int(now / self._tick) > self._levels.time:
                        self._follow(now)
                    if self._link(task):
                        errand = self.wake
                self._leave()
            except BaseException:
                self._recover()
                raise
        if errand is not None:
            errand()
        if self._errands:
            self._carry_out()

    def _follow(self, now: float) -> None:
        """In the section: move the levels' clock to `now` if nothing is due until then, so that a
        timer that idled does not place what comes next in too coarse a bucket."""
        tick = now_tick(now, self._tick)
        if tick > self._levels.time and not self._due:
            expiration = self._levels.next_expiration()
            if expiration is None or expiration > tick:
                self._levels.set_time(tick)

    def cancel_task(self, task: TimerTask) -> bool:
        with self._lock:
            if task._owner is not self or not is_live(task):
                return False
            task._state = CANCELLED
            self._pending -= 1
            self._cancelled += 1
            callback, task._callback = task._callback, None  # released after the section
            args, task._args = task._args, ()
            if self._inside:
                self._unsettled.append((task, False))
            else:
                try:
                    self._inside = True
                    if task.next is not None:
                        task.unlink()
                    self._leave()
                except BaseException:
                    self._recover()
                    raise
        del callback, args
        if self._errands:
            self._carry_out()
        if self.on_idle is not None:
            self._check_idle()
        return True

    def reschedule_task(self, task: TimerTask, delay: float) -> bool:
        now = self.now()
        errand: Callable[[], None] | None = None
        with self._lock:
            if self._closed or task._owner is not self or not is_live(task):
                return False
            task._when = now + delay
            if isinstance(task, PeriodicTask):
                task.move_grid(max(task._when, now))
                if task._running:
                    task._moved = True
                    return True
            task._state = PENDING
            if self._inside:
                self._unsettled.append((task, delay <= 0))
                return True
            try:
                self._inside = True
                task.unlink()
                if delay <= 0:
                    errand = self._hand(task)
                elif self._link(task):
                    errand = self.wake
                self._leave()
            except BaseException:
                self._recover()
                raise
        if errand is not None:
            errand()
        if self._errands:
            self._carry_out()
        if self.on_idle is not None:
            self._check_idle()
        return True

    # Firing

    def turn(self, now: float) -> int:
        """Hand all that is due at `now` to the executors, and run what is inline.

        Returns how many were handed over (inline: run). A section handles BATCH nodes at most.
        """
        if self.forked:
            return 0
        handed = 0
        wakeups = self._levels.wakeups
        with self._lock:
            if self._inside:
                return 0
            try:
                self._inside = True
                self.inline.tasks.take_all(self.inline.held)
                self._expired.take_all(self._due)
                self._leave()
            except BaseException:
                self._recover()
                raise
        more = True
        while more:
            moved, fed = 0, False
            with self._lock:
                try:
                    self._inside = True
                    if not self._closed:
                        moved, more, fed = self._expire(now)
                    self._leave()
                except BaseException:
                    self._recover()
                    raise
            if fed and self.queue.feed is not None:
                self.queue.feed()
            self._submit_tickets()
            if self._errands:
                self._carry_out()
            ran = self._run(self.inline, self._self_driven)
            handed += moved + ran
            more = not self._closed and (more or ran > 0)
        if self._self_driven and self._levels.wakeups != wakeups:
            self._wakeups += 1
        return handed

    def _expire(self, now: float) -> tuple[int, bool, bool]:
        """In the section: queue what is due, BATCH tasks at most. How many were queued for others than
        whoever turns the wheel, whether to call again, and whether there is something for the worker."""
        # The tick anew each time: a callback may have changed it.
        left = self._levels.advance(now_tick(now, self._tick), self._expired, BATCH)
        handed = count = 0
        fed = False
        for task in self._expired:
            if count == BATCH:
                break
            count += 1
            task.unlink()
            if task._state is not PENDING:
                continue
            task._state = QUEUED
            task._generation += 1
            queue = self._queue_of(task)
            if queue.executor is not None:
                self._hand_over(task)
                handed += 1
                continue
            queue.tasks.append(task)
            if queue.feed is not None:
                fed = True
                handed += 1
        return handed, left == 0 or bool(self._expired), fed

    def _run(self, queue: ReadyQueue, exits: bool) -> int:
        """Run the tasks of a queue in this thread, one at a time, so that all that has not started
        can still be cancelled, moved or taken back. `exits`: KeyboardInterrupt and SystemExit pass."""
        if not queue.tasks:
            return 0
        thread = threading.get_ident()
        try:
            self._runners.append(thread)
            return self._fire_all(queue, exits)
        finally:
            # The first call here, and in C: no signal handler's exception comes before it.
            self._runners.remove(thread)
            if self.on_idle is not None:
                self._check_idle()

    def _fire_all(self, queue: ReadyQueue, exits: bool) -> int:
        # Not inside the `try` above: CPython 3.13 leaves the jump back of a loop out of it.
        count = 0
        while self._fire_next(queue, exits):
            count += 1
        return count

    def _fire_next(self, queue: ReadyQueue, exits: bool) -> bool:
        """Take the first task of a queue and run it. False: there is none."""
        if not queue.tasks:
            return False
        now = self.now()
        with self._lock:
            try:
                self._inside = True
                task, begun = self._begin_first(queue, now)
                self._leave()
            except BaseException:
                self._recover()
                raise
        if self._errands:
            self._carry_out()
        if begun is None:
            return False
        self._call(task, *begun, exits)
        return True

    def _begin_first(self, queue: ReadyQueue, now: float) -> tuple[TimerTask, Begun | None]:
        """In the section: start the first task of a queue that is still QUEUED, if there is one."""
        begun: Begun | None = None
        while begun is None and (task := queue.tasks.next) is not queue.tasks:
            begun = self._begin(task, now)
        return task, begun

    def redeem(self, ticket: Ticket) -> None:
        """A ticket's call."""
        task = ticket.task
        now = self.now()
        thread = threading.get_ident()
        try:
            self._runners.append(thread)
            with self._lock:
                if task._owner is not self or ticket.is_stale():
                    return
                try:
                    self._inside = True
                    begun = self._begin(task, now)
                    self._leave()
                except BaseException:
                    self._recover()
                    raise
            if self._errands:
                self._carry_out()
            if begun is not None:
                self._call(task, *begun, False)
        finally:
            self._runners.remove(thread)  # as in `_run`
            if self.on_idle is not None:
                self._check_idle()

    def _begin(self, task: TimerTask, now: float) -> Begun | None:
        """In the section: a QUEUED task starts; its callback and arguments. None: it is no longer QUEUED."""
        task.unlink()
        if task._state is not QUEUED:
            return None
        if isinstance(task, PeriodicTask):
            task._state = PENDING
            task._running = True
            task._moved = False
            self._scheduled += 1  # the next run
        else:
            task._state = FIRED
            self._pending -= 1
        callback, args = task._callback, task._args
        if task._state is PENDING:
            self._running.append(task)
        else:
            task._callback = None
            task._args = ()
        late_ns = max(0, int(min((now - task._when) * 1e9, 9.2e18)))
        self._lateness[index_of(late_ns)] += 1
        if late_ns > self._lateness_max:
            self._lateness_max = late_ns
        return callback, args

    def _call(
        self, task: TimerTask, callback: Callable[..., object] | None, args: tuple[Any, ...], exits: bool
    ) -> None:
        """Run a task that has begun. Errors are reported and stop nothing (R8)."""
        try:
            if callback is None:
                task.run()
            else:
                callback(*args)
        except BaseException as error:
            if isinstance(task, PeriodicTask):
                self._rearm(task)
            if exits and isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            with self._lock:
                self._errors += 1
            self._report(task, error)
        else:
            if isinstance(task, PeriodicTask):
                self._rearm(task)

    def _rearm(self, task: PeriodicTask) -> None:
        """A periodic task's callback has returned: on to the next run, unless it was cancelled."""
        now = self.now()
        wake = False
        if self.forked:
            return
        with self._lock:
            if task._owner is not self or not task._running:
                return
            task._running = False
            if task._state is PENDING:
                try:
                    self._inside = True
                    if not task._moved:
                        task.plan_next(now)
                    if task.next is not None:
                        task.unlink()
                    deadline = deadline_tick(task._when, self._tick)
                    if task._missed == "burst" and deadline <= self._levels.time:
                        task.deadline = deadline
                        self._expired.append(task)  # catches up within this turn
                        wake = self._armed != -math.inf
                    else:
                        wake = self._link(task)
                    self._leave()
                except BaseException:
                    self._recover()
                    raise
        if self._errands:
            self._carry_out()
        if wake and self.wake is not None:
            self.wake()

    def _check_idle(self) -> None:
        on_idle = self.on_idle
        if on_idle is not None and self.idle():
            on_idle()

    # For the floor above: the reaper, the executors, Timer

    @property
    def closed(self) -> bool:
        return self._closed or self.forked

    @property
    def in_child(self) -> bool:
        return self.forked

    def fork(self) -> None:
        """This process is a child of fork: the core is dead here, and its section may be held for ever."""
        self.forked = True

    def attach(self, wake: Callable[[], None] | None, on_idle: Callable[[], None] | None) -> None:
        """Who is to be woken when something nearer comes, and told when no callback runs or waits."""
        self.wake = wake
        self.on_idle = on_idle

    def wake_reaper(self) -> None:
        """End the sleep of whoever turns the wheel, if somebody sleeps."""
        wake = self.wake
        if wake is not None:
            wake()

    def turn_now(self) -> int:
        """Hand over all that is due now; returns how many tasks were handed over (inline: run)."""
        return self.turn(self.now())

    def run_queue(self, queue: ReadyQueue) -> int:
        """Run what waits in a queue, in this thread; returns how many tasks."""
        return self._run(queue, False)

    def arm(self) -> float | None:
        """When the reaper is to wake, in seconds; inf: when it is woken. None: there is work now.

        Drops the buckets that cancellations emptied: it never wakes for one of them twice.
        """
        now = self.now()
        if self.forked:
            return None
        with self._lock:
            if self._closed or self._tickets or any(
                (self._due, self._expired, self.inline.held, self.inline.tasks)
            ):
                return None
            try:
                self._inside = True
                when: float | None = None
                expiration = self._levels.next_expiration()
                if expiration is None:
                    when = self._armed = math.inf
                elif expiration > now_tick(now, self._tick):
                    self._armed = expiration
                    when = expiration * self._tick
                self._leave()
            except BaseException:
                self._recover()
                raise
        if self._errands:
            self._carry_out()
            return None
        return when

    def woke(self) -> None:
        """The reaper is awake: nobody needs to wake it."""
        if self.forked:
            return
        with self._lock:
            self._armed = -math.inf
            self._wakeups += not self._self_driven  # there, `turn` counts

    def idle(self) -> bool:
        """Whether no callback of this timer runs or waits in a queue."""
        queues = self.inline, self.queue
        return not (self._runners or self._handed or any(queue.tasks or queue.held for queue in queues))

    def in_callback(self) -> bool:
        """Whether this thread is inside a callback of this timer."""
        return not self.forked and threading.get_ident() in self._runners

    def close(self) -> list[TimerTask]:
        """Take no more tasks, and take back all that have not started: IDLE, in the order of their firing."""
        tasks: list[TimerTask] = []
        if self.forked:
            return tasks
        with self._lock:
            self._closed = True
            if self._taken_back or self._inside:
                return tasks
            self._taken_back = self._inside = True
            rest: Bucket[TimerTask] = Bucket()
            for bucket in self._lists():
                rest.take_all(bucket)
            wakeups, cascades = self._levels.wakeups, self._levels.cascades
            self._levels.advance(2**63 - 1, rest, 2**63 - 1)
            self._levels.wakeups, self._levels.cascades = wakeups, cascades
            for task in rest:
                task.unlink()
                if is_live(task):
                    task._state = IDLE
                    self._pending -= 1
                    self._returned += 1
                    if isinstance(task, PeriodicTask):
                        task._running = False
                    tasks.append(task)
            self._leave()
        return tasks

    def reconfigure(self, tick: float, wheel_size: int) -> None:
        """Put all pending tasks into new levels, from their exact `when`s. O(n + buckets)."""
        if self.forked:
            raise RuntimeError(FORKED)
        check_size(wheel_size)
        with self._lock:
            if self._closed:
                raise RuntimeError(CLOSED)
            self._wanted = tick, wheel_size
            if self._inside:
                return
            try:
                self._inside = True
                self._leave()
            except BaseException:
                self._recover()
                raise
        if self._errands:
            self._carry_out()

    def _rebuild(self, tick: float, wheel_size: int) -> None:
        """In the section: move all tasks to new levels."""
        old = self._levels
        first = min((deadline_tick(task._when, tick) for task in old.nodes()), default=LAST_TICK)
        # From just before the first, so that all are linked and come in the order of their ticks (R2).
        levels: Levels[TimerTask] = Levels(wheel_size, min(now_tick(self.now(), tick), first - 1))
        levels.wakeups, levels.cascades = old.wakeups, old.cascades
        tasks: Bucket[TimerTask] = Bucket()
        old.advance(2**63 - 1, tasks, 2**63 - 1)
        self._levels, self._tick = levels, tick
        for task in tasks:
            task.unlink()
            if is_live(task):
                self._link(task)
        self._alarm()

    def _alarm(self) -> None:
        """In the section: what the reaper sleeps for may be wrong."""
        self._armed = -math.inf
        if self.wake is not None:
            self._errands.append(self.wake)

    def _recover(self) -> None:
        """In the section: an exception has struck in it. Nothing here raises: it was a signal handler's,
        and a list may be torn. Put all live tasks into new lists, as their states say. O(objects).
        """
        for _ in range(100):
            try:
                # A collection's own list knows also those that only a frame of the traceback holds.
                tasks = [
                    each
                    for each in gc.get_objects()
                    if issubclass(type(each), TimerTask)
                    and getattr(each, "_owner", None) is self
                    and is_live(each)
                ]
                tasks.sort(key=lambda task: task._when)
                self._levels.empty()
                for bucket in self._lists():
                    bucket.empty()
                self._unsettled.clear()
                self._pending = len(tasks)
                for task in tasks:
                    task.prev = task.next = None
                    if isinstance(task, PeriodicTask) and task._running:
                        self._running.append(task)
                    elif task._state is PENDING:
                        self._link(task)
                    else:
                        errand = self._hand(task)
                        if errand is not None:
                            self._errands.append(errand)
                self._alarm()
                self._inside = False
                return
            except BaseException:
                continue  # struck again
        raise RuntimeError("the timer could not be made whole: exceptions keep striking")

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

    def counts(self) -> tuple[Any, ...]:
        """pending, scheduled, fired, cancelled, errors, wakeups, lateness_max (ns), lateness histogram."""
        if self.forked:
            return 0, 0, 0, 0, 0, 0, 0, []
        with self._lock:
            fired = self._scheduled - self._cancelled - self._returned - self._pending
            return (
                self._pending, self._scheduled, fired, self._cancelled, self._errors, self._wakeups,
                self._lateness_max, list(self._lateness),
            )  # fmt: skip
