"""What-if replays on Spark equal the one-process replay, field by field, and plain counting in SQL."""
import csv
import gzip
import os
import random
import re
from array import array
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from tickwheel._reference.histogram import upper_edge
from tickwheel.replay import replay as one_process
from tickwheel.spark.whatif import COUNTS, Config, replay, replay_files
from tickwheel.spark.workload import generate_requests
from tickwheel.trace import Chunk, Trace, TraceError
from tickwheel.units import NEVER
from tickwheel.workload import generate

TRACES = Path(os.environ.get("TICKWHEEL_TRACES", Path(__file__).parents[3] / "shared" / "traces"))
SPANS = TRACES / "nezha-online-boutique" / "spans.csv.gz"
MS = 10**6
CONFIGS = [
    Config(tick_ms=1, wheel_size=2),
    Config(tick_ms=1, wheel_size=512),
    Config(tick_ms=1, wheel_size=20, purge_interval=0),
    Config(tick_ms=2.5, wheel_size=20, purge_interval=100),
    Config(tick_ms=0.1, wheel_size=64),
    Config(tick_ms=1000, wheel_size=4096),
]


@pytest.fixture
def conf(spark):
    """Sets options of the session for one test."""
    before = {}

    def set_conf(name, value):
        before.setdefault(name, spark.conf.get(name))
        spark.conf.set(name, value)

    yield set_conf
    for name, value in before.items():
        spark.conf.set(name, value)


def by_shard(requests):
    shards = defaultdict(list)
    for shard, *request in requests:
        shards[shard].append(request)
    return shards


def requests_of(count, seed, *, hot=0.4):
    """Rows (shard, arrival, completion or None, timeout), in ns; the share `hot` of them in shard 0."""
    rng = random.Random(seed)
    return [
        (
            0 if rng.random() < hot else rng.randrange(1, 5),
            arrival,
            None if completion == NEVER else completion,
            rng.choice([0, 5, 50, 200, 200, 5000]) * MS + rng.choice([0, 0, 123, 999_999]),
        )
        for arrival, completion in generate(count, seed=seed, rate_per_s=5000, never=0.2)
    ]


def table_of(requests, scale=MS):
    """The columns that `generate_requests` makes, in an order that is not the arrivals'."""
    shuffled = random.Random(7).sample(requests, len(requests))
    shards, arrivals, completions, timeouts = zip(*shuffled, strict=True)
    return pa.table({
        "shard": pa.array(shards, pa.int32()),
        "arrival_ms": [arrival / scale for arrival in arrivals],
        "completion_ms": [None if completion is None else completion / scale for completion in completions],
        "timeout_ms": [timeout / scale for timeout in timeouts],
    })


def replayed(requests, config, timeout_ns=None):
    """One shard through the one-process replay: rows (arrival, completion, timeout)."""
    arrivals, completions, timeouts = zip(*sorted(requests, key=lambda row: row[0]), strict=True)
    chunk = Chunk(
        arrivals=array("q", arrivals),
        completions=array("q", [NEVER if end is None else end for end in completions]),
        labels=range(len(arrivals)),
        timeouts=array("q", timeouts) if timeout_ns is None else None,
    )
    return played([chunk], config, timeout_ns)


def expectation(requests, timeout_ns=None):
    """{(shard, config): ReplayResult} of each shard's requests."""
    shards = by_shard(requests).items()
    return {(name, config): replayed(rows, config, timeout_ns) for name, rows in shards for config in CONFIGS}


def played(chunks, config, timeout_ns):
    return one_process(
        chunks,
        tick_ns=config.tick_ns,
        timeout_ns=timeout_ns,
        wheel_size=config.wheel_size,
        purge_interval=config.purge_interval,
    )


def check(rows, expected):
    """`rows` of a result hold just what `expected` does: {(shard, config): ReplayResult}."""
    found = {
        (row["shard"], Config(row["tick_ms"], row["wheel_size"], row["purge_interval"])): row for row in rows
    }
    assert len(found) == len(rows) and found.keys() == expected.keys()
    for key, result in expected.items():
        row = found[key].asDict(recursive=True)
        for name in COUNTS:
            assert row[name] == getattr(result, name), (key, name)
        for name in ("lateness_p50", "lateness_p99", "lateness_max"):
            assert row[f"{name}_ms"] == getattr(result, f"{name}_ns") / MS, (key, name)
        counts = {upper_edge(i): count for i, count in enumerate(result.lateness_counts) if count}
        assert {bucket["upto_ns"]: bucket["requests"] for bucket in row["lateness"]} == counts, key
        curve = [
            {"at_ms": (result.pending_start_ns + i * result.pending_width_ns) / MS, "peak": peak}
            for i, peak in enumerate(result.pending_peaks)
        ]
        assert row["pending"] == curve, key
        assert row["cpu_s"] > 0


@pytest.fixture(scope="module")
def generated():
    """Requests in five shards, and what the one-process replay makes of each."""
    requests = requests_of(6000, seed=5)
    return requests, expectation(requests)


@pytest.mark.parametrize(
    ("partitions", "batch", "adaptive"), [(1, 10_000, False), (2, 17, True), (3, 1, False), (7, 1000, True)]
)
def test_each_field_is_the_one_process_replays(spark, conf, generated, partitions, batch, adaptive):
    """Shard by shard, each count is that of `tickwheel replay`, however Spark cuts the rows."""
    conf("spark.sql.shuffle.partitions", str(partitions))
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", str(batch))
    conf("spark.sql.adaptive.enabled", str(adaptive).lower())
    requests, expected = generated
    trace = spark.createDataFrame(table_of(requests)).repartition(partitions)
    check(replay(trace, CONFIGS).collect(), expected)


@pytest.mark.parametrize(("kind", "unit"), [("double", "ms"), ("decimal(20,6)", "ms"), ("bigint", "ns")])
def test_columns_may_be_any_kind_of_number(spark, generated, kind, unit):
    """Times as doubles, decimals or whole nanoseconds are the same times."""
    requests, expected = generated
    trace = spark.createDataFrame(table_of(requests, MS if unit == "ms" else 1))
    names = {"arrival_ms": "from", "completion_ms": "to.dot", "timeout_ms": "within"}
    trace = trace.select("shard", *(F.col(old).cast(kind).alias(new) for old, new in names.items()))
    arrival, completion, timeout = names.values()
    results = replay(trace, CONFIGS[:2], arrival=arrival, completion=completion, timeout=timeout, unit=unit)
    check(results.collect(), {key: result for key, result in expected.items() if key[1] in CONFIGS[:2]})


@pytest.fixture
def spans():
    """(service, start, end) of each of the real spans."""
    if not SPANS.exists():
        pytest.skip(f"the real trace is not here: {SPANS}")
    with gzip.open(SPANS, "rt") as file:
        return [(row["service"], int(row["start_ns"]), int(row["end_ns"])) for row in csv.DictReader(file)]


def test_the_nezha_spans_by_service(spark, spans):
    """Real spans, a shard a service, one timeout for all, equal the one-process replay of each service."""
    schema = "trace_id string, span_id string, parent_id string, service string, operation string, " \
        "start_ns bigint, end_ns bigint"
    trace = spark.read.csv(str(SPANS), header=True, schema=schema)
    results = replay(trace, CONFIGS, shard="service", arrival="start_ns", completion="end_ns", timeout=50)
    check(results.collect(), expectation([(*span, 0) for span in spans], 50 * MS))


@pytest.mark.usefixtures("spans")
def test_the_nezha_spans_as_a_file(spark):
    """`replay_files` reads what the one-process replay reads: gzip, a `where`, a unit in the name."""
    options = {"arrival": "start_ns", "completion": "end_ns", "where": [("parent_id", "")]}
    results = replay_files(spark, [SPANS], CONFIGS, timeout=1000, **options)
    check(results.collect(), {
        (str(SPANS), config): played(Trace(str(SPANS), **options), config, 1000 * MS) for config in CONFIGS
    })


def completed_in_sql(trace, config):
    """An oracle that knows of no wheel: {shard: completed}, in whole nanoseconds of Spark SQL."""
    tick = config.tick_ns
    arrival, completion, timeout = (
        f"CAST(ROUND({name}_ms * 1000000) AS BIGINT)" for name in ("arrival", "completion", "timeout")
    )
    fire = f"({arrival} + {timeout} + {tick - 1}) DIV {tick} * {tick}"
    counted = trace.groupBy("shard").agg(F.expr(f"COUNT_IF({completion} <= {fire})").alias("completed"))
    return {row["shard"]: row["completed"] for row in counted.collect()}


def test_completions_equal_an_sql_oracle(spark, generated):
    """Of each configuration, as many complete as do so by their deadline rounded up to a tick."""
    trace = spark.createDataFrame(table_of(generated[0])).cache()
    rows = replay(trace, CONFIGS).collect()
    for config in CONFIGS:
        found = {row["shard"]: row["completed"] for row in rows
                 if (row["tick_ms"], row["wheel_size"]) == (config.tick_ms, config.wheel_size)}
        assert found == completed_in_sql(trace, config)
        assert 0 < sum(found.values()) < len(generated[0])
    trace.unpersist()


def test_a_folder_of_shards(spark, generated, tmp_path):
    """A folder with `shard=K` folders, each of several files, is replayed as its rows are."""
    requests, expected = generated
    trace = spark.createDataFrame(table_of(requests))
    folder = str(tmp_path / "trace")
    ordered = trace.repartitionByRange(3, "arrival_ms").sortWithinPartitions("shard", "arrival_ms")
    ordered.write.partitionBy("shard").parquet(folder)
    assert len(list((tmp_path / "trace" / "shard=0").glob("*.parquet"))) == 3
    rows = replay_files(spark, [folder], CONFIGS).collect()
    check(rows, {(str(shard), config): result for (shard, config), result in expected.items()})


def test_one_shard_with_most_of_the_rows(spark):
    """90 % of the rows in one shard: one task does them, and does them right."""
    requests = requests_of(3000, seed=9, hot=0.9)
    check(replay(spark.createDataFrame(table_of(requests)), CONFIGS).collect(), expectation(requests))
    assert len(by_shard(requests)[0]) > 0.85 * len(requests)


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ("3, NULL, 5D, 1D", "shard 3, row 1: arrival_ms is missing"),
        (
            "3, 3.5D, 3D, 1D",
            "shard 3, row 5: completion_ms must not be before arrival_ms, got '3.0' before '3.5'",
        ),
        ("3, 3.5D, 5D, -1D", "shard 3, row 5: timeout_ms must be >= 0, got '-1.0'"),
        ("3, 3.5D, 5D, NULL", "shard 3, row 5: timeout_ms is missing"),
        ("3, 3.5D, 5D, DOUBLE('nan')", "shard 3, row 5: timeout_ms must be a number, got 'nan'"),
        ("NULL, 4D, 5D, 1D", "shard null, row 1: shard must not be null"),
        (
            "3, 1e13D, NULL, 1D",
            "shard 3, row 7: arrival_ms must fit in 64 bits as nanoseconds, got '10000000000000.0'",
        ),
    ],
)
def test_a_bad_row_fails_the_job_with_its_line(spark, conf, row, line):
    """A row that breaks a rule ends the job with one line: shard, row, rule and value."""
    conf("spark.sql.execution.arrow.maxRecordsPerBatch", "2")
    good = "SELECT 3, id + 0D, id + 9D, 2D FROM RANGE(6)"
    trace = spark.sql(
        f"SELECT * FROM (SELECT {row} UNION ALL {good}) AS t(shard, arrival_ms, completion_ms, timeout_ms)"
    )
    with pytest.raises(Exception, match="TraceError") as failure:
        replay(trace, CONFIGS).collect()
    assert f"tickwheel.trace.TraceError: {line}" in str(failure.value).splitlines()


def test_a_bad_file_fails_the_job_with_its_line(spark, tmp_path):
    """A row that goes back ends the job with the line of the one-process command."""
    path = tmp_path / "back.csv"
    path.write_text("arrival_ms,completion_ms\n2,3\n1,3\n")
    with pytest.raises(Exception, match="TraceError") as failure:
        replay_files(spark, [path], CONFIGS, timeout=1).collect()
    with pytest.raises(TraceError) as known:
        list(Trace(str(path)))
    assert f"tickwheel.trace.TraceError: {known.value}" in str(failure.value).splitlines()
    line = rf"TraceError: {path}: no column 'start_ms'; the columns are arrival_ms, completion_ms$"
    with pytest.raises(Exception, match=line):
        replay_files(spark, [path], CONFIGS, arrival="start_ms", timeout=1).collect()


def test_a_file_that_goes_away(spark, tmp_path):
    """A file that is no longer there when its task comes: one line."""
    path = tmp_path / "gone.csv"
    path.write_text("arrival_ms,completion_ms\n2,3\n")
    results = replay_files(spark, [path], CONFIGS, timeout=1)
    path.unlink()
    with pytest.raises(Exception, match=rf"TraceError: {path}: No such file or directory$"):
        results.collect()


COLUMNS = "its columns are shard, arrival_ms, completion_ms, s"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"arrival": "x_ms"}, f"the trace has no column 'x_ms'; {COLUMNS}"),
        ({"shard": "host"}, f"the trace has no column 'host'; {COLUMNS}"),
        ({"arrival": "s"}, "s must be a column of numbers, got string"),
        ({"arrival": "shard"}, "unit must be given unless a column ends in it, as _ms does, got 'shard'"),
        ({"timeout": 0}, "timeout must be > 0 ms, got 0"),
        ({"timeout": float("nan")}, "timeout must be a number, got nan"),
        ({"configs": []}, "configs must be from 1 to 1000, got 0"),
        ({"configs": [(1,)] * 1001}, "configs must be from 1 to 1000, got 1001"),
        (
            {"configs": [(1, 20), Config(1.0, 20)]},
            "configs must differ from one another, "
            "got Config(tick_ms=1, wheel_size=20, purge_interval=None) more than once",
        ),
    ],
)
def test_bad_arguments_are_refused_at_once(spark, arguments, line):
    """No job starts: a ValueError that names the argument or column, the rule and the value."""
    schema = "shard int, arrival_ms double, completion_ms double, s string"
    trace = spark.createDataFrame([(1, 2.0, 3.0, "x")], schema)
    configs = arguments.pop("configs", CONFIGS)
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        replay(trace, configs, **({"timeout": 5} | arguments))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((0,), "tick_ms must be > 0, got 0"),
        ((float("inf"),), "tick_ms must be a number, got inf"),
        (("1",), "tick_ms must be a number, got '1'"),
        ((1e-7,), "tick_ms must be a whole number of nanoseconds, got 1e-07"),
        ((1, 1), "wheel_size must be a whole number from 2 to 268435456, got 1"),
        ((1, 20.0), "wheel_size must be a whole number from 2 to 268435456, got 20.0"),
        ((1, 2, -1), "purge_interval must be None or a whole number >= 0, got -1"),
    ],
)
def test_a_configuration_is_checked(arguments, line):
    """A ValueError names the argument, the rule and the value."""
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        Config(*arguments)


def test_the_shards_of_paths(spark, tmp_path):
    """Those of one folder are called K, others as their paths; nothing is lost or read twice."""
    for name in ("a/shard=x%20y", "a/shard=2", "b/shard=2"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "part-0.csv").write_text("arrival_ms,completion_ms\n1,2\n")
    (tmp_path / "a" / "_SUCCESS").touch()
    file = tmp_path / "a" / "shard=2" / "part-0.csv"

    def names(*paths):
        rows = replay_files(spark, paths, [Config()], timeout=1).collect()
        return sorted(row["shard"] for row in rows)

    assert names(tmp_path / "a") == ["2", "x y"]
    assert names(tmp_path / "b", file) == [str(file), str(tmp_path / "b" / "shard=2")]
    with pytest.raises(ValueError, match=r"^paths must name one file or folder at least$"):
        names()
    with pytest.raises(ValueError, match=r"^paths must differ from one another, got .*csv more than once$"):
        names(file, f"{tmp_path}/b/../a/shard=2/part-0.csv")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        names(tmp_path / "nowhere")
    (tmp_path / "b" / "more.csv").touch()
    with pytest.raises(TraceError, match=r"/b: a folder of shards must hold nothing else, got 'more\.csv'$"):
        names(tmp_path / "b")
    (tmp_path / "a" / "shard=__HIVE_DEFAULT_PARTITION__").mkdir()
    with pytest.raises(TraceError, match=r"/a: shard must not be null, got folder"):
        names(tmp_path / "a")


@pytest.mark.parametrize("count", [100_000, pytest.param(10_000_000, marks=pytest.mark.soak)])
def test_a_generated_workload(spark, tmp_path, count):
    """Eight shards, 12 configurations: every field is the one-process replay's, completions the oracle's."""
    folder = str(tmp_path / "trace")
    frame = generate_requests(spark, count, never=0.1, timeout_ms=62.5, n_shards=8)
    frame.write.partitionBy("shard").parquet(folder)
    configs = [Config(tick, size) for tick in (1, 10, 100) for size in (20, 64, 256, 512)]
    rows = replay_files(spark, [folder], configs).collect()
    check(rows, {
        (str(shard), config): played(Trace(f"{folder}/shard={shard}", timeout="timeout_ms"), config, None)
        for shard in range(8)
        for config in configs
    })
    trace = spark.read.parquet(folder)
    for tick in (1, 10, 100):
        oracle = completed_in_sql(trace, Config(tick))
        found = [(int(row["shard"]), row["completed"]) for row in rows if row["tick_ms"] == tick]
        assert sorted(found) == sorted(4 * list(oracle.items()))


def test_a_shard_may_be_an_instant(spark):
    """As anything that Spark can group by."""
    trace = spark.sql("SELECT timestamp'2020-01-01' AS shard, 1 AS arrival_ms, 2 AS completion_ms")
    (row,) = replay(trace, [Config()], timeout=5).collect()
    (wanted,) = trace.collect()
    assert (row["shard"], row["completed"]) == (wanted["shard"], 1)
