"""A full KeyedExecutor: submit waits its turn, or is refused, and nobody waits for himself."""

import signal
import sys
import threading
import time

import pytest

from tickwheel import TooManyPending
from tickwheel.recipes.keyed import KeyedExecutor


class Shop:
    """An executor whose calls wait for a step each, and threads that submit to it."""

    def __init__(self, **options):
        self.executor = KeyedExecutor(1, **options)
        self.ran = []
        self.errors = []
        self.steps = threading.Semaphore(0)
        self.threads = []

    def work(self, name):
        assert self.steps.acquire(timeout=60)
        self.ran.append(name)

    def submit(self, key, name):
        return self.executor.submit(key, self.work, name)

    def submit_in_thread(self, key, name):
        """Returns when it waits for room."""

        def submit():
            try:
                self.submit(key, name)
            except RuntimeError as error:
                self.errors.append((name, type(error), str(error)))

        blocked = self.executor.stats().blocked
        thread = threading.Thread(target=submit)
        thread.start()
        self.threads.append(thread)
        until(lambda: self.executor.stats().blocked == blocked + 1)
        return thread

    def step(self, count=1):
        """Let so many calls end; returns when they have."""
        target = len(self.ran) + count
        self.steps.release(count)
        until(lambda: len(self.ran) == target)

    def close(self):
        self.steps.release(10_000)
        self.executor.shutdown()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()
        assert not self.executor._crew._lines, "no key is kept"


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.0005)


@pytest.fixture
def open_shop():
    shops = []

    def make(**options):
        shops.append(Shop(**options))
        return shops[-1]

    yield make
    for shop in shops:
        shop.close()


@pytest.fixture
def full(open_shop):
    """One call runs, and two wait: no more may."""

    def make(**options):
        shop = open_shop(max_pending=2, **options)
        shop.submit("a", "a0")
        until(lambda: shop.executor.stats().running == 1)
        shop.submit("a", "a1")
        shop.submit("b", "b0")
        return shop

    return make


def test_a_full_executor_refuses_where_asked(full):
    """F3: TooManyPending, one line, and nothing has changed."""
    shop = full(on_full="raise")
    before = shop.executor.stats()
    for key in ("a", "b", "new"):
        with pytest.raises(TooManyPending, match=r"^max_pending is 2, 2 calls wait$"):
            shop.submit(key, "refused")
    assert shop.executor.stats() == before
    shop.step()
    until(lambda: len(shop.executor) == 1)
    shop.submit("new", "taken")
    shop.steps.release(3)
    until(lambda: len(shop.ran) == 4)
    assert shop.ran == ["a0", "a1", "b0", "taken"]


def test_a_full_key_refuses_and_others_do_not(open_shop):
    """F3: max_pending_per_key bounds what waits of one key."""
    shop = open_shop(max_pending_per_key=1, on_full="raise")
    shop.submit("a", "a0")
    until(lambda: shop.executor.stats().running == 1)
    shop.submit("a", "a1")
    with pytest.raises(TooManyPending, match=r"^max_pending_per_key is 1, 1 calls of it wait$"):
        shop.submit("a", "refused")
    shop.submit("b", "b0")
    shop.step(3)
    assert shop.ran == ["a0", "a1", "b0"]


def test_submit_waits_for_room_first_come_first_served(full):
    """F3: each call that starts lets one in, in the order in which they came; new ones come behind."""
    shop = full()
    for name in (0, 1, 2, 3):
        shop.submit_in_thread(f"new {name}", name)
    for name in (0, 1, 2, 3, "late"):
        blocked = shop.executor.stats().blocked
        shop.step()
        until(lambda blocked=blocked: shop.executor.stats().blocked == blocked - 1)
        assert len(shop.executor) == 2
        shop.threads.pop(0).join(60)
        if name == 0:
            shop.submit_in_thread("late", "late")
        assert len(shop.threads) == shop.executor.stats().blocked
        assert all(thread.is_alive() for thread in shop.threads)
    shop.step(3)
    assert shop.ran == ["a0", "a1", "b0", 0, 1, 2, 3, "late"]


def test_who_waits_for_room_in_a_key_holds_up_nobody_else(open_shop):
    """A submit for a key with room passes those that wait for a full one, and takes nothing from them."""
    shop = open_shop(max_pending=3, max_pending_per_key=1)
    shop.submit("a", "a0")
    until(lambda: shop.executor.stats().running == 1)
    shop.submit("a", "a1")
    shop.submit_in_thread("a", "a2")
    shop.submit_in_thread("a", "a3")
    shop.submit("b", "b0")
    shop.submit("c", "c0")
    shop.submit_in_thread("d", "d0")
    shop.step()  # room for one, and for one of "a": they were first
    until(lambda: shop.executor.stats().blocked == 2)
    shop.threads[0].join(60)
    shop.step(7 - 1)
    assert sorted(shop.ran) == ["a0", "a1", "a2", "a3", "b0", "c0", "d0"]
    assert [name for name in shop.ran if name[0] == "a"] == ["a0", "a1", "a2", "a3"]


def test_a_key_that_somebody_waits_for_stays_one_line(open_shop):
    """F1: also where its last call ends while a submit of it waits for room among all."""
    shop = open_shop(max_pending=1)
    shop.submit("a", "a0")
    until(lambda: shop.executor.stats().running == 1)
    shop.submit("b", "b0")
    shop.submit_in_thread("a", "a1")
    shop.step(2)
    until(lambda: shop.executor.stats()[:2] == (0, 1))
    shop.submit("a", "a2")
    assert shop.executor.stats().keys == 1
    shop.step(2)
    assert shop.ran == ["a0", "b0", "a1", "a2"]


@pytest.mark.parametrize("cancel", [False, True])
def test_shutdown_wakes_who_waits_for_room(full, cancel):
    """RuntimeError, and their calls are not taken; what was in is done, or cancelled."""
    shop = full()
    for name in ("x", "y"):
        shop.submit_in_thread(name, name)
    shop.executor.shutdown(wait=False, cancel_futures=cancel)
    for thread in shop.threads:
        thread.join(60)
    assert sorted(shop.errors) == [(name, RuntimeError, "the executor is shut down") for name in ("x", "y")]
    shop.close()
    assert shop.ran == (["a0"] if cancel else ["a0", "a1", "b0"])
    assert shop.executor.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_worker_is_never_made_to_wait_for_room(full):
    """F3: TooManyPending instead of a deadlock, whatever `on_full` says."""
    shop = full()

    def greedy():
        while True:
            shop.executor.submit("mine", str)

    shop.step(3)
    future = shop.executor.submit("a", greedy)
    assert isinstance(future.exception(60), TooManyPending)


class Interrupt(BaseException):
    pass


@pytest.fixture
def interrupt():
    """Runs what it is given in the main thread, as a signal's handler, once a condition holds."""
    threads = []

    def when(condition, handler):
        def send():
            until(condition)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

        signal.signal(signal.SIGUSR1, lambda *_: handler())
        threads.append(threading.Thread(target=send))
        threads[-1].start()

    before = signal.getsignal(signal.SIGUSR1)
    yield when
    for thread in threads:
        thread.join(60)
    signal.signal(signal.SIGUSR1, before)


unix = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals between threads here")
# On a busy machine its main thread may wait on for a lock, of whomever, however many signals come.
signals_interrupt = pytest.mark.skipif(
    sys.version_info < (3, 14) and not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="CPython 3.13t may leave a signal unhandled while it waits for a lock",
)


@unix
@signals_interrupt
def test_an_interrupted_submit_leaves_no_place_taken(full, interrupt):
    """What a signal's handler raises comes out of submit; its call is not taken, and the others' places
    are what they were."""
    shop = full()

    def handler():
        raise Interrupt

    before = shop.executor.stats()
    interrupt(lambda: shop.executor.stats().blocked == 1, handler)
    with pytest.raises(Interrupt):
        shop.submit("new", "interrupted")
    assert shop.executor.stats() == before
    shop.step()
    until(lambda: len(shop.executor) == 1)
    shop.submit("new", "again")
    shop.step(3)
    assert shop.ran == ["a0", "a1", "b0", "again"]


@unix
@signals_interrupt
def test_a_submit_that_is_interrupted_too_late_is_cancelled(full, interrupt):
    """It has been let in, but nobody gets its future: it does not run."""
    shop = full()

    def handler():
        shop.step()
        until(lambda: shop.executor.stats().blocked == 0)
        raise Interrupt

    interrupt(lambda: shop.executor.stats().blocked == 1, handler)
    with pytest.raises(Interrupt):
        shop.submit("new", "interrupted")
    shop.step(2)
    until(lambda: shop.executor.stats().keys == 0)
    assert shop.executor.stats().cancelled == 1
    assert shop.ran == ["a0", "a1", "b0"]


def test_who_interrupts_the_executor_itself_is_not_made_to_wait(full):
    """A key's `__eq__`, a destructor and a signal handler may run inside of submit: nobody else would get
    on if they waited there."""
    shop = full()
    caught = []

    class Key:
        def __hash__(self):
            return hash("b")

        def __eq__(self, other):
            try:
                shop.submit("new", "nested")
            except TooManyPending as error:
                caught.append(str(error))
            return False

    thread = threading.Thread(target=lambda: shop.submit(Key(), "key"))
    thread.start()
    until(lambda: caught)
    assert set(caught) == {"max_pending is 2, 2 calls wait"}
    shop.step(4)
    thread.join(60)
    assert shop.ran == ["a0", "a1", "b0", "key"]


def test_cancelled_calls_give_their_places_back_at_their_turn(full):
    """A cancelled call is passed over, and the submit that waits is let in."""
    shop = full(on_full="wait")
    shop.step(3)
    until(lambda: shop.executor.stats().keys == 0)
    shop.submit("a", "a2")
    until(lambda: shop.executor.stats().running == 1)
    futures = [shop.submit("a", name) for name in ("x", "y")]
    shop.submit_in_thread("b", "b1")
    assert all(future.cancel() for future in futures)
    assert shop.executor.stats().blocked == 1
    shop.step(2)
    assert shop.ran[3:] == ["a2", "b1"]
    assert shop.executor.stats().cancelled == 2
