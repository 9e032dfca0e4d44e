"""A broker's connections: whole and broken ones, slow and silent ones, and the end of them all."""

import asyncio
import logging
import re
import socket
import threading
import time
from contextlib import suppress

import asked
import pytest
from batchmaker import batch
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kioclient import Client, answer, frame
from served import Here

from tickwheel.replication.apis import HANDLERS
from tickwheel.replication.broker import LAST_ANSWERS_S, Broker
from tickwheel.replication.follower import Follower
from tickwheel.replication.replicas import ReplicaManager
from tickwheel.replication.wire import Api

METADATA = frame(asked.metadata("events"))
HANG_S = 60


@pytest.fixture
def broker(tmp_path):
    with Here(tmp_path) as broker:
        yield broker


def eventually(holds):
    """What another thread brings about: it is waited for, and fails if it never comes."""
    end = time.monotonic() + HANG_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)


def append(broker, *values, partition=0):
    with Client(broker.address) as client:
        ((result,),) = (
            topic.partition_responses
            for topic in client.ask(asked.produce({"events": {partition: batch(*values)}})).responses
        )
        assert result.error_code == ErrorCode.none


# Requests come as they come


def test_a_request_is_taken_in_pieces(broker):
    """A byte at a time, as the network may have it."""
    with Client(broker.address) as client:
        for byte in METADATA:
            client.send(bytes([byte]))
        assert answer(asked.metadata("events"), client.receive()).topics[0].name == "events"


def test_many_requests_at_once_are_answered_in_order(broker):
    """One at a time, also behind one that waits: the order of the answers is the order of the requests."""
    fetch = asked.fetch({"events": {0: 0}}, max_wait=0.05)
    with Client(broker.address) as client:
        client.send(b"".join(frame(fetch if n % 50 == 0 else asked.metadata(), n) for n in range(200)))
        for n in range(200):
            answer(fetch if n % 50 == 0 else asked.metadata(), client.receive(), n)


def test_a_client_that_sends_on_is_held_back_while_its_request_waits(broker):
    """What it sends meanwhile is taken in up to a bound, the rest stays on its side; then all is answered."""
    with Client(broker.address) as client:
        client.send(frame(asked.fetch({"events": {0: 0}}, max_wait=30)))

        def send():
            with suppress(OSError):  # at the end
                client.send(METADATA * 200_000)  # more than the system's own buffers hold

        sender = threading.Thread(target=send)
        sender.start()
        sender.join(0.3)
        assert sender.is_alive()
        (connection,) = broker.connections
        assert len(connection._bytes) <= 1 << 20
        append(broker, b"a")
        answer(asked.fetch({"events": {0: 0}}), client.receive())
        for _ in range(1000):
            answer(asked.metadata("events"), client.receive())
        client.socket.shutdown(socket.SHUT_RDWR)
        sender.join(HANG_S)
        assert not sender.is_alive()


def test_a_client_that_asks_faster_than_it_is_answered_is_held_back(broker):
    """Others have their turn between its requests, and what it sends meanwhile is not heaped up."""
    ask, count, most = asked.api_versions(3, "x" * 10_000), 2000, 0
    with Client(broker.address) as client:
        sender = threading.Thread(target=client.send, args=(frame(ask) * count,))
        sender.start()
        for _ in range(count):
            answer(ask, client.receive())
            most = max(most, *(len(one._bytes) for one in broker.connections))
        sender.join()
    assert most <= 1 << 20


def test_a_client_that_reads_no_answers_gets_no_more(broker):
    """Its next request waits until it has read: what the broker keeps for it is one answer, not all."""
    for _ in range(4):
        append(broker, b"x" * (1 << 20))
    with Client(broker.address) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        fetch = asked.fetch({"events": {0: 0}}, max_bytes=16 << 20, partition_bytes=16 << 20)
        client.send(frame(fetch) * 20)
        eventually(lambda: any(not one._sends for one in broker.connections))
        (connection,) = broker.connections
        assert connection._transport.get_write_buffer_size() < 5 << 20
        append(broker, b"others are served")
        for _ in range(20):
            ((part,),) = (topic.partitions for topic in answer(fetch, client.receive()).responses)
            assert len(part.records) > 4 << 20


# Broken ones

BROKEN = {
    "negative length": (b"\xff\xff\xff\xff", "a request must have 0 to 5000 bytes, got -1"),
    "too long": (b"\x7f\xff\xff\xff", "a request must have 0 to 5000 bytes, got 2147483647"),
    "a little too long": ((5001).to_bytes(4, "big"), "a request must have 0 to 5000 bytes, got 5001"),
    "empty": (b"\0\0\0\0", "a request must have 4 bytes at least, got 0"),
    "unknown API key": (b"\0\0\0\x0a\0\x42" + bytes(8), "API key must be among .*, got 66"),
    "unknown version": (b"\0\0\0\x0a\0\x03\0\x63" + bytes(6), "METADATA's version must be .*, got 99"),
    "cut short": ((9).to_bytes(4, "big") + METADATA[4:13], "RequestHeader"),
    "another protocol": (b"GET / HTTP/1.1\r\n\r\n", "a request must have 0 to 5000 bytes, got 1195725856"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "a request must have 0 to 5000 bytes, got 369295618"),
    "acks=0, an error": (
        frame(asked.produce({"none": {0: batch(b"a")}}, acks=0)),
        "acks=0, and so no other answer to: none-0",
    ),
    "a name of two lines": (
        frame(asked.produce({"a\nb\x1b[1m": {0: batch(b"a")}}, acks=0)),
        r"^\S+ closed: .*: a\\nb\\x1b\[1m-0 must be",
    ),
    "in a transaction": (
        frame(asked.produce({"events": {0: b""}}, transaction="t")),
        "PRODUCE must be outside a transaction",
    ),
}


@pytest.mark.parametrize(("data", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_request_closes_its_connection_alone(tmp_path, caplog, data, reason):
    """With one line that names the client and the reason; the others are served on."""
    with Here(tmp_path, max_request=5000) as broker, Client(broker.address) as other:
        other.ask(asked.metadata())
        with Client(broker.address) as client:
            host, port = client.socket.getsockname()
            client.ask(asked.metadata())  # it is closed at any time, not only at first
            client.send(data)
            assert client.is_closed()
        other.ask(asked.metadata())
        append(broker, b"a")
    (line,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert line.getMessage().startswith(f"{host}:{port} closed: ")
    assert re.search(reason, line.getMessage())


def test_random_bytes_never_end_the_broker(broker):
    """Whatever comes on a connection, the next one is served."""

    @settings(max_examples=settings.default.max_examples // 2)
    @given(st.binary(min_size=1, max_size=100), st.booleans())
    def throw(data, framed):
        with Client(broker.address) as client:
            client.send(len(data).to_bytes(4, "big") + data if framed else data)
            client.socket.shutdown(socket.SHUT_WR)
            while client.socket.recv(1 << 16):
                pass

    throw()
    append(broker, b"a")
    eventually(lambda: not broker.connections)


def test_a_request_that_stays_half_is_closed(tmp_path, caplog):
    """After frame_timeout, however it begins; who has nothing to say yet, or asks on, is not concerned."""
    with Here(tmp_path, frame_timeout=0.2) as broker, Client(broker.address) as quiet:
        halves = [Client(broker.address) for _ in range(3)]
        for client, data in zip(halves, (METADATA[:-1], METADATA[:3], METADATA + METADATA[:5]), strict=True):
            client.send(data)
        answer(asked.metadata(), halves[2].receive())
        for client in halves:
            assert client.is_closed()
            client.close()
        quiet.ask(asked.metadata())
    lines = sorted(record.getMessage().partition(" closed: ")[2] for record in caplog.records)
    rule = "a request must be whole within 0.2 s, got"
    assert lines == sorted(f"{rule} {n} bytes" for n in (len(METADATA) - 1, 3, 5))


def test_a_request_that_fails_inside_closes_its_connection_alone(broker, caplog, monkeypatch):
    """A fault of ours is in the log with its traceback, and nobody else's."""
    monkeypatch.setitem(HANDLERS, Api.LIST_OFFSETS, None)
    with Client(broker.address) as client:
        client.send(frame(asked.list_offsets("events", {0: -1})))
        assert client.is_closed()
    with Client(broker.address) as client:
        client.ask(asked.metadata())
    (line,) = caplog.records
    assert line.getMessage().endswith("closed: its request failed")
    assert line.exc_info


# Silent ones, and those that go


def test_a_silent_connection_is_closed(tmp_path, caplog):
    """After idle_timeout without a byte, with a line in the log."""
    with Here(tmp_path, idle_timeout=1.0) as broker, Client(broker.address) as client:
        client.ask(asked.metadata())
        assert client.is_closed()
        eventually(lambda: not broker.connections)
        assert len(broker.broker._silent) == 0
    assert [line.getMessage().partition(" closed: ")[2] for line in caplog.records] == [
        "it was silent for too long"
    ]


def test_a_connection_whose_request_waits_is_not_silent(tmp_path):
    """A long poll outlasts many idle timeouts, and then there is one more until its connection is closed."""
    with Here(tmp_path, idle_timeout=0.5) as broker, Client(broker.address) as client:
        fetch = asked.fetch({"events": {0: 0}}, max_wait=1.2)
        client.send(frame(fetch) * 2)  # at once: a test that is held up between them would be silent
        for _ in range(2):
            answer(fetch, client.receive())
        assert client.is_closed()


def test_a_client_that_goes_while_its_request_waits_is_forgotten(broker, caplog):
    """Nobody is answered, nothing is logged, and nothing is kept of the connection."""
    clients = [Client(broker.address) for _ in range(20)]
    for client in clients:
        client.send(frame(asked.fetch({"events": {0: 0}}, max_wait=30)))
    eventually(lambda: broker.manager.stats()[1].delayed >= 20)
    for client in clients:
        client.close()
    eventually(lambda: not broker.connections)
    append(broker, b"a")
    eventually(lambda: broker.manager.stats()[1].delayed <= 3)  # of the followers
    eventually(lambda: len(broker.broker._silent) == 0)
    assert caplog.records == []


# The end


def test_what_waits_is_answered_at_the_end(tmp_path):
    """A fetch with what there is, a produce that its followers have not: then every connection is closed."""
    with Here(tmp_path, follow=False) as broker:
        fetch, produce = (
            asked.fetch({"events": {1: 0}}, max_wait=30),
            asked.produce({"events": {0: batch(b"a")}}),
        )
        with Client(broker.address) as one, Client(broker.address) as two, Client(broker.address) as three:
            one.send(frame(fetch))
            two.send(frame(produce))
            three.send(METADATA[:9])
            eventually(lambda: [one._request is not None for one in broker.connections].count(True) == 2)
            broker.stop()
            ((part,),) = (topic.partitions for topic in answer(fetch, one.receive()).responses)
            assert (part.error_code, part.records) == (ErrorCode.none, b"")
            ((part,),) = (topic.partition_responses for topic in answer(produce, two.receive()).responses)
            assert part.error_code == ErrorCode.request_timed_out
            assert one.is_closed()
            assert two.is_closed()
            assert three.is_closed()
        with pytest.raises(ConnectionRefusedError):
            Client(broker.address)


def test_the_log_is_there_when_the_broker_comes_again(tmp_path):
    """What was acknowledged before its end is read after it."""
    with Here(tmp_path) as broker:
        append(broker, b"a", b"b")
    with Here(tmp_path) as broker, Client(broker.address) as client:
        ((part,),) = (topic.partitions for topic in client.ask(asked.fetch({"events": {0: 0}}, 5)).responses)
        assert part.high_watermark == 2
        assert part.records


def test_clients_that_come_and_go_do_not_hold_up_the_end(tmp_path, caplog):
    """Nor does one that has gone before its connection is made, or comes while the broker ends."""
    for round in range(10):
        with Here(tmp_path) as broker:
            for _ in range(round):
                Client(broker.address).close()
            start = time.monotonic()
        assert time.monotonic() - start < LAST_ANSWERS_S
    assert caplog.records == []


@pytest.mark.parametrize(("option", "value"), [("max_request", 0), ("idle_timeout", 0.0), ("followers", ())])
def test_an_option_out_of_range_is_refused(tmp_path, option, value):
    """ValueError names it."""

    async def make():
        Broker(manager, **{"followers": [follower], option: value})

    with ReplicaManager(tmp_path) as manager:
        follower = Follower(manager, 0)
        with pytest.raises(ValueError, match="must be"):
            asyncio.run(make())
        follower.stop()
