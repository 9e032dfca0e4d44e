"""The workload on a real Spark: the rows of the one-process command, lazily, in any number of partitions."""
import os
import re
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from time import sleep

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tickwheel.cli.__main__ import main
from tickwheel.spark.progress import job_progress
from tickwheel.spark.workload import generate_requests
from tickwheel.trace import Trace
from tickwheel.units import NEVER
from tickwheel.workload import BLOCK, generate

SHAPE = {"seed": 3, "rate_per_s": 2500.0, "p50_ms": 30.0, "p75_ms": 45.0, "never": 0.02}
MANY = 3 * BLOCK + 1234
HANG_S = 120        # guards against hanging, never decides what is right


def one_process(requests, **shape):
    return [
        (number, float(Decimal(arrival) / 10**6), None if end == NEVER else float(Decimal(end) / 10**6))
        for number, (arrival, end) in enumerate(generate(requests, **shape), 1)
    ]


def times(table):
    columns = (table.column(name).to_pylist() for name in ("request_id", "arrival_ms", "completion_ms"))
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("partitions", [None, 1, 2, 4, 7])
def test_the_rows_are_those_of_one_process(spark, partitions):
    """In order, whatever the partitions; a request's keys and shard too are its own."""
    table = generate_requests(spark, MANY, n_partitions=partitions, n_shards=5, **SHAPE).toArrow()
    assert times(table) == one_process(MANY, **SHAPE)
    again = generate_requests(spark, MANY, n_partitions=3, n_shards=5, **SHAPE).toArrow()
    assert table.equals(again)


def test_the_columns(spark):
    """Names and types; distinct keys below n_keys; shards of even size; every timeout the same."""
    frame = generate_requests(spark, 5000, n_keys=10, keys_per_request=4, n_shards=7, timeout_ms=12.5)
    assert frame.dtypes == [
        ("request_id", "bigint"), ("arrival_ms", "double"), ("completion_ms", "double"),
        ("timeout_ms", "double"), ("keys", "array<bigint>"), ("shard", "int"),
    ]
    table = frame.toArrow()
    assert set(table.column("timeout_ms").to_pylist()) == {12.5}
    keys = table.column("keys").to_pylist()
    assert all(len(set(some)) == 4 and set(some) <= set(range(10)) for some in keys)
    sizes = [pc.sum(pc.equal(table.column("shard"), shard)).as_py() for shard in range(7)]
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == 5000


def test_keys_and_shards_change_nothing_else(spark):
    """Nor does a longer workload change how it begins."""
    plain = generate_requests(spark, 4000, **SHAPE).toArrow()
    other = generate_requests(
        spark, BLOCK + 1, n_keys=7, keys_per_request=2, n_shards=1, timeout_ms=1, **SHAPE).toArrow()
    assert times(other)[:4000] == times(plain)
    longer = generate_requests(spark, BLOCK + 1, **SHAPE).toArrow()
    assert longer.slice(0, 4000).equals(plain)


def test_nothing_is_no_rows(spark):
    """A workload of 0 requests has its columns."""
    table = generate_requests(spark, 0).toArrow()
    assert table.num_rows == 0
    assert table.num_columns == 6


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": -1}, "requests must be >= 0, got -1"),
        ({"rate_per_s": 0}, "rate_per_s must be between 1e-6 and 1e9, got 0"),
        ({"p75_ms": 1}, "p75_ms must be >= the median (20 ms), got 1 ms"),
        ({"never": 2}, "never must be between 0 and 1, got 2"),
        ({"timeout_ms": -1}, "timeout_ms must be >= 0 ms, got -1 ms"),
        ({"timeout_ms": float("nan")}, "timeout_ms must be a number, got nan"),
        ({"keys_per_request": 0}, "keys_per_request must be between 1 and 1000, got 0"),
        ({"keys_per_request": 50_000}, "keys_per_request must be between 1 and 1000, got 50000"),
        ({"n_shards": 2.5}, "n_shards must be a whole number, got 2.5"),
        ({"n_partitions": 1.5}, "n_partitions must be a whole number, got 1.5"),
        ({"timeout_ms": 1e-7}, "timeout_ms must be a whole number of nanoseconds, got 1e-07"),
        ({"n_keys": 2}, "n_keys must be between keys_per_request (3) and 2**53, got 2"),
        ({"n_shards": 0}, "n_shards must be between 1 and 2147483647, got 0"),
        ({"n_partitions": 0}, "n_partitions must be >= 1, got 0"),
        ({"n": 10**6, "rate_per_s": 1e-6},
         "rate_per_s must be high enough for the times of 1000000 requests to fit in 64 bits, got 1e-06"),
    ],
)
def test_bad_arguments_are_refused_at_once(spark, parameters, message):
    """In the words of the one process, before any job."""
    with pytest.raises(ValueError, match=re.escape(message) + "$"):
        generate_requests(spark, **{"n": 10, **parameters})


def command(*argv, env=None):
    return subprocess.run(
        [sys.executable, "-m", "tickwheel.cli", *argv], capture_output=True, text=True, env=env, check=False
    )


@pytest.fixture
def started(tmp_path):
    """A command that makes a workload without end, and writes it."""
    endless = ["--requests", "2000000000", "--master", "local[2]"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tickwheel.cli", "generate", str(tmp_path / "out"), "--spark", *endless],
        stderr=subprocess.PIPE, text=True,
    )
    try:
        while not list(tmp_path.glob(".out.*.part/_temporary/**/*.parquet")):
            assert process.poll() is None, process.stderr.read()
            sleep(0.1)
        yield process
    finally:
        process.kill()      # one that has not ended by itself fills the disk
        process.wait()


def test_control_c_leaves_nothing_behind(started, tmp_path):
    """Neither a folder nor a word, though pyspark and py4j have much to say."""
    started.send_signal(signal.SIGINT)
    _, error = started.communicate(timeout=HANG_S)
    assert (started.returncode, error) == (130, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the JVM in /proc")
def test_a_java_process_that_dies_is_one_line(started, tmp_path):
    """Killed, say by a machine without memory: no trace of two languages, and no half a folder."""
    (java,) = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    os.kill(int(java), signal.SIGKILL)
    _, error = started.communicate(timeout=HANG_S)
    assert (started.returncode, error) == (2, "tickwheel: Spark's Java process has ended before its time\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["no/out"], "no/out: No such file or directory"),
        (["out", "--requests", "-1", "--master", "nowhere"], "--requests must be >= 0, got -1"),
        (["out", "--requests", "0", "--shards", "3"],
         "--shards must be 1 where there are no requests, got 3"),
        (["out", "--keys", "2"], "--keys must be between keys_per_request (3) and 2**53, got 2"),
        (["out", "--master", "nowhere"], "--master must be one that Spark starts on, got 'nowhere': "
                                        "Master must either be yarn or start with spark, k8s, or local"),
    ],
)
def test_bad_arguments_of_the_command_get_one_line(tmp_path, monkeypatch, argv, line):
    """In the words of the command line; nothing is left behind."""
    monkeypatch.chdir(tmp_path)
    done = command("generate", "--spark", "--master", "local[1]", *argv)
    assert (done.returncode, done.stderr) == (2, f"tickwheel: {line}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--master", "--timeout", "--keys", "--keys-per-request", "--shards"])
def test_options_of_spark_need_spark(tmp_path, option):
    """They would change nothing in the CSV file."""
    done = command("generate", str(tmp_path / "t.csv"), option, "1s" if option == "--timeout" else "1")
    assert (done.returncode, done.stderr) == (2, f"tickwheel: {option} must be given with --spark alone\n")


@pytest.mark.parametrize("variables", [{"PATH": "/nowhere"}, {"JAVA_HOME": "/nowhere"}])
def test_without_java_it_says_what_to_install(tmp_path, variables):
    """Before anything is started or written."""
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | variables
    done = command("generate", str(tmp_path / "out"), "--spark", env=environ)
    where = "install a JDK and put java on PATH or set JAVA_HOME"
    assert (done.returncode, done.stderr) == (
        2, f"tickwheel: generate --spark needs Java 17 or later: {where}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("module", ["pyspark", "numpy", "pandas", "pyarrow"])
def test_without_pyspark_it_says_what_to_install(tmp_path, monkeypatch, capsys, module):
    """Also where only a part of the extra is there."""
    for name in {module, *(name for name in sys.modules if name.startswith(f"{module}."))}:
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["generate", str(tmp_path / "out"), "--spark"]) == 2
    assert capsys.readouterr().err == (
        f"tickwheel: generate --spark needs {module}: pip install 'tickwheel[spark]'\n")
    assert list(tmp_path.iterdir()) == []


def test_progress_follows_the_tasks(spark):
    """Shares of the tasks that are done, never back, of all jobs of the block."""
    shown = []

    def slowly(batches):
        sleep(0.5)
        yield from batches

    with job_progress(spark, shown.append):
        for _ in range(2):
            spark.range(0, 8, 1, 8).mapInArrow(slowly, "id bigint").collect()
    assert len(set(shown)) > 2
    assert shown == sorted(shown)
    assert 0 <= shown[0] < shown[-1] <= 1


def read(path):
    """(arrival, completion) in nanoseconds."""
    return [
        request for chunk in Trace(str(path))
        for request in zip(chunk.arrivals, chunk.completions, strict=True)
    ]


def test_the_command_writes_what_the_one_process_command_writes(tmp_path):
    """A folder that is a trace, and nothing on the terminal or beside it."""
    out = tmp_path / "requests"
    shape = ["--requests", str(16 * BLOCK + 999), "--seed", "4", "--never", "0.1"]
    done = command("generate", str(out), "--spark", "--master", "local[2]", "--timeout", "1s", *shape)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["requests"]
    assert len(list(out.glob("part-*.parquet"))) == 2
    assert read(out) == list(generate(16 * BLOCK + 999, seed=4, never=0.1))
    (chunk, *_) = Trace(str(out), timeout="timeout_ms")
    assert set(chunk.timeouts) == {10**9}
    again = command("generate", str(out), "--spark")
    assert (again.returncode, again.stderr) == (
        2, f"tickwheel: OUT must be a folder that is not there yet, got '{out}'\n")


def test_shards_are_folders_that_ascend(tmp_path):
    """Each shard=K, read as a folder, is its requests in order of arrival: of all files that were written."""
    out = tmp_path / "out"
    count = 16 * BLOCK + 999
    done = command(
        "generate", str(out), "--spark", "--master", "local[2]", "--requests", str(count), "--shards", "3",
        "--keys", "50", "--keys-per-request", "2",
    )
    assert (done.returncode, done.stderr) == (0, "")
    everything = list(generate(count))
    for shard in range(3):
        folder = out / f"shard={shard}"
        assert len(list(folder.glob("*.parquet"))) == 2
        assert read(folder) == everything[shard::3]
        files = sorted(folder.glob("*.parquet"))
        ids = [number for file in files for number in pq.read_table(file)["request_id"].to_pylist()]
        assert ids == list(range(shard + 1, count + 1, 3))
        keys = pq.read_table(files[0])["keys"].to_pylist()
        assert all(len(pair) == 2 and max(pair) < 50 for pair in keys)
