"""`tickwheel kata`: what it prints, its JSON and its page, what it refuses, how it is interrupted."""
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec

import pytest

pytest.importorskip("hdrh.histogram", reason="the extra `pipeline`")

from tickwheel.bench.kata import cell
from tickwheel.bench.kata.designs import DESIGNS
from tickwheel.bench.kata.results import Row
from tickwheel.bench.kata.run import Setting, run
from tickwheel.cli.__main__ import main
from tickwheel.cli.kata_text import moments
from tickwheel.recipes import pipelinemetrics

QUICK = ("--for", "1s", "--clients", "50", "--rate", "500")


def test_the_command_prints_what_the_article_does(capsys):
    """Machine and stream, each design's metrics by the second, the table, what it shows, the promises."""
    assert main(["kata", *QUICK, "--for", "1500ms"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("tickwheel ") and "core)" in lines[0] and "CPU" in lines[0]
    assert lines[1].endswith("; 50 clients; 10 ms of work each; 12 threads of ours; seed 1")
    for name in DESIGNS:
        start = lines.index(name)
        first, last = lines[start + 1 : start + 3]
        assert first.startswith("      1 s  latency_ms: count=")
        assert last.startswith("    1.5 s  latency_ms: count=")
        assert "p75=" in first and "p98=" in first and "p999=" in first
        assert last.endswith("; no queue") if name == "sequential" else "; queue=" in last
    [head] = [number for number, line in enumerate(lines) if line.lstrip().startswith("processed/s")]
    table = {line.split()[0]: line.split()[1:] for line in lines[head + 1 : head + 7]}
    assert list(table) == list(DESIGNS)
    assert table["keyed-pool"][-3:] == ["0", "0", "0"]
    assert table["sequential"][-3] == table["sequential"][-1] == "0"
    assert lines[head + 8].startswith("sequential falls behind: ")
    assert lines.index("Promises") > head + 8
    assert err == ""


def test_the_lines_in_between_are_left_out():
    """Without --each-second: the first two and the last."""
    setting = Setting("keyed-pool", duration=0.2, rate=50.0, consume=0.001)
    seen = run(setting)
    row = Row(setting, replace(seen, moments=[replace(seen.at_end, at_s=second) for second in range(1, 6)]))
    for each_second, expected in (False, ["1", "2", "...", "5"]), (True, ["1", "2", "3", "4", "5"]):
        blank, name, *lines = moments(row, each_second).splitlines()
        assert (blank, name) == ("", "keyed-pool")
        assert [line.split()[0] for line in lines] == expected


def test_the_command_prints_json(capsys):
    """One object: machine, caveats, each design with its setting and what was seen, promises."""
    assert main(["kata", *QUICK, "--seed", "5", "--only", "keyed-pool,sequential", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [design["design"] for design in result["designs"]] == ["sequential", "keyed-pool"]
    for design in result["designs"]:
        assert design["note"] is None
        assert (design["rate"], design["consume"], design["duration"], design["seed"]) == (500, 0.01, 1.0, 5)
        seen = design["seen"]
        assert seen["delivered"] == seen["processed"] + seen["refused"] + seen["dropped"] + seen["waiting"]
        [moment] = seen["moments"]
        assert moment["at_s"] == 1.0
        assert {"recorded", "p50", "p75", "p95", "p98", "p99", "p999", "longest"} <= moment["latency"].keys()
    assert result["designs"][0]["keeps_up"] is False
    assert len(result["promises"]) == 4
    assert "hdrhistogram" in result["machine"]


def test_the_command_writes_a_report(tmp_path, capsys):
    """Two plots over time, latency and backlog, and the table."""
    pytest.importorskip("matplotlib")
    page = tmp_path / "out.html"
    argv = ["kata", *QUICK, "--only", "pool-10,keyed-pool", "--each-second", "--report", str(page)]
    assert main(argv) == 0
    text = page.read_text()
    assert text.count("<svg") == 2
    for words in ("Latency over time", "over time", "Promises", "order violations", "pool-10", "keyed-pool"):
        assert words in text
    capsys.readouterr()


def test_a_design_that_fails_is_told(capsys, tmp_path, monkeypatch):
    """Its row says why, in text, JSON and page; the command goes on to its end."""
    pytest.importorskip("matplotlib")

    def fails(setting):
        raise RuntimeError("no more threads")

    monkeypatch.setattr(cell, "measure", fails)
    page = tmp_path / "out.html"
    assert main(["kata", *QUICK, "--report", str(page)]) == 0
    assert capsys.readouterr().out.count("failed: no more threads") == 3 * len(DESIGNS)
    assert "failed: no more threads" in page.read_text()
    assert main(["kata", *QUICK, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {(design["seen"], design["note"]) for design in result["designs"]} == {
        (None, "failed: no more threads")
    }


@pytest.mark.parametrize(("argv", "problem"), [
    (["--rate", "0"], "--rate must be a whole number >= 1 such as 1000, 250k or 1e6, got '0'"),
    (["--rate", "-5"], "--rate must be a whole number >= 1 such as 1000, 250k or 1e6, got '-5'"),
    (["--rate", "1e6"], "--rate must be > 0 and at most 100,000 a second, got 1000000"),
    (["--consume", "0ms"], "--consume must be > 0, got '0ms'"),
    (["--consume", "10"], "--consume must be a duration such as 200ms or 1s, got '10'"),
    (["--consume", "31s"], "--consume must be > 0 s and at most as long as the stream (30 s), got 31 s"),
    (["--threads", "0"], "--threads must be a whole number >= 1 such as"),
    (["--clients", "0"], "--clients must be a whole number >= 1 such as"),
    (["--clients", "1e400"], "--clients must be a whole number >= 1 such as 1000, 250k or 1e6, got '1e400'"),
    (["--duplicates", "1"], "--duplicates must be >= 0 and < 1, got 1.0"),
    (["--duplicates", "-0.1"], "--duplicates must be >= 0 and < 1, got -0.1"),
    (["--duplicates", "nan"], "--duplicates must be >= 0 and < 1, got nan"),
    (["--duplicates", "few"], "--duplicates must be a share between 0 and 1, got 'few'"),
    (["--for", "0s"], "--for must be > 0, got '0s'"),
    (["--for", "30"], "--for must be a duration such as 200ms or 1s, got '30'"),
    (["--for", "6000s"], "--for must be so short that there are at most 5,000,000 deliveries, got 6000 s at"),
    (["--seed", "-1"], "--seed must be >= 0, got -1"),
    (["--only", "pool-20,actors"], "--only must be among sequential, pool-10, pool-20, lock-fails, "),
    (["--master", "local[2]"], "--master must be given with --spark alone"),
    (["--spark", "--consume", "10ms"], "--consume must not be given with --spark"),
    (["--spark", "--threads", "12"], "--threads must not be given with --spark"),
    (["--spark", "--only", "keyed-pool"], "--only must not be given with --spark"),
    (["--spark", "--each-second"], "--each-second must not be given with --spark"),
    (["--spark", "--report", "out.html"], "--report must not be given with --spark"),
    (["--spark", "--master", "yarn"], "--master must be this machine, as local[2] is: the files are here"),
    (["--spark", "--rate", "1e6"], "--rate must be > 0 and at most 100,000 a second, got 1000000"),
    (["--report", "out.json"], "--report must end in .html or .htm, got 'out.json'"),
    pytest.param(
        ["--report", "missing/out.html"], "missing/out.html: No such file or directory",
        marks=pytest.mark.skipif(find_spec("matplotlib") is None, reason="a missing extra comes first"),
    ),
])
def test_bad_options_are_refused(argv, problem, refused, monkeypatch):
    """One line that names option, rule and value; exit 2; nothing measured."""
    monkeypatch.setattr(cell, "measure", lambda setting: pytest.fail("measured"))
    assert refused("kata", *argv).startswith(problem)


def test_without_hdrhistogram_it_says_what_to_install(capsys, monkeypatch):
    """One line, before anything is measured."""
    monkeypatch.setitem(sys.modules, "hdrh.histogram", None)
    monkeypatch.setattr(cell, "measure", lambda setting: pytest.fail("measured"))
    assert main(["kata", *QUICK]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "pip install 'tickwheel[pipeline]'" in err and err.count("\n") == 1
    with pytest.raises(ImportError):
        pipelinemetrics.PipelineMetrics()


@pytest.mark.parametrize("module", ["pyspark.sql", "pyarrow"])
def test_without_spark_it_says_what_to_install(capsys, monkeypatch, module):
    """One line, before anything is played."""
    if module != "pyspark.sql":
        pytest.importorskip("pyspark")
    monkeypatch.setitem(sys.modules, module, None)
    assert main(["kata", *QUICK, "--spark"]) == 2
    package = module.partition(".")[0]
    assert capsys.readouterr() == (
        "", f"tickwheel: kata --spark needs {package}: pip install 'tickwheel[spark]'\n"
    )


def is_there(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupt_ends_it_well(tmp_path):
    """Also when it comes to the command alone: exit 130, no traceback, no report, no process left over."""
    pytest.importorskip("matplotlib")
    page = tmp_path / "out.html"
    command = subprocess.Popen(
        [sys.executable, "-m", "tickwheel.cli.__main__", "kata", "--report", str(page)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )
    assert "kata" not in command.stdout.readline()
    while not command.stdout.readline().startswith("keyed-pool"):
        pass            # the heading is flushed when all is ready
    time.sleep(0.5)     # into the first run
    command.send_signal(signal.SIGINT)
    out, err = command.communicate(timeout=20)
    assert command.returncode == 130
    assert err == ""
    assert "processed/s" not in out
    assert list(tmp_path.iterdir()) == []
    while is_there(command.pid):    # what was killed is gone once the system has noticed
        time.sleep(0.05)


def test_the_help_shows_each_default(capsys):
    """Nothing is measured by asking."""
    assert main(["kata", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for words in (
        "--rate N", "--consume DURATION", "--threads N", "--duplicates SHARE", "--for DURATION",
        "--clients N", "--seed N", "--only A,B", "--each-second", "--json", "--report FILE",
        "--spark", "--master MASTER",
    ):
        assert words in out
    assert out.count("default") >= 12
