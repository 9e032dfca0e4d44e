"""Requests as kio's entities, each in a version that is served."""

from datetime import timedelta
from importlib import import_module

SECONDS = timedelta(seconds=1)


def kio(api, version):
    """kio's module with this request."""
    return import_module(f"kio.schema.{api}.v{version}.request")


def fill(module, entity, **values):
    """The entity, without what this version of it does not have."""
    kind = getattr(module, entity)
    return kind(**{name: value for name, value in values.items() if name in kind.__dataclass_fields__})


def api_versions(version=0, name="a-test"):
    names = {"client_software_name": name, "client_software_version": "1"}
    return fill(kio("api_versions", version), "ApiVersionsRequest", **names)


def metadata(*topics, create=False):
    v = kio("metadata", 5)
    asked = tuple(v.MetadataRequestTopic(name=topic) for topic in topics)
    return v.MetadataRequest(topics=asked or None, allow_auto_topic_creation=create)


def produce(records, acks=-1, timeout=5.0, version=8, transaction=None):
    """`records`: {topic: {partition: bytes}}."""
    v = kio("produce", version)
    return v.ProduceRequest(
        transactional_id=transaction,
        acks=acks,
        timeout=timeout * SECONDS,
        topic_data=tuple(
            v.TopicProduceData(
                name=topic,
                partition_data=tuple(
                    v.PartitionProduceData(index=index, records=data) for index, data in partitions.items()
                ),
            )
            for topic, partitions in records.items()
        ),
    )


def fetch(
    offsets, max_wait=0.0, min_bytes=1, max_bytes=1 << 20, version=10, epoch=-1, partition_bytes=1 << 20
):
    """`offsets`: {topic: {partition: offset}}."""
    v = kio("fetch", version)
    return fill(
        v,
        "FetchRequest",
        max_wait=max_wait * SECONDS,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        replica_id=-1,
        session_id=0,
        forgotten_topics_data=(),
        topics=tuple(
            v.FetchTopic(
                topic=topic,
                partitions=tuple(
                    fill(
                        v,
                        "FetchPartition",
                        partition=partition,
                        fetch_offset=offset,
                        partition_max_bytes=partition_bytes,
                        current_leader_epoch=epoch,
                    )
                    for partition, offset in partitions.items()
                ),
            )
            for topic, partitions in offsets.items()
        ),
    )


def list_offsets(topic, timestamps, version=2):
    """`timestamps`: {partition: timestamp}."""
    v = kio("list_offsets", version)
    partitions = tuple(
        v.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        for partition, timestamp in timestamps.items()
    )
    topics = (v.ListOffsetsTopic(name=topic, partitions=partitions),)
    return fill(v, "ListOffsetsRequest", replica_id=-1, isolation_level=0, topics=topics)


def create_topics(*topics, validate_only=False, version=4, configs=(), assignments=()):
    """`topics`: (name, partitions, replication factor)."""
    v = kio("create_topics", version)
    return v.CreateTopicsRequest(
        topics=tuple(
            v.CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=copies,
                assignments=tuple(v.CreatableReplicaAssignment(partition_index=0) for _ in assignments),
                configs=tuple(v.CreatableTopicConfig(name=name, value="") for name in configs),
            )
            for name, partitions, copies in topics
        ),
        timeout=5 * SECONDS,
        validate_only=validate_only,
    )


def find_coordinator(version=1):
    return fill(kio("find_coordinator", version), "FindCoordinatorRequest", key="a group", key_type=0)


def join_group():
    return kio("join_group", 2).JoinGroupRequest(
        group_id="a group",
        session_timeout=SECONDS,
        rebalance_timeout=SECONDS,
        member_id="",
        protocol_type="consumer",
        protocols=(),
    )


def offset_fetch():
    return kio("offset_fetch", 2).OffsetFetchRequest(group_id="a group", topics=())
