"""The hierarchy of wheels: where a node goes, when its bucket expires, and what cascades.

What a table saves says in which bucket each timer is, so both cores show their levels through it.
"""

import random
import struct
from array import array

import pytest

from tickwheel import _table
from tickwheel._reference import table
from tickwheel._reference.levels import Bucket, Levels, Node

TABLES = [pytest.param(_table.TimerTable, id="cython"), pytest.param(table.TimerTable, id="python")]
LEAST, GREATEST = -(2**63), 2**63 - 1
SIZES = [2, 3, 5, 7, 8, 20, 64, 100, 512, 1000, 4096]


@pytest.fixture(params=TABLES)
def make(request):
    return request.param


def placed(table):
    """(level, expiration, deadlines) of each bucket that is not empty."""
    saved = table.to_bytes()
    used, freed, _, lists = struct.unpack_from("=4q", saved, 32)
    records = array("q", saved[64 + 4 * (used + freed) : -4]).tolist()
    buckets = []
    for _ in range(lists):
        level, expiration, length = records[:3]
        buckets.append((level, expiration, records[4 : 3 + 3 * length : 3]))
        records = records[3 + 3 * length :]
    assert not records
    return buckets[1:]


def scheduled(make, deadlines, wheel_size, start_tick=0):
    table = make(wheel_size, start_tick)
    handles = table.schedule_many(array("q", deadlines))
    table._check()
    return table, handles


def fired(table, now):
    deadlines = table.advance(now)[1].tolist()
    table._check()
    return deadlines


def test_the_worked_example(make):
    """Wheel size 20: level 0 has one bucket a tick, level 1 one for 20, level 2 one for 400."""
    table, _ = scheduled(make, [2, 8, 19, 350, 450], 20)
    bucket = {deadlines[0]: (level, start // 20**level) for level, start, deadlines in placed(table)}
    assert bucket == {2: (0, 2), 8: (0, 8), 19: (0, 19), 350: (1, 17), 450: (2, 1)}

    assert fired(table, 339) == [2, 8, 19]
    assert placed(table) == [(1, 340, [350]), (2, 400, [450])]
    assert fired(table, 340) == []  # the bucket expires, 350 cascades
    assert placed(table) == [(0, 350, [350]), (2, 400, [450])]
    assert fired(table, 399) == [350]
    assert fired(table, 400) == []  # 450 cascades from level 2 to level 1
    assert placed(table) == [(1, 440, [450])]
    assert fired(table, 440) == []  # and to level 0
    assert placed(table) == [(0, 450, [450])]
    assert fired(table, 449) == []
    assert fired(table, 450) == [450]


def test_time_that_moved_lets_nodes_go_lower(make):
    """A turn is counted from the level's time: what was too far at tick 0 is near at tick 15."""
    table, _ = scheduled(make, [25], 20)
    assert placed(table) == [(1, 20, [25])]
    table.advance(15)
    table.schedule_many(array("q", [25]))
    assert placed(table) == [(0, 25, [25]), (1, 20, [25])]


def test_negative_ticks_round_down(make):
    """Buckets begin at multiples of the span below zero too."""
    table, _ = scheduled(make, [-1, -41, -371, 3], 20, -390)
    assert placed(table) == [(0, -371, [-371]), (1, -60, [-41]), (1, -20, [-1]), (2, 0, [3])]
    assert fired(table, -41) == [-371, -41]
    assert fired(table, 3) == [-1, 3]


def test_of_two_buckets_at_one_tick_the_coarser_is_first(make):
    """It holds what was scheduled earlier, so the order within a tick survives."""
    table, _ = scheduled(make, [20], 20)
    table.advance(5)
    table.schedule_many(array("q", [20, 20]), array("q", [1, 2]))
    ids, deadlines = table.advance(20)
    assert deadlines.tolist() == [20, 20, 20]
    assert ids.tolist()[1:] == [1, 2]


def test_emptied_buckets_are_looked_past(make):
    """A bucket that cancellations emptied is not an expiration, nor a second one when filled again."""
    table, handles = scheduled(make, [5, 300, 7], 20)
    assert table.next_expiration() == 5
    table.cancel_many(handles[:1])
    assert table.next_expiration() == 7
    table.cancel_many(handles[2:])
    assert table.next_expiration() == 300
    table.schedule_many(array("q", [5, 7]))
    table._check()
    assert table.next_expiration() == 5
    assert fired(table, 7) == [5, 7]


@pytest.mark.parametrize("wheel_size", SIZES)
def test_the_whole_range_of_ticks(make, wheel_size, rng):
    """From the least to the greatest int64, whatever the distance: in order, none lost, none early."""
    for start in (LEAST, LEAST + 1, -1, 0, rng.randint(LEAST, GREATEST), GREATEST - 3):
        near = [start + int(2 ** rng.uniform(0, 64)) for _ in range(60)]
        far = [rng.randint(LEAST, GREATEST) for _ in range(20)]
        edges = [LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST]
        deadlines = [d for d in near + far + edges if start < d <= GREATEST]
        table, _ = scheduled(make, deadlines, wheel_size, start)
        stops = sorted({*rng.sample(deadlines, min(8, len(deadlines))), start, start + 1, GREATEST})
        for stop in stops:
            assert fired(table, stop) == sorted(d for d in deadlines if d <= stop)
            deadlines = [d for d in deadlines if d > stop]
        assert not deadlines
        assert len(table) == 0


@pytest.mark.parametrize("wheel_size", SIZES)
def test_every_timer_lies_in_the_lowest_bucket_that_reaches_it(make, wheel_size, rng):
    """By the formula, in plain arithmetic."""
    start = rng.randint(-(10**6), 10**6)
    deadlines = [start + 1 + int(2 ** rng.uniform(0, 40)) for _ in range(200)]
    table, _ = scheduled(make, deadlines, wheel_size, start)
    expected = {}
    for deadline in deadlines:
        span, level = 1, 0
        while deadline - start // span * span >= span * wheel_size:
            span, level = span * wheel_size, level + 1
        expected.setdefault((level, deadline // span * span), []).append(deadline)
    assert placed(table) == [(*key, expected[key]) for key in sorted(expected)]


def linked(*deadlines, wheel_size=20):
    levels = Levels(wheel_size, 0)
    nodes = [Node(deadline) for deadline in deadlines]
    for node in nodes:
        assert levels.insert(node) is not None
    return levels, nodes


def test_insert_says_when_to_wake():
    """The expiration of the node's bucket, which is not its deadline; None when it is due."""
    levels = Levels(20, 0)
    assert [levels.insert(Node(deadline)) for deadline in (7, 350, 450, 0, -1)] == [7, 340, 400, None, None]


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 1000])
def test_a_budget_bounds_the_nodes_touched(budget):
    """0 left: there may be more; the clock waits at the bucket; the order is as in one stride."""
    deadlines = [3, 3, 3, 25, 26, 25, 39, 450, 401]
    levels, nodes = linked(*deadlines)
    due = Bucket()
    touched = calls = 0
    while True:
        left = levels.advance(500, due, budget)
        assert 0 <= left <= budget
        assert levels.check() + due.check() == len(nodes)
        touched += budget - left
        calls += 1
        if left:
            break
        assert levels.time <= 500
    assert touched == len(nodes) + levels.cascades
    assert calls == touched // budget + 1
    assert [node.deadline for node in due] == sorted(deadlines)
    assert levels.wakeups == 9  # at 3, 20, 25, 26, 39, 400, 401, 440, 450
    assert levels.time == 500


def test_time_set_by_hand_is_the_time_that_passed():
    """`set_time` moves each level's time to the last multiple of its span."""
    levels, _ = linked(8000 * 19)
    levels.set_time(8000 * 3 + 411)
    assert [level.time for level in levels.levels] == [24411, 24400, 24400, 24000]
    levels.check()


@pytest.mark.parametrize(
    ("broken", "damage"),
    [
        ("I1: a bucket is in the heap once", lambda levels, nodes: levels.heap.append(levels.heap[0])),
        ("I1: a bucket whose expiration is set is in the heap", lambda levels, nodes: levels.heap.pop()),
        (
            "I1: a bucket in the heap has its expiration set",
            lambda levels, nodes: setattr(levels.heap[0][2], "expiration", None),
        ),
        ("I1: a bucket in the heap expires after its parent", lambda levels, nodes: levels.heap.reverse()),
        ("I2: expiration <= deadline < expiration", lambda levels, nodes: setattr(nodes[0], "deadline", 8)),
        ("I2: expiration <= deadline < expiration", lambda levels, nodes: setattr(nodes[1], "deadline", 360)),
        ("I3: each level's time", lambda levels, nodes: setattr(levels.levels[1], "time", 5)),
        ("I3: each level's time", lambda levels, nodes: setattr(levels, "time", 25)),
        ("I5: links are mutual", lambda levels, nodes: setattr(nodes[0], "prev", nodes[1])),
        ("I5: links are mutual", lambda levels, nodes: setattr(nodes[1], "next", None)),
    ],
)
def test_the_check_names_what_is_broken(broken, damage):
    """Each invariant has its own sentence."""
    levels, nodes = linked(7, 350, 450)
    assert levels.check() == 3
    damage(levels, nodes)
    with pytest.raises(AssertionError, match=broken):
        levels.check()


@pytest.mark.parametrize("wheel_size", [2, 3, 8])
def test_the_heap_holds_no_more_than_the_buckets(wheel_size):
    """However many come and go, the bucket heap stays within levels x wheel size."""
    levels, rng = Levels(wheel_size, 0), random.Random(wheel_size)
    due, most = Bucket(), 0
    for _ in range(20_000):
        node = Node(levels.time + rng.randrange(1, 500))
        levels.insert(node)
        if rng.random() < 0.6:
            node.unlink()
        if rng.random() < 0.1:
            levels.advance(levels.time + rng.randrange(50), due, 10**9)
        most = max(most, len(levels.heap))
        assert len(levels.heap) <= len(levels.levels) * wheel_size
    assert most > wheel_size
