"""The pipeline: consumers that wrap consumers, around a stream of events."""

import threading
from collections import defaultdict
from dataclasses import dataclass
from uuid import UUID

import pytest

from tickwheel import ManualClock, Timer, TooManyPending
from tickwheel.recipes.pipeline import Event, IgnoreDuplicates, KeyedPool, Stage, pipeline


class ListStream:
    """Pushes the events of a list."""

    def __init__(self, events):
        self.events = events

    def consume(self, consumer):
        for event in self.events:
            consumer.consume(event)


class Recorder:
    """Remembers what it consumed, by client; fails for the uuids in `bad`."""

    def __init__(self, bad=()):
        self.bad = set(bad)
        self.seen = defaultdict(list)
        self.closed = 0

    def consume(self, event):
        assert not self.closed
        self.seen[event.client_id].append(event.uuid.int)
        if event.uuid.int in self.bad:
            raise LookupError(f"on purpose, {event.uuid.int}")
        return event

    def close(self):
        self.closed += 1


class Gate(Recorder):
    """Holds each worker until it is opened."""

    def __init__(self, bad=()):
        super().__init__(bad)
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()

    def consume(self, event):
        self.entered.release()
        assert self.open.wait(60)
        return super().consume(event)


def event(number, client_id="a", created=0.0):
    return Event(created, client_id, UUID(int=number))


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def timer(clock):
    with Timer(clock=clock, executor="inline", start=False) as timer:
        yield timer


def test_an_event_passes_the_whole_chain(timer):
    """Stages compose by hand as in `pipeline`, and `consume` returns the event it was given."""
    consumer = Recorder()
    sent = event(1)
    with IgnoreDuplicates(KeyedPool(consumer, 2), 10.0, timer=timer) as outermost:
        assert outermost.consume(sent) is sent
        assert outermost.consume(sent) is sent
    assert consumer.seen == {"a": [1]}


def test_a_stream_in_order(timer):
    """Without a pool all is done on the stream's thread, in the stream's order."""
    consumer = Recorder()
    with IgnoreDuplicates(consumer, 10.0, timer=timer) as unique:
        ListStream([event(n) for n in (3, 1, 3, 2, 1)]).consume(unique)
        assert unique.duplicates == 2
        assert unique.cache_size == 3
    assert consumer.seen == {"a": [3, 1, 2]}


def test_a_duplicate_counts_within_the_window_only(timer, clock):
    """The window runs from the event that passed, and is half-open."""
    consumer = Recorder()
    with IgnoreDuplicates(consumer, 10.0, timer=timer) as unique:
        for step in (0.0, 9.5, 0.5, 9.5):
            clock.advance(step)
            timer.advance_clock()
            unique.consume(event(1))
        assert unique.duplicates == 2
    assert consumer.seen == {"a": [1, 1]}


def test_what_is_refused_may_come_again(timer):
    """An event that downstream did not accept was not seen: the stream hears of it, and delivers it again."""
    consumer = Recorder(bad=[1])
    with IgnoreDuplicates(consumer, 10.0, timer=timer) as unique:
        with pytest.raises(LookupError, match="on purpose, 1"):
            unique.consume(event(1))
        consumer.bad.clear()
        unique.consume(event(1))
        assert unique.duplicates == 0
    assert consumer.seen == {"a": [1, 1]}


def test_failures_touch_no_other_event(timer, caplog):
    """G1: each is logged and counted, and the events of every client keep their order."""
    consumer = Recorder(bad=range(0, 60, 4))
    with pipeline(consumer, workers=3, timer=timer) as outermost:
        ListStream([event(n, client_id=n % 5) for n in range(60)]).consume(outermost)
    assert consumer.seen == {client: list(range(client, 60, 5)) for client in range(5)}
    assert outermost.downstream.failures == 15
    assert [record.exc_info[0] for record in caplog.records] == [LookupError] * 15
    assert "on purpose, 56" in caplog.text


@pytest.mark.parametrize("error", [LookupError, SystemExit, KeyboardInterrupt])
def test_on_error(error, caplog):
    """It is given event and error, whatever was raised; what it raises itself is logged, stopping nothing."""
    heard = []

    class Failing:
        def consume(self, event):
            raise error("on purpose")

    def on_error(event, error):
        heard.append((event.uuid.int, type(error)))
        raise ArithmeticError("on_error itself")

    with KeyedPool(Failing(), 1, on_error=on_error) as pool:
        ListStream([event(1), event(2)]).consume(pool)
    assert heard == [(1, error), (2, error)]
    assert pool.failures == 2
    assert caplog.text.count("on_error raised, called for Event(") == 2


@pytest.mark.parametrize("retry_failed", [False, True])
def test_a_failed_event_that_is_delivered_again(timer, retry_failed):
    """It is a duplicate like any other, or processed again where that was asked for."""
    consumer = Recorder(bad=[1])
    failed = threading.Event()

    class Last(Stage):
        def consume(self, event):
            if event.uuid.int == 2:  # behind event 1, whose failure has been handled
                failed.set()
            return super().consume(event)

    with pipeline(Last(consumer), workers=1, retry_failed=retry_failed, timer=timer) as outermost:
        ListStream([event(1), event(2)]).consume(outermost)
        assert failed.wait(60)
        consumer.bad.clear()
        outermost.consume(event(1))
    assert consumer.seen == {"a": [1, 2, 1] if retry_failed else [1, 2]}
    assert outermost.duplicates == (0 if retry_failed else 1)
    assert outermost.downstream.failures == 1


def test_a_full_pool_refuses_and_changes_nothing(timer):
    """on_full="raise": the stream gets TooManyPending, and the event may be delivered again."""
    consumer = Gate()
    pool = KeyedPool(consumer, 1, max_pending=1, on_full="raise")
    with IgnoreDuplicates(pool, 10.0, timer=timer) as unique:
        unique.consume(event(1))
        assert consumer.entered.acquire(timeout=60)
        unique.consume(event(2))
        assert pool.queue_length == 1
        with pytest.raises(TooManyPending):
            unique.consume(event(3))
        assert (unique.cache_size, unique.duplicates) == (2, 0)
        consumer.open.set()
    assert consumer.seen == {"a": [1, 2]}


def test_an_unhashable_client(timer):
    """The stream is told, the event is not remembered, and the others are processed."""
    consumer = Recorder()
    with pipeline(consumer, workers=2, timer=timer) as outermost:
        with pytest.raises(TypeError, match=r"key must be hashable, got \[\]"):
            outermost.consume(event(1, client_id=[]))
        outermost.consume(event(1, client_id="b"))
    assert consumer.seen == {"b": [1]}


def test_close_processes_what_waits_and_then_closes_the_consumer(timer):
    """The outermost stage closes the chain, outside in, and any number of times."""
    consumer = Gate()
    outermost = pipeline(consumer, workers=2, timer=timer)
    ListStream([event(n, client_id=n % 3) for n in range(30)]).consume(outermost)
    consumer.open.set()
    outermost.close()
    assert consumer.closed == 1
    assert sum(map(len, consumer.seen.values())) == 30
    with pytest.raises(RuntimeError):
        outermost.consume(event(99))
    outermost.close()
    assert consumer.closed == 1
    assert not timer.close(), "the timer that it was given had nothing left to do"


def test_a_consumer_that_cannot_be_closed(no_thread_left):
    """What it raises comes out of `close`, and nothing of the chain stays behind."""

    class Stuck(Recorder):
        def close(self):
            raise OSError("disk full")

    outermost = pipeline(Stuck(), workers=2)
    outermost.consume(event(1))
    with pytest.raises(OSError, match="disk full"):
        outermost.close()
    outermost.close()


def test_an_event_may_be_forgotten_until_the_pool_is_empty(timer):
    """The ids are given up last, since what fails on the way out may still be forgotten."""

    class Forgetful(Recorder):
        def close(self):
            super().close()
            unique.forget(event(1))

    consumer = Forgetful()
    unique = IgnoreDuplicates(consumer, 10.0, timer=timer)
    unique.consume(event(1))
    unique.close()
    assert consumer.closed == 1


def test_a_consumer_needs_no_close(timer):
    """What cannot be closed is left alone."""

    class Plain:
        def consume(self, event):
            return event

    pipeline(Plain(), workers=1, timer=timer).close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": 0}, "workers must be >= 1, got 0"),
        ({"workers": 2, "window": 0.0}, r"window must be > 0.*, got 0\.0"),
        ({"workers": 2, "window": -1.0}, r"window must be > 0.*, got -1\.0"),
        ({"workers": 2, "max_pending": 0}, "max_pending must be >= 1, got 0"),
    ],
)
def test_bad_arguments(arguments, message):
    """They are named, with the rule and the value."""
    with pytest.raises(ValueError, match=message):
        pipeline(Recorder(), **arguments)


def test_events_of_your_own():
    """A subclass of Event carries what it likes, and the chain hands it through."""

    @dataclass(frozen=True, slots=True)
    class Order(Event):
        amount: int

    consumed = []

    class Books:
        def consume(self, order):
            consumed.append(order.amount)
            return order

    with pipeline(Books(), workers=1) as outermost:
        outermost.consume(Order(0.0, "a", UUID(int=1), amount=17))
    assert consumed == [17]


def test_many_threads(rng):
    """2,000 events, some twice, from four streams: each once, in its client's order and one at a time."""
    events = [event(n, client_id=n % 40) for n in range(2000)]
    streams = [[each for each in events if each.client_id % 4 == part] for part in range(4)]
    for part in streams:
        for each in rng.sample(part, 50):  # somewhere behind the first
            part.insert(rng.randrange(part.index(each) + 1, len(part) + 1), each)
    active = set()

    class Referee(Recorder):
        def consume(self, event):
            assert event.client_id not in active
            active.add(event.client_id)
            try:
                return super().consume(event)
            finally:
                active.remove(event.client_id)

    consumer = Referee()
    with pipeline(consumer, workers=8, max_pending=100) as outermost:
        threads = [threading.Thread(target=ListStream(part).consume, args=[outermost]) for part in streams]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert consumer.seen == {client: list(range(client, 2000, 40)) for client in range(40)}
    assert outermost.duplicates == 200
    assert outermost.downstream.failures == 0
