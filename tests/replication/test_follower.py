"""Followers: what they copy, and what does not stop them."""

import time

import pytest
from batchmaker import batch
from witness import batches_in

from tickwheel.clock import ManualClock
from tickwheel.replication.errors import StorageError
from tickwheel.replication.follower import RETRY_S, Copying, Follower
from tickwheel.replication.partition import TopicPartition
from tickwheel.replication.replicas import ReplicaManager
from tickwheel.timer import Timer

ONE, TWO = (TopicPartition("events", number) for number in range(2))
HANG_S = 60


def eventually(what):
    until = time.monotonic() + HANG_S
    while not what():
        assert time.monotonic() < until, "it never comes to that"
        time.sleep(0.002)


def append(manager, *names, acks=1):
    answers = []
    manager.append({name: batch(b"value") for name in names}, acks, 10.0, answers.append)
    return answers


def log(manager, name, id):
    return manager.partition(name)._replicas[id].log


class ByHand:
    """A manager and one follower, that go by hand."""

    def __init__(self, folder):
        self.clock = ManualClock()
        self.timer = Timer(clock=self.clock, executor="inline", start=False)
        self.manager = ReplicaManager(folder, replicas=2, timer=self.timer)
        self.manager.create_topic("events", 2)
        self.copying = Copying(self.manager, 1)
        self.answers = []

    def advance(self, seconds):
        self.clock.advance(seconds)
        self.timer.advance_clock()

    def ask(self):
        self.copying.ask(self.answers.append)

    def take(self):
        (answers,) = self.answers
        self.answers.clear()
        self.copying.take(answers)
        return answers


@pytest.fixture
def hand(tmp_path):
    hand = ByHand(tmp_path)
    yield hand
    hand.manager.close()
    hand.timer.close()


@pytest.fixture
def manager(tmp_path):
    with ReplicaManager(tmp_path, replicas=3, min_isr=2) as manager:
        manager.create_topic("events", 2)
        yield manager


def test_a_follower_waits_while_there_is_nothing(hand):
    """Its fetch lies in the purgatory until records come, or for half a second."""
    hand.ask()
    assert hand.answers == []
    append(hand.manager, ONE)
    assert set(hand.take()) == {ONE, TWO}
    assert log(hand.manager, ONE, 1).end_offset == 1
    hand.ask()
    hand.advance(0.499)
    assert hand.answers == []
    hand.advance(0.001)
    assert all(not read.data for read in hand.take().values())


def test_a_broken_partition_does_not_hold_up_the_others(hand, monkeypatch, caplog):
    """It is left out for a while, and said; nothing is asked without a pause."""
    segment = log(hand.manager, ONE, 1)._segments[0]

    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(segment, "append", refuse)
        append(hand.manager, ONE, TWO)
        hand.ask()
        hand.take()
    assert "follower 1 tries events-0 again in 0.1 s: events-0: [Errno 28] No space left" in caplog.text
    assert [log(hand.manager, name, 1).end_offset for name in (ONE, TWO)] == [0, 1]
    hand.ask()
    assert hand.answers == []
    append(hand.manager, TWO)
    assert set(hand.take()) == {TWO}
    hand.ask()
    hand.advance(RETRY_S)
    hand.take()
    hand.ask()
    assert set(hand.take()) == {ONE, TWO}
    assert log(hand.manager, ONE, 1).end_offset == 1


def test_a_partition_with_much_to_copy_leaves_the_others_their_turn(hand, monkeypatch):
    """Where one fetch cannot take all, each partition has its turn: none is behind for another's sake."""
    monkeypatch.setattr("tickwheel.replication.follower.MAX_BYTES", 100)
    hand.manager.create_topic("more", 2)
    names = [TopicPartition(topic, number) for topic in ("events", "more") for number in range(2)]
    for _ in range(10):
        append(hand.manager, *names)
    for _ in range(2 * len(names)):
        hand.ask()
        hand.take()
    assert [log(hand.manager, name, 1).end_offset for name in names] == [2] * len(names)


def test_a_leader_whose_disk_fails_is_left_out_too(hand, monkeypatch):
    """An error that is answered at once is not asked for again at once."""
    append(hand.manager, ONE)
    monkeypatch.setattr(
        log(hand.manager, ONE, 0)._segments[0], "read", lambda *_: (_ for _ in ()).throw(OSError(5, "I/O"))
    )
    hand.ask()
    assert isinstance(hand.take()[ONE], StorageError)
    hand.ask()
    assert hand.answers == [], "it waits, without that partition"


def test_a_new_topic_and_a_new_leader_are_followed_at_once(hand):
    """A fetch that waits is answered when who leads what has changed."""
    hand.ask()
    hand.manager.create_topic("more", 1)
    hand.take()
    hand.ask()
    append(hand.manager, TopicPartition("more", 0))
    assert TopicPartition("more", 0) in hand.take()
    hand.ask()
    hand.manager.lead(ONE, 1)
    hand.take()
    hand.ask()
    append(hand.manager, TWO)
    assert ONE not in hand.take(), "it leads there itself"


def test_what_changes_while_it_looks_around_is_seen(hand):
    """A topic that is made after it looked, before its fetch waits: that fetch does not wait."""
    topics = hand.manager.topics

    def and_then():
        found = topics()
        hand.manager.topics = topics
        hand.manager.create_topic("more", 1)
        return found

    hand.manager.topics = and_then
    hand.ask()
    hand.take()


def test_records_are_copied_to_all(manager):
    """With acks=all a produce is answered once every follower has fetched behind its records."""
    followers = [Follower(manager, id) for id in range(3)]
    try:
        answers = append(manager, ONE, TWO, acks=-1)
        eventually(lambda: answers)
        assert all(log(manager, name, id).end_offset == 1 for name in (ONE, TWO) for id in range(3))
        assert answers[0][ONE].end_offset == manager.partition(ONE).high_watermark == 1
    finally:
        for follower in followers:
            follower.stop()


def test_a_follower_that_stalls_catches_up(manager):
    """A pause lets the fetch under way end, and begins no other."""
    followers = [Follower(manager, id) for id in range(3)]
    try:
        followers[1].pause()
        for _ in range(5):
            append(manager, ONE)
        eventually(lambda: log(manager, ONE, 2).end_offset == 5)
        assert manager.partition(ONE).high_watermark == 0
        followers[1].resume()
        eventually(lambda: manager.partition(ONE).high_watermark == 5)
        assert batches_in(log(manager, ONE, 1)) == batches_in(log(manager, ONE, 0))
    finally:
        for follower in followers:
            follower.stop()


@pytest.mark.parametrize("state", ["waiting", "paused"])
def test_a_follower_stops_at_once(manager, state):
    """Also while its fetch waits or it is paused; stopping it again is nothing."""
    follower = Follower(manager, 1)
    if state == "paused":
        follower.pause()
    follower.stop()
    follower.stop()
    assert not follower._thread.is_alive()


def test_a_follower_ends_with_its_manager(tmp_path):
    """Nobody asks what is closed without end."""
    manager = ReplicaManager(tmp_path)
    manager.create_topic("events", 1)
    follower = Follower(manager, 1)
    manager.close()
    follower._thread.join(HANG_S)
    assert not follower._thread.is_alive()


def test_an_answer_that_comes_too_late_is_dropped(hand):
    """Another leads now, or the manager is closed: neither is an error."""
    append(hand.manager, ONE)
    hand.ask()
    hand.manager.lead(ONE, 1)
    hand.take()
    assert log(hand.manager, ONE, 1).end_offset == 0
    append(hand.manager, TWO)
    hand.ask()
    hand.manager.close()
    hand.take()
    assert log(hand.manager, TWO, 1).end_offset == 0
