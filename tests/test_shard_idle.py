"""Idle: intervals of activity, against a sorted list of each key's times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")

from shards import KEYS, SIZES, Fickle, Shard, accepted, streams, us  # noqa: E402

from tickwheel.spark.shards.idle import Idle  # noqa: E402

ROWS = st.tuples(st.integers(-3, 30), st.integers(0, 3))    # at, key
TIMEOUTS = st.integers(0, 12)
END = 10**6


def table(rows, key=KEYS["strings"]):
    if not rows:
        return None
    return pa.table({"key": [key(k) for _, k in rows], "at_us": pa.array([at for at, _ in rows], pa.int64())})


def oracle(rows, timeout, until, key):
    """The intervals that are over, of all rows."""
    found = []
    for k in {k for _, k in rows}:
        first = last = None
        for at in [*sorted({at for at, other in rows if other == k}), END + 2 * timeout + 1]:
            if last is not None and at - last >= timeout:
                if last + timeout <= until:
                    found.append((last + timeout, key(k), first, last))
                first = None
            first = at if first is None else first
            last = at
    return sorted(found)


def given_out(rows):
    return [(us(row["idle_at"]), row["key"], us(row["first_seen"]), us(row["last_seen"])) for row in rows]


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@given(streams(ROWS), TIMEOUTS, SIZES)
def test_each_interval_is_given_out_once_when_it_is_over(key, batches, timeout, sizes):
    """After each batch, what has come out is what the rows so far, late ones left out, say is over."""
    shard = Shard(Idle(timeout), *sizes)
    for (batch, watermark), (rows, until) in zip(batches, accepted(batches), strict=True):
        output = given_out(shard.play(table(batch, key), watermark))
        assert output == sorted(output)
        assert sorted(given_out(shard.output)) == oracle(rows, timeout, until, key)
        if shard.progress.next_us is not None:
            shard.check_bounds()
    shard.play(None, END)
    assert sorted(given_out(shard.output)) == oracle(rows, timeout, END, key)
    assert shard.stored() == {"active": 0}
    assert shard.progress.next_us is None


@given(st.lists(ROWS, max_size=40), TIMEOUTS, st.data())
def test_neither_order_nor_batches_matter(rows, timeout, data):
    """Rows in any order within the watermark give the same intervals as all at once."""
    rest = data.draw(st.permutations(rows))
    shard = Shard(Idle(timeout), 4, 2)
    while rest:
        cut = data.draw(st.integers(1, 6))
        batch, rest = rest[:cut], rest[cut:]
        behind = data.draw(st.integers(1, 10))
        shard.play(table(batch), min((at for at, _ in rest), default=100) - behind)
    shard.play(None, END)
    assert sorted(given_out(shard.output)) == oracle(rows, timeout, END, KEYS["strings"])


@given(streams(ROWS), TIMEOUTS, st.integers())
def test_rows_no_longer_wanted_may_stay_or_go(batches, timeout, seed):
    """The intervals are the same whichever of the rows that are not wanted are still in the log."""
    fickle = Fickle(Idle(timeout), seed)
    for (batch, watermark), (rows, until) in zip(batches, accepted(batches), strict=True):
        fickle.play(table(batch), watermark)
        assert sorted(given_out(fickle.output)) == oracle(rows, timeout, until, KEYS["strings"])


def test_silence_of_exactly_the_timeout_is_idle():
    """Half-open: a row at last + timeout begins the next interval; one before it belongs to this."""
    shard = Shard(Idle(10))
    shard.play(table([(0, 1), (9, 1), (19, 1), (28, 1)]), 100)
    assert given_out(shard.output) == [(19, "key-1", 0, 9), (38, "key-1", 19, 28)]


def test_a_straggler_bridges_two_intervals():
    """Rows that come late, but not behind the watermark, make one interval of what were two."""
    shard = Shard(Idle(10))
    shard.play(table([(1, 1), (20, 1)]), 2)
    assert shard.progress.next_us == 11
    shard.play(table([(11, 1), (10, 1)]), 10)
    assert shard.progress.next_us == 30
    assert given_out(shard.play(None, 30)) == [(30, "key-1", 1, 20)]


def test_a_batch_writes_what_it_adds():
    """With 200,000 keys pending, batches of 100 rows put bytes for about 100 rows."""
    shard = Shard(Idle(10**9))
    n = 200_000
    shard.play(pa.table({"key": [f"client-{i:06}" for i in range(n)], "at_us": np.arange(n)}), -1)
    pending = shard.put_bytes()
    most = total = 0
    for batch in range(40):
        before = shard.put_bytes()
        keys = [f"client-{i * 1999 % n:06}" for i in range(100 * batch, 100 * batch + 100)]
        shard.play(pa.table({"key": keys, "at_us": np.full(100, n + batch)}), n + batch - 1)
        most = max(most, shard.put_bytes() - before)
        total += shard.put_bytes() - before
    assert total < 3 * pending * 40 * 100 / n + 40 * 1000, "a row twice at most, and a head"
    assert most < pending / 50, "17 small segments at once"


def test_settings_name_the_timeout():
    """What must not change while there is state."""
    assert Idle(1_500_000).settings == "timeout 1500000 us"
