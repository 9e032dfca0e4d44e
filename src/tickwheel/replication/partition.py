"""One partition: its replicas, who leads, who is in sync, and how far the records are safe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tickwheel.replication.batches import cut, stamp
from tickwheel.replication.errors import (
    FencedLeaderEpoch,
    LeaderNotAvailable,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
)
from tickwheel.replication.guard import Guard
from tickwheel.replication.log import Log, Position
from tickwheel.replication.state import State

__all__ = ["Appended", "Partition", "Read", "TopicPartition"]


class TopicPartition(NamedTuple):
    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class Appended(NamedTuple):
    """Where records went; `epoch` is the leader's that took them."""

    base_offset: int
    end_offset: int
    epoch: int
    high_watermark_moved: bool


class Read(NamedTuple):
    """Batches, empty where there are none yet, and how far the partition was."""

    data: bytes
    start_offset: int
    high_watermark: int
    end_offset: int
    epoch: int


class _Replica:
    """One copy, and what the leader knows of it."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.high_watermark = 0
        self.followed_epoch = -1  # its log agrees with the log of the leader of this epoch
        self.fetched_to = 0  # P4: it has all below; of this epoch
        self.caught_up_s = 0.0  # when it last had all that the leader had
        self.asked_s, self.asked_end = 0.0, 0  # when it last fetched, and where the leader's log ended then

    def begin_epoch(self, now: float) -> None:
        """The leader knows nothing of it yet, and gives it time."""
        self.fetched_to, self.caught_up_s, self.asked_s, self.asked_end = 0, now, now, 0

    def fetches(self, offset: int, end: int, now: float) -> None:
        """P4. While records keep coming it never has all: it need have what there was when it last asked."""
        self.fetched_to = offset
        if offset >= end:
            self.caught_up_s = now
        elif offset >= self.asked_end:
            self.caught_up_s = self.asked_s
        self.asked_s, self.asked_end = now, end


class Partition:
    """The replicas of one partition, one of which leads. Thread-safe; it calls nothing under its lock.

    What it cannot do it says with a PartitionError: StorageError where the disk refused, NotLeaderOrFollower
    once it is closed, LeaderNotAvailable while nobody leads, besides what each method names.

    P1 The high watermark is the least log end over the in-sync set, and never goes back while a leader leads.
    P2 Epoch, leader and in-sync set are on disk before anything is decided by them.
    P3 What acks=all acknowledged is in the log of every replica of every later in-sync set.
    P4 A follower that fetches at an offset has all below it.
    P5 A replica appends under the epoch under which it fetched, after its log was cut to where it agrees
       with the leader's.
    P6 A replica enters the in-sync set once it has all below the high watermark and from before this epoch;
       it leaves after `lag_max` without having had all.
    """

    def __init__(
        self,
        name: TopicPartition,
        logs: Mapping[int, Log],
        state: Path,
        *,
        min_isr: int = 1,
        lag_max: float = 10.0,
        flush: bool = False,
        time: Callable[[], float],
    ) -> None:
        """It elects anew among those in sync: whose log goes furthest, so that a torn one costs nothing.

        ValueError: none of those in sync is asked for, or the state is none.
        """
        self.name = name
        self.min_isr = min_isr
        self._lag_max = lag_max
        self._time = time
        self._state = state
        self._flush = flush
        self._lock = Guard(name)
        self._replicas = {id: _Replica(log) for id, log in logs.items()}
        self._epoch_start = 0
        newest = max(log.last_epoch for log in logs.values())
        saved = State.load(state) or State(newest, min(logs), tuple(sorted(logs)))
        self._epoch, self._leader, self._isr = saved
        kept = tuple(id for id in saved.isr if id in logs)  # fewer replicas may have been asked for
        if saved.isr and not kept:  # an election would be lost for ever, also for those who have the records
            raise ValueError(
                f"replicas must be >= {min(saved.isr) + 1}, as of {name} only {saved.isr} are in sync, "
                f"got {len(logs)}"
            )
        with self._lock:
            self._elect(self._furthest(kept), kept)

    # What can be asked

    @property
    def leader(self) -> int | None:
        return self._leader

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def isr(self) -> tuple[int, ...]:
        """The replicas in sync, the leader among them."""
        return self._isr

    @property
    def replicas(self) -> tuple[int, ...]:
        return tuple(self._replicas)

    @property
    def high_watermark(self) -> int:
        """Consumers read what is below. LeaderNotAvailable also while a new leader does not know it."""
        with self._lock:
            return self._settled().high_watermark

    @property
    def end_offset(self) -> int:
        """The leader's log end."""
        with self._lock:
            return self._leading().log.end_offset

    @property
    def start_offset(self) -> int:
        with self._lock:
            return self._leading().log.start_offset

    def offset_since(self, timestamp_ms: int) -> tuple[int, int] | None:
        """The first batch for consumers with a record so late: offset and timestamp. O(segments)."""
        with self._lock:
            leader = self._settled()
            found = leader.log.offset_since(timestamp_ms)
            return found if found is not None and found[0] < leader.high_watermark else None

    def _leading(self, epoch: int | None = None) -> _Replica:
        """The leader, if it is still the one of that epoch."""
        if self._leader is None:
            raise LeaderNotAvailable(
                f"{self.name} has no leader: none of its replicas in sync, {self._isr}, is there"
            )
        if epoch is not None and epoch != self._epoch:
            raise NotLeaderOrFollower(f"{self.name} had epoch {epoch}, and has {self._epoch} now")
        return self._replicas[self._leader]

    def _settled(self) -> _Replica:
        """The leader, once it knows how far records are safe: at least to where its epoch began.

        Until its followers have fetched there, its high watermark may be below one that a consumer has seen.
        """
        leader = self._leading()
        if leader.high_watermark < self._epoch_start:
            raise LeaderNotAvailable(
                f"{self.name}: the high watermark must reach {self._epoch_start}, where epoch {self._epoch} "
                f"began, got {leader.high_watermark}"
            )
        return leader

    def check_epoch(self, epoch: int) -> None:
        """A client says what epoch it knows; -1: none. FencedLeaderEpoch, UnknownLeaderEpoch."""
        if 0 <= epoch < self._epoch:
            raise FencedLeaderEpoch(f"{self.name} has epoch {self._epoch}, got {epoch}")
        if epoch > self._epoch:
            raise UnknownLeaderEpoch(f"{self.name} has epoch {self._epoch}, got {epoch}")

    # Records come

    def append(self, data: bytes, *, all_in_sync: bool) -> Appended:
        """Add a client's batches to the leader's log. O(bytes).

        NotEnoughReplicas: `all_in_sync` is asked for and fewer than `min_isr` are. CorruptBatch. Nothing
        was appended then.
        """
        with self._lock:
            leader = self._leading()
            if all_in_sync and len(self._isr) < self.min_isr:
                raise NotEnoughReplicas(
                    f"{self.name} must have {self.min_isr} replicas in sync, got {len(self._isr)}"
                )
            base_offset = leader.log.end_offset
            leader.log.append(*stamp(data, base_offset, self._epoch))
            return Appended(base_offset, leader.log.end_offset, self._epoch, self._advance())

    def replicated(self, end_offset: int, epoch: int) -> bool:
        """Whether all below is in every replica in sync, of which there must be `min_isr`.

        NotLeaderOrFollower: it was appended under another leader. NotEnoughReplicasAfterAppend.
        """
        with self._lock:
            if self._leading(epoch).high_watermark < end_offset:
                return False
            if len(self._isr) < self.min_isr:
                raise NotEnoughReplicasAfterAppend(
                    f"{self.name} must have {self.min_isr} replicas in sync, got {len(self._isr)}"
                )
            return True

    def _advance(self) -> bool:
        """P1. True: the high watermark moved."""
        leader = self._leading()
        ends = [leader.log.end_offset]
        ends += [self._replicas[id].fetched_to for id in self._isr if id != self._leader]
        if min(ends) <= leader.high_watermark:
            return False
        leader.high_watermark = min(ends)
        return True

    # Records go

    def read(
        self, offset: int, max_bytes: int, *, follower: bool, epoch: int = -1, oversize: bool = True
    ) -> Read:
        """Batches from `offset` on: below the high watermark for consumers, all for a follower. O(bytes).

        With `oversize` the first batch is given whatever its size; `epoch` as in `check_epoch`.
        OffsetOutOfRange.
        """
        with self._lock:
            self.check_epoch(epoch)
            leader = self._leading()
            until = leader.log.end_offset if follower else leader.high_watermark
            return Read(
                leader.log.read(offset, max_bytes, until, oversize=oversize),
                leader.log.start_offset,
                leader.high_watermark,
                leader.log.end_offset,
                self._epoch,
            )

    def available(self, offset: int, since: Position, epoch: int, *, follower: bool) -> int | None:
        """How many bytes a read at `offset`, which was at `since`, would find; None: answer now.

        That is: a log that was cut below it, or a new segment. NotLeaderOrFollower: another epoch.
        """
        with self._lock:
            leader = self._leading(epoch)
            end = leader.log.end_offset if follower else leader.high_watermark
            if end <= offset:
                # Of a new leader the high watermark may be lower for a while: no reason not to wait.
                return 0 if leader.log.end_offset >= offset else None
            reach = leader.log.end_below(end)
            return reach.byte - since.byte if reach.segment == since.segment else None

    def position(self, offset: int, epoch: int) -> Position:
        """Where it is in the leader's log."""
        with self._lock:
            return self._leading(epoch).log.position(offset)

    # Followers

    def agree(self, id: int) -> tuple[int, int] | None:
        """Cut a follower's log to where it agrees with the leader's: the offset to fetch from, and the epoch.

        None: there is nobody to follow, or it leads itself. O(1) once an epoch, and what is cut.
        """
        with self._lock:
            if self._leader is None or self._leader == id:
                return None
            replica, leader = self._replicas[id], self._replicas[self._leader]
            if replica.followed_epoch != self._epoch:
                _cut_back(replica.log, leader.log)
                replica.followed_epoch = self._epoch
            return replica.log.end_offset, self._epoch

    def append_as_follower(self, id: int, read: Read) -> bool:
        """Add what was read from the leader to a follower's log. False: its epoch has passed."""
        with self._lock:
            replica = self._replicas[id]
            if read.epoch != self._epoch or replica.followed_epoch != self._epoch:
                return False
            replica.log.append(read.data, list(cut(read.data)))
            replica.high_watermark = min(
                max(replica.high_watermark, read.high_watermark), replica.log.end_offset
            )
            return True

    def fetched(self, id: int, offset: int, epoch: int) -> bool:
        """P4: a follower fetches at `offset`. True: the high watermark moved. NotLeaderOrFollower: it has not
        agreed with the leader of this epoch, or has no such offset: it has lost its log since it asked.
        """
        with self._lock:
            leader, follower = self._leading(epoch), self._replicas[id]
            if follower.followed_epoch != epoch or offset > follower.log.end_offset:
                raise NotLeaderOrFollower(f"{self.name}: replica {id} does not have all below {offset}")
            follower.fetches(offset, leader.log.end_offset, self._time())
            if id not in self._isr and offset >= max(leader.high_watermark, self._epoch_start):
                self._save(self._epoch, self._leader, (*self._isr, id))
            return self._advance()

    def shrink(self) -> bool:
        """Take out of the in-sync set who has not caught up for `lag_max`. True: something has changed."""
        with self._lock:
            if self._leader is None:
                return False
            end, oldest = self._replicas[self._leader].log.end_offset, self._time() - self._lag_max
            kept = tuple(
                id
                for id in self._isr
                if id == self._leader
                or self._replicas[id].fetched_to >= end
                or self._replicas[id].caught_up_s > oldest
            )
            if kept == self._isr:
                return False
            self._save(self._epoch, self._leader, kept)
            self._advance()
            return True

    # Who leads

    def lead(self, id: int) -> None:
        """Let a replica in sync lead; what waits on the old one learns when it asks. LeaderNotAvailable."""
        with self._lock:
            if id not in self._isr:
                raise LeaderNotAvailable(f"{self.name}: a leader must be in sync, {self._isr}, got {id}")
            if id != self._leader:
                self._elect(id, self._isr)

    def lose(self, id: int) -> None:
        """A replica's disk is gone, and it has an empty one. If it led, another in sync leads, or nobody."""
        with self._lock:
            kept = tuple(other for other in self._isr if other != id)
            # P2: it is not in sync, on disk, before anything of it is gone.
            if self._leader == id:
                self._elect(self._furthest(kept), kept)
            elif id in self._isr:
                self._save(self._epoch, self._leader, kept)
                self._advance()
            replica = self._replicas[id]
            # A fetch of its that is under way says what it had.
            replica.followed_epoch, replica.fetched_to, replica.high_watermark = -1, 0, 0
            replica.log.truncate(0)

    def _furthest(self, isr: Iterable[int]) -> int | None:
        """Whose log ends last: the latest epoch, then the greatest offset. The leader among equals."""

        def reach(id: int) -> tuple[int, int, bool]:
            log = self._replicas[id].log
            return log.last_epoch, log.end_offset, id == self._leader

        return max(isr, key=reach, default=None)

    def _elect(self, leader: int | None, isr: tuple[int, ...]) -> None:
        self._save(self._epoch + 1, leader, isr)
        if leader is None:
            return
        replica = self._replicas[leader]
        replica.followed_epoch, self._epoch_start = self._epoch, replica.log.end_offset
        now = self._time()
        for follower in self._replicas.values():
            follower.begin_epoch(now)
        self._advance()

    def _save(self, epoch: int, leader: int | None, isr: tuple[int, ...]) -> None:
        """P2. OSError: nothing has changed."""
        State(epoch, leader, isr).save(self._state, flush=self._flush)
        self._epoch, self._leader, self._isr = epoch, leader, isr

    def close(self) -> None:
        """Close its files. Whoever asks it for something then is told. Idempotent."""
        with suppress(NotLeaderOrFollower), self._lock:
            self._lock.closed = True
            for replica in self._replicas.values():
                replica.log.close()


def _cut_back(log: Log, leader: Log) -> None:
    """Drop from the end of `log` what `leader` does not have: epoch by epoch, from the last."""
    while log.last_epoch >= 0:
        epoch, end = leader.end_of_epoch(log.last_epoch)
        if epoch == log.last_epoch:
            log.truncate(end)
            return
        log.truncate(min(end, log.end_of_epoch(epoch)[1]))
