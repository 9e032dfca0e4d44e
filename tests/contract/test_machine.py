"""Random operations, and a plain list that says what must come of them (R1-R3, R5, R6, R9, I1-I6)."""

import collections
import contextlib

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

YEAR = 365.25 * 86400

TICKS = st.sampled_from([1 / 64, 0.25, 1.0, 7.0, 0.001, 0.01, 1 / 3])
SIZES = st.sampled_from([2, 3, 8, 20, 512])
SHORT = st.integers(0, 64 * 100).map(lambda n: n / 64)
DELAYS = st.one_of(
    SHORT,
    st.floats(0, 1e6),
    st.sampled_from([1.0, 2.0, 7.0, 8.0, 64.0, 512.0, 5.0 + 0.5e-9, 5.0 + 2e-9, YEAR, 100 * YEAR]),
    st.sampled_from([0, -0.0, -1e-12, -1.0, -1e9]),
)
STRIDES = st.one_of(SHORT, st.sampled_from([0, 0.001, 1.0, 3600.0, YEAR, 10 * YEAR]))
INTERVALS = st.integers(1, 64 * 20).map(lambda n: n / 64)


class Entry:
    """What the list knows of one task."""

    def __init__(self, task, when, *, interval=None, missed=None):
        self.task = task
        self.when = when
        self.interval = interval
        self.missed = missed
        self.hurried = False  # due at once: may overtake
        self.ripe = False  # was due by another tick: may fire, though this tick has not come


class TimerMachine(RuleBasedStateMachine):
    """Turned by hand, inline; `live` is the oracle."""

    tasks = Bundle("tasks")

    def __init__(self, tw, rounding):
        super().__init__()
        self.tw = tw
        self.ticks_up, self.ticks_down = rounding
        self.clock = tw.ManualClock()

    @initialize(tick=TICKS, size=SIZES)
    def open(self, tick, size):
        self.tick, self.size = tick, size
        self.timer = self.tw.Timer(
            tick=tick, wheel_size=size, executor="inline", clock=self.clock, start=False
        )
        self.live = []
        self.fired = []
        self.ended = collections.Counter()

    def due(self, entry):
        if entry.hurried:
            return True
        return self.ticks_up(entry.when, self.tick) <= self.ticks_down(self.clock.time(), self.tick)

    def hold(self, make, when, *, hurried=False, **periodic):
        """Schedules through `make` and writes it down."""
        entry = Entry(None, when, **periodic)
        entry.hurried = hurried
        entry.task = make(entry)
        self.live.append(entry)
        assert entry.task.when == when or entry.hurried
        return entry

    # --- what is done to it

    @rule(target=tasks, delay=DELAYS)
    def schedule(self, delay):
        def make(entry):
            return self.timer.schedule(delay, self.fired.append, entry)

        return self.hold(make, self.clock.time() + delay, hurried=delay <= 0)

    @rule(target=tasks, delay=DELAYS)
    def schedule_at(self, delay):
        when = self.clock.time() + delay

        def make(entry):
            return self.timer.schedule_at(when, self.fired.append, entry)

        return self.hold(make, when, hurried=when <= self.clock.time())

    @rule(target=tasks, interval=INTERVALS, missed=st.sampled_from(["skip", "delay"]))
    def schedule_every(self, interval, missed):
        def make(entry):
            return self.timer.schedule_every(interval, self.fired.append, entry, missed=missed)

        return self.hold(make, self.clock.time() + interval, interval=interval, missed=missed)

    @rule(target=tasks, delay=DELAYS)
    def add(self, delay):
        machine = self

        class Bell(self.tw.TimerTask):
            def run(self):
                machine.fired.append(self.entry)

        def make(entry):
            bell = Bell(delay)
            bell.entry = entry
            self.timer.add(bell)
            return bell

        return self.hold(make, self.clock.time() + delay, hurried=delay <= 0)

    @rule(entry=tasks)
    def cancel(self, entry):
        assert entry.task.cancel() is (entry in self.live)
        if entry in self.live:
            self.live.remove(entry)
            self.ended["cancelled"] += 1

    @rule(entry=tasks, delay=DELAYS)
    def reschedule(self, entry, delay):
        assert entry.task.reschedule(delay) is (entry in self.live)
        if entry in self.live:
            entry.when = self.clock.time() + delay
            entry.hurried, entry.ripe = delay <= 0, False
            assert entry.task.when == entry.when or entry.hurried

    @rule(seconds=STRIDES)
    def advance(self, seconds):
        self.clock.advance(seconds)
        now = self.clock.time()
        due = {entry for entry in self.live if self.due(entry)}
        self.fired.clear()
        assert self.timer.advance_clock() == len(self.fired) == len(set(self.fired))
        assert due <= set(self.fired) <= due | {entry for entry in self.live if entry.ripe}
        ordered = [entry for entry in self.fired if not (entry.hurried or entry.ripe)]
        ticks = [self.ticks_up(entry.when, self.tick) for entry in ordered]
        assert ticks == sorted(ticks)
        self.ended["fired"] += len(self.fired)
        for entry in self.fired:
            if entry.interval is None:
                self.live.remove(entry)
            else:
                self.follow(entry, now)
        assert self.timer.advance_clock() == 0

    def follow(self, entry, now):
        """A periodic task has run: where its next run must be."""
        following = entry.task.when
        if entry.missed == "delay":
            assert following == now + entry.interval
        else:
            assert now < following <= now + entry.interval + 2e-9
            if not entry.hurried:
                steps = (following - entry.when) / entry.interval
                assert abs(steps - round(steps)) < 1e-3
        entry.when, entry.hurried, entry.ripe = following, False, False

    @rule(tick=st.none() | TICKS, size=st.none() | SIZES)
    def reconfigure(self, tick, size):
        was_due = {entry for entry in self.live if self.due(entry)}
        self.timer.reconfigure(tick=tick, wheel_size=size)
        self.tick, self.size = tick or self.tick, size or self.size
        for entry in self.live:
            entry.ripe |= entry in was_due or self.due(entry)

    @rule()
    def close_and_open(self):
        returned = self.timer.close()
        assert sorted(map(id, returned)) == sorted(id(entry.task) for entry in self.live)
        assert {str(task.state) for task in returned} <= {"IDLE"}
        self.live.clear()
        self.whole()
        self.open(self.tick, self.size)

    # --- what must hold after each step

    @invariant()
    def whole(self):
        if not hasattr(self, "timer"):
            return
        self.timer._check()
        assert len(self.timer) == len(self.live)
        stats = self.timer.stats()
        assert stats.pending == len(self.live)
        assert (stats.fired, stats.cancelled) == (self.ended["fired"], self.ended["cancelled"])
        assert stats.errors == 0
        for entry in self.live:
            state = entry.task.state
            assert state == "PENDING" or (entry.hurried and state == "QUEUED")

    def teardown(self):
        if hasattr(self, "timer"):
            with contextlib.closing(self.timer):
                for entry in self.live:
                    assert entry.task.cancel() is True
                assert len(self.timer) == 0


def test_a_timer_agrees_with_a_plain_list(tw, rounding):
    """All that schedules, moves and ends a task, while time passes by nothing to years."""
    run_state_machine_as_test(lambda: TimerMachine(tw, rounding))


class WheelMachine(RuleBasedStateMachine):
    """A `TimingWheel`; `live` maps each pending task to its tick."""

    tasks = Bundle("tasks")
    ticks = st.one_of(st.integers(-3, 70), st.integers(0, 10**6), st.integers(0, 2**60))

    def __init__(self, tw):
        super().__init__()
        self.tw = tw

    @initialize(size=SIZES, start=st.sampled_from([0, 1, 19, 10**6, 2**40]))
    def open(self, size, start):
        self.wheel = self.tw.TimingWheel(size, start)
        self.now = start
        self.live = {}

    def deadline(self, ticks):
        return min(self.now + ticks, 2**63 - 1)

    @rule(target=tasks, ticks=ticks)
    def add(self, ticks):
        task, deadline = self.tw.TimerTask(0), self.deadline(ticks)
        added = self.wheel.add(task, deadline)
        assert added is (deadline > self.now)
        if added:
            self.live[task] = deadline
        return task

    @rule(task=tasks, by_wheel=st.booleans())
    def cancel(self, task, by_wheel):
        assert (self.wheel.cancel(task) if by_wheel else task.cancel()) is (task in self.live)
        self.live.pop(task, None)

    @rule(task=tasks, ticks=ticks)
    def reschedule(self, task, ticks):
        deadline = self.deadline(ticks)
        assert self.wheel.reschedule(task, deadline) is (task in self.live)
        if task in self.live:
            self.live[task] = deadline

    @rule(ticks=ticks)
    def advance(self, ticks):
        self.hand_back(max(self.now, self.deadline(ticks)), None)

    @rule(ticks=ticks, limit=st.integers(1, 5))
    def advance_by_parts(self, ticks, limit):
        self.hand_back(max(self.now, self.deadline(ticks)), limit)

    def hand_back(self, to, limit):
        due = []
        while part := self.wheel.advance(to, limit):
            assert limit is None or len(part) <= limit
            due += part
            self.wheel._check()
            assert len(self.wheel) == len(self.live) - len(due)
        assert set(due) == {task for task, deadline in self.live.items() if deadline <= to}
        ticks = [max(self.live.pop(task), self.now) for task in due]
        assert len(ticks) == len(set(due))
        assert ticks == sorted(ticks)
        self.now = to

    @rule()
    def sleep_until_the_next_expiration(self):
        expiration = self.wheel.next_expiration()
        if expiration is not None:
            self.hand_back(max(self.now, expiration), None)

    @invariant()
    def whole(self):
        if not hasattr(self, "wheel"):
            return
        self.wheel._check()
        assert self.wheel.current_tick == self.now
        assert len(self.wheel) == len(self.live)
        assert all(task.state == "PENDING" for task in self.live)
        expiration = self.wheel.next_expiration()
        if self.live:
            assert expiration <= max(self.now, min(self.live.values()))
        else:
            assert expiration is None


def test_a_wheel_agrees_with_a_plain_dictionary(tw):
    """add, cancel, reschedule, advance with and without a limit, sleeping from expiration to expiration."""
    run_state_machine_as_test(lambda: WheelMachine(tw))
