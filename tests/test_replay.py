"""A trace through the wheel equals plain counting: outcomes, fire times, peak, wake-ups; on both cores."""
import csv
import functools
import gzip
import heapq
import json
import os
from array import array
from collections import Counter
from itertools import accumulate
from pathlib import Path

import pytest

from tickwheel.cli.__main__ import main
from tickwheel.replay import latest_arrival_ns, replay
from tickwheel.replay.outcomes import Outcomes, RowOrder
from tickwheel.trace import Chunk
from tickwheel.units import MAX_NS, NEVER, to_ns
from tickwheel.workload import generate

TRACES = Path(os.environ.get("TICKWHEEL_TRACES", Path(__file__).parents[2] / "shared" / "traces"))
SPANS = TRACES / "nezha-online-boutique" / "spans.csv.gz"
MS = 10**6
TICKS = {"1ms": MS, "3ms": 3 * MS, "10ms": 10 * MS, "100ms": 100 * MS, "1s": 1000 * MS}
SIZES = (2, 3, 20, 512, 4096)
TIMEOUT = 1000 * MS


# The oracle: nothing below, down to the next line of dashes, knows of the package.


def count_fires(requests, tick, timeout):
    """Of each request: when it expires, None if it completes by then."""
    fires = []
    for arrival, completion in requests:
        fire = -(-(arrival + timeout) // tick) * tick
        fires.append(fire if completion is None or completion > fire else None)
    return fires


def count_peak(requests, fires):
    """The most requests pending at one time: each is from its arrival until before its end."""
    changes = Counter()
    for (arrival, completion), fire in zip(requests, fires, strict=True):
        changes[arrival] += 1
        changes[completion if fire is None else fire] -= 1
    return max(accumulate(changes[time] for time in sorted(changes)), default=0)


def count_wakeups(requests, fires, tick, timeout, size):
    """Distinct ticks at which a bucket of any level expires that is not empty, and requests moved down."""
    deadlines = [-(-(arrival + timeout) // tick) for arrival, _ in requests]
    buckets, heap, home = {}, [], {}
    woken, cascades = set(), 0

    def put(row, now):
        span = 1
        while deadlines[row] - now // span * span >= span * size:
            span *= size
        key = (deadlines[row] // span * span, span)
        if key not in buckets:
            buckets[key] = set()
            heapq.heappush(heap, key)
        buckets[key].add(row)
        home[row] = key

    # At one instant: completions, then expiries, then arrivals.
    events = []
    for row, (arrival, completion) in enumerate(requests):
        if completion != arrival:
            events.append((arrival, 2, row))
            if fires[row] is None:
                events.append((completion, 0, row))
    for time, kind, row in [*sorted(events), (float("inf"), 0, None)]:
        while heap and (heap[0][0] * tick, 1) < (time, kind):
            key = heapq.heappop(heap)
            members = buckets.pop(key)
            if members:
                woken.add(key[0])
            for member in members:
                if deadlines[member] > key[0]:
                    put(member, key[0])
                    cascades += 1
        if kind == 2:
            put(row, time // tick)
        elif row is not None:
            buckets[home[row]].remove(row)
    return len(woken), cascades


# ------------------------------------------------------------------------------------------------------


@functools.cache
def spans(roots):
    """(row, arrival, completion) of the real trace's rows."""
    if not SPANS.exists():
        pytest.skip(f"the real trace is not here: {SPANS}")
    with gzip.open(SPANS, "rt") as file:
        return [
            (row, int(cells["start_ns"]), int(cells["end_ns"]))
            for row, cells in enumerate(csv.DictReader(file), 1)
            if not roots or not cells["parent_id"]
        ]


@functools.cache
def expected(roots, tick):
    requests = [request for _, *request in spans(roots)]
    fires = count_fires(requests, tick, TIMEOUT)
    return requests, fires, count_peak(requests, fires)


@functools.cache
def expected_wakeups(roots, tick, size):
    requests, fires, _ = expected(roots, tick)
    return count_wakeups(requests, fires, tick, TIMEOUT, size)


ALL_SPANS = [("1ms", 2), ("1ms", 512), ("10ms", 20), ("100ms", 3), ("1s", 4096)]
CASES = [(True, tick, size) for tick in TICKS for size in SIZES] + [(False, *case) for case in ALL_SPANS]


@pytest.mark.parametrize(("roots", "tick", "size"), CASES)
def test_the_real_trace_equals_the_oracle(core, roots, tick, size, tmp_path, capsys):
    """Each request's outcome and fire time, the peak, the bucket wake-ups and the cascades."""
    requests, fires, peak = expected(roots, TICKS[tick])
    out = tmp_path / "outcomes.csv"
    options = ["--arrival", "start_ns", "--completion", "end_ns", "--unit", "ns", "--timeout", "1s"]
    options += ["--where", "parent_id="] * roots
    options += ["--core", core, "--tick", tick, "--wheel-size", str(size), "--outcomes", str(out), "--json"]
    assert main(["replay", str(SPANS), *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    with out.open() as file:
        assert [tuple(line.values()) for line in csv.DictReader(file)] == [
            (str(row), "completed" if fire is None else "expired", "" if fire is None else str(fire))
            for (row, *_), fire in zip(spans(roots), fires, strict=True)
        ]
    expired = sum(fire is not None for fire in fires)
    assert facts["implementation"] == core
    assert facts["requests"] == len(fires)
    assert (facts["completed"], facts["expired"]) == (len(fires) - expired, expired)
    assert facts["events"] == 2 * len(fires)
    assert facts["peak_pending"] == peak
    assert (facts["wakeups"], facts["cascades"]) == expected_wakeups(roots, TICKS[tick], size)
    pairs = zip(requests, fires, strict=True)
    lateness = [fire - arrival - TIMEOUT for (arrival, _), fire in pairs if fire is not None]
    assert facts["lateness_max_ns"] == max(lateness) < TICKS[tick]


def chunks(requests, size):
    for first in range(0, len(requests), size):
        part = requests[first : first + size]
        arrivals = array("q", [arrival for arrival, _ in part])
        completions = array("q", [NEVER if completion is None else completion for _, completion in part])
        yield Chunk(arrivals, completions, list(range(first + 1, first + len(part) + 1)))


def played(requests, chunk=1000, **options):
    """The result, and what became of each request, in the order in which it was told."""
    told = []
    result = replay(
        chunks(requests, chunk),
        on_outcomes=lambda outcomes: told.extend(zip(outcomes.labels, outcomes.fires, strict=True)),
        **options,
    )
    assert [label for label, _ in told] == list(range(1, len(requests) + 1))
    return result, [None if fire == NEVER else fire for _, fire in told]


def test_random_traces_equal_the_oracle(core, rng):
    """Few instants, so that arrivals, completions and ticks fall together; any tick, size, sign and cut."""
    for _ in range(150):
        tick, size, timeout = rng.randrange(1, 12), rng.choice([2, 3, 5, 16, 100]), rng.randrange(1, 40)
        clock, requests = rng.choice([-50, 0, 10**12 + 7]), []
        for _ in range(rng.randrange(60)):
            clock += rng.choice([0, 0, 1, 2, 5, 300])
            requests.append((clock, rng.choice([None, clock + rng.randrange(60)])))
        fires = count_fires(requests, tick, timeout)
        told, result = [], None
        for chunk in (1, 7, 1000):
            result, told = played(
                requests, chunk, tick_ns=tick, timeout_ns=timeout, wheel_size=size, core=core
            )
            assert told == fires
            assert result.peak_pending == count_peak(requests, fires)
            assert (result.wakeups, result.cascades) == count_wakeups(requests, fires, tick, timeout, size)


@pytest.mark.parametrize(
    ("completion_ms", "fire_ms"),
    [(15, None), (20, None), (20.000001, 20), (None, 20), (0, None)],
    ids=["before", "at that very instant", "a nanosecond late", "never", "at once"],
)
def test_a_deadline_is_rounded_up_and_a_completion_at_it_wins(core, completion_ms, fire_ms):
    """Arrival 0, timeout 15 ms, tick 10 ms: it fires at 20 ms."""
    request = (0, None if completion_ms is None else round(completion_ms * MS))
    result, fires = played([request], tick_ns=10 * MS, timeout_ns=15 * MS, core=core)
    assert fires == [None if fire_ms is None else fire_ms * MS]
    assert result.lateness_max_ns == (0 if fire_ms is None else 5 * MS)
    assert result.peak_pending == (0 if completion_ms == 0 else 1)


def test_a_request_pending_from_another_ones_end_does_not_overlap_it(core):
    """[arrival, end): the peak of a relay is 1."""
    relay = [(i * 10, (i + 1) * 10) for i in range(50)]
    result, _ = played(relay, tick_ns=1, timeout_ns=100, core=core)
    assert result.peak_pending == 1


def test_the_latest_arrival_still_has_a_deadline(core):
    """Next to the end of 64 bits everything is still exact; beyond it the kernel refuses."""
    tick, timeout = 1000, 12345
    latest = latest_arrival_ns(tick, timeout)
    _, fires = played([(latest, None)], tick_ns=tick, timeout_ns=timeout, core=core)
    assert fires == [latest + timeout]
    assert MAX_NS - tick < fires[0] <= MAX_NS
    with pytest.raises(ValueError, match="must fit 64 bits"):
        played([(latest + 1, None)], tick_ns=tick, timeout_ns=timeout, core=core)


def test_nothing_to_replay(core):
    """No requests, no percentiles out of thin air."""
    result, fires = played([], tick_ns=1, timeout_ns=1, core=core)
    assert fires == []
    assert (result.requests, result.peak_pending, result.wakeups, result.lateness_p99_ns) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tick_ns": 0}, "tick_ns must be > 0, got 0"),
        ({"timeout_ns": -1}, "timeout_ns must be > 0, got -1"),
        ({"wheel_size": 1}, "wheel_size must be >= 2, got 1"),
        ({"core": "rust"}, "core must be cython or python, got 'rust'"),
    ],
)
def test_bad_arguments_are_refused(core, options, message):
    """Argument, rule, value seen."""
    with pytest.raises(ValueError, match=message):
        replay([], **{"tick_ns": 1, "timeout_ns": 1, "core": core, **options})


def test_without_on_outcomes_the_numbers_are_the_same(core):
    """Nobody who does not ask pays for the order of the rows."""
    requests = [(arrival, None if end == NEVER else end) for arrival, end in generate(3000, never=0.1)]
    options = {"tick_ns": MS, "timeout_ns": 50 * MS, "core": core}
    asked, _ = played(requests, **options)
    plain = replay(chunks(requests, 1000), **options)
    assert plain.lateness_counts == asked.lateness_counts
    assert (plain.completed, plain.expired, plain.peak_pending) == (
        asked.completed, asked.expired, asked.peak_pending
    )


def test_decisions_are_held_back_no_longer_than_needed():
    """A decision waits for the earlier requests alone; the window is empty once all are decided."""
    order = RowOrder()
    (chunk,) = chunks([(0, None), (1, 2), (3, 4)], 3)
    order.feed(chunk)
    assert order.decide([2], [NEVER]).labels == []
    assert order.decide([0], [50]) == Outcomes([1], array("q", [0]), array("q", [NEVER]), array("q", [50]))
    assert order.decide([1], [NEVER]).labels == [2, 3]
    assert order.decide([], []) == Outcomes()


def test_the_window_is_bounded_by_what_is_pending(core):
    """A request that never completes holds back what arrives within its timeout, not the rest."""
    requests = [(i * MS, None if i % 1000 == 0 else i * MS + 10) for i in range(20_000)]
    told, fed, behind = 0, 0, []

    def feed():
        nonlocal fed
        for chunk in chunks(requests, 10):
            fed += len(chunk.labels)
            yield chunk
            behind.append(fed - told)

    def tell(outcomes):
        nonlocal told
        told += len(outcomes.labels)

    replay(feed(), tick_ns=MS, timeout_ns=100 * MS, core=core, on_outcomes=tell)
    assert told == len(requests)
    assert 90 < max(behind) <= 120


GENERATED = ["--requests", "2000", "--seed", "4", "--never", "0.05"]


@pytest.mark.parametrize("name", ["outcomes.csv", "outcomes.csv.gz", "outcomes.parquet"])
@pytest.mark.parametrize("by_id", [False, True])
def test_outcomes_are_the_same_in_every_format(core, name, by_id, tmp_path):
    """One row a request in the trace's order: row or id, outcome, fire in the trace's unit, exact."""
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    trace, out = tmp_path / "trace.csv", tmp_path / name
    assert main(["generate", str(trace), *GENERATED]) == 0
    options = ["--tick", "0.3ms", "--timeout", "70.0001ms", "--core", core, "--outcomes", str(out)]
    assert main(["replay", str(trace), *options, *(["--id", "request_id"] * by_id)]) == 0
    requests = [(a, None if c == NEVER else c) for a, c in generate(2000, seed=4, never=0.05)]
    fires = count_fires(requests, 300_000, 70_000_100)
    column = "request_id" if by_id else "row"
    lines = read_outcomes(out)
    assert list(lines[0]) == [column, "outcome", "fire_ms"]
    assert [str(line[column]) for line in lines] == [str(i) for i in range(1, 2001)]
    assert [line["outcome"] == "expired" for line in lines] == [fire is not None for fire in fires]
    assert [to_ns(str(line["fire_ms"]), "ms") if line["fire_ms"] else None for line in lines] == fires
    assert 100 < sum(fire is not None for fire in fires) < 1900


def read_outcomes(path):
    if path.suffix == ".parquet":
        return pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return list(csv.DictReader(file))
