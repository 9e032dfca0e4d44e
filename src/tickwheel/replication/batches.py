"""Record batches as bytes: cut, checked and stamped. Kafka's format, version 2.

A broker needs the header of a batch and leaves the records as they are, compressed or not; kio reads a
batch record by record, in Python, so the header is read here. Base offset and leader epoch, which the broker
stamps, stand before what the checksum covers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tickwheel.extras import require
from tickwheel.replication.errors import CorruptBatch

_crc32c = require("crc32c", "a replicated log", "broker").crc32c

# base offset, length of what follows, leader epoch, magic, crc, attributes, last offset delta, first and
# last timestamp, producer id, epoch and sequence, count
_HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = _HEADER.size
_PREFIX = struct.Struct(">qi")  # base offset and length: what the length does not count
_STAMP = struct.Struct(">qii")  # the same and the leader epoch
_CRC = struct.Struct(">I")
_COVERED = 21  # the checksum covers all from here on
MAGIC = 2


class Batch(NamedTuple):
    """What a log wants to know of a batch, and where it is in the bytes that it was cut from."""

    start: int
    size: int  # in bytes
    base_offset: int
    leader_epoch: int
    records: int  # of which each has an offset
    max_timestamp_ms: int

    @property
    def end_offset(self) -> int:
        """The offset after its last record."""
        return self.base_offset + self.records


def header(data: bytes | bytearray | memoryview, start: int = 0, origin: int = 0) -> Batch:
    """The batch that begins there, of which only the header need be there. CorruptBatch: none does.

    `origin`: where `data` begins in what its `start` is to be counted from.
    """
    if len(data) - start < HEADER_SIZE:
        raise CorruptBatch(
            f"a batch must have {HEADER_SIZE} bytes at least, got {len(data) - start} at {start}"
        )
    base_offset, length, epoch, magic, _, _, last_delta, _, max_timestamp_ms, _, _, _, count = (
        _HEADER.unpack_from(data, start)
    )
    if magic != MAGIC:
        raise CorruptBatch(f"magic must be {MAGIC}, got {magic} at {start}")
    if length < HEADER_SIZE - _PREFIX.size:
        raise CorruptBatch(f"length must be at least {HEADER_SIZE - _PREFIX.size}, got {length} at {start}")
    if count < 1 or last_delta != count - 1:
        raise CorruptBatch(
            f"a batch must have a record for each offset, got {count} for {last_delta + 1} at {start}"
        )
    return Batch(origin + start, _PREFIX.size + length, base_offset, epoch, count, max_timestamp_ms)


def cut(data: bytes | bytearray | memoryview, *, check: bool = True, origin: int = 0) -> Iterator[Batch]:
    """Each batch of a run of them. O(bytes) with `check`, O(batches) without.

    CorruptBatch where the run breaks off or, with `check`, a checksum is wrong; those before it were good.
    """
    view, start = memoryview(data), 0
    while start < len(view):
        batch = header(view, start, origin)
        end = start + batch.size
        if end > len(view):
            raise CorruptBatch(
                f"a batch must be whole, got {len(view) - start} of {batch.size} bytes at {start}"
            )
        if (
            check
            and _crc32c(view[start + _COVERED : end])
            != _CRC.unpack_from(view, start + _COVERED - _CRC.size)[0]
        ):
            raise CorruptBatch(f"the checksum must fit what it covers, got another at {start}")
        yield batch
        start = end


def stamp(data: bytes | bytearray, base_offset: int, leader_epoch: int) -> tuple[bytearray, list[Batch]]:
    """The run of batches with dense offsets from `base_offset` on, in a copy, and what is in it.

    CorruptBatch: there is none, one is not whole, or a checksum is wrong.
    """
    if not data:
        raise CorruptBatch("there must be a batch at least, got none")
    stamped, batches = bytearray(data), []
    for batch in cut(data):
        _STAMP.pack_into(stamped, batch.start, base_offset, batch.size - _PREFIX.size, leader_epoch)
        batches.append(batch._replace(base_offset=base_offset, leader_epoch=leader_epoch))
        base_offset += batch.records
    return stamped, batches
