"""Random operations of all kinds, and plain lists that say what must come of them, callback by callback."""

import collections

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

KEYS = st.sampled_from(["a", "b", 0, 1, 1.0, True, ("a", 1), None, -1, -2])  # equal ones, and equal hashes
KEY_SETS = st.lists(KEYS, min_size=1, max_size=6)
TIMEOUTS = st.one_of(
    st.integers(0, 64 * 40).map(lambda n: n / 64),
    st.sampled_from([1.0, 7.0, 8.0, 64.0, 5.0 + 0.5e-9, YEAR, 100 * YEAR, 0, -1.0]),
)
STRIDES = st.one_of(
    st.integers(0, 64 * 40).map(lambda n: n / 64), st.sampled_from([0, 1.0, 3600.0, YEAR, 10 * YEAR])
)
# What its tries do, one after the other; once they are used up, they answer False.
SCRIPTS = st.lists(st.sampled_from(["no", "no", "yes", "force", "raise"]), max_size=4)
# What its `on_complete` does: check a key, or force the completion of the n-th operation.
TRIGGERS = st.one_of(
    st.none(), st.tuples(st.just("check"), KEYS), st.tuples(st.just("force"), st.integers(0, 20))
)
INTERVALS = st.sampled_from([None, None, 0, 2, 10])


class Entry:
    """What the oracle knows of one operation."""

    def __init__(self, timeout, script, trigger):
        self.timeout, self.script, self.trigger = timeout, list(script), trigger
        self.keys = ()  # that it waits for
        self.when = None
        self.hurried = False  # due at once: may overtake
        self.fate = None  # "completed", "expired", "dropped"; None: it waits


class Oracle:
    """The purgatory in plain lists, on one thread. Everything is O(all)."""

    def __init__(self, made, interval):
        self.made, self.interval = made, interval
        self.lists = collections.defaultdict(list)
        self.ends = collections.Counter()
        self.estimate = self.purges = self.purged = self.errors = 0
        self.purge_wanted = False
        self.events = []  # the callbacks that must run, in order
        self.errands = []

    def waiting(self):
        return [entry for entry in self.made if entry.keys]

    def watched(self):
        return sum(map(len, self.lists.values()))

    def end(self, entry, fate):
        """It is decided: it leaves the lists, or, completed, stays in them until a purge."""
        was_watched, entry.fate = entry.keys, fate
        self.ends[fate] += 1
        if was_watched:
            if self.interval is None or fate == "dropped":
                for key in entry.keys:
                    self.lists[key].remove(entry)
            entry.keys = ()
            if self.interval is not None and self.estimate - len(self.waiting()) > self.interval:
                self.estimate = len(self.waiting())
                self.purge_wanted = True

    def attempt(self, entry):
        """One try: whether it completes. Its finish is the caller's."""
        self.events.append((entry, "try"))
        do = entry.script.pop(0) if entry.script else "no"
        self.errors += do == "raise"
        if do in ("yes", "force"):
            self.end(entry, "completed")
        return entry.fate == "completed"

    def finish(self, entry):
        """Its callbacks, and what they leave to be done."""
        self.events.append((entry, "complete"))
        kind, what = entry.trigger or (None, None)
        if kind == "check":
            self.errands.append(("check", what))
        elif kind == "force" and what < len(self.made) and self.made[what].fate is None:
            self.end(self.made[what], "completed")
            self.errands.append(("finish", self.made[what]))
        if entry.fate == "expired":
            self.events.append((entry, "expire"))

    def undecided(self, key):
        self.lists[key][:] = [entry for entry in self.lists[key] if entry.fate is None]
        return list(self.lists[key])

    def run_errands(self):
        while self.errands:
            kind, what = self.errands.pop(0)
            if kind == "finish":
                self.finish(what)
                continue
            for entry in self.undecided(what):
                if entry.fate is None and self.attempt(entry):
                    self.finish(entry)

    # --- what is asked of it

    def watch(self, entry, keys, now):
        if not self.attempt(entry):
            entry.keys = tuple(dict.fromkeys(keys))
            entry.when, entry.hurried = now + entry.timeout, entry.timeout <= 0
            for key in entry.keys:
                self.lists[key].append(entry)
            self.estimate += 1
            self.attempt(entry)
        if entry.fate == "completed":
            self.finish(entry)
            self.run_errands()
        return entry.fate == "completed"

    def check(self, key):
        completed = 0
        for entry in self.undecided(key):
            if entry.fate is None and self.attempt(entry):
                completed += 1
                self.finish(entry)
            self.run_errands()
        return completed

    def complete(self, entry, fate):
        self.end(entry, fate)
        self.finish(entry)
        self.run_errands()

    def cancel_for_key(self, key):
        dropped = self.undecided(key)
        for entry in dropped:
            self.end(entry, "dropped")
        return dropped

    def purge(self):
        if self.purge_wanted:
            self.purge_wanted = False
            before = self.watched()
            for key in self.lists:
                self.undecided(key)
            self.purges += 1
            self.purged += before - self.watched()


class PurgatoryMachine(RuleBasedStateMachine):
    """A purgatory on a timer that is turned by hand, and its oracle."""

    entries = Bundle("entries")

    def __init__(self, tw, rounding):
        super().__init__()
        self.tw = tw
        self.ticks_up, self.ticks_down = rounding
        machine = self

        class Operation(tw.DelayedOperation):
            """What it does is in its entry; what was called, in the machine's events."""

            def __init__(self, entry):
                super().__init__(entry.timeout)
                self.entry = entry
                self.script = list(entry.script)

            def try_complete(self):
                machine.events.append((self.entry, "try"))
                do = self.script.pop(0) if self.script else "no"
                if do == "raise":
                    raise ZeroDivisionError
                return do == "yes" or (do == "force" and not self.force_complete())

            def on_complete(self):
                machine.events.append((self.entry, "complete"))
                kind, what = self.entry.trigger or (None, None)
                if kind == "check":
                    machine.purgatory.check_and_complete(what)
                elif kind == "force" and what < len(machine.made):
                    machine.made[what].operation.force_complete()

            def on_expiration(self):
                machine.events.append((self.entry, "expire"))

        self.Operation = Operation

    @initialize(tick=st.sampled_from([1.0, 0.25, 7.0]), size=st.sampled_from([2, 8, 512]), interval=INTERVALS)
    def open(self, tick, size, interval):
        self.tick, self.interval = tick, interval
        self.clock = self.tw.ManualClock()
        self.timer = self.tw.Timer(
            tick=tick, wheel_size=size, executor="inline", clock=self.clock, start=False
        )
        self.made = []
        self.renew()

    def renew(self):
        self.purgatory = self.tw.DelayedOperationPurgatory(timer=self.timer, purge_interval=self.interval)
        self.oracle, self.events = Oracle(self.made, self.interval), []

    # --- what is done to it

    @rule(target=entries, timeout=TIMEOUTS, keys=KEY_SETS, script=SCRIPTS, trigger=TRIGGERS)
    def watch(self, timeout, keys, script, trigger):
        entry = Entry(timeout, script, trigger)
        entry.operation = self.Operation(entry)
        self.made.append(entry)
        self.bring(entry, keys)
        return entry

    def bring(self, entry, keys):
        complete = self.purgatory.try_complete_else_watch(entry.operation, keys)
        assert complete is self.oracle.watch(entry, keys, self.clock.time())
        if not complete:
            assert entry.operation.when == entry.when

    @rule(entry=entries, keys=KEY_SETS)
    def watch_again(self, entry, keys):
        if entry.fate == "dropped":
            entry.fate = None
            self.bring(entry, keys)
        elif entry.fate is None:
            try:
                self.purgatory.try_complete_else_watch(entry.operation, keys)
            except RuntimeError as error:
                assert "already" in str(error)
            else:
                raise AssertionError("watched twice")
        else:
            assert self.purgatory.try_complete_else_watch(entry.operation, keys) is True

    @rule(keys=st.sampled_from([[], [[]], ["a", {}], "ab", 5]), script=SCRIPTS)
    def watch_badly(self, keys, script):
        try:
            self.purgatory.try_complete_else_watch(self.Operation(Entry(5.0, script, None)), keys)
        except (ValueError, TypeError):
            return
        raise AssertionError(f"took the keys {keys!r}")

    @rule(key=KEYS)
    def check(self, key):
        assert self.purgatory.check_and_complete(key) == self.oracle.check(key)

    @rule(entry=entries)
    def force(self, entry):
        wins = entry.fate is None
        assert entry.operation.force_complete() is wins
        if wins:
            self.oracle.complete(entry, "completed")

    @rule(entry=entries)
    def cancel(self, entry):
        wins = entry.fate is None
        assert entry.operation.cancel() is wins
        if wins:
            self.oracle.end(entry, "dropped")

    @rule(key=KEYS)
    def cancel_for_key(self, key):
        returned = self.purgatory.cancel_for_key(key)
        assert [operation.entry for operation in returned] == self.oracle.cancel_for_key(key)

    @rule(entry=entries, delay=TIMEOUTS)
    def reschedule(self, entry, delay):
        waits = entry.fate is None
        assert entry.operation.reschedule(delay) is waits
        if waits:
            entry.when, entry.hurried = self.clock.time() + delay, delay <= 0

    @rule(seconds=STRIDES)
    def advance(self, seconds):
        self.clock.advance(seconds)
        now = self.ticks_down(self.clock.time(), self.tick)
        due = [each for each in self.oracle.waiting() if each.hurried or self.deadline(each) <= now]
        ran = self.timer.advance_clock()
        self.oracle.purge()
        expired = []
        # Which of those due at one tick comes first is the timer's to say (R2); what comes of it is not.
        while len(self.events) > len(self.oracle.events):
            entry, what = self.events[len(self.oracle.events)]
            assert what == "complete" and entry in due and entry.fate is None
            expired.append(entry)
            self.oracle.complete(entry, "expired")
        assert ran == len(expired)
        assert not [entry for entry in due if entry.fate is None]
        ticks = [self.deadline(entry) for entry in expired if not entry.hurried]
        assert ticks == sorted(ticks)
        assert self.timer.advance_clock() == 0
        self.oracle.purge()

    def deadline(self, entry):
        return self.ticks_up(entry.when, self.tick)

    @rule()
    def close_and_open(self):
        returned = self.purgatory.close()
        waiting = self.oracle.waiting()
        assert {operation.entry for operation in returned} == set(waiting)
        assert len(returned) == len(waiting)
        assert {str(operation.state) for operation in returned} <= {"IDLE"}
        assert (self.purgatory.watched, self.purgatory.delayed) == (0, 0)
        self.purgatory._check()
        for entry in waiting:
            entry.keys, entry.fate = (), "dropped"
        self.renew()

    # --- what must hold after each step

    @invariant()
    def whole(self):
        if not hasattr(self, "timer"):
            return
        self.timer._check()
        self.purgatory._check()
        oracle = self.oracle
        assert self.events == oracle.events
        waiting = oracle.waiting()
        stats = self.purgatory.stats()
        assert self.purgatory.watched == stats.watched == oracle.watched()
        assert self.purgatory.delayed == stats.delayed == len(self.timer) == len(waiting)
        assert (stats.completed, stats.expired, stats.dropped) == tuple(
            oracle.ends[fate] for fate in ("completed", "expired", "dropped")
        )
        assert (stats.errors, stats.purges, stats.purged) == (oracle.errors, oracle.purges, oracle.purged)
        for entry in self.made:
            assert entry.operation.is_completed is (entry.fate in ("completed", "expired"))
            assert (entry.operation.state in ("PENDING", "QUEUED")) is bool(entry.keys)

    def teardown(self):
        if hasattr(self, "timer"):
            self.purgatory.close()
            assert len(self.timer) == 0
            self.timer.close()


def test_a_purgatory_agrees_with_plain_lists(tw, rounding, caplog):
    """All that watches, completes, expires, drops and triggers, while time passes by nothing to years."""
    run_state_machine_as_test(lambda: PurgatoryMachine(tw, rounding))
