"""What the broker does for each request: one function each, from kio's entity to kio's entity.

Each is called on the broker's loop and gives its answer to `answer`, once: at once or, where it waits for
replicas or bytes, later and from any thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar

from tickwheel.log import logger
from tickwheel.replication.errors import PartitionError
from tickwheel.replication.operations import Fetched, Produced
from tickwheel.replication.partition import Appended, Partition, Read, TopicPartition
from tickwheel.replication.replicas import From, ReplicaManager
from tickwheel.replication.wire import SERVED, Api, ErrorCode, Malformed, Request, error_code

__all__ = ["HANDLERS", "Answer", "Cluster", "Refused"]

CLUSTER_ID = "tickwheel"
NEW_TOPIC_PARTITIONS = 1  # where a client leaves it to the broker
MAX_FETCH_BYTES = 55 << 20  # of one answer, whatever a client asks for: Kafka's fetch.max.bytes
MAX_WAIT_S = 60.0  # of one fetch: a client that has gone leaves nothing behind for longer
EARLIEST, LATEST = -2, -1  # timestamps that ListOffsets gives a meaning
NOT_THROTTLED = timedelta(0)
LONGEST_MESSAGE = 1000  # characters: a name that a client has sent may be longer than a string can be
NOTHING_READ = Read(b"", start_offset=-1, high_watermark=-1, end_offset=-1, epoch=-1)
# None is valid where there are no groups. Clients say so and give up; what is not available they try again.
NO_GROUPS = ErrorCode.invalid_group_id


class Cluster(NamedTuple):
    """What the requests of a connection are about."""

    manager: ReplicaManager
    ids: tuple[int, ...]  # of the replicas, which a client takes for brokers
    auto_create: bool
    host: str  # at which this client has reached the broker, and reaches each of its replicas
    port: int


class Refused(NamedTuple):
    """An answer that the protocol has no other form for: the connection is closed."""

    reason: str


# Called with kio's entity, with None where the client wants no answer, or with Refused.
Answer = Callable[[Any], object]

Result = TypeVar("Result", Produced, Fetched)


def _answering(answer: Answer, make: Callable[[Result], Any]) -> Callable[[Result], None]:
    """What is called with a request's result, once and from any thread, and answers what `make` makes of it.
    Where that fails the connection is closed: its client would wait for ever."""

    def done(result: Result) -> None:
        try:
            entity = make(result)
        except Exception:
            logger().exception("an answer about %d partitions could not be made", len(result))
            entity = Refused("its answer could not be made")
        answer(entity)

    return done


def api_versions(cluster: Cluster, request: Request, answer: Answer) -> None:
    """All that is served; where the version asked for is not, with UNSUPPORTED_VERSION."""
    answer(
        request.make(
            "ApiVersionsResponse",
            error_code=ErrorCode.none if request.body is not None else ErrorCode.unsupported_version,
            api_keys=tuple(
                request.make(
                    "ApiVersion", api_key=api, min_version=versions.oldest, max_version=versions.newest
                )
                for api, versions in SERVED.items()
            ),
            throttle_time=NOT_THROTTLED,
        )
    )


def metadata(cluster: Cluster, request: Request, answer: Answer) -> None:
    """The topics asked for, or all, and the replicas as brokers, all at the one address."""
    asked = request.body.topics
    topics = cluster.manager.topics()
    # Each once, however often it is named: the answer is then no longer than all that there is.
    names = sorted(topics) if asked is None else dict.fromkeys(topic.name for topic in asked)
    create = cluster.auto_create and request.body.allow_auto_topic_creation
    answer(
        request.make(
            "MetadataResponse",
            throttle_time=NOT_THROTTLED,
            brokers=tuple(
                request.make(
                    "MetadataResponseBroker", node_id=id, host=cluster.host, port=cluster.port, rack=None
                )
                for id in cluster.ids
            ),
            cluster_id=CLUSTER_ID,
            controller_id=cluster.ids[0],
            topics=tuple(_topic_metadata(cluster.manager, request, name, create) for name in names),
        )
    )


def _topic_metadata(manager: ReplicaManager, request: Request, name: str, create: bool) -> Any:
    error, partitions = ErrorCode.none, manager.topics().get(name, ())
    if not partitions and create:
        try:
            manager.create_topic(name, NEW_TOPIC_PARTITIONS)
            partitions = manager.topics()[name]
        except PartitionError as problem:
            error = error_code(problem)
    elif not partitions:
        error = ErrorCode.unknown_topic_or_partition
    return request.make(
        "MetadataResponseTopic",
        error_code=error,
        name=name,
        is_internal=False,
        partitions=tuple(_partition_metadata(request, partition) for partition in partitions),
    )


def _partition_metadata(request: Request, partition: Partition) -> Any:
    leader = partition.leader
    return request.make(
        "MetadataResponsePartition",
        error_code=ErrorCode.none if leader is not None else ErrorCode.leader_not_available,
        partition_index=partition.name.number,
        leader_id=-1 if leader is None else leader,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=(),
    )


def produce(cluster: Cluster, request: Request, answer: Answer) -> None:
    """Append the batches of each partition; answer when they are as safe as `acks` wants."""
    body = request.body
    records = {
        TopicPartition(topic.name, data.index): data.records or b""
        for topic in body.topic_data
        for data in topic.partition_data
    }
    _check_named_once("PRODUCE", records, sum(len(topic.partition_data) for topic in body.topic_data))
    if body.transactional_id is not None:
        raise Malformed("PRODUCE must be outside a transaction: there are none here")

    def made(produced: Produced) -> Any:
        if body.acks != 0:
            return _produced(request, produced)
        errors = [error for error in produced.values() if isinstance(error, PartitionError)]
        return Refused(f"acks=0, and so no other answer to: {errors[0]}") if errors else None

    timeout = max(0.0, body.timeout.total_seconds())
    cluster.manager.append(records, body.acks, timeout, _answering(answer, made))


def _check_named_once(api: str, names: Collection[TopicPartition], named: int) -> None:
    """An answer has an entry for each naming, and would else be of any size, whatever its limits."""
    if len(names) != named:
        raise Malformed(f"{api} must name each partition once")


def _produced(request: Request, produced: Produced) -> Any:
    def of(name: TopicPartition) -> Any:
        result = produced[name]
        error = result if isinstance(result, PartitionError) else None
        return request.make(
            "PartitionProduceResponse",
            index=name.number,
            error_code=ErrorCode.none if error is None else error_code(error),
            base_offset=result.base_offset if isinstance(result, Appended) else -1,
            log_append_time=None,
            log_start_offset=-1,
            record_errors=(),
            error_message=None if error is None else str(error)[:LONGEST_MESSAGE],
        )

    return request.make(
        "ProduceResponse",
        responses=tuple(
            request.make(
                "TopicProduceResponse",
                name=topic.name,
                partition_responses=tuple(
                    of(TopicPartition(topic.name, data.index)) for data in topic.partition_data
                ),
            )
            for topic in request.body.topic_data
        ),
        throttle_time=NOT_THROTTLED,
    )


def fetch(cluster: Cluster, request: Request, answer: Answer) -> None:
    """Read each partition below its high watermark; answer when there are `min_bytes`, or after `max_wait`.

    Whoever calls itself a replica is read to as a consumer: the real ones are not outside. Sessions are not
    offered, by session id 0, so that each request names all its partitions.
    """
    body = request.body
    positions = {
        TopicPartition(topic.topic, wanted.partition): From(
            wanted.fetch_offset, wanted.partition_max_bytes, getattr(wanted, "current_leader_epoch", -1)
        )
        for topic in body.topics
        for wanted in topic.partitions
    }
    _check_named_once("FETCH", positions, sum(len(topic.partitions) for topic in body.topics))
    cluster.manager.fetch(
        positions,
        min_bytes=body.min_bytes,
        max_bytes=min(body.max_bytes, MAX_FETCH_BYTES),
        max_wait=min(body.max_wait.total_seconds(), MAX_WAIT_S),
        done=_answering(answer, partial(_fetched, request)),
    )


def _fetched(request: Request, fetched: Fetched) -> Any:
    def of(name: TopicPartition) -> Any:
        error, read = ErrorCode.none, fetched[name]
        if isinstance(read, PartitionError):
            error, read = error_code(read), NOTHING_READ
        return request.make(
            "PartitionData",
            partition_index=name.number,
            error_code=error,
            high_watermark=read.high_watermark,
            last_stable_offset=read.high_watermark,
            log_start_offset=read.start_offset,
            aborted_transactions=None,
            records=read.data,
        )

    return request.make(
        "FetchResponse",
        throttle_time=NOT_THROTTLED,
        error_code=ErrorCode.none,
        session_id=0,
        responses=tuple(
            request.make(
                "FetchableTopicResponse",
                topic=topic.topic,
                partitions=tuple(
                    of(TopicPartition(topic.topic, wanted.partition)) for wanted in topic.partitions
                ),
            )
            for topic in request.body.topics
        ),
    )


def list_offsets(cluster: Cluster, request: Request, answer: Answer) -> None:
    """The first offset, the one after the last that consumers see, or the first batch since a timestamp."""

    asked = [
        TopicPartition(topic.name, asked.partition_index)
        for topic in request.body.topics
        for asked in topic.partitions
    ]
    _check_named_once("LIST_OFFSETS", set(asked), len(asked))

    def of(name: TopicPartition, timestamp_ms: int) -> Any:
        error, found = ErrorCode.none, (-1, -1)
        try:
            found = _offset(cluster.manager.partition(name), timestamp_ms)
        except PartitionError as problem:
            error = error_code(problem)
        return request.make(
            "ListOffsetsPartitionResponse",
            partition_index=name.number,
            error_code=error,
            offset=found[0],
            timestamp=found[1],
        )

    answer(
        request.make(
            "ListOffsetsResponse",
            throttle_time=NOT_THROTTLED,
            topics=tuple(
                request.make(
                    "ListOffsetsTopicResponse",
                    name=topic.name,
                    partitions=tuple(
                        of(TopicPartition(topic.name, asked.partition_index), asked.timestamp)
                        for asked in topic.partitions
                    ),
                )
                for topic in request.body.topics
            ),
        )
    )


def _offset(partition: Partition, timestamp_ms: int) -> tuple[int, int]:
    """Offset and timestamp; -1 and -1: no record is so late."""
    if timestamp_ms == EARLIEST:
        return partition.start_offset, -1
    if timestamp_ms == LATEST:
        return partition.high_watermark, -1
    return partition.offset_since(timestamp_ms) or (-1, -1)


def create_topics(cluster: Cluster, request: Request, answer: Answer) -> None:
    """Make topics, each of whose partitions has a copy on every replica."""
    count = Counter(topic.name for topic in request.body.topics)

    def of(topic: Any) -> Any:
        error, message = _created(cluster, request, topic, named=count[topic.name])
        return request.make(
            "CreatableTopicResult",
            name=topic.name,
            error_code=error,
            error_message=None if message is None else message[:LONGEST_MESSAGE],
        )

    answer(
        request.make(
            "CreateTopicsResponse",
            throttle_time=NOT_THROTTLED,
            topics=tuple(of(topic) for topic in request.body.topics),
        )
    )


def _created(cluster: Cluster, request: Request, topic: Any, *, named: int) -> tuple[Any, str | None]:
    """Error code and message: the topic is there now, or why not."""
    copies = len(cluster.ids)
    if request.body.validate_only:
        return ErrorCode.invalid_request, "validate_only must be false, got true"
    if named > 1:
        return ErrorCode.invalid_request, f"a topic must be named once, got {topic.name!r} {named} times"
    if topic.configs:
        return ErrorCode.invalid_config, f"a topic must be without configs, got {topic.configs[0].name!r}"
    if topic.assignments:
        return ErrorCode.invalid_replica_assignment, "replicas must be left to the broker, got assignments"
    if topic.replication_factor not in (-1, copies):
        problem = f"replication factor must be {copies} or -1, got {topic.replication_factor}"
        return ErrorCode.invalid_replication_factor, problem
    partitions = NEW_TOPIC_PARTITIONS if topic.num_partitions == -1 else topic.num_partitions
    try:
        cluster.manager.create_topic(topic.name, partitions)
    except PartitionError as error:
        return error_code(error), str(error)
    except ValueError as error:
        return ErrorCode.invalid_partitions, str(error)
    return ErrorCode.none, None


def find_coordinator(cluster: Cluster, request: Request, answer: Answer) -> None:
    """Here, for any group: what a client then asks of its coordinator is what it is refused.

    Refused here, a client whose library wants a group's name of every consumer would be refused too,
    though it assigns itself partitions; and one that is not available is looked for again and again.
    """
    answer(
        request.make(
            "FindCoordinatorResponse",
            throttle_time=NOT_THROTTLED,
            error_code=ErrorCode.none,
            error_message=None,
            node_id=cluster.ids[0],
            host=cluster.host,
            port=cluster.port,
        )
    )


def join_group(cluster: Cluster, request: Request, answer: Answer) -> None:
    """There are no consumer groups."""
    answer(
        request.make(
            "JoinGroupResponse",
            throttle_time=NOT_THROTTLED,
            error_code=NO_GROUPS,
            protocol_name="",
            leader="",
            member_id="",
            members=(),
        )
    )


def offset_fetch(cluster: Cluster, request: Request, answer: Answer) -> None:
    """No group, no offsets of it."""
    answer(request.make("OffsetFetchResponse", topics=(), error_code=NO_GROUPS))


HANDLERS: Mapping[Api, Callable[[Cluster, Request, Answer], None]] = {
    Api.PRODUCE: produce,
    Api.FETCH: fetch,
    Api.LIST_OFFSETS: list_offsets,
    Api.METADATA: metadata,
    Api.OFFSET_FETCH: offset_fetch,
    Api.FIND_COORDINATOR: find_coordinator,
    Api.JOIN_GROUP: join_group,
    Api.API_VERSIONS: api_versions,
    Api.CREATE_TOPICS: create_topics,
}
