"""asyncio's timers on the wheel, in plain Python: the mirror of `_loop.pyx`.

Destructors and signal handlers may run within any step below, also in the middle of the lists, and call
back. So what is held is said by the set of *entries* alone, and each change of it is one step that nobody
gets into. The lists are brought up to date after that: by the call that made the change or, if it was
nested in another, by the outer one. A signal handler that raises may tear the lists: they are made anew
from the set.
"""

from __future__ import annotations

import math
import time
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable
from contextvars import Context
from heapq import heapify, heappush
from operator import attrgetter
from typing import Any, Self, TypeVar, TypeVarTuple

from tickwheel._reference.levels import Bucket, Levels, Node
from tickwheel._reference.ticks import LAST_TICK, deadline_tick, now_tick

# A tick is far below what a selector can sleep; a turn of the lowest wheel is 1/16 s, of the next 32 s.
TICK = 1.0 / 8192
WHEEL_SIZE = 512
ALL = 2**63 - 1

Given = TypeVarTuple("Given")
Answer = TypeVar("Answer")

by_when = attrgetter("when")


def nothing() -> None:
    """The callback of an alarm."""


class Entry(Node):
    """The place of a handle in the wheel. Without one it is *dead*: whoever takes the handle, has it."""

    __slots__ = ("core", "handle", "when")

    def __init__(self, core: LoopCore, handle: WheelHandle, when: float, now: float) -> None:
        super().__init__(deadline_tick(when, TICK) if when > now else -LAST_TICK)
        self.core = core
        self.handle: WheelHandle | None = handle
        self.when = when


class WheelHandle(TimerHandle):
    """An `asyncio.TimerHandle` whose timer is in the wheel: `cancel()` takes it out at once, and
    `reschedule(delay)` moves it in place."""

    __slots__ = ("_entry",)  # and not a `Node` itself: two bases with slots do not go together

    _callback: Callable[..., object] | None
    _args: Any
    _context: Context | None
    _loop: AbstractEventLoop
    _repr: str | None
    _scheduled: bool
    _source_traceback: Any
    _when: float
    _entry: Entry | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        handle = super().__new__(cls)
        handle._entry = None
        return handle

    def cancel(self) -> None:
        """Take the callback back. O(1)."""
        if self._cancelled:
            return
        entry = self._entry
        if entry is not None:
            entry.core.release(entry)
        self._cancelled = True
        if self._source_traceback is not None:  # made in debug mode
            self._repr = repr(self)
        self._callback = None
        self._args = None
        self._context = None  # it too may pin much (R10)

    def reschedule(self, delay: float) -> bool:
        """Call it `delay` seconds from now instead. False: it was called or cancelled, or the loop is
        about to call it. O(1)."""
        if self._entry is None:
            return False
        now = self._loop.time()
        when = now + delay
        check_when(when)
        entry = self._entry
        if entry is None or entry.core.release(entry) is None:
            return False
        self._when = when
        entry.core.add(self, when, now)
        if entry.core.front is not None:
            entry.core.front._tell()
        return True


def check_when(when: float) -> None:
    if math.isnan(when):
        raise ValueError(f"when must be a number, got {when}")


class LoopCore:
    """The wheel of one event loop, in seconds. Its clock is a tick ahead of the loop's: what is less than
    a tick away is in the due list, and taken from there to the exact time."""

    def __init__(self, now: float) -> None:
        self.front: LoopFront | None = (
            None  # who is to be told of a nearer deadline; None: it looks by itself
        )
        self.entries: set[Entry] = set()
        self.unsettled: deque[Entry] = deque()  # new, or dead, since the lists were brought up to date
        self.inside = False
        self.torn = False
        self.make_lists(now_tick(now, TICK))

    def make_lists(self, tick: int) -> None:
        self.levels: Levels[Entry] = Levels(WHEEL_SIZE, tick)
        self.due: Bucket[Entry] = Bucket()  # those of this tick, of the next, and of the past

    def section(self, step: Callable[[], Answer]) -> Answer:
        """Not for nested calls. The lists are up to date when the step is taken, and afterwards."""
        self.inside = True
        try:
            self.settle()
            answer = step()
            self.settle()
        except BaseException:
            self.torn = True
            raise
        finally:
            self.inside = False
        return answer

    def settle(self) -> None:
        """In the section: bring the lists up to date."""
        if self.torn:
            self.make_lists(self.levels.time)
            self.entries = {entry for entry in self.entries if entry.handle is not None}
            for entry in list(self.entries):
                entry.prev = entry.next = None
            self.unsettled = deque(self.entries)
            self.torn = False
        while self.unsettled:
            entry = self.unsettled.popleft()
            if entry.next is not None:
                entry.unlink()
            if entry.handle is not None and self.levels.insert(entry) is None:
                self.due.append(entry)

    def change(self, entry: Entry) -> None:
        """An entry is new, or dead."""
        self.unsettled.append(entry)
        if not self.inside:
            self.section(nothing)

    def add(self, handle: WheelHandle, when: float, now: float) -> None:
        """Hold a handle until `when`."""
        entry = Entry(self, handle, when, now)
        handle._entry = entry
        handle._scheduled = True
        self.entries.add(entry)
        self.change(entry)

    def release(self, entry: Entry) -> WheelHandle | None:
        """A handle leaves the wheel. None: another call was faster."""
        handle = entry.handle
        entry.handle = None
        try:
            if handle is not None:
                self.bury(entry, handle)
        except BaseException:
            self.torn = True
            raise
        return handle

    def bury(self, entry: Entry, handle: WheelHandle) -> None:
        """An entry has died."""
        handle._entry = None
        handle._scheduled = False
        self.entries.discard(entry)
        self.change(entry)

    def next(self) -> float:
        """Seconds at which the first of the due is, or the next bucket expires; inf: there is none."""
        return self.section(self.first)

    def first(self) -> float:
        """In the section."""
        if self.due:
            return min(entry.when for entry in self.due)
        expiration = self.levels.next_expiration()
        # The first of the bucket may be due as soon as that.
        return math.inf if expiration is None else (expiration - 1) * TICK

    def pull(self, end: float, heap: list[TimerHandle]) -> None:
        """Move the handles whose `when` is before `end` to a heap."""
        for entry in self.section(lambda: self.before(end)):
            handle = entry.handle
            entry.handle = None
            try:
                if handle is not None:
                    heappush(heap, handle)  # begins with an append: a signal handler cannot come before that
                    self.bury(entry, handle)
            except BaseException:
                self.torn = True
                raise

    def before(self, end: float) -> list[Entry]:
        """In the section: those whose `when` is before `end`, in its order."""
        self.levels.advance(now_tick(end + TICK, TICK), self.due, ALL)
        return sorted([entry for entry in self.due if entry.when < end], key=by_when)

    def drop_all(self) -> None:
        """Let all handles go, as a loop does that is closed."""
        for entry in list(self.entries):
            self.release(entry)


class LoopFront:
    """The timers of an event loop: `call_later` and `call_at`.

    Of a loop built on `asyncio.BaseEventLoop`, if it calls `_drive`: then this class turns it, with asyncio's
    own code and an *alarm*, a handle in asyncio's heap that does nothing, due when the next bucket expires.
    When the events are dealt with, what is due goes into that heap, from where asyncio takes it in the same
    turn. Or of another loop, for which the handles are made, if it calls `_serve`.

    `_make_handle(when, callback, args, context)` makes handles in debug mode, and says what is wrong
    with a closed loop.
    """

    _wheel: LoopCore | None = None  # until there is a timer
    _loop: AbstractEventLoop | None = None  # of the handles; None: this one
    # asyncio's own names.
    _closed = False
    _debug = False
    _scheduled: list[TimerHandle]
    _alarm: Any  # a handle in asyncio's heap: due when the next bucket expires
    _armed = math.inf  # when that is, or when `_arm` was told to wake
    _asyncio_turn: Callable[[], None]  # asyncio's own _run_once
    _resolution: float  # of its clock: seconds

    def _drive(self, turn: Callable[[], None]) -> None:
        """Stand before asyncio's `_run_once`, the bound method given."""
        self._asyncio_turn = turn
        self._alarm = TimerHandle(math.inf, nothing, (), self, Context())  # type: ignore[arg-type]

    def _serve(self, loop: AbstractEventLoop) -> None:
        """Make the handles for another loop, and call `_arm()` when one is due before `_armed`."""
        self._loop = loop

    def _run_once(self) -> None:
        when = self._next_expiration()
        if when != self._armed or (when < math.inf and not self._alarm._scheduled):
            self._set_alarm(when)
        self._asyncio_turn()

    def _runs(self, running: bool) -> None:
        """The loop begins to run, or has stopped. The collector knows all handles of this core."""

    def _set_alarm(self, when: float) -> None:
        """Let the alarm be due at that time."""
        alarm, heap = self._alarm, self._scheduled
        if alarm._scheduled:
            heap[:] = [handle for handle in heap if handle is not alarm]
            heapify(heap)
        self._armed = when
        alarm._when = when
        alarm._cancelled = False
        alarm._scheduled = when < math.inf
        if when < math.inf:
            heappush(heap, alarm)

    @property
    def _clock_resolution(self) -> float:
        """asyncio's. It reads this once a turn, right before it takes what is due from its heap.
        `_process_events` comes a little earlier, but subclasses have their own."""
        if self._armed < math.inf:
            self._collect()
        return self._resolution

    @_clock_resolution.setter
    def _clock_resolution(self, seconds: float) -> None:
        self._resolution = seconds

    def _collect(self) -> None:
        """Put what is due into asyncio's heap."""
        end = self.time() + self._resolution
        if self._wheel is not None and end + TICK >= self._armed:
            self._wheel.pull(end, self._scheduled)
            if end > self._armed:
                self._alarm._cancelled = True  # it need not run

    def _start(
        self,
        when: float,
        now: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> WheelHandle:
        check_when(when)
        if self._closed or self._debug:
            handle = self._make_handle(when, callback, args, context)
            if handle._source_traceback:
                del handle._source_traceback[-2:]  # this frame and its caller's, which the C core has not
        else:
            handle = WheelHandle(when, callback, args, self if self._loop is None else self._loop, context)
        if self._wheel is None:
            self._wheel = LoopCore(self.time())  # not before: a subclass may have a clock of its own
            self._wheel.front = None if self._loop is None else self
        self._wheel.add(handle, float(when), now)
        if self._loop is not None:
            self._tell()
        return handle

    def _tell(self) -> None:
        """One who serves another loop may have to wake earlier."""
        if self._next_expiration() < self._armed:
            self._arm()

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Given], object],
        *args: *Given,
        context: Context | None = None,
    ) -> WheelHandle:
        """Call `callback(*args)` in `delay` seconds, in `context` or a copy of the current one; returns the
        handle, an `asyncio.TimerHandle` that can be rescheduled too. O(levels)."""
        if delay is None:
            raise TypeError("delay must not be None")
        now = self.time()
        if type(self).call_at is not LoopFront.call_at:
            # What a subclass does in `call_at`, asyncio does for `call_later` too.
            return self.call_at(now + delay, callback, *args, context=context)
        return self._start(now + delay, now, callback, args, context)

    def call_at(
        self, when: float, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> WheelHandle:
        """The same at `when`, on the loop's clock."""
        if when is None:
            raise TypeError("when must not be None")
        return self._start(when, -math.inf, callback, args, context)

    def time(self) -> float:
        """Seconds on the loop's clock, which is `time.monotonic`."""
        return time.monotonic()

    def _next_expiration(self) -> float:
        """When something may be due: seconds; inf: never."""
        return math.inf if self._wheel is None else self._wheel.next()

    def _pull(self, now: float) -> list[WheelHandle]:
        """The handles that are due at `now`, in the order of their `when`. They are the caller's to run."""
        handles: list[Any] = []  # a heap that is filled in order stays in order
        if self._wheel is not None:
            self._wheel.pull(now + 1e-9, handles)
        return handles

    def _drop_timers(self) -> None:
        """Let all handles go."""
        if self._wheel is not None:
            self._wheel.drop_all()

    def __bool__(self) -> bool:
        """True, as every loop is, with timers or without."""
        return True

    def __len__(self) -> int:
        """Handles in the wheel."""
        return 0 if self._wheel is None else len(self._wheel.entries)

    def _make_handle(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> WheelHandle:
        raise NotImplementedError

    def _arm(self) -> None:
        raise NotImplementedError
