"""The wanted cells of each row, as text, from CSV and JSON lines.

A cell is "" where the file says null; a number is the text that the file has, so that
nothing is rounded before `tickwheel.units` sees it. Rows are never skipped.
"""
from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, BinaryIO

from tickwheel.trace.lines import BadFile, BadRow, text_lines

Rows = Iterator[tuple[str, ...]]


def read_rows(file: BinaryIO, path: str, columns: Sequence[str]) -> Rows:
    """One tuple of the `columns` (two at least) a row, in the file's order.

    The name says the format: JSON lines (.jsonl, .ndjson, .json) or else CSV, either may be .gz.
    BadFile and BadRow say what is wrong.
    """
    lines = text_lines(file, path.endswith(".gz"))
    is_json = path.removesuffix(".gz").endswith((".jsonl", ".ndjson", ".json"))
    return _json_rows(lines, columns) if is_json else _csv_rows(lines, columns)


def _csv_rows(lines: Iterator[str], columns: Sequence[str]) -> Rows:
    reader = csv.reader(lines, strict=True)
    try:
        header = next(reader, None)
    except csv.Error as error:
        raise BadFile(f"header: {_not_csv(error)}") from None
    except BadRow as problem:
        raise BadFile(f"header: {problem}") from None
    if header is None:
        raise BadFile("the file is empty")
    check_columns(columns, header)
    width = len(header)
    pick: Callable[[list[str]], tuple[str, ...]] = itemgetter(*map(header.index, columns))
    try:
        for row in reader:
            if len(row) != width:
                raise BadRow(f"must have {width} fields as the header has, got {len(row)}")
            yield pick(row)
    except csv.Error as error:
        raise BadRow(_not_csv(error)) from None


def _not_csv(error: csv.Error) -> str:
    """Without the advice that follows the dash: it is for programmers."""
    return f"not CSV: {str(error).partition(' - ')[0]}"


def _json_rows(lines: Iterator[str], columns: Sequence[str]) -> Rows:
    """A key that an object lacks is null; one that no object has, or the first key that the first
    object lacks, is an unknown column."""
    unseen = set(columns)
    first: list[str] | None = None
    for line in lines:
        try:
            # Numbers stay text: exact, of any size, NaN and Infinity included.
            row = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
        except json.JSONDecodeError as error:
            raise BadRow(f"not JSON: {error.msg} at character {error.colno}") from None
        except RecursionError:
            raise BadRow("not JSON that can be read: nested too deeply") from None
        if not isinstance(row, dict):
            raise BadRow(f"must be a JSON object, got {line.strip()[:40]!r}")
        if first is None:
            first = list(row)
            check_columns(columns[:1], first)
        if unseen:
            unseen -= row.keys()
        yield tuple([_json_text(row.get(column)) for column in columns])
    if first is None:
        raise BadFile("the file is empty")
    check_columns([column for column in columns if column in unseen], first)


def _json_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value)


def check_columns(columns: Sequence[str], there: Sequence[str]) -> None:
    for column in columns:
        if there.count(column) != 1:
            problem = "no column" if column not in there else "more than one column"
            raise BadFile(f"{problem} {column!r}; the columns are {', '.join(there)}")
