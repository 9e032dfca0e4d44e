"""`tickwheel bench purgatory`: the plan, what the rows say together, tables, JSON and the page."""
import json
from dataclasses import replace
from importlib.util import find_spec
from math import inf

import pytest

from tickwheel.bench.purgatory.cell import RequestCell, RunCell
from tickwheel.bench.purgatory.plan import Rate, RequestRow, RunRow, plan_requests, plan_runs, variants
from tickwheel.bench.purgatory.request import STORIES, RequestSample
from tickwheel.bench.purgatory.results import peaks, verdicts
from tickwheel.bench.purgatory.run import Sample, Setting
from tickwheel.cli.__main__ import main
from tickwheel.cli.bench_purgatory_text import as_text, remark

REQUESTS = 300
BASE = Setting("wheel", timeout=0.06, requests=REQUESTS)
SEEN = Sample(
    calibration_ns=54.0,
    enqueued=REQUESTS,
    rate=100_000.0,
    drain_s=0.06,
    cpu_us=4.0,
    memory=1_000_000,
    collections=1,
    collections_ms=1.0,
    wakeups=1,
    queue_length=1,
    threads=1,
    purges=0,
    timed_out=0.1,
    beyond_timeout=0.1,
    late_p50_ms=0.5,
    late_p99_ms=2.0,
    call_p50_us=0.3,
    call_p99_us=0.9,
    never=0,
    died=None,
)


def test_the_plan():
    """A row for each wheel size where it matters; with many keys fewer requests; shares come last."""
    rows = plan_runs(
        replace(BASE, requests=1000),
        designs=["wheel", "old"],
        wheel_sizes=[20, 512],
        latencies=[(20.0, 60.0)],
        rates=[Rate(inf, 0.8), Rate(inf), Rate(500.0)],
        keys=[(3, 100), (1000, 10_000)],
    )
    assert [(row.name, str(row.target)) for row in rows[:9]] == [
        (name, rate) for rate in ("500", "max", "80%") for name in ("wheel 20", "wheel 512", "old")
    ]
    assert {row.setting.requests for row in rows[9:]} == {10}
    assert [str(row.target) for row in rows[9:12]] == ["5"] * 3
    rows[4].samples.append(replace(SEEN, rate=2000.0))
    assert rows[7].cell.setting.rate == pytest.approx(1600.0)
    with pytest.raises(RuntimeError, match="its own fastest rate is not known"):
        rows[6].cell  # noqa: B018
    rows[3].samples.append(replace(SEEN, died="out of memory after 5 requests"))
    with pytest.raises(RuntimeError, match="its own fastest rate is not known"):
        rows[6].cell  # noqa: B018
    assert list(variants(["ring", "thread"], [4, 8])) == [("ring", 4), ("ring", 8), ("thread", 4)]


def run_row(design, rate, *, target=None, latency=(20.0, 60.0), **seen):
    setting = replace(BASE, design=design, wheel_size=20, p50_ms=latency[0], p75_ms=latency[1])
    return RunRow(setting, target or Rate(inf), samples=[replace(SEEN, rate=rate, **seen)])


def request_row(story, ns):
    return RequestRow(RequestCell("wheel", 20, 0.001, story, 1, "on"), [RequestSample(54.0, ns, 1)])


def test_the_peaks_are_scaled():
    """The fastest row of each design, the dead left out, on a machine half as fast as the reference."""
    rows = [
        run_row("wheel", 300_000.0, cpu_us=2.0), run_row("wheel", 200_000.0), run_row("old", 90_000.0),
        run_row("thread", 900_000.0, died="out of memory after 5 requests"),
    ]
    seen = {peak.variant: peak for peak in peaks(rows, 2.0)}
    assert seen.keys() == {"wheel 20", "old"}
    assert (seen["wheel 20"].scaled_rate, seen["wheel 20"].scaled_cpu_us) == (600_000.0, 1.0)


def test_the_promises():
    """Each is judged by what was seen, scaled; what was not measured is not judged."""
    runs = [
        run_row("wheel", 300_000.0, cpu_us=2.0),
        run_row("wheel", 100_000.0, latency=(200.0, 400.0), cpu_us=9.0),
        run_row("wheel", 240_000.0, target=Rate(inf, 0.8), late_p99_ms=30.0),
        run_row("old", 90_000.0),
    ]
    requests = [request_row("3 keys", 1_500.0), request_row("1,000 keys", 400_000.0)]
    assert {verdict.promise: (verdict.seen, verdict.holds) for verdict in verdicts(runs, requests)} == {
        "wheel 20, low: at least 500,000 requests/s, scaled": (600_000.0, True),
        "wheel 20, low: less than 3 us of CPU a request, scaled (the aim is half of it)": (1.0, True),
        "wheel 20, high: at least 420,000 requests/s, scaled": (200_000.0, False),
        "wheel 20, high: less than 3.6 us of CPU a request, scaled (the aim is half of it)": (4.5, False),
        "old, low: saturates below wheel 20 (share of its rate)": (0.3, True),
        "wheel 20, low, 3 keys: p99 lateness below 10 ms at 80% of its own rate": (30.0, False),
        "wheel 20: one request, 3 keys, at most 850 ns, scaled": (750.0, True),
        "wheel 20: a key of 1,000 costs no more than a key of 3 (share)": (0.8, True),
    }
    assert verdicts([], []) == []


def test_what_was_put_off_counts():
    """A design that only queues at once what it does later is as fast as it is in the end."""
    row = run_row("ring", 600.0, drain_s=BASE.timeout + 0.5)
    assert row.sustained == pytest.approx(REQUESTS / (REQUESTS / 600.0 + 0.5))
    assert [peak.rate for peak in peaks([row], 1.0)] == [row.sustained]
    assert run_row("ring", 600.0, drain_s=0.01).sustained == pytest.approx(600.0)


def test_a_dead_design_has_its_row():
    """The table says what it died of, beside what it did until then; of rounds, the one that died."""
    row = run_row("old", 90_000.0)
    row.samples.append(replace(SEEN, rate=80_000.0, died="out of memory after 7 requests"))
    text = as_text([row], [])
    [line] = [line for line in text.splitlines() if line.lstrip().startswith("max old")]
    assert "80,000" in line and line.endswith("out of memory after 7 requests")


def test_requests_that_nobody_completed_are_named():
    """A design that loses a request cannot hide it."""
    assert remark(run_row("old", 1.0, never=3)) == "3 requests were never completed"


QUICK = (
    "--designs", "wheel,old,harness", "--latency", "low,5ms/9ms", "--rates", "80%,2k,max",
    "--requests", "200", "--keys", "3/100", "--wheel-size", "20,64",
)


def test_the_command_prints_tables_and_writes_a_report(tmp_path, capsys):
    """Machine and setting first, then the caveats, then a table a load, the peaks and the single requests.
    Three plots a load: achieved over target rate, CPU and memory over achieved rate."""
    page = tmp_path / "out.html"
    assert main(["bench", "purgatory", *QUICK, "--requests", "100", "--report", str(page)]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("tickwheel ") and "core)" in lines[0] and "CPU" in lines[0]
    assert lines[1] == "timeout 200 ms, tick 1 ms, GC on, switch interval 1 ms, memory: no limit"
    for title in (
        "low: latency p50 20 ms, p75 60 ms; 3 of 100 keys; 100 requests",
        "5/9 ms: latency p50 5 ms, p75 9 ms; 3 of 100 keys; 100 requests",
    ):
        start = lines.index(title)
        rows = [line.split() for line in lines[start + 2:start + 14]]
        assert [row[0] for row in rows] == ["2,000"] * 4 + ["max"] * 4 + ["80%"] * 4
        assert [row[1] for row in rows] == ["wheel", "wheel", "old", "harness"] * 3
    assert "The fastest with 3 keys, low; Kafka's on the JVM: 507,000/s" in out
    assert any(line.startswith("Calibration: ") for line in lines)
    assert "One request at a time, one thread: construct, watch, complete; ns" in lines
    assert lines.index("Promises") < len(lines) - 1
    assert err == ""
    text = page.read_text()
    assert text.count("<svg") == 6
    for what in ("achieved over target rate", "CPU time over achieved rate", "memory over achieved rate"):
        assert f"low: latency p50 20 ms, p75 60 ms; 3 of 100 keys; 100 requests: {what}" in text
    assert "wheel 64" in text and "Promises" in text


def test_the_command_prints_json(capsys):
    """One object: machine, setting, each row with its samples, single requests, promises."""
    assert main(["bench", "purgatory", *QUICK, "--latency", "low", "--rounds", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["runs"]) == 3 * 4
    for row in result["runs"]:
        assert len(row["samples"]) == 2
        assert row["note"] is None
        assert row["requests"] == 200
        assert {sample["died"] for sample in row["samples"]} == {None}
    assert [(row["story"], row["design"]) for row in result["single"]][:4] == [
        ("3 keys", design) for design in ("wheel", "wheel", "old", "harness")
    ]
    assert result["setting"]["timeout"] == 0.2
    assert result["calibration"]["ns"] > 0
    assert any(promise["promise"].startswith("wheel 64, low: at least") for promise in result["promises"])


@pytest.mark.parametrize(("argv", "problem"), [
    (["--designs", "wheel,kafka"], "--designs must be among wheel, "),
    (["--latency", "middling"], "--latency must be low, high or P50/P75 such as 20ms/60ms, got 'middling'"),
    (["--latency", "60ms/20ms"], "--latency must have a median that is not above the upper quartile, got"),
    (["--rates", "fast"], "--rates must be rates a second such as 10k, 80% or max, got 'fast'"),
    (["--rates", "0"], "--rates must be rates a second such as 10k, 80% or max, got '0'"),
    (["--rates", "10k,80%"], "--rates must contain max where there is a share of it"),
    (["--requests", "0"], "--requests must be a whole number >= 1 such as 1000, 250k or 1e6, got '0'"),
    (["--requests", "1.5"], "--requests must be a whole number >= 1 such as 1000, 250k or 1e6, got '1.5'"),
    (["--keys", "3"], "--keys must be KEYS/SPACE such as 3/100, at least one key and not more than there"),
    (["--keys", "5/4"], "--keys must be KEYS/SPACE such as 3/100, at least one key and not more than there"),
    (["--wheel-size", "1"], "--wheel-size must be whole numbers >= 2, got '1'"),
    (["--memory-limit", "much"], "--memory-limit must be a size > 0 such as 200M or 1G, got 'much'"),
    (["--tick", "0ms"], "--tick must be > 0, got '0ms'"),
    (["--gc", "maybe"], "--gc must be among on, off, got 'maybe'"),
    (["--report", "out.json"], "--report must end in .html or .htm, got 'out.json'"),
    pytest.param(
        ["--report", "missing/out.html"], "missing/out.html: No such file or directory",
        marks=pytest.mark.skipif(find_spec("matplotlib") is None, reason="a missing extra comes first"),
    ),
])
def test_bad_options_are_refused(argv, problem, refused, monkeypatch):
    """One line that names option, rule and value; exit 2; nothing measured."""
    monkeypatch.setattr(RunCell, "measure", lambda cell, seed: pytest.fail("measured"))
    monkeypatch.setattr(RequestCell, "measure", lambda cell, seed: pytest.fail("measured"))
    assert refused("bench", "purgatory", *argv).startswith(problem)


@pytest.mark.parametrize(("argv", "problem"), [
    (["--json", "purgatory"], "--json must not stand before purgatory"),
    (["--sizes", "1e3", "configuration"], "--sizes must not stand before configuration"),
    (["kafka"],
     "BENCHMARK must be among purgatory, configuration, dropins, spark, recipes, broker, got 'kafka'"),
])
def test_options_of_one_benchmark_are_not_lost_in_another(argv, problem, capsys):
    """What stands before a benchmark's name would be ignored: it is refused."""
    assert main(["bench", *argv]) == 2
    assert capsys.readouterr().err == f"tickwheel: {problem}\n"


@pytest.mark.parametrize("name", ["purgatory", "configuration", "dropins"])
def test_the_help_shows_each_default(name, capsys):
    """Nothing is measured by asking."""
    assert main(["bench", name, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.count("default") >= 8
    assert "--report FILE" in out


def test_single_requests_follow_the_size_of_a_run():
    """A small benchmark times few of them, a large one no more than are enough."""
    for requests, watches in (100, 300), (10**6, 600_000):
        rows = plan_requests(replace(BASE, requests=requests), designs=["old"], wheel_sizes=[20])
        assert [row.cell.story for row in rows] == list(STORIES)
        assert {row.cell.watches for row in rows} == {watches}
