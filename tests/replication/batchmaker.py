"""Record batches as a client makes them."""

import struct

from crc32c import crc32c


def batch(*values, timestamp_ms=0, base_offset=0, epoch=-1):
    """Bytes of one batch with a record for each value."""
    records = b"".join(_record(delta, value) for delta, value in enumerate(values))
    n = len(values)
    covered = struct.pack(">hiqqqhii", 0, n - 1, timestamp_ms, timestamp_ms, -1, -1, -1, n) + records
    rest = struct.pack(">ibI", epoch, 2, crc32c(covered)) + covered
    return struct.pack(">qi", base_offset, len(rest)) + rest


def _record(delta, value):
    body = b"\0" + _varint(0) + _varint(delta) + _varint(-1) + _varint(len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def _varint(n):
    n = n << 1 if n >= 0 else (-n << 1) - 1
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])
