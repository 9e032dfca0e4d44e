"""The proposal's workload: its shape, its seed, its file."""
import gzip
import hashlib
import re
from collections import Counter
from itertools import islice, pairwise
from statistics import fmean, pvariance, quantiles

import pytest

from tickwheel.trace import Trace
from tickwheel.units import MAX_NS, NEVER
from tickwheel.workload import BLOCK, Workload, generate, write_trace


def latencies_ms(requests):
    return [(completion - arrival) / 1e6 for arrival, completion in requests if completion != NEVER]


def test_the_seed_decides_everything():
    """The same on every Python and platform: these are the bytes, written down once."""
    text = repr(list(generate(70_000, seed=1, never=0.01)))
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert digest == "ae69b24b22cebd919bb273913ccb3e1496b5c28fb30cad22bebe766ce009fe61"
    assert list(generate(100, seed=2)) != list(generate(100, seed=1))


def test_a_longer_trace_begins_with_the_shorter_one():
    """It is an iterator: nothing depends on how many will be asked for, at the end of a block neither."""
    longer = list(generate(2 * BLOCK + 1))
    assert list(generate(50)) == list(islice(generate(10**9), 50)) == longer[:50]
    for requests in (BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK):
        assert list(generate(requests)) == longer[:requests]
    assert list(generate(0)) == []


def test_blocks_do_not_know_of_each_other():
    """Any of them, made alone, is what it is among all, so they can be made anywhere in any order."""
    workload = Workload.of(3 * BLOCK + 5, seed=4, rate_per_s=1e4, p50_ms=20, p75_ms=60, never=0.1)
    whole = list(generate(3 * BLOCK + 5, seed=4, rate_per_s=1e4, never=0.1))
    blocks = list(workload.blocks())
    assert [block.requests for block in blocks] == [BLOCK, BLOCK, BLOCK, 5]
    for block in reversed(blocks):
        first = block.number * BLOCK
        assert list(workload.block(block)) == whole[first : first + block.requests]


def test_blocks_leave_no_seam():
    """Counted over whole blocks and across their ends, arrivals are Poisson: variance = mean.

    In blocks of the same length the first would come out near 0.
    """
    gap = 1_000_000
    lengths = [block.length_ns / gap for block in Workload.of(
        2000 * BLOCK, seed=6, rate_per_s=1000.0, p50_ms=20, p75_ms=60, never=0).blocks()]
    assert fmean(lengths) == pytest.approx(BLOCK, rel=1e-3)
    assert pvariance(lengths) == pytest.approx(BLOCK, rel=0.1)
    counts = Counter(arrival // (100 * gap) for arrival, _ in generate(4 * BLOCK, seed=6))
    whole = [counts[number] for number in range(max(counts))]
    assert fmean(whole) == pytest.approx(100, rel=0.02)
    assert pvariance(whole) == pytest.approx(100, rel=0.1)


def test_one_parameter_changes_nothing_that_another_makes():
    """Arrivals do not know of latencies, nor either of `never`."""
    plain = list(generate(1000, seed=3))
    slow = list(generate(1000, seed=3, p50_ms=200, p75_ms=400))
    some = list(generate(1000, seed=3, never=0.25))
    assert [arrival for arrival, _ in plain] == [arrival for arrival, _ in slow]
    assert all(a == b or (a[0] == b[0] and b[1] == NEVER) for a, b in zip(plain, some, strict=True))
    assert 200 < sum(completion == NEVER for _, completion in some) < 300


@pytest.mark.parametrize(("p50_ms", "p75_ms"), [(20.0, 60.0), (200.0, 400.0)])
def test_the_shape_is_the_proposals(p50_ms, p75_ms):
    """Median, upper quartile and rate are those asked for; gaps are exponential: deviation = mean."""
    requests = list(generate(100_000, seed=5, rate_per_s=2000, p50_ms=p50_ms, p75_ms=p75_ms))
    _, p50, p75 = quantiles(latencies_ms(requests))
    assert p50 == pytest.approx(p50_ms, rel=0.03)
    assert p75 == pytest.approx(p75_ms, rel=0.03)
    gaps = [(b - a) / 1e6 for (a, _), (b, _) in pairwise(requests)]
    assert fmean(gaps) == pytest.approx(0.5, rel=0.02)
    assert fmean(gap * gap for gap in gaps) == pytest.approx(2 * 0.5**2, rel=0.05)


def test_times_are_in_order_and_whole_microseconds():
    """Arrivals ascend, nothing completes before it arrives."""
    requests = list(generate(2 * BLOCK, seed=8, rate_per_s=1e6, p50_ms=0.001, p75_ms=0.001))
    assert all(a <= b for (a, _), (b, _) in pairwise(requests))
    assert all(arrival <= completion for arrival, completion in requests)
    assert all(time % 1000 == 0 for request in requests for time in request)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"requests": -1}, "requests must be >= 0, got -1"),
        ({"seed": -1}, "seed must be >= 0, got -1"),
        ({"rate_per_s": 0.0}, "rate_per_s must be between 1e-6 and 1e9, got 0.0"),
        ({"rate_per_s": float("nan")}, "rate_per_s must be between 1e-6 and 1e9, got nan"),
        ({"p50_ms": 0}, "p50_ms must be > 0 ms, got 0 ms"),
        ({"p50_ms": 70}, "p75_ms must be >= the median (70 ms), got 60 ms"),
        ({"p75_ms": float("inf")}, "p75_ms must be >= the median (20 ms), got inf ms"),
        ({"p75_ms": 1e9},
         "p75_ms must be so near the median (20 ms) that all latencies fit in 64 bits, got 1e+09 ms"),
        ({"never": 1.5}, "never must be between 0 and 1, got 1.5"),
    ],
)
def test_bad_parameters_are_refused_at_once(parameters, message):
    """Before the first request is asked for."""
    with pytest.raises(ValueError, match=re.escape(message) + "$"):
        generate(**{"requests": 10, **parameters})


def test_a_trace_too_long_for_64_bits_is_refused():
    """It says so when it gets there, within a block or at the start of one."""
    early = Workload.of(1 << 40, seed=1, rate_per_s=1e-3, p50_ms=20, p75_ms=60, never=0).blocks()
    requests = generate(100_000, rate_per_s=1e-6)
    message = "rate_per_s must be high enough for the times of 100000 requests to fit in 64 bits, got 1e-06$"
    with pytest.raises(ValueError, match=message):
        all(completion <= MAX_NS for _, completion in requests)
    with pytest.raises(ValueError, match=r"rate_per_s must be high enough .* of 1099511627776 requests"):
        all(block.start_ns <= MAX_NS for block in early)


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_what_is_written_is_read_back(tmp_path, name):
    """`Trace(path)` without options reads what `write_trace` makes; the same seed, the same bytes."""
    path = tmp_path / name
    write_trace(str(path), generate(1000, never=0.1))
    first = path.read_bytes()
    assert (gzip.decompress(first) if name.endswith(".gz") else first).startswith(
        b"request_id,arrival_ms,completion_ms\n1,"
    )
    (chunk,) = Trace(str(path), id="request_id")
    assert list(zip(chunk.arrivals, chunk.completions, strict=True)) == list(generate(1000, never=0.1))
    assert chunk.labels == [str(i) for i in range(1, 1001)]
    write_trace(str(path), generate(1000, never=0.1))
    assert path.read_bytes() == first


def test_a_trace_is_written_whole_or_not_at_all(tmp_path):
    """An error on the way leaves the file that was there, and nothing beside it."""

    def failing():
        yield from generate(10)
        raise ValueError("no more")

    path = tmp_path / "trace.csv"
    path.write_text("old")
    with pytest.raises(ValueError, match="no more"):
        write_trace(str(path), failing())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
