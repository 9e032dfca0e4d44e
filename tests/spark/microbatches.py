"""Streams in micro-batches that a test decides: each file put into a folder is a batch."""

import json
import os
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400
_names = count()


def at(seconds):
    """The instant so many seconds after the epoch, to the microsecond."""
    return EPOCH + timedelta(microseconds=round(seconds * 1e6))


class Folder:
    """A folder that a stream reads, a file a batch."""

    def __init__(self, path, columns):
        self._path = path
        self._columns = columns
        self._path.mkdir()
        self._files = 0

    def put(self, *rows):
        """Adds a file of these dicts, whole as soon as it is there, and newer than those before it."""
        self._files += 1
        hidden = self._path / f".{self._files}"
        hidden.write_text("".join(json.dumps(row, default=datetime.isoformat) + "\n" for row in rows))
        os.utime(hidden, (self._files, self._files))
        hidden.rename(self._path / f"{self._files:06}.json")

    def stream(self, spark, event_time=None, delay_s=None):
        """The rows; with both arguments, with a watermark."""
        rows = spark.readStream.schema(self._columns).option("maxFilesPerTrigger", 1).json(str(self._path))
        return rows if event_time is None else rows.withWatermark(event_time, f"{delay_s} seconds")


class Playing:
    """A query that runs, and the table in memory that has what it gave out."""

    def __init__(self, spark, name, query):
        self._spark = spark
        self._name = name
        self.query = query

    def rows(self):
        """All that it has given out, once it is done with all that was put: dicts, as they came."""
        self.query.processAllAvailable()
        return self._spark.table(self._name).toArrow().to_pylist()


@contextmanager
def playing(frame):
    """The frame as a query into memory, as long as the block lasts."""
    name = f"query_{next(_names)}"
    query = frame.writeStream.format("memory").queryName(name).outputMode("append").start()
    try:
        yield Playing(frame.sparkSession, name, query)
    finally:
        query.stop()
        frame.sparkSession.catalog.dropTempView(name)


@contextmanager
def kept(frame, folder):
    """The frame as a query into Parquet files, with a checkpoint from which it goes on."""
    writer = frame.writeStream.format("parquet").outputMode("append")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "out"))
    try:
        yield query
    finally:
        query.stop()


def shuffled(rows, delay_s, rng, event_time="time"):
    """The rows out of order, yet each before any that is `delay_s` later: none is late."""
    return sorted(rows, key=lambda row: row[event_time] + timedelta(seconds=rng.uniform(0, delay_s)))


def cut(rows, parts):
    """The rows in so many parts, nearly even."""
    size = -(-len(rows) // parts)
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def counted(rows):
    """How often there is each of the dicts, whatever their order."""
    return Counter(tuple(row.items()) for row in rows)
