"""What waits in the purgatories: a produce for its replicas, a fetch for its bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tickwheel._core import DelayedOperation
from tickwheel.replication.errors import PartitionError, RequestTimedOut
from tickwheel.replication.log import Position
from tickwheel.replication.partition import Appended, Partition, Read, TopicPartition

__all__ = ["DelayedFetch", "DelayedProduce", "DelayedRequest", "Fetched", "Produced", "Wanted"]

# What a request is answered with, by partition: what was asked for, or why not.
Produced = dict[TopicPartition, Appended | PartitionError]
Fetched = dict[TopicPartition, Read | PartitionError]


class DelayedRequest(DelayedOperation):
    """A request that is answered by `on_complete`, also where its purgatory does not complete it."""

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout)
        self._dropped = threading.Lock()  # held once it is

    def answer_dropped(self) -> None:
        """Its purgatory has dropped or refused it; both, if it is closed meanwhile: it is answered once."""
        if self._dropped.acquire(blocking=False):
            self.on_complete()


class DelayedProduce(DelayedRequest):
    """Completes when all that was appended is replicated, or when that has become impossible.

    `done` is called once, with an answer for each partition: RequestTimedOut for those that are not
    replicated after `timeout` seconds, or when the log is closed.
    """

    def __init__(
        self,
        timeout: float,
        waiting: Mapping[Partition, Appended],
        answers: Produced,
        done: Callable[[Produced], object],
    ) -> None:
        super().__init__(timeout)
        self._timeout = timeout
        self._waiting = dict(waiting)
        self._answers = dict(answers)  # of the others
        self._settled: Produced = {}
        self._done = done

    def try_complete(self) -> bool:
        for partition, appended in self._waiting.items():
            if partition.name in self._settled:
                continue
            try:
                if partition.replicated(appended.end_offset, appended.epoch):
                    self._settled[partition.name] = appended
            except PartitionError as error:
                self._settled[partition.name] = error
        return len(self._settled) == len(self._waiting)

    def on_complete(self) -> None:
        late: Produced = {
            partition.name: RequestTimedOut(
                f"{partition.name} up to {appended.end_offset} must be replicated within {self._timeout} s"
            )
            for partition, appended in self._waiting.items()
            if partition.name not in self._settled
        }
        self._done({**self._answers, **late, **self._settled})


class Wanted(NamedTuple):
    """From where on a partition is read, and what was found there at first."""

    partition: Partition
    offset: int
    max_bytes: int
    position: Position  # of the offset
    epoch: int


class DelayedFetch(DelayedRequest):
    """Completes when there are `min_bytes`, or when waiting has become pointless.

    Pointless: another leader, a log cut below the offset, a new segment, or `outdated()`. `done` is
    called once, after `timeout` seconds at the latest, and then reads what there is.
    """

    def __init__(
        self,
        timeout: float,
        wanted: Iterable[Wanted],
        min_bytes: int,
        done: Callable[[], object],
        *,
        follower: bool = False,
        outdated: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(timeout)
        self._wanted = tuple(wanted)
        self._min_bytes = min_bytes
        self._done = done
        self._follower = follower
        self._outdated = outdated

    def try_complete(self) -> bool:
        if self._outdated():
            return True
        total = 0
        for partition, offset, max_bytes, position, epoch in self._wanted:
            try:
                there = partition.available(offset, position, epoch, follower=self._follower)
            except PartitionError:
                return True  # the reading will say which
            if there is None:
                return True
            total += min(there, max_bytes)
        return total >= self._min_bytes

    def on_complete(self) -> None:
        self._done()
