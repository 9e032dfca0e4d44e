"""Nothing grows: fresh processes that count blocks, bytes and threads."""

import counting
import pytest
from counting import linux

COUNTING = (
    counting.COUNTING
    + """
def resident_mib():
    return resident_bytes() / 2**20

def noop(*args):
    pass
"""
)


@pytest.fixture
def many(core, soak):
    """A million on the compiled core; fewer on the reference, which takes its time."""
    return 1_000_000 if core == "cython" or soak else 150_000


@linux
@pytest.mark.parametrize("end", ["close", "drop", "cancel", "fire"])
def test_a_million_pending_are_freed(fresh, many, end):
    """R10, I6: blocks and bytes come back, and freeing a long chain does not recurse."""
    assert fresh(
        COUNTING
        + f"""
def end():
    global timer
    if {end!r} == "close":
        assert len(timer.close()) == {many}
    elif {end!r} == "cancel":
        for task in keep:
            task.cancel()
    elif {end!r} == "fire":
        clock.advance(6000.0)
        while timer.advance_clock():
            pass
    if {end!r} in ("close", "drop"):
        timer = tw.Timer(tick=0.001, executor="inline", clock=clock, start=False)
    assert len(timer) == 0

import warnings
warnings.simplefilter("ignore", ResourceWarning)
gc.collect()
before = sys.getallocatedblocks()
keep = [timer.schedule(1.0 + n % 5000, noop, n) for n in range({many})]
if {end!r} != "cancel":
    keep = None
filled = resident_mib()
end()
keep = None
gc.collect()
left = sys.getallocatedblocks() - before
assert left < 2000, left
after = resident_mib()
print(f"{{filled:.0f}} MiB with {many} pending, {{after:.0f}} MiB after")
timer.close()
"""
    )


def test_scheduling_and_cancelling_does_not_grow(fresh, many):
    """A million schedule/cancel pairs, moved on the way: no block is left."""
    assert fresh(
        COUNTING
        + f"""
def churn():
    for n in range({many} // 5):
        task = timer.schedule(n % 7000, noop, n)
        if n % 3 == 0:
            task.reschedule(n % 50)
        task.cancel()
        if n % 1000 == 0:
            clock.advance(0.5)
            timer.advance_clock()

left = growth(churn, 4)
assert left <= 20, left
assert len(timer) == 0
timer.close()
print("level")
"""
    ) == "level\n"


@linux
def test_the_edge_of_a_slab_costs_nothing(fresh):
    """A task that comes and goes where a slab is full asks the system for no memory and gives none back."""
    assert fresh(
        COUNTING
        + """
import resource

def mappings():
    with open("/proc/self/maps") as maps:
        return sum(1 for _ in maps)

def faults_of_pairs():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(200):
        timer.schedule(5.0, noop).cancel()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

held = []
slab = ((2 << 20) - 64) // 80     # tasks
while len(held) < slab - 100:
    held.append(timer.schedule(50.0, noop))
faults_of_pairs()
maps, resident = mappings(), resident_mib()
for _ in range(200):
    held.append(timer.schedule(50.0, noop))
    faults = faults_of_pairs()
    assert faults < 100, (faults, len(held))
assert abs(mappings() - maps) <= 4, (mappings(), maps)
assert resident_mib() - resident < 4, (resident_mib(), resident)
timer.close()
print("level")
"""
    ) == "level\n"


WAYS = {
    "fire": "timer.schedule(0.5, noop, object())",
    "fire at once": "timer.schedule(0, noop, object())",
    "schedule_at": "timer.schedule_at(clock.time(), noop)",
    "periodic": "timer.schedule_every(0.2, noop, object()).reschedule(0.1)",
    "periodic and cancelled": "timer.schedule_every(9.0, noop, object()).cancel()",
    "submit": "timer.submit(0.1, noop)",
    "submit and cancel": "timer.submit(9.0, noop).cancel()",
    "submit an error": "timer.submit(0, divmod, 1, 0)",
    "limit": "f = Future(); timer.limit(f, 9.0); f.set_result(1)",
    "limit in vain": "timer.limit(Future(), 0.1)",
    "add": "timer.add(Bell(0.1)); timer.add(tw.TimerTask(0))",
    "add again": "BELL.cancel(); timer.add(BELL); refused(timer.add, BELL)",
    "not finite": "refused(timer.schedule, float('nan'), noop, object())",
    "no number": "refused(timer.schedule, 'x', noop, object())",
    "no callback": "refused(timer.schedule, 1.0, 3, object())",
    "no task": "refused(timer.add, object())",
    "no arguments": "refused(timer.schedule); refused(timer.schedule, 1.0, callback=noop)",
    "bad task": "refused(tw.TimerTask, float('inf')); refused(tw.TimerTask)",
    "bad move": "refused(BELL.reschedule, float('nan')); refused(BELL.reschedule, 'x')",
    "repr": "repr(timer.schedule(0.1, noop, 1)); timer.stats()",
    "bare task": "tw.TimerTask(1.0).cancel()",
    "reconfigure": "timer.reconfigure(tick=(0.001, 0.01)[n % 2], wheel_size=(8, 512)[n % 2])",
    "full": "refused(full.schedule, 1.0, noop, object()); refused(full.submit, 1.0, noop)",
    "closed": "refused(closed.schedule, 1.0, noop, object()); refused(closed.add, Bell(1.0))",
    "closed again": "closed.close(); closed.stats()",
    "error": "timer.schedule(0, divmod, 1, 0)",
    "wheel": "w = tw.TimingWheel(4); w.add(tw.TimerTask(0), 5); w.add(Bell(0), 999); w.advance(99)",
    "wheel and cancelled": "t = tw.TimerTask(0); WHEEL.add(t, 9); t.cancel()",
    "wheel and moved": "t = tw.TimerTask(0); WHEEL.add(t, 9); WHEEL.reschedule(t, 9**9); WHEEL.cancel(t)",
    "no size": "refused(tw.TimingWheel, 1); refused(tw.TimingWheel, 'x')",
    "no tick": "refused(WHEEL.add, object(), 1); refused(WHEEL.add, BELL, 2**70)",
    "foreign": "timer.schedule(0, noop, object(), executor=pool); pool.run()",
    "foreign and cancelled": "timer.schedule(0, noop, object(), executor=pool).cancel(); pool.run()",
}


def test_no_operation_leaks(fresh):
    """Each way through the timer, the refused ones too, a thousand times over: no block is left."""
    fresh(
        COUNTING
        + f"""
import logging
from concurrent.futures import Executor, Future
logging.disable()
WAYS = {WAYS!r}

class Bell(tw.TimerTask):
    pass

class Pool(Executor):
    tickets = []
    def submit(self, ticket):
        self.tickets.append(ticket)
    def run(self):
        while self.tickets:
            self.tickets.pop()()

def refused(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except (ValueError, TypeError, RuntimeError, OverflowError):
        return
    raise AssertionError((call, args))

BELL, WHEEL, pool = Bell(5.0), tw.TimingWheel(), Pool()
full = tw.Timer(max_pending=1, start=False)
full.schedule(9.0, noop)
closed = tw.Timer(start=False)
closed.close()
leaks = {{}}
for name, line in WAYS.items():
    code = compile(line, name, "exec")
    keep = None

    def work():
        for n in range(300):
            exec(code, globals(), {{"n": n}})
        clock.advance(1.0)
        while timer.advance_clock():
            pass
        for task in list(PERIODIC):
            task.cancel()
        PERIODIC.clear()

    PERIODIC = []
    if name == "periodic":
        every = timer.schedule_every
        class Recording:
            def schedule_every(self, *args):
                PERIODIC.append(every(*args))
                return PERIODIC[-1]
        code = compile(line.replace("timer.", "Recording()."), name, "exec")
    left = growth(work)
    if left > 60:
        leaks[name] = left
assert not leaks, leaks
full.close()
timer.close()
"""
    )


@linux
def test_timers_come_and_go_without_trace(fresh):
    """Hundreds of timers made, used and closed: no thread, file or memory is left."""
    fresh(
        COUNTING
        + """
import os, threading

def use():
    for options in ({}, {"executor": "inline"}, {"start": False}, {"clock": tw.BootClock()}):
        with tw.Timer(wheel_size=512, **options) as t:
            if "start" not in options:
                t.submit(0.0, noop).result(30)
            t.schedule(5.0, noop)
            t.schedule(5e6, noop)
    by_hand = tw.Timer(clock=tw.ManualClock(), executor="inline", start=False)
    by_hand.schedule(0, by_hand.close)
    by_hand.schedule(0, noop)
    by_hand.advance_clock()
    by_hand.advance_clock()

def opened():
    return len(os.listdir("/proc/self/fd"))

for _ in range(5):
    use()
files, threads, size = opened(), threading.active_count(), resident_mib()
left = growth(lambda: [use() for _ in range(20)], 3)
assert left < 100, left
assert opened() == files
assert threading.active_count() == threads
assert resident_mib() - size < 8, (size, resident_mib())
timer.close()
"""
    )


@linux
def test_wheels_and_levels_are_freed(fresh, core):
    """Overflow wheels, made by `reconfigure` and by far deadlines outside Python's allocator, go away."""
    rounds = 400 if core == "cython" else 20
    fresh(
        COUNTING
        + f"""
def turn(n):
    for _ in range(n):
        timer.reconfigure(tick=0.001, wheel_size=4096)
        timer.schedule(1e9, noop).cancel()
        wheel = tw.TimingWheel(4096)
        wheel.add(tw.TimerTask(0), 2**62)

turn({rounds} // 8)
before = resident_mib()
turn({rounds})
grown = resident_mib() - before
assert grown < 30, grown
timer.close()
"""
    )


def test_a_soaked_worker_does_not_grow(fresh):
    """The default executor and the running reaper, a hundred thousand tasks on: no block is left."""
    assert fresh(
        COUNTING
        + """
import threading
running = tw.Timer(tick=0.001)

def work():
    done = threading.Event()
    for n in range(4000):
        running.schedule((0, 0.001, 0.003)[n % 3], noop, object())
        running.schedule(3600.0, noop, object()).cancel()
    running.schedule(0.05, done.set)
    assert done.wait(30)
    while len(running):
        pass

left = growth(work, 5)
assert left <= 60, left
running.close()
timer.close()
print("level")
"""
    ) == "level\n"
