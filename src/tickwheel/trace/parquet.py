"""Parquet, a column at a time: rows that keep the rules become requests without a Python object each.

The rules are those of `tickwheel.trace.requests`. A batch in which a row breaks one goes
there as text, where the row and the words are found.
"""
from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tickwheel.trace.columns import texts, time_texts, times_ns
from tickwheel.trace.lines import BadFile
from tickwheel.trace.requests import BadRequest, Chunk, Wanted, requests
from tickwheel.trace.rows import check_columns
from tickwheel.units import NEVER

BATCH_ROWS = 1 << 16
PROBLEMS = (pa.ArrowException, OSError, ValueError)


def read_chunks(file: BinaryIO, wanted: Wanted, previous: int) -> Iterator[tuple[Chunk, float]]:
    """The requests, and the share of the file's rows read so far; `previous`: the arrival before them.

    BadFile and BadRequest say what is wrong. A chunk has at most 65,536 requests; memory is
    bounded by that and by the wanted columns of a row group.
    """
    try:
        source = pq.ParquetFile(file)
    except PROBLEMS as error:
        raise BadFile(f"not a Parquet file: {_first_line(error)}") from None
    check_columns(wanted.columns, source.schema_arrow.names)
    row = 0
    for batch in _batches(source, list(dict.fromkeys(wanted.columns))):
        for chunk in batch_chunks(batch, row + 1, wanted, previous):
            yield chunk, (row + batch.num_rows) / source.metadata.num_rows
            previous = chunk.arrivals[-1]
        row += batch.num_rows


def batch_chunks(batch: Any, first_row: int, wanted: Wanted, previous: int) -> Iterator[Chunk]:
    """The requests of an Arrow batch that has the columns wanted; `previous`: the arrival before it.

    BadRequest: the first row that breaks a rule. No chunk is empty.
    """
    whole = _chunk(batch, first_row, wanted, previous)
    if whole is None:
        yield from requests(enumerate(_cells(batch, wanted), first_row), wanted, previous)
    elif whole.arrivals:
        yield whole


def _batches(source: Any, columns: Sequence[str]) -> Iterator[Any]:
    row = 0
    try:
        for batch in source.iter_batches(BATCH_ROWS, columns=columns):
            yield batch
            row += batch.num_rows
    except PROBLEMS as error:
        raise BadRequest(row + 1, f"the Parquet file is damaged here: {_first_line(error)}") from None


def _chunk(batch: Any, first_row: int, wanted: Wanted, previous: int) -> Chunk | None:
    """None if a row breaks a rule."""
    labels: Sequence[int | str] = range(first_row, first_row + batch.num_rows)
    if wanted.where:
        kept = _kept(batch, wanted.where)
        batch = batch.filter(kept)
        labels = pc.add(pc.indices_nonzero(kept), first_row).to_pylist()
    if wanted.id is not None:
        labels = texts(batch.column(wanted.id)).to_pylist()
    try:
        arrivals, completions, *timeouts = (times_ns(batch.column(name), unit) for name, unit in wanted.times)
        deadlines = pc.add_checked(arrivals, timeouts[0]) if timeouts else arrivals
    except ValueError:
        return None
    completions = completions.fill_null(NEVER)
    whole = (
        deadlines.null_count == 0
        and _all(pc.less_equal(deadlines, wanted.latest_ns))
        and _all(pc.greater_equal(completions, arrivals))
        and _all(pc.greater_equal(arrivals[1:], arrivals[:-1]))
        and _all(pc.greater_equal(arrivals[:1], previous))
        and all(_all(pc.greater_equal(column, 0)) for column in timeouts)
        and not (wanted.id_required and "" in labels)
    )
    if not whole:
        return None
    return Chunk(_words(arrivals), _words(completions), labels, *map(_words, timeouts))


def _kept(batch: Any, where: Sequence[tuple[str, str]]) -> Any:
    kept = pa.repeat(True, batch.num_rows)
    for name, value in where:
        kept = pc.and_(kept, pc.equal(texts(batch.column(name)), value))
    return kept


def _all(holds: Any) -> bool:
    return bool(pc.all(holds, min_count=0).as_py())


def _words(column: Any) -> array[int]:
    words = array("q")
    if len(column):
        first, end = column.offset, column.offset + len(column)
        words.frombytes(memoryview(column.buffers()[1])[8 * first : 8 * end])
    return words


def _cells(batch: Any, wanted: Wanted) -> Iterator[tuple[str, ...]]:
    """The rows as `requests` takes them."""
    # By place, not by name: a time may be a label or a condition too, and is compared as it is shown there.
    units = dict(enumerate(unit for _, unit in wanted.times))
    # Nobody reads what stands in the place of a column that was not asked for.
    absent = [place for place, name in ((2, wanted.timeout), (3, wanted.id)) if name is None]
    units |= dict.fromkeys(absent, wanted.arrival_unit)
    columns = []
    for place, name in enumerate(wanted.columns):
        column = batch.column(name)
        columns.append(time_texts(column, units[place]) if place in units else texts(column).to_pylist())
    return zip(*columns, strict=True)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
