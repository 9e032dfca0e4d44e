"""`tickwheel tune` on a real Spark: the numbers of `tickwheel replay`, the choice, and clear refusals."""
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tickwheel.cli.__main__ import main
from tickwheel.replay import replay
from tickwheel.trace import Trace

HEADER = "arrival_ms,completion_ms\n"
SUMS = ("requests", "completed", "expired", "wakeups", "cascades", "purges", "purged")


@pytest.fixture
def here(spark, tmp_path, monkeypatch):
    """An empty folder to work in; the command's session is the tests' one, which it must not end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)
    return tmp_path


def tune(*argv):
    return main(["tune", *argv, "--master", "local[2]"])


def generated(name, requests, seed):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    assert main(["generate", name, "--requests", str(requests), "--seed", str(seed)]) == 0


def test_the_counts_are_those_of_replay(here, capsys):
    """Of each configuration, summed over the shards; the recommended one is the first."""
    generated("a.csv", 3000, 1)
    generated("b.csv.gz", 2000, 2)
    grid = ["--tick", "1ms,20ms", "--wheel-size", "4,512", "--purge-interval", "none,100"]
    assert tune("a.csv", "b.csv.gz", *grid, "--timeout", "150ms", "--max-lateness", "20ms", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["configurations"]) == 8
    for row in found["configurations"]:
        alone = [
            replay(
                Trace(path), tick_ns=round(row["tick_ms"] * 10**6), timeout_ns=150 * 10**6,
                wheel_size=row["wheel_size"], purge_interval=row["purge_interval"],
            )
            for path in ("a.csv", "b.csv.gz")
        ]
        assert {name: row[name] for name in SUMS} == {
            name: sum(getattr(result, name) for result in alone) for name in SUMS
        }
    best, *others = found["configurations"]
    assert best["recommended"]
    assert best["tick_ms"] == 20
    assert not any(row["recommended"] for row in others)
    assert found["choice"].startswith(f"take --tick 20ms --wheel-size {best['wheel_size']}: ")
    assert found["warning"].startswith("warning: shard a.csv has 60% of the requests")


def test_a_table_and_a_page(here, capsys):
    """A row a configuration, those over the limit marked, which to take; the page draws what it rests on."""
    for shard in range(3):
        generated(f"requests/shard={shard}/part-0.csv", 1500, shard)
    assert tune("requests", "--report", "out.html") == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert "pyspark" in lines[0]
    assert lines[1].startswith("4,500 requests in 3 shards, ")
    assert lines[1].endswith(" expired after 200 ms; Spark on local[2]")
    rows = [line for line in lines if "--wheel-size" in line and not line.startswith("take")]
    assert [line[:2] for line in rows] == ["* ", *["  "] * 7, *["x "] * 4]
    assert all("--tick 100ms" in line for line in rows[-4:])
    assert lines[-1].startswith("take --tick 10ms --wheel-size ")
    page = Path("out.html").read_text()
    assert page.count("<svg") == 5
    for caption in ("Cost", "Wake-ups", "Cascades", "Lateness of the expired requests", "Pending over time"):
        assert f"<figcaption>{caption}" in page
    for fact in ("local[2]", "core)", "pyspark", "shard 2", lines[-1]):
        assert fact in page


def test_a_timeout_of_each_request_and_a_limit_that_none_meets(here, capsys):
    """The least late is named; nothing is recommended. A trace without requests is no error."""
    Path("own.csv").write_text("arrival_ms,completion_ms,timeout_ms\n0.1,,5\n0.7,,7\n")
    assert tune("own.csv", "--timeout-column", "timeout_ms", "--tick", "2ms,50ms", "--wheel-size", "8",
                "--max-lateness", "1us", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["recommended"] for row in found["configurations"]] == [False, False]
    assert found["choice"] == (
        "none meets the limit, a p99 lateness of 0.001 ms: the least late is --tick 2ms --wheel-size 8, "
        "with 0.9 ms")
    Path("none.csv").write_text(HEADER)
    assert tune("none.csv", "--tick", "1ms", "--wheel-size", "8", "--report", "out.html") == 0
    assert "0 requests in 1 shard" in capsys.readouterr().out


@pytest.fixture
def refused(here, capsys):
    """Runs a command that must end with one line, exit 2, and leave no page behind."""

    def run(*argv):
        assert tune(*argv, "--report", "out.html") == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("tickwheel: ") and err.count("\n") == 1, err
        assert not Path("out.html").exists()
        return err.removeprefix("tickwheel: ").removesuffix("\n")

    return run


def test_bad_input_is_one_line(here, refused):
    """File and row, or the option, with the rule and the value seen."""
    Path("good.csv").write_text(HEADER + "1,2\n3,\n")
    Path("back.csv").write_text(HEADER + "5,6\n3,\n")
    Path("cell.csv").write_text(HEADER + "1,2\nnoon,3\n")
    Path("other.csv").write_text("start,end\n1,2\n")
    assert refused("good.csv", "gone.csv") == "gone.csv: No such file or directory"
    assert refused("good.csv", "back.csv").endswith(
        "back.csv, row 2: arrival_ms must not go back, got '3' after 5")
    assert refused("cell.csv").endswith("cell.csv, row 2: arrival_ms must be a number, got 'noon'")
    assert refused("other.csv").endswith("other.csv: no column 'arrival_ms'; the columns are start, end")
    assert refused("good.csv", "--tick", "1ms,0ms") == "--tick must be > 0, got '0ms'"
    assert refused("good.csv", "--wheel-size", "64,1") == (
        "--wheel-size must be a whole number from 2 to 268435456, got 1")
    assert refused("good.csv", "--purge-interval", "few") == (
        "--purge-interval must be a whole number, got 'few'")
    assert refused("good.csv", "--arrival", "when") == (
        "--unit must be given unless a column ends in it, as _ms does, got 'when'")
    assert refused("good.csv", "--max-lateness", "soon") == (
        "--max-lateness must be a duration such as 200ms or 1s, got 'soon'")
    assert refused("good.csv", "good.csv") == (
        "TRACE must differ from one another, got good.csv more than once")


@pytest.mark.parametrize("command", [
    ["tune", "good.csv"], ["watch", "in", "--key", "a", "--time", "b", "--checkpoint", "c"],
])
def test_without_java_or_pyspark_it_says_what_to_install(here, monkeypatch, capsys, command):
    """One line, exit 2."""
    Path("good.csv").write_text(HEADER)
    Path("in").mkdir()
    with monkeypatch.context() as patch:
        patch.setenv("JAVA_HOME", str(here))
        assert main(command) == 2
    assert capsys.readouterr().err == (
        f"tickwheel: {command[0]} needs Java 17 or later: "
        "install a JDK and put java on PATH or set JAVA_HOME\n")
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    assert main(command) == 2
    assert capsys.readouterr().err == (
        f"tickwheel: {command[0]} needs pyspark: pip install 'tickwheel[spark]'\n")


def test_an_interrupt_ends_it(here):
    """Ctrl-C while Spark reads: 130, not a word, no page."""
    os.mkfifo("pipe.csv")
    options = ["--report", "out.html", "--master", "local[1]"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tickwheel.cli", "tune", "pipe.csv", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    with open("pipe.csv", "w") as pipe:         # opened once a task of Spark reads it
        pipe.write(HEADER)
        pipe.flush()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "")
    assert sorted(path.name for path in here.iterdir()) == ["pipe.csv"]
