"""The lateness histogram and its percentiles, on both cores."""

import math
from array import array

import pytest

from tickwheel import _replay
from tickwheel._reference import replay
from tickwheel._reference.histogram import SIZE, index_of, upper_edge
from tickwheel.metrics import percentile

KERNELS = [pytest.param(_replay.ReplayKernel, id="cython"), pytest.param(replay.ReplayKernel, id="python")]
EDGES = sorted({max(0, (1 << k) + d) for k in range(63) for d in (-1, 0, 1)} | {2**63 - 1})


def counted(values):
    counts = [0] * SIZE
    for v in values:
        counts[index_of(v)] += 1
    return counts


def test_exact_below_128_and_a_64th_above():
    """The upper edge of a value's bucket is at most 1/64 above it; small values are exact."""
    assert [upper_edge(index_of(v)) for v in range(128)] == list(range(128))
    for v in [*range(128, 5000), *EDGES]:
        assert v <= upper_edge(index_of(v)) <= v + v / 64


def test_buckets_ascend_to_the_last():
    """A greater value is never in a lower bucket; the greatest int64 is in the last; negative counts as 0."""
    indices = [index_of(v) for v in EDGES]
    assert indices == sorted(indices)
    assert indices[-1] == SIZE - 1
    assert index_of(-1) == index_of(-(2**63)) == 0
    assert [index_of(upper_edge(i)) for i in range(SIZE)] == list(range(SIZE))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_cores_count_alike(kernel):
    """A lateness of v counts in bucket `index_of(v)`, for v of every size."""
    tick = 2**62
    lateness = [v for v in EDGES if v < tick]
    replay = kernel(tick, 0)
    replay.feed(array("q", [tick - v for v in reversed(lateness)]), array("q", [2**63 - 1] * len(lateness)))
    replay.finish()
    assert replay.lateness_counts == counted(lateness)
    assert replay.lateness_max == max(lateness)


@pytest.mark.parametrize("q", [0, 0.01, 0.07, 0.5, 0.9, 0.99, 0.999, 1])
def test_percentiles_are_by_nearest_rank(q, rng):
    """Never below the exact quantile, at most 1/64 above it, and never above the maximum."""
    values = sorted(int(2 ** rng.uniform(0, 40)) for _ in range(100))
    exact = values[max(1, math.ceil(round(q * 100, 6))) - 1]
    assert exact <= percentile(counted(values), q, values[-1]) <= min(exact + exact / 64, values[-1])
    assert percentile(counted([5000] * 3), q, 5000) == 5000


def test_percentile_of_nothing():
    """0 for an empty histogram; a share is between 0 and 1."""
    assert percentile([0] * SIZE, 0.5, 0) == 0
    for q in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=r"q must be between 0 and 1, got"):
            percentile([0] * SIZE, q, 0)
