"""The workload's blocks as Spark's workers make them, without Spark: bit for bit the one process's."""
from random import Random

import pytest

from tickwheel.units import MAX_NS
from tickwheel.workload import BLOCK, Workload

np = pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from tickwheel.spark.workload import distinct_keys, times_ns, twister  # noqa: E402

SHAPE = {"seed": 1, "rate_per_s": 1000.0, "p50_ms": 20.0, "p75_ms": 60.0, "never": 0.0}


@pytest.mark.parametrize("key", [0, 1, 2**32 - 1, 2**32, 7 << 64 | 99, 2**80 << 64 | 3, 1 << 64 | 2**40])
def test_numpy_draws_what_random_draws(key):
    """One seeding of the Mersenne Twister, one recipe for 53 bits, whatever the length of the key."""
    random = Random(key)
    assert twister(key).random_sample(3000).tolist() == [random.random() for _ in range(3000)]


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"never": 0.1, "seed": 2**70},
        {"p50_ms": 200.0, "p75_ms": 400.0, "rate_per_s": 17.3},
        {"rate_per_s": 1e9, "p50_ms": 0.001, "p75_ms": 0.001},
        {"rate_per_s": 2e-5, "never": 0.5},
    ],
)
def test_a_block_is_that_of_the_one_process(shape):
    """Every row of it; also near the end of 64 bits, where numpy's whole numbers would wrap."""
    workload = Workload.of(2 * BLOCK + 1000, **{**SHAPE, **shape})
    for block in workload.blocks():
        if block.start_ns + 2 * block.length_ns > MAX_NS:
            break
        arrivals, completions = times_ns(workload, block)
        assert list(zip(arrivals.tolist(), completions.tolist(), strict=True)) == list(workload.block(block))


def test_times_past_64_bits_are_refused():
    """In the words of the one process."""
    workload = Workload.of(BLOCK, **{**SHAPE, "rate_per_s": 1e-6})
    (block,) = workload.blocks()
    with pytest.raises(ValueError, match="rate_per_s must be high enough for the times of 65536"):
        times_ns(workload, block)


@pytest.mark.parametrize(("n_keys", "count"), [(100_000, 3), (3, 3), (4, 2), (1, 1), (2**53, 5), (50, 40)])
def test_keys_are_distinct(n_keys, count):
    """Ascending, of the range, another set for another request."""
    keys = distinct_keys(5, n_keys, count)
    assert keys.shape == (BLOCK, count)
    assert (keys[:, 1:] > keys[:, :-1]).all()
    assert keys.min() >= 0
    assert keys.max() < n_keys
    assert (distinct_keys(5, n_keys, count) == keys).all()


def test_every_set_of_keys_is_equally_likely():
    """Floyd's sampling: six pairs of four, each within five deviations of a sixth."""
    keys = distinct_keys(11, 4, 2)
    counts = np.bincount(keys[:, 0] * 4 + keys[:, 1])
    counts = counts[counts > 0]
    assert len(counts) == 6
    deviation = (BLOCK * 1 / 6 * 5 / 6) ** 0.5
    assert abs(counts - BLOCK / 6).max() < 5 * deviation
