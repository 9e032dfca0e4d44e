"""Ordering: rows by time, numbered by key, against one sort of all rows."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")

from shards import KEYS, SIZES, Fickle, Shard, accepted, streams  # noqa: E402

from tickwheel.spark.shards.ordering import Ordering  # noqa: E402

NOTES = st.sampled_from(["", "x", "y", None])
ROWS = st.tuples(st.integers(-3, 30), st.integers(0, 3), NOTES)    # at, key
END = 10**6
COLUMNS = ["note", "who", "tags"]


def table(rows, key=KEYS["strings"]):
    if not rows:
        return None
    at, keys, notes = zip(*rows, strict=True)
    return pa.table(
        {
            "at_us": pa.array(at, pa.int64()),
            "who": [key(k) for k in keys],
            "note": pa.array(notes, pa.string()),
            "tags": pa.array([[note] for note in notes], pa.list_(pa.string())),
        }
    )


def oracle(rows, until, key):
    """All rows up to `until` in order, numbered."""
    counts = Counter()
    found = []
    for at, k, note in sorted(rows, key=lambda row: (row[0], row[2] is None, row[2] or "", key(row[1]))):
        if at <= until:
            counts[k] += 1
            found.append({"note": note, "who": key(k), "tags": [note], "sequence": counts[k]})
    return found


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@given(streams(ROWS), SIZES)
def test_rows_come_in_order_and_numbered(key, batches, sizes):
    """After each batch, what has come out is the rows up to the watermark, late ones left out, in order."""
    shard = Shard(Ordering("who", COLUMNS), *sizes)
    for (batch, watermark), (rows, until) in zip(batches, accepted(batches), strict=True):
        shard.play(table(batch, key), watermark)
        assert shard.output == oracle(rows, until, key)
        if shard.progress.next_us is not None:
            shard.check_bounds()
    shard.play(None, END)
    assert shard.output == oracle(rows, END, key)
    assert shard.stored()["waiting"] == 0
    assert shard.progress.next_us is None


@given(st.lists(ROWS, max_size=40), st.data())
def test_neither_order_nor_batches_matter(rows, data):
    """Rows in any order within the watermark come out as if all had come at once."""
    rest = data.draw(st.permutations(rows))
    shard = Shard(Ordering("who", COLUMNS), 4, 2)
    while rest:
        cut = data.draw(st.integers(1, 6))
        batch, rest = rest[:cut], rest[cut:]
        shard.play(table(batch), min((at for at, *_ in rest), default=100) - data.draw(st.integers(1, 10)))
    shard.play(None, END)
    assert shard.output == oracle(rows, END, KEYS["strings"])


@given(streams(ROWS), st.integers())
def test_rows_no_longer_wanted_may_stay_or_go(batches, seed):
    """Order and numbers are the same whichever of the rows that are not wanted are still in the logs."""
    fickle = Fickle(Ordering("who", COLUMNS), seed)
    for (batch, watermark), (rows, until) in zip(batches, accepted(batches), strict=True):
        fickle.play(table(batch), watermark)
        assert fickle.output == oracle(rows, until, KEYS["strings"])


def test_one_count_a_key_is_kept():
    """The counts stored are bounded by the keys, however many rows there have been."""
    shard = Shard(Ordering("who", COLUMNS), 8, 2)
    for batch in range(200):
        shard.play(table([(batch, batch % 5, "x")]), batch)
        assert shard.wanted["counts"] == min(batch + 1, 5)
    assert shard.stored()["counts"] <= 2 * 5 + 8 * 2
    assert shard.output[-1]["sequence"] == 40


def test_columns_of_any_type_pass_through():
    """The payload's types are those that came, also of columns by which nothing is sorted."""
    rows = pa.table(
        {
            "k": [1, 1],
            "at_us": [7, 7],
            "struct": [{"a": 2}, {"a": 1}],
            "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
            "nothing": pa.nulls(2),
            "number": [float("nan"), 0.5],
        }
    )
    columns = ["k", "struct", "map", "nothing", "number"]
    shard = Shard(Ordering("k", columns))
    shard.play(rows, 6)
    output = shard.play(None, 7)
    first = {"k": 1, "struct": {"a": 1}, "map": None, "nothing": None, "number": 0.5, "sequence": 1}
    assert output[0] == first
    assert output[1]["struct"] == {"a": 2}


def test_a_batch_writes_what_it_adds():
    """With 200,000 rows that wait, batches of 100 rows put bytes for about 100 rows."""
    n = 200_000

    def rows(at):
        keys = [f"client-{i:06}" for i in at.tolist()]
        return pa.table({"k": keys, "at_us": at})

    shard = Shard(Ordering("k", ["k"]))
    shard.play(rows(n + np.arange(n)), -1)
    pending = shard.put_bytes()
    for batch in range(40):
        shard.play(rows(np.arange(batch * 100, batch * 100 + 100)), batch * 100 + 99)
        assert shard.put_bytes() - pending < 3 * pending * (batch + 1) * 100 / n + (batch + 1) * 2000
    assert len(shard.output) == 4000


def test_settings_name_key_and_columns():
    """What must not change while there is state."""
    assert Ordering("who", COLUMNS).settings == "key 'who', columns ['note', 'who', 'tags']"
