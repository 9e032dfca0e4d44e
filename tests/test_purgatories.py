"""The purgatories that are compared: all do the same work, and each does it as its design says."""

import random
import threading
from time import monotonic, sleep

import pytest

from tickwheel.bench.purgatories import DESIGNS, ring, sparse
from tickwheel.bench.purgatories.old import OldPurgatory
from tickwheel.bench.purgatories.ring import RingPurgatory
from tickwheel.bench.purgatories.sparse import SparsePurgatory
from tickwheel.bench.purgatories.thread import ThreadPurgatory

WAIT = 30       # seconds; guards against hanging, never decides what is right
LONG = 60.0     # a timeout that does not come

WITH_TIMEOUTS = [name for name in DESIGNS if name != "harness"]
KEEPS_COMPLETED = {"old", "wheel-purged"}
LOCKED = [name for name in WITH_TIMEOUTS if not name.startswith("wheel")]   # `LockedOperation`


# Whatever a design started has ended when it was closed.
pytestmark = pytest.mark.usefixtures("no_thread_left")


@pytest.fixture
def open_purgatory():
    """Makes purgatories of a design, and closes them when the test is over."""
    purgatories = []

    def make(design, **options):
        purgatories.append(design(**options))
        return purgatories[-1]

    yield make
    for purgatory in purgatories:
        purgatory.close()


@pytest.fixture
def purgatory(request, open_purgatory):
    return open_purgatory(DESIGNS[request.param])


def each(names):
    return pytest.mark.parametrize("purgatory", names, indirect=True)


def wait_until(condition):
    until = monotonic() + WAIT
    while not condition():
        assert monotonic() < until, "did not happen"
        sleep(0.001)


def make_operation(purgatory, timeout=LONG, answers=()):
    """An operation that writes down what becomes of it. `answers`: of `try_complete`, then `ready`."""

    class Operation(purgatory.Operation):
        def __init__(self):
            super().__init__(timeout)
            self.ready = False
            self.answers = list(answers)
            self.tries = 0
            self.story = []
            self.expired = threading.Event()

        def try_complete(self):
            self.tries += 1
            return self.answers.pop(0) if self.answers else self.ready

        def on_complete(self):
            self.story.append("complete")

        def on_expiration(self):
            self.expired_at = monotonic()
            self.story.append("expired")
            self.expired.set()

    return Operation()


@pytest.mark.parametrize("name", DESIGNS)
def test_a_design_says_what_it_is(name):
    """The registry's key is the design's name; its summary is one line."""
    assert DESIGNS[name].name == name
    assert DESIGNS[name].summary
    assert "\n" not in DESIGNS[name].summary


@each(DESIGNS)
def test_complete_at_the_first_try(purgatory):
    """What can complete at once is neither watched nor delayed."""
    operation = make_operation(purgatory, answers=[True])
    assert purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert operation.is_completed
    assert operation.story == ["complete"]
    assert (purgatory.watched, purgatory.delayed, purgatory.queue_length) == (0, 0, 0)


@each(WITH_TIMEOUTS)
def test_complete_at_the_second_try(purgatory):
    """What came about while the keys were being watched is seen by the second try: no timeout is started."""
    operation = make_operation(purgatory, answers=[False, True])
    assert purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert operation.story == ["complete"]
    assert operation.tries == 2
    assert purgatory.watched == (2 if purgatory.name in KEEPS_COMPLETED else 0)
    assert (purgatory.delayed, purgatory.queue_length) == (0, 0)


@each(WITH_TIMEOUTS)
def test_complete_by_an_event(purgatory):
    """A check of any of its keys completes an operation that is ready, once, and counts only that."""
    first, second = make_operation(purgatory), make_operation(purgatory)
    assert not purgatory.try_complete_else_watch(first, ["a", "b", "c"])
    assert not purgatory.try_complete_else_watch(second, ["b"])
    assert (purgatory.watched, purgatory.delayed) == (4, 2)
    assert purgatory.check_and_complete("b") == 0
    first.ready = True
    assert purgatory.check_and_complete("nobody watches this") == 0
    assert purgatory.check_and_complete("b") == 1
    assert purgatory.check_and_complete("b") == 0
    assert purgatory.check_and_complete("a") == 0
    assert first.is_completed
    assert first.story == ["complete"]
    assert second.story == []
    assert purgatory.delayed == 1


@each(WITH_TIMEOUTS)
def test_complete_by_force(purgatory):
    """force_complete is True once."""
    operation = make_operation(purgatory)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.force_complete()
    assert not operation.force_complete()
    assert operation.story == ["complete"]
    assert purgatory.delayed == 0


@each(WITH_TIMEOUTS)
def test_who_keeps_what_is_complete(purgatory):
    """`old` keeps it everywhere, Kafka's later design in the lists, the others nowhere."""
    operation = make_operation(purgatory)
    purgatory.try_complete_else_watch(operation, ["a", "b", "c"])
    operation.force_complete()
    assert purgatory.watched == (3 if purgatory.name in KEEPS_COMPLETED else 0)
    assert purgatory.delayed == 0
    if purgatory.name == "old":
        assert purgatory.queue_length == 1
    if purgatory.name == "ring":
        assert purgatory.queue_length == 0


@each(DESIGNS)
def test_try_complete_may_force(purgatory):
    """`try_complete` may call `force_complete` itself, and return its answer."""

    class Forcing(purgatory.Operation):
        completed = 0

        def try_complete(self):
            return self.force_complete()

        def on_complete(self):
            self.completed += 1

    operation = Forcing(LONG)
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.is_completed
    assert operation.completed == 1


@each(WITH_TIMEOUTS)
def test_expires_and_never_early(purgatory):
    """Each expires after its timeout, `on_complete` first, and is complete then."""
    timeouts = [0.05, 0.0, 0.03, 0.0031, 0.0007, 0.025]
    start = monotonic()
    operations = [make_operation(purgatory, timeout) for timeout in timeouts]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    for timeout, operation in zip(timeouts, operations, strict=True):
        assert operation.expired.wait(WAIT)
        assert operation.expired_at - start >= timeout
        assert operation.is_completed
        assert operation.story == ["complete", "expired"]
        assert not operation.force_complete()
    assert purgatory.delayed == 0


@each(WITH_TIMEOUTS)
def test_a_nearer_timeout_wakes_the_sleeper(purgatory):
    """A thread that sleeps until a far deadline does not miss a near one."""
    far, near = make_operation(purgatory, LONG), make_operation(purgatory, 0.01)
    purgatory.try_complete_else_watch(far, ["a"])
    purgatory.try_complete_else_watch(near, ["a"])
    assert near.expired.wait(WAIT)
    assert not far.is_completed
    assert purgatory.delayed == 1


@each(WITH_TIMEOUTS)
def test_a_completed_operation_does_not_expire(purgatory):
    """Its timeout passes, and nothing happens."""
    operations = [make_operation(purgatory, 0.02) for _ in range(2)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"])
    operations[0].force_complete()
    assert operations[1].expired.wait(WAIT)
    wait_until(lambda: purgatory.queue_length == 0)
    assert operations[0].story == ["complete"]


@each(LOCKED)
def test_an_error_does_not_end_the_expiring_thread(purgatory, caplog):
    """A callback that raises is logged; what is due later still expires."""
    failing = make_operation(purgatory, 0.0)
    failing.story = None
    purgatory.try_complete_else_watch(failing, ["a"])
    wait_until(lambda: "raised" in caplog.text)
    assert "AttributeError" in caplog.text
    operation = make_operation(purgatory, 0.0)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.expired.wait(WAIT)


@each(LOCKED)
def test_one_thread_tries_at_a_time(purgatory):
    """Who would complete an operation waits until another thread has left its `try_complete`."""
    story, inside = [], threading.Event()

    class Slow(purgatory.Operation):
        def try_complete(self):
            if inside.is_set():
                return False
            inside.set()
            forcing.start()
            sleep(0.01)     # time to go wrong; what is right does not depend on it
            story.append("tried")
            return False

        def on_complete(self):
            story.append("complete")

    operation = Slow(LONG)
    forcing = threading.Thread(target=operation.force_complete)
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    forcing.join()
    assert story == ["tried", "complete"]
    assert purgatory.delayed == 0
    assert purgatory.watched <= 2 * (purgatory.name == "old")


@each(WITH_TIMEOUTS)
def test_exactly_once_under_fire(purgatory, rng):
    """Two threads force, two check keys, and timeouts come, all at once: each operation completes once."""
    count, keys = (200 if purgatory.name == "thread" else 2000), range(20)
    operations = [make_operation(purgatory, rng.choice([0.0, 0.002, 0.01, 0.05])) for _ in range(count)]
    counted = []

    def force(seed):
        shuffled = random.Random(seed).sample(operations, count)
        counted.append(sum(operation.force_complete() for operation in shuffled[: count // 2]))

    def check(seed):
        chance = random.Random(seed)
        completed = 0
        for operation in chance.sample(operations, count // 4):
            operation.ready = True
            completed += purgatory.check_and_complete(chance.choice(keys))
        counted.append(completed)

    threads = [
        threading.Thread(target=target, args=(rng.random(),)) for target in (force, force, check, check)
    ]
    at_once = 0
    for number, operation in enumerate(operations):
        if number == count // 2:
            for thread in threads:
                thread.start()
        at_once += purgatory.try_complete_else_watch(operation, rng.sample(keys, 3))
    for thread in threads:
        thread.join()
    wait_until(lambda: all(operation.is_completed for operation in operations))
    wait_until(lambda: purgatory.delayed == 0)
    if purgatory.name not in KEEPS_COMPLETED:
        wait_until(lambda: purgatory.watched == 0)
    purgatory.close()       # ends its threads, so what they began is done
    expired = [operation for operation in operations if operation.expired.is_set()]
    for operation in operations:
        assert operation.story[:1] == ["complete"]
        assert operation.story[1:] in ([], ["expired"])
    # Those that were complete when they had been watched may have been counted by another thread too.
    assert sum(counted) + len(expired) <= count <= sum(counted) + len(expired) + at_once


@each(DESIGNS)
def test_close_ends_it(purgatory):
    """What was pending is forgotten, and no thread is left (see `no_thread_left`)."""
    operations = [make_operation(purgatory, timeout) for timeout in (LONG, 0.05, LONG)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    operations[0].force_complete()
    purgatory.close()
    assert (purgatory.watched, purgatory.delayed, purgatory.queue_length) == (0, 0, 0)
    assert operations[2].story == []


def test_the_harness_remembers_nothing(open_purgatory):
    """No purgatory: tried once, then only `force_complete` completes it."""
    purgatory = open_purgatory(DESIGNS["harness"])
    operation = make_operation(purgatory, 0.0)
    assert not purgatory.try_complete_else_watch(operation, ["a"])
    operation.ready = True
    assert purgatory.check_and_complete("a") == 0
    assert operation.tries == 1
    assert operation.force_complete()
    assert operation.story == ["complete"]
    assert purgatory.threads == purgatory.wakeups == purgatory.queue_length == 0


# ---- old

def test_old_purges_lists_at_its_size_and_not_before(open_purgatory):
    """The limit counts entries in all lists; below it, wakings pass and nothing is taken out."""
    purgatory = open_purgatory(OldPurgatory, purge_interval=6)
    complete(purgatory, ["a", "b", "c"])
    complete(purgatory, ["a", "b"])
    wait_for_turns(purgatory, 2)
    assert (purgatory.purges, purgatory.watched, purgatory.queue_length) == (0, 5, 2)
    complete(purgatory, ["a"])
    wait_until(lambda: purgatory.purges == 1)
    wait_until(lambda: purgatory.watched == 0)
    wait_for_turns(purgatory, 2)
    assert (purgatory.purges, purgatory.queue_length) == (1, 3)     # the queue is below the limit


def test_old_purges_the_queue_at_its_size(open_purgatory):
    """The queue has the same limit, and what is pending stays."""
    purgatory = open_purgatory(OldPurgatory, purge_interval=3)
    pending = make_operation(purgatory)
    purgatory.try_complete_else_watch(pending, ["a"])
    for _ in range(2):
        complete(purgatory, ["a"])
    wait_until(lambda: purgatory.purges == 2)       # the lists, and the queue
    wait_until(lambda: (purgatory.watched, purgatory.queue_length) == (1, 1))
    assert purgatory.delayed == 1


def test_old_purges_in_vain(open_purgatory):
    """It is the size that counts: with more pending than the limit each waking scans all, for nothing."""
    purgatory = open_purgatory(OldPurgatory, purge_interval=3)
    for _ in range(4):
        purgatory.try_complete_else_watch(make_operation(purgatory), ["a"])
    wait_until(lambda: purgatory.purges >= 4)
    assert (purgatory.watched, purgatory.delayed, purgatory.queue_length) == (4, 4, 4)


def test_old_checks_take_out_what_they_meet(open_purgatory):
    """A check takes the completed operations out of that key's list alone."""
    purgatory = open_purgatory(OldPurgatory)
    complete(purgatory, ["a", "b"])
    assert purgatory.watched == 2
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.watched == 1


def complete(purgatory, keys):
    """One more operation that is complete, and stays."""
    operation = make_operation(purgatory)
    purgatory.try_complete_else_watch(operation, keys)
    operation.force_complete()


def wait_for_turns(purgatory, turns):
    """So many whole turns of the expiring thread have begun and ended."""
    seen = purgatory.wakeups
    wait_until(lambda: purgatory.wakeups > seen + turns)


# ---- ring

def test_ring_scans_what_is_rounds_away(open_purgatory):
    """A timeout beyond the ring is looked at in every round, and stays."""
    purgatory = open_purgatory(RingPurgatory, wheel_size=4)
    operation = make_operation(purgatory)
    purgatory.try_complete_else_watch(operation, ["a"])
    wait_until(lambda: purgatory.scanned >= 5)
    assert (purgatory.delayed, purgatory.queue_length, purgatory.started) == (1, 1, 0)
    assert operation.story == []


def test_ring_expires_beyond_the_ring(open_purgatory):
    """A timeout of many rounds comes in its own, and never early."""
    purgatory = open_purgatory(RingPurgatory, wheel_size=3)
    start = monotonic()
    operation = make_operation(purgatory, 0.05)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.expired.wait(WAIT)
    assert operation.expired_at - start >= 0.05
    assert (purgatory.delayed, purgatory.started) == (0, 1)


def test_ring_wakes_where_nothing_is_pending(open_purgatory):
    """The ticker turns an empty ring."""
    purgatory = open_purgatory(RingPurgatory)
    wait_until(lambda: purgatory.wakeups >= 20)
    assert (purgatory.scanned, purgatory.threads) == (0, 1)


def test_ring_starts_a_thread_for_each_that_is_due(open_purgatory):
    """Nothing bounds the number of threads but the number of operations."""
    purgatory = open_purgatory(RingPurgatory)
    all_inside = threading.Barrier(6)
    for _ in range(5):
        operation = make_operation(purgatory, 0.01)
        operation.on_complete = lambda: all_inside.wait(WAIT)
        purgatory.try_complete_else_watch(operation, ["a"])
    all_inside.wait(WAIT)
    assert (purgatory.threads, purgatory.started) == (6, 5)


def test_ring_where_there_are_no_more_threads(open_purgatory, monkeypatch):
    """The ticker dies of it, which `threading.excepthook` sees, and the purgatory can still be closed."""
    seen = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    purgatory = open_purgatory(RingPurgatory)

    class Refused(threading.Thread):
        def start(self):
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ring, "Thread", Refused)
    purgatory.try_complete_else_watch(make_operation(purgatory, 0.0), ["a"])
    wait_until(lambda: seen)
    assert "can't start new thread" in str(seen[0].exc_value)


# ---- thread

def test_thread_has_a_thread_for_each_operation(open_purgatory):
    """As many as are pending; a completion wakes its thread, which ends."""
    purgatory = open_purgatory(ThreadPurgatory)
    operations = [make_operation(purgatory) for _ in range(10)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"])
    assert (purgatory.threads, purgatory.queue_length, purgatory.wakeups) == (10, 10, 0)
    for operation in operations[:4]:
        operation.force_complete()
    wait_until(lambda: purgatory.queue_length == 6)
    assert (purgatory.delayed, purgatory.wakeups, purgatory.threads) == (6, 4, 10)


def test_thread_where_there_are_no_more_threads(open_purgatory, monkeypatch):
    """The caller hears of it, and the purgatory can still be closed."""
    purgatory = open_purgatory(ThreadPurgatory)

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        purgatory.try_complete_else_watch(make_operation(purgatory), ["a"])
    assert (purgatory.delayed, purgatory.queue_length) == (0, 0)


# ---- sparse

@pytest.fixture
def standing_still(monkeypatch, open_purgatory):
    """A sparse purgatory whose clock stands still: equal timeouts fall on one tick."""
    now = monotonic()
    monkeypatch.setattr(sparse, "monotonic", lambda: now)
    return open_purgatory(SparsePurgatory)


def test_sparse_has_a_bucket_for_a_tick(standing_still):
    """Entries are ticks, not operations."""
    for timeout in (LONG, LONG, LONG + 1):
        standing_still.try_complete_else_watch(make_operation(standing_still, timeout), ["a"])
    assert (standing_still.delayed, standing_still.queue_length) == (3, 2)


def test_sparse_reuses_the_tick_of_an_emptied_bucket(standing_still):
    """A completion leaves its bucket; the tick stays in the heap, once, for the next that needs it."""
    for _ in range(3):
        operation = make_operation(standing_still)
        standing_still.try_complete_else_watch(operation, ["a"])
        assert (standing_still.delayed, standing_still.queue_length) == (1, 1)
        operation.force_complete()
        assert (standing_still.delayed, standing_still.queue_length) == (0, 1)


def test_sparse_drops_the_ticks_of_emptied_buckets(open_purgatory):
    """One look drops all that come first and have no bucket, due or not."""
    purgatory = open_purgatory(SparsePurgatory)
    inside, go_on = threading.Event(), threading.Event()
    holding = make_operation(purgatory, 0.0)
    holding.on_complete = lambda: (inside.set(), go_on.wait(WAIT))
    purgatory.try_complete_else_watch(holding, ["a"])
    assert inside.wait(WAIT)
    for timeout in (LONG, 2 * LONG, 3 * LONG):
        operation = make_operation(purgatory, timeout)
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.force_complete()
    assert (purgatory.delayed, purgatory.queue_length) == (0, 3)
    go_on.set()
    wait_until(lambda: purgatory.queue_length == 0)


def test_sparse_sleeps_where_nothing_is_pending(open_purgatory):
    """Nobody has woken it, so it never woke."""
    purgatory = open_purgatory(SparsePurgatory)
    sleep(0.05)     # it would have by now, were it a ticker
    assert purgatory.wakeups == 0
