"""The pipeline on Spark, measured: all contenders do the same work; what the rows say, tables, the page."""
import json
import sys
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from tickwheel.bench.runner import measure
from tickwheel.bench.spark import cell as cells
from tickwheel.bench.spark import ground as grounds
from tickwheel.bench.spark import jobs, stories
from tickwheel.bench.spark.cell import Cell, measure_here, prepare_here
from tickwheel.bench.spark.ground import Ground, Sample
from tickwheel.bench.spark.inputs import BATCH_S, Messages, RequestFiles
from tickwheel.bench.spark.plan import Row, plan
from tickwheel.bench.spark.results import configured_ns, losses, ratio, verdicts
from tickwheel.bench.spark.stories import STORIES
from tickwheel.cli.__main__ import main
from tickwheel.cli.bench_spark_text import as_json, as_text, heading
from tickwheel.trace import Trace
from tickwheel.workload import generate

N = 2000
JAVA = "17.0.1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("inputs"))


@pytest.fixture
def here(spark, folder, monkeypatch):
    """Measures a contender in this process: one run, tiny."""
    monkeypatch.setattr(grounds, "ENOUGH_RUNS", 1)

    def measure_one(story, contender):
        cell = Cell(story, contender, N, 2, folder)
        prepare_here(cell, spark)
        return measure_here(cell, spark)

    return measure_one


def test_requests_are_files_in_order(spark, tmp_path):
    """Each shard is a trace that `Trace` reads; together they are the workload."""
    files = RequestFiles(N, 4)
    files.write(spark, str(tmp_path / "requests"))
    seen = sorted(
        pair
        for shard in range(4)
        for chunk in Trace(str(tmp_path / "requests" / f"shard={shard}"))
        for pair in zip(chunk.arrivals, chunk.completions, strict=True)
    )
    assert seen == sorted(generate(N))


def test_messages_are_batches(tmp_path):
    """First every client once, then batches of clients at random, each of the seconds that follow."""
    messages = Messages(clients=50, rows=30, batches=2, all_first=True)
    messages.write(None, str(tmp_path / "messages"))
    tables = [pq.read_table(path) for path in sorted((tmp_path / "messages").iterdir())]
    assert [table.num_rows for table in tables] == [50, 30, 30]
    assert len(set(tables[0]["client"].to_pylist())) == 50
    first_s = tables[0]["at"].to_pylist()[0].timestamp() // BATCH_S
    for number, table in enumerate(tables):
        assert {at.timestamp() // BATCH_S - first_s for at in table["at"].to_pylist()} == {number}


@pytest.mark.parametrize("contender", STORIES["generate"].contenders)
def test_each_way_to_generate_writes_files(contender, here, spark, folder):
    """A tenth in one process; nothing is left behind."""
    sample = here("generate", contender)
    assert sample.rows == (N // 10 if contender == stories.ONE_PROCESS else N)
    assert len(sample.seconds) == 1


def test_every_replay_counts_the_same(here):
    """What expires is that of the one-process replay; the cross join has a tenth of the rows."""
    samples = {contender: here("replay", contender) for contender in STORIES["replay"].contenders}
    found = {contender: sample.found for contender, sample in samples.items() if sample.found}
    assert samples.keys() - found.keys() == {stories.READ, stories.IDENTITY}
    assert samples[stories.CROSS_JOIN].rows == N // 10
    assert found.pop(stories.CROSS_JOIN) != found[stories.ONE_PROCESS]
    assert len(set(found.values())) == 1
    assert "0 expired" not in found.values()


def test_a_row_that_is_missing_fails_the_cell(spark, folder):
    """A contender that reads less than was written has no figure."""
    prepare_here(Cell("replay", "", N, 2, folder), spark)
    ground = Ground(spark, folder, N, 2)
    with pytest.raises(RuntimeError, match="2,000 rows were written, 3 were seen"):
        jobs.measure_replay(lambda *_: [{"tick_ms": 1.0, "wheel_size": 512, "requests": 3}], ground)


def test_all_find_the_same_idle_clients(here):
    """Per batch and steady: the first batch is not counted."""
    samples = [here("idle", contender) for contender in STORIES["idle"].contenders]
    assert len({sample.found for sample in samples}) == 1
    assert not samples[0].found.startswith("0 idle")
    assert [len(sample.seconds) for sample in samples] == [3, 3, 3]


def test_the_state_that_is_written_is_seen(here):
    """The batch in which all clients came, and those after it."""
    sample = here("growth", stories.ONE_VALUE)
    assert sample.seen["all pending, KB"] > sample.seen["KB a batch"] > 0


def test_what_is_pending_is_seen(here):
    """By a timeout as long as the trace all requests are pending at once."""
    names = list(STORIES["pending"].contenders)
    assert here("pending", names[-1]).seen["pending"] == N // 10
    assert here("pending", names[0]).seen["pending"] < N // 10


def row(story, contender, seconds, rows=1000, *, n=1000, found=None, **seen):
    return Row(Cell(story, contender, n, 2, ""), [Sample([seconds], rows, seen, found)])


def test_a_row_is_the_median_of_its_rounds():
    """Of the runs in each, and of what was seen beside them."""
    seen = Row(Cell("idle", "wheel", N, 2, ""))
    assert (seen.figure, seen.rows_per_s, seen.seen("MB"), seen.found) == (None, None, None, set())
    for runs, megabytes in ([1.0, 9.0, 2.0], 10.0), ([4.0], 30.0), ([3.0], 20.0):
        seen.samples.append(Sample(runs, 600, {"MB": megabytes}, "7 idle"))
    assert (seen.figure, seen.rows_per_s, seen.seen("MB"), seen.found) == (3.0, 200.0, 20.0, {"7 idle"})


def test_ratios_are_of_time_a_row():
    """To ours in the same story; a rival that is faster is named; what does less work is no rival."""
    rows = [
        row("replay", stories.READ, 1.0), row("replay", stories.FILES_1, 2.0),
        row("replay", stories.ONE_PROCESS, 1.5), row("replay", stories.CROSS_JOIN, 4.0, rows=100),
        row("growth", stories.WHEEL, 2.0), row("growth", stories.SESSION, 0.5),
        row("pending", "0.1 of the rows", 1.0),
    ]
    assert [ratio(each, rows) for each in rows] == [0.5, 1.0, 0.75, 20.0, 1.0, 0.25, None]
    assert losses(rows) == [(rows[5], 0.25), (rows[2], 0.75)]


def test_a_configuration_costs_what_it_takes_beyond_reading():
    """Of both cores: (9 - 1) s x 2 over 8 configurations of 1,000 rows."""
    rows = [
        row("replay", stories.READ, 1.0), row("replay", stories.FILES_8, 9.0), row("tune", stories.TUNE, 1.0),
    ]
    assert configured_ns(rows[1], rows) == pytest.approx(2e6)
    assert configured_ns(rows[1], rows[1:]) is None
    assert configured_ns(rows[2], rows) is None


def test_the_promises():
    """Each is judged by what was seen; what was not measured, or not at the size promised, is not judged."""
    n = 10_000_000
    rows = [
        row("generate", stories.GENERATED, 4.0, n, n=n),
        row("replay", stories.READ, 1.0, n, n=n), row("replay", stories.FILES_1, 2.5, n, n=n, found="a"),
        row("replay", stories.FILES_8, 9.0, n, n=n, found="b"),
        row("replay", stories.CROSS_JOIN, 9.0, 10, found="c"),
        row("idle", stories.WHEEL, 1.0, found="x"), row("idle", stories.CLIENT_TIMERS, 6.0, found="x"),
        row("tune", stories.TUNE, 60.0, n, n=n),
        Row(Cell("idle", stories.SESSION, n, 2, ""), note="failed: x"),
    ]
    assert {verdict.promise: (verdict.seen, verdict.holds) for verdict in verdicts(rows)} == {
        "generate_requests: at least 2,000,000 rows/s": (2.5e6, True),
        "replay_files, 1: at least 5,000,000 rows/s": (4e6, False),
        "replay_files, 8: at most 120 ns of a core a row and configuration beyond reading": (
            pytest.approx(200), False
        ),
        "detect_idle, wheel: at least 6 x timer a client": (6.0, True),
        "tickwheel tune, 10,000,000 requests: less than 120 s": (60.0, True),
        "replay: replay_files, 1; replay_files, 8: all found the same (a, b)": (2, False),
        "idle: wheel; timer a client: all found the same (x)": (1, True),
    }
    assert verdicts([]) == []
    sized = [stories.shards_of(2, share) for share in stories.SIZES]
    grown = [
        row("shards", name, seconds, **{"workers MB": 100.0})
        for name, seconds in zip(sized, (1.0, 3.0, 5.0), strict=True)
    ]
    assert [(verdict.seen, verdict.holds) for verdict in verdicts(grown)] == [(5.0, False), (1.0, True)]
    assert [verdict.holds for verdict in verdicts([grown[0], row("shards", sized[2], 4.0)])] == [True]
    assert verdicts([row("tune", stories.TUNE, 1.0)]) == []


def test_files_are_made_once_and_a_failing_cell_keeps_its_reason(monkeypatch, tmp_path):
    """The first cell of a story has its files made, in a process of its own."""
    acts = []

    def fresh(module, arguments, longest_s):
        [(act, cell)] = arguments.items()
        acts.append((act, cell["contender"]))
        if cell["contender"] == stories.SQL:
            raise RuntimeError("no room")
        return {"seconds": [1.0], "rows": 5}

    monkeypatch.setattr(cells, "in_fresh_process", fresh)
    rows = plan(["generate"], N, 2, str(tmp_path))[:3]
    measure(rows, 2, lambda fraction: None)
    first, second, third = (each.cell.contender for each in rows)
    assert acts == [
        ("prepare", first), ("measure", first), ("measure", second), ("measure", third),
        ("measure", first), ("measure", second),
    ]
    assert [each.note for each in rows] == [None, None, "failed: no room"]
    assert rows[0].samples == [Sample([1.0], 5)] * 2
    assert "failed: no room" in as_text(rows)


def filled():
    rows = plan(["idle", "growth", "pending"], 1000, 2, "")
    for number, each in enumerate(rows, 1):
        each.samples.append(Sample([number / 10], 100, {"workers MB": 5.0, "KB a batch": 6.5}))
    return rows


def test_the_tables():
    """The core, the versions, the master; caveats first; a line a contender; what loses; the promises."""
    rows = filled()
    lines = heading(rows, JAVA).splitlines()
    assert lines[0].startswith("tickwheel ")
    assert all(part in lines[0] for part in ("CPU", "pyspark ", "Java 17.0.1", "master local[2]"))
    assert all(line.startswith("- ") for line in lines[2:])
    lines = as_text(rows).splitlines()
    for story in "idle", "growth", "pending":
        start = lines.index(STORIES[story].caption)
        for line, contender in zip(lines[start + 2 :], STORIES[story].contenders, strict=False):
            assert line.startswith(f"  {contender}")
    assert sum("session_window is the better choice" in line for line in lines) == 1
    assert "Faster than ours" not in lines
    assert any(line.startswith("  FAILS") and "6 x timer a client" in line for line in lines)
    rows[1].samples[0] = replace(rows[1].samples[0], seconds=[0.01])
    assert "Faster than ours" in as_text(rows).splitlines()


def test_json_has_all_that_was_measured():
    """And what it was measured on."""
    result = json.loads(json.dumps(as_json(filled(), 1, JAVA)))
    assert (result["machine"]["Java"], result["machine"]["master"]) == (JAVA, "local[2]")
    assert [each["contender"] for each in result["rows"]][:3] == list(STORIES["idle"].contenders)
    assert result["rows"][1]["samples"] == [
        {"seconds": [0.2], "rows": 100, "seen": {"workers MB": 5.0, "KB a batch": 6.5}, "found": None}
    ]


def test_the_page():
    """A plot and a table a story, and the promises."""
    pytest.importorskip("matplotlib")
    from tickwheel.cli.bench_spark_page import SparkPage

    text = SparkPage(filled(), JAVA).html()
    assert text.count("<svg") == 3
    assert "Promises" in text
    assert f"Java {JAVA}, master local[2]" in text


def test_the_command_measures_in_fresh_processes(capfd):
    """`tune` from start to end; one JSON object, and nothing of Spark's on stderr."""
    assert main(["bench", "spark", "--cells", "tune", "--rows", "1000", "--json"]) == 0
    out, err = capfd.readouterr()
    [tuned] = json.loads(out)["rows"]
    assert (tuned["note"], tuned["samples"][0]["rows"]) == (None, 1000)
    assert err == ""


@pytest.mark.parametrize(("argv", "problem"), [
    (["--cells", "speed"], "--cells must be among generate, replay, "),
    (["--rows", "few"], "--rows must be a whole number >= 1 such as 1000, 250k or 1e6, got 'few'"),
    (["--rows", "999"], "--rows must be >= 1,000, got '999'"),
    (["--rounds", "0"], "--rounds must be a whole number >= 1 such as 1000, 250k or 1e6, got '0'"),
    (["--master", "yarn"], "--master must be local[N], with N cores, such as local[2], got 'yarn'"),
    (["--master", "local[0]"], "--master must be local[N], with N cores, such as local[2], got 'local[0]'"),
    (["--report", "out.txt"], "--report must end in .html or .htm, got 'out.txt'"),
    (["--report", "missing/out.html"], "missing/out.html: No such file or directory"),
])
def test_bad_options_are_refused(argv, problem, capsys, tmp_path, monkeypatch):
    """One line that names option, rule and value; exit 2; nothing measured."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Cell, "measure", lambda cell, seed: pytest.fail("measured"))
    assert main(["bench", "spark", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"tickwheel: {problem}")
    assert err.count("\n") == 1


def test_without_pyspark_it_says_what_to_install(capsys, monkeypatch):
    """One line, before anything is measured."""
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    monkeypatch.setattr(Cell, "measure", lambda cell, seed: pytest.fail("measured"))
    assert main(["bench", "spark"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "tickwheel: bench spark needs pyspark: pip install 'tickwheel[spark]'\n")


def test_without_java_it_says_what_to_install(capsys, monkeypatch, tmp_path):
    """One line, before anything is measured."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(Cell, "measure", lambda cell, seed: pytest.fail("measured"))
    assert main(["bench", "spark"]) == 2
    assert capsys.readouterr().err.startswith("tickwheel: bench spark needs Java 17 or later: ")
