"""detect_idle on a local Spark, in micro-batches."""

import pytest
from microbatches import Folder, at, counted, cut, playing, shuffled
from plain_loops import idle_spells
from pyspark.sql import functions as F

from tickwheel.spark.streaming import detect_idle

N_SHARDS = 4


def clients_in(spark, *shards):
    """A client that lives in each of the shards, so that a test can choose where rows go."""
    clients = spark.range(60).select(F.concat(F.lit("client "), "id").alias("client"))
    homes = clients.select("client", F.pmod(F.xxhash64("client"), F.lit(N_SHARDS)).alias("shard")).collect()
    return [next(row.client for row in homes if row.shard == shard) for shard in shards]


@pytest.fixture
def events(tmp_path):
    return Folder(tmp_path / "in", "client string, time timestamp")


@pytest.mark.parametrize("method", ["wheel", "session"])
@pytest.mark.parametrize("kind", ["string", "bigint"])
def test_idle_spells_are_those_of_a_plain_loop(spark, tmp_path, rng, kind, method):
    """Whatever the order inside the watermark and the batches; a gap of exactly the timeout separates."""
    clients = [f"client {n}" for n in range(25)] if kind == "string" else list(range(-5, 20))
    parts = [0, 0.000001, 0.25, 0.5, 0.999999]
    seconds = [100 + rng.choice(parts) + rng.randrange(120) for _ in range(600)]
    rows = [{"client": rng.choice(clients), "time": at(second)} for second in seconds]
    events = Folder(tmp_path / "in", f"client {kind}, time timestamp")
    for batch in cut(shuffled(rows, 7, rng), 6):
        events.put(*batch)
    events.put({"client": clients[0], "time": at(1000)})
    frame = detect_idle(events.stream(spark, "time", 7), "client", "time", 5, N_SHARDS, method)
    with playing(frame) as played:
        assert counted(played.rows()) == counted(idle_spells(rows, 5))


def test_the_timer_of_a_shard_fires_while_rows_come_for_others_only(spark, events):
    """A shard's outcome comes when the watermark passes it, though no row wakes the shard."""
    quiet, busy = clients_in(spark, 1, 2)
    frame = detect_idle(events.stream(spark, "time", 1), "client", "time", 10, N_SHARDS)
    with playing(frame) as played:
        events.put({"client": quiet, "time": at(100)}, {"client": busy, "time": at(101)})
        assert played.rows() == []
        events.put({"client": busy, "time": at(110.5)})
        assert played.rows() == []
        events.put({"client": busy, "time": at(112)})
        assert [row["client"] for row in played.rows()] == [quiet]
        events.put({"client": busy, "time": at(200)})
        assert [row["client"] for row in played.rows()] == [quiet, busy]


def test_a_row_behind_the_watermark_is_left_out(spark, events):
    """In a shard that has decided, in one that nothing has happened to for long, and in a new one."""
    decided, waiting, new = clients_in(spark, 1, 2, 3)
    frame = detect_idle(events.stream(spark, "time", 1), "client", "time", 10, N_SHARDS)
    with playing(frame) as played:
        events.put({"client": decided, "time": at(100)}, {"client": waiting, "time": at(195)})
        events.put({"client": decided, "time": at(200)})
        assert [row["last_seen"] for row in played.rows()] == [at(100)]
        events.put(*({"client": client, "time": at(150)} for client in (decided, waiting, new)))
        events.put(*({"client": client, "time": at(199.000001)} for client in (decided, waiting, new)))
        events.put({"client": decided, "time": at(300)})
        assert sorted((row["first_seen"], row["last_seen"]) for row in played.rows()[1:]) == [
            (at(195), at(199.000001)),
            (at(199.000001), at(199.000001)),
            (at(199.000001), at(200)),
        ]


def test_instants_before_the_epoch_and_empty_batches(spark, events):
    """Spark's watermark begins at the epoch: rows before it wait for it, and are then as any others."""
    frame = detect_idle(events.stream(spark, "time", 1), "client", "time", 10, N_SHARDS)
    rows = [{"client": client, "time": at(s)} for client in "abc" for s in (-100.5, -95, -3, 0.5, 0.5)]
    with playing(frame) as played:
        events.put()
        events.put(*rows[::-1])
        events.put()
        assert played.rows() == []
        events.put({"client": "d", "time": at(60)})
        events.put()
        assert counted(played.rows()) == counted(idle_spells(rows, 10))
