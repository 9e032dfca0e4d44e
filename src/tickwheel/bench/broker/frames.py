"""The load's requests as bytes that kio has encoded, and where in the bytes of its answers is what.

A client that has kio encode and decode each request takes as much time as the broker does. All requests of a
kind are alike, so one is encoded, and numbers are written into it; answers are read at the places where kio
writes the same fields.
"""
from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

from tickwheel.extras import require
from tickwheel.replication.batches import cut

_EXTRA = ("bench broker", "broker")
_serial = require("kio.serial", *_EXTRA)
_records = require("kio.records.schema", *_EXTRA)
_write_batch = require("kio.records.writers", *_EXTRA).write_new_batch
_asks_produce = require("kio.schema.produce.v8.request", *_EXTRA)
_says_produce = require("kio.schema.produce.v8.response", *_EXTRA)
_asks_fetch = require("kio.schema.fetch.v10.request", *_EXTRA)
_says_fetch = require("kio.schema.fetch.v10.response", *_EXTRA)
_ErrorCode = require("kio.schema.errors", *_EXTRA).ErrorCode
_crc32c = require("crc32c", *_EXTRA).crc32c

MAX_WAIT_S = 0.5        # of a poll
VALUE = bytes(range(100))       # of a record; its first bytes become a `Record`
ACKS_ALL = -1
PRODUCE_TIMEOUT_S = 60.0
MOST_BYTES = 1 << 20    # of an answer to a fetch

LENGTH = struct.Struct(">i")
CORRELATION = struct.Struct(">i")
_ERROR = struct.Struct(">h")
_OFFSET = struct.Struct(">q")
_CRC = struct.Struct(">I")
_RECORD = struct.Struct(">qq")

_ASKED_BY = LENGTH.size + 4     # the correlation id of a request, behind API key and version
ANSWERED_BY = LENGTH.size       # that of an answer, of which the length is still there
_CRC_AT = 17            # in a batch; it covers all behind it


class Record(NamedTuple):
    """What is in a record's value."""

    planned_ns: int         # of the system's monotonic clock
    number: int             # of the request that brought it


class Produce:
    """Requests that bring one record to a partition, with acks=all."""

    def __init__(self, topic: str, partition: int) -> None:
        batch = _batch()
        self._frame = _request(_asks_produce.ProduceRequest(
            transactional_id=None,
            acks=ACKS_ALL,
            timeout=timedelta(seconds=PRODUCE_TIMEOUT_S),
            topic_data=(_asks_produce.TopicProduceData(name=topic, partition_data=(
                _asks_produce.PartitionProduceData(index=partition, records=batch),
            )),),
        ))
        at = self._frame.index(batch)
        self._crc_at, self._end = at + _CRC_AT, at + len(batch)
        self._value_at = at + VALUE_AT
        answer = partial(_produced, topic, partition)
        self._error_at = _place(_ERROR, answer(_ErrorCode.none), answer(_OTHER_ERROR))

    def frame(self, correlation_id: int, record: Record) -> bytes:
        frame = bytearray(self._frame)
        CORRELATION.pack_into(frame, _ASKED_BY, correlation_id)
        _RECORD.pack_into(frame, self._value_at, *record)
        covered = memoryview(frame)[self._crc_at + _CRC.size : self._end]
        _CRC.pack_into(frame, self._crc_at, _crc32c(covered))
        return bytes(frame)

    def error(self, answer: bytes) -> int:
        """The error code in an answer, 0 where there is none."""
        code: int = _ERROR.unpack_from(answer, self._error_at)[0]
        return code


class Fetch:
    """Requests that poll a partition for its next record."""

    def __init__(self, topic: str, partition: int) -> None:
        def request(offset: int) -> bytes:
            return _request(_asks_fetch.FetchRequest(
                max_wait=timedelta(seconds=MAX_WAIT_S),
                min_bytes=1,
                max_bytes=MOST_BYTES,
                topics=(_asks_fetch.FetchTopic(topic=topic, partitions=(
                    _asks_fetch.FetchPartition(
                        partition=partition, fetch_offset=offset, partition_max_bytes=MOST_BYTES
                    ),
                )),),
                forgotten_topics_data=(),
            ))

        self._frame = request(0)
        self._offset_at = _place(_OFFSET, self._frame, request(1))
        none, other = (_fetched(topic, partition, code) for code in (_ErrorCode.none, _OTHER_ERROR))
        self._error_at = _place(_ERROR, none, other)
        self._records_at = len(none)

    def frame(self, correlation_id: int, offset: int) -> bytes:
        frame = bytearray(self._frame)
        CORRELATION.pack_into(frame, _ASKED_BY, correlation_id)
        _OFFSET.pack_into(frame, self._offset_at, offset)
        return bytes(frame)

    def error(self, answer: bytes) -> int:
        """The error code in an answer, 0 where there is none."""
        code: int = _ERROR.unpack_from(answer, self._error_at)[0]
        return code

    def records(self, answer: bytes) -> Iterator[tuple[int, Record]]:
        """The records in an answer, each with the offset behind it."""
        run = memoryview(answer)[self._records_at :]
        for batch in cut(run, check=False):
            yield batch.end_offset, Record(*_RECORD.unpack_from(run, batch.start + VALUE_AT))


def _batch() -> bytes:
    """A batch of one record."""
    record = _records.Record(
        attributes=0, timestamp=datetime.fromtimestamp(0, UTC), offset=0, key=None, value=VALUE, headers=()
    )
    out = BytesIO()
    _write_batch(out, _records.NewRecordBatch(
        producer_id=-1, producer_epoch=-1, base_sequence=-1, partition_leader_epoch=-1, attributes=0,
        records=(record,),
    ))
    return out.getvalue()


def _request(entity: Any) -> bytes:
    kind = type(entity)
    return _framed(kind.__header_schema__(
        request_api_key=kind.__api_key__,
        request_api_version=kind.__version__,
        correlation_id=0,
        client_id="load",
    ), entity)


def _produced(topic: str, partition: int, error: Any) -> bytes:
    """An answer to a produce, as a broker writes it."""
    return _response(_says_produce.ProduceResponse(
        responses=(_says_produce.TopicProduceResponse(name=topic, partition_responses=(
            _says_produce.PartitionProduceResponse(
                index=partition, error_code=error, base_offset=0, log_append_time=None, record_errors=()
            ),
        )),),
        throttle_time=timedelta(0),
    ))


def _fetched(topic: str, partition: int, error: Any) -> bytes:
    """An answer to a fetch, as a broker writes it, without records: those end it."""
    return _response(_says_fetch.FetchResponse(
        throttle_time=timedelta(0),
        error_code=_ErrorCode.none,
        responses=(_says_fetch.FetchableTopicResponse(topic=topic, partitions=(
            _says_fetch.PartitionData(
                partition_index=partition,
                error_code=error,
                high_watermark=0,
                aborted_transactions=None,
                records=b"",
            ),
        )),),
    ))


def _response(entity: Any) -> bytes:
    return _framed(type(entity).__header_schema__(correlation_id=0), entity)


def _framed(header: Any, entity: Any) -> bytes:
    out = BytesIO()
    _serial.entity_writer(type(header))(out, header)
    _serial.entity_writer(type(entity))(out, entity)
    return LENGTH.pack(len(out.getvalue())) + out.getvalue()


def _place(form: struct.Struct, one: bytes, other: bytes) -> int:
    """Where the number is in whose last byte these two differ."""
    [last] = (at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    return last + 1 - form.size


VALUE_AT = _batch().index(VALUE)        # in a batch
_OTHER_ERROR = _ErrorCode.request_timed_out
