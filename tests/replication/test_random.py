"""The promises of the replicated log, whatever happens in whatever order: time and followers go by hand."""

import errno
import io
import os
import shutil
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from witness import Witness, batches_in, contents

from tickwheel.clock import ManualClock
from tickwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
from tickwheel.replication import replicas, segment
from tickwheel.replication.batches import stamp
from tickwheel.replication.errors import PartitionError, RequestTimedOut
from tickwheel.replication.follower import Copying
from tickwheel.replication.partition import TopicPartition
from tickwheel.replication.replicas import From, ReplicaManager
from tickwheel.timer import Timer

TICK = 0.001
LAG_MAX = 4.0
REPLICAS = 3
NAMES = [TopicPartition("events", 0), TopicPartition("events", 1)]
replica_ids = st.integers(0, REPLICAS - 1)
names = st.sampled_from(NAMES)


class Disk(io.FileIO):
    """A file on the disk of a replica; those of some refuse what is written, in the middle, or being cut."""

    full: ClassVar[set[int]] = set()
    stuck: ClassVar[set[int]] = set()

    def __init__(self, path, mode):
        super().__init__(path, mode)
        self.replica = int(path.parts[-3].removeprefix("replica-"))

    def write(self, data):
        if self.replica in self.full:
            return super().write(data[: len(data) * 2 // 3])
        return super().write(data)

    def truncate(self, size=None):
        if self.replica in self.stuck:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().truncate(size)


class Waiting(DelayedOperationPurgatory):
    """A purgatory that knows what waits in it."""

    operations: ClassVar[list[DelayedOperation]] = []

    def try_complete_else_watch(self, operation, keys):
        self.operations.append(operation)
        return super().try_complete_else_watch(operation, keys)


class Request:
    """One that was made, and its answers: there must be one, complete, and not after its deadline.

    `judge(request, answers)` says whether it is a good one, at once; what it says is raised by `check`.
    """

    def __init__(self, clock, keys, wait, judge):
        self.clock, self.keys, self.deadline = clock, set(keys), clock.time() + wait
        self.judge = judge
        self.answered = 0
        self.wrong = []

    @property
    def is_early(self):
        return self.clock.time() < self.deadline - 1e-9

    def __call__(self, answers):
        self.answered += 1
        try:
            assert self.answered == 1, "answered twice"
            assert set(answers) == self.keys
            self.judge(self, answers)
        except AssertionError as error:  # `done` callbacks' errors are logged
            self.wrong.append(error)

    def check(self):
        if self.wrong:
            raise self.wrong[0]
        assert self.answered or self.clock.time() < self.deadline + TICK, "not answered in time"


class Replication(RuleBasedStateMachine):
    @initialize(
        min_isr=st.integers(1, 2),
        segment_bytes=st.sampled_from([100, 700, 1 << 20]),
    )
    def begin(self, min_isr, segment_bytes):
        self.folder = Path(tempfile.mkdtemp(prefix="replication"))
        self.data = self.folder / "0"
        self.crashes = 0
        self.witness = Witness()
        self.clock = ManualClock()
        self.arguments = {"replicas": REPLICAS, "min_isr": min_isr, "segment_bytes": segment_bytes}
        self.requests = []
        self.open()
        self.manager.create_topic("events", len(NAMES))

    def open(self):
        self.timer = Timer(tick=TICK, clock=self.clock, executor="inline", start=False)
        self.manager = ReplicaManager(self.data, lag_max=LAG_MAX, timer=self.timer, **self.arguments)
        self.copying = {id: Copying(self.manager, id) for id in range(REPLICAS)}
        Waiting.operations.clear()
        self.asked = {}  # by replica: the answers that it has asked for, as they come
        self.marks = {}

    def close(self):
        self.manager.close()
        assert self.timer.close() == []
        self.manager.close()

    def partitions(self):
        return [self.manager.partition(name) for name in NAMES]

    # Requests

    def request(self, keys, wait, judge):
        request = Request(self.clock, keys, wait, judge)
        self.requests.append(request)
        return request

    @rule(
        chosen=st.lists(names, min_size=1, max_size=2, unique=True),
        acks=st.sampled_from([-1, -1, 0, 1]),
        timeout=st.sampled_from([0.0, 0.5, 3.0]),
        batches=st.integers(1, 3),
        padding=st.sampled_from([0, 0, 300]),
    )
    def append(self, chosen, acks, timeout, batches, padding):
        runs = {name: self.witness.records(batches, 2, padding) for name in chosen}
        values = {name: values for name, (_, values) in runs.items()}
        request = self.request(chosen, timeout, partial(self.judge_append, acks, values))
        self.manager.append({name: data for name, (data, _) in runs.items()}, acks, timeout, request)
        assert request.answered or acks == -1

    def judge_append(self, acks, values, request, answers):
        for name, answer in answers.items():
            early = request.is_early and not self.manager.closed
            assert not (early and isinstance(answer, RequestTimedOut)), "timed out early"
            if acks == -1 and not isinstance(answer, PartitionError):
                assert answer.end_offset - answer.base_offset == len(values[name])
                self.witness.promise(name, answer.base_offset, values[name])

    @rule(
        chosen=st.lists(names, min_size=1, max_size=2, unique=True),
        back=st.integers(0, 6),
        min_bytes=st.sampled_from([0, 1, 1, 500, 10_000]),
        max_bytes=st.sampled_from([1, 200, 1 << 20]),
        max_wait=st.sampled_from([0.0, 0.5, 3.0]),
    )
    def fetch(self, chosen, back, min_bytes, max_bytes, max_wait):
        """A consumer goes on from where all is promised, or some records before."""
        positions, since = {}, {}
        for name in chosen:
            offset = max(0, max(self.witness.promised.get(name, {}), default=-1) + 1 - back)
            positions[name] = From(offset, max_bytes)
            partition = self.manager.partition(name)
            since[name] = (partition.epoch, self.leading_log(partition), offset)
        self.manager.fetch(
            positions,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            max_wait=max_wait,
            done=self.request(chosen, max_wait, partial(self.judge_fetch, min_bytes, since)),
        )

    def judge_fetch(self, min_bytes, since, request, answers):
        found, excused = 0, self.manager.closed
        for name, answer in answers.items():
            epoch, log, offset = since[name]
            partition = self.manager.partition(name)
            if isinstance(answer, PartitionError):
                # What is promised ends at or below every leader's log end: never OffsetOutOfRange.
                assert partition.leader is None or self.manager.closed, answer
                excused = True
                continue
            for base_offset, values in contents(answer.data):
                assert base_offset + len(values) <= answer.high_watermark, "read past the high watermark"
                assert offset < base_offset + len(values), "read what was not asked for"
            self.witness.read(name, answer.data)
            found += len(answer.data)
            excused |= partition.epoch != epoch
            excused |= not self.manager.closed and log.position(offset).segment != log.end.segment
        assert not request.is_early or excused or found >= min_bytes, f"{found} bytes came too early"

    # Followers

    @rule(id=replica_ids)
    def ask(self, id):
        if id not in self.asked:
            self.asked[id] = []
            self.copying[id].ask(self.asked[id].append)

    @rule(id=replica_ids)
    def take(self, id):
        if self.asked.get(id):
            answers = self.asked.pop(id)
            assert len(answers) == 1
            self.copying[id].take(answers[0])

    @rule(id=replica_ids, rounds=st.integers(1, 4))
    def copy(self, id, rounds):
        for _ in range(rounds):
            self.take(id)
            self.ask(id)

    # What happens to them

    @rule(seconds=st.sampled_from([0.001, 0.2, 0.5, 1.0, 3.0]))
    def advance(self, seconds):
        self.clock.advance(seconds)
        self.timer.advance_clock()

    @rule(name=names, id=replica_ids)
    def lead(self, name, id):
        with suppress(PartitionError):
            self.manager.lead(name, id)

    @rule(id=replica_ids)
    def lose(self, id):
        """Never the last disk of those in sync: with that, what is promised may go."""
        if all(partition.isr != (id,) for partition in self.partitions()) and id not in Disk.stuck:
            self.manager.lose(id)

    @rule(id=replica_ids)
    def fill_disk(self, id):
        Disk.full.add(id)

    @precondition(lambda self: Disk.full)
    @rule(id=replica_ids)
    def stick_disk(self, id):
        Disk.stuck.add(id)

    @rule()
    def free_disks(self):
        Disk.full.clear()
        Disk.stuck.clear()

    @rule(name=names, id=replica_ids)
    def lag(self, name, id):
        """All but one follower copy for longer than `LAG_MAX`, while records come."""
        for _ in range(4):
            with suppress(PartitionError):
                self.manager.partition(name).append(self.witness.records()[0], all_in_sync=False)
            for other in range(REPLICAS):
                if other != id:
                    self.copy(other, 2)
            self.advance(LAG_MAX / 2)

    @rule()
    def restart(self):
        self.free_disks()
        self.close()
        self.open()

    @rule(id=replica_ids, tear=st.integers(1, 400), torn=names)
    def crash(self, id, tear, torn):
        """As after a kill: what is on disk then, with an append to one log that got as far as `tear` bytes.

        A follower's may be of what it lacks, or of what follows nothing.
        """
        self.free_disks()
        self.copying[id].ask(lambda answers: None)  # it agrees with its leader
        partition = self.manager.partition(torn)
        log, leading = partition._replicas[id].log, self.leading_log(partition)
        if log.end_offset < leading.end_offset:
            tail = leading.read(log.end_offset, tear)
        else:
            gap = 0 if log is leading else 1
            tail, _ = stamp(self.witness.records(2, 2, 50)[0], log.end_offset + gap, partition.epoch)
        self.crashes += 1
        crashed = self.folder / str(self.crashes)
        shutil.copytree(self.data, crashed)
        last = max((crashed / f"replica-{id}" / str(torn)).glob("*.log"))
        with last.open("ab") as file:
            file.write(tail[:tear])
        self.requests, dead = [], self.requests
        self.close()
        for request in dead:
            request.check()
        self.data = crashed
        self.open()

    # Verdicts

    @staticmethod
    def leading_log(partition):
        return None if partition.leader is None else partition._replicas[partition.leader].log

    @invariant()
    def requests_are_answered(self):
        for request in self.requests:
            request.check()
        self.requests = [request for request in self.requests if not request.answered]

    @invariant()
    def nobody_waits_for_what_is_there(self):
        """What could be completed was: no event went by unseen."""
        Waiting.operations[:] = [one for one in Waiting.operations if not one.is_completed]
        for operation in Waiting.operations:
            assert not operation.try_complete()

    @invariant()
    def promises_are_kept(self):
        for partition in self.partitions():
            assert partition.leader is not None
            for id in partition.isr:
                self.witness.check(partition.name, partition._replicas[id].log, f"{partition.name} on {id}")

    @invariant()
    def the_high_watermark_is_below_all_in_sync(self):
        for partition in self.partitions():
            replicas = partition._replicas
            mark = replicas[partition.leader].high_watermark
            assert mark <= min(replicas[id].log.end_offset for id in partition.isr)
            before = self.marks.get((partition.name, partition.epoch), 0)
            assert mark >= before, "P1: it went back"
            self.marks[partition.name, partition.epoch] = mark

    @invariant()
    def one_epoch_has_one_history(self):
        """Two logs that have a batch of one epoch at one offset have the same there."""
        for partition in self.partitions():
            known = {}
            for replica in partition._replicas.values():
                for where, data in batches_in(replica.log).items():
                    assert known.setdefault(where, data) == data, (partition.name, where)

    def teardown(self):
        if not hasattr(self, "manager"):
            return
        self.free_disks()
        self.heal()
        self.close()
        self.requests_are_answered()
        assert not self.requests
        shutil.rmtree(self.folder)

    def heal(self):
        """With all followers there again, all replicas end up in sync, equal, and all of it can be read."""
        for _ in range(40):
            self.advance(0.5)
            for id in range(REPLICAS):
                self.copy(id, 2)
        for partition in self.partitions():
            assert set(partition.isr) == set(range(REPLICAS))
            ends = {replica.log.end_offset for replica in partition._replicas.values()}
            assert ends == {partition.high_watermark}
            histories = [batches_in(replica.log) for replica in partition._replicas.values()]
            assert histories[0] == histories[1] == histories[2]


@pytest.fixture
def disks(monkeypatch):
    monkeypatch.setattr(segment, "FileIO", Disk)
    monkeypatch.setattr(segment, "INDEX_EVERY", 150)
    monkeypatch.setattr(replicas, "DelayedOperationPurgatory", Waiting)


def test_promises_are_kept_whatever_happens(disks, soak):
    """No record acknowledged with acks=all is lost or moved, nobody reads past the high watermark, and each
    request is answered once, completely, by its deadline: with stalls, lost disks, moving leaders, full
    disks, truncation, timeouts, restarts and crashes in any order.
    """
    examples = 5000 if soak else 60
    run_state_machine_as_test(
        Replication, settings=settings(max_examples=examples, stateful_step_count=60, deadline=None)
    )
