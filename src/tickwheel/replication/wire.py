"""Kafka's requests and answers as bytes: kio decodes and encodes them, here is which of them are served."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple, get_args, get_origin

from tickwheel.extras import require
from tickwheel.replication import errors

_index = require("kio.index", "a broker", "broker")
_serial = require("kio.serial", "a broker", "broker")
_EntityType = require("kio.static.constants", "a broker", "broker").EntityType
_PlainHeader = require("kio.schema.request_header.v1.header", "a broker", "broker").RequestHeader
ErrorCode = require("kio.schema.errors", "a broker", "broker").ErrorCode

__all__ = ["SERVED", "Api", "ErrorCode", "Malformed", "Request", "decode", "encode", "error_code"]


class Malformed(Exception):
    """Bytes that are no request of those that are served: their connection is closed."""


class Api(IntEnum):
    """Kafka's numbers of the requests that are served."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    API_VERSIONS = 18
    CREATE_TOPICS = 19


class Versions(NamedTuple):
    oldest: int
    newest: int


# The least that serves kafka-python 3, aiokafka 0.14 and librdkafka 2. A client takes the newest that it
# knows too; librdkafka infers from the others what a broker can do: from Produce 3 and Fetch 4 this format
# of batches, from Produce 7 and Fetch 10 zstd, from FindCoordinator 0 lz4, from ListOffsets 1 timestamps.
# InitProducerId is not among them: each of the clients says at once that there is no idempotence.
SERVED: Mapping[Api, Versions] = {
    Api.PRODUCE: Versions(3, 8),
    Api.FETCH: Versions(4, 10),
    Api.LIST_OFFSETS: Versions(1, 2),
    Api.METADATA: Versions(5, 5),
    Api.OFFSET_FETCH: Versions(2, 2),
    Api.FIND_COORDINATOR: Versions(0, 1),
    Api.JOIN_GROUP: Versions(2, 2),
    Api.API_VERSIONS: Versions(0, 3),
    Api.CREATE_TOPICS: Versions(2, 4),
}

MAX_ENTRIES = 100_000  # topics, partitions and so on in one request
_KEY_AND_VERSION = struct.Struct(">hh")
_COUNT = struct.Struct(">i")
_LENGTH = struct.Struct(">h")
_SIZES = {
    "bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "timedelta_i32": 4,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """A request, and what its answer is made of."""

    api: Api
    version: int
    correlation_id: int
    client: str | None
    body: Any  # kio's entity of this version; None: the version is not served, of ApiVersions alone

    def make(self, entity: str, **values: object) -> Any:
        """kio's entity of this name in the answer's schema, of which a version may lack some fields."""
        made = getattr(_answers(self.api, self.version), entity)
        return made(**{name: value for name, value in values.items() if name in made.__dataclass_fields__})


@cache
def _answers(api: Api, version: int) -> Any:
    return _index.load_payload_module(api, version, _EntityType.response)


def decode(frame: bytes) -> Request:
    """The request in a frame, without the length before it. Malformed: there is none that is served.

    ApiVersions alone is answered in any version, the unknown ones in version 0: a client begins with it.
    """
    if len(frame) < _KEY_AND_VERSION.size:
        raise Malformed(f"a request must have {_KEY_AND_VERSION.size} bytes at least, got {len(frame)}")
    key, version = _KEY_AND_VERSION.unpack_from(frame)
    try:
        api = Api(key)
    except ValueError:
        raise Malformed(f"API key must be among {', '.join(map(str, map(int, Api)))}, got {key}") from None
    if SERVED[api].oldest <= version <= SERVED[api].newest:
        kind = _index.load_request_schema(key, version)
        header, size = _read(kind.__header_schema__, frame, 0)
        body, body_size = _read(kind, frame, size)
        if size + body_size != len(frame):
            raise Malformed(f"{api.name} must end at {size + body_size}, got {len(frame)} bytes")
    elif api is Api.API_VERSIONS:
        header, _ = _read(_PlainHeader, frame, 0)  # newer ones begin with the same fields
        version, body = 0, None
    else:
        oldest, newest = SERVED[api]
        raise Malformed(f"{api.name}'s version must be between {oldest} and {newest}, got {version}")
    return Request(api, version, header.correlation_id, header.client_id, body)


def _read(kind: Any, frame: bytes, start: int) -> tuple[Any, int]:
    """An entity of this kind, and how many bytes it has."""
    try:
        if not kind.__flexible__:
            _skim(frame, start, _shape(kind), [MAX_ENTRIES])
        entity, size = _serial.entity_reader(kind)(frame, start)
    except Malformed:
        raise
    except Exception as error:  # kio has no one class for what can be wrong with bytes
        raise Malformed(f"{kind.__name__}: {error}") from error
    return entity, size


# kio reserves memory for as many entries as an array says that it has before it reads the first, and
# where there is not so much memory, the process is aborted. So the counts are looked at before.


@cache
def _shape(kind: Any) -> tuple[Any, ...]:
    """What the fields of an entity are, in order: a size, "string", "bytes", or a list: an array's shape."""
    shape: list[Any] = []
    for field in fields(kind):
        element = next((arg for arg in (field.type, *get_args(field.type)) if get_origin(arg) is tuple), None)
        inner = element and get_args(element)[0]
        if inner is not None and hasattr(inner, "__dataclass_fields__"):
            shape.append([*_shape(inner)])
        else:
            one = _plain(field.metadata["kafka_type"])
            shape.append(one if inner is None else [one])
    return tuple(shape)


def _plain(kafka_type: str) -> int | str:
    if kafka_type in ("string", "records", "bytes"):
        return "string" if kafka_type == "string" else "bytes"
    return _SIZES[kafka_type]


def _skim(frame: bytes, at: int, shape: Any, left: list[int]) -> int:
    """Where an entity ends that begins at `at`. Malformed: it has more entries than are left."""
    for field in shape:
        if isinstance(field, int):
            at += field
        elif isinstance(field, list):
            (count,), at = _COUNT.unpack_from(frame, at), at + _COUNT.size
            left[0] -= max(0, count)
            if left[0] < 0:
                raise Malformed(f"a request must have at most {MAX_ENTRIES} entries, got {count} and others")
            for _ in range(count):
                at = _skim(frame, at, field, left)
        else:
            form = _LENGTH if field == "string" else _COUNT
            (length,), at = form.unpack_from(frame, at), at + form.size
            at += max(0, length)
    return at


def encode(request: Request, response: Any) -> bytes:
    """The frame with this answer, with the length before it."""
    out = BytesIO()
    out.seek(_COUNT.size)
    header = type(response).__header_schema__
    _serial.entity_writer(header)(out, header(correlation_id=request.correlation_id))
    _serial.entity_writer(type(response))(out, response)
    frame = out.getbuffer()
    _COUNT.pack_into(frame, 0, len(frame) - _COUNT.size)
    frame.release()
    return out.getvalue()


_CODES: Mapping[type[errors.PartitionError], Any] = {
    errors.CorruptBatch: ErrorCode.corrupt_message,
    errors.FencedLeaderEpoch: ErrorCode.fenced_leader_epoch,
    errors.InvalidRequiredAcks: ErrorCode.invalid_required_acks,
    errors.InvalidTopic: ErrorCode.invalid_topic_exception,
    errors.LeaderNotAvailable: ErrorCode.leader_not_available,
    errors.NotEnoughReplicas: ErrorCode.not_enough_replicas,
    errors.NotEnoughReplicasAfterAppend: ErrorCode.not_enough_replicas_after_append,
    errors.NotLeaderOrFollower: ErrorCode.not_leader_or_follower,
    errors.OffsetOutOfRange: ErrorCode.offset_out_of_range,
    errors.RequestTimedOut: ErrorCode.request_timed_out,
    errors.StorageError: ErrorCode.kafka_storage_error,
    errors.TopicExists: ErrorCode.topic_already_exists,
    errors.UnknownLeaderEpoch: ErrorCode.unknown_leader_epoch,
    errors.UnknownTopicOrPartition: ErrorCode.unknown_topic_or_partition,
}


def error_code(error: errors.PartitionError) -> Any:
    """Kafka's number for it."""
    return _CODES[type(error)]
