"""The log in segments, against a list of rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")

from shards import SIZES, Disk  # noqa: E402

from tickwheel.spark.shards import segments  # noqa: E402
from tickwheel.spark.shards.segments import Segments, decode, encode  # noqa: E402

BATCHES = st.lists(st.tuples(st.integers(0, 20), st.floats(0, 1)), max_size=30)     # rows added, share kept


@given(BATCHES, SIZES, st.randoms(use_true_random=False))
def test_what_is_wanted_is_kept_and_the_rest_bounded(batches, sizes, rng):
    """Wanted rows are there once; all are at most twice those and MOST_LOOSE segments; rows are written again
    no more than the rows that came and went pay for."""
    segment_rows, most_loose = sizes
    disk = Disk()
    wanted = set()
    made = gone = put = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SEGMENT_ROWS", segment_rows)
        patch.setattr(segments, "MOST_LOOSE", most_loose)
        for batch, (add, share) in enumerate(batches, 1):
            log = Segments(disk)
            stored = [] if log.rows is None else log.rows["row"].to_pylist()
            assert len(stored) == len(set(stored))
            assert wanted <= set(stored)
            still = {row for row in sorted(wanted) if rng.random() < share}
            gone += len(wanted - still)
            fresh = range(made, made + add)
            made += add
            before = set(disk)
            mask = np.array([row in still for row in stored], bool)
            log.save(mask, pa.table({"row": pa.array(fresh, pa.int64())}))
            wanted = still | set(fresh)
            tables = {number: decode(data) for number, data in disk.items()}
            counts = [rows.num_rows for rows in tables.values()]
            assert sum(counts) <= 2 * len(wanted) + most_loose * segment_rows
            assert max(counts, default=0) <= segment_rows
            written = [row for number in tables.keys() - before for row in tables[number]["row"].to_pylist()]
            assert wanted >= set(written)
            put += len(written)
            assert put <= 2 * made + 2 * gone + batch * segment_rows / most_loose
        if disk and not wanted:
            log = Segments(disk)
            log.save(np.zeros(log.rows.num_rows, bool), None)
            assert not disk


def test_a_segment_is_written_once():
    """What is wanted stays in the bytes that it is in, unless few others there are."""
    disk = Disk()
    Segments(disk).save(None, pa.table({"row": np.arange(5000)}))
    before = dict(disk)
    assert [decode(data).num_rows for data in disk.values()] == [2048, 2048, 904]
    log = Segments(disk)
    log.save(np.arange(5000) % 2 == 0, pa.table({"row": [5000]}))
    assert {number: disk[number] for number in before} == before
    assert len(disk) == 4


def test_bytes_tell_what_they_are():
    """Of another version, cut short, without rows, or no segment at all: an error that says so."""
    data = encode(pa.table({"key": ["a", "b"], "at_us": [1, 2]}))
    assert decode(data).to_pydict() == {"key": ["a", "b"], "at_us": [1, 2]}
    with pytest.raises(ValueError, match=r"must begin with b'segment', got b'nothing'"):
        decode(b"nothing" + data[7:])
    with pytest.raises(ValueError, match=r"must be of version 1, got \[9\]"):
        decode(data[:7] + b"\x09" + data[8:])
    with pytest.raises(ValueError, match="must have rows"):
        decode(encode(pa.table({"key": pa.array([], pa.string())})))
    body = len(data) - 8    # Arrow's mark of the end may be missing
    for length in range(body):
        with pytest.raises(ValueError, match="a segment must"):
            decode(data[:length])
