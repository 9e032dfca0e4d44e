"""What streams refuse: arguments at once, rows and checkpoints before a wrong outcome."""

import shutil
from datetime import timedelta
from math import nan

import pytest
from microbatches import Folder, at, kept, playing
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tickwheel.spark import processor
from tickwheel.spark.streaming import (
    PROVIDER,
    ROCKSDB,
    dedup_within,
    delayed_operations,
    detect_idle,
    in_order,
)

CLICKS = "client string, time timestamp"
COLUMNS = "client string, time timestamp, timeout_ms double, patience double, parts array<int>, day date"


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "in", COLUMNS)


def idle(frame, key="client", event_time="time", timeout=5, **others):
    return detect_idle(frame, key, event_time, timeout, **others)


def delayed(requests, completions=None, id_col="client", timeout_col="timeout_ms", **others):
    return delayed_operations(requests, completions or requests, id_col, "time", timeout_col, **others)


REFUSED = {
    "key": (
        lambda df: idle(df, key="host"),
        "df must have a column 'host'; its columns are client, time",
    ),
    "time": (
        lambda df: idle(df, event_time="at"),
        "df must have a column 'at'; its columns are client, time",
    ),
    "type of time": (
        lambda df: idle(df, event_time="day"),
        "event_time must be a timestamp, got 'day': date",
    ),
    "type of key": (
        lambda df: idle(df, key="parts"),
        "parts must be a plain value to be a key, got array<int>",
    ),
    "method": (
        lambda df: idle(df, method="hash"),
        "method must be one of wheel, session, got 'hash'",
    ),
    "no timeout": (
        lambda df: idle(df, timeout=0),
        "timeout must be between a microsecond and 10000000000 seconds, got 0",
    ),
    "timeout of nan": (
        lambda df: idle(df, timeout=nan),
        "timeout must be between .*, got nan",
    ),
    "negative timeout": (
        lambda df: idle(df, timeout=timedelta(seconds=-1)),
        "timeout must be between .*, got -1 day, 23:59:59",
    ),
    "short session": (
        lambda df: idle(df, timeout=1e-6, method="session"),
        "timeout must be at least 2 microseconds for a session, got 1",
    ),
    "no shards": (
        lambda df: idle(df, n_shards=0),
        "n_shards must be between 1 and 2147483647, got 0",
    ),
    "fewer shards": (
        lambda df: in_order(df, "client", "time", n_shards=-1),
        "n_shards must be between 1 and 2147483647, got -1",
    ),
    "half a shard": (
        lambda df: delayed(df, n_shards=1.5),
        "n_shards must be a whole number, got 1.5",
    ),
    "sequence": (
        lambda df: in_order(df.withColumnRenamed("day", "sequence"), "client", "time"),
        "df must have no column 'sequence': the result has one of its own",
    ),
    "sequence in upper case": (
        lambda df: in_order(df.withColumnRenamed("day", "Sequence"), "client", "time"),
        "df must have no column 'Sequence': the result has one of its own",
    ),
    "key of the result": (
        lambda df: idle(df.withColumnRenamed("client", "last_seen"), key="last_seen"),
        "df must have no column 'last_seen': the result has one of its own",
    ),
    "timeout in words": (
        lambda df: idle(df, timeout="30 seconds"),
        "timeout must be seconds or a timedelta, got '30 seconds'",
    ),
    "column of timeouts": (
        lambda df: delayed(df, timeout_col="timeout_s"),
        "requests must have a column 'timeout_s'; its columns are client, time",
    ),
    "unit of timeouts": (
        lambda df: delayed(df, timeout_col="patience"),
        "timeout_col must end in its unit, as timeout_ms does, got 'patience'",
    ),
    "type of timeouts": (
        lambda df: delayed(df, timeout_col="day"),
        "timeout_col must be a number or an interval, got 'day': date",
    ),
    "id of completions": (
        lambda df: delayed(df, df.drop("client")),
        "completions must have a column 'client'; its columns are time",
    ),
    "ids of two types": (
        lambda df: delayed(df, df.select(df.day.alias("client"), "time")),
        "client must be of one type, got string in requests and date in completions",
    ),
    "dedup, type of time": (
        lambda df: dedup_within(df, ["client"], "day", 5),
        "event_time must be a timestamp, got 'day': date",
    ),
    "dedup, one key": (
        lambda df: dedup_within(df, "client", "time", 5),
        "key_cols must be a list of one column or more, got 'client'",
    ),
    "dedup, watermark": (
        lambda df: dedup_within(df, ["client"], "time", 5),
        "df must have no watermark on 'time' yet",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_arguments_are_refused_at_once(spark, folder, case):
    """ValueError names the argument or column, the rule and the value, before anything runs."""
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call(folder.stream(spark, "time", 1))


def test_what_is_no_stream_or_has_no_watermark_is_refused_at_once(spark, folder):
    """They would never give out anything; the message has the line that helps."""
    no_watermark = r"(df|requests|completions) must have a watermark on 'time': .*\.withWatermark\('time', "
    bare, stream = folder.stream(spark), folder.stream(spark, "time", 1)
    for call in (
        lambda: idle(bare),
        lambda: idle(bare, method="session"),
        lambda: in_order(bare, "client", "time"),
        lambda: delayed(bare),
        lambda: delayed(stream, bare),
    ):
        with pytest.raises(ValueError, match=no_watermark):
            call()
    batch = spark.createDataFrame([], COLUMNS)
    with pytest.raises(ValueError, match=r"df must be a stream, as spark.readStream makes it, got a batch"):
        idle(batch)


def test_without_rocksdb_the_line_to_set_is_told(spark, folder):
    """The stateful ones need it; sessions are Spark's own and do not."""
    stream = folder.stream(spark, "time", 1)
    spark.conf.unset(PROVIDER)
    try:
        for call in (idle, delayed, lambda df: in_order(df, "client", "time")):
            with pytest.raises(ValueError, match=f"{PROVIDER} must be {ROCKSDB}, got .*: spark.conf.set"):
                call(stream)
        idle(stream, method="session")
    finally:
        spark.conf.set(PROVIDER, ROCKSDB)


NO_CLIENT = {"time": at(5), "timeout_ms": 1}
NO_TIME = {"client": "a", "timeout_ms": 1}
ROWS = {
    "idle key": (idle, NO_CLIENT, "client must not be null"),
    "idle time": (idle, NO_TIME, "time must not be null"),
    "session key": (lambda df: idle(df, method="session"), NO_CLIENT, "client must not be null"),
    "session time": (lambda df: idle(df, method="session"), NO_TIME, "time must not be null"),
    "order time": (lambda df: in_order(df, "client", "time"), NO_TIME, "time must not be null"),
    "request id": (delayed, NO_CLIENT, "client must not be null"),
    "request timeout": (delayed, {"client": "a", "time": at(5)}, "timeout_ms must not be null"),
    "negative timeout": (
        delayed,
        {"client": "a", "time": at(5), "timeout_ms": -0.0001},
        "timeout_ms must be >= 0, got -1.0E-4",
    ),
    "timeout without end": (
        delayed,
        {"client": "a", "time": at(5), "timeout_ms": 2.0**63},
        "timeout_ms must be at most 10000000000 seconds, got 9.22",
    ),
    "timeout of nan": (
        delayed,
        {"client": "a", "time": at(5), "timeout_ms": nan},
        "timeout_ms must be >= 0, got NaN",
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_wrong_rows_end_the_query(spark, folder, case):
    """With a message that names the column, the rule and the value; nothing of their batch is given out."""
    call, row, message = ROWS[case]
    folder.put({"client": "a", "time": at(1), "timeout_ms": 1}, row)
    frame = call(folder.stream(spark, "time", 1))
    with playing(frame) as played, pytest.raises(StreamingQueryException, match=message):
        played.rows()


@pytest.mark.parametrize(("row", "column"), [(NO_TIME, "time"), (NO_CLIENT, "client")])
def test_a_null_ends_deduplication(spark, folder, row, column):
    """Spark would take a time for the epoch, and all rows without a key for repeats of one."""
    folder.put(row)
    frame = dedup_within(folder.stream(spark), ["client"], "time", 5)
    with playing(frame) as played, pytest.raises(StreamingQueryException, match=f"{column} must not be null"):
        played.rows()


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory):
    """Where a query with 4 shards and a timeout of 5 s stopped: its source, checkpoint and output."""
    place = tmp_path_factory.mktemp("stopped")
    folder = Folder(place / "in", CLICKS)
    folder.put(*({"client": f"{n}", "time": at(100)} for n in range(20)))
    folder.put({"client": "0", "time": at(104.5)})
    with kept(idle(folder.stream(spark, "time", 1), n_shards=4), place) as query:
        query.processAllAvailable()
    return place


OTHERWISE = {
    "more shards": (
        {"n_shards": 8},
        r"n_shards must be 4, with which .* \(shard \d\), got 8: use that or a new checkpoint",
    ),
    "fewer shards": (
        {"n_shards": 2},
        "n_shards must be 4, .* got 2: use that",
    ),
    "timeout": (
        {"timeout": 6},
        "settings must be timeout 5000000 us; .* got timeout 6000000 us; .*: use that",
    ),
    "type of key": (
        {"columns": "client bigint, time timestamp"},
        "settings must be .*key string, .* got .*key bigint, .*: use that",
    ),
}


@pytest.mark.parametrize("case", OTHERWISE)
def test_a_checkpoint_goes_on_with_its_own_arguments_only(spark, checkpoint, tmp_path, case):
    """Refused in the first batch, also where its rows are for shards without state; nothing is given out."""
    others, message = OTHERWISE[case]
    go_on(spark, checkpoint, tmp_path / "place", message, **others)


def test_a_checkpoint_of_another_version_is_refused(spark, checkpoint, tmp_path, monkeypatch):
    """State is checked before it is trusted."""
    monkeypatch.setattr(processor, "STATE_VERSION", 99)
    go_on(spark, checkpoint, tmp_path / "place", "version must be 1, .* got 99: use that")


def test_a_checkpoint_goes_on_where_it_stopped(spark, checkpoint, tmp_path):
    """What was pending is given out, and nothing a second time."""
    go_on(spark, checkpoint, tmp_path / "place", None)


def go_on(spark, checkpoint, place, message, columns=CLICKS, n_shards=4, **others):
    """Starts again from a copy of the checkpoint, with a row whose shard of 8 is none of 4. It ends with the
    message; where that is None, it gives out what was pending."""
    shutil.copytree(checkpoint, place)
    new = Folder(place / "more", columns)
    frame = new.stream(spark, "time", 1)
    kind = frame.schema["client"].dataType
    clients = spark.range(100, 200).select(F.col("id").cast(kind).alias("client"))
    far = clients.where(F.pmod(F.xxhash64("client"), F.lit(8)) >= 4).first()
    new.put({"client": far.client, "time": at(200)})
    with kept(idle(frame, n_shards=n_shards, **others), place) as query:
        if message is None:
            query.processAllAvailable()
        else:
            with pytest.raises(StreamingQueryException, match=message):
                query.processAllAvailable()
    given = spark.read.schema(columns).parquet(str(place / "out")).collect()
    assert sorted(row.client for row in given) == (sorted(map(str, range(20))) if message is None else [])
