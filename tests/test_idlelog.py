"""The idle clients of a log in virtual time equal plain loops: every spell, once, in order; on both cores."""
import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_spells import LOG, NO_LOG, log_rows, most_at_once, over_by, spells_of

EPOCH = 1661145978876979240     # a nanosecond time that no float holds
EARLIEST, LATEST = -(2**63), 2**63 - 1


@pytest.fixture
def idlelog(tw):
    """The module, on one core."""
    return importlib.import_module("tickwheel.recipes.idlelog")


def fed(log, rows):
    """What `feed` gives out for (key, tick) rows."""
    return log.feed([key for key, _ in rows], [tick for _, tick in rows])


def facts(log):
    return {name: getattr(log, name) for name in ("rows", "keys", "offline", "online", "peak_online", "span")}


def counted(rows, timeout):
    """The facts of plain loops."""
    spells = spells_of(rows, timeout)
    offline = len(over_by(spells, rows[-1][1])) if rows else 0
    return {
        "rows": len(rows),
        "keys": len({key for key, _ in rows}),
        "offline": offline,
        "online": len(spells) - offline,
        "peak_online": most_at_once(rows, spells),
        "span": rows[-1][1] - rows[0][1] if rows else None,
    }


@pytest.mark.skipif(not LOG.exists(), reason=NO_LOG)
@pytest.mark.parametrize(("timeout_s", "spells"), [(30, 8_142), (300, 3_905), (900, 3_254)])
@pytest.mark.parametrize("ticks_per_s", [1, 10**9])
def test_a_web_servers_log_equals_plain_loops(idlelog, timeout_s, spells, ticks_per_s):
    """Every silence of 30 s, 5 min and 15 min, in seconds and in nanoseconds; who is left is online."""
    rows = [(host, time * ticks_per_s) for host, time in log_rows()]
    timeout = timeout_s * ticks_per_s
    log = idlelog.IdleLog(timeout)
    assert fed(log, rows) == over_by(spells_of(rows, timeout), rows[-1][1])
    assert facts(log) == counted(rows, timeout)
    assert log.offline + log.online == spells


def starts(span):
    """First ticks: small, before 0, an epoch in nanoseconds, and as near to both ends as can be."""
    return st.sampled_from([0, -7, EPOCH, -EPOCH, EARLIEST, LATEST - span])


@st.composite
def logs(draw):
    """(rows in chunks, timeout): few keys, gaps about the timeout, which may be of any size."""
    timeout = draw(st.sampled_from([1, 2, 3, 30, 511, 512, 513, 10**6 + 3, 30 * 10**9]))
    about = st.sampled_from([0, 0, 0, 1, timeout - 1, timeout, timeout + 1, timeout // 2, timeout * 3])
    gaps = draw(st.lists(about | st.integers(0, 2 * timeout), max_size=60))
    tick = draw(starts(sum(gaps) + timeout))
    rows = []
    for gap in gaps:
        tick += gap
        rows.append((draw(st.sampled_from(["a", "b", "10", "9", "\N{SNOWMAN}"])), tick))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)], timeout


def test_random_logs_equal_plain_loops(idlelog):
    """However the rows are cut: after each piece, the spells that are over by its last row have come out."""

    @given(logs())
    def holds(drawn):
        chunks, timeout = drawn
        rows = [row for chunk in chunks for row in chunk]
        spells = spells_of(rows, timeout)
        log, told = idlelog.IdleLog(timeout), []
        for chunk in chunks:
            told += fed(log, chunk)
            if log.last_tick is not None:
                assert told == over_by(spells, log.last_tick)
        assert facts(log) == counted(rows, timeout)

    holds()


@pytest.mark.parametrize("start", [0, EPOCH, EARLIEST])
def test_a_row_at_the_instant_comes_too_late(idlelog, start):
    """idle_at is last_seen + timeout: one tick before it a row keeps the key, at it a row begins anew."""
    log = idlelog.IdleLog(30)
    assert fed(log, [("a", start), ("a", start + 29), ("a", start + 58)]) == []
    (spell,) = fed(log, [("a", start + 88)])
    assert spell == ("a", start, start + 58, start + 88)
    assert (spell.key, spell.first_seen, spell.last_seen, spell.idle_at) == spell
    assert facts(log) == {"rows": 4, "keys": 1, "offline": 1, "online": 1, "peak_online": 1, "span": 88}


def test_others_rows_tell_the_time(idlelog):
    """A key is told offline by the first row of whomever at or after its idle_at, and once."""
    log = idlelog.IdleLog(10)
    assert fed(log, [("a", 0), ("b", 9)]) == []
    assert fed(log, [("b", 10)]) == [("a", 0, 0, 10)]
    assert fed(log, [("b", 11), ("b", 19)]) == []


def test_spells_come_by_their_end_then_by_key(idlelog):
    """As `detect_idle` on Spark gives them out, though the rows had the keys in another order."""
    log = idlelog.IdleLog(10)
    fed(log, [("c", 0), ("b", 0), ("c", 3), ("a", 3), ("d", 5), ("b", 6)])
    ends = [(spell.idle_at, spell.key) for spell in fed(log, [("z", 1000)])]
    assert ends == [(13, "a"), (13, "c"), (15, "d"), (16, "b")]


def test_who_is_over_is_no_more_counted_at_the_peak(idlelog):
    """The key that goes offline at an instant makes room for the one that comes at it."""
    log = idlelog.IdleLog(10)
    fed(log, [("a", 0), ("b", 10), ("c", 20), ("b", 21), ("d", 21)])
    assert (log.peak_online, log.online, log.keys) == (3, 3, 4)


def test_a_log_without_rows(idlelog):
    """Nobody was there."""
    log = idlelog.IdleLog(10)
    assert fed(log, []) == []
    assert facts(log) == counted([], 10)
    assert (log.first_tick, log.last_tick) == (None, None)


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_timeout_is_a_tick_at_least(idlelog, timeout):
    """Rule and value seen."""
    with pytest.raises(ValueError, match=f"timeout must be >= 1, got {timeout}"):
        idlelog.IdleLog(timeout)


def test_a_timeout_is_a_whole_number(idlelog):
    """No float gets into the ticks."""
    with pytest.raises(TypeError):
        idlelog.IdleLog(30.0)


def test_time_does_not_go_back(idlelog):
    """Within a piece or from one to the next; the rows before it count, and the log goes on after them."""
    log = idlelog.IdleLog(10)
    with pytest.raises(ValueError, match="ticks must not go back, got 4 after 5"):
        fed(log, [("a", 5), ("a", 4)])
    with pytest.raises(ValueError, match="ticks must not go back, got 3 after 5"):
        fed(log, [("a", 3)])
    assert fed(log, [("b", 15)]) == [("a", 5, 5, 15)]
    assert log.rows == 2


def test_a_deadline_is_a_time(idlelog):
    """A row whose idle_at would not fit 64 bits is refused, and is not there."""
    log = idlelog.IdleLog(10)
    fed(log, [("a", LATEST - 10)])
    for key in ("a", "b"):
        with pytest.raises(ValueError, match=f"ticks must be <= {LATEST - 10}, to .*, got {LATEST}"):
            fed(log, [(key, LATEST)])
    with pytest.raises(ValueError, match=f"must be <= {LATEST - 10}, "):
        fed(idlelog.IdleLog(10), [("a", LATEST - 9)])
    assert (log.rows, log.online, log.keys, log.last_tick) == (1, 1, 1, LATEST - 10)
