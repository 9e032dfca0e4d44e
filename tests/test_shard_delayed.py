"""Delayed: one outcome an operation, against a few plain lines over all rows."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")

from shards import KEYS, SIZES, Fickle, Shard, accepted, streams, us  # noqa: E402

from tickwheel.spark.shards.delayed import Delayed  # noqa: E402

REQUEST = st.integers(0, 25) | st.integers(0, 100)          # its timeout
ROWS = st.tuples(st.integers(-3, 30), st.integers(0, 2), st.none() | REQUEST)   # at, id, timeout
DELAYS = st.integers(0, 8)
END = 10**6


def table(rows, key=KEYS["strings"]):
    if not rows:
        return None
    deadlines = [None if timeout is None else at + timeout for at, _, timeout in rows]
    return pa.table(
        {
            "id": [key(k) for _, k, _ in rows],
            "at_us": pa.array([at for at, _, _ in rows], pa.int64()),
            "deadline_us": pa.array(deadlines, pa.int64()),
        }
    )


def oracle(rows, delay, until, key):
    """The operations that are decided, of all rows: [(instant, id, requested, deadline, completed)]."""
    found = []
    for k in {k for _, k, _ in rows}:
        mine = [(at, timeout) for at, other, timeout in rows if other == k]
        requests = sorted((at, at + timeout) for at, timeout in mine if timeout is not None)
        completions = [at for at, timeout in mine if timeout is None]
        before = None
        while requests:
            at, deadline = requests[0]
            counting = [c for c in completions if at - delay <= c <= deadline]
            completed = min((c for c in counting if before is None or c > before), default=None)
            before = deadline if completed is None else max(at, completed)
            found.append((before, key(k), at, deadline, completed))
            requests = [request for request in requests if request[0] > before + delay]
    return sorted((one for one in found if one[0] <= until), key=str)


def given_out(rows):
    found = []
    for row in rows:
        at, deadline = us(row["requested_at"]), us(row["deadline"])
        completed = None if row["completed_at"] is None else us(row["completed_at"])
        assert row["outcome"] == ("expired" if completed is None else "completed")
        instant = deadline if completed is None else max(at, completed)
        found.append((instant, row["id"], at, deadline, completed))
    return found


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@given(streams(ROWS), DELAYS, SIZES)
def test_each_operation_has_one_outcome(key, batches, delay, sizes):
    """After each batch, what has come out is what the rows so far, late ones left out, say is decided."""
    shard = Shard(Delayed(delay), *sizes)
    for (batch, watermark), (rows, until) in zip(batches, accepted(batches), strict=True):
        output = given_out(shard.play(table(batch, key), watermark))
        assert [one[:2] for one in output] == sorted(one[:2] for one in output)
        assert sorted(given_out(shard.output), key=str) == oracle(rows, delay, until, key)
        if shard.progress.next_us is not None:
            shard.check_bounds()
    shard.play(None, END)
    assert sorted(given_out(shard.output), key=str) == oracle(rows, delay, END, key)
    assert set(shard.stored().values()) == {0}
    assert shard.progress.next_us is None


@given(st.lists(ROWS, max_size=40), DELAYS, st.data())
def test_neither_order_nor_batches_matter(rows, delay, data):
    """Rows in any order within the watermark give the same outcomes as all at once."""
    rest = data.draw(st.permutations(rows))
    shard = Shard(Delayed(delay), 4, 2)
    while rest:
        cut = data.draw(st.integers(1, 6))
        batch, rest = rest[:cut], rest[cut:]
        shard.play(table(batch), min((at for at, *_ in rest), default=200) - data.draw(st.integers(1, 10)))
    shard.play(None, END)
    assert sorted(given_out(shard.output), key=str) == oracle(rows, delay, END, KEYS["strings"])


@given(streams(ROWS), DELAYS, st.integers())
@example([([(1, 0, 90)], 0), ([(3, 0, None)], 3), ([], 11), ([(20, 1, 90)], 12), ([], 13), ([], 95)], 5, 0)
def test_rows_no_longer_wanted_may_stay_or_go(batches, delay, seed):
    """The outcomes are the same whichever of the rows that are not wanted are still in the logs."""
    fickle = Fickle(Delayed(delay), seed)
    for (batch, watermark), (rows, until) in zip(batches, accepted(batches), strict=True):
        fickle.play(table(batch), watermark)
        assert sorted(given_out(fickle.output), key=str) == oracle(rows, delay, until, KEYS["strings"])


def play(delay, *batches):
    """What each batch gives out."""
    shard = Shard(Delayed(delay))
    return [given_out(shard.play(table(rows), watermark)) for rows, watermark in batches], shard


def test_a_completion_at_the_deadline_wins():
    """As in `replay`: at the deadline is in time, after it is not."""
    outputs, _ = play(0, ([(1, 1, 9), (10, 1, None), (1, 2, 9), (11, 2, None)], 50))
    assert outputs == [[(10, "key-1", 1, 10, 10), (10, "key-2", 1, 10, None)]]


def test_a_completion_may_come_batches_before_its_request():
    """It is kept until `delay` after its time, within which its request may be stamped."""
    early = [(10, 1, None), (10, 2, None)]
    outputs, shard = play(5, (early, 9), ([(15, 3, None)], 14), ([(15, 1, 9), (16, 2, 9)], 15), ([], 25))
    assert outputs == [[], [], [(15, "key-1", 15, 24, 10)], [(25, "key-2", 16, 25, None)]]
    assert shard.progress.next_us == 30


def test_duplicates_find_what_was_decided_until_it_is_forgotten():
    """A request at the decisive instant + delay is a duplicate; one after it is another operation."""
    outputs, shard = play(
        5, ([(1, 1, 90), (10, 1, None)], 10), ([(15, 1, 90), (16, 1, 4)], 15), ([(16, 1, 2)], 25), ([], 1000)
    )
    assert outputs == [[(10, "key-1", 1, 91, 10)], [], [(18, "key-1", 16, 18, None)], []]
    assert set(shard.stored().values()) == {0}


def test_nothing_is_remembered_longer_than_duplicates_may_come():
    """Once the watermark has reached the decisive instant + delay, nothing is stored."""
    _, shard = play(5, ([(1, 1, 90)], 1), ([(10, 1, None)], 10))
    assert shard.stored() == {"requests": 0, "completions": 1, "horizons": 1}
    assert shard.progress.next_us == 15
    shard.play(None, 15)
    assert set(shard.stored().values()) == {0}
    assert shard.progress.next_us is None


def test_a_straggler_may_be_the_one_that_counts():
    """Of the requests of an operation the least counts, in whatever order they come."""
    outputs, _ = play(5, ([(7, 1, 10)], 0), ([(3, 1, 10)], 2), ([], 100))
    assert outputs == [[], [], [(13, "key-1", 3, 13, None)]]


def test_a_decided_request_beside_pending_ones_stays_decided():
    """One that shares a segment with pending ones is found there long after its duplicates are late."""
    many = [(1, k, 1000) for k in range(50)]
    completions = [([(5, 7, None)], 5), ([], 6), ([], 500), ([(600, 49, None)], 999)]
    outputs, shard = play(2, (many, 0), *completions, ([], 2000))
    decided = [one for output in outputs for one in output]
    assert len(decided) == 50
    assert [one for one in decided if one[4]] == [(5, "key-7", 1, 1001, 5), (600, "key-49", 1, 1001, 600)]
    assert set(shard.stored().values()) == {0}


def test_repeated_requests_are_not_stored():
    """A pending operation whose request is asked again and again is one row."""
    shard = Shard(Delayed(3), 4, 1)
    for at in range(1, 100):
        shard.play(table([(at, 1, 1000)]), at)
    assert shard.stored()["requests"] <= 2 + 4


def test_an_id_has_one_horizon():
    """However many operations an id has had, the last one's horizon is the one that is kept."""
    shard = Shard(Delayed(50), 4, 1)
    for at in range(0, 51 * 40, 51):
        shard.play(table([(at, 1, 0)]), at)
        assert shard.wanted["horizons"] == 1
    assert len(shard.output) == 40


@pytest.mark.parametrize("horizons", [[5, 20], [20, 5]])
def test_the_greatest_horizon_counts(horizons):
    """Wherever it stands in the log: a request up to it is a duplicate, and it alone is still wanted."""
    stored = {"horizons": pa.table({"id": ["key-1"] * 2, "until_us": horizons})}
    step = Delayed(10).step(stored, table([(15, 1, 90)]), 14, 14)
    assert step.wanted["horizons"].tolist() == [until == 20 for until in horizons]
    assert step.added["requests"].num_rows == 0
    assert step.next_us == 20


def test_a_batch_writes_what_it_adds():
    """With 200,000 operations pending, batches of 100 rows put bytes for about 100 rows."""
    n = 200_000
    ids = [f"request-{i:06}" for i in range(n)]
    shard = Shard(Delayed(1000))
    shard.play(pa.table({"id": ids, "at_us": np.arange(n), "deadline_us": np.full(n, 10**9)}), -1)
    pending = shard.put_bytes()
    for batch in range(40):
        some = [ids[i * 1999 % n] for i in range(100 * batch, 100 * batch + 100)]
        at = n + batch
        rows = {"id": some, "at_us": np.full(100, at), "deadline_us": pa.nulls(100, pa.int64())}
        shard.play(pa.table(rows), at)
        assert shard.put_bytes() - pending < 5 * pending * (batch + 1) * 100 / n + (batch + 1) * 3000
    assert len(shard.output) == 4000


def test_settings_name_the_delay():
    """What must not change while there is state."""
    assert Delayed(250_000).settings == "delay 250000 us"
