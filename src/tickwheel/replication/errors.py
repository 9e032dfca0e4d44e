"""Why a partition did not do what it was asked: Kafka's own names, which its protocol numbers."""

from __future__ import annotations

__all__ = [
    "CorruptBatch",
    "FencedLeaderEpoch",
    "InvalidRequiredAcks",
    "InvalidTopic",
    "LeaderNotAvailable",
    "NotEnoughReplicas",
    "NotEnoughReplicasAfterAppend",
    "NotLeaderOrFollower",
    "OffsetOutOfRange",
    "PartitionError",
    "RequestTimedOut",
    "StorageError",
    "TopicExists",
    "UnknownLeaderEpoch",
    "UnknownTopicOrPartition",
]


class PartitionError(Exception):
    """The answer for one partition of a request; the others are answered by themselves."""


class CorruptBatch(PartitionError):
    """Bytes that are no record batch, or not a whole one."""


class OffsetOutOfRange(PartitionError):
    """The log neither has this offset nor ends at it."""


class UnknownTopicOrPartition(PartitionError):
    """There is none of this name or number."""


class InvalidTopic(PartitionError):
    """A name that no topic can have."""


class TopicExists(PartitionError):
    """A topic of this name is there."""


class LeaderNotAvailable(PartitionError):
    """No replica that is in sync is there to lead."""


class NotLeaderOrFollower(PartitionError):
    """The leader is another one, or has become one since the request was taken."""


class FencedLeaderEpoch(PartitionError):
    """The request knows of an older leader."""


class UnknownLeaderEpoch(PartitionError):
    """The request knows of a newer leader."""


class NotEnoughReplicas(PartitionError):
    """Fewer replicas than `min_isr` are in sync: nothing was appended."""


class NotEnoughReplicasAfterAppend(PartitionError):
    """It was appended, and then fewer than `min_isr` were in sync."""


class RequestTimedOut(PartitionError):
    """It was appended, and was not replicated in time. It may still be."""


class InvalidRequiredAcks(PartitionError):
    """acks is none of 0, 1 and -1 (all)."""


class StorageError(PartitionError):
    """The disk refused."""
