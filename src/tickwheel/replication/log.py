"""The log of one replica of a partition: batches of records under dense offsets, in segments on disk."""

from __future__ import annotations

import re
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

from tickwheel.closing import Closing
from tickwheel.log import logger
from tickwheel.replication.batches import Batch
from tickwheel.replication.errors import OffsetOutOfRange
from tickwheel.replication.folders import flush_folder, make_folder
from tickwheel.replication.segment import Segment

__all__ = ["Log", "Position"]

_SEGMENT = re.compile(r"[0-9]{20}\.log")


class Position(NamedTuple):
    """Where an offset is: in which segment, at which byte of it. Both of one log can be compared."""

    segment: int  # its base offset
    byte: int


class Log(Closing):
    """An append-only log in `folder`, which is recovered as it is opened. One user at a time.

    L1 Offsets are dense: a batch begins where the one before it ended. L2 What `read` returns is whole
    batches; the first may begin below the offset asked for. L3 A failed append leaves the log as it was.

    Opening it is O(bytes); what is torn at its end is cut off.

    segment_bytes   a new segment is begun when an append would pass it
    flush           an append returns when the disk has it, in case the machine loses power
    """

    def __init__(self, folder: Path, *, segment_bytes: int = 1 << 30, flush: bool = False) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._flush = flush
        self._epochs: list[tuple[int, int]] = []  # (leader epoch, its first offset), both ascending
        make_folder(folder, flush=flush)
        self._segments = self._recovered()

    def _recovered(self) -> list[Segment]:
        bases = sorted(int(path.stem) for path in self._folder.iterdir() if _SEGMENT.fullmatch(path.name))
        if not bases:
            return [self._begin(0)]
        segments: list[Segment] = []
        try:
            for base in bases:
                # A segment was whole when the next one was begun; its readers check it again.
                self._recover(Segment(self._folder, base), segments, check=base == bases[-1])
        except BaseException:
            for segment in segments:
                segment.close()
            raise
        return segments

    def _recover(self, segment: Segment, segments: list[Segment], *, check: bool) -> None:
        """Add it to those before it, if it follows them. What it loses is said."""
        size = segment.size
        if segments and segments[-1].end_offset != segment.base_offset:
            logger().warning("%s follows nothing: its %d bytes are dropped", segment.path, size)
            segment.delete()
            return
        segments.append(segment)
        for batch in segment.recover(check=check):
            self._note_epoch(batch)
        if segment.size < size:
            logger().warning("%s was torn: %d bytes are cut off", segment.path, size - segment.size)

    def _begin(self, base_offset: int) -> Segment:
        segment = Segment(self._folder, base_offset)
        if self._flush:
            try:
                flush_folder(self._folder)
            except OSError:
                segment.delete()
                raise
        return segment

    def _note_epoch(self, batch: Batch) -> None:
        if not self._epochs or batch.leader_epoch > self._epochs[-1][0]:
            self._epochs.append((batch.leader_epoch, batch.base_offset))

    @property
    def start_offset(self) -> int:
        return self._segments[0].base_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._segments[-1].end_offset

    @property
    def end(self) -> Position:
        last = self._segments[-1]
        return Position(last.base_offset, last.size)

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last batch; -1: there is none."""
        return self._epochs[-1][0] if self._epochs else -1

    def append(self, data: bytes | bytearray, batches: list[Batch]) -> None:
        """Add batches, cut from `data` and stamped. O(bytes), one write. OSError: nothing was added."""
        if not batches:
            return
        if batches[0].base_offset != self.end_offset:
            raise OffsetOutOfRange(f"a batch must begin at {self.end_offset}, got {batches[0].base_offset}")
        last = self._segments[-1]
        last.mend()  # before another is begun, too: recovery takes all but the last for whole
        if last.size and last.size + len(data) > self._segment_bytes:
            last = self._begin(self.end_offset)
            self._segments.append(last)
        last.append(data, batches, flush=self._flush)
        for batch in batches:
            self._note_epoch(batch)

    def position(self, offset: int) -> Position:
        """Where the batch with this offset begins; for the end offset, the end. OffsetOutOfRange."""
        if offset == self.end_offset:
            return self.end
        segment, batch = self._find(offset)
        return Position(segment.base_offset, batch.start)

    def end_below(self, offset: int) -> Position:
        """Where the records below this offset end, of which there must be some: in the last one's segment."""
        segment = self._segment(offset - 1)
        end = segment.size if offset >= segment.end_offset else segment.find(offset).start
        return Position(segment.base_offset, end)

    def read(self, offset: int, max_bytes: int, until: int | None = None, *, oversize: bool = True) -> bytes:
        """Batches from the one with this offset on, of one segment, all of which end at or below `until`.

        At most `max_bytes`; with `oversize` the first batch at least, however large it is. Empty at the end.
        """
        until = self.end_offset if until is None else min(until, self.end_offset)
        if offset == self.end_offset:
            return b""
        segment, first = self._find(offset)
        if first.end_offset > until:
            return b""
        stop = segment.size if until >= segment.end_offset else segment.find(until).start
        if stop - first.start > max_bytes:
            stop = segment.boundary(first.start + max_bytes)
        if stop <= first.start and oversize:
            stop = first.start + first.size
        return segment.read(first.start, stop - first.start)

    def _find(self, offset: int) -> tuple[Segment, Batch]:
        if not self.start_offset <= offset < self.end_offset:
            raise OffsetOutOfRange(
                f"offset must be between {self.start_offset} and {self.end_offset}, got {offset}"
            )
        segment = self._segment(offset)
        return segment, segment.find(offset)

    def _segment(self, offset: int) -> Segment:
        number = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1
        return self._segments[number]

    def truncate(self, offset: int) -> bool:
        """Drop all records from this one on, with the batch that it is in. True: there were some.

        OSError: some may be gone, from the end on; what is left is whole.
        """
        if offset >= self.end_offset:
            return False
        segment, batch = self._find(max(offset, self.start_offset))
        try:
            while self._segments[-1] is not segment:
                self._segments[-1].delete()
                self._segments.pop()
            segment.truncate(batch.start, batch.base_offset)
        finally:
            while self._epochs and self._epochs[-1][1] >= self.end_offset:
                self._epochs.pop()
        return True

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The greatest epoch of this log that is not above `epoch`, and the offset at which it ended.

        (-1, start offset): it has none so old.
        """
        number = bisect_right(self._epochs, epoch, key=lambda entry: entry[0])
        if number == 0:
            return -1, self.start_offset
        end = self._epochs[number][1] if number < len(self._epochs) else self.end_offset
        return self._epochs[number - 1][0], end

    def offset_since(self, timestamp_ms: int) -> tuple[int, int] | None:
        """The first batch with a record so late: its offset and greatest timestamp. O(segments)."""
        for segment in self._segments:
            if segment.max_timestamp_ms >= timestamp_ms:
                batch = segment.first_since(timestamp_ms)
                if batch is not None:
                    return batch.base_offset, batch.max_timestamp_ms
        return None

    def close(self) -> None:
        for segment in self._segments:
            segment.close()
