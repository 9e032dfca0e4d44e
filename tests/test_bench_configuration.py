"""Bad configurations: what they cost is measured in virtual time, and changing them loses nothing."""
import json
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from random import Random

import pytest

from tickwheel.bench import configuration, live
from tickwheel.bench.configuration import DELAYS, Cell, Configuration, Row, Sample, measure_here, plan
from tickwheel.bench.live import LiveCell, LiveRow
from tickwheel.bench.runner import measure
from tickwheel.cli.__main__ import main
from tickwheel.cli.bench_configuration_text import as_text, live_line, range_line

TASKS = 400
CONFIGURATIONS = [(0.0001, 2), (0.001, 20), (0.1, 512)]
SEEN = Sample(
    schedule_ns=100.0,
    expire_ns=100.0,
    cascades=1.0,
    wakeups=0.5,
    late_p50_ms=0.5,
    late_p99_ms=1.0,
    moved=200,
    reconfigure_ms=0.1,
    lost=0,
    twice=0,
    early=0,
)


def cell(delays, here=(0.001, 20), there=(0.01, 4)):
    return Cell(delays, *here, *there, TASKS)


@pytest.mark.parametrize(("delays", "least", "most"), [
    ("first", 0, 1), ("three", 0, 20**3), ("beyond", 20**3, 2 * 20**3), ("low", 0, 1e9), ("high", 0, 1e9),
])
def test_delays_lie_where_they_say(delays, least, most):
    """In wheels' ranges: within the first, over three, beyond the third; two are the proposal's latencies."""
    here = Configuration(0.001, 20)
    drawn = [DELAYS[delays][1](Random(seed), here) for seed in range(TASKS)]
    assert least * 0.001 <= min(drawn) and max(drawn) <= max(most * 0.001, here.span(1))
    quartiles = [sorted(drawn)[len(drawn) * share // 4] for share in (2, 3)]
    if delays in ("low", "high"):
        assert quartiles == pytest.approx({"low": [0.02, 0.06], "high": [0.2, 0.4]}[delays], rel=0.4)


@pytest.mark.parametrize("delays", DELAYS)
@pytest.mark.parametrize("here", CONFIGURATIONS)
@pytest.mark.parametrize("there", CONFIGURATIONS)
def test_reconfigured_in_the_middle_nothing_is_lost(delays, here, there):
    """R5, R1: each task of the run fires once, none early, whatever the configuration becomes half-way."""
    sample = measure_here(cell(delays, here, there), seed=1)
    assert (sample.lost, sample.twice, sample.early) == (0, 0, 0)
    assert 0 < sample.moved <= TASKS // 2


def test_what_a_wheel_does():
    """Within the first wheel nothing cascades; beyond the third a task comes down thrice, in most cases."""
    first, beyond = (measure_here(cell(delays), seed=1) for delays in ("first", "beyond"))
    assert first.cascades == 0
    assert 2.5 < beyond.cascades <= 3
    assert 0 < first.wakeups * TASKS <= 20
    assert first.wakeups < beyond.wakeups


def test_a_coarse_tick_is_late():
    """In virtual time all lateness is rounding: never more than a tick."""
    for tick in 0.001, 0.1:
        sample = measure_here(cell("high", (tick, 512)), seed=1)
        assert tick / 8 < sample.late_p50_ms / 1e3 <= sample.late_p99_ms / 1e3 <= tick + 1e-9


def test_a_task_that_fires_twice_is_counted(monkeypatch):
    """The count can fail: a timer that fires a task again, or never, is found out."""

    class Faulty(configuration.Timer):
        def reconfigure(self, **options):
            super().reconfigure(**options)
            if calls:
                self.schedule(0.0, calls[0][0], *calls[0][1])

        def schedule_at(self, when, callback, *args):
            if args == (7,):
                return
            if args:
                calls.append((callback, args))
            super().schedule_at(when, callback, *args)

    calls = []
    monkeypatch.setattr(configuration, "Timer", Faulty)
    sample = measure_here(cell("three"), seed=1)
    assert (sample.lost, sample.twice) == (1, 1)
    assert not sample.exact


def test_the_plan_is_every_configuration():
    """Each becomes the next one in the middle, and the last the first."""
    rows = plan(["first", "low"], [0.001, 0.01], [4, 8], TASKS)
    assert len(rows) == 2 * 4
    for delays in "first", "low":
        cells = [row.cell for row in rows if row.cell.delays == delays]
        assert [cell.configuration for cell in cells] == [
            Configuration(tick, size) for tick in (0.001, 0.01) for size in (4, 8)
        ]
        assert all(a.to == b.configuration for a, b in pairwise([*cells, cells[0]]))


def test_a_row_shows_the_round_that_went_wrong():
    """A round that lost a task is not hidden by others; else it is the one of median speed."""
    row = Row(cell("low"))
    assert row.sample is None
    row.samples += [replace(SEEN, expire_ns=ns) for ns in (300.0, 100.0, 200.0)]
    assert row.sample.expire_ns == 200.0
    row.samples.append(replace(SEEN, lost=1))
    assert row.sample.lost == 1


def test_the_range_is_the_answer():
    """How many times the best configuration's time the worst one takes."""
    rows = plan(["low"], [0.001], [4, 8], TASKS)
    assert range_line(rows) is None
    for row, ns in zip(rows, (900.0, 100.0), strict=True):
        row.samples.append(replace(SEEN, expire_ns=ns))
    line = "the slowest (1 ms x 4) takes 5.0 times the CPU time of the fastest (1 ms x 8)"
    assert range_line(rows) == line


def test_a_failing_cell_keeps_its_reason():
    """It has its row, with the last line of its traceback."""
    row = Row(replace(cell("low"), delays="none"))
    measure([row], 1, lambda fraction: None)
    assert row.note == "failed: KeyError: 'none'"
    row.cell = cell("low")
    assert "failed: KeyError" in as_text([row], LiveRow(LiveCell([], 1), note="not run"))


def test_reconfigured_while_it_runs_nothing_is_lost():
    """In real time, by another thread, again and again: each request of the purgatory completes once."""
    sample = LiveCell(CONFIGURATIONS, 10_000).measure(1)
    assert (sample.run.died, sample.run.never, sample.run.enqueued) == (None, 0, 10_000)
    assert sample.reconfigured > 0
    assert sample.run.timed_out >= sample.run.beyond_timeout > 0
    text = live_line(LiveRow(LiveCell(CONFIGURATIONS, 10_000), [sample]))
    assert text.startswith(f"Reconfigured while it ran, {sample.reconfigured:,} times: 10,000 requests")
    assert text.endswith("0 never completed, none twice")


def test_a_live_run_that_dies_says_so():
    """Its line names what it died of."""
    row = LiveRow(LiveCell(CONFIGURATIONS, 1))
    measure([row], 1, lambda fraction: None)
    row.samples = [replace(row.samples[0], run=replace(row.samples[0].run, died="StopIteration: "))]
    assert live_line(row) == "Reconfigured while it ran: StopIteration: "
    assert live_line(LiveRow(row.cell, note="failed: x")) == "Reconfigured while it ran: failed: x"


QUICK = (
    "--delays", "first,low", "--ticks", "1ms,10ms", "--wheel-sizes", "4,64",
    "--tasks", "200", "--live", "200",
)


def test_the_command_prints_tables(capsys):
    """A table a distribution, a row a configuration, the range under it, and the live run at the end."""
    assert main(["bench", "configuration", *QUICK]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("tickwheel ") and "CPU" in lines[0]
    for title in (
        "first: uniform within the first wheel; 200 tasks",
        "low: log-normal, p50 20 ms, p75 60 ms; 200 tasks",
    ):
        start = lines.index(title)
        rows = [line.split()[:4] for line in lines[start + 2:start + 6]]
        assert rows == [[tick, "ms", "x", size] for tick in ("1", "10") for size in ("4", "64")]
        assert lines[start + 6].startswith("  the slowest (")
    assert lines[-1].startswith("Reconfigured while it ran, ")
    assert err == ""


def test_the_command_prints_json(capsys):
    """One object: each row with its samples, and the live run."""
    assert main(["bench", "configuration", *QUICK, "--rounds", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["rows"]) == 2 * 4
    for row in result["rows"]:
        assert len(row["samples"]) == 2
        assert [sample["lost"] + sample["twice"] + sample["early"] for sample in row["samples"]] == [0, 0]
    assert [sample["run"]["never"] for sample in result["live"]["samples"]] == [0, 0]


def test_the_command_writes_a_report(tmp_path, capsys):
    """Two plots a distribution, over the wheel size."""
    pytest.importorskip("matplotlib")
    page = tmp_path / "out.html"
    assert main(["bench", "configuration", *QUICK, "--report", str(page)]) == 0
    text = page.read_text()
    assert text.count("<svg") == 4
    assert "first: uniform within the first wheel; 200 tasks: cascades" in text
    assert "Reconfigured while it ran" in text


@pytest.mark.parametrize(("argv", "problem"), [
    (["--delays", "long"], "--delays must be among first, three, beyond, low, high, got 'long'"),
    (["--ticks", "1"], "--ticks must be a duration such as 200ms or 1s, got '1'"),
    (["--wheel-sizes", "20,1"], "--wheel-sizes must be whole numbers >= 2, got '1'"),
    (["--tasks", "some"], "--tasks must be a whole number >= 1 such as 1000, 250k or 1e6, got 'some'"),
    (["--rounds", "0"], "--rounds must be a whole number >= 1 such as 1000, 250k or 1e6, got '0'"),
    (["--report", "out.txt"], "--report must end in .html or .htm, got 'out.txt'"),
    pytest.param(
        ["--report", "missing/out.html"], "missing/out.html: No such file or directory",
        marks=pytest.mark.skipif(find_spec("matplotlib") is None, reason="a missing extra comes first"),
    ),
])
def test_bad_options_are_refused(argv, problem, refused, monkeypatch):
    """One line that names option, rule and value; exit 2; nothing measured."""
    monkeypatch.setattr(Cell, "measure", lambda cell, seed: pytest.fail("measured"))
    monkeypatch.setattr(live.LiveCell, "measure", lambda cell, seed: pytest.fail("measured"))
    assert refused("bench", "configuration", *argv).startswith(problem)
