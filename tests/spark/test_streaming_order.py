"""in_order and dedup_within on a local Spark, in micro-batches."""

from itertools import groupby
from operator import itemgetter

import pytest
from microbatches import Folder, at, cut, kept, playing, shuffled

from tickwheel.spark.streaming import dedup_within, in_order

PAYLOAD = (
    "key string, at_us bigint, shard double, nested struct<list: array<int>, deep: struct<text: string>>,"
    " tags map<string, int>"
)


def payload(rng, number):
    """A row's other columns: named as the shards name theirs, nested, with nulls at all depths."""
    nested = {"list": [rng.randrange(9), None][: rng.randrange(3)], "deep": {"text": rng.choice(["t", None])}}
    return {
        "key": rng.choice([None, "key"]),
        "at_us": number,
        "shard": rng.choice([None, 0.5]),
        "nested": rng.choice([None, nested, {"list": None, "deep": None}]),
        "tags": rng.choice([None, {}, {"tag": rng.randrange(9)}]),
    }


@pytest.mark.parametrize("kind", ["string", "int"])
def test_each_row_comes_once_numbered_in_the_order_of_its_key(spark, tmp_path, rng, kind):
    """1, 2, 3 ... along the event time, whatever the order inside the watermark, for any payload."""
    names = [f"name {n}" for n in range(12)] if kind == "string" else list(range(-4, 8))
    rows = [
        {"name": rng.choice(names), "time": at(100 + rng.randrange(240) / 4), **payload(rng, number)}
        for number in range(400)
    ]
    folder = Folder(tmp_path / "in", f"name {kind}, time timestamp, {PAYLOAD}")
    for batch in cut(shuffled(rows, 7, rng), 6):
        folder.put(*batch)
    folder.put({"name": names[0], "time": at(1000)})
    with playing(in_order(folder.stream(spark, "time", 7), "name", "time", n_shards=3)) as played:
        given = played.rows()
    for row in given:
        row["tags"] = None if row["tags"] is None else dict(row["tags"])
    ordered = sorted(rows, key=itemgetter("name", "time", "at_us"))
    expected = [
        (name, row["time"], number)
        for name, group in groupby(ordered, key=itemgetter("name"))
        for number, row in enumerate(group, 1)
    ]
    assert sorted((row["name"], row["time"], row["sequence"]) for row in given) == expected
    for name in names:
        numbers = [row["sequence"] for row in given if row["name"] == name]
        assert numbers == sorted(numbers)
    for row in given:
        del row["sequence"]
    assert sorted(given, key=itemgetter("at_us")) == rows


def test_numbers_go_on_after_a_key_was_silent(spark, tmp_path):
    """A key's last number is kept for good, and rows of one instant stand in the order of their columns."""
    folder = Folder(tmp_path / "in", "name string, time timestamp, text string")
    with playing(in_order(folder.stream(spark, "time", 1), "name", "time")) as played:
        folder.put(*({"name": "a", "time": at(100), "text": text} for text in ("z", "x", "y")))
        folder.put({"name": "b", "time": at(200)})
        assert [(row["text"], row["sequence"]) for row in played.rows()] == [("x", 1), ("y", 2), ("z", 3)]
        folder.put({"name": "a", "time": at(300), "text": "w"}, {"name": "b", "time": at(500)})
        folder.put({"name": "b", "time": at(600)})
        later = {(row["name"], row["time"], row["sequence"]) for row in played.rows()[3:]}
        assert later == {("b", at(200), 1), ("a", at(300), 4), ("b", at(500), 2)}


def test_a_restart_in_another_time_zone_goes_on(spark, tmp_path):
    """Instants are the same in every zone: what waits in the state is neither moved nor refused."""
    folder = Folder(tmp_path / "in", "name string, time timestamp")
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone, times in (("UTC", [101, 100, 103]), ("Europe/Berlin", [102, 200]), ("Asia/Tokyo", [300])):
            spark.conf.set("spark.sql.session.timeZone", zone)
            folder.put(*({"name": "a", "time": at(time)} for time in times))
            with kept(in_order(folder.stream(spark, "time", 10), "name", "time"), tmp_path) as query:
                query.processAllAvailable()
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        given = spark.read.parquet(str(tmp_path / "out")).toArrow().to_pylist()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert sorted((row["sequence"], row["time"]) for row in given) == [
        (1, at(100)), (2, at(101)), (3, at(102)), (4, at(103)), (5, at(200))
    ]


def test_repeats_within_are_dropped(spark, tmp_path, rng):
    """Of rows that come again, however they are mixed up, one of each; later ones of their key stay."""
    events = [{"name": f"name {n % 20}", "number": n, "time": at(100 + n / 4)} for n in range(200)]
    rows = [event for event in events for _ in range(rng.choice([1, 2, 3]))]
    folder = Folder(tmp_path / "in", "name string, number bigint, time timestamp")
    for batch in cut(shuffled(rows, 2.4, rng), 5):
        folder.put(*batch)
    with playing(dedup_within(folder.stream(spark), ["name", "number"], "time", within=2.4)) as played:
        given = played.rows()
        assert sorted(given, key=itemgetter("number")) == events
        folder.put({**events[0], "time": at(500)}, {**events[-1], "time": at(149)})
        assert played.rows()[len(given) :] == [{**events[0], "time": at(500)}]
