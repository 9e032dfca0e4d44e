"""delayed_operations on a local Spark, in micro-batches."""

import pytest
from microbatches import DAY, Folder, at, counted, cut, playing, shuffled
from plain_loops import outcomes

from tickwheel.spark.streaming import _timeout_us, delayed_operations

DELAY_S = 4


@pytest.mark.parametrize("kind", ["string", "bigint"])
def test_outcomes_are_those_of_a_plain_loop(spark, tmp_path, rng, kind):
    """Completions before their requests, twice, at the deadline or late; requests twice, or again later."""
    ids = [f"operation {n}" for n in range(150)] if kind == "string" else list(range(-50, 100))
    requests, completions = [], []
    for id in ids:
        for start in rng.sample([100, 130, 160], rng.choice([1, 1, 2])):
            second = start + rng.choice([0, 0.000001, 0.5]) + rng.randrange(20)
            timeout_ms = rng.choice([0, 0.001, 250.0, 1500.5, 6000])
            requests.append({"id": id, "time": at(second), "timeout_ms": timeout_ms})
            if rng.random() < 0.2:
                requests.append(rng.choice([requests[-1], {**requests[-1], "time": at(second + 1)}]))
            for _ in range(rng.choice([0, 1, 1, 2])):
                after = rng.choice([-5, -4, -0.5, 0, 0.1, timeout_ms / 1000, timeout_ms / 1000 + 0.000001])
                completions.append({"id": id, "time": at(second + after)})
    request_files = Folder(tmp_path / "requests", f"id {kind}, time timestamp, timeout_ms double")
    completion_files = Folder(tmp_path / "completions", f"id {kind}, time timestamp")
    for batch in cut(shuffled(requests, DELAY_S, rng), 6):
        request_files.put(*batch)
    for batch in cut(shuffled(completions, DELAY_S, rng), 4):
        completion_files.put(*batch)
    request_files.put({"id": ids[0], "time": at(DAY), "timeout_ms": 0})
    completion_files.put({"id": ids[0], "time": at(DAY)})
    frame = delayed_operations(
        request_files.stream(spark, "time", DELAY_S),
        completion_files.stream(spark, "time", DELAY_S),
        "id", "time", "timeout_ms", n_shards=4,
    )
    with playing(frame) as played:
        assert counted(played.rows()) == counted(outcomes(requests, completions, DELAY_S))


def test_a_completion_waits_for_its_request_and_the_slower_stream_holds_back(spark, tmp_path):
    """What decides is the watermark of both: an outcome waits for the stream that is behind."""
    requests = Folder(tmp_path / "requests", "id string, time timestamp, patience interval day to second")
    completions = Folder(tmp_path / "completions", "id string, time timestamp")
    frame = delayed_operations(
        requests.stream(spark, "time", DELAY_S),
        completions.stream(spark, "time", DELAY_S),
        "id", "time", "patience",
    )
    with playing(frame) as played:
        completions.put({"id": "a", "time": at(101)}, {"id": "b", "time": at(103.000001)})
        completions.put({"id": "z", "time": at(200)})
        assert played.rows() == []
        requests.put(
            *(
                {"id": id, "time": at(100), "patience": "INTERVAL '0 00:00:03' DAY TO SECOND"}
                for id in ("a", "b", "c")
            )
        )
        assert played.rows() == []
        requests.put({"id": "z", "time": at(106.999), "patience": "INTERVAL '0 00:01:00' DAY TO SECOND"})
        assert [(row["id"], row["completed_at"]) for row in played.rows()] == [("a", at(101))]
        requests.put({"id": "y", "time": at(107), "patience": "INTERVAL '0 00:01:00' DAY TO SECOND"})
        decided = {row["id"]: (row["outcome"], row["deadline"]) for row in played.rows()}
        assert decided == {"a": ("completed", at(103)), "b": ("expired", at(103)), "c": ("expired", at(103))}


def test_a_day_is_24_hours_in_every_time_zone(spark, tmp_path):
    """An interval is a length of time: a clock that is changed in between does not shorten it. And a dot in a
    name is no field."""
    columns = "`the.id` string, time timestamp"
    requests = Folder(tmp_path / "requests", f"{columns}, patience interval day to second")
    completions = Folder(tmp_path / "completions", columns)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = delayed_operations(
            requests.stream(spark, "time", DELAY_S),
            completions.stream(spark, "time", DELAY_S),
            "the.id", "time", "patience",
        )
        with playing(frame) as played:
            patience = "INTERVAL '200 01:02:03.000004' DAY TO SECOND"
            requests.put({"the.id": "a", "time": at(100), "patience": patience})
            late = {"the.id": "z", "time": at(400 * DAY)}
            requests.put({**late, "patience": patience})
            completions.put(late)
            (row,) = (row for row in played.rows() if row["the.id"] == "a")
        assert (row["outcome"], row["deadline"]) == ("expired", at(100 + 200 * DAY + 3723.000004))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.parametrize(
    ("interval", "us"),
    [
        ("'1 02:03:04.000001' DAY TO SECOND", 93_784_000_001),
        ("'5' SECOND", 5_000_000),
        ("'90' MINUTE", 5_400_000_000),
        ("'1:30' MINUTE TO SECOND", 90_000_000),
        ("'5' DAY", 432_000_000_000),
    ],
)
def test_a_timeout_may_be_an_interval_of_any_parts(spark, interval, us):
    """Each is a type of its own."""
    requests = spark.sql(f"SELECT INTERVAL {interval} AS patience")
    assert requests.select(_timeout_us(requests, "patience")).first()[0] == us
