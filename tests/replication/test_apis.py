"""What each request is answered, read back by kio's client side."""

import threading
from dataclasses import replace
from datetime import timedelta

import asked
import pytest
from batchmaker import batch
from entities import entities
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kioclient import answer, frame

from tickwheel.replication import apis
from tickwheel.replication.apis import HANDLERS, Cluster, Refused
from tickwheel.replication.follower import Follower
from tickwheel.replication.replicas import ReplicaManager
from tickwheel.replication.wire import SERVED, Api, Malformed, decode, encode


class Served:
    """A log of 3 replicas, asked without a broker's sockets."""

    def __init__(self, folder, *, follow=True, **options):
        self.manager = ReplicaManager(folder, replicas=3, min_isr=2, **options)
        self.manager.create_topic("events", 2)
        self.followers = [Follower(self.manager, id) for id in range(3)] if follow else []
        self.cluster = Cluster(self.manager, (0, 1, 2), False, "a host", 1234)

    def answers(self, entity):
        """A list to which the answer will come, and an event for when it has."""
        request, came, there = decode(frame(entity)[4:]), [], threading.Event()

        def take(response):
            came.append(response)
            there.set()

        HANDLERS[request.api](self.cluster, request, take)
        return request, came, there

    def ask(self, entity):
        request, came, there = self.answers(entity)
        assert there.wait(60)
        (response,) = came
        if response is None or isinstance(response, Refused):
            return response
        return answer(entity, encode(request, response)[4:])

    def close(self):
        for follower in self.followers:
            follower.stop()
        self.manager.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@pytest.fixture
def served(tmp_path):
    with Served(tmp_path) as served:
        yield served


def partition_of(response):
    """The one partition in an answer of one topic."""
    topics = getattr(response, "responses", None) or response.topics
    ((partition,),) = (getattr(topic, "partitions", None) or topic.partition_responses for topic in topics)
    return partition


# Which versions, which brokers, which topics


@pytest.mark.parametrize("version", range(4))
def test_api_versions_names_all_that_is_served(served, version):
    """Each API with its range, in whichever version it is asked."""
    response = served.ask(asked.api_versions(version))
    assert response.error_code == ErrorCode.none
    ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    assert ranges == {int(api): versions for api, versions in SERVED.items()}


def test_api_versions_in_an_unknown_version_says_so(served):
    """As Kafka does: in version 0, with UNSUPPORTED_VERSION and the versions that there are."""
    data = bytearray(frame(asked.api_versions(0))[4:])
    data[2:4] = b"\0\x09"
    request, came = decode(bytes(data)), []
    HANDLERS[request.api](served.cluster, request, came.append)
    response = answer(asked.api_versions(0), encode(request, came[0])[4:])
    assert response.error_code == ErrorCode.unsupported_version
    assert len(response.api_keys) == len(SERVED)


def test_metadata_has_the_replicas_as_brokers_at_one_address(served):
    """A client that follows a leader comes to the same address."""
    served.manager.create_topic("another", 1)
    response = served.ask(asked.metadata())
    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [
        (0, "a host", 1234),
        (1, "a host", 1234),
        (2, "a host", 1234),
    ]
    assert response.controller_id == 0
    assert {topic.name: len(topic.partitions) for topic in response.topics} == {"events": 2, "another": 1}
    partition = response.topics[1].partitions[1]
    assert (partition.partition_index, partition.leader_id, partition.error_code) == (1, 0, ErrorCode.none)
    assert (partition.replica_nodes, partition.isr_nodes) == ((0, 1, 2), (0, 1, 2))


def test_metadata_follows_the_leader(served):
    """Who leads after a move is whom the metadata names."""
    served.manager.lead(served.manager.topics()["events"][1].name, 2)
    (topic,) = served.ask(asked.metadata("events")).topics
    assert [partition.leader_id for partition in topic.partitions] == [0, 2]


def test_a_partition_without_a_leader_has_an_error(tmp_path):
    """In the metadata, and for whoever would write, read or ask for offsets."""
    with Served(tmp_path, follow=False) as served:
        for id in range(3):
            served.manager.lose(id)
        part = served.ask(asked.metadata("events")).topics[0].partitions[0]
        assert (part.leader_id, part.error_code) == (-1, ErrorCode.leader_not_available)
        produce, fetch = asked.produce({"events": {0: batch(b"a")}}), asked.fetch({"events": {0: 0}})
        for entity in (produce, fetch, asked.list_offsets("events", {0: -1})):
            assert partition_of(served.ask(entity)).error_code == ErrorCode.leader_not_available


def test_a_topic_that_is_not_there_is_an_error_unless_it_is_made(served):
    """With auto_create, and where the client allows it, it is made with one partition."""
    (topic,) = served.ask(asked.metadata("new", create=True)).topics
    assert topic.error_code == ErrorCode.unknown_topic_or_partition
    served.cluster = served.cluster._replace(auto_create=True)
    (topic,) = served.ask(asked.metadata("new", create=False)).topics
    assert topic.error_code == ErrorCode.unknown_topic_or_partition
    topics = served.ask(asked.metadata("new", "no topic's name", create=True)).topics
    assert [topic.error_code for topic in topics] == [ErrorCode.none, ErrorCode.invalid_topic_exception]
    assert len(topics[0].partitions) == len(served.manager.topics()["new"]) == 1


# Produce


@pytest.mark.parametrize("version", range(3, 9))
@pytest.mark.parametrize("acks", [1, -1])
def test_produce_answers_where_the_records_went(served, version, acks):
    """Base offsets, by topic and partition."""
    served.ask(asked.produce({"events": {1: batch(b"before")}}))
    two = {"events": {0: batch(b"a"), 1: batch(b"b", b"c")}}
    (topic,) = served.ask(asked.produce(two, acks, version=version)).responses
    found = [(part.index, part.error_code, part.base_offset) for part in topic.partition_responses]
    assert found == [(0, ErrorCode.none, 0), (1, ErrorCode.none, 1)]


def test_produce_with_acks_all_waits_for_the_followers(tmp_path):
    """Nothing is answered before they have the records; after the timeout, that they did not."""
    with Served(tmp_path, follow=False) as served:
        _, came, there = served.answers(asked.produce({"events": {0: batch(b"a")}}, timeout=30))
        late = partition_of(served.ask(asked.produce({"events": {1: batch(b"a")}}, timeout=0.02)))
        assert late.error_code == ErrorCode.request_timed_out
        assert "replicated within 0.02 s" in late.error_message
        assert came == []
        served.followers = [Follower(served.manager, id) for id in (1, 2)]
        assert there.wait(60)


def test_a_partition_that_fails_fails_alone(served):
    """An error for one partition of a request, an offset for another."""
    records = {"events": {0: batch(b"a"), 7: batch(b"a"), 1: b"no batch"}, "none": {0: batch(b"a")}}
    events, none = served.ask(asked.produce(records)).responses
    assert [part.error_code for part in events.partition_responses] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.corrupt_message,
    ]
    assert none.partition_responses[0].error_code == ErrorCode.unknown_topic_or_partition
    assert "none-0" in none.partition_responses[0].error_message


def test_produce_with_acks_0_is_not_answered(served):
    """Nor is an error: the connection is closed then, with the reason."""
    assert served.ask(asked.produce({"events": {0: batch(b"a")}}, acks=0)) is None
    refused = served.ask(asked.produce({"none": {0: batch(b"a")}}, acks=0))
    assert isinstance(refused, Refused)
    assert refused.reason.startswith("acks=0, and so no other answer to: none-0")


def test_other_acks_are_refused(served):
    """acks is 0, 1 or -1."""
    part = partition_of(served.ask(asked.produce({"events": {0: batch(b"a")}}, acks=2)))
    assert part.error_code == ErrorCode.invalid_required_acks


def test_a_produce_that_cannot_be_meant_is_malformed(served):
    """A partition named twice has one place in the answer; and there are no transactions."""
    one = asked.produce({"events": {0: batch(b"a")}})
    twice = replace(one, topic_data=one.topic_data * 2)
    for entity in (twice, asked.produce({"events": {0: batch(b"a")}}, transaction="t")):
        with pytest.raises(Malformed):
            served.ask(entity)


@pytest.mark.parametrize("one", [asked.fetch({"events": {0: 0}}), asked.list_offsets("events", {0: -1})])
def test_a_partition_is_named_once(served, one):
    """Its answer would else be of any size, whatever the limits."""
    with pytest.raises(Malformed, match="must name each partition once"):
        served.ask(replace(one, topics=one.topics * 2))


def test_a_topic_that_is_named_often_is_told_once(served):
    """A small request has no large answer."""
    told = served.ask(asked.metadata("none", *["events"] * 1000)).topics
    assert [topic.name for topic in told] == ["none", "events"]


def test_an_answer_that_cannot_be_made(served, monkeypatch, caplog):
    """Its client does not wait for ever: the connection is closed."""

    def fail(*args):
        raise MemoryError

    monkeypatch.setattr(apis, "_fetched", fail)
    assert isinstance(served.ask(asked.fetch({"events": {0: 0}}, max_wait=0.01)), Refused)
    (line,) = caplog.records
    assert line.exc_info


# Fetch and offsets


@pytest.mark.parametrize("version", range(4, 11))
def test_fetch_reads_what_was_produced(served, version):
    """The batches as they came but for the stamp, and how far the partition is."""
    records = batch(b"a", b"b")
    served.ask(asked.produce({"events": {0: records}}))
    part = partition_of(served.ask(asked.fetch({"events": {0: 0}}, version=version)))
    assert part.records[16:] == records[16:]
    assert (part.error_code, part.high_watermark, part.last_stable_offset) == (ErrorCode.none, 2, 2)


def test_fetch_waits_for_bytes(served):
    """With none and time to wait, the answer comes with the next record; with no time, it is empty."""
    assert partition_of(served.ask(asked.fetch({"events": {0: 0}}))).records == b""
    fetch = asked.fetch({"events": {0: 0}}, max_wait=30)
    request, came, there = served.answers(fetch)
    assert came == []
    served.ask(asked.produce({"events": {0: batch(b"a")}}))
    assert there.wait(60)
    assert partition_of(answer(fetch, encode(request, came[0])[4:])).records


def test_fetch_has_an_error_for_each_partition(served):
    """An offset that is not there, a partition that is not there, an epoch that has not come."""
    (events,) = served.ask(asked.fetch({"events": {0: 5, 9: 0}}, max_wait=30)).responses
    assert [(part.error_code, part.records, part.high_watermark) for part in events.partitions] == [
        (ErrorCode.offset_out_of_range, b"", -1),
        (ErrorCode.unknown_topic_or_partition, b"", -1),
    ]
    part = partition_of(served.ask(asked.fetch({"events": {0: 0}}, epoch=99)))
    assert part.error_code == ErrorCode.unknown_leader_epoch


def test_a_consumer_sees_nothing_that_is_not_replicated(tmp_path):
    """Not even one that says that it is replica 1."""
    with Served(tmp_path, follow=False) as served:
        served.ask(asked.produce({"events": {0: batch(b"a")}}, acks=1))
        entity = asked.fetch({"events": {0: 0}})
        replica = type(entity)(
            **{name: getattr(entity, name) for name in entity.__slots__} | {"replica_id": 1}
        )
        for fetch in (entity, replica, replica):
            part = partition_of(served.ask(fetch))
            assert (part.records, part.high_watermark) == (b"", 0)


def test_fetch_gives_no_more_than_max_bytes(served):
    """Whole batches up to there; the first one though it is larger, since its reader would never get on."""
    for _ in range(4):
        served.ask(asked.produce({"events": {0: batch(b"x" * 1000)}}))
    size = len(batch(b"x" * 1000))
    for limit, batches in ((10, 1), (2 * size, 2), (3 * size - 1, 2)):
        part = partition_of(served.ask(asked.fetch({"events": {0: 0}}, max_bytes=limit)))
        assert len(part.records) == batches * size
        part = partition_of(served.ask(asked.fetch({"events": {0: 0}}, partition_bytes=limit)))
        assert len(part.records) == batches * size


@pytest.mark.parametrize("version", [1, 2])
def test_offsets_by_time(served, version):
    """-2 is the first, -1 the one after the last; else the first batch with a record so late, or none."""
    for ms in (1000, 2000, 3000):
        served.ask(asked.produce({"events": {0: batch(b"a", b"b", timestamp_ms=ms)}}))
    for timestamp, offset, found in ((-2, 0, -1), (-1, 6, -1), (0, 0, 1000), (1001, 2, 2000), (3001, -1, -1)):
        part = partition_of(served.ask(asked.list_offsets("events", {0: timestamp}, version)))
        assert (part.error_code, part.offset, part.timestamp) == (ErrorCode.none, offset, found)
    part = partition_of(served.ask(asked.list_offsets("events", {5: -1}, version)))
    assert (part.error_code, part.offset) == (ErrorCode.unknown_topic_or_partition, -1)


# Topics and groups


@pytest.mark.parametrize("version", [2, 3, 4])
def test_topics_are_made(served, version):
    """As many partitions as are asked for; 1, and every replica, where it is left to the broker."""
    made = served.ask(asked.create_topics(("one", 3, 3), ("two", -1, -1), version=version)).topics
    assert [(topic.name, topic.error_code) for topic in made] == [
        ("one", ErrorCode.none),
        ("two", ErrorCode.none),
    ]
    assert {name: len(parts) for name, parts in served.manager.topics().items()} == {
        "events": 2,
        "one": 3,
        "two": 1,
    }


def test_a_long_name_is_answered(served):
    """Also where the message with it would be longer than a string of the protocol can be."""
    name = "\0" * 32_000
    ((part,),) = (
        topic.partition_responses for topic in served.ask(asked.produce({name: {0: batch(b"a")}})).responses
    )
    assert part.error_code == ErrorCode.unknown_topic_or_partition
    (topic,) = served.ask(asked.create_topics((name, 1, -1))).topics
    assert topic.error_code == ErrorCode.invalid_topic_exception
    (topic,) = served.ask(asked.metadata(name)).topics
    assert (topic.name, topic.error_code) == (name, ErrorCode.unknown_topic_or_partition)


@pytest.mark.parametrize(
    ("topic", "options", "error", "message"),
    [
        (("events", 1, 3), {}, ErrorCode.topic_already_exists, "topic must be new, got 'events'"),
        (("no name", 1, 3), {}, ErrorCode.invalid_topic_exception, "topic must be 1 to 249 of"),
        (("..", 1, 3), {}, ErrorCode.invalid_topic_exception, "got '..'"),
        (("a", 0, 3), {}, ErrorCode.invalid_partitions, "partitions must be between 1 and 10000, got 0"),
        (("a", 1, 1), {}, ErrorCode.invalid_replication_factor, "factor must be 3 or -1, got 1"),
        (("a", 1, 4), {}, ErrorCode.invalid_replication_factor, "factor must be 3 or -1, got 4"),
        (("a", 1, 3), {"configs": ["retention.ms"]}, ErrorCode.invalid_config, "got 'retention.ms'"),
        (("a", 1, 3), {"validate_only": True}, ErrorCode.invalid_request, "validate_only must be false"),
        (("a", -1, -1), {"assignments": [0]}, ErrorCode.invalid_replica_assignment, "left to the broker"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_topic_that_cannot_be_made_is_not(served, topic, options, error, message):
    """The rule and the value seen, in the protocol's words."""
    (refused,) = served.ask(asked.create_topics(topic, **options)).topics
    assert refused.error_code == error
    assert message in refused.error_message
    assert list(served.manager.topics()) == ["events"]


def test_a_topic_named_twice_is_made_by_neither(served):
    """Which of the two is meant nobody knows; the others of the request are made."""
    topics = served.ask(asked.create_topics(("a", 1, 3), ("b", 1, 3), ("a", 2, 3))).topics
    assert [topic.error_code for topic in topics] == [
        ErrorCode.invalid_request,
        ErrorCode.none,
        ErrorCode.invalid_request,
    ]
    assert list(served.manager.topics()) == ["events", "b"]


def test_a_group_is_refused_when_it_is_joined_or_asked(served):
    """Its coordinator is found, since clients that assign themselves partitions look for it too."""
    found = served.ask(asked.find_coordinator())
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.none, 0, "a host", 1234)
    assert served.ask(asked.find_coordinator(0)).error_code == ErrorCode.none
    assert served.ask(asked.join_group()).error_code == ErrorCode.invalid_group_id
    assert served.ask(asked.offset_fetch()).error_code == ErrorCode.invalid_group_id


# Whatever it is


@pytest.mark.parametrize("api", SERVED, ids=lambda api: api.name)
def test_any_request_is_answered_or_malformed(served, api):
    """Numbers out of every range, names of nothing, nothing at all: kio can write the answer."""
    texts = st.sampled_from(["events", "events", "", "none", "a name", "x" * 300])
    versions = st.integers(*SERVED[api])

    @settings(max_examples=settings.default.max_examples * 2)
    @given(versions.flatmap(lambda version: entities(load_request_schema(api, version), texts)))
    def ask(entity):
        if hasattr(entity, "max_wait"):
            entity = replace(entity, max_wait=timedelta(0))
        if hasattr(entity, "timeout"):
            entity = replace(entity, timeout=timedelta(seconds=0.01))
        try:
            served.ask(entity)
        except Malformed:
            assert api in (Api.PRODUCE, Api.FETCH, Api.LIST_OFFSETS)

    ask()
