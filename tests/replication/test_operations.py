"""What waits, by itself: when a produce and a fetch complete, and with what. Partitions are played."""

import pytest

from tickwheel.clock import ManualClock
from tickwheel.purgatory import DelayedOperationPurgatory
from tickwheel.replication.errors import (
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
    StorageError,
)
from tickwheel.replication.log import Position
from tickwheel.replication.operations import DelayedFetch, DelayedProduce, Wanted
from tickwheel.replication.partition import Appended, TopicPartition
from tickwheel.timer import Timer


class Played:
    """A partition that says what it is told to: a value, or an error."""

    def __init__(self, number=0):
        self.name = TopicPartition("events", number)
        self.says = None

    def replicated(self, end_offset, epoch):
        return self.say()

    def available(self, offset, since, epoch, *, follower):
        return self.say()

    def say(self):
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


class Room:
    """A purgatory whose clock goes by hand."""

    def __init__(self):
        self.clock = ManualClock()
        self.timer = Timer(clock=self.clock, executor="inline", start=False)
        self.purgatory = DelayedOperationPurgatory(timer=self.timer)
        self.answers = []

    def wait(self, operation, *partitions):
        self.purgatory.try_complete_else_watch(operation, [partition.name for partition in partitions])

    def advance(self, seconds):
        self.clock.advance(seconds)
        self.timer.advance_clock()

    def check(self, partition):
        self.purgatory.check_and_complete(partition.name)


@pytest.fixture
def room():
    room = Room()
    yield room
    room.purgatory.close()
    room.timer.close()


def produce(room, timeout, partitions, answers=None):
    waiting = {partition: Appended(0, 1, 0, False) for partition in partitions}
    room.wait(DelayedProduce(timeout, waiting, answers or {}, room.answers.append), *partitions)


def fetch(room, *partitions, min_bytes=100, max_bytes=1000, **more):
    wanted = [Wanted(partition, 0, max_bytes, Position(0, 0), 0) for partition in partitions]
    operation = DelayedFetch(1.0, wanted, min_bytes, lambda: room.answers.append("read"), **more)
    room.wait(operation, *partitions)


def test_a_produce_waits_for_each_partition(room):
    """It is answered when the last one is replicated, with what was known before too."""
    one, two = Played(0), Played(1)
    other = TopicPartition("events", 2)
    produce(room, 1.0, [one, two], {other: StorageError("full")})
    one.says = True
    room.check(one)
    assert room.answers == []
    two.says = True
    room.check(two)
    (answers,) = room.answers
    assert (answers[one.name], answers[two.name]) == (Appended(0, 1, 0, False), Appended(0, 1, 0, False))
    assert isinstance(answers[other], StorageError)


def test_a_produce_that_is_replicated_does_not_wait(room):
    """One that is complete when it comes is answered in the call."""
    one = Played()
    one.says = True
    produce(room, 1.0, [one])
    assert len(room.answers) == 1
    assert room.purgatory.delayed == 0


def test_a_produce_that_has_become_impossible_is_answered(room):
    """A leader that moved, too few in sync, a disk: that partition's error; the others are waited for."""
    played = [Played(number) for number in range(4)]
    produce(room, 1.0, played)
    errors = [NotLeaderOrFollower("moved"), NotEnoughReplicasAfterAppend("few"), StorageError("disk"), True]
    for partition, says in zip(played, errors, strict=True):
        assert room.answers == []
        partition.says = says
        room.check(partition)
    (answers,) = room.answers
    assert [answers[partition.name] for partition in played] == [*errors[:3], Appended(0, 1, 0, False)]


def test_a_produce_keeps_what_was_once_settled(room):
    """A leader that moves after the records were replicated does not take that back."""
    one, two = Played(0), Played(1)
    produce(room, 1.0, [one, two])
    one.says = True
    room.check(one)
    one.says = NotLeaderOrFollower("moved")
    two.says = True
    room.check(two)
    assert room.answers[0][one.name] == Appended(0, 1, 0, False)


def test_a_produce_times_out_by_partition(room):
    """After its timeout, and not before, those that are not replicated are named; the others are answered."""
    one, two = Played(0), Played(1)
    produce(room, 1.0, [one, two])
    one.says = True
    room.check(one)
    room.advance(0.999)
    assert room.answers == []
    room.advance(0.001)
    (answers,) = room.answers
    assert answers[one.name] == Appended(0, 1, 0, False)
    assert isinstance(answers[two.name], RequestTimedOut)
    assert str(answers[two.name]) == "events-1 up to 1 must be replicated within 1.0 s"
    two.says = True
    room.check(two)
    assert len(room.answers) == 1


@pytest.mark.parametrize("timeout", [0.0, -1.0])
def test_a_produce_without_time_is_answered_at_once(room, timeout):
    """It may be replicated already; else it has timed out."""
    one = Played()
    produce(room, timeout, [one])
    room.advance(0)
    assert isinstance(room.answers[0][one.name], RequestTimedOut)


def test_a_fetch_adds_up_over_partitions(room):
    """`min_bytes` count in all partitions together, of each at most what it may give."""
    one, two = Played(0), Played(1)
    one.says, two.says = 30, 0
    fetch(room, one, two, max_bytes=60)
    two.says = 60
    one.says = 39
    room.check(one)
    assert room.answers == []
    one.says = 5000
    room.check(one)
    assert room.answers == ["read"]


def test_a_fetch_without_bytes_ends_with_its_time(room):
    """Then it reads what there is."""
    one = Played()
    one.says = 99
    fetch(room, one)
    room.advance(0.999)
    assert room.answers == []
    room.advance(0.001)
    assert room.answers == ["read"]


@pytest.mark.parametrize("says", [None, NotLeaderOrFollower("moved"), StorageError("disk")])
def test_a_fetch_ends_when_waiting_is_pointless(room, says):
    """A log that was cut or has a new segment (None), a leader that moved, a partition that failed."""
    one, two = Played(0), Played(1)
    one.says = two.says = 0
    fetch(room, one, two)
    two.says = says
    room.check(two)
    assert room.answers == ["read"]


def test_a_fetch_ends_when_it_is_outdated(room):
    """A follower whose leaders have changed asks anew."""
    one = Played()
    one.says = 0
    outdated = []
    fetch(room, one, outdated=lambda: bool(outdated))
    room.check(one)
    assert room.answers == []
    outdated.append(1)
    room.check(one)
    assert room.answers == ["read"]
