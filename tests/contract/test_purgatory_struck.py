"""R7, step by step: a handler strikes at each point of one call, and does everything it might do there."""

import itertools
import sys
from functools import partial

import pytest

REFUSED = "closed", "already", "not done with it"


def strike(function, actions):
    """Runs the function; at the n-th place where CPython lets a signal handler in, `actions[n]`.

    Those are the entries of Python functions and the returns from C ones. Returns the places, if all came.
    """
    points, places, errors = itertools.count(1), [], []

    def profile(frame, event, arg):
        if event in ("call", "c_return") and (action := actions.get(next(points))):
            what = arg or frame.f_code.co_name
            places.append(f"{frame.f_code.co_filename}:{frame.f_lineno}: {event} {what}")
            guarded(action)

    def guarded(function):
        try:
            function()
        except Exception as error:  # not out of the handler, where it would strike as another
            errors.append(error)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        guarded(function)
    finally:
        sys.setprofile(before)
    for error in errors:
        if not isinstance(error, RuntimeError) or not any(word in str(error) for word in REFUSED):
            error.add_note(f"struck at {places}")
            raise error
    return places if len(places) == len(actions) else None


class Scene:
    """A purgatory in which a few operations wait for "a" and "b"; and one more, which does not yet."""

    def __init__(self, tw, make_operation, purge_interval):
        self.clock = tw.ManualClock()
        self.timer = tw.Timer(tick=1.0, wheel_size=4, executor="inline", clock=self.clock, start=False)
        self.purgatory = tw.DelayedOperationPurgatory(timer=self.timer, purge_interval=purge_interval)
        self.make = make_operation
        self.watched = []
        self.returned = []
        self.refused = []  # by a purgatory that was closed meanwhile
        self.soon, self.done, self.late = self.watch(1.0), self.watch(60.0), self.watch(500.0)
        self.done.force_complete()
        self.new = make_operation(60.0)
        self.soon.ready = True

    def watch(self, timeout, *keys):
        operation = self.make(timeout)
        self.bring(operation, keys or ["a", "b"])
        return operation

    def bring(self, operation, keys):
        self.watched.append(operation)
        try:
            self.purgatory.try_complete_else_watch(operation, keys)
        except RuntimeError:
            self.refused.append(operation)
            raise

    def advance(self):
        self.clock.advance(2.0)
        self.timer.advance_clock()

    def close(self):
        self.returned += self.purgatory.close()

    def cancel_for_key(self):
        self.returned += self.purgatory.cancel_for_key("a")

    def drop(self, operation):
        if operation.cancel():
            self.returned.append(operation)

    def settle(self):
        """Whatever was struck: all is whole, and everything that came ends once."""
        self.timer._check()
        self.purgatory._check()
        stats = self.purgatory.stats()
        ended = [operation for operation in self.watched if operation.is_completed]
        assert stats.completed + stats.expired == len(ended)
        waiting = [operation for operation in self.watched if operation.state == "PENDING"]
        assert len(waiting) == self.purgatory.delayed == len(self.timer)
        lost = len(self.watched) - len(ended) - len(self.returned) - len(waiting)
        assert lost == len(set(self.refused) - set(ended) - set(self.returned))
        assert 0 <= stats.dropped - len(self.returned) <= lost
        assert len(set(self.returned)) == len(self.returned)
        for operation in self.watched:
            assert operation.diary.count("complete") == (operation in ended)
            assert not [entry for entry in operation.diary if "inside" in entry]
        self.purgatory.close()
        self.purgatory._check()
        self.timer._check()
        assert (self.purgatory.watched, self.purgatory.delayed, len(self.timer)) == (0, 0, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.purgatory.close()
        self.timer.close()


CALLS = {
    "watch": lambda scene: scene.bring(scene.new, ["a", "b", "c"]),
    "check": lambda scene: scene.purgatory.check_and_complete("a"),
    "force": lambda scene: scene.late.force_complete(),
    "cancel": lambda scene: scene.drop(scene.late),
    "cancel_for_key": Scene.cancel_for_key,
    "reschedule": lambda scene: scene.late.reschedule(30.0),
    "advance": Scene.advance,
    "close": Scene.close,
}
ACTIONS = {
    "check": lambda scene: scene.purgatory.check_and_complete("b"),
    "check a new key": lambda scene: scene.purgatory.check_and_complete("c"),
    "force": lambda scene: [operation.force_complete() for operation in (scene.late, scene.soon)],
    "force the new": lambda scene: scene.new.diary and scene.new.force_complete(),
    "cancel": lambda scene: [scene.drop(operation) for operation in (scene.late, scene.soon)],
    "cancel the new": lambda scene: scene.drop(scene.new),
    "cancel_for_key": Scene.cancel_for_key,
    "move": lambda scene: [operation.reschedule(1.0) for operation in (scene.late, scene.new)],
    "watch": lambda scene: scene.watch(60.0),
    "watch new keys": lambda scene: scene.watch(1.0, "c", "d"),
    "advance": Scene.advance,
    "close": Scene.close,
}


@pytest.mark.parametrize("purge_interval", [None, 0])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("call", CALLS)
def test_a_handler_strikes_at_every_point(tw, make_operation, call, action, purge_interval):
    """Nothing is lost, done twice or torn, wherever it strikes."""
    point = 1
    while True:
        with Scene(tw, make_operation, purge_interval) as scene:
            places = strike(partial(CALLS[call], scene), {point: partial(ACTIONS[action], scene)})
            try:
                scene.settle()
            except AssertionError as error:
                error.add_note(f"struck at {places}")
                raise
        if places is None:
            break
        point += 1
    assert point > 1


def test_dropped_on_its_way_in_and_brought_elsewhere(make_purgatory, timer, make_operation):
    """At any two points of the way in, refused or accepted there: it is never in two purgatories at once."""
    drop_at, bring_at = 1, 2
    while True:
        left, right, operation = make_purgatory("left"), make_purgatory("right"), make_operation(60.0)
        bring = partial(left.try_complete_else_watch, operation, ["a", "b"])
        bring_elsewhere = partial(right.try_complete_else_watch, operation, ["a"])
        places = strike(bring, {drop_at: operation.cancel, bring_at: bring_elsewhere})
        left._check()
        right._check()
        waits = operation.state == "PENDING"
        assert left.delayed + right.delayed == len(timer) == waits, places
        assert (left.watched, right.watched) == (2 * left.delayed, right.delayed), places
        assert len(left.close() + right.close()) == waits, places
        assert left.delayed + right.delayed == len(timer) == 0, places
        if places is not None:
            bring_at += 1
        elif bring_at == drop_at + 1:
            break
        else:
            drop_at, bring_at = drop_at + 1, drop_at + 2
    assert drop_at > 1


@pytest.mark.parametrize("before", ["new", "a timer's"])
def test_brought_while_it_is_cancelled(make_purgatory, timer, make_operation, before):
    """At any point of a cancellation, where no purgatory had it yet: it is dropped, or waits, not both."""
    point, places = 1, []
    while places is not None:
        purgatory, operation, cancelled = make_purgatory(), make_operation(60.0), []
        if before != "new":
            timer.add(operation)

        def bring(purgatory=purgatory, operation=operation, cancelled=cancelled):
            cancelled.append(operation.cancel())
            purgatory.try_complete_else_watch(operation, ["a"])

        places = strike(lambda c=cancelled, o=operation: c.append(o.cancel()), {point: bring})
        purgatory._check()
        waits = operation.state == "PENDING"
        assert purgatory.watched == purgatory.delayed == len(timer) == waits, places
        came = (before != "new") + purgatory.stats().dropped + waits
        assert cancelled.count(True) == came - waits, places
        assert len(purgatory.close()) == waits
        point += 1
    assert point > 1


@pytest.mark.skipif("not hasattr(__import__('signal'), 'setitimer')", reason="no setitimer here")
@pytest.mark.parametrize("seed", range(2))
def test_signal_handlers_use_the_purgatory(fresh, seed):
    """R7: a handler that strikes between any two bytecodes watches, checks, forces and cancels."""
    assert fresh(
        f"""
import random, signal, time
import tickwheel as tw

class Operation(tw.DelayedOperation):
    ready, completions, expirations = False, 0, 0
    def try_complete(self): return self.ready
    def on_complete(self): self.completions += 1
    def on_expiration(self): self.expirations += 1

rng = random.Random({seed})
clock = tw.ManualClock()
timer = tw.Timer(tick=1.0, wheel_size=4, executor="inline", clock=clock, start=False)
purgatory = tw.DelayedOperationPurgatory("struck", timer=timer)
operations, calls = [], [0]

def act():
    choice = rng.random()
    if choice < 0.4 or not operations:
        operation = Operation(rng.choice((0, 1, 3, 400)))
        operation.ready = rng.random() < 0.1
        purgatory.try_complete_else_watch(operation, [rng.randrange(9), rng.randrange(9)])
        operation.ready = rng.random() < 0.3
        operations.append(operation)
    elif choice < 0.6:
        purgatory.check_and_complete(rng.randrange(9))
    elif choice < 0.7:
        rng.choice(operations[-50:]).force_complete()
    elif choice < 0.8:
        rng.choice(operations[-50:]).cancel()
    elif choice < 0.82:
        purgatory.cancel_for_key(rng.randrange(9))
    elif choice < 0.9:
        rng.choice(operations[-50:]).reschedule(rng.choice((0, 1, 50)))
    else:
        clock.advance(rng.choice((0.5, 1.0)))
        timer.advance_clock()

def strike(*_):
    calls[0] += 1
    act()

signal.signal(signal.SIGALRM, strike)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0003)
end = time.monotonic() + 1.5
while time.monotonic() < end or calls[0] < 200:
    act()
signal.setitimer(signal.ITIMER_REAL, 0)
purgatory._check()
timer._check()
left = purgatory.close()
stats = purgatory.stats()
assert purgatory.watched == purgatory.delayed == len(timer) == stats.errors == 0
assert stats.completed + stats.expired + stats.dropped == len(operations)
assert [each.completions for each in operations] == [int(each.is_completed) for each in operations]
assert sum(each.expirations for each in operations) == stats.expired
timer.close()
print("whole")
"""
    ) == "whole\n"
