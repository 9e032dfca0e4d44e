"""ReplayKernel in plain Python: the mirror of `_replay.pyx`, with the same results."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from tickwheel._reference.curve import Curve
from tickwheel._reference.histogram import SIZE, index_of
from tickwheel._reference.levels import Bucket, Levels, Node
from tickwheel._reference.onecall import Int64s, OneCall, int64_of, int64s_of

NEVER = 2**63 - 1
ALL = 2**64  # nodes enough for any budget


class Request(Node):
    __slots__ = ("row", "when")

    def __init__(self, row: int, when: int, deadline_tick: int) -> None:
        super().__init__(deadline_tick)
        self.row = row
        self.when = when  # arrival + timeout


class ReplayKernel:
    """Requests through the wheel in virtual time.

    A request is scheduled at its arrival, cancelled at its completion, and expires at its deadline
    rounded up to a tick; ticks are multiples of `tick` from zero. At one instant completions come
    first, then bucket expiries, then arrivals. Which of the two ends a request is known when it
    arrives, so only completions that will win are remembered: each in the heap is still to come.

    As the seeds' purgatory would, it counts the requests in the watcher lists: those that became pending,
    until a purge, which comes when more than `purge_interval` of them have ended.

    All times are int64 in the trace's own unit. A timeout of None: each row brings its own. Memory is
    bounded by what is pending and one batch.
    """

    def __init__(
        self, tick: int, timeout: int | None, wheel_size: int = 512, purge_interval: int | None = None
    ) -> None:
        self._tick = int64_of("tick", tick)
        self._timeout = None if timeout is None else int64_of("timeout", timeout)
        size = int64_of("wheel_size", wheel_size)
        self._purge_interval = None if purge_interval is None else int64_of("purge_interval", purge_interval)
        if self._tick < 1:
            raise ValueError(f"tick must be >= 1, got {tick}")
        if self._timeout is not None and self._timeout < 0:
            raise ValueError(f"timeout must be >= 0, got {timeout}")
        if size < 2:
            raise ValueError(f"wheel_size must be >= 2, got {size}")
        if self._purge_interval is not None and self._purge_interval < 0:
            raise ValueError(f"purge_interval must be >= 0, got {purge_interval}")
        # The last deadline whose fire time is below NEVER.
        self._latest = (NEVER - 1) // self._tick * self._tick
        self._levels: Levels[Request] = Levels(size, -(2**63) // self._tick)
        self._due: Bucket[Request] = Bucket()
        self._completions: list[tuple[int, int, Request]] = []  # a heap by (time, row)
        self._rows_decided = array("q")
        self._fires = array("q")
        self._rows = 0
        self._arrival = -(2**63)  # of the last row
        self._curve = Curve()  # of `pending` at the ends of instants, before the last arrival's
        self._ended = 0  # of the requests in the watcher lists
        self._finished = False
        self._one_call = OneCall(type(self).__name__)
        self.completed = 0
        self.expired = 0
        self.pending = 0
        self.purges = 0
        self.purged = 0
        self.peak_watched = 0
        self.lateness_max = 0
        self.lateness_counts = [0] * SIZE

    def feed(self, arrivals: Any, completions: Any, timeouts: Any = None) -> tuple[Int64s, Int64s]:
        """Play these requests: (rows, fires) of those that were decided, in that order. A row is a
        request's number from 0; a fire is the time it expired, INT64_MAX for a completed one.
        `arrivals` ascend from call to call; a completion of INT64_MAX never comes. `timeouts`: where the
        kernel's own is None. After a ValueError nothing has changed."""
        starts = int64s_of("arrivals", arrivals)
        ends = int64s_of("completions", completions)
        if (timeouts is None) != (self._timeout is not None):
            raise ValueError("timeouts must be given to a kernel without a timeout, and to no other")
        if len(ends) != len(starts):
            raise ValueError(f"completions must be as many as arrivals, got {len(ends)} and {len(starts)}")
        own = self._timeout
        waits = int64s_of("timeouts", timeouts) if own is None else [own] * len(starts)
        if len(waits) != len(starts):
            raise ValueError(f"timeouts must be as many as arrivals, got {len(waits)} and {len(starts)}")
        with self._one_call:
            if self._finished:
                raise RuntimeError("the replay has finished")
            self._check_rows(starts, ends, waits)
            if self._rows == 0 and starts:
                self._curve.begin(starts[0])
            for arrival, completion, timeout in zip(starts, ends, waits, strict=True):
                self._arrive(arrival, completion, arrival + timeout)
            return self._decided()

    def finish(self) -> tuple[Int64s, Int64s]:
        """Let all that is pending complete or expire: (rows, fires) as from `feed`, which ends here."""
        with self._one_call:
            self._finished = True
            if self._rows:
                self._curve.sample(self.pending)
            self._until(NEVER - 1)
            return self._decided()

    @property
    def peak_pending(self) -> int:
        """The most that was pending once all events of an instant had happened."""
        return max(self.pending_curve[2], default=0)

    @property
    def pending_curve(self) -> tuple[int, int, list[int]]:
        """(start, width, peaks): `peaks[i]` is the most that was pending, once all events of an instant had
        happened, at any time from start + i * width until before start + (i + 1) * width. From the first
        arrival to the last event in 256 intervals at most, of the least power of two that does; each
        starts at a multiple of its width. Without requests (0, 1, [])."""
        curve = self._curve
        peaks = curve.peaks.copy()
        if peaks:
            peaks[-1] = max(peaks[-1], self.pending)
        return curve.first << curve.shift, 1 << curve.shift, peaks

    @property
    def wakeups(self) -> int:
        """Distinct ticks at which a bucket expired that was not empty."""
        return self._levels.wakeups

    @property
    def cascades(self) -> int:
        """Requests put in anew because a coarse bucket expired."""
        return self._levels.cascades

    @property
    def events(self) -> int:
        """Arrivals, completions and expiries so far."""
        return self._rows + self.completed + self.expired

    def _check_rows(self, arrivals: Int64s, completions: Int64s, timeouts: Sequence[int]) -> None:
        previous = self._arrival
        columns = zip(arrivals, completions, timeouts, strict=True)
        for row, (arrival, completion, timeout) in enumerate(columns, self._rows):
            if arrival < previous:
                raise ValueError(f"row {row}: arrivals must ascend, got {arrival} after {previous}")
            if completion < arrival:
                raise ValueError(f"row {row}: completion must be >= arrival, got {completion} and {arrival}")
            if timeout < 0:
                raise ValueError(f"row {row}: timeout must be >= 0, got {timeout}")
            if arrival + timeout > self._latest:
                raise ValueError(
                    f"row {row}: arrival + timeout, rounded up to a tick, must fit 64 bits, "
                    f"got {arrival} + {timeout}"
                )
            previous = arrival

    def _arrive(self, arrival: int, completion: int, when: int) -> None:
        tick = self._tick
        deadline_tick = -(-when // tick)
        fire = deadline_tick * tick
        if arrival > self._arrival:
            self._curve.sample(self.pending)
            self._arrival = arrival
            self._until(arrival)
            if arrival > self._curve.until:
                self._curve.reach(arrival, self.pending)
            now = arrival // tick
            if now > self._levels.time:
                self._levels.set_time(now)
        if completion <= arrival:
            self._complete(self._rows)
        elif fire == arrival:
            self._expire(self._rows, when, fire)
        else:
            request = Request(self._rows, when, deadline_tick)
            self._levels.insert(request)
            self.pending += 1
            self.peak_watched = max(self.peak_watched, self.pending + self._ended)
            if completion <= fire:
                heappush(self._completions, (completion, request.row, request))
        self._rows += 1

    def _until(self, limit: int) -> None:
        """Let everything happen that happens up to and at `limit`, in the order of time."""
        levels, completions, due, curve = self._levels, self._completions, self._due, self._curve
        while True:
            expiration = levels.next_expiration()
            expiry = NEVER if expiration is None else expiration * self._tick
            completion = completions[0][0] if completions else NEVER
            if expiration is None or completion <= expiry:
                if completion > limit:
                    return
                if completion > curve.until:
                    curve.reach(completion, self.pending)
                _, row, request = heappop(completions)
                request.unlink()
                self._complete(row)
                self._leave()
                continue
            if expiry > limit:
                return
            levels.advance(expiration, due, ALL)
            if expiry > curve.until and due:
                curve.reach(expiry, self.pending)
            for request in due:
                request.prev = request.next = None
                self._expire(request.row, request.when, expiry)
                self._leave()
            due.empty()

    def _leave(self) -> None:
        """A request is pending no more."""
        self.pending -= 1
        if self._purge_interval is not None:
            self._ended += 1
            if self._ended > self._purge_interval:
                self.purges += 1
                self.purged += self._ended
                self._ended = 0

    def _complete(self, row: int) -> None:
        self.completed += 1
        self._rows_decided.append(row)
        self._fires.append(NEVER)

    def _expire(self, row: int, when: int, fire: int) -> None:
        lateness = fire - when
        self.expired += 1
        self.lateness_counts[index_of(lateness)] += 1
        self.lateness_max = max(self.lateness_max, lateness)
        self._rows_decided.append(row)
        self._fires.append(fire)

    def _decided(self) -> tuple[Int64s, Int64s]:
        decided = self._rows_decided, self._fires
        self._rows_decided, self._fires = array("q"), array("q")
        return decided
