"""Exactly once under fire: many threads at the same operations, each of which ends in one way."""

import collections
import itertools
import random
import threading

import pytest

WAIT = 600
pytestmark = pytest.mark.usefixtures("eager_switching")


@pytest.fixture
def many(core, soak):
    """Fewer on the reference, which takes its time."""
    return 1_000_000 if soak else 50_000 if core == "cython" else 5000


def run_together(start, *functions):
    """Runs each function in a thread of its own, all at once; returns what they returned."""
    barrier = threading.Barrier(len(functions))

    def run(function):
        barrier.wait(WAIT)
        return function()

    futures = [start(run, function) for function in functions]
    return [future.result(WAIT) for future in futures]


@pytest.fixture
def make_request(tw):
    """Makes operations that count what is done to them, and by which rule that would be wrong."""

    class Request(tw.DelayedOperation):
        __slots__ = ("accepted", "completions", "expirations", "faults", "inside", "ready")

        def __init__(self, timeout, ready):
            super().__init__(timeout)
            self.ready = ready  # at which call of `try_complete`
            self.completions = self.expirations = 0
            self.inside = 0
            self.accepted = False
            self.faults = ""

        def try_complete(self):
            self.accepted = True
            self.inside += 1
            if self.inside != 1:
                self.faults += "two threads inside try_complete. "
            if self.completions:
                self.faults += "tried after on_complete. "
            self.ready -= 1
            ready = self.ready <= 0
            self.inside -= 1
            return ready

        def on_complete(self):
            if self.inside:
                self.faults += "on_complete inside try_complete. "
            self.completions += 1

        def on_expiration(self):
            if self.completions != 1:
                self.faults += "on_expiration before on_complete. "
            self.expirations += 1

    return Request


@pytest.mark.parametrize("purge_interval", [None, 200])
def test_exactly_once_under_fire(make_timer, clock, tw, start, make_request, rng, many, purge_interval):
    """Eight threads watch, complete, check, cancel by key and expire the same operations.

    Each ends in exactly one way: one `on_complete`, or handed back once by `cancel_for_key`, or by `close`;
    `on_expiration` iff the timeout won; nobody lost, nobody overlapped, and nothing is left.
    """
    timer = make_timer(tick=1.0, wheel_size=16, executor="inline", clock=clock, start=False)
    purgatory = tw.DelayedOperationPurgatory(timer=timer, purge_interval=purge_interval)
    requests, keys, total = [], 100, many
    seeds = iter([rng.random() for _ in range(8)])
    over = threading.Event()

    def watch(seed, share):
        rng, complete = random.Random(seed), 0
        for _ in range(share):
            request = make_request(float(rng.randrange(1, 40)), rng.choice((1, 2, 3, 4, 5, 10**9)))
            requests.append(request)
            complete += purgatory.try_complete_else_watch(request, [rng.randrange(keys) for _ in range(3)])
        return complete

    def until_over(seed, act):
        rng, results = random.Random(seed), []
        while not over.is_set():
            if requests:
                results.append(act(rng))
        return results

    def check(rng):
        return purgatory.check_and_complete(rng.randrange(keys))

    def force(rng):
        # The newest, so that the way in is struck too; but none that has not come yet.
        request = requests[-rng.randrange(1, min(len(requests), 300) + 1)]
        return request.accepted and request.force_complete()

    def cancel(rng):
        return purgatory.cancel_for_key(rng.randrange(keys)) if rng.random() < 0.1 else []

    def expire(rng):
        clock.advance(1.0)
        return timer.advance_clock()

    def watch_all(seed):
        try:
            return run_together(start, *(lambda s=s: watch(s, total // 2) for s in (seed, seed + 1)))
        finally:
            over.set()

    complete, checked, forced, more_forced, cancelled, expired = run_together(
        start,
        lambda: watch_all(next(seeds)),
        *(
            lambda seed=next(seeds), act=act: until_over(seed, act)
            for act in (check, force, force, cancel, expire)
        ),
    )
    purgatory._check()
    timer._check()
    returned = [*itertools.chain.from_iterable(cancelled), *purgatory.close()]
    purgatory._check()
    stats = purgatory.stats()
    assert not {request.faults for request in requests if request.faults}
    assert len(requests) == total

    handed_back = collections.Counter(map(id, returned))
    assert not [count for count in handed_back.values() if count != 1]
    for request in requests:
        assert request.completions + handed_back[id(request)] == 1
        assert request.expirations <= request.completions
        assert request.is_completed is bool(request.completions)

    expirations = sum(request.expirations for request in requests)
    assert stats.expired == expirations
    assert stats.dropped == len(returned)
    assert stats.completed == total - expirations - len(returned)
    won = sum(checked) + sum(forced) + sum(more_forced)
    assert 0 <= stats.completed - won <= sum(complete)
    assert min(expirations, len(returned), sum(checked), sum(forced)) > 0
    assert sum(expired) >= expirations
    assert (purgatory.watched, purgatory.delayed, len(timer), stats.errors) == (0, 0, 0, 0)


def test_fire_with_a_running_reaper_and_chains(make_timer, tw, start, rng, soak):
    """The timer's own threads expire them, and every completion triggers others, in whatever thread it is."""
    timer = make_timer(tick=0.001)
    purgatory = tw.DelayedOperationPurgatory(timer=timer)
    total = 100_000 if soak else 8000
    operations, returned = [], []

    class Operation(tw.DelayedOperation):
        completions = expirations = inside = 0
        overlaps = False

        def try_complete(self):
            self.overlaps |= bool(self.inside)
            self.inside += 1
            purgatory.check_and_complete(self.key + 1)
            answer = self.lucky.random() < 0.3
            self.inside -= 1
            return answer

        def on_complete(self):
            self.overlaps |= bool(self.inside)
            self.completions += 1
            purgatory.check_and_complete(self.key + 2)
            self.lucky.choice(operations).force_complete()

        def on_expiration(self):
            self.expirations += 1
            purgatory.check_and_complete(self.key)

    def hammer(seed):
        rng = random.Random(seed)
        for _ in range(total // 6):
            operation = Operation(rng.choice((0, 0.001, 0.003, 60.0)))
            operation.key, operation.lucky = rng.randrange(1000), random.Random(seed)
            operations.append(operation)
            purgatory.try_complete_else_watch(operation, [operation.key, rng.randrange(1000)])
            if rng.random() < 0.1:
                returned.extend(purgatory.cancel_for_key(rng.randrange(1000)))
            elif rng.random() < 0.1 and operation.cancel():
                returned.append(operation)

    run_together(start, *(lambda seed=rng.random(): hammer(seed) for _ in range(6)))
    returned.extend(purgatory.close())
    timer.close()
    purgatory._check()
    handed_back = collections.Counter(map(id, returned))
    for operation in operations:
        assert operation.completions + handed_back[id(operation)] == 1
        assert not operation.overlaps
    stats = purgatory.stats()
    assert stats.expired == sum(operation.expirations for operation in operations)
    assert (stats.dropped, purgatory.watched, purgatory.delayed) == (len(returned), 0, 0)


@pytest.mark.parametrize("way", ["check", "force", "cancel", "cancel_for_key", "expire", "close"])
def test_two_ends_race(make_timer, make_purgatory, make_operation, clock, start, way):
    """An event against each other end, at the same instant, three hundred times: one wins."""
    for _ in range(300):
        timer = make_timer(tick=1.0, executor="inline", clock=clock, start=False)
        purgatory = make_purgatory(timer=timer)
        operation = make_operation(1.0)
        purgatory.try_complete_else_watch(operation, ["a", "b"])
        operation.ready = True
        clock.advance(1.0)
        other = {
            "check": lambda p=purgatory: p.check_and_complete("b"),
            "force": operation.force_complete,
            "cancel": operation.cancel,
            "cancel_for_key": lambda p=purgatory: len(p.cancel_for_key("b")),
            "expire": timer.advance_clock,
            "close": lambda p=purgatory: len(p.close()),
        }[way]
        counted, won = run_together(start, lambda p=purgatory: p.check_and_complete("a"), other)
        stats = purgatory.stats()
        assert (stats.completed, stats.expired, stats.dropped).count(1) == 1
        assert counted + won == 1 or way == "expire"
        assert operation.diary.count("complete") == stats.completed + stats.expired
        assert operation.diary.count("expire") == stats.expired
        assert not [entry for entry in operation.diary if "inside" in entry]
        assert (purgatory.watched, purgatory.delayed, len(timer)) == (0, 0, 0)


def test_no_event_is_lost_however_they_race(purgatory, make_operation, start):
    """A flag is set, then the key checked, while the operation comes in: it never sleeps through that."""
    for _ in range(1500):
        operation = make_operation(1e6)

        def event(operation=operation):
            operation.ready = True
            return purgatory.check_and_complete("a")

        def bring(operation=operation):
            return purgatory.try_complete_else_watch(operation, ["a"])

        complete, counted, again = run_together(start, bring, event, event)
        assert operation.is_completed
        assert operation.diary.count("complete") == 1
        assert complete or counted + again == 1
    assert (purgatory.watched, purgatory.delayed) == (0, 0)


@pytest.fixture
def wander_together(make_purgatory, timer, make_operation, start, rng):
    """Four threads drop the same few operations and watch them again, in two purgatories, for some rounds."""

    def wander_together(rounds):
        purgatories = [make_purgatory("left"), make_purgatory("right")]
        operations = [make_operation(1e6) for _ in range(4)]

        def wander(seed):
            rng, taken, dropped = random.Random(seed), 0, 0
            for _ in range(rounds):
                operation, purgatory = rng.choice(operations), rng.choice(purgatories)
                if rng.random() < 0.5:
                    try:
                        purgatory.try_complete_else_watch(operation, [rng.randrange(3), rng.randrange(3)])
                        taken += 1
                    except RuntimeError:
                        pass  # somewhere else, or another thread is still inside of it
                elif rng.random() < 0.5:
                    dropped += operation.cancel()
                elif rng.random() < 0.5:
                    dropped += len(purgatory.cancel_for_key(rng.randrange(3)))
                else:
                    purgatory.check_and_complete(rng.randrange(3))
            return taken, dropped

        results = run_together(start, *(lambda seed=rng.random(): wander(seed) for _ in range(4)))
        for purgatory in purgatories:
            purgatory._check()
        taken, dropped = map(sum, zip(*results, strict=True))
        waiting = sum(purgatory.delayed for purgatory in purgatories)
        assert taken - dropped == waiting == len(timer)
        assert sum(purgatory.stats().dropped for purgatory in purgatories) == dropped
        assert sum(len(purgatory.close()) for purgatory in purgatories) == waiting
        for operation in operations:
            assert not [entry for entry in operation.diary if "inside" in entry]

    return wander_together


@pytest.mark.parametrize("turn", range(10))
def test_operations_that_wander(wander_together, soak, turn):
    """Dropped by one thread and watched again by another, in two purgatories: never in two places."""
    wander_together(30_000 if soak else 2000)


def test_new_operations_wander(wander_together, soak):
    """Cancelled by one thread while another brings them for the first time: dropped, or they wait."""
    for _ in range(5000 if soak else 300):
        wander_together(20)


def test_figures_are_whole_meanwhile(purgatory, make_operation, start, rng):
    """`stats` adds up in every snapshot, while others work."""
    over = threading.Event()

    def hammer(seed):
        rng = random.Random(seed)
        for _ in range(3000):
            operation = make_operation(1e6, ready=rng.random() < 0.2)
            purgatory.try_complete_else_watch(operation, [rng.randrange(9), rng.randrange(9)])
            rng.choice((operation.force_complete, operation.cancel, purgatory._check))()

    def read():
        sums = []
        while not over.is_set():
            stats = purgatory.stats()
            sums.append(stats.completed + stats.expired + stats.dropped)
            assert 0 <= stats.delayed <= stats.watched <= 2 * (stats.delayed + 3)
        return sums

    def work():
        try:
            run_together(start, *(lambda seed=rng.random(): hammer(seed) for _ in range(2)))
        finally:
            over.set()

    _, sums, _ = run_together(start, work, read, read)
    assert sums == sorted(sums)
