"""`tickwheel watch` on a real Spark: each silence told once, over restarts, in one line what is wrong."""
import json
import os
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tickwheel.cli.__main__ import main
from tickwheel.spark.following import follow, printed, stream_of, with_event_time
from tickwheel.spark.streaming import detect_idle

SCHEMA = "client string, time_s double"


@pytest.fixture
def here(spark, tmp_path, monkeypatch):
    """An empty folder to work in; the command's session is the tests' one, which it must not end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)
    (tmp_path / "in").mkdir()
    return tmp_path


def put(name, *rows, header="client,time_s"):
    """A file that comes whole."""
    hidden = Path(f".{name}")
    hidden.write_text("".join(f"{row}\n" for row in (header, *rows)))
    hidden.rename(Path("in", name))


def arguments(*more, key="client", column="time_s", checkpoint="state"):
    return ["watch", "in", "--key", key, "--time", column, "--checkpoint", checkpoint, "--master", "local[2]",
            *more]


def watch(*more, **names):
    assert main(arguments("--once", *more, **names)) == 0


def silences(lines):
    """(client, first_seen, last_seen, idle_at) in seconds."""
    return sorted(
        (row["client"], *(seconds(row[name]) for name in ("first_seen", "last_seen", "idle_at")))
        for row in map(json.loads, lines)
    )


def seconds(text):
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1)


@pytest.mark.parametrize("method", ["wheel", "session"])
def test_each_silence_is_told_once_over_restarts(here, capsys, method):
    """A line an event on stdout, a line a batch on stderr; the checkpoint knows what has been told."""
    put("1.csv", "a,10", "b,11", "a,12.000001", "c,100")
    watch("--schema", SCHEMA, "--method", method)
    out, err = capsys.readouterr()
    assert silences(out.splitlines()) == [("a", 10, 12.000001, 42.000001), ("b", 11, 11, 41)]
    first, *_, last = err.splitlines()
    assert first.startswith("batch 0: 4 rows, ")
    assert "watermark 1970-01-01T00:01:30.000Z, 2 offline, state " in last
    put("2.csv", "a,200")
    watch("--schema", SCHEMA, "--method", method, "--json")
    out, err = capsys.readouterr()
    assert silences(out.splitlines()) == [("c", 100, 100, 130)]
    batches = [json.loads(line) for line in err.splitlines()]
    assert [batch["rows"] for batch in batches] == [1, 0]
    assert [batch["events"] for batch in batches] == [0, 1]
    assert all(batch["state_bytes"] > 0 for batch in batches)


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_batch_that_is_done_again_takes_its_own_place(here, capsys, form):
    """--out: after a crash between writing and committing nothing is there twice, for any reader."""
    put("1.csv", "a,10", "b,11", "c,100")
    more = ["--out", "out", "--out-format", form]
    watch(*more)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("--schema, from the files that are there: `client` string, `time_s` int")
    last = max(Path("state/commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    before = set(Path("out").rglob("part-*"))
    put("2.csv", "d,1000")
    watch(*more)
    after = set(Path("out").rglob("part-*"))
    assert before.isdisjoint(after), "the batch was not written again"
    assert written(form) == [("a", 10, 10, 40), ("b", 11, 11, 41), ("c", 100, 100, 130)]
    assert {path.parent.name for path in after} == {"batch=1", "batch=3"}


def written(form):
    files = sorted(Path("out").glob(f"batch=*/part-*.{form}"))
    if form == "json":
        return silences(line for file in files for line in file.read_text().splitlines())
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return silences(json.dumps(row, default=str) for row in rows)


def test_a_signal_ends_it_between_two_batches(here, capsys):
    """SIGINT is 130, SIGTERM 0; what was told before is not told again, and nothing is lost."""
    clients = 12
    for number in range(clients):
        put(f"{number:02}.csv", f"client-{number:02},{number * 100}")
        os.utime(f"in/{number:02}.csv", (number, number))       # the order in which Spark takes them
    slowly = arguments("--schema", SCHEMA, "--option", "maxFilesPerTrigger=1")
    told = []
    for sign, code in ((signal.SIGINT, 130), (signal.SIGTERM, 0)):
        done = len(list(Path("state/commits").glob("[0-9]*")))
        sender = Thread(target=send_when, args=(sign, done + 2))
        sender.start()
        assert main(slowly) == code
        sender.join()
        out, err = capsys.readouterr()
        assert all(line.startswith("batch ") for line in err.splitlines())
        told += out.splitlines()
        assert len(told) < clients - 1, "it was not stopped in the middle"
    watch("--schema", SCHEMA)
    told += capsys.readouterr().out.splitlines()
    assert silences(told) == [
        (f"client-{number:02}", at, at, at + 30) for number in range(clients - 1) for at in [number * 100]
    ]


def send_when(sign, commits):
    """The signal to this process, once so many batches are done."""
    while len(list(Path("state/commits").glob("[0-9]*"))) < commits:
        time.sleep(0.01)
    os.kill(os.getpid(), sign)


@pytest.mark.parametrize(
    ("column", "kind", "value", "us"),
    [
        ("at_s", "double", "895.123", 895_123_000),
        ("at_s", "bigint", "-2", -2_000_000),
        ("at_ms", "double", "0.1", 100),
        ("at_us", "bigint", str(2**53 + 1), 2**53 + 1),
        ("at_ns", "bigint", "1999", 1),
        ("at_ns", "bigint", "-1", -1),
        ("at_s", "decimal(20,6)", "1700000000.000001", 1_700_000_000_000_001),
    ],
)
def test_a_number_is_a_time_to_the_microsecond(spark, column, kind, value, us):
    """By the unit that ends its name, rounded down, exactly the number that is written."""
    rows = spark.sql(f"SELECT CAST('{value}' AS {kind}) AS {column}")
    found = with_event_time(rows, column, None, 1).selectExpr(f"unix_micros({column})").first()
    assert found[0] == us


def test_a_reader_that_goes_away_is_no_failure_of_spark(spark, here):
    """What the taker of a batch raises comes out as it is, so that the command ends as others do."""
    put("1.csv", "a,10")
    put("2.csv", "b,1000")
    put("3.csv", "b,2000")

    def gone(line):
        raise BrokenPipeError(line)

    rows = stream_of(spark, "csv", str(here / "in"), {"maxFilesPerTrigger": "1"}, SCHEMA)
    idle = detect_idle(with_event_time(rows, "time_s", None, 1), "client", "time_s", 30)
    with pytest.raises(BrokenPipeError, match="client"):
        list(follow(idle, printed(gone), str(here / "state"), once=True, stopping=Event()))


def test_every_batch_that_is_done_is_told_of_when_it_stops(spark, here):
    """Also one that ends while the caller is busy with the batch before it."""
    put("1.csv", "a,10", "b,1000")
    rows = stream_of(spark, "csv", str(here / "in"), {}, SCHEMA)
    idle = detect_idle(with_event_time(rows, "time_s", None, 1), "client", "time_s", 30)
    stopping = Event()
    told = []
    for batch in follow(idle, printed(str), str(here / "state"), once=False, stopping=stopping):
        told.append((batch.batch, batch.events))
        while len(list(Path("state/commits").glob("[0-9]*"))) < 2 or is_busy(spark):
            time.sleep(0.01)
        stopping.set()
    assert told == [(0, 0), (1, 1)]


def is_busy(spark):
    return any(query.status["isTriggerActive"] for query in spark.streams.active)


def test_durations_are_rounded_up(here, capsys):
    """To what Spark counts in: a timeout to microseconds, a watermark's delay to milliseconds."""
    put("1.csv", "a,10", "b,11")
    watch("--schema", SCHEMA, "--timeout", "1001ns", "--watermark", "1001us")
    out, err = capsys.readouterr()
    assert silences(out.splitlines()) == [("a", 10, 10, 10.000002)]
    assert "watermark 1970-01-01T00:00:10.998Z, 1 offline" in err


def test_nested_columns_are_found_out(here, capsys):
    """A name inside a struct may be any."""
    row = {"client": "a", "headers": {"user-agent": "x"}, "time": "2026-01-01T00:00:00Z"}
    Path("in/1.json").write_text(json.dumps(row) + "\n")
    assert main(arguments("--once", "--format", "json", column="time")) == 0
    assert "user-agent" in capsys.readouterr().err


@pytest.fixture
def refused(here, capsys):
    """Runs a command that must end with one line, exit 2, and print nothing else."""

    def run(*more, **names):
        assert main(arguments("--once", *more, **names)) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("tickwheel: ") and err.count("\n") == 1, err
        return err.removeprefix("tickwheel: ").removesuffix("\n")

    return run


def test_what_is_wrong_with_the_options_is_one_line(refused):
    """Before the query begins: the argument, the rule, the value."""
    folder = str(Path("in").resolve())
    assert refused() == f"--schema must be given while a folder has no files with rows, got {folder!r}"
    Path("in/1.csv").touch()
    assert refused() == f"--schema must be given while a folder has no files with rows, got {folder!r}"
    put("1.csv", "a,10")
    fixed = ["--schema", SCHEMA]
    assert refused(*fixed, key="who") == "--key must be one of the columns client, time_s, got 'who'"
    assert refused(*fixed, column="when") == "--time must be one of the columns client, time_s, got 'when'"
    assert refused(*fixed, column="client") == "--time must be a timestamp or a number, got 'client': string"
    assert refused("--schema", "client strin") == (
        "--schema must be columns and types, as 'id STRING', got 'client strin'")
    assert refused("--schema", "client string, at int", column="at") == (
        "--unit must be given unless time ends in it, as time_ms does, got 'at'")
    assert refused("--schema", "client string, at timestamp", "--unit", "s", column="at") == (
        "--unit must not be given for a timestamp, got 's' for 'at'")
    assert refused(*fixed, "--shards", "0") == "--shards must be between 1 and 2147483647, got 0"
    assert refused(*fixed, "--option", "x") == "--option must be NAME=VALUE, got 'x'"
    assert refused("--out", "in") == "--out must be another folder than the folder, got 'in'"
    Path("out").mkdir()
    Path("out/old").touch()
    assert refused("--out", "out") == "--out must be empty where --checkpoint is new, got 'out'"
    # Of a checkpoint elsewhere it is Spark that knows whether it is new: nothing but the key is wrong here.
    remote = Path("state").resolve().as_uri()
    assert refused(*fixed, "--out", "out", key="who", checkpoint=remote).startswith("--key must ")
    for option, place in (("--out", "in/out"), ("--checkpoint", "in/state")):
        line = f"{option} must not be inside the folder that is followed, got {place!r}"
        assert refused(option, place) == line
    assert refused("--schema", "client string, `t.s` int", column="t.s") == (
        "--time must have no dot in its name: no watermark goes on it, got 't.s'")
    Path("file").touch()
    assert refused(*fixed, "--out", "file") == "file: Not a directory"
    assert main(["watch", "nowhere", *arguments()[2:]]) == 2
    assert not Path("state").exists()


def test_a_folder_that_spark_would_take_for_a_pattern(here, capsys):
    """It would follow another folder, or none, and say nothing."""
    Path("in[1]").mkdir()
    assert main(["watch", "in[1]", *arguments()[2:]]) == 2
    assert capsys.readouterr().err == "tickwheel: FOLDER must be without '[' in its name, got 'in[1]'\n"


def test_clients_are_told_apart_as_they_stand_in_the_file(here, capsys):
    """Though all of them look like a number, and the same one."""
    put("1.csv", "007,1", "7,2", "07,3", "1,300")
    watch()
    assert [row[:2] for row in silences(capsys.readouterr().out.splitlines())] == [
        ("007", 1), ("07", 3), ("7", 2)
    ]


def test_what_is_wrong_with_the_rows_is_one_line(refused):
    """A header in another order, a cell of another type, a row without a key: never a wrong result."""
    fixed = ["--schema", SCHEMA]
    put("1.csv", "10,a", header="time_s,client")
    assert "CSV header does not conform to the schema" in refused(*fixed, checkpoint="header")
    put("1.csv", "a,10", "b,noon")
    line = refused(*fixed, checkpoint="cell")
    assert "1.csv" in line and "noon" in line
    put("1.csv", "a,10", ",11")
    assert "client must not be null" in refused(*fixed, checkpoint="key")


def test_another_number_of_shards_is_refused(here, refused, capsys):
    """Where the checkpoint's keys live is fixed; so is the timeout."""
    put("1.csv", "a,10")
    watch("--schema", SCHEMA)
    capsys.readouterr()
    put("2.csv", "a,20")
    line = refused("--schema", SCHEMA, "--shards", "16")
    assert line.startswith("--shards must be 8, with which the checkpoint was written")
    assert ", got 16: " in line
    line = refused("--schema", SCHEMA, "--timeout", "31s")
    assert line.startswith("settings must be timeout 30000000 us")
    assert "with which the checkpoint was written" in line
