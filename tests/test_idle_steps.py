"""IdleTracker's protocol, step by step: every order in which the steps of two threads' calls can follow.

On the reference: in the compiled core several of these steps are one, so that its orders are some of these.
"""

import importlib
import threading

import pytest

WAIT = 60  # seconds; guards against hanging, never decides what is right
READY, BLOCKED, OVER = "ready", "blocked", "over"


class Turns:
    """Two calls in threads of their own, one of which has its turn: until its next step, or its end."""

    def __init__(self, calls):
        self.calls = calls
        self.answers = {}
        self.state = dict.fromkeys(calls, READY)
        self.go = {name: threading.Semaphore(0) for name in calls}
        self.back = threading.Semaphore(0)
        self.names = threading.local()

    def step(self, state=READY):
        """In one of the threads: the next step comes when it is its turn again."""
        name = getattr(self.names, "own", None)
        if name is not None:
            self.state[name] = state
            self.back.release()
            assert self.go[name].acquire(timeout=WAIT)

    def run(self, order):
        """The calls, in this order of turns, then as it comes. Returns (turn, whose it could have been)."""
        turns = []
        threads = [threading.Thread(target=self._call, args=(name,)) for name in self.calls]
        for thread in threads:
            thread.start()
        while not all(state is OVER for state in self.state.values()):
            could = [name for name, state in self.state.items() if state is READY]
            turn = order[len(turns)] if len(turns) < len(order) else could[0]
            turns.append((turn, could))
            self.go[turn].release()
            assert self.back.acquire(timeout=WAIT)
        for thread in threads:
            thread.join(WAIT)
        return turns

    def _call(self, name):
        self.names.own = name
        assert self.go[name].acquire(timeout=WAIT)
        try:
            self.answers[name] = self.calls[name]()
        except RuntimeError as error:
            self.answers[name] = error
        self.state[name] = OVER
        self.back.release()

    def freed(self):
        """Who waited for the lock may try again."""
        for name, state in self.state.items():
            if state is BLOCKED:
                self.state[name] = READY


class Lock:
    """An RLock that gives the turn away where it is taken, and while it must be waited for."""

    def __init__(self, turns):
        self.turns = turns
        self.lock = threading.RLock()

    def __enter__(self):
        self.turns.step()
        while not self.lock.acquire(blocking=False):
            self.turns.step(BLOCKED)

    def __exit__(self, *error):
        self.lock.release()
        self.turns.freed()


class Story:
    """A tracker with one key, each of whose steps takes a turn; and two calls of it."""

    def __init__(self, tw, idle, monkeypatch, before, calls):
        self.clock = tw.ManualClock()
        self.timer = tw.Timer(tick=1.0, clock=self.clock, executor="inline", start=False)
        self.gone = []
        self.tracker = idle.IdleTracker(30, self.gone.append, timer=self.timer)
        self.turns = Turns({name: getattr(self, name.partition(" ")[0]) for name in calls})
        self.tracker._lock = Lock(self.turns)
        self.tracker._clients = self.dictionary()
        client_class = importlib.import_module("tickwheel._reference.idle").IdleClient
        monkeypatch.setattr(idle, "IdleClient", self.client(client_class))
        self.came = 0
        if before != "offline":
            self.came += self.tracker.touch("a")
            self.clock.advance(10)
            if before == "touched":
                self.tracker.touch("a")
            self.clock.advance(20)

    def dictionary(self):
        step = self.turns.step

        class Dictionary(dict):
            def get(self, *args):
                step()
                return super().get(*args)

            def pop(self, *args):
                step()
                return super().pop(*args)

            def setdefault(self, *args):
                step()
                return super().setdefault(*args)

        return Dictionary()

    def client(self, client_class):
        step = self.turns.step

        def field(name):
            slot = getattr(client_class, name)

            def read(self):
                step()
                return slot.__get__(self)

            def write(self, value):
                step()
                slot.__set__(self, value)

            return property(read, write)

        fields = {name: field(name) for name in ("stamp", "online")}
        return type("Client", (client_class,), {"__slots__": (), **fields})

    def touch(self):
        return self.tracker.touch("a")

    def remove(self):
        return self.tracker.remove("a")

    def close(self):
        return self.tracker.close()

    def look(self):
        return self.timer.advance_clock()

    def settle(self):
        """Each coming ends once, and a touch that says it kept the client has kept it."""
        answers, tracker = self.turns.answers, self.tracker
        tracker._check()
        self.timer._check()
        self.came += sum(answers[name] is True for name in answers if name.startswith("touch"))
        taken = (answers.get("remove") is True) + (answers.get("close") == ["a"])
        assert self.came == len(self.gone) + taken + len(tracker)
        assert len(self.timer) == len(tracker)
        if "look" in answers:
            assert "a" in tracker, "a touch was lost"
            assert len(self.gone) == (answers["touch"] is True)
        if "close" in answers:
            assert "a" not in tracker
        if "remove" in answers and answers["touch"] is True:
            assert "a" in tracker
        self.gone.clear()
        online = len(tracker)
        self.clock.advance(29)
        self.timer.advance_clock()
        assert (len(tracker), self.gone) == (online, []), "before its time"
        self.clock.advance(1)
        self.timer.advance_clock()
        assert (len(tracker), self.gone) == (0, ["a"] * online)
        assert len(self.timer) == 0
        self.timer.close()


@pytest.mark.parametrize("core", ["python"])
@pytest.mark.parametrize(
    ("before", "calls"),
    [
        ("due", ["touch", "look"]),
        ("touched", ["touch", "look"]),
        ("due", ["touch", "remove"]),
        ("due", ["touch", "close"]),
        ("offline", ["touch", "close"]),
        ("offline", ["touch", "touch again"]),
    ],
)
def test_every_order_of_the_steps_of_two_calls(tw, monkeypatch, before, calls):
    """D1-D3: wherever the one call is when the other takes a step, no touch is lost and no end told twice."""
    idle = importlib.import_module("tickwheel.recipes.idle")
    orders, answers = [[]], set()
    while orders:
        order = orders.pop()
        with monkeypatch.context() as patch:
            story = Story(tw, idle, patch, before, calls)
            turns = story.turns.run(order)
            story.settle()
        answers.add(story.turns.answers["touch"] if calls != ["touch", "close"] else None)
        for n in range(len(order), len(turns)):
            turn, could = turns[n]
            orders += [[taken for taken, _ in turns[:n]] + [other] for other in could if other != turn]
    if before == "due" and calls == ["touch", "look"]:
        assert answers == {False, True}, "in some orders the touch comes in time, in others too late"
