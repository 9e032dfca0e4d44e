"""Timer: a wheel, a clock, a reaper thread and executors. Its hot methods are the core's front's."""

from __future__ import annotations

import atexit
import itertools
import math
import operator
import os
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from tickwheel._core import ReadyQueue, TimerCore, TimerFront, TimerTask
from tickwheel.clock import Clock, ManualClock, MonotonicClock, Sleeper
from tickwheel.closing import Closing
from tickwheel.executor import Executor, ForeignExecutor, Worker
from tickwheel.log import logger
from tickwheel.metrics import TimerStats, percentile
from tickwheel.reaper import reap

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["Timer"]

T = TypeVar("T")

_numbers = itertools.count(1)


class Timer(Closing, TimerFront):
    """Runs callbacks after a delay: millions may be pending, and scheduling or cancelling one is O(1).

    tick            seconds: the unit of time; deadlines are rounded up to it, never down (R1)
    wheel_size      buckets a level, >= 2; 256 to 512 are best
    executor        who runs the callbacks: None for one thread of the timer's own, "inline" for the
                    reaper itself, a `concurrent.futures.Executor` of this process, a `LoopExecutor`
    clock           see `tickwheel.clock`; `MonotonicClock()` by default
    max_pending     more are refused with `TooManyPending`
    on_error        called as on_error(task, exception) for a callback that raised, after it was logged
    name            of the threads
    start           False: no reaper; whoever calls `advance_clock` turns the wheel

    >>> with Timer() as timer:
    ...     task = timer.schedule(30.0, print, "too late")
    ...     task.cancel()
    True

    Close it, or use it as a context manager: one that is dropped warns (ResourceWarning) and closes
    itself, unless a pending callback refers back to it.
    """

    def __init__(
        self,
        *,
        tick: float = 0.001,
        wheel_size: int = 512,
        executor: Executor | Literal["inline"] | None = None,
        clock: Clock | None = None,
        max_pending: int | None = None,
        on_error: Callable[[TimerTask, BaseException], object] | None = None,
        name: str | None = None,
        start: bool = True,
    ) -> None:
        tick = _check_tick(tick)
        wheel_size = _check_wheel_size(wheel_size)
        if clock is not None and not callable(getattr(clock, "time", None)):
            raise TypeError(f"clock must have a time() method, got {clock!r}")
        if max_pending is not None and operator.index(max_pending) < 1:
            raise ValueError(f"max_pending must be >= 1, got {max_pending}")
        if on_error is not None and not callable(on_error):
            raise TypeError(f"on_error must be callable, got {on_error!r}")
        self._name = f"tickwheel-{next(_numbers)}" if name is None else name
        self._clock: Clock = MonotonicClock() if clock is None else clock
        self._on_error = on_error
        self._promises = False  # whether futures depend on tasks
        self._is_owned = False  # by a purgatory, which sees to its closing
        self._sleepers: list[Sleeper] = []  # of threads in advance_clock
        self._tick = tick
        self._wheel_size = wheel_size
        core = TimerCore(
            wheel_size=wheel_size,
            start_tick=_tick_before(self._clock.time(), tick),
            tick=tick,
            clock=self._clock,
            exact_clock=type(self._clock) is MonotonicClock,
            self_driven=not start,
            max_pending=max_pending,
            report=_reporter(self),
        )
        super().__init__(core)
        self._worker = Worker(core, f"{self._name}-worker")
        self._foreign: weakref.WeakValueDictionary[int, ReadyQueue] = weakref.WeakValueDictionary()
        self._at_rest = threading.Event()
        self._reaper: threading.Thread | None = None
        try:
            core.queue = self._worker.queue if executor is None else self._queue_for(executor)
            if start:
                self._start()
        except BaseException:
            core.close()  # nothing is left to be closed
            raise
        _timers.add(self)

    def _start(self) -> None:
        core = self._core
        sleeper = self._clock.sleeper(core.idle)
        core.attach(sleeper.wake, getattr(sleeper, "poke", None))
        name = f"{self._name}-reaper"
        self._reaper = threading.Thread(target=reap, args=(core, sleeper), name=name, daemon=True)
        self._reaper.start()

    def submit(
        self,
        delay: float,
        fn: Callable[..., T],
        /,
        *args: Any,
        executor: Executor | Literal["inline"] | None = None,
    ) -> Future[T]:
        """Call `fn(*args)` in `delay` seconds; returns a future with its result or its error.

        Cancelling the future unlinks the task; `close()` cancels it.
        """
        from tickwheel.futures import Submission

        if not callable(fn):
            raise TypeError(f"fn must be callable, got {fn!r}")
        self._promises = True
        submission = Submission(fn, args)
        submission.follow(self.schedule(delay, submission, executor=executor))
        return submission.future

    def limit(self, future: Future[T], timeout: float) -> Future[T]:
        """A new future with the result of `future`, or TimeoutError if it has none in `timeout` seconds.

        On a timeout `future.cancel()` is tried, and a result that comes later is dropped. Cancelling
        the new future tries to cancel the old one; `close()` cancels it.
        """
        from tickwheel.futures import Deadline

        if not math.isfinite(timeout):
            raise ValueError(f"timeout must be finite, got {timeout}")
        if not hasattr(future, "add_done_callback"):
            raise TypeError(f"future must be a concurrent.futures.Future, got {future!r}")
        self._promises = True
        deadline = Deadline(future, timeout)
        if not deadline.future.done():
            deadline.follow(self.schedule(timeout, deadline))
        return deadline.future

    def advance_clock(self, timeout: float = 0.0) -> int:
        """Turn the wheel: hand over what is due, wait up to `timeout` seconds for something if nothing is.

        Returns the number of tasks handed to the executor (inline: run). From inside a callback it
        does nothing and returns 0. RuntimeError with a reaper.
        """
        if not timeout >= 0:
            raise ValueError(f"timeout must be >= 0, got {timeout}")
        core = self._core
        if self._reaper is not None:
            raise RuntimeError("this timer's reaper turns the wheel: advance_clock is for start=False")
        if core.in_callback():
            return 0
        handed = core.turn_now()
        if handed or not timeout:
            return handed
        until = self.time() + timeout
        with self._sleeping() as sleeper:
            while not handed and not core.closed and self.time() < until:
                when = core.arm()
                if when is not None:
                    sleeper.wait_until(min(when, until))
                    core.woke()
                handed = core.turn_now()
        return handed

    @contextmanager
    def _sleeping(self) -> Iterator[Sleeper]:
        """A sleeper for a thread that turns the wheel itself. Several may: all are woken."""
        core, sleepers = self._core, self._sleepers
        sleeper = self._clock.sleeper(core.idle)
        sleepers.append(sleeper)
        # The list, not self: the core must not keep its timer.
        core.attach(partial(_wake_all, sleepers), partial(_poke_all, sleepers))
        try:
            yield sleeper
        finally:
            sleepers.remove(sleeper)
            sleeper.close()
            core.woke()
            _wake_all(sleepers)  # who sleeps on must arm anew

    def reconfigure(self, *, tick: float | None = None, wheel_size: int | None = None) -> None:
        """Change the tick or the wheel size while tasks are pending: all keep their deadlines, rounded
        anew from their exact `when`, and their handles. O(pending)."""
        if tick is not None:
            tick = _check_tick(tick)
        if wheel_size is not None:
            wheel_size = _check_wheel_size(wheel_size)
        tick = self._tick if tick is None else tick
        wheel_size = self._wheel_size if wheel_size is None else wheel_size
        self._core.reconfigure(tick, wheel_size)
        self._tick, self._wheel_size = tick, wheel_size

    def stats(self) -> TimerStats:
        """What it has done so far: see `TimerStats`. Lateness is at most 1/64 too great."""
        pending, scheduled, fired, cancelled, errors, wakeups, latest, lateness = self._core.counts()
        return TimerStats(
            pending=pending,
            scheduled=scheduled,
            fired=fired,
            cancelled=cancelled,
            errors=errors,
            wakeups=wakeups,
            lateness_p50=percentile(lateness, 0.50, latest) / 1e9,
            lateness_p99=percentile(lateness, 0.99, latest) / 1e9,
            lateness_max=latest / 1e9,
        )

    def close(self, wait: bool = True) -> list[TimerTask]:
        """Stop, and return the tasks that never started: they are IDLE again, and keep their callbacks.

        Waits for callbacks that run, unless called from one. From any thread, any number of times:
        later calls return nothing. The futures of `submit` and `limit` are cancelled.
        """
        core = self._core
        if core.closed and core.in_child:
            return []
        tasks = core.close()
        if self._promises:
            tasks = [task for task in tasks if not _abandon(task)]
        core.wake_reaper()
        self._worker.stop()
        if wait and not core.in_callback():
            core.attach(None, self._at_rest.set)
            while not core.idle():
                self._at_rest.wait()
            self._worker.join()
            if self._reaper is not None and self._reaper is not threading.current_thread():
                self._reaper.join()
        return tasks

    def _queue_for(self, executor: Executor | Literal["inline"]) -> ReadyQueue:
        """The ready queue of an executor named in `schedule`: one for each, as long as a task needs it."""
        if executor == "inline":
            return self._core.inline
        queue = self._foreign.get(id(executor))
        if queue is None:
            # The queue keeps the executor alive, so that its id stays its own.
            foreign = ForeignExecutor(executor)
            queue = ReadyQueue(executor=foreign, in_context=foreign.in_context)
            self._foreign[id(executor)] = queue
        return queue

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot copy or pickle {self!r}: it has threads and tasks")

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else f"{len(self)} pending"
        return f"<Timer {self._name!r}: {state}>"

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None and not core.closed:
            try:
                if not self._is_owned:
                    warnings.warn(f"unclosed timer {self!r}", ResourceWarning, source=self, stacklevel=2)
            finally:  # it raises where warnings are errors
                self.close(wait=False)


def _wake_all(sleepers: list[Sleeper]) -> None:
    for sleeper in list(sleepers):
        sleeper.wake()


def _poke_all(sleepers: list[Sleeper]) -> None:
    for sleeper in list(sleepers):
        poke = getattr(sleeper, "poke", None)
        if poke is not None:
            poke()


def _check_tick(tick: float) -> float:
    if isinstance(tick, str | bytes):
        raise TypeError(f"tick must be a number of seconds, got {tick!r}")
    if not 0 < tick < math.inf:
        rule = "> 0" if tick <= 0 else "> 0 and finite"
        raise ValueError(f"tick must be {rule}, got {tick}")
    if tick < 1e-9:
        raise ValueError(f"tick must be >= 1e-09 (1 ns), got {tick}")
    return float(tick)


def _check_wheel_size(wheel_size: int) -> int:
    wheel_size = operator.index(wheel_size)
    if wheel_size < 2:
        raise ValueError(f"wheel_size must be >= 2, got {wheel_size}")
    return wheel_size


def _tick_before(now: float, tick: float) -> int:
    """A tick just behind `now`: the wheel may lag behind the clock, but never run ahead of it."""
    return math.floor(max(-(2.0**61), min(now / tick, 2.0**61))) - 1


def _abandon(task: TimerTask) -> bool:
    """Whether it belonged to a future, which is cancelled by this."""
    from tickwheel.futures import Deadline, Submission

    promise = task.callback
    # By type: a callback of the user's may do anything when it is asked for an attribute.
    if type(promise) is not Submission and type(promise) is not Deadline:
        return False
    promise.abandon()
    return True


def _reporter(timer: Timer) -> Callable[[TimerTask, BaseException], None]:
    # Weakly: the threads hold the reporter, and a timer that is dropped must be noticed.
    timer_ref = weakref.ref(timer)

    def report(task: TimerTask, error: BaseException) -> None:
        """R8: logged, then reported. Nothing that goes wrong here may end the thread."""
        timer = timer_ref()
        on_error = None if timer is None else timer._on_error
        try:
            logger().error("%r raised", task, exc_info=error)
        except BaseException:
            traceback.print_exc()
        if on_error is not None:
            try:
                on_error(task, error)
            except BaseException:
                logger().exception("on_error raised, called for %r", task)

    return report


_timers: weakref.WeakSet[Timer] = weakref.WeakSet()


def _close_all() -> None:
    """At the interpreter's exit: the threads are daemons, nobody waits for them."""
    for timer in list(_timers):
        timer.close(wait=False)


def _after_fork() -> None:
    """In a child: its timers' threads are gone, and whatever they held is held for ever."""
    for timer in list(_timers):
        timer._core.fork()
        if isinstance(timer._clock, ManualClock):
            timer._clock.forget_sleepers()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
