"""Requests and answers as bytes: what kio's client side writes is read, and nothing else is."""

import asked
import pytest
from entities import entities
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kioclient import answer, frame

from tickwheel.replication import errors
from tickwheel.replication.wire import SERVED, Api, Malformed, decode, encode, error_code

VERSIONS = [(api, version) for api, (low, high) in SERVED.items() for version in range(low, high + 1)]


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=lambda value: getattr(value, "name", value))
@settings(max_examples=settings.default.max_examples // 5)
@given(data=st.data())
def test_what_a_client_writes_is_read(api, version, data):
    """Each request that is served, in each version, whatever is in its fields."""
    entity = data.draw(entities(load_request_schema(api, version)))
    request = decode(frame(entity, 77)[4:])
    assert (request.api, request.version, request.correlation_id) == (api, version, 77)
    assert (request.client, request.body) == ("a test", entity)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_a_request(data):
    """Whatever comes, it is a request or Malformed."""
    try:
        assert decode(data).api in SERVED
    except Malformed:
        pass


@given(st.sampled_from(VERSIONS), st.data())
def test_a_broken_request_is_refused_or_another_one(which, data):
    """Bytes of a request that are changed, lost or added: read as a request of this API, or Malformed."""
    written = bytearray(frame(data.draw(entities(load_request_schema(*which))))[4:])
    for at, byte in data.draw(st.lists(st.tuples(st.integers(4, 60), st.integers(0, 255)), max_size=4)):
        written[at : at + 1] = bytes([byte])
    end = data.draw(st.integers(4, len(written)))
    try:
        assert decode(bytes(written[:end])).api == which[0]
    except Malformed:
        pass


METADATA = frame(asked.metadata("a"))[4:]
COUNT = METADATA.index(b"\0\0\0\1\0\1a")
CORPUS = {
    "nothing": (b"", "a request must have 4 bytes at least, got 0"),
    "half a header": (METADATA[:6], "RequestHeader"),
    "an unknown API": (
        b"\0\x42" + METADATA[2:],
        "API key must be among 0, 1, 2, 3, 9, 10, 11, 18, 19, got 66",
    ),
    "a negative API": (b"\xff\xff" + METADATA[2:], "API key must be among .*, got -1"),
    "an old version": (
        METADATA[:2] + b"\0\4" + METADATA[4:],
        "METADATA's version must be between 5 and 5, got 4",
    ),
    "a new version": (
        METADATA[:2] + b"\0\6" + METADATA[4:],
        "METADATA's version must be between 5 and 5, got 6",
    ),
    "too short": (METADATA[:-1], "MetadataRequest"),
    "too long": (METADATA + b"\0", f"METADATA must end at {len(METADATA)}, got {len(METADATA) + 1} bytes"),
    "no text": (METADATA.replace(b"\0\1a", b"\0\1\xff"), "MetadataRequest: .*UTF-8"),
    "a text that is longer": (METADATA.replace(b"\0\1a", b"\x7f\1a"), "MetadataRequest"),
    "more topics than can be": (
        METADATA[:COUNT] + b"\x7f\xff\xff\xff" + METADATA[COUNT + 4 :],
        "a request must have at most 100000 entries, got 2147483647",
    ),
    "more topics than are": (METADATA[:COUNT] + b"\0\0\0\2" + METADATA[COUNT + 4 :], "MetadataRequest"),
    "fewer than none": (METADATA[:COUNT] + b"\xff\xff\xff\xfe" + METADATA[COUNT + 4 :], "MetadataRequest"),
}


@pytest.mark.parametrize(("data", "reason"), CORPUS.values(), ids=CORPUS)
def test_a_malformed_request_is_refused(data, reason):
    """Each kind of nonsense is named."""
    with pytest.raises(Malformed, match=reason):
        decode(data)


def test_the_entries_of_all_arrays_count():
    """A partition's entry is one of the request's, in whichever topic it is."""
    offsets = {f"topic-{number}": dict.fromkeys(range(1000), 0) for number in range(99)}
    assert len(decode(frame(asked.fetch(offsets))[4:]).body.topics) == 99
    offsets["one more"] = dict.fromkeys(range(1000), 0)
    with pytest.raises(Malformed, match="at most 100000 entries"):
        decode(frame(asked.fetch(offsets))[4:])


@pytest.mark.parametrize("version", [-1, 4, 99])
def test_api_versions_is_read_in_any_version(version):
    """A client begins with its newest, whose body nobody here can read: it is taken as version 0."""
    data = bytearray(frame(asked.api_versions(3))[4:])
    data[2:4] = version.to_bytes(2, "big", signed=True)
    request = decode(bytes(data))
    assert (request.api, request.version, request.body) == (Api.API_VERSIONS, 0, None)
    assert request.correlation_id == 7


@pytest.mark.parametrize("version", range(3, 9))
def test_an_answer_is_in_the_version_of_its_request(version):
    """What a version does not have is left out; the frame begins with its length."""
    entity = asked.produce({"a": {0: b""}}, version=version)
    request = decode(frame(entity, 99)[4:])
    partition = request.make(
        "PartitionProduceResponse",
        index=3,
        error_code=ErrorCode.none,
        base_offset=5,
        log_append_time=None,
        log_start_offset=2,
        record_errors=(),
        error_message="none",
    )
    topic = request.make("TopicProduceResponse", name="a", partition_responses=(partition,))
    written = encode(request, request.make("ProduceResponse", responses=(topic,)))
    assert int.from_bytes(written[:4], "big") == len(written) - 4
    (read,) = answer(entity, written[4:], 99).responses[0].partition_responses
    assert (read.index, read.base_offset) == (3, 5)
    assert getattr(read, "log_start_offset", None) == (2 if version >= 5 else None)
    assert getattr(read, "error_message", None) == ("none" if version >= 8 else None)


@pytest.mark.parametrize("error", errors.PartitionError.__subclasses__(), ids=lambda error: error.__name__)
def test_each_error_has_kafkas_number(error):
    """Whatever a partition may answer, the protocol has a code of its own for it."""
    code = error_code(error("why"))
    others = [other for other in errors.PartitionError.__subclasses__() if other is not error]
    assert code not in {ErrorCode.none, ErrorCode.unknown_server_error}
    assert code not in {error_code(other("why")) for other in others}
