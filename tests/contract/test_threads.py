"""Many threads on one timer: each scheduling still ends exactly once (R3)."""

import collections
import concurrent.futures
import contextlib
import itertools
import random
import threading

import pytest

WAIT = 60
pytestmark = pytest.mark.usefixtures("eager_switching")


def run_together(*functions):
    """Runs each function in a thread of its own, all at once; raises what any of them raised."""
    barrier = threading.Barrier(len(functions))

    def run(function):
        barrier.wait(WAIT)
        function()

    with concurrent.futures.ThreadPoolExecutor(len(functions)) as pool:
        for future in [pool.submit(run, function) for function in functions]:
            future.result(timeout=WAIT)


class Account:
    """What was done to each task, and by its end whether that adds up to once."""

    def __init__(self, timer):
        self.timer = timer
        self.tasks = []
        self.fired = collections.Counter()
        self.cancelled = collections.Counter()
        self._numbers = itertools.count()

    def fire(self, number):
        self.fired[number] += 1  # one key per task: two threads here at once would be the failure itself

    def hammer(self, seed, operations, *, shared):
        """Schedules, cancels and moves tasks, those of the other threads too."""
        rng = random.Random(seed)
        timer = self.timer
        for _ in range(operations):
            choice = rng.random()
            if choice < 0.5 or not shared:
                number = next(self._numbers)
                delay = rng.choice((0, 0.0005, 0.002, 0.01, 5.0, 3600.0))
                task = timer.schedule(delay, self.fire, number)
                self.tasks.append(task)
                shared.append((number, task))
                if len(shared) > 500:
                    with contextlib.suppress(IndexError):
                        del shared[:250]
            else:
                try:
                    number, task = rng.choice(shared)
                except IndexError:
                    continue
                if choice < 0.75:
                    if task.cancel():
                        self.cancelled[number] += 1
                else:
                    task.reschedule(rng.choice((0, 0.001, 0.02, 60.0)))

    def settle(self):
        """Closes the timer and checks that each scheduling ended once."""
        returned = self.timer.close()
        self.timer._check()
        stats = self.timer.stats()
        states = collections.Counter(str(task.state) for task in self.tasks)
        assert not [number for number, count in self.fired.items() if count != 1]
        assert not [number for number, count in self.cancelled.items() if count != 1]
        assert not self.fired.keys() & self.cancelled.keys()
        assert len(self.fired) == states["FIRED"] == stats.fired
        assert len(self.cancelled) == states["CANCELLED"] == stats.cancelled
        assert len(returned) == states["IDLE"]
        assert len({id(task) for task in returned}) == len(returned)
        assert len(self.tasks) == stats.scheduled == stats.fired + stats.cancelled + len(returned)
        assert stats.pending == stats.errors == 0


@pytest.mark.parametrize("executor", ["default", "inline", "pool"])
def test_threads_hammer_a_running_timer(make_timer, rng, soak, executor):
    """R3: schedule, cancel and reschedule from four threads while the reaper fires."""
    operations = 50_000 if soak else 2500
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        options = {"default": None, "inline": "inline", "pool": pool}
        timer = make_timer(tick=0.001, wheel_size=16, executor=options[executor])
        account, shared = Account(timer), []
        seeds = [rng.random() for _ in range(4)]
        run_together(*(lambda seed=seed: account.hammer(seed, operations, shared=shared) for seed in seeds))
        account.settle()


def test_threads_hammer_a_timer_turned_by_hand(make_timer, clock, rng, soak):
    """R3: while others schedule and cancel, two threads turn the wheel and one changes its size."""
    operations = 30_000 if soak else 2500
    timer = make_timer(tick=0.001, wheel_size=4, executor="inline", clock=clock, start=False)
    account, shared = Account(timer), []
    over = threading.Event()
    turned = []

    def hammer(seed):
        account.hammer(seed, operations, shared=shared)

    def turn():
        while not over.is_set():
            clock.advance(0.001)
            turned.append(timer.advance_clock())

    def resize():
        sizes = random.Random(1)
        while not over.is_set():
            timer.reconfigure(tick=sizes.choice((0.001, 0.003, 0.1)), wheel_size=sizes.choice((2, 8, 512)))
            timer._check()
            over.wait(0.002)  # an RLock is not fair: the others must come in between

    helpers = [threading.Thread(target=target) for target in (turn, turn, resize)]
    for helper in helpers:
        helper.start()
    try:
        run_together(*(lambda seed=rng.random(): hammer(seed) for _ in range(2)))
    finally:
        over.set()
        for helper in helpers:
            helper.join(WAIT)
    account.settle()


@pytest.mark.parametrize("way", ["task", "timer"])
def test_threads_race_to_end_one_task(make_timer, clock, way):
    """R3: of many cancels, and a wheel that fires it, exactly one wins."""
    timer = make_timer(tick=1.0, executor="inline", clock=clock, start=False)
    for _ in range(300):
        fired, won = [], []
        task = timer.schedule(1.0, fired.append, 1)
        clock.advance(1.0)

        def cancel(task=task, won=won):
            if task.cancel():
                won.append(1)

        functions = [cancel, cancel, cancel]
        if way == "timer":
            functions[0] = timer.advance_clock
        run_together(*functions)
        assert len(fired) + len(won) == 1
        assert task.state == ("FIRED" if fired else "CANCELLED")


def test_cancel_means_never_although_others_move_it(make_timer, clock):
    """R3: once cancel has returned True, no concurrent reschedule brings the task back."""
    timer = make_timer(tick=1.0, executor="inline", clock=clock, start=False)
    for _ in range(300):
        fired = []
        task = timer.schedule(5.0, fired.append, 1)

        def move(task=task):
            for n in range(20):
                task.reschedule(n % 9 + 1)

        run_together(task.cancel, move, task.cancel)
        assert task.state == "CANCELLED"
        assert len(timer) == 0
        clock.advance(20.0)
        timer.advance_clock()
        assert fired == []
    timer._check()


def test_only_one_timer_gets_a_task(tw, make_timer, clock):
    """`add` of one task to several timers at once: one has it, the others raise RuntimeError."""
    timers = [make_timer(tick=1.0, executor="inline", clock=clock, start=False) for _ in range(3)]
    for _ in range(300):
        task = tw.TimerTask(5.0)
        refused = []

        def add(timer, task=task, refused=refused):
            try:
                timer.add(task)
            except RuntimeError:
                refused.append(timer)

        run_together(*(lambda timer=timer: add(timer) for timer in timers))
        assert len(refused) == 2
        assert sum(map(len, timers)) == 1
        assert task.cancel() is True
    for timer in timers:
        timer._check()


def test_no_thread_gets_past_max_pending(tw, make_timer, clock):
    """`max_pending` is exact, however many threads ask for the last place."""
    timer = make_timer(tick=1.0, clock=clock, start=False, max_pending=100)
    for _ in range(20):
        accepted, refused = [], []

        def schedule(accepted=accepted, refused=refused):
            for _ in range(60):
                try:
                    accepted.append(timer.schedule(5.0, list))
                except tw.TooManyPending:
                    refused.append(1)

        run_together(schedule, schedule, schedule)
        assert (len(accepted), len(refused), len(timer)) == (100, 80, 100)
        for task in accepted:
            task.cancel()


def test_close_races_schedule(make_timer, rng):
    """R9: every task that `schedule` accepted is fired or returned; the others were refused."""
    for _ in range(20):
        timer = make_timer(tick=0.001)
        accepted, fired, returned = [], [], []

        def schedule(seed, timer=timer, accepted=accepted, fired=fired):
            delays = random.Random(seed)
            with contextlib.suppress(RuntimeError):
                for _ in range(100_000):
                    accepted.append(timer.schedule(delays.choice((0, 0.001, 9.0)), fired.append, 1))

        def close(timer=timer, returned=returned, accepted=accepted):
            while len(accepted) < 200:
                pass
            returned.extend(timer.close())

        run_together(lambda s=rng.random(): schedule(s), lambda s=rng.random(): schedule(s), close)
        states = collections.Counter(str(task.state) for task in accepted)
        assert states["IDLE"] == len(returned)
        assert states["FIRED"] == len(fired)
        assert len(accepted) == len(returned) + len(fired)


def test_close_races_reschedule(make_timer):
    """R9: a task that is moved while the timer closes is fired or returned, and never lost between."""
    for _ in range(20):
        timer = make_timer(executor="inline")
        tasks = [timer.schedule(1.0 + n / 1000, int) for n in range(1000)]
        returned = []

        def move(tasks=tasks):
            for task in tasks:
                task.reschedule(0)

        run_together(move, lambda timer=timer, returned=returned: returned.extend(timer.close()))
        states = collections.Counter(str(task.state) for task in tasks)
        assert states["IDLE"] == len(returned)
        assert states["FIRED"] == len(tasks) - len(returned)


def test_waiting_by_hand_races_schedule(make_timer):
    """R3: each task runs once while one thread waits, time and again, and others make it wake."""
    timer = make_timer(tick=1e-4, executor="inline", start=False)
    fired = []

    def schedule():
        for _ in range(2000):
            timer.schedule(1e-4, fired.append, 1)

    def turn():
        while len(fired) < 4000:
            timer.advance_clock(2e-4)

    run_together(turn, schedule, schedule)
    assert len(fired) == 4000
    assert len(timer) == 0


def test_handles_are_read_while_they_are_cancelled(make_timer, clock):
    """R10: a reader gets the callback and the arguments, or what is there when they were let go."""
    timer = make_timer(executor="inline", clock=clock, start=False)
    handles = [timer.schedule(5.0, list)]
    over = threading.Event()

    def churn():
        for number in range(5000):
            handles[0] = timer.schedule(5.0, lambda: None, number)
            handles[0].cancel()
        over.set()

    def read():
        while not over.is_set():
            callback, args = handles[0].callback, handles[0].args
            assert callback is None or callable(callback)
            assert args is None or len(args) <= 1

    run_together(churn, read, read)


def test_submit_and_close_leave_no_future_undone(make_timer, rng):
    """R9: whoever waits for a future is told, however close and submit race."""
    for _ in range(10):
        timer = make_timer(tick=0.001)
        futures = []

        def submit(timer=timer, futures=futures):
            with contextlib.suppress(RuntimeError):
                for n in range(100_000):
                    futures.append(timer.submit((0, 0.001, 9.0)[n % 3], pow, 2, 3))

        def close(timer=timer, futures=futures):
            while len(futures) < 200:
                pass
            timer.close()

        run_together(submit, submit, close)
        done, undone = concurrent.futures.wait(futures, timeout=WAIT)
        assert not undone
        assert all(future.cancelled() or future.result() == 8 for future in done)


def test_threads_hammer_a_wheel(tw, rng):
    """A `TimingWheel` is one thing for many threads too."""
    wheel = tw.TimingWheel(4)
    made = [[], [], []]
    over = threading.Event()

    def hammer(seed, mine):
        numbers = random.Random(seed)
        for _ in range(3000):
            task = tw.TimerTask(0)
            mine.append(task)
            while not wheel.add(task, wheel.current_tick + numbers.randrange(1, 200)):
                pass
            other = numbers.choice(mine)
            if numbers.random() < 0.4:
                if other.cancel():
                    cancelled.append(other)
            else:
                wheel.reschedule(other, wheel.current_tick + numbers.randrange(300))

    def turn():
        while not over.is_set():
            fired.extend(wheel.advance(wheel.current_tick + 1, 50))
            wheel._check()

    cancelled, fired = [], []
    turner = threading.Thread(target=turn)
    turner.start()
    try:
        run_together(*(lambda s=rng.random(), mine=mine: hammer(s, mine) for mine in made))
    finally:
        over.set()
        turner.join(WAIT)
    fired.extend(wheel.advance(wheel.current_tick + 1000))
    wheel._check()
    assert len(wheel) == 0
    ends = collections.Counter(id(task) for task in itertools.chain(cancelled, fired))
    assert set(ends.values()) == {1}
    assert len(ends) == 9000


def test_readers_see_whole_numbers_meanwhile(make_timer, rng):
    """`stats`, `len`, `repr` and the handle's attributes are consistent while others work."""
    timer = make_timer(tick=0.001, wheel_size=8)
    account, shared = Account(timer), []
    sums = set()

    def read():
        for _ in range(1000):
            stats = timer.stats()
            sums.add(stats.scheduled - stats.fired - stats.cancelled - stats.pending)
            assert 0 <= len(timer) <= stats.scheduled + 4000
            for _, task in shared[-3:]:
                repr(task)
                assert task.when > 0

    run_together(read, *(lambda s=rng.random(): account.hammer(s, 2000, shared=shared) for _ in range(2)))
    assert sums == {0}
    account.settle()
