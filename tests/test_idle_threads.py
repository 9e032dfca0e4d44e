"""IdleTracker where calls cut into one another: at every point of every call, and in many threads.

The steps of two threads' calls against each other are in `test_idle_steps`.
"""

import collections
import importlib
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

WAIT = 60  # seconds; guards against hanging, never decides what is right


@pytest.fixture
def idle(tw):
    return importlib.import_module("tickwheel.recipes.idle")


# --- one call cuts into another: as a key's __eq__ may, a destructor, a signal's handler, or another
# --- thread where the call that is cut holds no lock


class Cuts:
    """Counts the points at which a call may be cut, and at one of them calls what was asked for."""

    def __init__(self):
        self.left = None  # points to pass before the cut; None: not counting
        self.action = None

    def point(self):
        if self.left is None:
            return
        if self.left == 0:
            self.left = None
            self.action()
        else:
            self.left -= 1

    def around(self, method):
        def cut(*args):
            self.point()
            try:
                return method(*args)
            finally:
                self.point()

        return cut


class Key:
    """All are equal, with points where they are hashed and compared: inside a dictionary's operation."""

    def __init__(self, cuts):
        self.cuts = cuts

    def __hash__(self):
        self.cuts.point()
        return 1

    def __eq__(self, other):
        self.cuts.point()
        return True


class CuttableDict(dict):
    """A dictionary with a point before and after each operation."""

    def __init__(self, cuts):
        super().__init__()
        for name in ("get", "pop", "popitem", "setdefault"):
            setattr(self, name, cuts.around(getattr(self, name)))


def cuttable_client(client_class, cuts):
    """The reference's client, with a point after each step but for those that nobody can come between."""

    def field(name, reads):
        slot = getattr(client_class, name)

        def read(self):
            value = slot.__get__(self)
            if reads:
                cuts.point()
            return value

        def write(self, value):
            slot.__set__(self, value)
            cuts.point()

        return property(read, write)

    fields = {"stamp": field("stamp", True), "online": field("online", False)}
    return type("CuttableClient", (client_class,), {"__slots__": (), **fields})


class Story:
    """A tracker with one key, all of whose operations can be cut, and an account of what came of them."""

    def __init__(self, tw, idle, monkeypatch):
        self.cuts = Cuts()

        class CuttableClock(tw.ManualClock):
            time = self.cuts.around(tw.ManualClock.time)

        self.clock = CuttableClock()
        self.timer = tw.Timer(tick=1.0, clock=self.clock, executor="inline", start=False)
        self.came = self.gone = self.taken = 0  # taken: by remove and close
        self.last = None  # what the last call to end has done
        self.tracker = idle.IdleTracker(30, self.on_idle, timer=self.timer)
        self.tracker._timer = self
        self.schedule_every = self.cuts.around(self.timer.schedule_every)  # a destructor runs where memory is
        if tw.IMPLEMENTATION == "python":
            self.tracker._clients = CuttableDict(self.cuts)
            client_class = importlib.import_module("tickwheel._reference.idle").IdleClient
            monkeypatch.setattr(idle, "IdleClient", cuttable_client(client_class, self.cuts))

    def online(self):
        return Key(self.cuts) in self.tracker

    def on_idle(self, key):
        self.gone += 1

    def touch(self):
        try:
            came = self.tracker.touch(Key(self.cuts))  # first: a call that cuts in adds to the same account
            self.came += came
            self.last = "touch"
        except RuntimeError:
            assert self.tracker._closed

    def remove(self):
        taken = self.tracker.remove(Key(self.cuts))
        self.taken += taken
        self.last = "remove"

    def close(self):
        taken = self.tracker.close()
        self.taken += len(taken)
        self.last = "close"

    def look(self):
        self.timer.advance_clock()

    def again(self):
        self.touch()
        self.remove()
        self.touch()

    def settle(self):
        """After all of it: nothing was lost, nothing came twice."""
        tracker, timer = self.tracker, self.timer
        online = self.online()
        assert self.came == self.gone + self.taken + online, "each coming ends once"
        if tracker._closed:
            assert not online, "online after close"
            assert len(timer) == 0
        if online:
            tracker._check()
            self.clock.advance(29)
            timer.advance_clock()
            assert self.online() or self.last != "touch", "a touch was lost"
            self.clock.advance(1)
            timer.advance_clock()
            assert not self.online(), "never reported"
            assert self.came == self.gone + self.taken
        self.clock.advance(100)
        timer.advance_clock()
        assert len(timer) == 0, "a task without a client"
        tracker._check()
        timer._check()
        timer.close()


CALLS = ["touch", "remove", "close", "look", "again"]
# After these (call, what cuts into it) the key is online: no look ends who has just been touched.
ENDS_ONLINE = {
    ("touch", "touch"),
    ("touch", "look"),
    ("touch", "again"),
    ("look", "touch"),
    ("look", "again"),
}


@pytest.mark.parametrize("before", ["offline", "online", "due", "touched"])
@pytest.mark.parametrize("cutting", CALLS)
@pytest.mark.parametrize("call", ["touch", "remove", "close", "look"])
def test_a_call_cut_at_any_point_is_whole(tw, idle, monkeypatch, call, cutting, before):
    """D1-D3: whichever call comes wherever inside another, each coming ends once, and no touch is lost."""
    points = 0
    while True:
        story = Story(tw, idle, monkeypatch)
        if before != "offline":
            story.touch()
            story.clock.advance(20)
            if before == "touched":
                story.touch()
            story.clock.advance(10 if before != "online" else 5)
        story.last = None
        story.cuts.action = getattr(story, cutting)
        story.cuts.left = points
        getattr(story, call)()
        was_cut = story.cuts.left is None
        story.cuts.left = None
        if was_cut and (call, cutting) in ENDS_ONLINE:
            assert story.online(), "a touch was lost"
        story.settle()
        monkeypatch.undo()
        if not was_cut:
            break
        points += 1
    # In C, nothing gets into `close`.
    assert points or call == "look" or (call, tw.IMPLEMENTATION) == ("close", "cython"), "nothing was cut"


@pytest.mark.parametrize("before", ["offline", "due"])
@pytest.mark.parametrize("inner", ["touch", "remove", "look", "again"])
@pytest.mark.parametrize("call", ["touch", "look"])
def test_a_call_cut_by_a_touch_that_is_cut_is_whole(tw, idle, monkeypatch, call, inner, before):
    """D1-D3: the same, one deeper."""

    def cut_at(first, second):
        """Whether both cuts were made."""
        story = Story(tw, idle, monkeypatch)
        if before == "due":
            story.touch()
            story.clock.advance(30)
        cuts = story.cuts

        def action():
            cuts.action, cuts.left = getattr(story, inner), second
            story.touch()

        cuts.action, cuts.left = action, first
        getattr(story, call)()
        was_cut = cuts.action is not action, cuts.left is None
        cuts.left = None
        if inner != "touch":
            story.last = None  # which of them came last is another question
        story.settle()
        monkeypatch.undo()
        return was_cut

    first = second = 0
    while True:
        outer, both = cut_at(first, second)
        if not outer:
            break
        first, second = (first, second + 1) if both else (first + 1, 0)
    assert first or call == "look", "nothing was cut"


@pytest.mark.parametrize("core", ["python"])
def test_who_is_gone_never_comes_online(tw, idle):
    """A touch that found the client before it was removed, and is as slow as can be, begins the key anew. In
    the compiled core such a touch is one step."""
    with tw.Timer(clock=tw.ManualClock(), start=False) as timer:
        tracker = idle.IdleTracker(30, print, timer=timer)
        tracker.touch("a")
        client = tracker._clients["a"]
        assert (client.online, client.keep(1.0), client.stamp) == (True, True, 1.0)
        tracker.remove("a")
        assert (client.online, client.task, client.keep(2.0)) == (False, None, False)
        assert client.look(3.0, 30.0, 60.0) == client.left(3.0, 30.0, 60.0) == 29.0
        assert client.online is False
        client.leave()
        assert len(timer) == 0


@pytest.mark.parametrize("raises", [1, 2, 3])
def test_a_touch_that_is_broken_off(tw, idle, raises):
    """What a key's own code raises goes to the caller, wherever it strikes; the task that there may be by
    then ends itself, and nobody is told."""

    class Key:
        hashed = 0

        def __hash__(self):
            self.hashed += 1
            if self.hashed == raises:
                raise LookupError("on purpose")
            return 1

    clock, gone = tw.ManualClock(), []
    with tw.Timer(tick=1.0, clock=clock, executor="inline", start=False) as timer:
        tracker = idle.IdleTracker(30, gone.append, timer=timer)
        with pytest.raises(LookupError, match="on purpose"):
            tracker.touch(Key())
        assert (len(tracker), tracker.stats().arrived) == (0, 0)
        clock.advance(30)
        timer.advance_clock()
        assert (gone, len(timer)) == ([], 0)


def test_a_look_that_comes_too_late_leaves_the_next_client_alone(tw, idle):
    """A look has begun and waits for the lock; meanwhile its client is removed, and its key comes again."""
    entered, gone = threading.Event(), []

    class Watched(idle.IdleTracker):
        def _look(self, client):
            entered.set()
            super()._look(client)

    clock = tw.ManualClock()
    with (
        tw.Timer(tick=1.0, clock=clock) as timer,
        Watched(30, gone.append, timer=timer, max_age=100) as tracker,
    ):
        tracker.touch("a")
        with tracker._lock:
            clock.advance(30)
            assert entered.wait(WAIT)
            assert tracker.remove("a") is True
            assert tracker.touch("a") is True
        deadline = time.monotonic() + WAIT
        while not timer._core.idle():
            assert time.monotonic() < deadline
            time.sleep(0.001)
        tracker._check()
        assert (gone, len(tracker), len(timer), tracker.stats().checks) == ([], 1, 1, 0)


class Hostile:
    """All equal, all of one hash, and comparing two of them does what it was told."""

    def __init__(self, action):
        self.action = action

    def __hash__(self):
        return 1

    def __eq__(self, other):
        self.action()
        return True


def test_a_key_whose_eq_calls_the_tracker(tw, idle):
    """R7: user code inside a dictionary's operation; the structures are whole whenever it runs."""
    clock = tw.ManualClock()
    rng = random.Random(7)
    for _ in range(300):
        with tw.Timer(tick=1.0, clock=clock, executor="inline", start=False) as timer:
            tracker = idle.IdleTracker(5, lambda key: None, timer=timer)
            budget = [20]

            def cut(tracker=tracker, budget=budget):
                if budget[0]:
                    budget[0] -= 1
                    rng.choice((tracker.touch, tracker.remove))(Hostile(cut))

            for _ in range(20):
                rng.choice((tracker.touch, tracker.touch, tracker.remove))(Hostile(cut))
                clock.advance(rng.randrange(4))
                timer.advance_clock()
            budget[0] = 0
            stats = tracker.stats()
            assert stats.arrived == stats.idle + stats.removed + stats.online
            tracker._check()
            tracker.close()
            clock.advance(100)
            timer.advance_clock()
            assert len(timer) == 0


# --- many threads


def run_together(*functions):
    """Runs each function in a thread of its own, all at once; raises what any of them raised."""
    barrier = threading.Barrier(len(functions))

    def run(function):
        barrier.wait(WAIT)
        function()

    with ThreadPoolExecutor(len(functions)) as pool:
        for future in [pool.submit(run, function) for function in functions]:
            future.result(timeout=WAIT)


def wait_for(condition):
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


@pytest.mark.parametrize("max_age", [None, 0.007])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.usefixtures("eager_switching")
def test_every_coming_ends_once_whatever_the_threads(tw, idle, rng, soak, workers, max_age):
    """D1-D3: clients touched and removed by four threads while they fall silent, in the same milliseconds."""
    keys, rounds = range(20), 20_000 * (10 if soak else 1)
    came = [collections.Counter() for _ in range(4)]
    removed = [collections.Counter() for _ in range(4)]
    gone = collections.Counter()
    counting = threading.Lock()

    def on_idle(key):
        with counting:
            gone[key] += 1

    def hammer(number, seed):
        rng = random.Random(seed)
        for _ in range(rounds):
            key = rng.choice(keys)
            if rng.random() < 0.05:
                removed[number][key] += tracker.remove(key)
            else:
                came[number][key] += tracker.touch(key)
            if rng.random() < 0.002:
                time.sleep(0.005)

    with (
        ThreadPoolExecutor(workers) as pool,
        tw.Timer(executor=pool) as timer,
        idle.IdleTracker(0.003, on_idle, max_age=max_age, timer=timer) as tracker,
    ):
        run_together(*(lambda n=n, seed=rng.random(): hammer(n, seed) for n in range(4)))
        tracker._check()
        wait_for(lambda: len(tracker) == 0)
        wait_for(lambda: len(timer) == 0 and timer._core.idle())
        stats = tracker.stats()
    came, removed = sum(came, collections.Counter()), sum(removed, collections.Counter())
    assert came == gone + removed
    assert (stats.arrived, stats.removed) == (came.total(), removed.total())
    assert stats.arrived == stats.idle + stats.aged + stats.removed
    assert gone.total() == stats.idle + stats.aged
    assert stats.idle
    assert max_age is None or stats.aged


@pytest.mark.usefixtures("eager_switching")
def test_a_touch_at_the_end_of_a_silence(tw, idle):
    """D1, D2: a client on the edge. Its silence is over, a touch and the look race: either it goes on, or it
    is reported and comes again."""
    clock = tw.ManualClock()
    gone = []
    rounds = 1000
    with tw.Timer(tick=1.0, clock=clock, executor="inline", start=False) as timer:
        tracker = idle.IdleTracker(30, gone.append, timer=timer)
        tracker.touch("a")
        came = 1
        for _ in range(rounds):
            clock.advance(30)
            answers = []
            run = threading.Thread(target=lambda answers=answers: answers.append(tracker.touch("a")))
            run.start()
            timer.advance_clock()
            run.join(WAIT)
            came += answers[0]
            assert "a" in tracker
            assert len(gone) == came - 1
            tracker._check()
        tracker.close()


@pytest.mark.usefixtures("eager_switching")
def test_closing_while_clients_come_and_go(tw, idle):
    """R9: each coming is reported, or returned by close, and touches are refused from then on."""
    for _ in range(10):
        gone, came = [], []
        tracker = idle.IdleTracker(0.001, gone.append)

        def visit(tracker=tracker, came=came):
            with suppress(RuntimeError):
                while True:
                    for key in range(50):
                        if tracker.touch(key):
                            came.append(key)
                    time.sleep(0.002)

        visitors = [threading.Thread(target=visit) for _ in range(2)]
        for visitor in visitors:
            visitor.start()
        wait_for(lambda gone=gone: len(gone) > 100)
        kept = tracker.close()
        for visitor in visitors:
            visitor.join(WAIT)
        assert sorted(came) == sorted(gone + kept)
        tracker._check()


def test_a_hundred_thousand_clients(tw, idle):
    """D1: those that fall silent are reported once each, those that go on come and go in pairs."""
    gone = collections.Counter()

    def on_idle(key):
        gone[key] += 1

    clients, lively = 100_000, 20_000
    with idle.IdleTracker(1.0, on_idle) as tracker:
        came = sum(tracker.touch(key) for key in range(clients))
        assert came == clients
        deadline = time.monotonic() + WAIT
        while any(gone[key] == 0 for key in range(lively, clients)):
            assert time.monotonic() < deadline
            came += sum(tracker.touch(key) for key in range(lively))
        kept = tracker.close()
        stats = tracker.stats()
    assert all(gone[key] == 1 for key in range(lively, clients))
    assert came == stats.arrived == gone.total() + len(kept)
    assert set(kept) <= set(range(lively))
