"""The broker under load: when requests are sent, what the clients count, what is measured, how it is told."""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from importlib.util import find_spec
from itertools import pairwise
from statistics import fmean

import asked
import pytest
from batchmaker import batch
from kioclient import Client
from served import Here

from tickwheel.bench.broker.cell import Cell
from tickwheel.bench.broker.clients import Consumer, Ledger, Producer
from tickwheel.bench.broker.frames import VALUE, Fetch, Produce, Record
from tickwheel.bench.broker.load import planned_times
from tickwheel.bench.broker.plan import Row, plan
from tickwheel.bench.broker.results import verdicts
from tickwheel.bench.broker.sample import Sample, Seen, Setting, Sizes
from tickwheel.bench.runner import measure
from tickwheel.cli.__main__ import main
from tickwheel.cli.bench_broker_text import as_text
from tickwheel.replication.wire import decode

SMALL = Setting(seconds=1.0, producers=4, consumers=5, waiting=20, partitions=3, replicas=3)


def test_the_planned_times():
    """As many as the rate says, ascending, in the span; the gaps are exponential; the same for a seed."""
    times = planned_times(2000, 5.0, seed=1)
    assert len(times) == 10_000
    assert list(times) == sorted(times)
    assert times[0] >= 0
    assert times[-1] < 5
    gaps = [after - before for before, after in pairwise(times)]
    assert fmean(gaps) == pytest.approx(1 / 2000, rel=0.01)
    assert fmean(gap**2 for gap in gaps) == pytest.approx(2 / 2000**2, rel=0.1)  # even gaps: half of that
    assert times == planned_times(2000, 5.0, seed=1) != planned_times(2000, 5.0, seed=2)


def test_a_load_is_one_request_at_least():
    """Also where the rate has none in so short a time."""
    assert len(planned_times(1, 0.1, seed=1)) == 1


# Requests and answers


@pytest.mark.parametrize("partition", [0, 258])
def test_a_produce_is_what_kio_would_have_written(partition):
    """Its numbers are where they belong, and the checksum fits them."""
    record = Record(2**62 + 1, 77)
    request = decode(Produce("events", partition).frame(9, record)[4:])
    value = record.planned_ns.to_bytes(8, "big") + (77).to_bytes(8, "big") + VALUE[16:]
    assert request.correlation_id == 9
    assert request.body == asked.produce({"events": {partition: batch(value)}}, timeout=60.0)


@pytest.mark.parametrize("offset", [0, 2**40 + 3])
def test_a_fetch_is_what_kio_would_have_written(offset):
    """Its numbers are where they belong."""
    request = decode(Fetch("events", 2).frame(9, offset)[4:])
    assert request.correlation_id == 9
    [[wanted]] = [topic.partitions for topic in request.body.topics]
    assert (wanted.partition, wanted.fetch_offset) == (2, offset)
    assert (request.body.max_wait, request.body.min_bytes) == (timedelta(seconds=0.5), 1)


class Wire(asyncio.Transport):
    """A client's, whose broker is the test."""

    def __init__(self):
        self.sent = []

    def write(self, data):
        self.sent.append(data)


def connected(client):
    wire = Wire()
    client.connection_made(wire)
    return client, wire.sent


@pytest.fixture
def broker(tmp_path):
    with Here(tmp_path) as broker:
        yield broker


def ask(broker, data):
    """The answer to a frame, with the length before it."""
    with Client(broker.address) as client:
        client.send(data)
        said = client.receive()
    return len(said).to_bytes(4, "big") + said


RECORDS = [Record(1000 * number, number) for number in range(3)]


@pytest.mark.parametrize("pieces", ["whole", "single bytes"])
def test_answers_are_counted(broker, pieces):
    """However they come; each has its latency, from the planned time on."""

    async def converse():
        ledger = Ledger(3, 0)
        producer, sent = connected(Producer(ledger))
        for record in RECORDS:
            producer.produce(Produce("events", record.number), record)
        assert not ledger.over.is_set()
        data = b"".join(ask(broker, frame) for frame in sent)
        for piece in [data] if pieces == "whole" else (data[at : at + 1] for at in range(len(data))):
            producer.data_received(piece)
        assert ledger.over.is_set()
        return ledger

    ledger = asyncio.run(converse())
    assert (ledger.sent, ledger.answered, ledger.errors) == (3, 3, 0)
    assert len(ledger.late_ns) == len(ledger.produce_ns) == 3
    assert all(ns >= late for ns, late in zip(ledger.produce_ns, ledger.late_ns, strict=True))


@pytest.mark.parametrize(
    ("order", "errors"), [((0, 1, 2), 0), ((0, 2, 1), 2), ((0, 1, 1), 1), ((0, 1, 2, 2), 1)]
)
def test_answers_to_others_are_errors(broker, order, errors):
    """Each request has one answer, and they come in order."""

    async def converse():
        ledger = Ledger(3, 0)
        producer, sent = connected(Producer(ledger))
        for record in RECORDS:
            producer.produce(Produce("events", record.number), record)
        answers = [ask(broker, frame) for frame in sent]
        for number in order:
            producer.data_received(answers[number])
        return ledger

    ledger = asyncio.run(converse())
    assert (ledger.sent, ledger.answered, ledger.errors) == (3, len(order), errors)


def test_what_a_broker_refuses_is_an_error(broker):
    """A partition that is not there, asked by produce and by fetch."""

    async def converse():
        ledger = Ledger(2, 1)
        producer, produces = connected(Producer(ledger))
        producer.produce(Produce("events", 3), RECORDS[0])
        producer.data_received(ask(broker, produces[0]))
        consumer, fetches = connected(Consumer(ledger, Fetch("events", 3)))
        consumer.poll()
        consumer.data_received(ask(broker, fetches[0]))
        return ledger

    ledger = asyncio.run(converse())
    assert (ledger.answered, ledger.errors, len(ledger.fetch_ns)) == (2, 2, 0)


def test_a_consumer_polls_on(broker):
    """For what is behind the last record that it has, until the end; a record that comes again is noted."""

    async def converse():
        ledger = Ledger(0, 4)
        consumer, fetches = connected(Consumer(ledger, Fetch("events", 0)))
        consumer.poll()
        for number, record in enumerate(RECORDS):
            ask(broker, Produce("events", 0).frame(number, record))
        answers = [ask(broker, fetches[0])]
        consumer.data_received(answers[0])
        assert consumer.numbers == {0: 1, 1: 1, 2: 1}
        assert not ledger.over.is_set()
        ask(broker, Produce("events", 0).frame(4, Record(0, 2)))
        ledger.ends = True
        consumer.data_received(ask(broker, fetches[1]))
        assert consumer.numbers == {0: 1, 1: 1, 2: 2}
        assert ledger.over.is_set()
        return ledger, fetches

    ledger, fetches = asyncio.run(converse())
    offsets = [decode(fetch[4:]).body.topics[0].partitions[0].fetch_offset for fetch in fetches]
    assert offsets == [0, 3]
    assert (ledger.sent, ledger.answered, ledger.errors) == (2, 2, 0)


def test_a_lost_connection_ends_the_load():
    """But at the end, when the broker is no longer needed."""

    async def lose(ends):
        ledger = Ledger(1, 1)
        ledger.ends = ends
        Producer(ledger).connection_lost(None)
        return ledger.over.is_set(), str(ledger.error)

    assert asyncio.run(lose(False)) == (True, "the broker closed a connection")
    assert asyncio.run(lose(True)) == (False, "None")


# A run, and what is told of it


def test_a_run_counts_everything_once():
    """A broker and its load, each in a process: all is answered and delivered, all polls have been seen."""
    sample = Cell(200, SMALL).measure(1)
    seen = sample.seen
    assert seen.sent == seen.answered >= 200 + SMALL.consumers + SMALL.waiting
    assert (seen.errors, seen.again) == (0, 0)
    assert seen.records == seen.delivered == 2 * 67 + 2 * 67 + 66  # a consumer more at two partitions
    assert 0 < sample.most(lambda sizes: sizes.fetches) <= SMALL.consumers + SMALL.waiting + SMALL.replicas
    assert sample.most(lambda sizes: sizes.produces) <= SMALL.producers
    assert [sizes.at_s for sizes in sample.sizes] == sorted(sizes.at_s for sizes in sample.sizes)


def test_without_consumers_there_is_no_latency_of_theirs():
    """Nothing is delivered; one replica acknowledges by itself."""
    setting = Setting(0.2, producers=1, consumers=0, waiting=0, partitions=1, replicas=1)
    seen = Cell(50, setting).measure(1).seen
    assert (seen.sent, seen.answered, seen.records, seen.errors) == (10, 10, 0, 0)
    assert seen.fetch_p50_ms is seen.fetch_p99_ms is None


def test_the_plan():
    """A row a rate, ascending."""
    assert [row.cell.rate for row in plan([500, 250, 1000], SMALL)] == [250, 500, 1000]


SEEN = Seen(
    sent=9, answered=9, errors=0, records=6, delivered=6, again=0, rate=100.4, late_p99_ms=0.5,
    produce_p50_ms=1.0, produce_p99_ms=2.0, fetch_p50_ms=3.0, fetch_p99_ms=4.0,
)  # fmt: skip


@pytest.mark.parametrize(("faults", "answered", "delivered"), [
    ({}, 0, 0),
    ({"answered": 7}, 2, 0),
    ({"answered": 10}, 1, 0),
    ({"errors": 3}, 3, 0),
    ({"delivered": 5}, 0, 1),
    ({"again": 4}, 0, 4),
])  # fmt: skip
def test_faults_break_promises(faults, answered, delivered):
    """Too few and too many, of answers and of records."""
    own = Row(Cell(100, SMALL), [Sample(replace(SEEN, **faults), 0.5, 100.0, [])])
    assert [(verdict.promise, verdict.seen, verdict.holds) for verdict in verdicts([own])] == [
        ("100/s: every request answered exactly once, without error (faults)", answered, not answered),
        ("100/s: every record at each of its consumers exactly once (faults)", delivered, not delivered),
    ]


def test_a_failing_cell_keeps_its_reason():
    """The last line of the load's traceback, in its row; it judges nothing."""
    failing = Row(Cell(100, replace(SMALL, producers=0)))
    measure([failing], 1, lambda fraction: None)
    assert failing.note.startswith("failed: RuntimeError: the load ended: ZeroDivisionError: ")
    assert verdicts([failing]) == []
    assert failing.note in as_text([failing])


QUICK = (
    "--rates", "100", "--seconds", "1s", "--producers", "3", "--consumers", "4", "--waiting", "10",
    "--partitions", "2", "--replicas", "2",
)  # fmt: skip


def test_the_command_prints_a_table(capsys):
    """The core and the machine, the caveats, a line a rate, the promises: they are kept."""
    assert main(["bench", "broker", *QUICK]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("tickwheel ") and " core)" in lines[0] and "kio" in lines[0]
    assert lines[2].startswith("- ")
    caption = lines.index(
        "produce, acks=all, records of 100 bytes; 2 partitions, 2 replicas; 3 producers, 4 consumers, "
        "10 further polls; 1 s; latencies in ms"
    )
    assert lines[caption + 1].split()[0] == "asked/s"
    assert lines[caption + 2].split()[0] == "100"
    promises = lines[lines.index("Promises") + 1 :]
    assert [line.split()[:2] for line in promises] == [["holds", "0"]] * 2
    assert err == ""


def test_the_command_prints_json_and_writes_a_report(capsys, tmp_path):
    """One object with all that was seen; a page with latencies, and the purgatories' sizes at each rate."""
    pytest.importorskip("matplotlib")
    page = tmp_path / "out.html"
    rates = ["--rates", "200,100"]
    assert main(["bench", "broker", *QUICK, *rates, "--json", "--report", str(page)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["setting"] == {
        "seconds": 1.0, "producers": 3, "consumers": 4, "waiting": 10, "partitions": 2, "replicas": 2,
    }  # fmt: skip
    assert [row["rate"] for row in result["rows"]] == [100, 200]
    for row in result["rows"]:
        seen = row["sample"]["seen"]
        assert row["note"] is None
        assert seen["sent"] == seen["answered"]
        assert seen["records"] == seen["delivered"] == 2 * row["rate"]
        assert row["sample"]["sizes"][0].keys() == set(Sizes._fields)
    assert all(promise["holds"] for promise in result["promises"])
    text = page.read_text()
    assert text.count("<svg") == 3
    for caption in (
        "Latency over rate",
        "The purgatories over time at 100 produces a second",
        "The purgatories over time at 200 produces a second",
        "Promises",
    ):
        assert f"<figcaption>{caption}</figcaption>" in text


@pytest.mark.parametrize(("argv", "problem"), [
    (["--rates", "fast"], "--rates must be a whole number >= 1 such as 1000, 250k or 1e6, got 'fast'"),
    (["--rates", "100,0"], "--rates must be a whole number >= 1 such as 1000, 250k or 1e6, got '0'"),
    (["--rates", "100k"], "--rates must be <= 20,000, got '100k'"),
    (["--seconds", "5"], "--seconds must be a duration such as 200ms or 1s, got '5'"),
    (["--seconds", "99ms"], "--seconds must be between 100 ms and 60 s, got '99ms'"),
    (["--seconds", "61s"], "--seconds must be between 100 ms and 60 s, got '61s'"),
    (["--producers", "0"], "--producers must be a whole number >= 1 such as 1000, 250k or 1e6, got '0'"),
    (["--consumers", "-1"], "--consumers must be >= 0, got '-1'"),
    (["--waiting", "many"], "--waiting must be a whole number, got 'many'"),
    (["--partitions", "0"], "--partitions must be a whole number >= 1 such as 1000, 250k or 1e6, got '0'"),
    (["--partitions", "20k"], "--partitions must be <= 1,000, got '20k'"),
    (["--replicas", "0"], "--replicas must be a whole number >= 1 such as 1000, 250k or 1e6, got '0'"),
    (["--replicas", "11"], "--replicas must be <= 10, got '11'"),
    (["--report", "out.txt"], "--report must end in .html or .htm, got 'out.txt'"),
    pytest.param(
        ["--report", "missing/out.html"], "missing/out.html: No such file or directory",
        marks=pytest.mark.skipif(find_spec("matplotlib") is None, reason="a missing extra comes first"),
    ),
])  # fmt: skip
def test_bad_options_are_refused(argv, problem, refused, monkeypatch):
    """One line that names option, rule and value; exit 2; nothing measured."""
    monkeypatch.setattr(Cell, "measure", lambda cell, seed: pytest.fail("measured"))
    assert refused("bench", "broker", *argv).startswith(problem)


def test_without_kio_it_says_what_to_install(tmp_path):
    """One line, exit 2."""
    (tmp_path / "kio.py").write_text("raise ImportError")
    command = [sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv.pop(1)); "
               "from tickwheel.cli.__main__ import main; sys.exit(main())"]  # fmt: skip
    ended = subprocess.run(
        [*command, str(tmp_path), "bench", "broker"], capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr == "tickwheel: bench broker needs kio: pip install 'tickwheel[broker]'\n"
