"""The three clients that people use, each with the same few calls."""

import asyncio
import warnings

import confluent_kafka

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what they import
    import aiokafka
    import kafka

PARTITIONS = range(3)
MAX_WAIT_MS = 10_000  # of a fetch


def value(number):
    return b"record %d" % number


class KafkaPython:
    """kafka-python 3."""

    @staticmethod
    def produce(servers, topic, numbers):
        producer = kafka.KafkaProducer(
            bootstrap_servers=servers, acks="all", enable_idempotence=False, linger_ms=5
        )
        sent = [producer.send(topic, value(number), partition=number % 3) for number in numbers]
        producer.flush(60)
        assert all(future.succeeded() for future in sent)
        producer.close()

    class Consumer:
        def __init__(self, servers, topic):
            self._consumer = kafka.KafkaConsumer(
                bootstrap_servers=servers, auto_offset_reset="earliest", fetch_max_wait_ms=MAX_WAIT_MS
            )
            self._consumer.assign([kafka.TopicPartition(topic, number) for number in PARTITIONS])

        def poll(self, timeout):
            """(partition, offset, value) of each record that came."""
            for records in self._consumer.poll(timeout_ms=int(timeout * 1000)).values():
                yield from ((record.partition, record.offset, record.value) for record in records)

        def close(self):
            self._consumer.close()


class AioKafka:
    """aiokafka 0.14."""

    @staticmethod
    def produce(servers, topic, numbers):
        async def send():
            async with aiokafka.AIOKafkaProducer(
                bootstrap_servers=servers, acks="all", linger_ms=5
            ) as producer:
                sent = [await producer.send(topic, value(number), partition=number % 3) for number in numbers]
                await asyncio.gather(*sent)

        asyncio.run(send())

    class Consumer:
        def __init__(self, servers, topic):
            self._runner = asyncio.Runner()
            self._runner.run(self._start(servers, topic))

        async def _start(self, servers, topic):
            self._consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=servers, auto_offset_reset="earliest", fetch_max_wait_ms=MAX_WAIT_MS
            )
            await self._consumer.start()
            self._consumer.assign([aiokafka.TopicPartition(topic, number) for number in PARTITIONS])

        def poll(self, timeout):
            came = self._runner.run(self._consumer.getmany(timeout_ms=int(timeout * 1000)))
            for records in came.values():
                yield from ((record.partition, record.offset, record.value) for record in records)

        def close(self):
            self._runner.run(self._consumer.stop())
            self._runner.close()


class Confluent:
    """confluent-kafka 2.16, on librdkafka."""

    @staticmethod
    def produce(servers, topic, numbers):
        delivered = []
        settings = {"bootstrap.servers": servers, "acks": "all", "queue.buffering.max.messages": 200_000}
        producer = confluent_kafka.Producer(settings)
        for number in numbers:
            producer.produce(
                topic,
                value(number),
                partition=number % 3,
                on_delivery=lambda error, message: delivered.append(error),
            )
        assert producer.flush(60) == 0
        assert delivered == [None] * len(numbers)

    class Consumer:
        def __init__(self, servers, topic):
            self._consumer = confluent_kafka.Consumer(
                {
                    "bootstrap.servers": servers,
                    "group.id": "every consumer of this library must have one",
                    "enable.auto.commit": False,
                    "fetch.wait.max.ms": MAX_WAIT_MS,
                }
            )
            starts = [confluent_kafka.TopicPartition(topic, number, 0) for number in PARTITIONS]
            self._consumer.assign(starts)

        def poll(self, timeout):
            for message in self._consumer.consume(1, timeout):
                assert not message.error()
                yield message.partition(), message.offset(), message.value()
            for message in self._consumer.consume(10_000, 0.0):
                assert not message.error()
                yield message.partition(), message.offset(), message.value()

        def close(self):
            self._consumer.close()
