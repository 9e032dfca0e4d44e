"""KeyedExecutor against a plain model of it: whatever is done, exactly the calls that should run do."""

import threading
from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tickwheel import TooManyPending
from tickwheel.recipes import keyedcrew
from tickwheel.recipes.keyed import KeyedExecutor

KEYS = st.sampled_from("abcd")


class Model:
    """What waits and what runs, by the rules F1 to F3."""

    def __init__(self, workers, max_pending, max_per_key):
        self.idle = workers
        self.max_pending, self.max_per_key = max_pending, max_per_key
        self.lines = {}
        self.ready = deque()
        self.running = {}  # key: (number of the call, what is left of the turn)
        self.blocked = []
        self.cancelled = set()
        self.ended = 0
        self.skipped = 0

    @property
    def pending(self):
        return len(self.waiting)

    @property
    def waiting(self):
        return {number for line in self.lines.values() for number in line}

    def has_room(self, key):
        return self.pending < self.max_pending and len(self.lines.get(key, ())) < self.max_per_key

    def take_in(self, key, number):
        if key in self.lines:
            self.lines[key].append(number)
            return
        self.lines[key] = deque([number])
        self.ready.append(key)
        self.employ()

    def employ(self):
        while self.idle and self.ready:
            self.idle -= 1
            self.go_on(self.ready.popleft(), keyedcrew.TURN)

    def go_on(self, key, turn):
        line = self.lines[key]
        while line and (turn > 0 or not self.ready):
            number = line.popleft()
            turn -= 1
            skip = number in self.cancelled
            if not skip:
                self.running[key] = number, turn
            self.admit()
            if not skip:
                return
            self.skipped += 1
        if line:
            self.ready.append(key)
        else:
            del self.lines[key]
        self.idle += 1
        self.employ()

    def admit(self):
        for key, number in self.blocked:
            if self.has_room(key):
                self.blocked.remove((key, number))
                self.take_in(key, number)
                return

    def end(self, key):
        _, turn = self.running.pop(key)
        self.ended += 1
        self.go_on(key, turn)

    def stats(self):
        counts = self.pending, len(self.running), len(self.lines)
        done = self.ended, 0, self.skipped
        longest = max(map(len, self.lines.values()), default=0)
        return (*counts, longest, len(self.blocked), sum(counts[:2]) + sum(done), *done)


class KeyedMachine(RuleBasedStateMachine):
    """Calls wait for a gate each, so that nothing happens but what a rule does."""

    @initialize(
        workers=st.integers(1, 3),
        max_pending=st.none() | st.integers(1, 6),
        max_per_key=st.none() | st.integers(1, 3),
        on_full=st.sampled_from(["wait", "raise"]),
    )
    def begin(self, workers, max_pending, max_per_key, on_full):
        self.executor = KeyedExecutor(
            workers, max_pending=max_pending, max_pending_per_key=max_per_key, on_full=on_full
        )
        self.waits = on_full == "wait"
        self.model = Model(workers, max_pending or 10**6, max_per_key or 10**6)
        self.changed = threading.Condition()
        self.inside = {}  # key: number of the call
        self.gates = []
        self.futures = {}
        self.threads = []

    def work(self, key, number):
        with self.changed:
            assert key not in self.inside
            self.inside[key] = number
            self.changed.notify_all()
        assert self.gates[number].wait(60)

    def submit_now(self, key, number):
        try:
            self.futures[number] = self.executor.submit(key, self.work, key, number)
        except RuntimeError:  # it waited for room, and the machine was taken down
            pass

    @rule(key=KEYS)
    def submit(self, key):
        number = len(self.gates)
        self.gates.append(threading.Event())
        if self.model.has_room(key):
            self.model.take_in(key, number)
            self.submit_now(key, number)
            assert number in self.futures
        elif not self.waits:
            try:
                self.executor.submit(key, self.work, key, number)
            except TooManyPending:
                return
            raise AssertionError("a full executor took a call")
        # Whether the turn of a cancelled call or the one let in for it comes first is a race.
        elif not self.model.cancelled & self.model.waiting:
            self.model.blocked.append((key, number))
            thread = threading.Thread(target=self.submit_now, args=(key, number))
            thread.start()
            self.threads.append(thread)

    @precondition(lambda self: self.model.running)
    @rule(data=st.data())
    def end(self, data):
        key = data.draw(st.sampled_from(sorted(self.model.running)))
        number, _ = self.model.running[key]
        self.model.end(key)
        with self.changed:
            assert self.inside.pop(key) == number
        self.gates[number].set()

    @precondition(lambda self: self.model.pending and not self.model.blocked)
    @rule(data=st.data())
    def cancel(self, data):
        number = data.draw(st.sampled_from(sorted(self.model.waiting)))
        self.model.cancelled.add(number)
        assert self.futures[number].cancel()

    @invariant()
    def is_as_the_model_says(self):
        if not hasattr(self, "model"):
            return
        running = {key: number for key, (number, _) in self.model.running.items()}
        expected = self.model.stats()

        def agreed():
            has_returned = self.futures.keys() >= self.model.waiting  # who was let in
            return has_returned and self.inside == running and self.executor.stats() == expected

        # Not all that is waited for notifies: it is looked at now and then.
        with self.changed:
            for _ in range(30_000):
                if agreed():
                    return
                self.changed.wait(0.002)
        raise AssertionError(f"{self.inside} != {running} or {self.executor.stats()} != {expected}")

    def teardown(self):
        if hasattr(self, "model"):
            self.executor.shutdown(wait=False, cancel_futures=True)
            for gate in self.gates:
                gate.set()
            self.executor.shutdown()
            for thread in self.threads:
                thread.join(60)
                assert not thread.is_alive()
            assert self.executor.stats()[:5] == (0, 0, 0, 0, 0)
            assert not self.executor._crew._lines, "no key is kept"


def test_exactly_the_calls_that_should_run_do(monkeypatch):
    """F1 to F3, the counts, and who is let in, after each of any row of submits, ends and cancels."""
    monkeypatch.setattr(keyedcrew, "TURN", 2)

    class Case(KeyedMachine.TestCase):
        settings = settings(stateful_step_count=40, deadline=None)

    Case("runTest").runTest()
