"""Columns of an Arrow batch as times and as text, the same that `str(value)` of each cell would give."""
from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tickwheel.units import NEVER, UNITS, from_ns, to_ns

EXACT = float(1 << 52)      # below it a double's neighbours are less than 1 away
NONE = pa.scalar(None, pa.float64())


def times_ns(column: Any, unit: str) -> Any:
    """An int64 array of nanoseconds, null where the column is null or "". ValueError: a value is no time.

    Each value is what `to_ns(str(value), unit)` says, but a timestamp (as since the epoch, in UTC) and
    a duration have a unit of their own. Numbers and times cost a few ns a value, others some 500 ns.
    """
    kind = column.type
    if own_unit(column):
        ns = pc.multiply_checked(column.cast(pa.int64()), UNITS[kind.unit])
    elif pa.types.is_null(kind) or pa.types.is_integer(kind):
        ns = pc.multiply_checked(column.cast(pa.int64()), UNITS[unit])
    elif pa.types.is_float32(kind) or pa.types.is_float64(kind):
        ns = _floats_ns(column.cast(pa.float64()), unit)
    else:
        ns = _texts_ns(column, unit)
    if pc.any(pc.equal(ns, NEVER)).as_py():
        raise ValueError("must fit in 64 bits as nanoseconds")
    return ns


def own_unit(column: Any) -> bool:
    """Whether it is of timestamps or durations, which know their unit."""
    return bool(pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type))


def _floats_ns(column: Any, unit: str) -> Any:
    """Each float is the decimal that its repr shows.

    Where m = x * scale rounded, m < 2**52 and m / scale == x, that decimal is m / scale: of all
    multiples of 1 / scale no other is as near to x, and one with fewer digits would be one of them.
    """
    scale = UNITS[unit]
    ns, left = pa.nulls(len(column), pa.int64()), column
    while scale and left.null_count < len(left):
        count = pc.floor(pc.add(pc.multiply(left, float(scale)), 0.5))
        exact = pc.and_(pc.equal(pc.divide(count, float(scale)), left), pc.less(pc.abs(count), EXACT))
        counts = pc.if_else(exact, count, NONE).cast(pa.int64())
        ns = pc.coalesce(ns, pc.multiply_checked(counts, UNITS[unit] // scale))
        left = pc.if_else(exact, NONE, left)
        scale //= 1000
    return ns if left.null_count == len(left) else pc.coalesce(ns, _texts_ns(left, unit))


def _texts_ns(column: Any, unit: str) -> Any:
    return pa.array([to_ns(text, unit) if text else None for text in _texts(column)], pa.int64())


def texts(column: Any) -> Any:
    """A string array of `str(value)`, "" where the column is null."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_string(kind):
        return column.cast(pa.string()).fill_null("")
    return pa.array(_texts(column), pa.string())


def time_texts(column: Any, unit: str) -> list[str]:
    """For messages about times: as `_texts`, but those with a unit of their own in `unit`."""
    if not own_unit(column):
        return _texts(column)
    scale = UNITS[column.type.unit]
    counts = column.cast(pa.int64()).to_pylist()
    return ["" if count is None else from_ns(count * scale, unit) for count in counts]


def _texts(column: Any) -> list[str]:
    return ["" if value is None else str(value) for value in column.to_pylist()]
