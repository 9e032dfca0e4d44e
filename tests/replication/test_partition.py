"""One partition: P1 to P6, by hand, with what goes wrong on the way."""

import errno
import json
import os

import pytest
from batchmaker import batch
from witness import batches_in

from tickwheel.replication.errors import (
    CorruptBatch,
    FencedLeaderEpoch,
    LeaderNotAvailable,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    StorageError,
    UnknownLeaderEpoch,
)
from tickwheel.replication.log import Log
from tickwheel.replication.partition import Partition, TopicPartition
from tickwheel.replication.state import State

ALL = 1 << 20
ONE = batch(b"value")


class Rig:
    """A partition whose followers copy when they are told to."""

    def __init__(self, folder, replicas=3, **arguments):
        self.folder, self.replicas, self.arguments = folder, replicas, arguments
        self.now = 0.0
        self.open()

    def open(self):
        logs = {id: Log(self.folder / str(id)) for id in range(self.replicas)}
        self.partition = Partition(
            TopicPartition("events", 0),
            logs,
            self.folder / "state.json",
            lag_max=10.0,
            time=lambda: self.now,
            **self.arguments,
        )

    def reopen(self):
        self.partition.close()
        self.open()

    def log(self, id):
        return self.partition._replicas[id].log

    def mark(self, id=None):
        return self.partition._replicas[self.partition.leader if id is None else id].high_watermark

    def append(self, count=1, all_in_sync=True):
        for _ in range(count):
            appended = self.partition.append(ONE, all_in_sync=all_in_sync)
        return appended

    def ask(self, id):
        """A fetch of a follower: what it gets, and whether the high watermark moved."""
        offset, epoch = self.partition.agree(id)
        moved = self.partition.fetched(id, offset, epoch)
        return self.partition.read(offset, ALL, follower=True, epoch=epoch), moved

    def copy(self, *ids):
        """Each gets all that the leader has, and then says so."""
        for id in ids:
            read, _ = self.ask(id)
            self.partition.append_as_follower(id, read)
        for id in ids:
            self.ask(id)


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path, min_isr=2)
    yield rig
    rig.partition.close()


def refuse(error=errno.EIO):
    def refused(*_, **__):
        raise OSError(error, os.strerror(error))

    return refused


def saved(rig):
    return json.loads((rig.folder / "state.json").read_text())


def test_the_high_watermark_waits_for_all_in_sync(rig):
    """P1: it is the least log end of those in sync, as far as the leader knows from their fetches (P4)."""
    end = rig.append().end_offset
    assert rig.mark() == 0
    rig.copy(1)
    assert rig.mark() == 0
    read, moved = rig.ask(2)
    assert not moved
    rig.partition.append_as_follower(2, read)
    assert rig.mark() == 0, "it has it, and has not said so"
    assert rig.ask(2)[1]
    assert rig.mark() == end == 1
    assert rig.partition.replicated(1, 0)


def test_one_replica_needs_nobody(tmp_path):
    """P1: the leader alone in sync moves the high watermark as it appends."""
    rig = Rig(tmp_path, replicas=1)
    assert rig.append().high_watermark_moved
    assert rig.mark() == 1
    rig.reopen()
    assert rig.partition.high_watermark == 1
    rig.partition.close()


def test_consumers_read_below_the_high_watermark(rig):
    """P1: followers read all, consumers what all in sync have; what is not safe yet is empty, no error."""
    rig.append()
    assert rig.partition.read(0, ALL, follower=False).data == b""
    assert rig.partition.read(0, ALL, follower=True).data
    rig.append()
    assert rig.partition.read(2, ALL, follower=False).data == b""
    for offset in (3, -1):
        with pytest.raises(OffsetOutOfRange, match=f"between 0 and 2, got {offset}"):
            rig.partition.read(offset, ALL, follower=False)


def test_waiting_for_bytes_ends_where_there_will_be_none(rig):
    """A fetch at an offset that the log was cut below, or before a new segment, is answered now: None."""
    rig.append(2)
    rig.copy(1, 2)
    size, start = len(ONE), rig.partition.position(1, 0)
    assert rig.partition.available(1, start, 0, follower=False) == size
    assert rig.partition.available(2, rig.partition.position(2, 0), 0, follower=False) == 0
    assert rig.partition.available(3, start, 0, follower=False) is None
    rig.log(0)._segment_bytes = size
    rig.append()
    assert rig.partition.available(1, start, 0, follower=True) is None
    assert rig.partition.available(1, start, 0, follower=False) == size, "as far as is safe it has no new one"
    with pytest.raises(NotLeaderOrFollower):
        rig.partition.available(1, start, 1, follower=False)


def test_acks_all_needs_enough_in_sync(rig):
    """P3: fewer than `min_isr` in sync: refused; if that comes after the append, it is said then."""
    appended = rig.append()
    rig.copy(1)
    rig.partition.lose(2)
    assert rig.partition.replicated(appended.end_offset, appended.epoch)
    appended = rig.append()
    rig.partition.lose(1)
    assert rig.mark() == 2, "the leader alone is in sync"
    with pytest.raises(NotEnoughReplicasAfterAppend, match="must have 2 replicas in sync, got 1"):
        rig.partition.replicated(appended.end_offset, appended.epoch)
    with pytest.raises(NotEnoughReplicas, match="must have 2 replicas in sync, got 1"):
        rig.append()
    assert rig.append(all_in_sync=False).base_offset == 2


def test_a_leader_that_moved_is_told(rig):
    """P3: what waits for the old leader learns that it does not lead; the records may be there or not."""
    appended = rig.append()
    rig.partition.lead(1)
    with pytest.raises(NotLeaderOrFollower, match="had epoch 0, and has 1 now"):
        rig.partition.replicated(appended.end_offset, appended.epoch)
    assert rig.partition.end_offset == 0


def test_leading_again_changes_nothing(rig):
    """A leader that is asked to lead does already: nobody who waits is disturbed."""
    rig.partition.lead(0)
    assert rig.partition.epoch == 0


def test_only_who_is_in_sync_leads(rig):
    """P3: a replica out of sync may lack what was acknowledged."""
    rig.append()
    rig.copy(1)
    rig.partition.lose(2)
    with pytest.raises(LeaderNotAvailable, match=r"in sync, \(0, 1\), got 2"):
        rig.partition.lead(2)


def test_a_log_is_cut_to_where_it_agrees(rig):
    """P5: epoch by epoch; what two logs have of one epoch at one offset is the same, and all before it."""
    rig.append(2)
    rig.copy(1, 2)
    rig.append(3)  # only on 0, in epoch 0
    rig.partition.lead(1)
    rig.append(1)  # epoch 1, at the same offsets
    rig.partition.lead(2)
    rig.append(2)  # epoch 2, likewise
    assert [rig.log(id).end_offset for id in range(3)] == [5, 3, 4]
    rig.copy(0, 1)
    assert batches_in(rig.log(0)) == batches_in(rig.log(1)) == batches_in(rig.log(2))
    assert list(batches_in(rig.log(0))) == [(0, 0), (0, 1), (2, 2), (2, 3)]
    assert rig.mark() == 4


def test_an_answer_of_an_old_epoch_is_not_appended(rig):
    """P5: a leader that moves while a follower's append is under way."""
    rig.append()
    rig.copy(1, 2)
    rig.append()
    read, _ = rig.ask(1)
    rig.partition.lead(2)
    assert not rig.partition.append_as_follower(1, read)
    rig.ask(1)
    assert not rig.partition.append_as_follower(1, read), "nor when it has agreed with the new leader"
    assert rig.log(1).end_offset == 1


def test_an_answer_for_one_that_leads_now_is_not_appended(rig):
    """P5: the follower itself was made leader meanwhile."""
    rig.append()
    read, _ = rig.ask(1)
    rig.partition.lead(1)
    assert not rig.partition.append_as_follower(1, read)
    assert rig.partition.end_offset == 0


def test_a_lost_log_is_not_taken_for_what_it_was(rig):
    """P4: a follower that asks with the end of a log that it loses meanwhile does not get in sync with it."""
    rig.append()
    rig.copy(1, 2)
    offset, epoch = rig.partition.agree(1)
    rig.partition.lose(1)
    with pytest.raises(NotLeaderOrFollower, match="replica 1 does not have all below 1"):
        rig.partition.fetched(1, offset, epoch)
    assert rig.partition.isr == (0, 2)
    rig.partition.agree(1)
    with pytest.raises(NotLeaderOrFollower, match="replica 1 does not have all below 1"):
        rig.partition.fetched(1, offset, epoch)
    rig.copy(1)
    assert rig.partition.isr == (0, 2, 1)


def test_a_replica_gets_in_sync_when_it_has_all_that_is_safe(rig):
    """P6: once it has reached the high watermark, though the leader has more."""
    rig.append()
    rig.partition.lose(1)
    rig.copy(2)
    assert rig.mark() == 1
    read, _ = rig.ask(1)
    rig.append()
    rig.partition.append_as_follower(1, read)
    assert rig.partition.isr == (0, 2)
    rig.ask(1)
    assert rig.partition.isr == (0, 2, 1)
    assert saved(rig)["isr"] == [0, 2, 1]


def test_a_new_leader_waits_for_what_was_there_before_it(rig):
    """P6: its high watermark may be lower than the last one's, and does not tell who has all."""
    rig.append(2)
    rig.copy(1, 2)
    rig.partition.lose(2)
    rig.partition.lead(1)
    assert rig.mark() < 2, "it has not heard how far records are safe"
    rig.ask(2)
    assert rig.partition.isr == (0, 1), "it has reached the high watermark, and has nothing"
    rig.copy(2)
    assert rig.partition.isr == (0, 1, 2)


def test_a_new_leader_believes_nobody(rig):
    """P4: what a replica had fetched from the last leader says nothing of what it has of this one."""
    rig.append(3)
    rig.copy(2)
    rig.partition.lead(1)
    rig.append(2)
    rig.copy(0)
    assert rig.mark() == 0
    rig.copy(2)
    assert rig.mark() == 2


def test_a_replica_that_falls_behind_leaves(rig):
    """P6: after `lag_max` without having had all; then acknowledging needs it no more."""
    rig.append()
    for now in (3.0, 6.0, 9.0):
        rig.now = now
        rig.copy(1)
    assert not rig.partition.shrink()
    rig.now = 10.5
    assert rig.partition.shrink()
    assert rig.partition.isr == (0, 1)
    assert rig.mark() == 1
    assert saved(rig)["isr"] == [0, 1]
    assert not rig.partition.shrink()


def test_a_replica_that_has_all_stays_however_long_it_is_silent(rig):
    """P6: there was nothing to fetch."""
    rig.append()
    rig.copy(1, 2)
    rig.now = 1000.0
    assert not rig.partition.shrink()


def test_a_replica_that_keeps_up_stays_though_it_never_has_all(rig):
    """P6: records come between any two fetches; it always has what was there at the one before."""
    for now in range(30):
        rig.now = float(now)
        rig.append()
        for id in (1, 2):
            read, _ = rig.ask(id)
            rig.append()
            rig.partition.append_as_follower(id, read)
        assert not rig.partition.shrink()


def test_a_restart_begins_an_epoch(rig):
    """P2: epoch, leader and in-sync set are read back; no epoch is used twice."""
    rig.append(2)
    rig.copy(1, 2)
    rig.partition.lose(2)
    rig.partition.lead(1)
    assert saved(rig) == {"epoch": 1, "leader": 1, "isr": [0, 1]}
    rig.reopen()
    assert (rig.partition.epoch, rig.partition.leader, rig.partition.isr) == (2, 1, (0, 1))
    assert saved(rig)["epoch"] == 2


def test_a_restart_hides_nothing_for_long(rig):
    """The high watermark begins at 0 and is known again when those in sync have fetched once. Until then
    a consumer waits: no OffsetOutOfRange, and no lower end of the log than one that it was told.
    """
    rig.append(3)
    rig.copy(1, 2)
    assert rig.partition.high_watermark == 3
    rig.reopen()
    assert rig.mark() == 0
    for offset in range(4):
        assert rig.partition.read(offset, ALL, follower=False).data == b""
        position = rig.partition.position(offset, 1)
        assert rig.partition.available(offset, position, 1, follower=False) == 0
    for ask in (lambda: rig.partition.high_watermark, lambda: rig.partition.offset_since(0)):
        with pytest.raises(LeaderNotAvailable, match="must reach 3, where epoch 1 began, got 0"):
            ask()
    rig.ask(1)
    rig.ask(2)
    assert rig.partition.high_watermark == 3


def test_a_restart_elects_the_log_that_goes_furthest(rig):
    """P3: a disk that lost the end of the leader's log costs nothing that another in sync has."""
    rig.append(2)
    rig.copy(1, 2)
    rig.partition.close()
    (path,) = (rig.folder / "0").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    rig.open()
    assert (rig.partition.leader, rig.partition.end_offset) == (1, 2)
    rig.copy(0, 2)
    assert rig.partition.high_watermark == 2


def test_fewer_replicas_than_before(rig):
    """P3: who is not asked for any more is not in sync; who led is replaced."""
    rig.append()
    rig.copy(1, 2)
    rig.partition.lead(2)
    rig.partition.close()
    rig.replicas = 2
    rig.open()
    assert rig.partition.isr == (0, 1)
    assert rig.partition.leader in (0, 1)
    assert rig.partition.end_offset == 1


def test_who_is_left_leads(rig):
    """A leader that loses its disk is followed by whose log goes furthest; the last one by nobody."""
    rig.append()
    rig.copy(2)
    rig.partition.lose(0)
    assert (rig.partition.leader, rig.partition.isr) == (2, (1, 2))
    rig.partition.lose(1)
    rig.partition.lose(2)
    assert (rig.partition.leader, rig.partition.isr) == (None, ())
    with pytest.raises(LeaderNotAvailable, match="has no leader"):
        rig.append()
    assert rig.partition.agree(1) is None
    assert not rig.partition.shrink()
    rig.reopen()
    assert rig.partition.leader is None


def test_a_disk_is_gone_only_when_that_is_on_disk(rig, monkeypatch):
    """P2: a state that cannot be saved leaves the log, the leader and the in-sync set as they were."""
    rig.append()
    rig.copy(1, 2)
    monkeypatch.setattr("tickwheel.replication.state.whole_text", refuse())
    for ask in (lambda: rig.partition.lose(0), lambda: rig.partition.lose(1), lambda: rig.partition.lead(1)):
        with pytest.raises(StorageError, match=r"events-0: .*Input/output error"):
            ask()
    assert (rig.partition.leader, rig.partition.isr, rig.partition.epoch) == (0, (0, 1, 2), 0)
    assert [rig.log(id).end_offset for id in range(3)] == [1, 1, 1]
    rig.append()
    rig.now = 100.0
    with pytest.raises(StorageError):
        rig.partition.shrink()
    assert rig.mark() == 1, "nothing is decided by an in-sync set that is not on disk"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"epoch": 1}',
        '{"epoch": null, "leader": 0, "isr": [0]}',
        '{"epoch": 1, "leader": 0, "isr": [[0]]}',
    ],
)
def test_a_state_that_cannot_be_read_is_named(tmp_path, text):
    """One line with the file, the rule and what is there."""
    path = tmp_path / "0.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"0\.json must have an epoch, a leader and an isr, got") as raised:
        State.load(path)
    assert str(raised.value).endswith(f"got {text!r}")


def test_what_the_disk_refuses_is_answered(rig, monkeypatch):
    """L3: an append or a read that fails is this partition's StorageError, and nothing has changed."""
    rig.append()
    monkeypatch.setattr(rig.log(0)._segments[0], "append", refuse(errno.ENOSPC))
    with pytest.raises(StorageError, match=r"events-0: .*No space left"):
        rig.append()
    monkeypatch.setattr(rig.log(0)._segments[0], "read", refuse())
    for ask in (
        lambda: rig.partition.read(0, ALL, follower=True),
        lambda: rig.partition.position(0, 0),
    ):
        with pytest.raises(StorageError, match=r"events-0: .*Input/output error"):
            ask()
    monkeypatch.undo()
    assert rig.append().base_offset == 1


def test_what_is_no_batch_is_refused(rig):
    """Nothing of a run is appended that has a bad batch in it, or none."""
    for data in (b"", ONE + ONE[:-1], ONE + b"\0" * 80):
        with pytest.raises(CorruptBatch):
            rig.partition.append(data, all_in_sync=False)
    assert rig.partition.end_offset == 0


def test_readers_say_what_epoch_they_know(rig):
    """An older one is fenced, a newer one unknown, and -1 says nothing."""
    rig.partition.lead(1)
    with pytest.raises(FencedLeaderEpoch, match="has epoch 1, got 0"):
        rig.partition.read(0, ALL, follower=False, epoch=0)
    with pytest.raises(UnknownLeaderEpoch, match="has epoch 1, got 2"):
        rig.partition.read(0, ALL, follower=False, epoch=2)
    assert rig.partition.read(0, ALL, follower=False).epoch == 1


def test_after_closing_everything_is_refused(rig):
    """A call that comes too late is answered like one to a leader that moved; closing again is nothing."""
    rig.partition.close()
    rig.partition.close()
    for ask in (
        rig.append,
        lambda: rig.partition.read(0, ALL, follower=False),
        lambda: rig.partition.agree(1),
        lambda: rig.partition.lead(1),
        lambda: rig.partition.lose(1),
        rig.partition.shrink,
    ):
        with pytest.raises(NotLeaderOrFollower, match="events-0 is closed"):
            ask()
    assert saved(rig)["epoch"] == 0
