"""One replica's log: what is appended is read back, whatever the segments; what is torn is cut off."""

import pytest
from batchmaker import batch
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.records.readers import read_batch

from tickwheel.replication import segment
from tickwheel.replication.batches import HEADER_SIZE, CorruptBatch, cut, stamp
from tickwheel.replication.log import Log, OffsetOutOfRange, Position


def values_of(data):
    """What kio reads in a run of batches: (offset, value) of each record."""
    found, position = [], 0
    while position < len(data):
        read, size = read_batch(bytes(data), position)
        found += [(record.offset, record.value) for record in read.records]
        position += size
    return found


def add(log, *values, epoch=0, timestamp_ms=0):
    log.append(*stamp(batch(*values, timestamp_ms=timestamp_ms), log.end_offset, epoch))


def all_of(log, max_bytes=1000):
    found, offset = [], log.start_offset
    while offset < log.end_offset:
        records = values_of(log.read(offset, max_bytes))
        found += records
        offset = records[-1][0] + 1
    return found


def test_kio_reads_what_is_stamped():
    """Offsets and epoch are stamped outside the checksum: a well-kept reader accepts the batch."""
    data, (first, second) = stamp(batch(b"a", b"b") + batch(b"c"), 40, 7)
    assert values_of(data) == [(40, b"a"), (41, b"b"), (42, b"c")]
    assert (first.base_offset, second.base_offset, second.end_offset, second.leader_epoch) == (40, 42, 43, 7)


@pytest.mark.parametrize("at", range(12, 80, 3))
def test_a_changed_byte_is_found(at):
    """A batch whose bytes are not what its maker wrote is refused; the stamp, bytes 0 to 15, is ours."""
    data = bytearray(batch(b"a value of some length", b"and another"))
    data[at] ^= 0x55
    if 12 <= at < 16:
        assert list(cut(data))
    else:
        with pytest.raises(CorruptBatch):
            list(cut(data))


def test_a_run_that_breaks_off_is_refused():
    """What comes before the break is cut; the rest is named."""
    data = batch(b"a") + batch(b"b")
    for length in range(len(batch(b"a")) + 1, len(data)):
        batches = cut(data[:length])
        assert next(batches).size == len(batch(b"a"))
        with pytest.raises(CorruptBatch, match=r"must (have|be)"):
            next(batches)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.binary(max_size=200), min_size=1, max_size=5), max_size=30),
    st.integers(1, 2000),
    st.integers(1, 3000),
    st.data(),
)
def test_what_is_appended_is_read_back(tmp_path_factory, runs, segment_bytes, max_bytes, data):
    """L1, L2: also after it was closed and opened, and after a truncation at any offset."""
    folder = tmp_path_factory.mktemp("log")
    wanted = []
    with Log(folder, segment_bytes=segment_bytes) as log:
        for values in runs:
            wanted += list(enumerate(values, len(wanted)))
            add(log, *values)
        assert all_of(log, max_bytes) == wanted
    with Log(folder, segment_bytes=segment_bytes) as log:
        assert all_of(log, max_bytes) == wanted
        offset = data.draw(st.integers(0, len(wanted)))
        log.truncate(offset)
        assert log.end_offset <= offset
        wanted = wanted[: log.end_offset]
        assert all_of(log, max_bytes) == wanted
        add(log, b"after")
        wanted.append((len(wanted), b"after"))
        assert all_of(log, max_bytes) == wanted
    with Log(folder) as log:
        assert all_of(log, max_bytes) == wanted


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 50)), max_size=25), st.integers(1, 400), st.data()
)
def test_the_index_finds_what_a_scan_finds(tmp_path_factory, batches, index_every, data):
    """By offset and by time, with any distance between entries; after truncation and opening too."""
    folder = tmp_path_factory.mktemp("log")
    there = []  # (base offset, end offset, timestamp)

    def add_all(log):
        for records, timestamp_ms in batches:
            there.append((log.end_offset, log.end_offset + records, timestamp_ms))
            add(log, *[b"value"] * records, timestamp_ms=timestamp_ms)

    def check(log):
        starts = {}
        for base, end, _ in there:
            starts |= dict.fromkeys(range(base, end), base)
        for offset, base in starts.items():
            assert values_of(log.read(offset, 1))[0][0] == base
        for ms in range(52):
            late = ((base, timestamp_ms) for base, _, timestamp_ms in there if timestamp_ms >= ms)
            assert log.offset_since(ms) == next(late, None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "INDEX_EVERY", index_every)
        with Log(folder, segment_bytes=700) as log:
            add_all(log)
            check(log)
            log.truncate(data.draw(st.integers(0, log.end_offset)))
            there[:] = [batch for batch in there if batch[1] <= log.end_offset]
            check(log)
            add_all(log)
            check(log)
        with Log(folder) as log:
            check(log)


def test_a_torn_tail_is_cut_off(tmp_path):
    """Recovery keeps each whole batch, wherever the file breaks off; the next append follows it."""
    log = Log(tmp_path)
    ends = [0]
    for values in ([b"a"], [b"b", b"c"], [b"d" * 300]):
        add(log, *values)
        ends.append(log.size)
    log.close()
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        kept = max(number for number, end in enumerate(ends) if end <= length)
        with Log(tmp_path) as torn:
            assert torn.end_offset == (0, 1, 3, 4)[kept]
            assert torn.size == ends[kept] == path.stat().st_size


def test_a_tail_of_rubbish_is_cut_off(tmp_path):
    """A last batch whose checksum is wrong is none, nor is one that does not follow."""
    with Log(tmp_path) as log:
        add(log, b"a")
        size = log.size
        path = next(tmp_path.iterdir())
    good = path.read_bytes()
    rubbish = bytearray(stamp(batch(b"b"), 1, 0)[0])
    rubbish[-1] ^= 1
    for tail in (rubbish, stamp(batch(b"b"), 2, 0)[0], bytes(500), b"\xff" * 500):
        path.write_bytes(good + tail)
        with Log(tmp_path) as log:
            assert (log.end_offset, log.size) == (1, size)


def test_an_append_that_fails_leaves_the_log_as_it_was(tmp_path, monkeypatch):
    """L3: a disk that is full in the middle of a batch leaves nothing of it."""
    with Log(tmp_path) as log:
        add(log, b"a")
        last = log._segments[-1]
        size, file = log.size, last._file

        class Full:
            def write(self, data):
                return file.write(data[: len(data) // 2])

            def __getattr__(self, name):
                return getattr(file, name)

        monkeypatch.setattr(last, "_file", Full())
        with pytest.raises(OSError, match="No space left"):
            add(log, b"b")
        monkeypatch.undo()
        assert (log.end_offset, log.size, last.path.stat().st_size) == (1, size, size)
        add(log, b"c")
        assert all_of(log) == [(0, b"a"), (1, b"c")]


def test_reading_stops_below_until(tmp_path):
    """A batch of which a record is at or above `until` is not given out: a consumer sees no further."""
    with Log(tmp_path) as log:
        add(log, b"a")
        add(log, b"b", b"c")
        add(log, b"d")
        assert values_of(log.read(0, 10_000, until=3)) == [(0, b"a"), (1, b"b"), (2, b"c")]
        assert values_of(log.read(0, 10_000, until=2)) == [(0, b"a")]
        assert log.read(1, 10_000, until=2) == b""
        assert values_of(log.read(2, 1)) == [(1, b"b"), (2, b"c")], "L2: from the batch on that has it, whole"
        assert log.read(4, 10_000) == b""
        for offset in (-1, 5):
            with pytest.raises(OffsetOutOfRange, match=f"between 0 and 4, got {offset}"):
                log.read(offset, 10_000)


def test_positions_tell_how_many_bytes_lie_between(tmp_path):
    """Within a segment bytes can be subtracted; a position in a later one is greater."""
    with Log(tmp_path, segment_bytes=200) as log:
        add(log, b"a")
        add(log, b"b")
        size = len(batch(b"a"))
        assert [log.position(offset) for offset in range(3)] == [
            Position(0, 0),
            Position(0, size),
            Position(0, 2 * size),
        ]
        add(log, b"c")
        assert log.position(2) == Position(2, 0) > Position(0, 2 * size)
        assert log.end == Position(2, size) == log.position(3)


def test_epochs_end_where_the_next_begins(tmp_path):
    """P5: found anew when the log is opened, and forgotten with what is truncated."""
    with Log(tmp_path) as log:
        assert (log.last_epoch, log.end_of_epoch(5)) == (-1, (-1, 0))
        for epoch in (1, 1, 4):
            add(log, b"a", b"b", epoch=epoch)
    with Log(tmp_path) as log:
        assert [log.end_of_epoch(epoch) for epoch in (0, 1, 3, 4, 9)] == [
            (-1, 0),
            (1, 4),
            (1, 4),
            (4, 6),
            (4, 6),
        ]
        log.truncate(4)
        assert (log.last_epoch, log.end_of_epoch(9)) == (1, (1, 4))


def test_offsets_are_found_by_time(tmp_path):
    """The first batch that has a record so late."""
    with Log(tmp_path, segment_bytes=HEADER_SIZE) as log:
        for timestamp_ms in (10, 30, 20, 40):
            add(log, b"a", timestamp_ms=timestamp_ms)
        assert [log.offset_since(ms) for ms in (0, 11, 31, 41)] == [(0, 10), (1, 30), (3, 40), None]


def test_a_segment_that_follows_nothing_is_dropped(tmp_path):
    """L1: what comes after a hole cannot be read in order, and is not kept."""
    with Log(tmp_path, segment_bytes=HEADER_SIZE) as log:
        for value in (b"a", b"b", b"c"):
            add(log, value)
    (tmp_path / f"{1:020}.log").write_bytes(b"")
    with Log(tmp_path) as log:
        assert all_of(log) == [(0, b"a")]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{0:020}.log", f"{1:020}.log"]
