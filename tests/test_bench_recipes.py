"""The recipes beside other designs: the rivals, what is measured, what the rows say, how it is told."""

import json
from dataclasses import replace
from importlib.util import find_spec
from itertools import chain

import pytest

from tickwheel.bench.recipes import clients, duplicates, trackers
from tickwheel.bench.recipes import plan as plans
from tickwheel.bench.recipes.calls import EXECUTORS, Calls, measure_hot_key
from tickwheel.bench.recipes.cell import Cell, measure_here
from tickwheel.bench.recipes.clients import check, measure_clients, timeout_s
from tickwheel.bench.recipes.duplicates import STEP, count_wrong, stream
from tickwheel.bench.recipes.plan import Row, obstacle, plan
from tickwheel.bench.recipes.results import figure, losses, ratio, verdicts
from tickwheel.bench.recipes.sample import DISORDER, EARLY, FAULTS, MISSING, TWICE, WRONG, Sample, Sizes
from tickwheel.bench.recipes.stories import (
    BASELINE,
    CACHE,
    FILTER,
    FILTER_BATCHES,
    KEYED,
    LOCKED_CACHE,
    PARTITIONS,
    STORIES,
    TRACKER,
    TRACKERS,
)
from tickwheel.bench.recipes.trackers import Order, Rearm, Ring, Scan
from tickwheel.bench.runner import measure
from tickwheel.cli.__main__ import main
from tickwheel.cli.bench_recipes_text import as_text
from tickwheel.clock import ManualClock
from tickwheel.timer import Timer

SMALL = Sizes(clients=200, rate=2000, busy_rate=4000, timeout_s=0.3, keys=2 * STEP, calls=300, hot_s=0.3)


class World:
    """A tracker of 30 seconds on a clock that the test moves, second by second; and what it told."""

    def __init__(self, design):
        self.clock, self.told = ManualClock(), []
        self._timer = None
        if design is Rearm:
            self._timer = Timer(clock=self.clock, executor="inline", start=False)
            self.tracker = Rearm(30.0, self.told.append, timer=self._timer)
            self._turn = self._timer.advance_clock
        else:
            times = {} if design is Ring else {"time": self.clock.time}
            self.tracker = design(30.0, self.told.append, **times, start=False)
            self._turn = self.tracker.turn

    def wait(self, seconds):
        for _ in range(seconds):
            self.clock.advance(1.0)
            self._turn()

    def close(self):
        self.tracker.close()
        if self._timer is not None:
            self._timer.close()


DESIGNS = [Rearm, Scan, Ring, Order]


@pytest.fixture(params=DESIGNS)
def world(request):
    world = World(request.param)
    yield world
    world.close()


def test_a_silent_client_is_told_once(world):
    """Not before the timeout, and not later than a second after it; then it is forgotten."""
    world.tracker.touch("a")
    world.wait(29)
    assert world.told == []
    assert len(world.tracker) == 1
    world.wait(2)
    assert world.told == ["a"]
    world.wait(40)
    assert world.told == ["a"]
    assert len(world.tracker) == 0


def test_a_touch_puts_it_off(world):
    """The timeout runs from the last touch, for each client its own."""
    world.tracker.touch("a")
    world.tracker.touch("b")
    for _ in range(5):
        world.wait(20)
        world.tracker.touch("a")
        world.tracker.touch("a")
    assert world.told == ["b"]
    world.wait(29)
    assert world.told == ["b"]
    world.wait(2)
    assert world.told == ["b", "a"]


def test_a_client_may_come_again(world):
    """Then it has another silence, which is told as well."""
    for _ in range(2):
        world.tracker.touch("a")
        world.wait(31)
    assert world.told == ["a", "a"]


def test_a_removed_client_is_not_told(world):
    """True once; what is not there is False; and it may come back."""
    world.tracker.touch("a")
    assert world.tracker.remove("a")
    assert not world.tracker.remove("a")
    world.wait(40)
    assert world.told == []
    world.tracker.touch("a")
    world.wait(31)
    assert world.told == ["a"]


@pytest.mark.parametrize("design", DESIGNS)
def test_each_design_runs_by_itself(design, monkeypatch):
    """With a thread of its own: all clients are told, each once."""
    monkeypatch.setattr(trackers, "EVERY_S", 0.02)
    # Clients that stay send every 0.1 s: with a second for it, they do so on a busy machine as well.
    seen = measure_clients(design, 2000, replace(SMALL, timeout_s=1.0), 1).seen
    assert [seen[fault] for fault in (MISSING, TWICE, EARLY)] == [0, 0, 0]
    assert seen[clients.EVENTS] == 20


def test_a_scan_keeps_who_was_touched_meanwhile():
    """A client that its copy of the map has as silent, and the map no longer."""
    clock, told = ManualClock(), []
    scan = Scan(30.0, told.append, time=clock.time, start=False)
    scan.touch("a")
    clock.advance(31.0)
    scan.touch("a")
    assert not scan._is_over("a", latest=1.0)
    assert len(scan) == 1
    assert scan._is_over("a", latest=31.0)
    assert not scan._is_over("a", latest=31.0)


def test_an_order_knows_when_the_next_is_silent():
    """Its thread sleeps until then, or for the timeout where nobody is there."""
    clock, told = ManualClock(), []
    order = Order(30.0, told.append, time=clock.time, start=False)
    assert order.turn() == 30.0
    order.touch("a")
    clock.advance(10.0)
    order.touch("b")
    assert order.turn() == 20.0
    order.touch("a")
    assert order.turn() == 30.0


def test_offline_events_are_checked_against_the_plan():
    """Missing, twice, early; of a client that did not stop: early too. Late is what is right."""
    last = {1: 10.0, 2: 10.0, 3: 10.0, 4: 10.0}
    events = [(1, 15.0), (2, 14.9), (3, 15.5), (3, 15.75), (7, 20.0)]
    faults = check(events, last, timeout=5.0)
    assert (faults.missing, faults.twice, faults.early) == (1, 1, 2)
    assert faults.late_s == [0.0, 0.5, 0.75]


def test_no_timeout_is_shorter_than_the_silence_of_who_stays():
    """100,000 clients at 3,000 messages/s are silent for half a minute between two of them."""
    sizes = Sizes(100_000, 3000, 300_000, 5.0, 1, 1, 1.0)
    assert timeout_s(sizes, 300_000) == 5.0
    assert timeout_s(sizes, 3000) == 34.0


def test_the_stream():
    """So many keys, most of them new; some come again; the same for the same seed."""
    keys = 3 * STEP + 10
    chunks = list(stream(keys, 1))
    assert [len(chunk) for chunk in chunks] == [STEP, STEP, STEP, 10]
    every = list(chain.from_iterable(chunks))
    assert 0.9 * keys < len(set(every)) < keys
    assert chunks == list(stream(keys, 1)) != list(stream(keys, 2))


def test_wrong_answers_are_counted(monkeypatch):
    """A key passes iff it did not pass within the window before, which is half-open."""
    monkeypatch.setattr(duplicates, "WINDOW_S", 2 * duplicates.STEP_S)
    chunks = [[1, 2], [1, 3], [1], [3]]
    right = [1, 1, 0, 1, 1, 1]
    assert count_wrong(iter(chunks), right) == (0, 3)
    for place in range(len(right)):
        answers = right.copy()
        answers[place] ^= 1
        assert count_wrong(iter(chunks), answers)[0] == 1


def test_disorder_is_counted(monkeypatch):
    """A call before an earlier one of its key."""
    monkeypatch.setattr("tickwheel.bench.recipes.calls.CALL_S", 0.0)
    calls = Calls()
    for key, number in (1, 0), (2, 1), (1, 3), (1, 2), (2, 4):
        calls.run(key, number, 0.0)
    assert calls.disorder == 1
    assert [key for key, _ in calls.waits] == [1, 2, 1, 1, 2]


def test_concurrent_calls_of_a_key_are_disorder():
    """What a pool without order does with a key that never ends."""
    assert measure_hot_key(EXECUTORS[PARTITIONS], SMALL, 1).seen[DISORDER] == 0
    assert measure_hot_key(EXECUTORS[KEYED], SMALL, 1).seen[DISORDER] == 0
    calls = Calls()
    calls._running.add(1)
    calls.run(1, 0, 0.0)
    assert calls.disorder == 1


QUICK_STORIES = [name for name in STORIES if not name.startswith("idle")]


@pytest.mark.parametrize(
    ("story", "contender"),
    [(name, contender) for name in QUICK_STORIES for contender in STORIES[name].contenders],
)
def test_each_contender_can_be_measured(story, contender):
    """All that its story tells comes out, in a process of its own; no fault of ours among it."""
    cell = Cell(story, contender, "on", SMALL)
    if problem := obstacle(cell):
        pytest.skip(problem)
    seen = cell.measure(1).seen
    memory = {"bytes a client", "peak MB"} - seen.keys()        # only where there is /proc
    assert {*seen, *memory} >= set(STORIES[story].seen)
    assert not any(seen.get(fault) for fault in FAULTS) or contender == "ThreadPoolExecutor"


def test_the_plan():
    """A group a collector, but in real time; there the last."""
    cells = [row.cell for row in plan(["touch", "idle"], SMALL, ["off", "on"])]
    assert [(cell.story, cell.contender, cell.gc) for cell in cells] == [
        *(("touch", name, gc) for gc in ("off", "on") for name in STORIES["touch"].contenders),
        *(("idle", name, "on") for name in (BASELINE, *TRACKERS)),
    ]


def test_what_is_missing_has_a_note(monkeypatch):
    """A row without a figure, which says what to install."""
    monkeypatch.setattr(plans, "find_spec", lambda package: None)
    notes = {row.cell.contender: row.note for row in plan(["dedup"], SMALL, ["on"])}
    note = "needs cachetools: pip install 'tickwheel[bench]'"
    assert notes == {FILTER: None, FILTER_BATCHES: None, CACHE: note, LOCKED_CACHE: note}


def row(story, contender, gc="on", **seen):
    names = {"ns": STORIES[story].seen[0], "late": clients.LATE_MAX, "disorder": DISORDER}
    sample = Sample({names.get(name, name): value for name, value in seen.items()})
    return Row(Cell(story, contender, gc, SMALL), [sample])


def test_a_row_is_the_median_of_its_rounds():
    """Of faults the most."""
    own = Row(Cell("idle", TRACKER, "on", SMALL))
    assert own.seen(clients.CPU) is None
    own.samples += [Sample({clients.CPU: x, MISSING: fault}) for x, fault in ((3.0, 0), (1.0, 2), (2.0, 1))]
    assert (own.seen(clients.CPU), own.seen(MISSING)) == (2.0, 2)


def test_ratios_are_to_ours_and_losses_are_told():
    """With the same collector; the load's own share taken away, where that is measured."""
    rows = [
        row("touch", TRACKER, "on", ns=200.0), row("touch", "scan", "on", ns=150.0),
        row("touch", "scan", "off", ns=150.0),
        row("idle", BASELINE, ns=1.0), row("idle", TRACKER, ns=3.0), row("idle", "order", ns=5.0),
        row("idle", "ring", ns=0.5),
    ]
    assert [ratio(each, rows) for each in rows] == [1.0, 0.75, None, None, 1.0, 2.0, None]
    assert [figure(each, rows) for each in rows[3:]] == [None, 2.0, 4.0, -0.5]
    assert losses(rows) == [(rows[1], 0.75)]


def test_the_promises():
    """Each is judged by what was seen; what was not measured is not judged, nor are rivals."""
    rows = [
        row("touch", TRACKER, "off", ns=200.0), row("touch", TRACKER, ns=300.0),
        row("touch", "scan", ns=900.0),
        row("idle", TRACKER, ns=1.0, missing=0, twice=0, early=0, late=51.5),
        row("idle-busy", TRACKER, ns=1.0, missing=1, twice=0, early=2, late=1.0),
        row("idle", "scan", missing=5, twice=0, early=0, late=1000.0),
        row("dedup", FILTER, **{"ns": 100.0, WRONG: 0, duplicates.HELD: 110, duplicates.LIVE: 100}),
        row("dedup", CACHE, ns=299.0), row("dedup", LOCKED_CACHE, ns=300.0),
        row("hot-key", KEYED, ns=2.0, disorder=1), row("hot-key", PARTITIONS, ns=1000.0, disorder=0),
        Row(Cell("submit", KEYED, "on", SMALL), note="failed: x"),
    ]
    assert {verdict.promise: (verdict.seen, verdict.holds) for verdict in verdicts(rows)} == {
        "touch, IdleTracker, GC off: at most 250 ns": (200.0, True),
        "touch, IdleTracker, GC on: at most 250 ns": (300.0, False),
        "idle, IdleTracker: every offline event exactly once (faults)": (0, True),
        "idle, IdleTracker: within one tick + 50 ms": (51.5, False),
        "idle-busy, IdleTracker: every offline event exactly once (faults)": (3, False),
        "idle-busy, IdleTracker: within one tick + 50 ms": (1.0, True),
        "dedup, Deduplicator, GC on: none passed twice, none dropped wrongly (faults)": (0, True),
        "dedup, Deduplicator, GC on: holds at most 1.1 x what is live": (1.1, True),
        "dedup, Deduplicator, GC on: at least 3 x TTLCache": (2.99, False),
        "dedup, Deduplicator, GC on: at least 3 x TTLCache, locked": (3.0, True),
        "hot-key, KeyedExecutor: in order within each key (faults)": (1, False),
        "hot-key, KeyedExecutor: the others wait no longer than with hash % n (p99, share)": (0.002, True),
    }
    assert verdicts([]) == []


def test_a_failing_cell_keeps_its_reason():
    """It has its row, with the last line of its traceback."""
    failing = Row(Cell("touch", "none", "on", SMALL))
    measure([failing], 1, lambda fraction: None)
    assert failing.note == "failed: KeyError: 'none'"
    failing.cell = Cell("touch", TRACKER, "on", SMALL)
    assert "failed: KeyError: 'none'" in as_text([failing])


def test_the_collector_is_off_where_it_says_so(monkeypatch):
    """In the process that measures."""
    calls = []
    monkeypatch.setattr("gc.disable", lambda: calls.append("off"))
    monkeypatch.setitem(STORIES["touch"].contenders, TRACKER, lambda sizes, seed: Sample({}))
    for collector in "on", "off":
        measure_here(Cell("touch", TRACKER, collector, SMALL), 1)
    assert calls == ["off"]


QUICK = (
    "--clients", "200", "--rate", "2k", "--timeout", "300ms", "--keys", "5k", "--calls", "300",
    "--hot", "200ms",
)


def test_the_command_prints_tables(capsys):
    """The machine, the caveats, a table a story with a line a contender, the promises: ours are kept."""
    # A timeout that clients on a busy machine keep as well.
    assert main([
        "bench", "recipes", *QUICK, "--timeout", "1s", "--only", "touch,idle,submit", "--gc", "on"
    ]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("tickwheel ") and "CPU" in lines[0]
    for title, story in (
        ("idle: a touch; 200 clients, in random order; GC on", "touch"),
        ("idle clients at 2,000 messages/s; 200 clients, timeout 1 s; GC on", "idle"),
        ("keyed: submit and run an empty call; 300 calls, 12 workers, 1,000 keys; GC on", "submit"),
    ):
        contenders = list(STORIES[story].contenders)
        start = lines.index(title)
        assert STORIES[story].seen[0] in lines[start + 1]
        table = lines[start + 2 : start + 2 + len(contenders)]
        assert [line.removeprefix("  ").partition("  ")[0] for line in table] == contenders
    promises = lines[lines.index("Promises") + 1 :]
    [exactly] = [line for line in promises if "exactly once" in line]
    assert exactly.split()[:2] == ["holds", "0"]
    assert err == ""


def test_the_command_prints_json(capsys):
    """One object: each row with what each round saw, and the promises."""
    quick = [*QUICK, "--only", "touch,dedup", "--rounds", "2"]
    assert main(["bench", "recipes", *quick, "--gc", "on", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(row["story"], row["contender"]) for row in result["rows"]] == [
        (story, contender) for story in ("touch", "dedup") for contender in STORIES[story].contenders
    ]
    for row in result["rows"]:
        if row["note"] is None:
            seen = [sample[row["unit"]] for sample in row["samples"]]
            assert len(seen) == 2
            assert min(seen) <= row["figure"] <= max(seen)
            assert row["sizes"]["clients"] == 200
    ours = [row for row in result["rows"] if row["contender"] in (FILTER, FILTER_BATCHES)]
    assert [sample[WRONG] for row in ours for sample in row["samples"]] == [0] * 4
    judged = {promise["promise"]: promise["holds"] for promise in result["promises"]}
    assert judged["dedup, Deduplicator, GC on: none passed twice, none dropped wrongly (faults)"]


def test_the_command_writes_a_report(tmp_path, capsys):
    """A plot and a table a story and collector, and the promises."""
    pytest.importorskip("matplotlib")
    page = tmp_path / "out.html"
    assert main(["bench", "recipes", *QUICK, "--only", "touch,hot-key", "--report", str(page)]) == 0
    text = page.read_text()
    assert text.count("<svg") == 3
    assert "Promises" in text
    assert text.count("idle: a touch; 200 clients, in random order; GC off") == 2


@pytest.mark.parametrize(("argv", "problem"), [
    (["--only", "speed"], f"--only must be among {', '.join(STORIES)}, got 'speed'"),
    (["--clients", "0"], "--clients must be a whole number >= 1 such as 1000, 250k or 1e6, got '0'"),
    (["--rate", "fast"], "--rate must be a whole number >= 1 such as 1000, 250k or 1e6, got 'fast'"),
    (["--busy-rate", "0.5"], "--busy-rate must be a whole number >= 1 such as 1000, 250k or 1e6, got '0.5'"),
    (["--timeout", "30"], "--timeout must be a duration such as 200ms or 1s, got '30'"),
    (["--timeout", "99ms"], "--timeout must be >= 100 ms, got '99ms'"),
    (["--keys", "-1"], "--keys must be a whole number >= 1 such as 1000, 250k or 1e6, got '-1'"),
    (["--calls", ""], "--calls must be a whole number >= 1 such as 1000, 250k or 1e6, got ''"),
    (["--hot", "0s"], "--hot must be > 0, got '0s'"),
    (["--rounds", "0"], "--rounds must be a whole number >= 1 such as 1000, 250k or 1e6, got '0'"),
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
    assert refused("bench", "recipes", *argv).startswith(problem)
