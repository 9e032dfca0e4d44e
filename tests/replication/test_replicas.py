"""The manager: what requests are answered with, when, by whom, and what is left of them."""

import os
import pathlib
import sys
import threading

import pytest
from batchmaker import batch
from witness import Witness, contents

from tickwheel.clock import ManualClock
from tickwheel.replication import partition as partitions
from tickwheel.replication.errors import (
    InvalidRequiredAcks,
    InvalidTopic,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    RequestTimedOut,
    StorageError,
    TopicExists,
    UnknownTopicOrPartition,
)
from tickwheel.replication.follower import Copying, Follower
from tickwheel.replication.guard import Guard
from tickwheel.replication.log import Log
from tickwheel.replication.operations import DelayedFetch, DelayedProduce
from tickwheel.replication.partition import Appended, TopicPartition
from tickwheel.replication.replicas import From, ReplicaManager
from tickwheel.timer import Timer

ONE, TWO = (TopicPartition("events", number) for number in range(2))
NONE = TopicPartition("none", 0)


class Room:
    """A manager whose clock and followers go by hand."""

    def __init__(self, folder, *, max_pending=None, **arguments):
        self.folder, self.arguments = folder, {"replicas": 2, **arguments}
        self.clock = ManualClock()
        self.timer = Timer(clock=self.clock, executor="inline", start=False, max_pending=max_pending)
        self.open()
        self.manager.create_topic("events", 2)

    def open(self):
        self.manager = ReplicaManager(self.folder, timer=self.timer, **self.arguments)

    def reopen(self):
        self.manager.close()
        self.open()

    def advance(self, seconds):
        self.clock.advance(seconds)
        self.timer.advance_clock()

    def append(self, *names, acks=-1, timeout=1.0, data=None):
        answers = []
        self.manager.append(dict.fromkeys(names, data or batch(b"value")), acks, timeout, answers.append)
        return answers

    def fetch(self, positions, **more):
        answers = []
        self.manager.fetch(
            {name: at if isinstance(at, From) else From(at, 1 << 20) for name, at in positions.items()},
            done=answers.append,
            **more,
        )
        return answers

    def copy(self, id=1):
        """A follower gets what there is, and says so."""
        for _ in range(2):
            answers = []
            Copying(self.manager, id).ask(answers.append)
            self.advance(1.0 if not answers else 0.0)
            Copying(self.manager, id).take(answers[0])


@pytest.fixture
def make(tmp_path):
    rooms = []

    def make(**arguments):
        rooms.append(Room(tmp_path, **arguments))
        return rooms[-1]

    yield make
    for room in rooms:
        room.manager.close()
        room.timer.close()


@pytest.mark.parametrize(
    ("argument", "value", "rule"),
    [
        ("replicas", 0, "must be between 1 and 100"),
        ("min_isr", 0, r"must be between 1 and replicas \(3\)"),
        ("min_isr", 4, r"must be between 1 and replicas \(3\)"),
        ("lag_max", 0.0, "must be >= 0.001 s and finite"),
        ("lag_max", 1e-9, "must be >= 0.001 s and finite"),
        ("lag_max", float("inf"), "must be >= 0.001 s and finite"),
        ("segment_bytes", 0, "must be >= 1"),
    ],
)
def test_a_bad_argument_is_named(tmp_path, argument, value, rule):
    """ValueError with the argument, the rule and the value seen; nothing is on disk then."""
    with pytest.raises(ValueError, match=f"{argument} {rule}, got {value}"):
        ReplicaManager(tmp_path, **{argument: value})
    assert list(tmp_path.iterdir()) == []


# Topics


def test_other_files_are_left_alone(make):
    """Whatever somebody has put beside ours."""
    room = make()
    room.append(ONE)
    strays = [room.folder / "replica-0/events-0/0backup.log", room.folder / "topics/events/0x.json"]
    for stray in strays:
        stray.touch()
    room.reopen()
    assert list(room.manager.topics()) == ["events"]
    room.copy()
    assert room.manager.partition(ONE).high_watermark == 1
    assert all(stray.exists() for stray in strays)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds names in /proc")
@pytest.mark.parametrize("flush", [True, False])
def test_what_is_flushed_is_found_after_a_loss_of_power(tmp_path, monkeypatch, flush):
    """`flush`: each file, and the name of each file and folder, up to the folder that was there before."""
    names, written = {}, {}  # of a folder: what was in it when it was flushed; of a file: its size then
    fsync = os.fsync

    def note(descriptor):
        fsync(descriptor)
        path = pathlib.Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            names[path] = set(path.iterdir())
        else:
            written[path] = path.stat().st_size

    monkeypatch.setattr(os, "fsync", note)
    data = tmp_path / "all" / "of it"
    with ReplicaManager(data, replicas=2, flush=flush) as manager:
        manager.create_topic("events", 1)
        answers = []
        manager.append({ONE: batch(b"value")}, 1, 1.0, answers.append)
        assert isinstance(answers[0][ONE], Appended)
    if not flush:
        assert names == written == {}
        return
    entries = [data.parent, data, *data.rglob("*")]
    assert len(entries) == 11
    for path in entries:
        assert path in names[path.parent], path
    full = [path for path in entries if path.suffix == ".log" and path.stat().st_size]
    assert [written[path] for path in full] == [len(batch(b"value"))]
    assert [path.name for path in written if path.suffix == ".part"], "the state, under its first name"


def test_a_read_that_fails_is_answered(make, monkeypatch, caplog):
    """No memory, say: who fetches is told, at once and after a wait; a follower asks again."""
    room = make()
    room.append(ONE)
    waits = room.fetch({ONE: 1})
    with monkeypatch.context() as patch:

        def fail(*args, **more):
            raise MemoryError

        patch.setattr(Log, "read", fail)
        room.copy()
        (at_once,) = room.fetch({ONE: 0})
        assert isinstance(at_once[ONE], StorageError)
        room.advance(1.0)
        assert isinstance(waits[0][ONE], StorageError)
    assert "could not be read" in caplog.text
    room.advance(1.0)
    room.copy()
    assert room.manager.partition(ONE).high_watermark == 1


def test_topics_are_there_again(make):
    """With their partitions, from what is on disk; what a killed process had not finished is swept away."""
    room = make()
    room.manager.create_topic("a-1.b_c", 12)
    unfinished = room.folder / "topics" / "events" / ".0.json.0123abcd.part"
    unfinished.write_text("{")
    (room.folder / "topics" / "just-a-folder").mkdir()
    room.reopen()
    assert {topic: len(them) for topic, them in room.manager.topics().items()} == {"a-1.b_c": 12, "events": 2}
    assert not unfinished.exists()


def test_a_topic_that_was_half_made_is_whole(make):
    """A process that is killed while it makes a topic leaves all of its partitions, or none."""
    room = make()
    room.manager.create_topic("half", 5)
    for number in range(4):
        (room.folder / "topics" / "half" / f"{number}.json").unlink()
    room.reopen()
    assert len(room.manager.topics()["half"]) == 5


def test_too_few_replicas_are_refused_and_change_nothing(make):
    """P2: where none of those in sync is asked for, nobody leads; who asks for them later finds them."""
    room = make()
    room.append(ONE)
    room.copy()
    room.manager.lose(0)
    room.manager.close()
    with pytest.raises(ValueError, match=r"replicas must be >= 2, as of events-1 only \(1,\) .*, got 1"):
        ReplicaManager(room.folder, replicas=1, timer=room.timer)
    room.open()
    partition = room.manager.partition(ONE)
    assert (partition.leader, partition.isr, partition.end_offset) == (1, (1,), 1)


def test_who_falls_behind_as_the_log_is_closed_is_let_be(make, monkeypatch):
    """The look at who has fallen behind may be under way when all is closed: it ends, without an error."""
    room = make()
    names = list(room.manager._topics)

    def closed_meanwhile():
        yield names[0]
        room.manager.close()
        yield from names[1:]

    monkeypatch.setattr(type(room.manager._topics), "__iter__", lambda _: closed_meanwhile())
    room.manager.shrink()


def test_a_topic_that_cannot_be_made_leaves_nothing(make, monkeypatch):
    """StorageError, and it can be made later."""
    room = make()
    with monkeypatch.context() as patch:
        patch.setattr("tickwheel.replication.state.whole_text", _refuse)
        with pytest.raises(StorageError, match="Too many open files"):
            room.manager.create_topic("more", 3)
    assert "more" not in room.manager.topics()
    room.reopen()
    assert "more" not in room.manager.topics()
    room.manager.create_topic("more", 3)


def _refuse(*_):
    raise OSError(24, "Too many open files")


def test_bad_topics_are_refused(make):
    """By name, by number of partitions, and those that are there."""
    room = make()
    for topic in ("", ".", "..", "a/b", "ä", "x" * 250):
        with pytest.raises(InvalidTopic, match="topic must be 1 to 249 of"):
            room.manager.create_topic(topic, 1)
    for number in (0, 10_001):
        with pytest.raises(ValueError, match=f"partitions must be between 1 and 10000, got {number}"):
            room.manager.create_topic("more", number)
    with pytest.raises(TopicExists, match="topic must be new, got 'events'"):
        room.manager.create_topic("events", 1)


# Produces


def test_acks_all_waits_for_who_is_in_sync(make):
    """One answer, when the followers have fetched behind the records of all partitions."""
    room = make()
    answers = room.append(ONE, TWO)
    assert answers == []
    room.copy()
    (answer,) = answers
    assert {name: (appended.base_offset, appended.end_offset) for name, appended in answer.items()} == {
        ONE: (0, 1),
        TWO: (0, 1),
    }


@pytest.mark.parametrize("acks", [0, 1])
def test_acks_0_and_1_wait_for_nobody(make, acks):
    """They are answered in the call, whoever is in sync."""
    room = make(min_isr=2)
    room.manager.lose(1)
    assert room.append(ONE, acks=acks)[0][ONE].end_offset == 1


def test_each_partition_is_answered_by_itself(make):
    """One that is unknown, or has bytes that are no batch, does not stop the others."""
    room = make()
    answers = []
    room.manager.append({NONE: batch(b"a"), ONE: b"rubbish", TWO: batch(b"b")}, 1, 1.0, answers.append)
    assert isinstance(answers[0][NONE], UnknownTopicOrPartition)
    assert "a batch must have 61 bytes at least, got 7" in str(answers[0][ONE])
    assert answers[0][TWO].end_offset == 1
    assert isinstance(room.append(NONE)[0][NONE], UnknownTopicOrPartition), (
        "acks=all, with nothing to wait for"
    )


def test_other_acks_are_refused(make):
    """Nothing is appended then."""
    room = make()
    (answer,) = room.append(ONE, acks=2)
    assert isinstance(answer[ONE], InvalidRequiredAcks)
    assert room.manager.partition(ONE).end_offset == 0


@pytest.mark.parametrize("seconds", [float("nan"), float("inf")])
def test_an_endless_wait_is_refused_before_anything_is_done(make, seconds):
    """ValueError that names the argument; nothing was appended."""
    room = make()
    with pytest.raises(ValueError, match=f"timeout must be finite, got {seconds}"):
        room.append(ONE, timeout=seconds)
    assert room.manager.partition(ONE).end_offset == 0
    with pytest.raises(ValueError, match=f"max_wait must be finite, got {seconds}"):
        room.fetch({ONE: 0}, max_wait=seconds)


def test_a_produce_in_time_and_one_out_of_time(make):
    """RequestTimedOut at the timeout; the records may be replicated later nevertheless."""
    room = make()
    answers = room.append(ONE, timeout=0.5)
    room.advance(0.499)
    assert answers == []
    room.advance(0.001)
    assert isinstance(answers[0][ONE], RequestTimedOut)
    room.copy()
    assert room.manager.partition(ONE).high_watermark == 1
    assert len(answers) == 1


def test_a_leader_that_moves_answers_what_waits_on_it(make):
    """Produces and consumers' fetches on that partition, at once, and nobody else."""
    room = make()
    waiting = room.append(ONE), room.append(TWO)
    fetches = room.fetch({ONE: 0}, max_wait=9.0), room.fetch({TWO: 0}, max_wait=9.0)
    room.manager.lead(ONE, 1)
    assert isinstance(waiting[0][0][ONE], NotLeaderOrFollower)
    assert (len(fetches[0]), len(fetches[1]), len(waiting[1])) == (1, 0, 0)


def test_a_lost_follower_completes_what_waited_for_it(make):
    """P1: those that are left in sync have it; with too few of them it is said."""
    room = make()
    answers = room.append(ONE)
    fetched = room.fetch({ONE: 0}, max_wait=9.0)
    room.manager.lose(1)
    assert answers[0][ONE].end_offset == 1
    assert fetched[0][ONE].high_watermark == 1


def test_a_follower_that_falls_behind_completes_what_waited_for_it(make):
    """By itself: every half `lag_max` the manager looks who has fallen behind."""
    room = make(lag_max=10.0, min_isr=2)
    answers = room.append(ONE, timeout=100.0)
    room.advance(5.0)
    assert answers == []
    room.advance(5.0)
    assert "must have 2 replicas in sync, got 1" in str(answers[0][ONE])
    assert isinstance(room.append(ONE)[0][ONE], NotEnoughReplicas)
    room.copy()
    again = room.append(ONE, timeout=100.0)
    room.copy()
    assert again[0][ONE].end_offset == 2


def test_a_shrink_that_cannot_be_saved_is_said(make, monkeypatch, caplog):
    """P2: the replica stays in sync; the other partitions are looked at."""
    room = make(lag_max=10.0)
    room.append(ONE, TWO)
    with monkeypatch.context() as patch:
        patch.setattr("tickwheel.replication.state.whole_text", _refuse)
        room.advance(20.0)
    assert caplog.text.count("stays in sync: events-") >= 2
    assert room.manager.partition(ONE).isr == (0, 1)


# Fetches


def test_a_fetch_is_answered_at_once_with_enough(make):
    """With `min_bytes`, with an error, with no time or nothing to wait for."""
    room = make(replicas=1)
    room.append(ONE)
    size = len(batch(b"value"))
    assert len(room.fetch({ONE: 0}, min_bytes=size)) == 1
    assert room.fetch({ONE: 0}, min_bytes=size + 1) == []
    assert len(room.fetch({ONE: 1}, min_bytes=0)) == 1
    assert len(room.fetch({ONE: 1}, max_wait=0.0)) == 1
    assert len(room.fetch({ONE: 1, NONE: 0})) == 1
    assert isinstance(room.fetch({ONE: 2})[0][ONE], OffsetOutOfRange)
    assert room.fetch({}) == [{}]


def test_a_fetch_waits_for_min_bytes_over_its_partitions(make):
    """Then it reads all that there is."""
    room = make(replicas=1)
    size = len(batch(b"value"))
    fetched = room.fetch({ONE: 0, TWO: 0}, min_bytes=3 * size, max_wait=9.0)
    for name in (ONE, TWO):
        room.append(name)
        assert fetched == []
    room.append(TWO)
    assert [len(read.data) for read in fetched[0].values()] == [size, 2 * size]


def test_a_fetch_ends_at_its_deadline_with_what_there_is(make):
    """Not before."""
    room = make(replicas=1)
    room.append(ONE)
    fetched = room.fetch({ONE: 0}, min_bytes=10_000, max_wait=0.5)
    room.advance(0.499)
    assert fetched == []
    room.advance(0.001)
    assert len(fetched[0][ONE].data) == len(batch(b"value"))


def test_a_new_segment_ends_a_fetch(make):
    """What is read is of one segment: there will be no more of the old one."""
    size = len(batch(b"value"))
    room = make(replicas=1, segment_bytes=2 * size)
    room.append(ONE)
    fetched = room.fetch({ONE: 0}, min_bytes=10_000, max_wait=9.0)
    room.append(ONE)
    assert fetched == []
    room.append(ONE)
    assert len(fetched[0][ONE].data) == 2 * size


def test_the_first_batch_comes_however_large_it_is(make):
    """`max_bytes` hold but for the first batch of all: else nobody would get past it."""
    room = make(replicas=1)
    room.append(ONE, TWO)
    room.append(ONE, TWO)
    size = len(batch(b"value"))

    def sizes(one, two, max_bytes=1 << 20):
        (answer,) = room.fetch({ONE: From(0, one), TWO: From(0, two)}, max_bytes=max_bytes)
        return [len(read.data) for read in answer.values()]

    assert sizes(1, 1 << 20) == [size, 2 * size]
    assert sizes(1 << 20, size - 1) == [2 * size, 0]
    assert sizes(1 << 20, 1 << 20, max_bytes=1) == [size, 0]
    assert sizes(1 << 20, 1 << 20, max_bytes=3 * size + 5) == [2 * size, size]


def test_a_consumer_gets_on_whatever_its_max_bytes(make):
    """All records, in order, in as many fetches as it takes, over all segments."""
    room = make(replicas=1, segment_bytes=500)
    witness, wanted = Witness(), []
    for _ in range(20):
        data, values = witness.records(batches=2, each=2)
        room.append(ONE, data=data)
        wanted += values
    for max_bytes in (1, 300, 1 << 20):
        found = []
        while len(found) < len(wanted):
            (answer,) = room.fetch({ONE: From(len(found), max_bytes)}, max_wait=0.0)
            for base_offset, values in contents(answer[ONE].data):
                assert base_offset == len(found)
                found += values
        assert found == wanted


# Threads, locks, errors


def test_nobody_completes_under_a_lock(tmp_path, monkeypatch):
    """`done` and an operation's `try_complete` are called by threads that hold no partition's lock."""
    held = threading.local()
    seen = []

    class Watched(Guard):
        def __enter__(self):
            super().__enter__()
            held.count = getattr(held, "count", 0) + 1

        def __exit__(self, *error):
            held.count -= 1
            super().__exit__(*error)

    def watched(original):
        def call(self, *arguments):
            seen.append(getattr(held, "count", 0))
            return original(self, *arguments)

        return call

    monkeypatch.setattr(partitions, "Guard", Watched)
    for kind in (DelayedFetch, DelayedProduce):
        monkeypatch.setattr(kind, "try_complete", watched(kind.try_complete))
        monkeypatch.setattr(kind, "on_complete", watched(kind.on_complete))
    with ReplicaManager(tmp_path, replicas=3, lag_max=0.1) as manager:
        manager.create_topic("events", 2)
        followers = [Follower(manager, id) for id in range(3)]
        answered = threading.Semaphore(0)

        def done(answers):
            seen.append(getattr(held, "count", 0))
            answered.release()

        for turn in range(60):
            manager.fetch({ONE: From(0, 1), TWO: From(0, 1)}, min_bytes=1 << 20, max_wait=0.05, done=done)
            manager.append({ONE: batch(b"a"), TWO: batch(b"b")}, -1, 0.05, done)
            if turn % 20 == 5:
                manager.lead(ONE, manager.partition(ONE).isr[-1])
            if turn % 20 == 15:
                manager.lose(next(id for id in range(3) if manager.partition(ONE).isr != (id,)))
        for _ in range(120):
            assert answered.acquire(timeout=60)
        for follower in followers:
            follower.stop()
    assert len(seen) > 240
    assert set(seen) == {0}


def test_an_answer_that_raises_is_logged(make, caplog):
    """In the caller's thread and in others: it stops nothing, and is not called again."""
    room = make(replicas=1)
    calls = []

    def bad(answers):
        calls.append(answers)
        raise KeyError("oops")

    room.manager.append({ONE: batch(b"a")}, 1, 1.0, bad)
    room.manager.append({ONE: batch(b"a")}, -1, 1.0, bad)
    room.manager.fetch({ONE: From(2, 100)}, max_wait=9.0, done=bad)
    good = room.fetch({ONE: 2}, max_wait=9.0)
    room.append(ONE)
    assert len(calls) == 3
    assert len(good) == 1
    assert caplog.text.count("raised when it was called with the answers") == 3


def test_an_answer_may_ask_again(make):
    """A `done` that appends or fetches: chains of any length, in one frame."""
    room = make(replicas=1)
    numbers = []

    def again(answers):
        numbers.append(answers[ONE].high_watermark)
        if len(numbers) < 2000:
            room.manager.fetch({ONE: From(len(numbers), 1 << 20)}, max_wait=9.0, done=again)
            room.append(ONE)

    room.manager.fetch({ONE: From(0, 1 << 20)}, max_wait=9.0, done=again)
    room.append(ONE)
    assert numbers == list(range(1, 2001))


def test_closing_answers_what_waits(make):
    """A fetch with what there is, a produce with RequestTimedOut; later ones NotLeaderOrFollower. Once."""
    room = make()
    produced = room.append(ONE, timeout=100.0)
    fetched = room.fetch({TWO: 0}, max_wait=100.0)
    room.manager.close()
    room.manager.close()
    assert isinstance(produced[0][ONE], RequestTimedOut)
    assert fetched[0][TWO].data == b""
    late = room.append(ONE)[0][ONE], room.append(ONE, acks=1)[0][ONE], room.fetch({ONE: 0})[0][ONE]
    assert all(isinstance(error, NotLeaderOrFollower) for error in late)
    assert len(produced) == len(fetched) == 1
    assert room.timer.stats().pending == 0


def test_what_finds_the_door_closed_is_answered(make, monkeypatch):
    """A request that was about to wait when the manager was closed."""
    room = make()
    produces, fetches = room.manager._produces, room.manager._fetches

    def closing(purgatory):
        wait = purgatory.try_complete_else_watch

        def closed_first(operation, keys):
            room.manager.close()
            return wait(operation, keys)

        return closed_first

    room.manager._fetches = Door(fetches, closing(fetches))
    assert isinstance(room.fetch({ONE: 0}, max_wait=9.0)[0][ONE], NotLeaderOrFollower)
    room.manager._fetches = fetches
    assert produces.delayed == fetches.delayed == 0


@pytest.mark.parametrize("request_of", [DelayedFetch, DelayedProduce])
def test_what_is_closed_as_it_begins_to_wait_is_answered_once(make, monkeypatch, request_of):
    """The purgatory drops it, and then its timer, closed too, refuses it: one of the two answers."""
    room = make()
    tries, time = [], room.clock.time
    try_complete = request_of.try_complete
    monkeypatch.setattr(request_of, "try_complete", lambda self: tries.append(1) or try_complete(self))

    def closing():
        if len(tries) == 2:  # it is watched, and goes into the timer
            tries.append(1)
            room.manager.close()
            room.timer.close()
        return time()

    monkeypatch.setattr(room.clock, "time", closing)
    answers = (
        room.fetch({ONE: 0}, max_wait=9.0) if request_of is DelayedFetch else room.append(ONE, timeout=9.0)
    )
    assert len(tries) == 3
    assert len(answers) == 1


class Door:
    """A purgatory of which one method is another."""

    def __init__(self, purgatory, try_complete_else_watch):
        self._purgatory = purgatory
        self.try_complete_else_watch = try_complete_else_watch

    def __getattr__(self, name):
        return getattr(self._purgatory, name)


def test_what_the_timer_has_no_place_for_is_answered(make):
    """A shared timer with `max_pending`: nobody waits without a deadline, and nobody is forgotten."""
    room = make(max_pending=2)
    first = room.fetch({ONE: 0}, max_wait=9.0)
    second = room.fetch({ONE: 0}, max_wait=9.0)
    assert (len(first), len(second)) == (0, 1)
    assert isinstance(room.append(ONE)[0][ONE], RequestTimedOut)
