"""Real traces as streams, shuffled inside the watermark, and killed: plain loops find the same."""

import csv
import gzip
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import killed
import pytest
from microbatches import DAY, Folder, at, counted, cut, playing, shuffled
from plain_loops import idle_spells, outcomes

import tickwheel

TRACES = Path(os.environ.get("TICKWHEEL_TRACES", Path(__file__).parents[3] / "shared" / "traces"))
LOG = TRACES / "nasa-http-1995-08-01" / "requests.csv.gz"
SPANS = TRACES / "nezha-online-boutique" / "spans.csv.gz"
pytestmark = pytest.mark.skipif(
    not (LOG.exists() and SPANS.exists()), reason=f"the real traces are not in {TRACES} (TICKWHEEL_TRACES)"
)


def lines(path):
    with gzip.open(path, "rt", newline="") as file:
        yield from csv.DictReader(file)


@pytest.fixture(scope="module")
def clicks():
    """The web server's log: twelve hours, of 2,365 clients."""
    return [{"client": int(row["host_id"]), "time": at(int(row["time_s"]))} for row in lines(LOG)]


@pytest.fixture(scope="module")
def spans():
    """The shop's spans as starts and ends. An operation's timeout is what 3 of 4 of its spans took."""
    rows = [
        (row["operation"], int(row["start_ns"]) // 1000, int(row["end_ns"]) // 1000) for row in lines(SPANS)
    ]
    took = defaultdict(list)
    for operation, start, end in rows:
        took[operation].append(end - start)
    timeout_ms = {operation: sorted(times)[len(times) * 3 // 4] / 1000 for operation, times in took.items()}
    starts = [
        {"id": span, "time": at(start / 1e6), "timeout_ms": timeout_ms[operation]}
        for span, (operation, start, _) in enumerate(rows)
    ]
    return starts, [{"id": span, "time": at(end / 1e6)} for span, (_, _, end) in enumerate(rows)]


def put(place, clicks, spans, rng, files):
    """Both traces as files, out of order inside the watermark, and then rows that end all waiting.

    The folders, each with that last row.
    """
    ended = []
    for name, columns, rows, delay_s in (
        ("clicks", killed.CLICKS, clicks, killed.CLICK_DELAY_S),
        ("starts", killed.STARTS, spans[0], killed.SPAN_DELAY_S),
        ("ends", killed.ENDS, spans[1], killed.SPAN_DELAY_S),
    ):
        folder = Folder(place / name, columns)
        for batch in cut(shuffled(rows, delay_s, rng), files):
            folder.put(*batch)
        last = {**rows[0], "time": max(row["time"] for row in rows) + timedelta(seconds=DAY)}
        folder.put(last)
        ended.append((folder, last))
    return ended


def expected(clicks, spans):
    found = {f"idle-{timeout}": counted(idle_spells(clicks, timeout)) for timeout in killed.TIMEOUTS_S}
    return {**found, "spans": counted(outcomes(*spans, killed.SPAN_DELAY_S))}


def test_traces_in_micro_batches_equal_plain_loops(spark, tmp_path, rng, clicks, spans):
    """Idle clients of the log at three timeouts, and the outcome of each span: every one, once."""
    put(tmp_path, clicks, spans, rng, files=8)
    with ExitStack() as stack:
        frames = killed.streams(spark, tmp_path)
        queries = {name: stack.enter_context(playing(frame)) for name, frame in frames.items()}
        found = {name: counted(query.rows()) for name, query in queries.items()}
    assert not differences(found, expected(clicks, spans))


def test_traces_killed_at_random_points_equal_plain_loops(spark, tmp_path, rng, clicks, spans, soak):
    """SIGKILL to Python, the JVM and its workers, then on from the checkpoints: every outcome, once."""
    kills, files = (10, 44) if soak else (1, 7)
    ended = put(tmp_path, clicks, spans, rng, files)
    for _ in range(kills):
        with running(tmp_path) as process:
            done, more = commits(tmp_path), rng.randint(1, 24)
            while commits(tmp_path) < done + more:
                assert process.poll() is None, "it ended before it was killed"
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 1))
            assert process.poll() is None, "it ended before it was killed"
    # After a restart Spark starts no batch without rows, so that what the batch before the kill had decided
    # would stay inside: with a row more, it need not.
    for folder, last in ended:
        folder.put(last)
    with running(tmp_path) as process:
        assert process.wait() == 0
    found = {
        name: counted(spark.read.parquet(str(tmp_path / name / "out")).toArrow().to_pylist())
        for name in expected(clicks, spans)
    }
    assert not differences(found, expected(clicks, spans))


def differences(found, wanted):
    """By name, some rows that were found too often or too seldom; a diff of all would take pytest minutes."""
    apart = {
        name: ([*(found[name] - rows)][:5], [*(rows - found[name])][:5]) for name, rows in wanted.items()
    }
    return {name: rows for name, rows in apart.items() if any(rows)}


def commits(place):
    return sum(1 for _ in place.glob("*/checkpoint/commits/[0-9]*"))


@contextmanager
def running(place):
    """The program, killed at the block's end if it still runs, and the JVM with it, which is of its group."""
    root = str(Path(tickwheel.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, killed.__file__, place]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
