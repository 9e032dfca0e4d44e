"""A purgatory does not grow, and what waits in it is small: fresh processes that count blocks and bytes."""

import counting
import pytest
from counting import linux

COUNTING = (
    counting.COUNTING
    + """
purgatory = tw.DelayedOperationPurgatory(timer=timer, purge_interval={purge_interval})

class Request(tw.DelayedOperation):
    __slots__ = ()
    def try_complete(self): return False

def drain():
    while timer.advance_clock():
        pass
    timer.advance_clock()
"""
)


@pytest.fixture
def many(core, soak):
    """A million on the compiled core; fewer on the reference, which takes its time."""
    return 1_000_000 if core == "cython" or soak else 100_000


WAYS = {
    "force": "watch(60.0).force_complete()",
    "cancel": "watch(60.0).cancel()",
    "expire": "watch(0.5)",
    "move": "watch(60.0).reschedule(0.5)",
    "new keys": "watch(0.5, keys=[n, -n, str(n)])",
    "cancel_for_key": "watch(60.0, keys=['k', n]); purgatory.cancel_for_key('k')",
    "check": "watch(60.0, Ready, keys=['k', n]); purgatory.check_and_complete('k')",
    "nobody's key": "purgatory.check_and_complete(n); purgatory.cancel_for_key(-n)",
    "twice": "operation = watch(60.0); operation.cancel(); watch_it(operation, [n]); operation.cancel()",
    "at once": "watch(60.0, Complete)",
    "in the second try": "watch(60.0, Ready)",
    "chain": "watch(60.0, Pulling, keys=['p']); purgatory.check_and_complete('p')",
    "raising": "watch(60.0, Raising).force_complete()",
    "no keys": "refused(watch_it, Request(60.0), [])",
    "unhashable": "refused(watch_it, Request(60.0), [n, []])",
    "bad comparison": "refused(watch_it, Request(60.0), [n, Bad(), Bad()])",
    "twice in": "operation = watch(0.5); refused(watch_it, operation, [n])",
    "nan": "refused(Request, float('nan'))",
    "closed": "refused(closed.try_complete_else_watch, Request(60.0), [n])",
    "purgatory": "p = tw.DelayedOperationPurgatory(timer=timer); bring(p, Request(9.0)); p.close()",
    "purgatory that purges": "p = tw.DelayedOperationPurgatory(timer=timer, purge_interval=9); "
    "bring(p, Request(9.0)).force_complete(); p.close()",
    "stats": "purgatory.stats(), purgatory.watched, purgatory.delayed, repr(purgatory), purgatory._check()",
}


@pytest.mark.parametrize("purge_interval", [None, 50])
def test_no_way_leaks(fresh, purge_interval):
    """Each way through the purgatory, the refused ones too, hundreds of times over: no block is left."""
    fresh(
        COUNTING.format(purge_interval=purge_interval)
        + f"""
import logging
logging.disable()
WAYS = {WAYS!r}
watch_it = purgatory.try_complete_else_watch

class Ready(Request):
    tries = 0
    def try_complete(self):
        self.tries += 1
        return self.tries > 1 + (KIND == "check")

class Complete(Request):
    def try_complete(self): return True

class Pulling(Request):
    tries = 0
    def try_complete(self):
        self.tries += 1
        return self.tries > 2
    def on_complete(self):
        purgatory.check_and_complete("q")
        watch(0.5, keys=["q"]).force_complete()

class Raising(Request):
    def try_complete(self): raise ZeroDivisionError
    def on_complete(self): raise ZeroDivisionError

class Bad:
    def __hash__(self): return 1
    def __eq__(self, other): raise ZeroDivisionError

def bring(purgatory, operation):
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    return operation

def watch(timeout, kind=Request, keys=("a", "b", "c")):
    operation = kind(timeout)
    watch_it(operation, keys)
    return operation

def refused(call, *args):
    try:
        call(*args)
    except (ValueError, TypeError, RuntimeError, ZeroDivisionError):
        return
    raise AssertionError((call, args))

closed = tw.DelayedOperationPurgatory(timer=timer)
closed.close()
leaks = {{}}
for KIND, line in WAYS.items():
    code = compile(line, KIND, "exec")

    def work():
        scope = {{}}
        for n in range(300):
            exec(code, globals(), scope | {{"n": n + 1000}})
        clock.advance(1.0)
        drain()
        purgatory.cancel_for_key("a")
        for n in range(60):     # more than the purge interval: what stays is purged
            watch(60.0, keys=["z"]).force_complete()
            drain()

    left = growth(work)
    if left > 60:
        leaks[KIND] = left
assert not leaks, leaks
purgatory.close()
timer.close()
"""
    )


@linux
@pytest.mark.parametrize("purge_interval", [None, 1000])
def test_a_stream_of_requests_does_not_grow(fresh, many, purge_interval):
    """A million operations on three keys each, completed, expired and dropped: nothing is left."""
    assert fresh(
        COUNTING.format(purge_interval=purge_interval)
        + f"""
class Ready(Request):
    __slots__ = ("tries",)
    def __init__(self, timeout):
        super().__init__(timeout)
        self.tries = 3
    def try_complete(self):
        self.tries -= 1
        return not self.tries

def stream():
    for n in range({many} // 10):
        request = Ready(0.2)
        purgatory.try_complete_else_watch(request, (n % 100, n * 7 % 97 + 100, f"r{{n}}"))
        if n % 4 == 0:
            purgatory.check_and_complete(n % 100)
        elif n % 4 == 1:
            request.force_complete()
        elif n % 64 == 2:
            purgatory.cancel_for_key(n % 100)
        if n % 50 == 0:
            clock.advance(0.05)
            timer.advance_clock()
    clock.advance(1.0)
    drain()
    for n in range(200):
        purgatory.cancel_for_key(n)     # with a purge interval: what has completed leaves too

stream()
size = resident_bytes()
left = growth(stream, 8)
assert left <= 60, left
assert resident_bytes() - size < 3 << 20, resident_bytes() - size
assert purgatory.delayed == 0
purgatory.close()
timer.close()
print("level")
"""
    ) == "level\n"


@linux
@pytest.mark.parametrize("end", ["close", "drop", "cancel_for_key", "check", "expire"])
def test_a_crowd_is_freed(fresh, many, end):
    """Hundreds of thousands of waiting operations: blocks come back, whatever ends them all at once."""
    count = many // 5
    assert fresh(
        COUNTING.format(purge_interval=None)
        + f"""
import warnings
warnings.simplefilter("ignore", ResourceWarning)

class Ready(Request):
    __slots__ = ()
    def try_complete(self): return over

def fill():
    for n in range({count}):
        purgatory.try_complete_else_watch(Ready(1.0 + n % 5000), ("all", n, -n - 1))

over = False
gc.collect()
before = sys.getallocatedblocks()
fill()
filled = resident_bytes()
assert (purgatory.delayed, purgatory.watched) == ({count}, 3 * {count})
over = True
if {end!r} == "close":
    assert len(purgatory.close()) == {count}
elif {end!r} == "drop":
    purgatory = tw.DelayedOperationPurgatory(timer=timer)
elif {end!r} == "cancel_for_key":
    assert len(purgatory.cancel_for_key("all")) == {count}
elif {end!r} == "check":
    assert purgatory.check_and_complete("all") == {count}
else:
    clock.advance(6000.0)
    drain()
assert purgatory.watched == purgatory.delayed == len(timer) == 0
purgatory._check()
gc.collect()
left = sys.getallocatedblocks() - before
assert left < 2000, left
purgatory.close()
timer.close()
print("freed")
"""
    ) == "freed\n"


@linux
def test_a_waiting_operation_is_small(fresh, core):
    """At most 300 bytes a pending operation with 3 keys, its own attributes aside, on the compiled core.

    Resident memory, since most of it is not Python's: 300,000 operations of a class without attributes,
    whose keys are shared.
    """
    if core != "cython":
        pytest.skip("the reference is for reading")
    each = float(
        fresh(
            COUNTING.format(purge_interval=None)
            + """
keys = [f"topic-{n}" for n in range(100)]
triples = [(keys[n], keys[n * 7 % 100], keys[(n * 13 + 5) % 100]) for n in range(100)]
triples = [each for each in triples if len(set(each)) == 3]

def fill(count):
    for n in range(count):
        purgatory.try_complete_else_watch(Request(1.0 + n % 1000 / 1000), triples[n % len(triples)])

fill(20_000)    # wheels, tables, and what the allocators keep for themselves
before = resident_bytes()
fill(300_000)
print((resident_bytes() - before) / 300_000)
assert purgatory.watched == 3 * 320_000
purgatory.close()
timer.close()
"""
        )
    )
    assert 100 < each <= 300, f"{each:.0f} bytes a pending operation"
