"""`tickwheel idle`: who fell silent in a log, in any format; one line for what cannot be read."""
import csv
import gzip
import json
import os

import pytest
from plain_spells import LOG, NO_LOG, log_rows, over_by, spells_of

import tickwheel
from tickwheel.cli.__main__ import main

EPOCH = 1661145978876979240     # a nanosecond time that no float holds
ROWS = [("7", 100), ("b", 101), ("7", 129), ("7", 130), ("b", 131), ("7", 200), ("7", 229)]
CSV = "time_s,host\n" + "".join(f"{time},{host}\n" for host, time in ROWS)
JSON = "".join(f'{{"host": {host if host == "7" else json.dumps(host)}, "time_s": {time}}}\n'
               for host, time in ROWS)
OFFLINE = "host,first_seen_s,last_seen_s,idle_at_s\nb,101,101,131\n7,100,130,160\nb,131,131,161\n"
FACTS = {
    "implementation": tickwheel.IMPLEMENTATION, "timeout_ns": 30 * 10**9, "rows": 7, "keys": 2, "offline": 3,
    "online": 1, "peak_online": 2, "first_ns": 100 * 10**9, "last_ns": 229 * 10**9,
}


def idle(*argv, key="host", time="time_s"):
    assert main(["idle", *argv, "--key", key, "--time", time]) == 0


def parquet(path, **columns):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(columns), path)
    return pa


@pytest.mark.skipif(not LOG.exists(), reason=NO_LOG)
@pytest.mark.parametrize(("timeout", "timeout_s"), [("30s", 30), ("300s", 300), ("900000ms", 900)])
def test_a_web_servers_log_equals_plain_loops(here, timeout, timeout_s):
    """Each silence of 30 s, 5 min and 15 min, with its rows' times, in the order in which they end."""
    idle(str(LOG), "--timeout", timeout, "--out", "out.csv", key="host_id")
    with open("out.csv", newline="") as file:
        header, *found = csv.reader(file)
    assert header == ["host_id", "first_seen_s", "last_seen_s", "idle_at_s"]
    rows = log_rows()
    expected = over_by(spells_of(rows, timeout_s), rows[-1][1])
    assert [(key, *map(int, times)) for key, *times in found] == expected


def test_it_prints_what_there_was(here, capsys):
    """The core first; then rows, keys and the silences, and how long the log is."""
    (here / "log.csv").write_text(CSV)
    idle("log.csv")
    assert capsys.readouterr() == (
        f"core               {tickwheel.IMPLEMENTATION}\n"
        "rows               7\n"
        "keys               2\n"
        "offline events     3\n"
        "online at the end  1\n"
        "peak online        2\n"
        "span of the log    129 s\n",
        "",
    )


def test_json_is_one_object(here, capsys):
    """Every figure under its name, with its unit."""
    (here / "log.csv").write_text(CSV)
    idle("log.csv", "--json")
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == FACTS


def test_a_log_without_rows(here, capsys):
    """A header alone, or conditions that no row meets: nobody was there."""
    (here / "log.csv").write_text("time_s,host\n")
    idle("log.csv", "--json", "--out", "out.csv")
    nobody = {**FACTS, **dict.fromkeys(("rows", "keys", "offline", "online", "peak_online"), 0),
              "first_ns": None, "last_ns": None}
    assert json.loads(capsys.readouterr().out) == nobody
    assert (here / "out.csv").read_text() == OFFLINE.splitlines(keepends=True)[0]
    idle("log.csv")
    assert capsys.readouterr().out.endswith("span of the log    -\n")


def as_csv(here):
    (here / "log.csv").write_text(CSV)
    return "log.csv"


def as_gzip(here):
    (here / "log.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    return "log.csv.gz"


def as_json(here):
    (here / "log.jsonl").write_text(JSON)
    return "log.jsonl"


def as_parquet(here):
    parquet("log.parquet", host=[host for host, _ in ROWS], time_s=[time for _, time in ROWS])
    return "log.parquet"


def as_timestamps(here):
    pa = pytest.importorskip("pyarrow")
    parquet("log.parquet", host=[host for host, _ in ROWS],
            time_s=pa.array([time * 1000 for _, time in ROWS], pa.timestamp("ms")))
    return "log.parquet"


def as_folder(here):
    (here / "log").mkdir()
    (here / "log" / "part-1.csv").write_text("".join(CSV.splitlines(keepends=True)[:4]))
    (here / "log" / "part-2.jsonl").write_text("".join(JSON.splitlines(keepends=True)[3:]))
    (here / "log" / "_SUCCESS").touch()
    return "log"


@pytest.mark.parametrize("write", [as_csv, as_gzip, as_json, as_parquet, as_timestamps, as_folder])
def test_a_log_is_the_same_in_every_format(here, capsys, write):
    """CSV, gzip, JSON lines, Parquet, a folder of parts: spells go on from file to file; 7 is "7"."""
    idle(write(here), "--json", "--out", "out.csv")
    assert json.loads(capsys.readouterr().out) == FACTS
    assert (here / "out.csv").read_text() == OFFLINE


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.jsonl", "out.jsonl.gz"])
def test_the_events_are_written_as_the_file_is_called(here, name):
    """Exact times; keys as text, whatever is in them; what was there before is replaced."""
    keys = ['a,"b"', "ä\N{SNOWMAN}", "7"]
    with open("log.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("t", '100% "host"'), *((EPOCH + n, key) for n, key in enumerate(keys)),
                                    (EPOCH + 10**6, "later")])
    (here / name).write_text("old")
    idle("log.csv", "--unit", "ns", "--timeout", "3us", "--out", name, key='100% "host"', time="t")
    data = (here / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    if ".jsonl" in name:
        found = [list(json.loads(line).items()) for line in text.splitlines()]
    else:
        header, *lines = csv.reader(text.splitlines())
        found = [list(zip(header, [key, *map(int, times)], strict=True)) for key, *times in lines]
    names = ['100% "host"', "first_seen_ns", "last_seen_ns", "idle_at_ns"]
    assert found == [
        list(zip(names, [key, EPOCH + n, EPOCH + n, EPOCH + n + 3000], strict=True))
        for n, key in enumerate(keys)
    ]
    assert {path.name for path in here.iterdir()} == {"log.csv", name}


def test_fractions_of_the_unit_are_exact(here):
    """0.1 + 0.2 is 0.3: a row then comes too late; one a nanosecond earlier does not."""
    (here / "log.csv").write_text("time_s,host\n0.1,a\n0.1,b\n0.299999999,b\n0.3,a\n9,c\n")
    idle("log.csv", "--timeout", "200ms", "--out", "out.jsonl")
    assert (here / "out.jsonl").read_text() == (
        '{"host": "a", "first_seen_s": 0.1, "last_seen_s": 0.1, "idle_at_s": 0.3}\n'
        '{"host": "b", "first_seen_s": 0.1, "last_seen_s": 0.299999999, "idle_at_s": 0.499999999}\n'
        '{"host": "a", "first_seen_s": 0.3, "last_seen_s": 0.3, "idle_at_s": 0.5}\n'
    )


def test_the_timeout_need_not_be_a_whole_number_of_units(here):
    """1.5 s on a log in whole seconds: never early, and nothing is rounded."""
    (here / "log.csv").write_text("time_s,host\n0,a\n1,a\n2,b\n3,b\n")
    idle("log.csv", "--timeout", "1.5s", "--out", "out.csv")
    assert (here / "out.csv").read_text().splitlines()[1:] == ["a,0,1,2.5"]


def test_where_leaves_rows_out(here, capsys):
    """Conditions add up; rows that are left out may hold anything, and do not tell the time."""
    (here / "log.csv").write_text("time_s,host,kind,ok\n0,a,x,\n1,b,x,no\nnoon,,y,\n99,b,y,\n")
    idle("log.csv", "--where", "kind=x", "--where", "ok=", "--json")
    facts = json.loads(capsys.readouterr().out)
    assert [facts[name] for name in ("rows", "keys", "offline", "online", "last_ns")] == [1, 1, 0, 1, 0]


def test_a_device_is_written_to(here):
    """It needs no ending, and is CSV."""
    (here / "log.csv").write_text(CSV)
    idle("log.csv", "--out", os.devnull)
    assert not os.path.isfile(os.devnull)


BAD_ROWS = {
    "no key": ("log.csv, row 2: host is missing", "time_s,host\n1,a\n2,\n"),
    "no time": ("log.csv, row 1: time_s is missing", "time_s,host\n,a\n"),
    "no number": ("log.csv, row 2: time_s must be a number, got 'noon'", "time_s,host\n1,a\nnoon,a\n"),
    "back": ("log.csv, row 3: time_s must not go back, got '4' after 5", "time_s,host\n1,a\n5,b\n4,c\n"),
    "finer than 1 ns": ("log.csv, row 1: time_s must be a whole number of nanoseconds, got '1.0000000001'",
                        "time_s,host\n1.0000000001,a\n"),
    "no room": ("log.csv, row 1: time_s must be <= 9223372006.854775806, to leave room for the timeout in 64 "
                "bits, got '9223372007'", "time_s,host\n9223372007,a\n"),
    "too few fields": ("log.csv, row 1: must have 2 fields as the header has, got 1", "time_s,host\n1\n"),
    "no key column": ("log.csv: no column 'host'; the columns are time_s, client", "time_s,client\n1,a\n"),
    "no time column": ("log.csv: no column 'time_s'; the columns are at, host", "at,host\n1,a\n"),
    "two key columns": ("log.csv: more than one column 'host'; the columns are time_s, host, host",
                        "time_s,host,host\n1,a,b\n"),
    "empty": ("log.csv: the file is empty", ""),
}


@pytest.mark.parametrize(("line", "content"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_a_bad_log_gets_one_line(here, refused, line, content):
    """File, row, rule, value seen; the events before it are not left behind."""
    (here / "log.csv").write_text(content)
    argv = ["log.csv", "--key", "host", "--time", "time_s", "--out", "out.csv"]
    assert refused("idle", *argv) == line


def test_a_key_is_in_every_row_of_any_format(here, refused):
    """Null in Parquet, null, "" or missing in JSON; as `watch` has it."""
    for row in ('{"time_s": 2, "host": null}', '{"time_s": 2, "host": ""}', '{"time_s": 2}'):
        (here / "log.jsonl").write_text(f'{{"time_s": 1, "host": "a"}}\n{row}\n')
        assert refused("idle", "log.jsonl", "--key", "host", "--time", "time_s") == (
            "log.jsonl, row 2: host is missing"
        )
    for host in (["a", None, "c"], ["a", "", "c"], [1, None, 3]):
        parquet("log.parquet", host=host, time_s=[1, 2, 3])
        assert refused("idle", "log.parquet", "--key", "host", "--time", "time_s") == (
            "log.parquet, row 2: host is missing"
        )


def test_time_does_not_go_back_from_file_to_file(here, refused):
    """In a folder the file and its row are named."""
    (here / "log").mkdir()
    (here / "log" / "1.csv").write_text("time_s,host\n5,a\n")
    (here / "log" / "2.csv").write_text("time_s,host\n4,a\n")
    assert refused("idle", "log", "--key", "host", "--time", "time_s") == (
        f"{os.path.join('log', '2.csv')}, row 1: time_s must not go back, got '4' after 5"
    )


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ([], "the following arguments are required: TRACE, --key, --time"),
        (["log.csv", "--key", "host"], "the following arguments are required: --time"),
        (["no.csv", "--key", "host", "--time", "time_s"], "no.csv: No such file or directory"),
        (["empty", "--key", "host", "--time", "time_s"], "empty: the folder holds no files"),
        (["log.csv", "--key", "host", "--time", "t"],
         "--unit must be given unless a column ends in it, as _ms does, got 't'"),
        (["log.csv", "--key", "host", "--time", "time_s", "--unit", "h"],
         "--unit must be among ns, us, ms, s, got 'h'"),
        (["log.csv", "--key", "host", "--time", "time_s", "--timeout", "0s"],
         "--timeout must be > 0, got '0s'"),
        (["log.csv", "--key", "host", "--time", "time_s", "--timeout=-30s"],
         "--timeout must be > 0, got '-30s'"),
        (["log.csv", "--key", "host", "--time", "time_s", "--timeout", "30"],
         "--timeout must be a duration such as 200ms or 1s, got '30'"),
        (["log.csv", "--key", "host", "--time", "time_s", "--where", "kind"],
         "--where must be COLUMN=VALUE, got 'kind'"),
        (["log.csv", "--key", "host", "--time", "time_s", "--out", "out.parquet"],
         "--out must end in .csv, .csv.gz, .jsonl or .jsonl.gz, got 'out.parquet'"),
        (["log.csv", "--key", "host", "--time", "time_s", "--out", "no/out.csv"],
         "no/out.csv: No such file or directory"),
        (["log.csv", "--key", "host", "--time", "time_s", "--out", "empty/../log.csv"],
         "--out must not be the trace nor in its folder, got 'empty/../log.csv'"),
        (["empty", "--key", "host", "--time", "time_s", "--out", "empty/out.csv"],
         "--out must not be the trace nor in its folder, got 'empty/out.csv'"),
        (["log.csv", "--key", "idle_at_s", "--time", "time_s", "--out", "out.csv"],
         "--key must not be named like another column of the events, got 'idle_at_s'"),
    ],
)
def test_bad_arguments_get_one_line(here, refused, argv, line):
    """The option as it was typed, or the file, then the rule and the value seen."""
    (here / "log.csv").write_text(CSV)
    (here / "empty").mkdir()
    assert refused("idle", *argv) == line
