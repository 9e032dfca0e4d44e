"""The proposal's benchmark: every design completes every request once, or is seen dying."""
import subprocess
import sys
from dataclasses import replace
from math import inf

import pytest

from tickwheel.bench.purgatories import DESIGNS
from tickwheel.bench.purgatory.cell import RequestCell, RunCell
from tickwheel.bench.purgatory.load import BATCH, key_sets, make_load
from tickwheel.bench.purgatory.plan import Rate, RunRow
from tickwheel.bench.purgatory.request import STORIES
from tickwheel.bench.purgatory.run import Setting
from tickwheel.bench.runner import measure
from tickwheel.cli.bench_purgatory_text import remark

EXPIRING = [name for name in DESIGNS if name != "harness"]
REQUESTS = 300
BASE = Setting("wheel", timeout=0.06, requests=REQUESTS)
linux = pytest.mark.skipif(sys.platform != "linux", reason="the data segment is limited by RLIMIT_DATA")


def test_the_load_is_the_same_at_any_rate():
    """Another target rate changes when requests arrive, and nothing else: times are whole microseconds."""
    fast, slow = (make_load(1000, rate, 20.0, 60.0, 3, 100, seed=7) for rate in (inf, 5000.0))
    assert list(fast.latencies) == pytest.approx(list(slow.latencies), abs=2e-6)
    assert fast.keys == slow.keys
    assert fast.latencies[0] != make_load(1, inf, 20.0, 60.0, 3, 100, seed=8).latencies[0]


def test_requests_come_in_batches():
    """At a target rate, those of one millisecond, at its end; without one, always as many."""
    paced = make_load(2000, 5000.0, 20.0, 60.0, 3, 100, seed=1)
    assert sum(paced.counts) == 2000 and min(paced.counts) > 0
    assert list(paced.starts) == sorted(set(paced.starts))
    assert all(abs(start * 1000 - round(start * 1000)) < 1e-6 for start in paced.starts)
    assert 0.3 < paced.starts[-1] < 0.5
    free = make_load(1000, inf, 20.0, 60.0, 3, 100, seed=1)
    assert list(free.counts) == [BATCH] * (1000 // BATCH) + [1000 % BATCH]
    assert set(free.starts) == {0.0}


def test_keys_are_distinct():
    """A request watches as many keys as it says, each once, of as many as there are."""
    for keys, space in (3, 100), (1000, 10_000), (4, 4):
        for drawn in key_sets(keys, space, seed=1)[:50]:
            assert len(drawn) == len(set(drawn)) == keys
            assert {int(key.removeprefix("key")) for key in drawn} <= set(range(space))


@pytest.mark.parametrize("design", EXPIRING)
@pytest.mark.parametrize("rate", [inf, 3000.0])
def test_each_request_is_completed_once(design, rate):
    """All that were enqueued are complete at the end; what is beyond the timeout has timed out."""
    sample = RunCell(replace(BASE, design=design, rate=rate)).measure(1)
    assert (sample.died, sample.never, sample.enqueued) == (None, 0, REQUESTS)
    assert 0 < sample.beyond_timeout <= sample.timed_out <= 1
    assert sample.late_p50_ms > -0.001
    assert sample.call_p99_us > 0
    assert sample.cpu_us > 0 and sample.rate > 0 and sample.calibration_ns > 0
    assert sample.wakeups > 0 and sample.threads > 0


@pytest.mark.parametrize("design", EXPIRING)
def test_all_or_none_time_out(design):
    """Latencies far beyond the timeout all expire; far below it, none does."""
    for latency, timeout, share in (1e6, 0.05, 1.0), (1.0, 20.0, 0.0):
        setting = replace(BASE, design=design, p50_ms=latency, p75_ms=latency, timeout=timeout)
        sample = RunCell(setting).measure(1)
        assert (sample.died, sample.never) == (None, 0)
        assert sample.timed_out == sample.beyond_timeout == share


def test_the_harness_expires_nothing():
    """Without a purgatory, the requests within the timeout complete, and nobody waits for the others."""
    sample = RunCell(replace(BASE, design="harness")).measure(1)
    assert (sample.died, sample.never, sample.enqueued) == (None, 0, REQUESTS)
    assert sample.timed_out is None and sample.late_p50_ms is None
    assert sample.beyond_timeout > 0


def test_a_request_of_many_keys():
    """With a thousand keys each completion is timed for its caller."""
    sample = RunCell(replace(BASE, keys=1000, key_space=10_000, requests=40)).measure(1)
    assert (sample.died, sample.never) == (None, 0)
    assert sample.call_p50_us > 0


def test_a_run_without_collections():
    """GC off is off."""
    assert RunCell(replace(BASE, gc="off", requests=3000)).measure(1).collections == 0


@linux
@pytest.mark.parametrize("design", EXPIRING)
def test_a_design_that_exhausts_its_memory_is_reported(design):
    """It is a figure, not a crash: what it died of, and after how many requests. None ever ends here."""
    limited = replace(
        BASE,
        design=design,
        p50_ms=1e6,
        p75_ms=1e6,
        timeout=1000.0,
        requests=100_000,
        memory_limit=6_000_000,
        patience=1.0,
    )
    row = RunRow(limited, Rate(inf))
    measure([row], 1, lambda fraction: None)
    if row.sample is None:      # seldom: the interpreter itself, without memory, hangs
        assert row.note.startswith("failed: no end after ")
    else:
        assert remark(row) in (
            f"out of memory after {row.sample.enqueued:,} requests",
            f"RuntimeError: can't start new thread after {row.sample.enqueued:,} requests",
        )
        assert 0 < row.sample.enqueued < limited.requests


def test_a_run_that_hangs_after_an_error_ends():
    """Whatever a design that lacks memory waits for: its process says what it died of, and ends."""
    story = """
import time
from tickwheel.bench.purgatory import witness
witness.ENDS_S = 0.05
witness.Trouble().note(MemoryError())
time.sleep(60)
"""
    ended = subprocess.run([sys.executable, "-c", story], capture_output=True, text=True, timeout=50)
    assert (ended.returncode, ended.stderr) == (1, "out of memory, and then no end\n")


@linux
def test_a_limit_that_is_not_reached_changes_nothing():
    """All requests are completed within it."""
    sample = RunCell(replace(BASE, memory_limit=500_000_000)).measure(1)
    assert (sample.died, sample.never) == (None, 0)


def test_a_run_that_falls_behind_gives_up():
    """With little patience it ends at a look at the clock, and says after how many requests."""
    row = RunRow(replace(BASE, requests=200_000, patience=0.01), Rate(inf))
    measure([row], 1, lambda fraction: None)
    assert 0 < row.sample.enqueued < 200_000
    assert remark(row) == f"gave up after {row.sample.enqueued:,} requests"


def test_what_fails_in_the_fresh_process_comes_back():
    """The last line of its traceback is the note."""
    row = RunRow(replace(BASE, design="dance"), Rate(inf))
    measure([row], 1, lambda fraction: None)
    assert row.note == "failed: KeyError: 'dance'"
    assert row.sample is None


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("story", STORIES)
def test_single_requests(design, story):
    """Each story is told with each design."""
    sample = RequestCell(design, 20, 0.001, story, 600, "on").measure(1)
    assert sample.requests * STORIES[story][0] >= 600
    assert sample.request_ns > 0
