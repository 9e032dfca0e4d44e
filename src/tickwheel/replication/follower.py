"""Follower: a thread that copies what the leaders have into the logs of one replica."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from tickwheel.log import logger
from tickwheel.replication.errors import (
    FencedLeaderEpoch,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    PartitionError,
)
from tickwheel.replication.operations import Fetched
from tickwheel.replication.partition import TopicPartition
from tickwheel.replication.replicas import Following, From, ReplicaManager

__all__ = ["Copying", "Follower"]

MAX_WAIT_S = 0.5  # a fetch without records, after which it says again that it is there
MAX_BYTES = 10 << 20
RETRY_S = 0.1  # a partition with an error is left out for that long
_MOVED = (FencedLeaderEpoch, LeaderNotAvailable, NotLeaderOrFollower)  # the next fetch asks the new leader


class Copying:
    """What a follower does, in two steps, one after the other: `ask` the leaders, `take` their answers."""

    def __init__(self, manager: ReplicaManager, id: int) -> None:
        self.id = id
        self._manager = manager
        self._left_out: dict[TopicPartition, float] = {}  # until when
        self._taken = 0  # answers
        self._fed: dict[TopicPartition, int] = {}  # with which of them records came

    def ask(self, done: Callable[[Fetched], object]) -> None:
        """One fetch for all partitions, from where this replica's logs end; it waits while there is none."""
        manager = self._manager
        now = manager.timer.time()
        self._left_out = {name: until for name, until in self._left_out.items() if until > now}
        topology, positions = manager.topology, {}
        for partitions in manager.topics().values():
            for partition in partitions:
                if partition.name in self._left_out:
                    continue
                try:
                    agreed = partition.agree(self.id)
                except PartitionError as error:
                    self._leave_out(partition.name, error)
                    continue
                if agreed is not None:
                    offset, epoch = agreed
                    positions[partition.name] = From(offset, MAX_BYTES, epoch)
        manager.fetch(
            # One that always has MAX_BYTES would else leave nothing for those behind it.
            dict(sorted(positions.items(), key=lambda item: self._fed.get(item[0], 0))),
            # Twice at least in the time after which it would count as fallen behind.
            max_wait=min(RETRY_S if self._left_out else MAX_WAIT_S, manager.lag_max / 2),
            max_bytes=MAX_BYTES,
            done=done,
            follower=Following(self.id, topology),
        )

    def take(self, answers: Fetched) -> None:
        """Append what came. A partition that fails does not hold up the others."""
        self._taken += 1
        for name, read in answers.items():
            try:
                if isinstance(read, PartitionError):
                    raise read
                if read.data:
                    self._fed[name] = self._taken
                    self._manager.partition(name).append_as_follower(self.id, read)
            except _MOVED:
                pass
            except PartitionError as error:
                self._leave_out(name, error)

    def _leave_out(self, name: TopicPartition, error: PartitionError) -> None:
        if not isinstance(error, _MOVED):
            logger().warning("follower %d tries %s again in %s s: %s", self.id, name, RETRY_S, error)
            self._left_out[name] = self._manager.timer.time() + RETRY_S


class Follower:
    """Replica `id` follows wherever it does not lead, with one fetch at a time, which waits in the
    purgatory while there is nothing: in a thread, until `stop()` or until the manager is closed.
    """

    def __init__(self, manager: ReplicaManager, id: int) -> None:
        self.id = id
        self._manager = manager
        self._copying = Copying(manager, id)
        self._runs = threading.Event()
        self._runs.set()
        self._stopping = threading.Event()
        self._answers: SimpleQueue[Fetched] = SimpleQueue()
        self._thread = threading.Thread(target=self._follow, name=f"follower-{id}", daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Fetch no more until `resume()`: a follower that has stalled."""
        self._runs.clear()

    def resume(self) -> None:
        self._runs.set()

    def stop(self) -> None:
        """End, at once if it waits. Idempotent; not from its own thread."""
        self._stopping.set()
        self._runs.set()
        self._answers.put({})
        self._thread.join()

    def _follow(self) -> None:
        while self._runs.wait() and not self._stopping.is_set() and not self._manager.closed:
            try:
                self._copying.ask(self._answers.put)
                self._copying.take(self._answers.get())
            except Exception:
                logger().exception("follower %d tries again in %s s", self.id, RETRY_S)
                self._stopping.wait(RETRY_S)
