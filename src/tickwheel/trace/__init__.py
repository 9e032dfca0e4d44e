"""Reading requests: when each arrived and when, if ever, it was completed.

    for chunk in Trace("spans.csv.gz", arrival="start_ns", completion="end_ns"):
        chunk.arrivals, chunk.completions      # array('q'), nanoseconds; NEVER: not completed

A trace is a file (CSV or JSON lines, also .gz, or Parquet, by its name) or a folder of such
files, in the order of their names, as Spark writes it. All is read once, in bounded memory,
and no row is dropped in silence: whatever cannot be read ends with `TraceError`, one line
that names file and row. Rows are counted from 1 in each file, the first after the header.
A header without rows is a trace without requests.
"""
from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from tickwheel.extras import require
from tickwheel.trace.lines import BadFile, BadRow
from tickwheel.trace.requests import CHUNK_ROWS, BadRequest, Chunk, Wanted, requests
from tickwheel.trace.rows import read_rows
from tickwheel.units import MAX_NS, MIN_NS

__all__ = ["CHUNK_ROWS", "Chunk", "Trace", "TraceError"]


class TraceError(ValueError):
    """A trace that cannot be read: file, row, rule and value seen, on one line."""


class Trace:
    """The requests of a file or folder, in chunks. Arrivals must not go back, from file to file neither.

    `completion`: empty or null means never. `timeout`: a column of each request's timeout, >= 0, for
    `Chunk.timeouts`. `unit`: of all these columns; None: each column's name ends in _ns, _us, _ms or
    _s. In Parquet, timestamps (nanoseconds since the epoch) and durations have a unit of their own:
    for them it is only how they are shown.
    `where`: (column, value) pairs that a row must equal to be a request; "" means null or empty.
    `id`: a column that names the requests, instead of their row numbers. `id_required`: none may be without.
    `latest_ns`: no arrival, plus its timeout where there is a column of them, may be after it, so
    that its deadline is still a time.
    """

    def __init__(
        self,
        path: str,
        *,
        arrival: str = "arrival_ms",
        completion: str = "completion_ms",
        timeout: str | None = None,
        unit: str | None = None,
        where: Sequence[tuple[str, str]] = (),
        id: str | None = None,
        id_required: bool = False,
        latest_ns: int = MAX_NS,
    ) -> None:
        self.path = path
        self._wanted = Wanted.of(
            arrival=arrival,
            completion=completion,
            timeout=timeout,
            unit=unit,
            where=where,
            id=id,
            id_required=id_required,
            latest_ns=latest_ns,
        )
        self.unit = self._wanted.arrival_unit
        self.fraction = 0.0     # of the files' bytes that have been read

    def __iter__(self) -> Iterator[Chunk]:
        paths = self._files()
        sizes = [os.path.getsize(path) for path in paths]
        total = sum(sizes)
        done = 0
        previous = MIN_NS
        for path, size in zip(paths, sizes, strict=True):
            for chunk, fraction in self._chunks(path, previous):
                previous = chunk.arrivals[-1]
                if total:       # a pipe has no size
                    self.fraction = (done + fraction * size) / total
                yield chunk
            done += size
        self.fraction = 1.0

    def _files(self) -> list[str]:
        """The file, or those of the folder but for the hidden ones and what Spark writes beside its own."""
        if not os.path.isdir(self.path):
            return [self.path]
        with os.scandir(self.path) as entries:
            found = {entry.name: entry for entry in entries if entry.name[0] not in "._"}
        for name in sorted(found):
            if found[name].is_dir():
                raise TraceError(f"{self.path}: the folder must hold files alone, got folder {name!r}")
        if not found:
            raise TraceError(f"{self.path}: the folder holds no files")
        return [found[name].path for name in sorted(found)]

    def _chunks(self, path: str, previous: int) -> Iterator[tuple[Chunk, float]]:
        """The requests of one file, and the share of it that has been read."""
        try:
            with open(path, "rb") as file:
                if path.endswith(".parquet"):
                    require("pyarrow.parquet", "reading Parquet")
                    from tickwheel.trace.parquet import read_chunks

                    yield from read_chunks(file, self._wanted, previous)
                else:
                    yield from self._text_chunks(file, path, previous)
        except BadRequest as problem:
            raise TraceError(f"{path}, row {problem.row}: {problem.problem}") from None
        except BadFile as problem:
            raise TraceError(f"{path}: {problem}") from None

    def _text_chunks(self, file: BinaryIO, path: str, previous: int) -> Iterator[tuple[Chunk, float]]:
        size = os.fstat(file.fileno()).st_size
        rows = _numbered(read_rows(file, path, self._wanted.columns))
        for chunk in requests(rows, self._wanted, previous):
            yield chunk, file.tell() / size if size else 0.0


def _numbered(rows: Iterator[tuple[str, ...]]) -> Iterator[tuple[int, tuple[str, ...]]]:
    row = 0
    try:
        for row, cells in enumerate(rows, 1):
            yield row, cells
    except BadRow as problem:
        raise BadRequest(row + 1, str(problem)) from None
