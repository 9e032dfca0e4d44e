"""The drop-ins beside what they replace: what is measured, what the rows say, tables, JSON, the page."""

import asyncio
import json
from importlib.util import find_spec

import pytest

from tickwheel.bench.dropins import plan as plans
from tickwheel.bench.dropins.cell import Cell, measure_here
from tickwheel.bench.dropins.client import Visit, converse
from tickwheel.bench.dropins.keepalive import arm_anew, measure_refresh, measure_stamp, reschedule
from tickwheel.bench.dropins.loops import STOCK, UVLOOP, WHEEL, chunks, run_on
from tickwheel.bench.dropins.plan import Row, obstacle, plan
from tickwheel.bench.dropins.results import ratio, verdicts
from tickwheel.bench.dropins.sample import Sample
from tickwheel.bench.dropins.stories import (
    DROP_IN,
    ORIGINAL,
    OWN_ON_WHEEL,
    RESCHEDULED,
    STORIES,
)
from tickwheel.bench.runner import measure
from tickwheel.cli.__main__ import main
from tickwheel.cli.bench_dropins_text import as_text

N = 200
COUNTS = {"pending": N, "connections": N, "requests": 64}


@pytest.mark.parametrize(
    ("story", "contender"), [(name, contender) for name in STORIES for contender in STORIES[name].contenders]
)
def test_each_contender_can_be_measured(story, contender):
    """A figure comes out, and beside it what the story counts, if the contender can tell."""
    told = STORIES[story]
    cell = Cell(story, contender, COUNTS[told.counted], "on")
    if problem := obstacle(cell):
        pytest.skip(problem)
    sample = cell.measure(1)
    assert sample.figure > 0 or story == "memory"  # pages that were there already
    tells = contender != UVLOOP or told.counted == "requests"
    assert (sample.beside is not None) == (told.beside is not None and tells)


@pytest.mark.parametrize("refresh", [arm_anew, reschedule])
def test_a_moved_timer_leaves_no_entry_behind(refresh):
    """The wheel has one for each connection, all the time; asyncio's heap also those that were cancelled."""
    assert run_on(WHEEL, measure_refresh(refresh, 10, 2500, 1)).beside == 2500
    if refresh is arm_anew:
        assert run_on(STOCK, measure_refresh(refresh, 10, 2500, 1)).beside > 2500


@pytest.mark.parametrize("loop", [STOCK, WHEEL])
def test_a_stamp_is_looked_at_once(loop, monkeypatch):
    """Every connection's timer goes off once and is armed anew, so none is lost."""
    made = []

    async def measuring():
        call_later = asyncio.get_running_loop().call_later

        def count(*args):
            made.append(args)
            return call_later(*args)

        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", count, raising=False)
        return await measure_stamp(2, N, 1)

    assert run_on(loop, measuring()).beside == N
    assert len(made) == N


def test_enough_is_measured_for_what_is_tidied_up():
    """asyncio's heap drops what was cancelled once that is more than half of it."""
    assert chunks(100_000) * 1000 >= 2 * 100_000
    assert chunks(10) == 100


def test_a_server_that_closes_is_no_answer():
    """The client fails, instead of waiting."""

    async def slam(reader, writer):
        writer.close()

    async def story():
        async with await asyncio.start_server(slam, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises((EOFError, ConnectionError)):
                await converse(Visit(port, "hello\n", "\n", connections=2, messages=3))

    asyncio.run(story())


def test_the_plan():
    """The original threading.Timer is asked for 1,000; sched for 1,000 as well; memory with one collector."""
    rows = plan(["memory", "threading", "sched-run"], {"pending": 5000}, ["off", "on"])
    seen = [(row.cell.story, row.cell.contender, row.cell.n, row.cell.gc) for row in rows]
    assert [cell for cell in seen if cell[0] == "memory"] == [
        ("memory", loop, 5000, "on") for loop in (STOCK, WHEEL, UVLOOP)
    ]
    assert [cell for cell in seen if cell[0] == "threading"] == [
        ("threading", kind, n, gc) for gc in ("off", "on") for kind, n in ((ORIGINAL, 1000), (DROP_IN, 5000))
    ]
    assert [cell[2] for cell in seen if cell[0] == "sched-run"] == [1000, 1000, 5000, 5000] * 2


def test_what_is_missing_has_a_note(monkeypatch):
    """A row without a figure, which says what to install."""
    monkeypatch.setattr(plans, "find_spec", lambda package: None)
    notes = {row.cell.contender: row.note for row in plan(["call-later"], COUNTS, ["on"])}
    assert notes == {STOCK: None, WHEEL: None, UVLOOP: "needs uvloop: pip install 'tickwheel[bench]'"}
    assert {row.note.split(":")[0] for row in plan(["hello"], COUNTS, ["on"])} == {"needs aiohttp"}


def row(story, contender, figure, n=100_000, gc="off", beside=None):
    return Row(Cell(story, contender, n, gc), [Sample(figure, beside)])


def test_a_row_is_the_median_of_its_rounds():
    """Of the figures, and of what is counted beside them."""
    seen = Row(Cell("keepalive", WHEEL, N, "on"))
    assert (seen.figure, seen.beside) == (None, None)
    seen.samples += [Sample(3.0, 7), Sample(1.0, 9), Sample(2.0, 8)]
    assert (seen.figure, seen.beside) == (2.0, 8)


def test_ratios_are_to_ours():
    """With the same collector, and the same N where there is that: else with what ours has."""
    rows = [
        row("sched-run", "sched", 300.0, n=1000), row("sched-run", "tickwheel", 100.0, n=1000),
        row("sched-run", "sched", 900.0), row("sched-run", "tickwheel", 200.0),
        row("threading", ORIGINAL, 5000.0, n=1000), row("threading", DROP_IN, 10.0),
        row("threading", ORIGINAL, 5000.0, n=1000, gc="on"),
    ]
    assert [ratio(each, rows) for each in rows] == [3.0, 1.0, 4.5, 1.0, 500.0, 1.0, None]


def test_the_promises():
    """Each is judged by what was seen, with each collector; what was not measured is not judged."""
    rows = [
        row("call-later", STOCK, 1000.0), row("call-later", WHEEL, 200.0), row("call-later", UVLOOP, 190.0),
        row("churn", STOCK, 1000.0, gc="on"), row("churn", WHEEL, 200.0, gc="on"),
        row("timeout", STOCK, 3000.0), row("timeout", OWN_ON_WHEEL, 1000.0),
        row("threading", ORIGINAL, 160e3, n=1000), row("threading", DROP_IN, 640.0),
        row("hello", STOCK, 90.0, n=64), row("hello", WHEEL, 100.0, n=64),
        row("keepalive", WHEEL, 100.0, beside=100_000), row("keepalive", RESCHEDULED, 100.0, beside=100_001),
        Row(Cell("timeout", WHEEL, 100_000, "off"), note="failed: x"),
    ]
    assert {verdict.promise: (verdict.seen, verdict.holds) for verdict in verdicts(rows)} == {
        "GC off: call_later + cancel, wheel: at least 4 x stock, 100,000 pending": (5.0, True),
        "GC off: call_later + cancel, wheel: faster than uvloop, 100,000 pending": (0.95, False),
        "GC on: cancel a random timer + call_later, wheel: at least 6 x stock, 100,000 pending": (5.0, False),
        "GC off: async with timeout(30), own timeout on wheel: at least 3 x stock, 100,000 pending":
            (3.0, True),
        "GC off: threading.Timer: construct + start + cancel, drop-in: at least 150 x threading.Timer, "
        "100,000 pending": (250.0, True),
        "GC off: a page of aiohttp, wheel: no slower than stock (from 0.85 x on it is a tie), 64 requests":
            (0.9, True),
        "GC off: idle timers, 10 messages in the idle time, wheel: never more than 100,000 entries":
            (100_000, True),
        "GC off: idle timers, 10 messages in the idle time, wheel, reschedule: never more than 100,000 "
        "entries": (100_001, False),
    }
    assert verdicts([]) == []


def test_a_failing_cell_keeps_its_reason():
    """It has its row, with the last line of its traceback."""
    failing = Row(Cell("call-later", "none", N, "on"))
    measure([failing], 1, lambda fraction: None)
    assert failing.note == "failed: KeyError: 'none'"
    failing.cell = Cell("call-later", STOCK, N, "on")
    assert "failed: KeyError: 'none'" in as_text([failing])


def test_the_collector_is_off_where_it_says_so(monkeypatch):
    """In the process that measures."""
    calls = []
    monkeypatch.setattr("gc.disable", lambda: calls.append("off"))
    monkeypatch.setitem(STORIES["turn"].contenders, STOCK, lambda n, seed: Sample(1.0))
    for collector in "on", "off":
        measure_here(Cell("turn", STOCK, N, collector), 1)
    assert calls == ["off"]


QUICK = (
    "--only", "call-later,keepalive,sched-cancel,echo", "--pending", "200", "--connections", "200",
    "--requests", "64", "--rounds", "1",
)


def test_the_command_prints_tables_and_writes_a_report(tmp_path, capsys):
    """The machine, the caveats, a table a story with a line a contender, the promises; a plot a story."""
    page = tmp_path / "out.html"
    assert main(["bench", "dropins", *QUICK, "--report", str(page)]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("tickwheel ") and "CPU" in lines[0]
    for title, contenders in (
        ("call_later + cancel; 200 pending: CPU ns", ["stock", "wheel", "uvloop"]),
        (
            "idle timers, 10 messages in the idle time; 200 connections: CPU ns a message",
            ["stock", "wheel", "uvloop", "wheel,", "stock,", "wheel,"],
        ),
        ("sched: cancel; 200 pending: CPU ns an event", ["sched", "tickwheel"]),
        ("echo of a line; 64 requests: CPU us of the server", ["stock", "wheel", "uvloop"]),
    ):
        start = lines.index(title)
        assert [line.split()[0] for line in lines[start + 2 : start + 2 + len(contenders)]] == contenders
        assert lines[start + 1].split("GC")[1:][0].startswith(" off")
    promises = lines[lines.index("Promises") + 1 :]
    assert any("keepalive" in line or "idle timers" in line for line in promises)
    assert err == ""
    text = page.read_text()
    assert text.count("<svg") == 4
    assert "Promises" in text
    assert text.count("sched: cancel; 200 pending") == 2


def test_the_command_prints_json(capsys):
    """One object: each row with the figure of each round, and the promises."""
    quick = [*QUICK[:-1], "2"]
    assert main(["bench", "dropins", *quick, "--gc", "on", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(row["story"], row["contender"]) for row in result["rows"]] == [
        (story, contender)
        for story in ("call-later", "keepalive", "sched-cancel", "echo")
        for contender in STORIES[story].contenders
    ]
    for row in result["rows"]:
        if row["note"] is None:
            assert len(row["samples"]) == 2
            assert min(row["samples"]) <= row["figure"] <= max(row["samples"])
    [moved] = [row for row in result["rows"] if row["contender"] == RESCHEDULED]
    assert moved["beside"] == {"most entries": 200}
    assert all(promise["promise"].startswith("GC on: ") for promise in result["promises"])


@pytest.mark.parametrize(("argv", "problem"), [
    (["--only", "speed"], "--only must be among call-later, churn, "),
    (["--pending", "0"], "--pending must be a whole number >= 1 such as 1000, 250k or 1e6, got '0'"),
    (["--connections", "few"], "--connections must be a whole number >= 1 such as 1000, 250k or 1e6, got"),
    (["--requests", "1.5"], "--requests must be a whole number >= 1 such as 1000, 250k or 1e6, got '1.5'"),
    (["--rounds", "-1"], "--rounds must be a whole number >= 1 such as 1000, 250k or 1e6, got '-1'"),
    (["--gc", "maybe"], "--gc must be among on, off, both, got 'maybe'"),
    (["--report", "out.txt"], "--report must end in .html or .htm, got 'out.txt'"),
    pytest.param(
        ["--report", "missing/out.html"], "missing/out.html: No such file or directory",
        marks=pytest.mark.skipif(find_spec("matplotlib") is None, reason="a missing extra comes first"),
    ),
])
def test_bad_options_are_refused(argv, problem, refused, monkeypatch):
    """One line that names option, rule and value; exit 2; nothing measured."""
    monkeypatch.setattr(Cell, "measure", lambda cell, seed: pytest.fail("measured"))
    assert refused("bench", "dropins", *argv).startswith(problem)


def test_an_option_before_the_name_is_not_lost(capsys):
    """What stands there belongs to the micro benchmarks."""
    assert main(["bench", "--json", "dropins"]) == 2
    assert capsys.readouterr().err == "tickwheel: --json must not stand before dropins\n"
