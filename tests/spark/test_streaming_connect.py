"""The same calls over Spark Connect, in a process of its own: classic sessions and Connect do not mix."""

import json
import os
import subprocess
import sys
from pathlib import Path

from conftest import SETTINGS

import tickwheel
from tickwheel.spark import Config, generate_requests, replay

CONFIG = Config(tick_ms=10, wheel_size=20)
STORY = """
import json
import sys
from pathlib import Path

from microbatches import Folder, at, playing
from pyspark.sql import SparkSession
from tickwheel.spark import Config, detect_idle, generate_requests, replay

place, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
spark = SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()
said = {"session": type(spark).__module__}
trace = generate_requests(spark, 100_000, n_shards=4)
results = replay(trace, [Config(tick_ms=10, wheel_size=20)]).select("shard", "expired", "cascades")
said["replay"] = [tuple(row) for row in results.orderBy("shard").collect()]
folder = Folder(place / "in", "client string, time timestamp")
clicks = [("a", 100), ("b", 101), ("a", 104.5)]
folder.put(*({"client": client, "time": at(second)} for client, second in clicks))
folder.put({"client": "c", "time": at(120)})
with playing(detect_idle(folder.stream(spark, "time", 1), "client", "time", 5)) as played:
    said["idle"] = sorted((row["client"], row["idle_at"].timestamp()) for row in played.rows())
spark.stop()
(place / "said").write_text(json.dumps(said))
"""


def test_streams_generation_and_replay_over_connect(spark, tmp_path):
    """Nothing of the JVM's is touched by name; a frame's watermark is known to it there too."""
    here = Path(__file__).parent
    roots = [str(Path(tickwheel.__file__).parents[1]), str(here), os.environ.get("PYTHONPATH")]
    path = os.pathsep.join(filter(None, roots))
    ran = subprocess.run(
        [sys.executable, "-c", STORY, tmp_path, json.dumps(SETTINGS)],
        env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert ran.returncode == 0, ran.stderr
    said = json.loads((tmp_path / "said").read_text())
    assert said["session"].startswith("pyspark.sql.connect.")
    assert said["idle"] == [["a", 109.5], ["b", 106]]
    results = replay(generate_requests(spark, 100_000, n_shards=4), [CONFIG])
    assert said["replay"] == [
        list(row) for row in results.select("shard", "expired", "cascades").orderBy("shard").collect()
    ]
