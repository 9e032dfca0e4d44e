"""Rows of many columns as a few rows of bytes, and back: what crosses between Spark and the shards.

Each row that `transformWithState` hands to Python costs a socket's round trip's share and, in pandas, a
conversion of each value. So the rows of a shard travel as one Arrow batch inside a binary column, packed
and unpacked by `mapInArrow`, which converts nothing.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

PACKED = "shard int, rows binary"
PACK_ROWS = 1 << 16     # of an output pack: bounds what one row weighs


def pack(batches: Iterable[Any]) -> Iterator[Any]:
    """For `mapInArrow`: rows with an int column `shard`, packed by it. First comes an empty pack for shard 0,
    whose state is thereby looked at in every batch: see `processor`. O(n log n) in the rows of a batch."""
    yield _packs([0], [b""])
    for batch in batches:
        numbers = batch.column("shard").to_numpy()
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        rows = in_utc(pa.Table.from_batches([batch]).drop_columns("shard")).take(order)
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        ends = [*starts[1:], len(numbers)][: len(starts)]
        parts = [rows.slice(start, end - start) for start, end in zip(starts, ends, strict=True)]
        yield _packs(numbers[starts], [to_bytes(part) for part in parts])


def _packs(shards: Sequence[int], packs: list[bytes]) -> Any:
    return pa.record_batch([pa.array(shards, pa.int32()), pa.array(packs, pa.binary())], ["shard", "rows"])


def in_utc(rows: Any) -> Any:
    """Instants are the same in every time zone; the name of the session's must not get into the state."""
    utc = pa.timestamp("us", "UTC")
    fields = [
        field.with_type(utc) if pa.types.is_timestamp(field.type) and field.type.tz else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


def unpack(batches: Iterable[Any]) -> Iterator[Any]:
    """For `mapInArrow`: the rows of the packs in a column `rows`."""
    for batch in batches:
        for data in batch.column("rows"):
            yield from from_bytes(data.as_buffer()).to_batches()


def to_packs(rows: Any) -> list[bytes]:
    """A table as packs of at most PACK_ROWS."""
    return [to_bytes(rows.slice(start, PACK_ROWS)) for start in range(0, rows.num_rows, PACK_ROWS)]


def from_packs(packs: Iterable[bytes]) -> Any:
    """The packs' rows in one table; None if there are none."""
    tables = [from_bytes(pack) for pack in packs if pack]
    return pa.concat_tables(tables) if tables else None


def to_bytes(rows: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_bytes(data: Any) -> Any:
    return pa.ipc.open_stream(data).read_all()
