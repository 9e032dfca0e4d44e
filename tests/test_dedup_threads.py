"""Deduplicator where calls cut into one another: at chosen points of a call, and in many threads."""

import collections
import importlib
import itertools
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

WAIT = 60  # seconds; guards against hanging, never decides what is right
WINDOW = 10


@pytest.fixture
def dedup(tw):
    return importlib.import_module("tickwheel.recipes.dedup")


# --- one call cuts into another: what another thread does where the call that is cut holds no lock


class Point:
    """At its next passing, calls what was asked for, once."""

    def __init__(self):
        self.action = None

    def __call__(self):
        action, self.action = self.action, None
        if action is not None:
            action()


POINTS = ["after_claim", "after_time", "before_append", "after_append"]  # of an acceptance, in order


class Cut:
    """A deduplicator that can be cut: around its claim to a key, after the clock was read, around the append
    to its queue, before it looks at the queue's front."""

    def __init__(self, tw, dedup):
        self.clock = tw.ManualClock()
        self.timer = tw.Timer(executor="inline", clock=self.clock, start=False)
        self.seen = dedup.Deduplicator(WINDOW, timer=self.timer)
        for name in ("before_claim", "before_front", *POINTS):
            setattr(self, name, Point())
        cut = self

        class Map(dict):
            def setdefault(self, key, entry):
                cut.before_claim()
                found = super().setdefault(key, entry)
                cut.after_claim()
                return found

        class Queue(collections.deque):
            def append(self, entry):
                cut.before_append()
                super().append(entry)
                cut.after_append()

            def __getitem__(self, index):
                cut.before_front()
                return super().__getitem__(index)

        def now():
            reading = cut.timer.time()
            cut.after_time()
            return reading

        self.seen._seen = Map()
        self.seen._queue = Queue()
        self.seen._time = now

    def at(self, seconds):
        self.clock.advance(seconds - self.clock.time())

    def turn(self):
        while self.timer.advance_clock():
            pass


@pytest.fixture
def cut(tw, dedup):
    cut = Cut(tw, dedup)
    yield cut
    cut.seen.close()
    cut.timer.close()


def elsewhere(function, *args):
    """Calls it in another thread and returns what it returned."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args).result(WAIT)


@pytest.mark.parametrize("point", POINTS)
def test_of_two_that_race_for_an_absent_key_one_is_first(cut, point):
    """E2: whose claim is in the map; the other is refused wherever the first is held up."""
    first_seen = cut.seen.first_seen
    answers = []
    getattr(cut, point).action = lambda: answers.append(elsewhere(first_seen, "a"))
    answers.append(first_seen("a"))
    assert answers == [False, True]


@pytest.mark.parametrize("point", ["before_claim", "after_time"])
def test_of_two_that_race_for_an_expired_key_one_is_first(cut, point):
    """E2: who finds the expired entry replaced meanwhile has been second."""
    first_seen = cut.seen.first_seen
    first_seen("a")
    cut.at(WINDOW)
    answers = []
    getattr(cut, point).action = lambda: answers.append(elsewhere(first_seen, "a"))
    answers.append(first_seen("a"))
    assert answers == [True, False]
    cut.at(2 * WINDOW - 1)
    assert not first_seen("a")


def test_who_is_held_up_for_a_window_before_its_claim_is_stamped_after_it(cut):
    """Rule 2: meanwhile the key was accepted at 1 and freed. By a clock read before, it would pass now, and
    once more at once."""
    first_seen = cut.seen.first_seen

    def meanwhile():
        cut.at(1)
        assert elsewhere(first_seen, "a")
        cut.at(12)
        cut.turn()
        assert len(cut.seen) == 0

    cut.before_claim.action = meanwhile
    assert first_seen("a")
    assert not first_seen("a")
    cut.at(21.9)
    assert not first_seen("a")
    cut.at(22)
    assert first_seen("a")


@pytest.mark.parametrize(("point", "stamp"), [("after_claim", 12), ("after_time", 0)])
def test_who_is_held_up_for_a_window_with_its_claim_refuses_all_others(cut, point, stamp):
    """Rule 1: however late it is, the claim's caller is first, by the stamp that it read."""
    first_seen = cut.seen.first_seen
    first_seen("b")

    def meanwhile():
        assert not elsewhere(first_seen, "a")
        cut.at(12)
        cut.turn()
        assert not elsewhere(first_seen, "a")
        assert elsewhere(cut.seen.first_seen_many, ["a", "c"]) == [False, True]

    getattr(cut, point).action = meanwhile
    assert first_seen("a")
    assert first_seen("a") is (stamp == 0)


def test_who_is_held_up_for_a_window_with_its_entry_in_has_passed(cut):
    """E4: it passed at 0; another passes at 10, replacing its entry, which then frees nothing."""
    first_seen = cut.seen.first_seen
    first_seen("b")

    def meanwhile():
        cut.at(WINDOW)
        assert elsewhere(first_seen, "a")

    cut.before_append.action = meanwhile
    assert first_seen("a")
    cut.turn()
    assert not first_seen("a")
    cut.at(2 * WINDOW)
    cut.turn()
    assert len(cut.seen) == len(cut.seen._queue) == len(cut.timer) == 0


@pytest.mark.parametrize("point", ["before_claim", *POINTS])
@pytest.mark.parametrize("batch", [False, True])
def test_what_strikes_in_the_middle_takes_the_claim_with_it(cut, point, batch):
    """An exception of a signal's handler: nothing was accepted, and the key passes when it comes again."""

    def strike():
        raise KeyboardInterrupt

    def call():
        cut.seen.first_seen_many("xay") if batch else cut.seen.first_seen("a")

    cut.seen.first_seen("armed")
    getattr(cut, point).action = strike
    with pytest.raises(KeyboardInterrupt):
        call()
    assert len(cut.seen) == 1
    assert cut.seen.first_seen_many("axy") == [True] * 3
    cut.at(2 * WINDOW)
    cut.turn()
    assert len(cut.seen) == len(cut.seen._queue) == len(cut.timer) == 0


@pytest.mark.parametrize("point", ["before_claim", *POINTS])
def test_what_strikes_in_the_middle_of_a_repeat_changes_nothing(cut, point):
    """The entry there is another's: it stays."""

    def strike():
        raise KeyboardInterrupt

    cut.seen.first_seen("a")
    getattr(cut, point).action = strike
    if point in POINTS[2:]:
        assert cut.seen.first_seen_many("aa") == [False, False]
    else:
        with pytest.raises(KeyboardInterrupt):
            cut.seen.first_seen_many("aa")
    assert not cut.seen.first_seen("a")
    getattr(cut, point).action = None


def test_what_strikes_in_the_middle_of_a_batch_takes_back_what_came_again(cut):
    """A key that passed once more, after its window, is withdrawn with the others."""

    def strike():
        raise KeyboardInterrupt

    cut.seen.first_seen("a")
    cut.at(WINDOW)
    cut.before_append.action = lambda: setattr(cut.before_append, "action", strike)
    with pytest.raises(KeyboardInterrupt):
        cut.seen.first_seen_many("ab")
    assert cut.seen.first_seen_many("ab") == [True, True]


def test_who_frees_all_that_is_held_leaves_nothing_armed(cut):
    """Also what it has just accepted, when it was held up for a window: no wake-up for nothing."""
    cut.seen.first_seen("b")
    cut.at(WINDOW + 1)  # freeing is late
    cut.after_append.action = lambda: cut.at(3 * WINDOW)
    assert cut.seen.first_seen("a")
    assert len(cut.seen) == len(cut.seen._queue) == len(cut.timer) == 0


def test_the_queue_need_not_be_in_order(cut):
    """Rule 3: who read the clock first and appends last is freed a little late, and answered right."""
    first_seen = cut.seen.first_seen
    first_seen("first")  # arms

    def meanwhile():
        cut.at(5)
        assert elsewhere(first_seen, "b")

    cut.after_time.action = meanwhile
    assert first_seen("a")
    assert [entry[0] for entry in cut.seen._queue] == [10, 15, 10]
    cut.at(10)
    cut.turn()
    assert len(cut.seen) == 2
    assert first_seen("a")
    assert not first_seen("b")
    cut.at(20)
    cut.turn()
    assert len(cut.seen) == 0


def test_who_appends_while_freeing_disarms_is_freed(cut):
    """Rule 4: an append between a sweep's end and its look at the queue is seen by one of the two."""
    first_seen = cut.seen.first_seen
    first_seen("a")
    cut.at(WINDOW)
    threads = []

    def meanwhile():
        thread = threading.Thread(target=first_seen, args=("b",))
        thread.start()
        threads.append(thread)
        deadline = time.monotonic() + WAIT
        while len(cut.seen._queue) == 0 and time.monotonic() < deadline:
            time.sleep(0)  # until it has appended; it may then wait for the lock, which this sweep holds

    cut.before_front.action = meanwhile
    cut.turn()
    threads[0].join(WAIT)
    assert len(cut.seen) == len(cut.timer) == 1
    cut.at(2 * WINDOW + 1)
    cut.turn()
    assert len(cut.seen) == len(cut.timer) == 0


def test_who_appends_after_freeing_disarmed_arms(cut):
    """Rule 4, the other way: the key is in the map, the sweep finds no queue, the append comes then."""
    first_seen = cut.seen.first_seen
    first_seen("a")
    cut.at(5)

    def sweep():
        cut.at(WINDOW)
        cut.turn()
        assert len(cut.timer) == 0

    cut.before_append.action = sweep
    assert first_seen("b")
    assert len(cut.timer) == 1
    cut.at(3 * WINDOW)
    cut.turn()
    assert len(cut.seen) == len(cut.seen._queue) == len(cut.timer) == 0


@pytest.mark.parametrize("point", ["before_claim", *POINTS])
def test_who_is_on_the_way_in_when_it_is_closed_is_refused(cut, point):
    """RuntimeError, and nothing stays held or armed: a True of before the close stays the only one."""
    first_seen = cut.seen.first_seen
    first_seen("armed")
    getattr(cut, point).action = lambda: elsewhere(cut.seen.close)
    with pytest.raises(RuntimeError, match="closed"):
        first_seen("a")
    assert len(cut.seen) == len(cut.seen._queue) == len(cut.timer) == 0


@pytest.mark.parametrize("point", POINTS)
def test_forgetting_a_key_on_its_way_in(cut, point):
    """A claim cannot be forgotten: nobody was told yet that it passed. Its entry can, and passes again."""
    first_seen = cut.seen.first_seen
    first_seen("armed")
    forgotten = []
    getattr(cut, point).action = lambda: forgotten.append(elsewhere(cut.seen.forget, "a"))
    assert first_seen("a")
    assert forgotten == [point in POINTS[2:]]
    assert first_seen("a") is forgotten[0]
    cut.at(3 * WINDOW)
    cut.turn()
    assert len(cut.seen) == len(cut.seen._queue) == 0


def test_a_clock_that_steps_back_holds_keys_longer_and_no_more(cut):
    """R6: the timer's time stands still until the clock is there again. No key passes twice, none stays."""
    first_seen = cut.seen.first_seen
    cut.at(1000)
    assert first_seen("a")
    cut.clock._now = 0.0
    assert [first_seen("a"), first_seen("b"), first_seen("b")] == [False, True, False]
    cut.at(1000 + WINDOW - 1)
    cut.turn()
    assert [first_seen("a"), first_seen("b")] == [False, False]
    cut.at(1000 + WINDOW)
    cut.turn()
    assert len(cut.seen) == 0


# --- in many threads


def run_together(count, function):
    """Runs function(number) in `count` threads, all at once; what they returned."""
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait(WAIT)
        return function(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count), timeout=WAIT))


def test_of_many_threads_one_gets_each_key(dedup, eager_switching, soak):
    """E1: keys in the same order in each thread, within one window: one True each, and all are freed."""
    keys = range(200_000 if soak else 20_000)
    with dedup.Deduplicator(3600.0) as seen:
        passed = run_together(4, lambda number: [key for key in keys if seen.first_seen(key)])
        assert sorted(key for part in passed for key in part) == list(keys)
        assert len(seen) == len(seen._queue) == len(keys)
        assert seen.first_seen_many(keys) == [False] * len(keys)


def test_of_many_threads_with_batches_one_gets_each_key(dedup, eager_switching):
    """E1 for batches that overlap in any way."""
    with dedup.Deduplicator(3600.0) as seen:

        def run(number):
            rng = random.Random(number)
            passed = []
            for _ in range(300):
                keys = rng.choices(range(2000), k=50)
                passed += [key for key, first in zip(keys, seen.first_seen_many(keys), strict=True) if first]
            return passed

        passed = collections.Counter(key for part in run_together(4, run) for key in part)
        assert set(passed.values()) == {1}
        assert len(passed) == len(seen)


Call = collections.namedtuple("Call", "start end passed")


def verdict(calls, window):
    """What contradicts E1, whatever moment between its start and its end each call took effect at."""
    close = 1e-9
    trues = sorted(call for call in calls if call.passed)
    wrong = []
    for before, after in itertools.pairwise(trues):
        if max(after.end - before.start, before.end - after.start) < window - close:
            wrong.append(("passed twice", before, after))
    # As many as can be at least a window apart from first to last, wherever one begins to count.
    for number, first in enumerate(trues):
        latest = first.end
        for count, call in enumerate(trues[number:], start=0):
            latest = max(latest, call.end)
            if count * (window - close) > latest - first.start:
                wrong.append(("passed too often", first, call))
                break
            if call.start > first.end + 20 * window:
                break
    begun = 0
    reach = float("-inf")  # the latest end of a True that had begun
    for call in sorted((call for call in calls if not call.passed), key=lambda call: call.end):
        while begun < len(trues) and trues[begun].start <= call.end:
            reach = max(reach, trues[begun].end)
            begun += 1
        if call.start > reach + window + close:
            wrong.append(("dropped", call))
    return wrong


def test_the_verdict_finds_what_is_wrong():
    """The judge of the next test, judged."""
    fine = [Call(0, 1, True), Call(0, 0.5, False), Call(10.5, 10.6, True), Call(20.5, 20.6, False)]
    assert verdict(fine, 10) == []
    assert verdict([*fine, Call(12, 13, True)], 10)
    assert verdict([*fine, Call(20.7, 21, False)], 10)
    assert verdict([Call(0, 15, True), Call(0, 15, True), Call(0, 15, True)], 10)
    assert verdict([Call(0, 25, True), Call(0, 25, True), Call(0, 25, True)], 10) == []


@pytest.mark.parametrize("window", [0.0005, 0.005])
def test_keys_that_come_again_and_again_pass_once_a_window(dedup, eager_switching, soak, window):
    """E1 on a real clock with windows shorter than a thread may be kept up. What each call answered must be
    possible at some moment between its start and its end."""
    keys = range(8)
    until = time.monotonic() + (20 if soak else 1)
    with dedup.Deduplicator(window) as seen:

        def run(number):
            rng = random.Random(number)
            calls = {key: [] for key in keys}
            while time.monotonic() < until:
                for _ in range(20):
                    key = rng.choice(keys)
                    start = time.monotonic()
                    passed = seen.first_seen(key)
                    calls[key].append(Call(start, time.monotonic(), passed))
                time.sleep(rng.choice((0, 0, 0.0002)))
            return calls

        parts = run_together(4, run)
        for key in keys:
            calls = [call for part in parts for call in part[key]]
            assert sum(call.passed for call in calls) > 1
            assert sum(not call.passed for call in calls) > 1
            assert verdict(calls, window) == []
        while len(seen):
            seen.timer.submit(0.001, int).result(WAIT)
        assert len(seen._queue) == 0


def test_threads_that_accept_forget_and_close_leave_nothing(dedup, eager_switching):
    """All calls at once, then the end: each call answers or says that it is closed; nothing stays armed."""
    for seed in range(20):
        timer = importlib.import_module("tickwheel.timer").Timer()
        seen = dedup.Deduplicator(0.001, timer=timer)

        def run(number, seen=seen, seed=seed):
            rng = random.Random(seed * 10 + number)
            try:
                for _ in range(2000):
                    choice = rng.random()
                    if choice < 0.8:
                        seen.first_seen(rng.randrange(50))
                    elif choice < 0.9:
                        seen.first_seen_many(rng.choices(range(50), k=5))
                    elif number or choice < 0.995:
                        seen.forget(rng.randrange(50))
                    else:
                        seen.close()
            except RuntimeError as error:
                return str(error)
            return seen.close()

        assert set(run_together(4, run)) <= {"the deduplicator is closed", None}
        assert len(seen) == len(seen._queue) == len(timer) == 0
        assert timer.stats().errors == 0
        timer.close()
