"""Topics: which there are under a folder, and the partitions of each."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

from tickwheel.replication.errors import InvalidTopic, StorageError, TopicExists, UnknownTopicOrPartition
from tickwheel.replication.folders import make_folder
from tickwheel.replication.log import Log
from tickwheel.replication.partition import Partition, TopicPartition

__all__ = ["Topics"]

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_STATE = re.compile(r"[0-9]{1,5}\.json")
MOST = 10_000


class Topics:
    """The topics of the folder `data`. Thread-safe; iterates over all partitions.

    topics/<topic>/<number>.json        the state of a partition: a topic is what has such files
    replica-<id>/<topic>-<number>/      the log of one of its replicas

    Opens all that are there; other files are left alone. `flush`: until the folders' names are on the disk.
    ValueError: a file is not what it should be; OSError, StorageError.
    """

    def __init__(
        self,
        data: Path,
        ids: Iterable[int],
        open_log: Callable[[Path], Log],
        open_partition: Callable[[TopicPartition, dict[int, Log], Path], Partition],
        *,
        flush: bool = False,
    ) -> None:
        self._data = data
        self._ids = tuple(ids)
        self._open_log, self._open_partition = open_log, open_partition
        self._lock = threading.Lock()  # held while topics are made, and of others only partitions' in it
        self._topics: dict[str, tuple[Partition, ...]] = {}
        self._states = data / "topics"
        self._flush = flush
        # From the outside in: else their names would be on the disk and not that of the folder they are in.
        for outer in (data, self._states, *(self._replica(id) for id in self._ids)):
            make_folder(outer, flush=flush)
        try:
            for folder in sorted(self._states.iterdir()):
                for unfinished in folder.glob(".*.part"):  # of a process that was killed while it saved
                    unfinished.unlink()
                numbers = [int(path.stem) for path in folder.glob("*.json") if _STATE.fullmatch(path.name)]
                if numbers:
                    self._topics[folder.name] = self._opened(folder.name, max(numbers) + 1)
        except BaseException:
            self.close()
            raise

    def create(self, topic: str, partitions: int) -> None:
        """Make it, on disk too. TopicExists, InvalidTopic, StorageError; ValueError: how many partitions."""
        if not 1 <= partitions <= MOST:
            raise ValueError(f"partitions must be between 1 and {MOST}, got {partitions}")
        if not _NAME.fullmatch(topic) or topic in (".", ".."):
            raise InvalidTopic(f"topic must be 1 to 249 of a-z, A-Z, 0-9, '.', '_', '-', got {topic!r}")
        with self._lock:
            if topic in self._topics:
                raise TopicExists(f"topic must be new, got {topic!r}")
            try:
                self._topics[topic] = self._opened(topic, partitions)
            except (OSError, StorageError) as error:
                shutil.rmtree(self._states / topic, ignore_errors=True)
                raise StorageError(f"{topic}: {error}") from error

    def _replica(self, id: int) -> Path:
        return self._data / f"replica-{id}"

    def _opened(self, topic: str, partitions: int) -> tuple[Partition, ...]:
        make_folder(self._states / topic, flush=self._flush)
        with ExitStack() as undo:
            opened = []
            # From the last on: if this process is killed meanwhile, the next one sees how many there are.
            for number in reversed(range(partitions)):
                opened.append(self._opened_partition(TopicPartition(topic, number)))
                undo.callback(opened[-1].close)
            undo.pop_all()
        return tuple(reversed(opened))

    def _opened_partition(self, name: TopicPartition) -> Partition:
        with ExitStack() as undo:
            logs = {
                id: undo.enter_context(self._open_log(self._replica(id) / str(name)))
                for id in self._ids
            }
            partition = self._open_partition(name, logs, self._states / name.topic / f"{name.number}.json")
            undo.pop_all()
        return partition

    def all(self) -> dict[str, tuple[Partition, ...]]:
        """As they are now."""
        with self._lock:
            return dict(self._topics)

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self.all().values():
            yield from partitions

    def partition(self, name: TopicPartition) -> Partition:
        """UnknownTopicOrPartition: there is none of this name."""
        partitions = self._topics.get(name.topic, ())
        if not 0 <= name.number < len(partitions):
            raise UnknownTopicOrPartition(f"{name} must be the name of a partition, and is none")
        return partitions[name.number]

    def close(self) -> None:
        """Close all partitions. Idempotent."""
        for partition in self:
            partition.close()
