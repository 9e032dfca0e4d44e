"""A replay with a timeout for each request, purges, and what was pending over time; on both cores."""
import json
from array import array
from dataclasses import asdict

import pytest

from tickwheel.cli.__main__ import main
from tickwheel.replay import Replay, replay
from tickwheel.trace import Chunk
from tickwheel.units import NEVER
from tickwheel.workload import generate

MS = 10**6
MEASURED = {"implementation", "seconds", "cpu_seconds", "events_per_second"}


def chunks(rows, size):
    """Of (arrival, completion, timeout)."""
    for first in range(0, len(rows), size):
        arrivals, completions, timeouts = (
            array("q", column) for column in zip(*rows[first : first + size], strict=True)
        )
        labels = range(first + 1, first + 1 + len(arrivals))
        yield Chunk(arrivals, completions, labels, timeouts)


def counted(result):
    """All that must not depend on the machine, the core or the chunks."""
    return {name: value for name, value in asdict(result).items() if name not in MEASURED}


def random_requests(rng, n):
    requests = generate(n, seed=rng.randrange(10**6), never=0.05)
    return [(*request, rng.choice([0, 1, MS, 30 * MS, 200 * MS + 7])) for request in requests]


def plain_fires(rows, tick):
    fires = [-(-(arrival + timeout) // tick) * tick for arrival, _, timeout in rows]
    return [NEVER if row[1] <= fire else fire for row, fire in zip(rows, fires, strict=True)]


def test_each_request_may_have_its_own_timeout(core, rng):
    """Outcomes in the order of the trace, as plain lines count them, however the requests are cut."""
    rows = random_requests(rng, 2000)
    told, results = [], []
    for size in (1, 37, 5000):
        told.clear()
        results.append(replay(
            chunks(rows, size), tick_ns=3 * MS, timeout_ns=None, wheel_size=20, purge_interval=10, core=core,
            on_outcomes=lambda outcomes: told.extend(zip(outcomes.labels, outcomes.fires, strict=True)),
        ))
        assert told == list(enumerate(plain_fires(rows, 3 * MS), 1))
    assert [counted(result) for result in results] == [counted(results[0])] * 3
    assert results[0].timeout_ns is None
    assert results[0].expired == sum(fire != NEVER for _, fire in told)
    assert results[0].purges > 0


def test_a_timeout_for_all_goes_before_the_requests_own(core, rng):
    """`timeout_ns` is the what-if: the trace's own timeouts are left aside."""
    rows = random_requests(rng, 500)
    same = [(arrival, completion, 50 * MS) for arrival, completion, _ in rows]
    (given,) = {json.dumps(counted(replay(chunks(rows, size), tick_ns=MS, timeout_ns=50 * MS, core=core)))
                for size in (7, 500)}
    own = counted(replay(chunks(same, 100), tick_ns=MS, timeout_ns=None, core=core))
    assert json.loads(given) == own | {"timeout_ns": 50 * MS}


def test_several_configurations_over_one_reading(core, rng):
    """Each `Replay` counts as if it were alone."""
    rows = random_requests(rng, 1000)
    configurations = [
        {"tick_ns": tick, "wheel_size": size, "purge_interval": interval}
        for tick, size, interval in ((MS, 512, None), (MS, 2, 0), (10 * MS, 20, 50))
    ]
    replays = [Replay(timeout_ns=None, core=core, **configuration) for configuration in configurations]
    for chunk in chunks(rows, 64):
        for each in replays:
            each.feed(chunk)
    for each, configuration in zip(replays, configurations, strict=True):
        alone = replay(chunks(rows, 1000), timeout_ns=None, core=core, **configuration)
        assert counted(each.finish()) == counted(alone)


def test_a_bad_chunk_changes_nothing(core):
    """It is refused whole, before its outcomes are waited for; the replay goes on."""
    told = []
    one = Replay(
        tick_ns=1, timeout_ns=None, core=core, on_outcomes=lambda outcomes: told.extend(outcomes.labels)
    )
    (good,) = chunks([(0, 5, 9), (1, NEVER, 9)], 2)
    one.feed(good)
    (bad,) = chunks([(2, 3, 9), (3, 4, -1)], 2)
    with pytest.raises(ValueError, match=r"^row 3: timeout must be >= 0, got -1$"):
        one.feed(bad)
    with pytest.raises(ValueError, match=r"^timeouts must be given to a kernel without a timeout"):
        one.feed(Chunk(good.arrivals, good.completions, good.labels))
    result = one.finish()
    assert (result.requests, result.completed, result.expired, told) == (2, 1, 1, [1, 2])


def test_what_is_pending_over_time(core, rng):
    """At most 256 intervals from the first arrival to the last end; the greatest is the peak."""
    rows = random_requests(rng, 3000)
    result = replay(chunks(rows, 500), tick_ns=MS, timeout_ns=None, core=core)
    start, width, peaks = result.pending_start_ns, result.pending_width_ns, result.pending_peaks
    spans = [(row[0], row[1] if fire == NEVER else fire)
             for row, fire in zip(rows, plain_fires(rows, MS), strict=True)]
    last = max(end for _, end in spans)
    assert start <= rows[0][0] < start + width
    assert start + (len(peaks) - 1) * width <= last < start + len(peaks) * width
    assert 128 <= len(peaks) <= 256
    assert start % width == 0
    assert max(peaks) == result.peak_pending
    for i, peak in list(enumerate(peaks))[:: len(peaks) // 20]:
        first = start + i * width
        near = [span for span in spans if span[0] < first + width and span[1] > first]
        times = [first, *(arrival for arrival, _ in near if arrival >= first)]
        assert peak == max(sum(arrival <= t < end for arrival, end in near) for t in times)


def test_without_a_purge_interval_the_watched_are_the_pending(core, rng):
    """Nothing is purged; every end of the pending with an interval of 0."""
    rows = random_requests(rng, 500)
    exact, at_once = (
        replay(chunks(rows, 100), tick_ns=MS, timeout_ns=None, purge_interval=interval, core=core)
        for interval in (None, 0)
    )
    assert (exact.purges, exact.purged) == (0, 0)
    assert exact.peak_watched == at_once.peak_watched >= exact.peak_pending
    assert at_once.purges == at_once.purged > 400


def test_bad_purge_intervals_are_refused(core):
    """Argument, rule, value seen."""
    with pytest.raises(ValueError, match=r"^purge_interval must be >= 0, got -1$"):
        replay([], tick_ns=1, timeout_ns=1, purge_interval=-1, core=core)


# The command.


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """Arrivals every ms; completed after 5 ms, but each third never; timeouts of 2, 10 and 1000 ms."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{i},{'' if i % 3 == 0 else i + 5},{(0.002, 0.01, 1)[i % 3]}\n" for i in range(90)]
    (tmp_path / "t.csv").write_text("arrival_ms,completion_ms,patience_s\n" + "".join(rows))
    return tmp_path / "t.csv"


def test_the_command_knows_timeouts_and_purges(core, trace, capsys):
    """30 requests expire, 60 complete; with N = 10 every eleventh end purges eleven."""
    argv = ["replay", "t.csv", "--timeout-column", "patience_s", "--purge-interval", "10", "--core", core]
    assert main([*argv, "--json", "--outcomes", "o.csv"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["timeout_ns"], facts["purge_interval"]) == (None, 10)
    assert (facts["completed"], facts["expired"], facts["purges"], facts["purged"]) == (60, 30, 8, 88)
    assert facts["peak_pending"] == max(facts["pending_peaks"]) == 4
    assert facts["cpu_seconds"] > 0
    assert (trace.parent / "o.csv").read_text().startswith("row,outcome,fire_ms\n1,expired,2\n2,completed,\n")
    assert main(argv) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["purges"] == f"8, of 88 requests; peak watched {facts['peak_watched']}"
    assert main(["replay", "t.csv"]) == 0
    assert "\npurges           -\n" in capsys.readouterr().out


def test_the_report_shows_timeouts_purges_and_the_curve(trace, capsys):
    """One source of truth: what is drawn is the result's own curve."""
    pytest.importorskip("matplotlib")
    argv = ["replay", "t.csv", "--timeout-column", "patience_s", "--purge-interval", "10"]
    assert main([*argv, "--json", "--report", "r.html"]) == 0
    facts = json.loads(capsys.readouterr().out)
    html = (trace.parent / "r.html").read_text(encoding="utf-8")
    assert "<td>each request&#x27;s own</td>" in html
    assert '<td>purges</td><td class="number">8</td>' in html
    assert f'<td>peak watched</td><td class="number">{facts["peak_watched"]}</td>' in html
    assert f"the most in each {facts['pending_width_ns'] / 1e9:.3g} s" in html


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--purge-interval=-1"], "--purge-interval must be >= 0, got -1"),
        (["--purge-interval", "few"], "--purge-interval must be a whole number, got 'few'"),
        (["--timeout", "200ms", "--timeout-column", "patience_s"],
         "--timeout-column: not allowed with argument --timeout"),
        (["--timeout-column", "patience"],
         "--unit must be given unless a column ends in it, as _ms does, got 'patience'"),
        (["--timeout-column", "wait_ms"],
         "t.csv: no column 'wait_ms'; the columns are arrival_ms, completion_ms, patience_s"),
        (["--timeout-column", "completion_ms"], "t.csv, row 1: completion_ms is missing"),
    ],
)
def test_bad_options_are_one_line(trace, capsys, options, line):
    """Exit 2, nothing on stdout."""
    assert main(["replay", "t.csv", *options]) == 2
    assert capsys.readouterr() == ("", f"tickwheel: {line}\n")


def test_a_negative_timeout_is_named_with_file_and_row(trace, capsys):
    """As every other cell that cannot be."""
    trace.write_text("arrival_ms,completion_ms,patience_s\n0,1,1\n2,3,-4\n")
    assert main(["replay", "t.csv", "--timeout-column", "patience_s"]) == 2
    assert capsys.readouterr().err == "tickwheel: t.csv, row 2: patience_s must be >= 0, got '-4'\n"
