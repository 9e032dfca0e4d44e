"""What is recommended: summaries equal plain counting, choices their rule, and planted bests are found."""
import random
from array import array
from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from tickwheel._reference.histogram import SIZE, index_of, upper_edge
from tickwheel._reference.replay import ReplayKernel
from tickwheel.metrics import percentile
from tickwheel.spark import choice
from tickwheel.spark.choice import recommend, summarize
from tickwheel.spark.whatif import Config, replay, replay_files
from tickwheel.units import NEVER
from tickwheel.workload import generate, write_trace

MS = 10**6


@pytest.fixture(scope="module")
def schema(spark):
    """Of what `replay` returns."""
    empty = spark.createDataFrame([], "shard int, arrival_ms double, completion_ms double, timeout_ms double")
    return replay(empty, [Config()]).schema


def result(shard, config, rng):
    """A row such as `replay` returns, of random counts that go together."""
    expired = rng.choice([0, 1, 2, 99, 100, 101, 400])
    latenesses = [int(rng.expovariate(1) * config.tick_ns) for _ in range(expired)]
    counts = Counter(map(index_of, latenesses))
    completed = rng.randrange(1000)
    peak = rng.randrange(1, 500)
    return {
        "shard": shard,
        "tick_ms": config.tick_ms,
        "wheel_size": config.wheel_size,
        "purge_interval": config.purge_interval,
        "timeout_max_ms": rng.choice([0.0, 0.5, 20.0, 200.0, 3e6]),
        "requests": completed + expired,
        "completed": completed,
        "expired": expired,
        "peak_pending": peak,
        "wakeups": rng.randrange(10),
        "cascades": rng.randrange(1000),
        "purges": 0 if config.purge_interval is None else rng.randrange(5),
        "purged": 0 if config.purge_interval is None else rng.randrange(500),
        "peak_watched": peak + rng.randrange(50),
        "lateness_p50_ms": -1.0,    # of a shard: nobody should look at it
        "lateness_p99_ms": -1.0,
        "lateness_max_ms": max(latenesses, default=0) / MS,
        "lateness": [{"upto_ns": upper_edge(i), "requests": n} for i, n in sorted(counts.items())],
        "pending": [],
        "cpu_s": rng.random(),
    }


@pytest.fixture(scope="module")
def results(spark, schema):
    """Random results of 200 configurations in 1 to 4 shards, by configuration; and as a DataFrame."""
    rng = random.Random(11)
    by_config = defaultdict(list)
    for number in range(200):
        config = Config(rng.choice([0.1, 1.0, 3.0, 10.0]), 2 + number, rng.choice([None, 0, 1000]))
        for shard in range(rng.randrange(1, 5)):
            by_config[config].append(result(shard, config, rng))
    rows = [[row[name] for name in schema.names] for rows in by_config.values() for row in rows]
    rng.shuffle(rows)
    return by_config, spark.createDataFrame(rows, schema)


def levels_for(size, reach):
    level = 1
    while size**level - size ** (level - 1) <= reach:
        level += 1
    return level


def test_a_summary_is_plain_counting(results):
    """Sums, greatest, and percentiles of the merged histograms, equal to those of `tickwheel.metrics`."""
    by_config, frame = results
    rows = {Config(*(row[name] for name in choice.CONFIG)): row for row in summarize(frame).collect()}
    assert rows.keys() == by_config.keys()
    for config, shards in by_config.items():
        row = rows[config]
        assert row["shards"] == len(shards)
        for name in ("requests", "completed", "expired", "wakeups", "cascades", "purges", "purged"):
            assert row[name] == sum(shard[name] for shard in shards), name
        for name in ("peak_pending", "peak_watched", "lateness_max_ms"):
            assert row[name] == max(shard[name] for shard in shards), name
        assert row["peak_pending_sum"] == sum(shard["peak_pending"] for shard in shards)
        merged = [0] * SIZE
        for shard in shards:
            for bucket in shard["lateness"]:
                merged[index_of(bucket["upto_ns"])] += bucket["requests"]
        for name, q in (("lateness_p50_ms", 0.5), ("lateness_p99_ms", 0.99)):
            assert row[name] == percentile(merged, q, round(row["lateness_max_ms"] * MS)) / MS, name
        reach = -(-max(round(shard["timeout_max_ms"] * MS) for shard in shards) // config.tick_ns)
        buckets = levels_for(config.wheel_size, reach) * config.wheel_size
        ended = max(shard["peak_watched"] - shard["peak_pending"] for shard in shards)
        kept = 0 if config.purge_interval is None else ended
        assert row["memory_bytes"] == buckets * choice.BUCKET_BYTES + kept * choice.ENDED_BYTES
        cost = sum(
            shard["requests"] * choice.REQUEST_S
            + shard["wakeups"] * choice.WAKEUP_S
            + shard["cascades"] * choice.CASCADE_S
            + shard["purged"] * choice.PURGED_S
            + shard["purges"] * (choice.WAKEUP_S + shard["peak_pending"] * choice.PASSED_S)
            for shard in shards
        )
        assert row["cost_s"] == pytest.approx(cost, rel=1e-12)
        if row["requests"]:
            assert row["largest_shard"] == max(shard["requests"] for shard in shards) / row["requests"]
            assert row["cascades_per_request"] == row["cascades"] / row["requests"]
            cpu = sum(shard["cpu_s"] for shard in shards)
            assert row["cpu_ns_per_request"] == pytest.approx(cpu * 1e9 / row["requests"])


@pytest.mark.parametrize("like", [False, True])
@pytest.mark.parametrize("limit", [0.15, 2, 1e6])
def test_the_choice_follows_its_rule(results, limit, like):
    """Of those within the limit and 5 % of the least cost: the least memory, then the coarsest tick."""
    frame = results[1]
    if like:    # many cost the same
        frame = frame.withColumns({name: F.lit(0) for name in ("wakeups", "cascades", "purges", "purged")})
        frame = frame.withColumn("requests", F.lit(1000))
    rows = recommend(frame, limit).collect()
    assert len(rows) == len(results[0])
    meeting = [row for row in rows if row["lateness_p99_ms"] <= limit]
    assert len(meeting) > 1
    least = min(row["cost_s"] for row in meeting)
    best = min(
        (row for row in meeting if row["cost_s"] <= least * 1.05),
        key=lambda row: (row["memory_bytes"], -row["tick_ms"], row["wheel_size"]),
    )
    assert [row["recommended"] for row in rows] == [True] + [False] * (len(rows) - 1)
    assert rows[0] == best
    assert [row["meets"] for row in rows] == [True] * len(meeting) + [False] * (len(rows) - len(meeting))
    costs = [row["cost_s"] for row in rows[1 : len(meeting)]]
    assert costs == sorted(costs)
    for row in rows:
        assert row["cost_ratio"] == row["cost_s"] / best["cost_s"]


def test_nothing_meets_the_limit(results):
    """None is recommended, each says how late it is, and the least late is first."""
    rows = recommend(results[1].where("size(lateness) > 0"), 0).collect()
    assert not any(row["meets"] or row["recommended"] for row in rows)
    assert all(row["cost_ratio"] is None for row in rows)
    late = [row["lateness_p99_ms"] for row in rows]
    assert late == sorted(late)
    assert rows[0]["why"] == f"p99 lateness of {late[0]} ms is over 0 ms"


@pytest.mark.parametrize("limit", [-1, float("nan"), float("inf")])
def test_a_limit_is_checked(results, limit):
    """ValueError at once."""
    with pytest.raises(ValueError, match=rf"^max_p99_lateness_ms must be >= 0, got {limit}$"):
        recommend(results[1], limit)


def test_no_requests_at_all(spark, tmp_path):
    """A trace without requests has a summary and a choice, not a division by zero."""
    path = tmp_path / "empty.csv"
    path.write_text("arrival_ms,completion_ms\n")
    rows = recommend(replay_files(spark, [path], [(1, 20), (1, 64)], timeout=200), 5).collect()
    assert [(row["wheel_size"], row["recommended"], row["cost_ratio"]) for row in rows] == [
        (20, True, 1.0), (64, False, 1.0),
    ]


def test_the_trace_is_replayed_once(spark, tmp_path, capsys):
    """Summary and choice look at the results once: a second look would replay all of it again."""
    path = tmp_path / "trace.csv"
    path.write_text("arrival_ms,completion_ms\n1,2\n")
    recommend(replay_files(spark, [path], [Config()], timeout=1), 5).explain()
    assert capsys.readouterr().out.count("MapInArrow") == 1


def test_one_shard_with_most_of_the_rows_is_seen(spark):
    """`largest_shard` is the share of the requests that one task has to replay."""
    trace = pa.table({"shard": [0] * 90 + list(range(1, 11)), "arrival_ms": [float(i) for i in range(100)]})
    trace = trace.append_column("completion_ms", pa.nulls(100, pa.float64()))
    (row,) = summarize(replay(spark.createDataFrame(trace), [Config()], timeout=5)).collect()
    assert (row["shards"], row["largest_shard"]) == (11, 0.9)


@pytest.mark.parametrize("size", [2, 3, 20, 64])
@pytest.mark.parametrize("timeout", [1, 19, 20, 63, 64, 399, 400, 5000])
def test_the_levels_of_a_wheel_suffice(size, timeout):
    """The levels that memory is counted for are those that a timer needs in the worst case."""
    kernel = ReplayKernel(10, timeout * 10, size)
    arrivals = array("q", range(5, 40 * max(timeout, size), 7))
    kernel.feed(arrivals, array("q", [NEVER]) * len(arrivals))
    assert len(kernel._levels.levels) == levels_for(size, timeout)


# Each plants the one best choice: (workload, its timeout, the limit, what is best and why).
PLANTED = {
    # 20 ms are 20 ticks of 1 ms: a wheel of 20 overflows, a larger one than 64 is only larger.
    "short timeouts, a tight limit": ({"rate_per_s": 1e6, "never": 0.5}, 20, 1, (1, 64)),
    # Ticks of 100 ms wake up least; 300 of them overflow a wheel of 64, and all requests cascade.
    "long timeouts that expire, a loose limit": ({"rate_per_s": 2000, "never": 0.9}, 30_000, 100, (100, 512)),
    # What is cancelled early never cascades, so the smallest wheel is as cheap as any.
    "long timeouts, cancelled early": ({"rate_per_s": 2000, "never": 0.02}, 30_000, 1000, (1000, 20)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_best_is_found(spark, tmp_path, name):
    """Three workloads that want different timers: each gets the one that was planted."""
    workload, timeout, limit, best = PLANTED[name]
    for seed in (1, 2):
        write_trace(str(tmp_path / f"{seed}.csv"), generate(20_000, seed=seed, **workload))
    configs = [Config(tick, size) for tick in (1, 10, 100, 1000) for size in (20, 64, 512, 65536)]
    results = replay_files(spark, [tmp_path / "1.csv", tmp_path / "2.csv"], configs, timeout=timeout)
    rows = recommend(results, limit).collect()
    found = [(row["tick_ms"], row["wheel_size"]) for row in rows if row["recommended"]]
    assert found == [best], [(row["tick_ms"], row["wheel_size"], row["why"]) for row in rows]
    assert max(row["cost_ratio"] for row in rows if row["meets"]) > 1.05
