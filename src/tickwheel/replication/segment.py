"""One file of a log: batches one after the other, and an index in memory of where offsets are in it."""

from __future__ import annotations

import errno
import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import SEEK_END, FileIO
from pathlib import Path

from tickwheel.replication.batches import HEADER_SIZE, Batch, cut, header
from tickwheel.replication.errors import CorruptBatch

INDEX_EVERY = 4096  # bytes between two entries, at least
_READ = 1 << 20


class Segment:
    """The batches from `base_offset` on. One user at a time: the partition's lock is around it.

    An append is one write, which is in the file, if not on the disk, when it returns.
    """

    def __init__(self, folder: Path, base_offset: int) -> None:
        self.base_offset = base_offset
        self.path = folder / f"{base_offset:020}.log"
        self._file = FileIO(self.path, "a+")  # every write goes to the end, wherever it was read before
        self.size = self._file.seek(0, SEEK_END)
        self._torn = False  # a write that failed has left bytes after `size`
        self._forget()

    def _forget(self) -> None:
        self.end_offset = self.base_offset
        # The index, ascending and in step: at each of these offsets and positions a batch begins. `_latest`
        # is the greatest timestamp from the file's first batch to the last before the next entry.
        self._offsets, self._positions, self._latest = array("q"), array("q"), array("q")

    @property
    def max_timestamp_ms(self) -> int:
        """The greatest of its batches; -1: it has none."""
        return self._latest[-1] if self._latest else -1

    # Writing

    def append(self, data: bytes | bytearray, batches: Iterable[Batch], *, flush: bool = False) -> None:
        """Write them at the end. OSError: nothing has been added. Call `mend` before."""
        start = self.size
        try:
            written = self._file.write(data)
            if written != len(data):  # the disk is full: what did go in is no whole batch
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            if flush:
                os.fsync(self._file.fileno())
        except OSError:
            self._torn = True
            with suppress(OSError):  # a disk that refuses this too is asked again before the next append
                self.mend()
            raise
        for batch in batches:
            self._note(batch, start + batch.start)
        self.size = start + len(data)

    def mend(self) -> None:
        """Cut off what a failed append has left, if that was refused then. OSError: it is again."""
        if self._torn:
            self._file.truncate(self.size)
            self._torn = False

    def _note(self, batch: Batch, position: int) -> None:
        latest = max(self.max_timestamp_ms, batch.max_timestamp_ms)
        if not self._positions or position - self._positions[-1] >= INDEX_EVERY:
            self._offsets.append(batch.base_offset)
            self._positions.append(position)
            self._latest.append(latest)
        else:
            self._latest[-1] = latest
        self.end_offset = batch.end_offset

    def truncate(self, position: int, end_offset: int) -> None:
        """Cut off all from a position on, where the batch with `end_offset` begins. OSError: nothing was."""
        keep = bisect_left(self._positions, position)
        latest = max(
            self._latest[keep - 2] if keep >= 2 else -1,
            *(batch.max_timestamp_ms for batch in self._entry(keep - 1) if batch.start < position),
            -1,
        )
        self._file.truncate(position)
        self.size, self.end_offset = position, end_offset
        del self._offsets[keep:], self._positions[keep:], self._latest[keep:]
        if keep:
            self._latest[-1] = latest

    # Reading

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from there."""
        self._file.seek(position)
        chunks = []
        while size > 0 and (chunk := self._file.read(size)):
            chunks.append(chunk)
            size -= len(chunk)
        return b"".join(chunks)

    def find(self, offset: int) -> Batch:
        """The batch that has this offset, which is here, at its position. O(log(size) + INDEX_EVERY)."""
        entry = bisect_right(self._offsets, offset) - 1
        for batch in self._entry(entry):
            if offset < batch.end_offset:
                return batch
        raise CorruptBatch(f"{self.path} must have offset {offset}, and has it no more")

    def boundary(self, position: int) -> int:
        """Where the last batch ends that does not reach beyond this position. O(log(size) + INDEX_EVERY)."""
        if position >= self.size:
            return self.size
        entry = bisect_right(self._positions, position) - 1
        return next((batch.start for batch in self._entry(entry) if batch.start + batch.size > position), 0)

    def first_since(self, timestamp_ms: int) -> Batch | None:
        """The first batch with a timestamp as late as this. O(log(size) + INDEX_EVERY)."""
        entry = bisect_left(self._latest, timestamp_ms)
        return next((batch for batch in self._entry(entry) if batch.max_timestamp_ms >= timestamp_ms), None)

    def _entry(self, number: int) -> Iterator[Batch]:
        """The batches from this entry of the index to the next: one read, as their headers are close."""
        if not 0 <= number < len(self._positions):
            return
        start = self._positions[number]
        stop = self._positions[number + 1] if number + 1 < len(self._positions) else self.size
        data = self.read(start, min(stop - start, INDEX_EVERY + HEADER_SIZE))
        at = 0
        while start + at < stop:
            batch = header(data, at, start)
            yield batch
            at += batch.size

    # Opening

    def recover(self, *, check: bool) -> Iterator[Batch]:
        """Read the file once, index it and, after the last, cut off what is no batch or does not follow.

        The batches that are good, at their positions; with `check` their checksums are. O(bytes).
        """
        self._forget()
        position = 0
        for batch in self._batches(check=check):
            if batch.base_offset != self.end_offset:
                break
            self._note(batch, batch.start)
            position = batch.start + batch.size
            yield batch
        if position < self.size:
            self._file.truncate(position)
            self.size = position

    def _batches(self, *, check: bool) -> Iterator[Batch]:
        """All batches of the file; ends where they are torn."""
        position, want = 0, _READ
        while position < self.size:
            data = self.read(position, want)
            taken = 0
            with suppress(CorruptBatch):
                for batch in cut(data, check=check, origin=position):
                    yield batch
                    taken = batch.start + batch.size - position
            position, want = position + taken, _READ
            if taken == 0:  # torn, unless it is only longer than what was read
                try:
                    want = header(data).size
                except CorruptBatch:
                    return
                if want <= len(data) or position + want > self.size:
                    return

    # The end

    def close(self) -> None:
        self._file.close()

    def delete(self) -> None:
        """OSError: it is still there, and open."""
        self.path.unlink()
        self.close()
