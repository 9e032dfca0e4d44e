"""fork: the child has a stopped, empty purgatory that says so when used, and never a deadlock."""

import os

import pytest
from forked import IN_CHILD

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

CHILD = f"""{IN_CHILD}
import gc, random, threading
import tickwheel as tw

class Operation(tw.DelayedOperation):
    ready, completions, expirations = False, 0, 0
    def try_complete(self): return self.ready
    def on_complete(self): self.completions += 1
    def on_expiration(self): self.expirations += 1

def refused(call, word):
    try:
        call()
    except RuntimeError as error:
        assert word in str(error), error
    else:
        raise AssertionError("not refused")
"""


@pytest.mark.parametrize("timer", ["None", "tw.Timer()", "tw.Timer(clock=tw.ManualClock(), start=False)"])
def test_a_forked_child_has_a_stopped_empty_purgatory(fresh, timer):
    """fork: as its timer, it says so when used; the parent's goes on."""
    assert fresh(
        CHILD
        + f"""
purgatory = tw.DelayedOperationPurgatory("forked", timer={timer})
operation, new = Operation(3600.0), Operation(1.0)
purgatory.try_complete_else_watch(operation, ["a", "b"])

def story():
    assert (purgatory.watched, purgatory.delayed) == (0, 0)
    refused(lambda: purgatory.try_complete_else_watch(new, ["a"]), "fork")
    operation.ready = True
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.cancel_for_key("a") == []
    assert operation.cancel() is False
    assert operation.reschedule(1.0) is False
    repr(operation), repr(purgatory), purgatory.stats()
    assert purgatory.close() == []
    assert operation.completions == 0

assert in_child(story)
assert (purgatory.watched, purgatory.delayed) == (2, 1)
operation.ready = True
assert purgatory.check_and_complete("b") == 1
purgatory.close()
purgatory.timer.close()
print("whole")
"""
    ) == "whole\n"


def test_a_forked_child_may_have_a_purgatory_of_its_own(fresh):
    """fork: what the parent had does not stand in its way."""
    assert fresh(
        CHILD
        + """
purgatory = tw.DelayedOperationPurgatory()
purgatory.try_complete_else_watch(Operation(3600.0), ["a"])

def story():
    with tw.DelayedOperationPurgatory() as mine:
        first, second = Operation(0.001), Operation(3600.0)
        over = threading.Event()
        first.on_expiration = over.set
        mine.try_complete_else_watch(first, ["a"])
        mine.try_complete_else_watch(second, ["a"])
        assert over.wait(30)
        second.ready = True
        assert mine.check_and_complete("a") == 1

assert in_child(story)
purgatory.close()
print("whole")
"""
    ) == "whole\n"


def test_a_child_forked_inside_a_callback(fresh):
    """fork: the callback returns in both, and the parent's errands are carried out there alone."""
    assert fresh(
        CHILD
        + """
purgatory = tw.DelayedOperationPurgatory()
second = Operation(3600.0)
results = []

class Forking(Operation):
    def on_complete(self):
        purgatory.check_and_complete("b")
        results.append(in_child(lambda: purgatory.close()))

first = Forking(3600.0)
for operation, key in ((first, "a"), (second, "b")):
    purgatory.try_complete_else_watch(operation, [key])
    operation.ready = True
assert purgatory.check_and_complete("a") == 1
assert results == [True]
assert second.completions == 1
purgatory.close()
print("whole")
"""
    ) == "whole\n"


def test_fork_while_threads_hammer(fresh):
    """fork: whatever the threads were in the middle of, the child never waits for them."""
    assert fresh(
        CHILD
        + """
purgatory = tw.DelayedOperationPurgatory()
over = threading.Event()
inherited = Operation(3600.0)
purgatory.try_complete_else_watch(inherited, ["inherited", 0])
shared = [inherited]

def hammer():
    rng = random.Random()
    while not over.is_set():
        operation = Operation(rng.choice((0.001, 5.0)))
        operation.ready = rng.random() < 0.1
        purgatory.try_complete_else_watch(operation, [rng.randrange(20), rng.randrange(20)])
        operation.ready = rng.random() < 0.5
        purgatory.check_and_complete(rng.randrange(1, 20))
        purgatory.cancel_for_key(rng.randrange(1, 20))
        shared[1:] = [operation]

threads = [threading.Thread(target=hammer) for _ in range(3)]
for thread in threads:
    thread.start()

def story():
    assert (purgatory.watched, purgatory.delayed) == (0, 0)
    for key in range(20):
        assert purgatory.check_and_complete(key) == 0
        assert purgatory.cancel_for_key(key) == []
    for operation in list(shared):
        operation.force_complete()
        assert operation.cancel() is False
    refused(lambda: purgatory.try_complete_else_watch(Operation(1.0), [1]), "fork")
    assert purgatory.close() == []
    gc.collect()
    with tw.DelayedOperationPurgatory() as mine:
        operation = Operation(60.0)
        assert mine.try_complete_else_watch(operation, [1]) is False
        operation.ready = True
        assert mine.check_and_complete(1) == 1

sys.setswitchinterval(1e-5)
good = sum(in_child(story) for _ in range(20))
over.set()
for thread in threads:
    thread.join()
purgatory._check()
assert inherited in purgatory.close()
print(good)
"""
    ) == "20\n"
