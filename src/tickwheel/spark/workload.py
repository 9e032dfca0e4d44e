"""The proposal's workload on Spark: the rows of `tickwheel.workload`, whatever the partitions.

A row of the plan is a block of 65,536 requests; each is made from the seed and the block's
number. Gaps, latencies and fates come from the very random numbers of `random.Random`,
drawn by numpy, whose Mersenne Twister is seeded alike. `log`, `exp` and `cos` are Arrow's,
which calls those of the C library as `math` does; numpy's own differ in the last bit.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tickwheel.units import MAX_NS, NEVER, to_ns
from tickwheel.workload import BLOCK, FARTHEST, Block, Workload, check

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION = 16          # blocks, unless the caller says: some 30 MB of Parquet a file
KEYS = 1 << 63          # added to a block's stream: what its keys are drawn from
MAX_INT = 2**31 - 1
MOST_KEYS = 1000         # of a request: a block's are half a gigabyte

Floats = Any            # numpy.ndarray of float64
Ints = Any              # numpy.ndarray of int64

SCHEMA = pa.schema({
    "request_id": pa.int64(),
    "arrival_ms": pa.float64(),
    "completion_ms": pa.float64(),
    "timeout_ms": pa.float64(),
    "keys": pa.list_(pa.int64()),
    "shard": pa.int32(),
})
COLUMNS = (
    "request_id bigint, arrival_ms double, completion_ms double, timeout_ms double,"
    " keys array<bigint>, shard int"
)


def generate_requests(
    spark: SparkSession,
    n: int,
    *,
    seed: int = 1,
    rate_per_s: float = 1000.0,
    p50_ms: float = 20.0,
    p75_ms: float = 60.0,
    never: float = 0.0,
    timeout_ms: float = 200.0,
    n_keys: int = 100_000,
    keys_per_request: int = 3,
    n_shards: int = 8,
    n_partitions: int | None = None,
) -> DataFrame:
    """`n` requests, made when they are asked for; the same rows for any number of partitions.

    request_id bigint, from 1; arrival_ms and completion_ms double, null = never: those of
    `tickwheel.workload.generate`; timeout_ms double; keys array<bigint>, distinct numbers
    below n_keys, every set equally likely, ascending; shard int, (request_id - 1) % n_shards,
    so that each has its share at any time. A partition holds consecutive requests, in order
    of arrival; by default a million of them.

    ValueError: an argument out of its range. Works over Spark Connect. Memory: a block and its
    keys a task. A row costs a worker some 0.25 us, and more with the square of keys_per_request.
    """
    workload = Workload.of(n, seed=seed, rate_per_s=rate_per_s, p50_ms=p50_ms, p75_ms=p75_ms, never=never)
    try:
        never_early = to_ns(str(timeout_ms), "ms") >= 0
    except ValueError as error:
        raise ValueError(f"timeout_ms {error}, got {timeout_ms!r}") from None
    check("timeout_ms", f"{timeout_ms:g} ms", ">= 0 ms", never_early)
    wholes = {"keys_per_request": keys_per_request, "n_keys": n_keys, "n_shards": n_shards}
    for name, value in {**wholes, "n_partitions": n_partitions or 1}.items():
        check(name, value, "a whole number", isinstance(value, Integral))
    few = f"between 1 and {MOST_KEYS}"
    check("keys_per_request", keys_per_request, few, 1 <= keys_per_request <= MOST_KEYS)
    enough = f"between keys_per_request ({keys_per_request}) and 2**53"
    check("n_keys", n_keys, enough, keys_per_request <= n_keys <= 2**53)
    check("n_shards", n_shards, f"between 1 and {MAX_INT}", 1 <= n_shards <= MAX_INT)
    if n_partitions is not None:
        check("n_partitions", n_partitions, ">= 1", n_partitions >= 1)
    # Numbers, not objects: they go to every task.
    blocks = np.array(list(workload.blocks()), "i8, i8, f8, i8")

    def batch(number: int) -> pa.RecordBatch:
        block = Block(*blocks[number].item())
        first = number * BLOCK + 1
        ids = np.arange(first, first + block.requests)
        arrivals, completions = times_ns(workload, block)
        keys = distinct_keys(workload.key(KEYS + number + 1), n_keys, keys_per_request)
        columns = [
            pa.array(ids),
            pa.array(arrivals // 1000 / 1e3),
            pa.array(completions // 1000 / 1e3, mask=completions == NEVER),
            pa.array(np.full(block.requests, float(timeout_ms))),
            _lists(keys[: block.requests]),
            pa.array(((ids - 1) % n_shards).astype(np.int32)),
        ]
        return pa.record_batch(columns, schema=SCHEMA)

    partitions = n_partitions or max(1, -(-len(blocks) // PARTITION))
    return spark.range(0, len(blocks), 1, partitions).mapInArrow(_each_id(batch), COLUMNS)


def _each_id(batch: Callable[[int], Any]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    return lambda batches: (batch(number) for ids in batches for number in ids.column(0).to_pylist())


def times_ns(workload: Workload, block: Block) -> tuple[Ints, Ints]:
    """Arrivals and completions of a block's requests: `workload.block(block)`, bit for bit."""
    longest = math.exp(workload.mu + FARTHEST * workload.sigma)
    if block.start_ns + block.length_ns + longest > MAX_NS / 2:
        # So near the end of 64 bits whole numbers must be Python's.
        requests = list(workload.block(block))
        return np.array([arrival for arrival, _ in requests]), np.array([end for _, end in requests])
    stream = twister(workload.key(block.number + 1))
    ends = np.cumsum(-_log(1.0 - stream.random_sample(BLOCK)))
    arrivals = block.start_ns + (block.length_ns * (ends[: block.requests] / ends[-1])).astype(np.int64)
    u1, u2, u3 = stream.random_sample((block.requests, 3)).T
    deviates = np.sqrt(-2.0 * _log(1.0 - u1)) * pc.cos(math.tau * u2).to_numpy()
    latencies = np.rint(pc.exp(workload.mu + workload.sigma * deviates).to_numpy()).astype(np.int64)
    completions = (arrivals + latencies) // 1000 * 1000
    return arrivals // 1000 * 1000, np.where(u3 < workload.never, NEVER, completions)


def _log(values: Floats) -> Floats:
    return pc.ln(values).to_numpy()


def twister(key: int) -> np.random.RandomState:
    """The numbers of `random.Random(key)`: its key is the same words, the least significant first."""
    words = [key >> shift & 0xFFFFFFFF for shift in range(0, max(1, key.bit_length()), 32)]
    return np.random.RandomState(words)


def distinct_keys(key: int, n_keys: int, count: int) -> Ints:
    """For each request of a block `count` of range(n_keys), every set equally likely, ascending.

    Floyd's sampling, for all requests at once: of range(top + 1) one more number is drawn,
    and where it was taken before, `top` is taken in its stead.
    """
    stream = twister(key)
    taken: Ints = np.empty((count, BLOCK), np.int64)
    for number, top in enumerate(range(n_keys - count, n_keys)):
        drawn = (stream.random_sample(BLOCK) * (top + 1)).astype(np.int64)
        taken[number] = np.where((taken[:number] == drawn).any(axis=0), top, drawn)
    taken.sort(axis=0)
    return taken.T


def _lists(rows: Ints) -> pa.ListArray:
    count, width = rows.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, np.ascontiguousarray(rows).ravel())
