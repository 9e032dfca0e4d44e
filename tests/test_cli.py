"""The command line: what it prints, and one clear line with exit 2 for whatever is wrong."""
import functools
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

import tickwheel
from tickwheel.bench.peers import OPERATIONS
from tickwheel.bench.runner import PEER_NAMES
from tickwheel.cli.__main__ import COMMANDS, _parser, main
from tickwheel.cli.progress import progress
from tickwheel.cli.quantities import duration_ns, rate_per_s, whole
from tickwheel.trace import CHUNK_ROWS

HEADER = "arrival_ms,completion_ms\n"
GOOD = HEADER + "1,2\n3,\n"


def csv_rows(*rows):
    return "".join(f"{row}\n" for row in ("arrival_ms,completion_ms,note", *rows))


SHORTENED = f"'{'1' * 39}\N{HORIZONTAL ELLIPSIS}'"
BAD_ROWS = {
    "missing time": ("row 2: arrival_ms is missing", csv_rows("1,2,", ",5,")),
    "unparsable time": ("row 2: arrival_ms must be a number, got 'noon'", csv_rows("1,2,", "noon,5,")),
    "unparsable completion": ("row 1: completion_ms must be a number, got 'null'", csv_rows("1,null,")),
    "not a number": ("row 1: arrival_ms must be a number, got 'nan'", csv_rows("nan,2,")),
    "infinite": ("row 1: completion_ms must be a number, got 'inf'", csv_rows("1,inf,")),
    "out of order": ("row 3: arrival_ms must not go back, got '4' after 5", csv_rows("1,2,", "5,,", "4,9,")),
    "completed before": ("row 2: completion_ms must not be before arrival_ms, got '5' before '6'",
                         csv_rows("1,2,", "6,5,")),
    "too few fields": ("row 2: must have 3 fields as the header has, got 2", csv_rows("1,2,", "1,2")),
    "too many fields": ("row 1: must have 3 fields as the header has, got 4", csv_rows("1,2,3,4")),
    "blank line": ("row 2: must have 3 fields as the header has, got 0", csv_rows("1,2,", "", "3,4,")),
    "finer than 1 ns": ("row 1: arrival_ms must be a whole number of nanoseconds, got '1.0000001'",
                        csv_rows("1.0000001,2,")),
    "out of int64": (f"row 1: arrival_ms must fit in 64 bits as nanoseconds, got {SHORTENED}",
                     csv_rows(f"{'1' * 5000},,")),
    "just out of int64": (
        "row 1: completion_ms must fit in 64 bits as nanoseconds, got '9223372036854.775807'",
        csv_rows("1,9223372036854.775807,")),
    "no room for the timeout": (
        "row 1: arrival_ms must be <= 9223372036654, to leave room for the timeout in 64 bits, "
        "got '9223372036655'", csv_rows("9223372036655,,")),
    "NUL": ("row 2: must be text, got a NUL byte", csv_rows("1,2,", "3,4,\0", "5,6,")),
    "not UTF-8": ("row 3: must be UTF-8 text, got byte 0xff",
                  csv_rows("1,2,", "3,4,ä").encode() + b"5,6,\xff\n7,8,\n"),
    "an earlier row comes first": ("row 1: arrival_ms must be a number, got 'x'", csv_rows("x,2,", "3,4,\0")),
    "open quote": ("row 2: not CSV: unexpected end of data", csv_rows("1,2,", '3,4,"')),
    "text after a quote": ("row 1: not CSV: ',' expected after '\"'", csv_rows('1,2,"a"b')),
    "huge field": ("row 1: not CSV: field larger than field limit (131072)",
                   csv_rows("1,2," + "x" * 200_000)),
    "old Macintosh lines": (
        "header: not CSV: new-line character seen in unquoted field", GOOD.replace("\n", "\r")),
    "unknown column": ("no column 'arrival_ms'; the columns are start, end", "start,end\n1,2\n"),
    "column twice": ("more than one column 'arrival_ms'; the columns are arrival_ms, arrival_ms, end",
                     "arrival_ms,arrival_ms,end\n1,2,3\n"),
    "empty": ("the file is empty", ""),
    "blank": ("the file is empty", "\n\r\n"),
    "damaged header": ("header: must be UTF-8 text, got byte 0xfe", b"\xfe\xff\0a\0r"),
}


@pytest.mark.parametrize(("line", "content"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_a_bad_csv_file_gets_one_line(here, refused, name, line, content):
    """File, row, rule, value seen; the outcomes of the rows before it are not left behind."""
    data = content if isinstance(content, bytes) else content.encode()
    (here / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    between = ", " if line.startswith("row") else ": "
    report = ["--report", "out.html"] if find_spec("matplotlib") else []
    assert refused("replay", name, "--outcomes", "out.csv", *report) == f"{name}{between}{line}"


def json_rows(*rows):
    return "".join(f'{{"arrival_ms": {start}, "completion_ms": {end}}}\n' for start, end in rows)


BAD_JSON = {
    "broken": (", row 2: not JSON: Expecting value at character 16",
               json_rows((1, 2)) + '{"arrival_ms": }\n'),
    "cut": (", row 2: not JSON: Expecting ',' delimiter at character 17",
            json_rows((1, 2)) + '{"arrival_ms": 3'),
    "an array": (", row 1: must be a JSON object, got '[1, 2]'", "[1, 2]\n"),
    "blank line": (", row 2: not JSON: Expecting value at character 1",
                   json_rows((1, 2)) + "\n" + json_rows((3, 4))),
    "NaN": (", row 1: arrival_ms must be a number, got 'NaN'", json_rows(("NaN", 2))),
    "Infinity": (", row 2: completion_ms must be a number, got '-Infinity'",
                 json_rows((1, 2), (3, "-Infinity"))),
    "a list": (", row 1: arrival_ms must be a number, got '[\"x\"]'", json_rows(('["x"]', 2))),
    "true": (", row 1: arrival_ms must be a number, got 'true'", json_rows(("true", 2))),
    "null": (", row 1: arrival_ms is missing", json_rows(("null", 2))),
    "missing": (", row 2: arrival_ms is missing", json_rows((1, 2)) + '{"completion_ms": 3}\n'),
    "huge": (f", row 1: arrival_ms must fit in 64 bits as nanoseconds, got {SHORTENED}",
             json_rows(("1" * 5000, 2))),
    "deep": (", row 1: not JSON that can be read: nested too deeply", "[" * 200_000 + "\n"),
    "NUL": (", row 2: must be text, got a NUL byte", json_rows((1, 2), ('"\0"', 4))),
    "unknown column": (": no column 'arrival_ms'; the columns are a, b", '{"a": null, "b": null}\n'),
    "empty": (": the file is empty", ""),
}


@pytest.mark.parametrize(("line", "content"), BAD_JSON.values(), ids=BAD_JSON.keys())
def test_a_bad_json_file_gets_one_line(here, refused, line, content):
    """The same for JSON lines: NaN and Infinity are no times."""
    (here / "trace.jsonl").write_text(content)
    assert refused("replay", "trace.jsonl", "--outcomes", "out.csv") == f"trace.jsonl{line}"


def test_a_bad_parquet_file_gets_one_line(here, refused):
    """Neither a file that only has the name, nor one whose cells are no times."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    (here / "trace.parquet").write_text(GOOD)
    assert refused("replay", "trace.parquet").startswith("trace.parquet: not a Parquet file: ")
    for column, line in {
        (1.5, float("nan")): ", row 2: arrival_ms must be a number, got 'nan'",
        (1, None): ", row 2: arrival_ms is missing",
        (2, 1): ", row 2: arrival_ms must not go back, got '1' after 2",
        (1, 2**63 - 1): ", row 2: arrival_ms must fit in 64 bits as nanoseconds, got '9223372036854775807'",
        ("x", "y"): ", row 1: arrival_ms must be a number, got 'x'",
    }.items():
        pq.write_table(pa.table({"arrival_ms": column, "completion_ms": [None, None]}), "trace.parquet")
        assert refused("replay", "trace.parquet", "--outcomes", "out.parquet") == f"trace.parquet{line}"
    assert refused("replay", "trace.parquet", "--arrival", "t_ms") == (
        "trace.parquet: no column 't_ms'; the columns are arrival_ms, completion_ms"
    )
    whole = (here / "trace.parquet").read_bytes()
    (here / "trace.parquet").write_bytes(whole[: len(whole) // 2])
    assert refused("replay", "trace.parquet").startswith("trace.parquet: not a Parquet file: ")


def test_a_bad_gzip_file_gets_one_line(here, refused):
    """Cut, damaged, or not gzip at all."""
    rows = 3 * CHUNK_ROWS
    whole = gzip.compress((HEADER + "".join(f"{i},{i + 1}\n" for i in range(rows))).encode())
    path = here / "trace.csv.gz"
    path.write_bytes(whole[:-9])
    assert refused("replay", path.name, "--outcomes", "out.csv") == (
        f"trace.csv.gz, row {rows}: the gzip file is truncated here"
    )
    path.write_bytes(whole[:-8] + b"\0" * 8)
    damaged = f"trace.csv.gz, row {rows}: the gzip file is damaged here (CRC"
    assert refused("replay", path.name).startswith(damaged)
    path.write_text(GOOD)
    assert refused("replay", path.name) == "trace.csv.gz: not a gzip file, though its name ends in .gz"


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["replay"], "the following arguments are required: TRACE"),
        (["replay", "no.csv"], "no.csv: No such file or directory"),
        (["replay", "folder"], "folder: the folder holds no files"),
        (["replay", "t.csv", "--timeout", "abc"],
         "--timeout must be a duration such as 200ms or 1s, got 'abc'"),
        (["replay", "t.csv", "--timeout", "200"],
         "--timeout must be a duration such as 200ms or 1s, got '200'"),
        (["replay", "t.csv", "--timeout", "0s"], "--timeout must be > 0, got '0s'"),
        (["replay", "t.csv", "--timeout=-1s"], "--timeout must be > 0, got '-1s'"),
        (["replay", "t.csv", "--tick", "0ms"], "--tick must be > 0, got '0ms'"),
        (["replay", "t.csv", "--tick", "0.5ns"],
         "--tick must be a whole number of nanoseconds, got '0.5ns'"),
        (["replay", "t.csv", "--tick", "1..5s"], "--tick must be a number, got '1..5s'"),
        (["replay", "t.csv", "--tick", "300000000000s"], "--tick must fit in 64 bits as nanoseconds, got "
         "'300000000000s'"),
        (["replay", "t.csv", "--wheel-size", "1"], "--wheel-size must be >= 2, got 1"),
        (["replay", "t.csv", "--wheel-size", "2.5"], "--wheel-size must be a whole number, got '2.5'"),
        (["replay", "t.csv", "--where", "kind"], "--where must be COLUMN=VALUE, got 'kind'"),
        (["replay", "t.csv", "--where", "kind=a"],
         "t.csv: no column 'kind'; the columns are arrival_ms, completion_ms"),
        (["replay", "t.csv", "--id", "outcome"],
         "t.csv: no column 'outcome'; the columns are arrival_ms, completion_ms"),
        (["replay", "t.csv", "--arrival", "start"],
         "--unit must be given unless a column ends in it, as _ms does, got 'start'"),
        (["replay", "t.csv", "--fast"], "unrecognized arguments: --fast"),
        (["replay", "t.csv", "--outcomes", "no/out.csv"], "no/out.csv: No such file or directory"),
        (["replay", "t.csv", "--outcomes", "folder"], "folder: Is a directory"),
        (["replay", "t.csv", "--outcomes", "out.json"],
         "--outcomes must end in .csv, .csv.gz or .parquet, got 'out.json'"),
        (["replay", "t.csv", "--outcomes", "out"],
         "--outcomes must end in .csv, .csv.gz or .parquet, got 'out'"),
        (["replay", "t.csv", "--outcomes", ""], "--outcomes must end in .csv, .csv.gz or .parquet, got ''"),
        (["replay", "t.csv", "--report", "r.json"], "--report must end in .html or .htm, got 'r.json'"),
        (["replay", ""], "'': No such file or directory"),
        (["replay", "t.csv", "--id", "fire_ms", "--outcomes", "out.csv"],
         "--id must not be named like another column of the outcomes, got 'fire_ms'"),
        (["replay", "t.csv", "--outcomes", "folder/../t.csv"],
         "--outcomes must be another file than the trace, got 'folder/../t.csv'"),
        (["replay", "t.csv", "--outcomes", "new.csv", "--report", "link.html"],
         "--report must be another file than the outcomes, got 'link.html'"),
        (["replay", "folder", "--outcomes", "folder/new.csv"],
         "--outcomes must not be inside the folder that is the trace, got 'folder/new.csv'"),
        (["replay", "folder", "--report", "folder/a/new.html"],
         "--report must not be inside the folder that is the trace, got 'folder/a/new.html'"),
        (["generate", "no/t.csv"], "no/t.csv: No such file or directory"),
        (["generate", "new.csv", "--requests", "-1"], "--requests must be >= 0, got -1"),
        (["generate", "new.csv", "--requests", "many"], "--requests must be a whole number, got 'many'"),
        (["generate", "new.csv", "--rate", "fast"], "--rate must be a rate such as 1000/s, got 'fast'"),
        (["generate", "new.csv", "--rate", "0/s"], "--rate must be between 1e-6 and 1e9, got 0.0"),
        (["generate", "new.csv", "--p50", "70ms"], "--p75 must be >= the median (70 ms), got 60 ms"),
        (["generate", "new.csv", "--never", "2"], "--never must be between 0 and 1, got 2.0"),
        (["generate", "new.csv", "--never", "few"], "--never must be a share between 0 and 1, got 'few'"),
        (["generate", "new.csv", "--seed", "-1"], "--seed must be >= 0, got -1"),
        (["generate", "new.csv", "--p75", "100000s"],
         "--p75 must be so near the median (20 ms) that all latencies fit in 64 bits, got 1e+08 ms"),
        (["generate", ""], "OUT must end in .csv or .csv.gz, got ''"),
        (["generate", "new.parquet"], "OUT must end in .csv or .csv.gz, got 'new.parquet'"),
        (["fly"], f"COMMAND must be among {', '.join(COMMANDS)}, got 'fly'"),
        (["replay", "t.csv", "--unit", "h"], "--unit must be among ns, us, ms, s, got 'h'"),
        (["replay", "t.csv", "--core", "rust"], "--core must be among cython, python, got 'rust'"),
        (["replay", "t.csv", "--timeout"], "--timeout: expected one argument"),
    ],
)
def test_bad_arguments_get_one_line(here, refused, argv, line):
    """The option as it was typed, or the file, then the rule and the value seen."""
    (here / "t.csv").write_text(GOOD)
    (here / "folder").mkdir()
    (here / "link.html").symlink_to("new.csv")
    assert refused(*argv) == line


@pytest.mark.parametrize(
    ("module", "argv", "line"),
    [
        ("pyarrow.parquet", ["replay", "t.parquet"],
         "reading Parquet needs pyarrow: pip install 'tickwheel[report]'"),
        ("pyarrow", ["replay", "t.csv", "--outcomes", "o.parquet"],
         "writing Parquet needs pyarrow: pip install 'tickwheel[report]'"),
        ("matplotlib", ["replay", "t.csv", "--report", "r.html", "--outcomes", "o.csv"],
         "a report with plots needs matplotlib: pip install 'tickwheel[report]'"),
    ],
)
def test_a_missing_extra_gets_one_line(here, refused, monkeypatch, module, argv, line):
    """It says what to type, before any long work."""
    (here / "t.csv").write_text(GOOD)
    (here / "t.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, module, None)
    assert refused(*argv) == line


def test_a_missing_core_gets_one_line(here, refused, monkeypatch):
    """--core cython without the extension is no silent fallback."""
    (here / "t.csv").write_text(GOOD)
    monkeypatch.setitem(sys.modules, "tickwheel._replay", None)
    assert refused("replay", "t.csv", "--core", "cython") == (
        "--core must be python where no extension is installed, got 'cython'"
    )


def test_generate_tells_what_it_wrote(here, capsys):
    """With --json: where, how many, and of which shape."""
    assert main(["generate", "new.csv", "--requests", "10", "--seed", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "out": "new.csv", "requests": 10, "seed": 3, "rate_per_s": 1000.0, "p50_ms": 20.0, "p75_ms": 60.0,
        "never": 0,
    }


def test_generate_and_replay_need_no_options(here, capsys):
    """The tool's own trace is replayed with the defaults of the proposal: 200 ms."""
    assert main(["generate", "trace.csv"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["replay", "trace.csv"]) == 0
    out, err = capsys.readouterr()
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert err == ""
    assert next(iter(lines.items())) == ("core", tickwheel.IMPLEMENTATION)
    assert lines["requests"] == "100,000"
    assert int(lines["completed"].replace(",", "")) + int(lines["expired"].replace(",", "")) == 100_000
    # A log-normal latency with these quartiles passes 200 ms in 7.9 % of the cases.
    assert 7_000 < int(lines["expired"].replace(",", "")) < 8_500


def test_json_is_one_object(here, capsys):
    """Every figure under its name, with its unit."""
    (here / "t.csv").write_text(GOOD)
    assert main(["replay", "t.csv", "--json", "--tick", "7ms"]) == 0
    out = capsys.readouterr().out
    facts = json.loads(out)
    assert out.count("\n") == 1
    seconds, rate = facts.pop("seconds"), facts.pop("events_per_second")
    assert rate == pytest.approx(4 / seconds)
    assert facts.pop("cpu_seconds") > 0
    start, width, peaks = (facts.pop(f"pending_{name}") for name in ("start_ns", "width_ns", "peaks"))
    assert (start % width, max(peaks)) == (0, 1)
    assert facts == {
        "implementation": tickwheel.IMPLEMENTATION, "tick_ns": 7_000_000, "timeout_ns": 200_000_000,
        "wheel_size": 512, "purge_interval": None, "requests": 2, "completed": 1, "expired": 1,
        "peak_pending": 1, "wakeups": 1, "cascades": 0, "purges": 0, "purged": 0, "peak_watched": 1,
        "events": 4, "lateness_p50_ns": 0, "lateness_p99_ns": 0, "lateness_max_ns": 0,
    }


def test_where_and_id_reach_the_trace(here, capsys):
    """Conditions add up; the outcomes carry the ids asked for."""
    (here / "t.csv").write_text("id,arrival_ms,completion_ms,kind\nx,1,,a\ny,2,3,b\nz,4,,\n")
    assert main(["replay", "t.csv", "--where", "kind=", "--id", "id", "--outcomes", "o.csv"]) == 0
    assert (here / "o.csv").read_text() == "id,outcome,fire_ms\nz,expired,204\n"
    argv = ["replay", "t.csv", "--where", "kind=a", "--where", "id=y", "--json"]
    assert main(argv) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["requests"] == 0


@pytest.mark.parametrize("rows", [0, 1, 500])
def test_the_report_of_a_replay(here, capsys, rows):
    """Tables and plots of what there is; the printed figures are in it."""
    pytest.importorskip("matplotlib")
    (here / "t.csv").write_text(HEADER + "".join(f"{i},{i + i % 300}\n" for i in range(rows)))
    assert main(["replay", "t.csv", "--report", "r.html", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    html = (here / "r.html").read_text(encoding="utf-8")
    assert html.count("<svg") == bool(facts["requests"]) + bool(facts["completed"]) + bool(facts["expired"])
    assert f'<td>expired</td><td class="number">{facts["expired"]:,}</td>' in html
    assert f'<td>bucket wake-ups</td><td class="number">{facts["wakeups"]:,}</td>' in html


def test_results_replace_what_was_there(here):
    """A second run overwrites; a link stays a link; a device is written to, not replaced."""
    (here / "t.csv").write_text(GOOD)
    (here / "real.csv").write_text("old")
    (here / "link.csv").symlink_to("real.csv")
    for name in ("link.csv", "link.csv", os.devnull):   # a device needs no suffix
        assert main(["replay", "t.csv", "--outcomes", name]) == 0
    assert (here / "link.csv").is_symlink()
    assert (here / "real.csv").read_text() == "row,outcome,fire_ms\n1,completed,\n2,expired,203\n"
    assert not Path(os.devnull).is_file()
    assert {path.name for path in here.iterdir()} == {"t.csv", "real.csv", "link.csv"}


def test_help_and_version_end_well(capsys):
    """Exit 0; the version names the core in use; every command has its help."""
    assert main(["--version"]) == 0
    version, _ = capsys.readouterr()
    assert version == f"tickwheel {tickwheel.__version__} ({tickwheel.IMPLEMENTATION} core)\n"
    for argv in (["--help"], *([command, "--help"] for command in COMMANDS)):
        assert main(argv) == 0
        out, err = capsys.readouterr()
        assert out.startswith("usage: tickwheel")
        assert err == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_of_each_option_what_it_takes_and_its_default(command):
    """No option without a line; quantities by their kind, not by the option's name again."""
    (commands,) = (action.choices for action in _parser()._actions if action.choices)
    options = [action for action in commands[command]._actions if action.option_strings]
    assert len(options) >= 6
    for option in options:
        if option.dest != "help" and not option.required:
            assert re.fullmatch(r"\w.+ \(default:? .+\)", option.help), option.option_strings
        kind = {duration_ns: "DURATION", rate_per_s: "RATE", whole: "N"}.get(option.type)
        assert kind is None or option.metavar == kind


def test_the_help_of_bench_says_what_there_is_to_choose_from(capsys):
    """Operations and peers, by the names that --only and --peers take."""
    assert main(["bench", "--help"]) == 0
    out = capsys.readouterr().out
    operations, peers = out[out.index("operations:"):].split("peers:")
    assert set(OPERATIONS) <= set(re.split(r"[\s,]+", operations))
    assert [line.split()[0] for line in peers.strip().splitlines()] == list(PEER_NAMES)


def command(*argv, **options):
    return subprocess.Popen([sys.executable, "-m", "tickwheel.cli", *argv], stderr=subprocess.PIPE, **options)


def test_help_loads_only_what_it_needs():
    """A command's rooms are imported when it runs."""
    code = "import sys; from tickwheel.cli.__main__ import main; main(['--help'])\n" \
           "print(sorted({'csv', 'pyarrow', 'matplotlib', 'rich', 'tickwheel.trace'} & sys.modules.keys()))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()[-1] == "[]"


@pytest.mark.parametrize("argv", [["replay", "t.csv"], ["--version"]])
def test_a_reader_that_goes_away_is_no_error(here, argv):
    """`tickwheel replay t.csv | true`: quiet, 130."""
    (here / "t.csv").write_text(GOOD)
    reader, writer = os.pipe()
    os.close(reader)
    with command(*argv, stdout=writer) as process:
        os.close(writer)
        assert process.stderr.read() == b""
    assert process.returncode == 130


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_gets_one_line(here):
    """Also where it is stdout that is full."""
    (here / "t.csv").write_text(GOOD)
    with open("/dev/full", "w") as full, command("replay", "t.csv", stdout=full) as process:
        assert process.stderr.read() == b"tickwheel: No space left on device\n"
    assert process.returncode == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("argv", [
    ["generate", "/dev/full"],
    ["replay", "t.csv", "--outcomes", "/dev/full"],
    ["replay", "t.csv", "--report", "/dev/full"],
])
def test_a_file_on_a_full_disk_is_named(here, refused, argv):
    """The system does not say which of the files it is; we do."""
    if "--report" in argv:
        pytest.importorskip("matplotlib")
    (here / "t.csv").write_text(GOOD)
    assert refused(*argv) == "/dev/full: No space left on device"


@pytest.mark.parametrize(("argv", "name"), [
    (["generate", "big.csv"], "big.csv"),
    (["replay", "t.csv", "--outcomes", "o.csv"], "o.csv"),
    (["replay", "t.csv", "--outcomes", "o.csv.gz"], "o.csv.gz"),
    (["replay", "t.csv", "--outcomes", "o.parquet"], "o.parquet"),
    (["replay", "t.csv", "--report", "r.html"], "r.html"),
])
def test_a_write_error_names_the_file_that_was_asked_for(here, argv, name):
    """Not its hidden neighbour, which is gone; in the midst of the work or at its end."""
    resource = pytest.importorskip("resource")
    if name == "o.parquet":
        pytest.importorskip("pyarrow")
    if name == "r.html":
        pytest.importorskip("matplotlib")
    (here / "t.csv").write_text(HEADER + "".join(f"{i},\n" for i in range(5000)))
    before = set(here.iterdir())
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1000, hard))
    with command(*argv, preexec_fn=limit) as process:
        assert process.stderr.read().decode() == f"tickwheel: {name}: File too large\n"
    assert process.returncode == 2
    assert set(here.iterdir()) == before


def test_control_c_leaves_nothing_behind(here):
    """Quiet, 130, and the file that was being written is gone."""
    with command("generate", "t.csv", "--requests", "100000000") as process:
        until = time.monotonic() + 20
        while not any(here.iterdir()) and time.monotonic() < until:
            time.sleep(0.01)
        assert [path.name.startswith(".t.csv.") for path in here.iterdir()] == [True]
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
    assert process.returncode == 130
    assert list(here.iterdir()) == []


def test_progress_is_shown_on_a_terminal_alone(capsys, monkeypatch):
    """Nothing where stderr is a file; a bar on a terminal; silence where rich is missing."""
    with progress("working") as show:
        show(0.5)
    assert capsys.readouterr().err == ""
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress("working") as show:
        show(0.5)
    assert "working" in capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with progress("working") as show:
        show(0.5)
    assert capsys.readouterr().err == ""
