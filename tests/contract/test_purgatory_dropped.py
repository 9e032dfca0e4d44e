"""A purgatory dropped without `close()`, or left open at the interpreter's exit."""

import pytest

DROPPED = """
import gc, threading, warnings, weakref
import tickwheel as tw

class Operation(tw.DelayedOperation):
    ready, completions, expirations = False, 0, 0
    def try_complete(self): return self.ready
    def on_complete(self): self.completions += 1
    def on_expiration(self): self.expirations += 1

heard = []
warnings.showwarning = lambda message, category, *_: heard.append((category, str(message)))
warnings.simplefilter("always")
before = set(threading.enumerate())

def settle():
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive(), thread
"""


@pytest.mark.parametrize("options", ["", "purge_interval=5", "timer=timer"])
def test_a_dropped_purgatory_warns_and_leaks_nothing(fresh, options):
    """A purgatory dropped without `close()`: ResourceWarning; operations and keys are freed, threads end."""
    assert fresh(
        DROPPED
        + f"""
class Key: pass

timer = tw.Timer()
purgatory = tw.DelayedOperationPurgatory({options})
operations = [Operation(3600.0 + n) for n in range(10)]
key = Key()
for operation in operations:
    purgatory.try_complete_else_watch(operation, [key, "a"])
operations[0].force_complete()
refs = [weakref.ref(operation) for operation in operations] + [weakref.ref(key)]
del operations, operation, key
del purgatory
gc.collect()
assert [category for category, _ in heard] == [ResourceWarning], heard
assert "purgatory" in heard[0][1], heard
assert [ref() for ref in refs] == [None] * 11
assert len(timer) == 0
timer.close()
settle()
print("whole")
"""
    ) == "whole\n"


def test_the_operations_of_a_dropped_purgatory_are_harmless(fresh):
    """An operation may outlive its purgatory: it was dropped, and may wait elsewhere."""
    assert fresh(
        DROPPED
        + """
purgatory = tw.DelayedOperationPurgatory()
operation = Operation(3600.0)
purgatory.try_complete_else_watch(operation, ["a"])
del purgatory
settle()
assert (operation.cancel(), operation.force_complete(), operation.reschedule(1.0)) == (False, False, False)
assert operation.state == "IDLE"
with tw.DelayedOperationPurgatory() as other:
    assert other.try_complete_else_watch(operation, ["a"]) is False
    operation.ready = True
    assert other.check_and_complete("a") == 1
assert operation.completions == 1
print("whole")
"""
    ) == "whole\n"


def test_a_closed_purgatory_does_not_warn(fresh):
    """Only what was forgotten is told; nor does one whose construction failed."""
    assert fresh(
        DROPPED
        + """
with tw.Timer() as timer:
    for options in ({}, {"timer": timer}, {"purge_interval": 1}):
        with tw.DelayedOperationPurgatory(**options) as purgatory:
            purgatory.try_complete_else_watch(Operation(3600.0), ["a"])
        del purgatory
    for options in ({"timer": 3}, {"purge_interval": -1}, {"nonsense": 1}):
        try:
            tw.DelayedOperationPurgatory(**options)
        except (TypeError, ValueError):
            pass
        else:
            raise AssertionError(options)
settle()
assert heard == [], heard
print("whole")
"""
    ) == "whole\n"


def test_a_purgatory_dropped_in_its_own_callback(fresh):
    """The last reference may go while a timeout of its own runs."""
    assert fresh(
        DROPPED
        + """
box, done = [tw.DelayedOperationPurgatory()], threading.Event()

class Last(Operation):
    def on_expiration(self):
        box.clear()
        gc.collect()
        done.set()

box[0].try_complete_else_watch(Last(0.001), ["a"])
assert done.wait(30)
settle()
assert [category for category, _ in heard] == [ResourceWarning], heard
assert "unclosed purgatory" in heard[0][1], heard
print("whole")
"""
    ) == "whole\n"


@pytest.mark.parametrize("executor", ["None", "'inline'"])
def test_exit_with_operations_waiting(fresh, executor):
    """Interpreter exit, in the midst of timeouts and completions: no hang, no crash."""
    fresh(
        DROPPED
        + f"""
purgatory = tw.DelayedOperationPurgatory(timer=tw.Timer(executor={executor}))
entered = threading.Event()

class Again(Operation):
    def on_expiration(self):
        entered.set()
        try:
            purgatory.try_complete_else_watch(Again(0.001), ["a", "b"])
        except RuntimeError:
            pass    # closed at exit

for _ in range(100):
    purgatory.try_complete_else_watch(Again(0.001), ["a", "b"])
waiting = [Operation(3600.0) for _ in range(1000)]
for operation in waiting:
    purgatory.try_complete_else_watch(operation, ["a", operation])
assert entered.wait(30)
"""
    )
