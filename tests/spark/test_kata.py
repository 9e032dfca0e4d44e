"""The kata's stream on a real Spark: row by row the outcome of the pipeline; the command that compares."""
import json

import pytest
from pyspark.sql import SparkSession

from tickwheel.bench.kata import in_process, on_spark
from tickwheel.bench.kata.outcome import OUTCOME, Check, Played, check, compared, difference
from tickwheel.bench.kata.stream import deliveries
from tickwheel.cli.__main__ import main

RIGHT = Check(violations=0, repeated=0, lost=0, unknown=0)
STREAM = ("--rate", "60", "--for", "25s", "--clients", "20", "--duplicates", "0.3")


def to_one(due, share):
    """A hot client: that many of the others' events are its own."""
    most = max(delivery.client_id for delivery in due)
    return [
        delivery._replace(client_id=0) if delivery.client_id < share * most else delivery for delivery in due
    ]


@pytest.mark.parametrize(("stream", "hot"), [
    ({"rate": 50, "duration_s": 40, "clients": 30, "duplicates": 0.3}, 0.0),
    ({"rate": 100, "duration_s": 25, "clients": 30, "duplicates": 0.3}, 0.8),
    ({"rate": 500, "duration_s": 5, "clients": 1, "duplicates": 0.05}, 0.0),
    ({"rate": 40, "duration_s": 30, "clients": 5000, "duplicates": 0.0}, 0.0),
    ({"rate": 1, "duration_s": 1e-6}, 0.0),
], ids=["30 % again", "a hot client", "one client, a short stream", "many clients", "no deliveries"])
def test_the_outcomes_agree(spark, tmp_path, rng, stream, hot):
    """Each event once, 1, 2, 3 ... in the order of creation within its client, on Spark as in one process."""
    due = deliveries(**stream, seed=rng.randrange(2**32))
    due = to_one(due, hot) if hot else due
    local = in_process.play(due)
    parallel = on_spark.play(due, spark, str(tmp_path), batch_rows=500)
    assert parallel.outcome.schema == OUTCOME
    assert check(parallel.outcome, due) == RIGHT
    assert compared(due, {"one process": local, "Spark": parallel}).problems == []


def test_their_order_inside_the_watermark_is_nothing(spark, tmp_path, rng):
    """A second is left between what comes again and the window: by so much deliveries may be mixed up."""
    due = deliveries(rate=60, duration_s=30, clients=8, duplicates=0.3, seed=rng.randrange(2**32))
    shuffled = sorted(due, key=lambda delivery: delivery.delivered_s + rng.uniform(0, 0.9))
    assert shuffled != due
    played = on_spark.play(shuffled, spark, str(tmp_path), batch_rows=300)
    assert difference({"one process": in_process.play(due).outcome, "Spark": played.outcome}) is None


def test_an_id_that_comes_back_later_makes_the_difference(spark, tmp_path):
    """What the kata rules out: the pipeline takes it for new, for Spark it is behind the watermark."""
    due = deliveries(rate=20, duration_s=40, clients=3, duplicates=0.0, seed=5)
    late = due[10]._replace(delivered_s=due[-1].delivered_s + 0.001)
    stream = [*due, late]
    parallel = on_spark.play(stream, spark, str(tmp_path), batch_rows=200)
    found = compared(stream, {"one process": in_process.play(stream), "Spark": parallel})
    assert found.difference
    assert found.checks["one process"] == Check(violations=0, repeated=1, lost=0, unknown=0)
    assert found.checks["Spark"] == RIGHT


@pytest.fixture
def command(spark, monkeypatch):
    """The command's session is the tests' one, which it must not end."""
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)
    return lambda *argv: main(["kata", "--spark", "--master", "local[2]", *STREAM, *argv])


def test_the_command_says_that_they_agree(command, capsys):
    """Machine, stream, both outcomes with their time, and the sentence; exit 0."""
    assert command() == 0
    out, err = capsys.readouterr()
    assert err == ""
    top, stream, _, head, local, parallel, _, said = out.splitlines()
    assert top.startswith("tickwheel ")
    assert "pyspark" in top
    due = deliveries(rate=60, duration_s=25, clients=20, duplicates=0.3)
    events = len({delivery.uuid for delivery in due})
    assert stream == (
        f"{len(due):,} deliveries in 25 s, {len(due) - events:,} of them again; 20 clients; no work; seed 1; "
        "Spark on local[2]"
    )
    assert head.split("  ")[-1].strip() == "lost"
    for line, name in ((local, "one process"), (parallel, "Spark")):
        assert line.startswith(name)
        figures = line.removeprefix(name).split()
        assert figures[:3] == [f"{number:,}" for number in (len(due), events, len(due) - events)]
        assert figures[-3:] == ["0", "0", "0"]
    assert said.startswith(f"The outcomes agree: the same {events:,} events, each once")


def test_the_command_prints_json(command, capsys):
    """One object: the machine, the stream, each outcome with what is wrong in it, whether they agree."""
    assert command("--json", "--seed", "7") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["agree"], found["problems"]) == (True, [])
    assert found["stream"] == {"rate": 60, "duration_s": 25, "clients": 20, "duplicates": 0.3, "seed": 7}
    assert list(found["outcomes"]) == ["one process", "Spark"]
    for outcome in found["outcomes"].values():
        assert outcome["events"] == found["events"] == found["deliveries"] - outcome["dropped"]
        assert outcome["violations"] == outcome["repeated"] == outcome["lost"] == outcome["unknown"] == 0
        assert outcome["seconds"] > 0


def test_the_command_fails_where_they_differ(command, capsys, monkeypatch):
    """Exit 1, and lines that say where, and who is wrong."""
    def without_the_last(due, session, folder):
        right = in_process.play(due).outcome.sort_by([("client_id", "ascending"), ("sequence", "ascending")])
        return Played(right.slice(0, len(right) - 1), 1.0)

    monkeypatch.setattr(on_spark, "play", without_the_last)
    assert command() == 1
    differ, wrong = capsys.readouterr().out.splitlines()[-2:]
    assert differ.startswith("The outcomes differ: client 19, sequence ")
    assert differ.endswith(" in one process and nothing more in Spark.")
    assert wrong == "Spark is wrong: 1 events lost."
    assert command("--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["agree"], found["problems"]) == (False, [differ, wrong])
