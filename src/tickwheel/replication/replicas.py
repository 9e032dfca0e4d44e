"""ReplicaManager: topics and their partitions, and the two purgatories in which their requests wait."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from tickwheel.closing import Closing
from tickwheel.log import logger
from tickwheel.metrics import PurgatoryStats
from tickwheel.purgatory import DelayedOperationPurgatory
from tickwheel.replication.errors import (
    InvalidRequiredAcks,
    NotLeaderOrFollower,
    PartitionError,
    StorageError,
)
from tickwheel.replication.log import Log
from tickwheel.replication.operations import (
    DelayedFetch,
    DelayedProduce,
    DelayedRequest,
    Fetched,
    Produced,
    Wanted,
)
from tickwheel.replication.partition import Appended, Partition, Read, TopicPartition
from tickwheel.replication.topics import Topics
from tickwheel.timer import Timer

__all__ = ["Following", "From", "ReplicaManager"]

MOST = 100  # replicas: each has a thread, and a file a partition
SHORTEST_LAG = 0.001
ALL = -1  # acks: every replica in sync
Answers = TypeVar("Answers")
TOPOLOGY = "topology"  # the key that followers watch besides their partitions: who leads what


class From(NamedTuple):
    """Where a partition is read; `epoch` is what the reader believes, -1 where it does not say."""

    offset: int
    max_bytes: int
    epoch: int = -1


class LogEnd(NamedTuple):
    """What followers watch of a partition; consumers and produces watch its high watermark: its name."""

    partition: TopicPartition


class Following(NamedTuple):
    """Which replica fetches, and what `topology` was before it looked where its logs end."""

    id: int
    topology: int


class ReplicaManager(Closing):
    """Partitions with `replicas` copies each under the folder `data`; the requests to them, and who waits.

    Thread-safe. `done` callbacks are called once, in the thread whose append, fetch or timeout completed the
    request, which holds no lock then; what they raise is logged.

    replicas        copies of each partition
    min_isr         how many must be in sync for acks=all
    lag_max         seconds without having had all, after which a replica is out of sync
    segment_bytes   of a file of a log, about
    flush           wait for the disk with each append, in case the machine loses power
    timer           of the timeouts; None for one of its own, which it closes

    ValueError: an argument, or a file of `data`. OSError, StorageError: `data` cannot be read or written.
    """

    def __init__(
        self,
        data: Path,
        *,
        replicas: int = 3,
        min_isr: int = 1,
        lag_max: float = 10.0,
        segment_bytes: int = 1 << 30,
        flush: bool = False,
        timer: Timer | None = None,
    ) -> None:
        if not 1 <= replicas <= MOST:
            raise ValueError(f"replicas must be between 1 and {MOST}, got {replicas}")
        if not 1 <= min_isr <= replicas:
            raise ValueError(f"min_isr must be between 1 and replicas ({replicas}), got {min_isr}")
        if not SHORTEST_LAG <= lag_max < math.inf:
            raise ValueError(f"lag_max must be >= {SHORTEST_LAG} s and finite, got {lag_max}")
        if segment_bytes < 1:
            raise ValueError(f"segment_bytes must be >= 1, got {segment_bytes}")
        self.lag_max = lag_max
        self._owns_timer = timer is None
        self._timer = Timer(name="replication") if timer is None else timer
        try:
            self._topics = Topics(
                data,
                range(replicas),
                partial(Log, segment_bytes=segment_bytes, flush=flush),
                partial(Partition, min_isr=min_isr, lag_max=lag_max, flush=flush, time=self._timer.time),
                flush=flush,
            )
        except BaseException:
            if self._owns_timer:
                self._timer.close()
            raise
        self._lock = threading.Lock()  # of these two; no other is taken in it
        self._topology = 0
        self._closed = False
        self._produces = DelayedOperationPurgatory("produce", timer=self._timer)
        self._fetches = DelayedOperationPurgatory("fetch", timer=self._timer)
        self._shrinking = self._timer.schedule_every(lag_max / 2, self.shrink)

    # Topics

    def create_topic(self, topic: str, partitions: int) -> None:
        """Make it, on disk too. TopicExists, InvalidTopic, StorageError; ValueError: how many partitions."""
        self._topics.create(topic, partitions)
        self._changed()

    def topics(self) -> dict[str, tuple[Partition, ...]]:
        """All topics and their partitions, as they are now."""
        return self._topics.all()

    def partition(self, name: TopicPartition) -> Partition:
        """UnknownTopicOrPartition: there is none of this name."""
        return self._topics.partition(name)

    # Who leads, who is in sync

    def lead(self, name: TopicPartition, id: int) -> None:
        """Let another replica in sync lead; what waits on the old one is told. LeaderNotAvailable."""
        self.partition(name).lead(id)
        self._changed(name)

    def lose(self, id: int) -> None:
        """Replica `id` has lost its disk, and begins with empty logs; where it led, another one leads.

        StorageError: that partition, and perhaps others, are as they were.
        """
        for partition in self._topics:
            try:
                partition.lose(id)
            finally:
                self._changed(partition.name)

    def shrink(self) -> None:
        """Take replicas out of the in-sync sets that have fallen behind: every half `lag_max`."""
        for partition in self._topics:
            try:
                if partition.shrink():
                    self._check(partition.name)
            except NotLeaderOrFollower:
                return  # closed meanwhile
            except StorageError as error:
                logger().warning("a replica that has fallen behind stays in sync: %s", error)

    @property
    def topology(self) -> int:
        """Who leads what: raised with each change of it."""
        return self._topology

    def _changed(self, name: TopicPartition | None = None) -> None:
        with self._lock:
            self._topology += 1
        self._fetches.check_and_complete(TOPOLOGY)
        if name is not None:
            self._check(name)

    def _check(self, name: TopicPartition) -> None:
        """Its high watermark moved, or those in sync did. The caller holds no lock."""
        self._produces.check_and_complete(name)
        self._fetches.check_and_complete(name)

    # Records come

    def append(
        self,
        records: Mapping[TopicPartition, bytes],
        acks: int,
        timeout: float,
        done: Callable[[Produced], object],
    ) -> None:
        """Append batches to partitions, each by itself, and call `done` with an answer for each.

        acks 0 and 1: at once. -1: when every replica in sync has them, or after `timeout` seconds.
        ValueError: the timeout is NaN or infinite.
        """
        _check_finite(timeout, "timeout")
        answer = partial(_answer, done)
        answers: Produced = {}
        waiting: dict[Partition, Appended] = {}
        for name, data in records.items():
            try:
                if acks not in (0, 1, ALL):
                    raise InvalidRequiredAcks(f"acks must be 0, 1 or -1, got {acks}")
                partition = self.partition(name)
                appended = answers[name] = partition.append(data, all_in_sync=acks == ALL)
                waiting[partition] = appended
            except PartitionError as error:
                answers[name] = error
        for partition, appended in waiting.items():
            self._fetches.check_and_complete(LogEnd(partition.name))
            if appended.high_watermark_moved:
                self._check(partition.name)
        if acks == ALL and waiting:
            produce = DelayedProduce(timeout, waiting, answers, answer)
            _wait(self._produces, produce, [partition.name for partition in waiting])
        else:
            answer(answers)

    # Records go

    def fetch(
        self,
        positions: Mapping[TopicPartition, From],
        *,
        min_bytes: int = 1,
        max_bytes: int = 50 << 20,
        max_wait: float = 0.5,
        done: Callable[[Fetched], object],
        follower: Following | None = None,
    ) -> None:
        """Read partitions, and call `done` with an answer for each: at once where there are `min_bytes` or an
        error, else once there are, and after `max_wait` seconds with what there is.

        At most `max_bytes`, but the first batch that there is at least. A follower reads all, and thereby
        says what it has; consumers read what is below the high watermark. ValueError: max_wait is NaN or
        infinite.
        """
        _check_finite(max_wait, "max_wait")
        answer = partial(_answer, done)
        if follower is not None:
            self._note(follower.id, positions)
        read = partial(self._read, positions, max_bytes, follower is not None)
        answers = read()
        found = sum(len(read.data) for read in answers.values() if isinstance(read, Read))
        failed = any(isinstance(read, PartitionError) for read in answers.values())
        # Each watches what lets it read on: an append that is not safe yet is nothing to 2,000 consumers.
        keys = [*positions] if follower is None else [*map(LogEnd, positions), TOPOLOGY]
        if found >= min_bytes or failed or max_wait <= 0 or not keys:
            answer(answers)
            return
        try:
            wanted = [self._wanted(name, positions[name], read) for name, read in answers.items()]
        except PartitionError:  # it changed since it was read
            answer(read())
            return
        fetch = DelayedFetch(
            max_wait,
            wanted,
            min_bytes,
            lambda: answer(read()),
            follower=follower is not None,
            outdated=lambda: follower is not None and self._topology != follower.topology,
        )
        _wait(self._fetches, fetch, keys)

    def _note(self, follower: int, positions: Mapping[TopicPartition, From]) -> None:
        for name, (offset, _, epoch) in positions.items():
            try:
                moved = self.partition(name).fetched(follower, offset, epoch)
            except StorageError as error:
                logger().warning("replica %d does not get in sync: %s", follower, error)
                continue
            except PartitionError:
                continue  # the reading says so
            if moved:
                self._check(name)

    def _read(self, positions: Mapping[TopicPartition, From], left: int, follower: bool) -> Fetched:
        answers: Fetched = {}
        empty = True
        for name, (offset, most, epoch) in positions.items():
            try:
                # The first batch of all is given though it is too large: else its reader would never get on.
                read = answers[name] = self.partition(name).read(
                    offset, min(most, left), follower=follower, epoch=epoch, oversize=empty
                )
                left = max(0, left - len(read.data))
                empty = empty and not read.data
            except PartitionError as error:
                answers[name] = error
            except Exception as error:  # no memory, say: who waits for the answer must have one
                logger().exception("%s could not be read", name)
                answers[name] = StorageError(f"{name} could not be read: {error!r}")
        return answers

    def _wanted(self, name: TopicPartition, start: From, read: Read | PartitionError) -> Wanted:
        if isinstance(read, PartitionError):
            raise read
        partition = self.partition(name)
        return Wanted(
            partition, start.offset, start.max_bytes, partition.position(start.offset, read.epoch), read.epoch
        )

    # The end

    def stats(self) -> tuple[PurgatoryStats, PurgatoryStats]:
        """Of the purgatories in which produces and fetches wait."""
        return self._produces.stats(), self._fetches.stats()

    @property
    def timer(self) -> Timer:
        return self._timer

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Answer what waits, with what there is, and close all files. Idempotent.

        Calls that are under way are answered too; what comes later is answered NotLeaderOrFollower.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._shrinking.cancel()
        for purgatory in (self._produces, self._fetches):
            for operation in purgatory.close():
                assert isinstance(operation, DelayedRequest)
                operation.answer_dropped()  # perhaps while another thread is in its try_complete
        self._topics.close()
        if self._owns_timer:
            self._timer.close()


def _check_finite(seconds: float, name: str) -> None:
    if not math.isfinite(seconds):
        raise ValueError(f"{name} must be finite, got {seconds}")


def _answer(done: Callable[[Answers], object], answers: Answers) -> None:
    try:
        done(answers)
    except Exception:
        logger().exception("%r raised when it was called with the answers to its request", done)


def _wait(purgatory: DelayedOperationPurgatory, operation: DelayedRequest, keys: Iterable[object]) -> None:
    """Let an operation wait; where it cannot, it is answered now."""
    try:
        purgatory.try_complete_else_watch(operation, keys)
    except RuntimeError:  # closed meanwhile, or its timer is full
        if not operation.is_completed:
            operation.answer_dropped()
