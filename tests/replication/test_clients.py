"""The three clients that people use, against `tickwheel broker` in its own process."""

import asyncio
import logging
import time

import asked
import confluent_kafka
import pytest
from batchmaker import batch
from clients import PARTITIONS, AioKafka, Confluent, KafkaPython, aiokafka, kafka, value
from kio.schema.errors import ErrorCode
from kioclient import Client, answer, frame
from served import Apart, Here

N = 100_000
LONG_POLL_S = 2.0
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # theirs


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Apart(tmp_path_factory.mktemp("data")) as broker:
        yield broker
        code, errors = broker.stop()
        assert (code, errors) == (0, "")


@pytest.fixture
def topic(broker, request):
    """A topic of the test's own, made by an admin client."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.servers)
    admin.create_topics([kafka.admin.NewTopic(name, len(PARTITIONS), 3)])
    admin.close()
    return name


CLIENTS = pytest.mark.parametrize(
    "client", [KafkaPython, AioKafka, Confluent], ids=lambda kind: kind.__name__
)


def consumed(consumer, count):
    """What comes until there are so many, by partition; each at the offset after the one before."""
    found = {number: [] for number in PARTITIONS}
    end = time.monotonic() + 60
    while sum(map(len, found.values())) < count:
        assert time.monotonic() < end, {number: len(values) for number, values in found.items()}
        for partition, offset, data in consumer.poll(1.0):
            assert offset == len(found[partition])
            found[partition].append(data)
    return found


@CLIENTS
def test_all_that_is_produced_is_consumed_in_order(broker, topic, client):
    """100,000 records with acks=all, each on 3 replicas, to 3 partitions: each consumed once, in place."""
    client.produce(broker.servers, topic, range(N))
    consumer = client.Consumer(broker.servers, topic)
    found = consumed(consumer, N)
    consumer.close()
    assert found == {number: [value(n) for n in range(number, N, 3)] for number in PARTITIONS}


@CLIENTS
def test_a_long_poll_costs_nothing_and_ends_with_data(broker, topic, client, capsys):
    """Without data it is empty after its time, on no processor; data that come end it before."""
    consumer = client.Consumer(broker.servers, topic)
    client.produce(broker.servers, topic, [0])
    assert consumed(consumer, 1)[0] == [value(0)]
    before, start = broker.cpu_s(), time.monotonic()
    assert list(consumer.poll(LONG_POLL_S)) == []
    waited, used = time.monotonic() - start, broker.cpu_s() - before
    with Client(broker.address) as producer:  # one of the library's own would take its time to begin
        ask = asked.produce({topic: {0: batch(b"it comes")}}, acks=1)
        start = time.monotonic()
        producer.send(frame(ask))
        came = []
        while not came:
            came += consumer.poll(5.0)
            assert time.monotonic() - start < 9, "fetch_max_wait is 10 s"
        took = time.monotonic() - start
        producer.receive()
    consumer.close()
    assert came == [(0, 1, b"it comes")]
    assert LONG_POLL_S * 0.9 < waited < LONG_POLL_S + 5
    assert used < 0.5
    with capsys.disabled():
        print(
            f" {client.__name__}: empty after {waited:.3f} s, CPU {used:.2f} s; data in {took * 1e3:.1f} ms "
        )


def test_two_thousand_long_polls_at_once(broker, topic):
    """Each is open at the same time, each is answered when the record comes, and once."""
    count = 2000
    fetch = asked.fetch({topic: {1: 0}}, max_wait=50)
    done = []

    async def poll(opened):
        reader, writer = await asyncio.open_connection(*broker.address)
        writer.write(frame(fetch))
        opened.release()
        size = int.from_bytes(await reader.readexactly(4), "big")
        ((part,),) = (topic.partitions for topic in answer(fetch, await reader.readexactly(size)).responses)
        done.append((part.error_code, part.high_watermark))
        writer.close()
        await writer.wait_closed()

    async def all_polls():
        opened = asyncio.Semaphore(0)
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(poll(opened))
            for _ in range(count):
                await opened.acquire()
            await asyncio.sleep(1.0)  # what the assertion below is about: none is answered meanwhile
            assert done == []
            with Client(broker.address) as producer:
                producer.ask(asked.produce({topic: {1: batch(b"for all")}}))

    asyncio.run(all_polls())
    assert done == [(ErrorCode.none, 1)] * count


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_kept_compressed(broker, topic, codec):
    """The broker does not look into them: what is compressed comes back."""
    delivered = []
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.servers, "compression.type": codec})
    for number in range(1000):
        producer.produce(
            topic, b"x" * 100 + value(number), partition=0, on_delivery=lambda *_: delivered.append(1)
        )
    assert producer.flush(30) == 0
    assert len(delivered) == 1000
    with Client(broker.address) as client:
        fetch = asked.fetch({topic: {0: 0}})
        ((part,),) = (topic.partitions for topic in client.ask(fetch).responses)
        assert len(part.records) < 50_000
    consumer = Confluent.Consumer(broker.servers, topic)
    assert consumed(consumer, 1000)[0] == [b"x" * 100 + value(number) for number in range(1000)]
    consumer.close()


# What is not there is said at once


def test_kafka_python_says_what_is_missing(broker, topic):
    """Idempotence and consumer groups: an error from the first call that needs them."""
    producer = kafka.KafkaProducer(bootstrap_servers=broker.servers)  # idempotence is its default
    with pytest.raises(kafka.errors.IncompatibleBrokerVersion, match="InitProducerId"):
        producer.send(topic, b"a").get(10)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, bootstrap_servers=broker.servers, group_id="a group")
    with pytest.raises(kafka.errors.InvalidGroupIdError):
        consumer.poll(timeout_ms=10_000)
    consumer.close()


def test_aiokafka_says_what_is_missing(broker, topic, caplog):
    """Idempotence and consumer groups: an error from the first call that needs them."""

    async def idempotent():
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.servers, enable_idempotence=True)
        try:
            await producer.start()
        finally:
            await producer.stop()

    async def in_a_group():
        consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=broker.servers, group_id="a group")
        try:
            await consumer.start()
            await consumer.getone()
        finally:
            await consumer.stop()

    caplog.set_level(logging.CRITICAL)
    with pytest.raises(aiokafka.errors.IncompatibleBrokerVersion, match="InitProducerId"):
        asyncio.run(idempotent())
    with pytest.raises(aiokafka.errors.InvalidGroupIdError):
        asyncio.run(in_a_group())


def test_confluent_says_what_is_missing(broker, topic):
    """Idempotence and consumer groups: an error from the first call that needs them."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.servers, "enable.idempotence": True})
    with pytest.raises(confluent_kafka.KafkaException, match="Idempotent producer not supported"):
        producer.poll(10)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.servers, "group.id": "a group"})
    consumer.subscribe([topic])
    message = consumer.poll(10)
    assert message.error().code() == confluent_kafka.KafkaError.INVALID_GROUP_ID
    consumer.close()


def test_confluent_makes_topics(broker):
    """Its admin client leaves the counts to the broker unless it is told."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.servers})
    admin.create_topics([NewTopic("by-confluent")])["by-confluent"].result(10)
    with pytest.raises(confluent_kafka.KafkaException, match="replication factor must be 3 or -1, got 1"):
        admin.create_topics([NewTopic("another", 1, 1)])["another"].result(10)
    assert len(admin.list_topics(timeout=10).topics["by-confluent"].partitions) == 1


# Leaders move


@CLIENTS
def test_a_leader_that_moves_loses_nothing(tmp_path, client):
    """While records are produced, each partition is led by one replica after the other: each acknowledged
    record is consumed, and each offset once. What was answered with the move is sent again: it may be there
    twice."""
    count = 3000
    with Here(tmp_path) as here:
        servers = "{}:{}".format(*here.address)
        consumer = client.Consumer(servers, "events")
        moves, pause_s = 0, 0.02

        async def produce_and_move():
            nonlocal moves, pause_s
            for first in range(0, count, 300):
                work = asyncio.to_thread(client.produce, servers, "events", range(first, first + 300))
                task = asyncio.create_task(work)
                while not task.done():
                    for partition in here.manager.topics()["events"]:
                        others = [id for id in partition.isr if id != partition.leader]
                        if others:
                            here.manager.lead(partition.name, others[0])
                            moves += 1
                    await asyncio.sleep(pause_s)
                    pause_s *= 1.01  # on a machine that needs longer, produces come through between two
                await task

        asyncio.run(produce_and_move())
        found, end = {number: [] for number in PARTITIONS}, time.monotonic() + 120
        expected = {number: [value(n) for n in range(number, count, 3)] for number in PARTITIONS}
        while any(len(set(found[number])) < len(expected[number]) for number in PARTITIONS):
            assert time.monotonic() < end
            for partition, offset, data in consumer.poll(1.0):
                assert offset == len(found[partition])
                found[partition].append(data)
        consumer.close()
        assert moves > 10
    for number in PARTITIONS:
        assert set(found[number]) == set(expected[number])
