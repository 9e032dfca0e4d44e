"""ReplayKernel, on both cores, against plain counting and a wheel made of dicts."""

import sys
from array import array

import pytest

from tickwheel import _replay
from tickwheel._reference.histogram import SIZE, index_of
from tickwheel._reference.replay import ReplayKernel as ReferenceKernel

CORES = {"cython": _replay.ReplayKernel, "python": ReferenceKernel}
NEVER = 2**63 - 1
COUNTS = [
    "completed",
    "expired",
    "pending",
    "peak_pending",
    "wakeups",
    "cascades",
    "events",
    "lateness_counts",
    "lateness_max",
]


@pytest.fixture(params=CORES)
def make(request):
    return CORES[request.param]


def q(items):
    return array("q", items)


def fed(kernel, rows):
    """(row, fire) as decided."""
    return list(zip(*kernel.feed(q(a for a, _ in rows), q(c for _, c in rows)), strict=True))


def finished(kernel):
    return list(zip(*kernel.finish(), strict=True))


def played(kernel, rows):
    return fed(kernel, rows) + finished(kernel)


def plain(rows, tick, timeout):
    """What must come of each request: (when it ends, its fire time or NEVER, its deadline in ticks)."""
    ends = []
    for arrival, completion in rows:
        deadline = -(-(arrival + timeout) // tick)
        wins = completion <= deadline * tick
        ends.append((completion if wins else deadline * tick, NEVER if wins else deadline * tick, deadline))
    return ends


def plain_peak(rows, ends):
    """The most with arrival <= t < end, over all t."""
    spans = [(arrival, end) for (arrival, _), (end, _, _) in zip(rows, ends, strict=True)]
    return max((sum(arrival <= t < end for arrival, end in spans) for t, _ in spans), default=0)


def plain_wheel(rows, ends, tick, wheel_size):
    """(wakeups, cascades) of a wheel that is a dict: (level, start of the bucket) -> {row: deadline tick}."""
    buckets = {}
    wakeups, cascades = set(), 0

    def insert(row, deadline, now):
        level, span = 0, 1
        while deadline - now // span * span >= span * wheel_size:
            level, span = level + 1, span * wheel_size
        buckets.setdefault((level, deadline // span * span), {})[row] = deadline

    def expire(before):
        nonlocal cascades
        while starts := [start for (_, start), bucket in buckets.items() if bucket and start * tick < before]:
            now = min(starts)
            wakeups.add(now)
            for key in [key for key in buckets if key[1] == now]:
                for row, deadline in buckets.pop(key).items():
                    if deadline > now:
                        cascades += 1
                        insert(row, deadline, now)

    # At one instant: completions (0), expiries, arrivals (1).
    story = [(arrival, 1, row) for row, (arrival, _) in enumerate(rows) if ends[row][0] > arrival]
    story += [(ends[row][0], 0, row) for _, _, row in story if ends[row][1] == NEVER]
    for instant, arrives, row in sorted(story):
        expire(instant + arrives)
        if arrives:
            insert(row, ends[row][2], instant // tick)
        else:
            for bucket in buckets.values():
                bucket.pop(row, None)
    expire(NEVER)
    return len(wakeups), cascades


def moment(rows, ends, row):
    """What the order of decisions goes by: within an instant completions, expiries, then arrivals."""
    end, fire, _ = ends[row]
    if end == rows[row][0]:
        return end, 2, row
    return (end, 0, row) if fire == NEVER else (end, 1, 0)


def random_rows(rng, timeout, start):
    """Requests with ties of every kind: equal arrivals, completions at arrivals, at deadlines, near them."""
    rows, arrival = [], start
    gap = rng.choice([1, 3, 50, 1000])
    for _ in range(rng.randint(0, 60)):
        arrival += rng.choice([0, 0, 1, rng.randint(0, gap), rng.randint(0, gap) * 5])
        near, far = rng.randint(0, gap * 3), rng.randint(0, 2 * timeout + 3)
        after = rng.choice([0, 1, timeout, timeout + 1, near, far])
        rows.append((arrival, NEVER if rng.random() < 0.2 else arrival + after))
    return rows


@pytest.mark.parametrize("wheel_size", [2, 3, 5, 8, 20, 100, 512, 1000, 4096])
@pytest.mark.parametrize("tick", [1, 2, 7, 10, 1000])
def test_it_equals_plain_counting(make, wheel_size, tick, rng):
    """Outcomes and fire times, their order, peak pending, wake-ups, cascades and lateness: all exact."""
    for _ in range(6):
        timeout = rng.choice([0, 1, 9, 100, 5000, 10**6])
        rows = random_rows(rng, timeout, rng.choice([0, -1000, -(10**9), 10**18]))
        kernel = make(tick, timeout, wheel_size)
        decided = played(kernel, rows)

        ends = plain(rows, tick, timeout)
        assert sorted(decided) == [(row, fire) for row, (_, fire, _) in enumerate(ends)]
        order = [moment(rows, ends, row) for row, _ in decided]
        assert order == sorted(order)
        late = [fire - rows[row][0] - timeout for row, fire in decided if fire != NEVER]
        counts = [0] * SIZE
        for lateness in late:
            counts[index_of(lateness)] += 1
        assert (kernel.completed, kernel.expired, kernel.pending) == (len(rows) - len(late), len(late), 0)
        assert (kernel.lateness_counts, kernel.lateness_max) == (counts, max(late, default=0))
        assert kernel.events == 2 * len(rows)
        assert kernel.peak_pending == plain_peak(rows, ends)
        assert (kernel.wakeups, kernel.cascades) == plain_wheel(rows, ends, tick, wheel_size)


def test_how_it_is_cut_does_not_matter(make, rng):
    """One row at a time, in pieces, with empty pieces or all at once; and the cores agree to the order."""
    for _ in range(40):
        timeout, tick, size = rng.choice([0, 7, 300]), rng.choice([1, 10]), rng.choice([2, 8, 20])
        rows = random_rows(rng, timeout, 0)
        whole = make(tick, timeout, size)
        expected = played(whole, rows)
        for most in (1, 5):
            kernel = make(tick, timeout, size)
            decided, left = [], rows
            while left:
                n = rng.randint(0, most)
                decided += fed(kernel, left[:n])
                left = left[n:]
            assert decided + finished(kernel) == expected
            assert [getattr(kernel, name) for name in COUNTS] == [getattr(whole, name) for name in COUNTS]
        for other in CORES.values():
            assert played(other(tick, timeout, size), rows) == expected


def test_a_completion_at_the_instant_of_the_fire_wins(make):
    """Tick 10, timeout 25: a request that arrives at 0 fires at 30."""
    rows = [(0, 29), (0, 30), (0, 31), (0, NEVER)]
    kernel = make(10, 25)
    assert played(kernel, rows) == [(0, NEVER), (1, NEVER), (2, 30), (3, 30)]
    assert (kernel.completed, kernel.expired, kernel.lateness_max, kernel.wakeups) == (2, 2, 5, 1)


def test_a_bucket_emptied_in_time_wakes_nobody(make):
    """Wheel size 20: 350 waits in the bucket of 340, which is empty by then; 351 wakes it, and 351."""
    assert make(1, 350, 20).wakeups == 0
    for completion, wakeups in ((339, 0), (340, 0), (341, 1), (NEVER, 2)):
        kernel = make(1, 350, 20)
        played(kernel, [(0, completion)])
        assert (kernel.wakeups, kernel.cascades) == (wakeups, wakeups > 0)


def test_what_ends_at_its_arrival_was_never_pending(make):
    """Completed at once, or expired at once with timeout 0 on a tick; decided after what was pending."""
    kernel = make(10, 0)
    assert fed(kernel, [(5, NEVER), (10, 10), (10, NEVER), (20, 20)]) == [
        (0, 10),
        (1, NEVER),
        (2, 10),
        (3, NEVER),
    ]
    assert (kernel.peak_pending, kernel.pending, kernel.wakeups) == (1, 0, 1)


def test_peak_is_what_an_instant_leaves(make):
    """Not what was pending between two rows of it."""
    kernel = make(1, 10)
    fed(kernel, [(0, 5), (0, 5), (5, NEVER), (5, 5), (5, NEVER)])
    assert (kernel.pending, kernel.peak_pending) == (2, 2)
    fed(kernel, [(5, NEVER)])
    assert (kernel.pending, kernel.peak_pending) == (3, 3)


def test_progress_can_be_read_meanwhile(make):
    """The counts are of what has been decided so far."""
    kernel = make(1000, 5000)
    fed(kernel, [(0, 100), (50, NEVER), (5999, NEVER)])
    assert (kernel.completed, kernel.expired, kernel.pending, kernel.events) == (1, 0, 2, 4)
    assert fed(kernel, [(6000, NEVER)]) == [(1, 6000)]
    assert (kernel.expired, kernel.lateness_max, sum(kernel.lateness_counts)) == (1, 950, 1)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(5, 9), (4, 9)], "row 3: arrivals must ascend, got 4 after 5"),
        ([(1, 9)], "row 2: arrivals must ascend, got 1 after 2"),
        ([(5, 9), (6, 9), (7, 6)], "row 4: completion must be >= arrival, got 6 and 7"),
        (
            [(5, 9), (NEVER - 99, NEVER)],
            f"row 3: arrival + timeout, rounded up to a tick, must fit 64 bits, got {NEVER - 99} + 100",
        ),
    ],
)
def test_a_bad_row_is_named_and_nothing_has_changed(make, rows, message):
    """The number counts from the first row fed; the same kernel goes on with good rows."""
    kernel = make(10, 100)
    assert fed(kernel, [(0, 1), (2, NEVER)]) == [(0, NEVER)]
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - compared in full below
        fed(kernel, rows)
    assert str(caught.value) == message
    assert kernel.events == 3
    assert fed(kernel, [(3, 4), (200, 200)]) == [(2, NEVER), (1, 110), (3, NEVER)]


@pytest.mark.parametrize("tick", [1, 2, 3, 10**9, NEVER - 1, NEVER])
@pytest.mark.parametrize("timeout", [0, 1, 10**18])
def test_the_edges_of_64_bits(make, tick, timeout):
    """From the least time to the last fire below INT64_MAX; one more is refused, never wrapped."""
    latest = (NEVER - 1) // tick * tick - timeout
    rows = [(-(2**63), NEVER), (-(2**63), -(2**63)), (-1, NEVER), (latest, NEVER)]
    rows = [row for row in rows if row[0] <= latest]
    kernel = make(tick, timeout, 3)
    decided = played(kernel, sorted(rows))
    assert sorted(decided) == [
        (row, fire) for row, (_, fire, _) in enumerate(plain(sorted(rows), tick, timeout))
    ]
    with pytest.raises(ValueError, match="must fit 64 bits"):
        fed(make(tick, timeout), [(latest + 1, NEVER)])


def test_it_ends_once(make):
    """`feed` after `finish` is an error; a second `finish` has nothing more."""
    kernel = make(1, 10)
    fed(kernel, [(0, NEVER)])
    assert finished(kernel) == [(0, 10)]
    assert finished(kernel) == []
    with pytest.raises(RuntimeError, match=r"^the replay has finished$"):
        fed(kernel, [(20, NEVER)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1), "tick must be >= 1, got 0"),
        ((-5, 1), "tick must be >= 1, got -5"),
        ((1, -1), "timeout must be >= 0, got -1"),
        ((1, 1, 1), "wheel_size must be >= 2, got 1"),
        ((2**63, 1), f"tick must fit 64 bits, got {2**63}"),
    ],
)
def test_bad_arguments(make, arguments, message):
    """Named, with the rule and the value."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        make(*arguments)


def test_columns_must_be_int64_and_as_long(make):
    """The error names the column."""
    kernel = make(1, 1)
    with pytest.raises(ValueError, match=r"^completions must be as many as arrivals, got 1 and 2$"):
        kernel.feed(q([1, 2]), q([3]))
    with pytest.raises(ValueError, match=r"^arrivals must be a buffer of int64"):
        kernel.feed(array("d", [1]), q([1]))
    with pytest.raises(TypeError, match=r"^completions must be a buffer of int64, got list$"):
        kernel.feed(q([1]), [1])


BOUNDED = """
from array import array
from tickwheel._replay import ReplayKernel

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

kernel = ReplayKernel(1000, 10_000)
for batch in range(300):
    first = batch * 10_000
    arrivals = array("q", range(first, first + 10_000))
    kernel.feed(arrivals, array("q", [t + 900 if t % 2 else 2**63 - 1 for t in arrivals]))
    if batch == 20:
        before = resident()
kernel.finish()
print(kernel.events, resident() - before < 1 << 20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("core", ["cython"], indirect=True)
def test_memory_is_bounded_by_what_is_pending(fresh):
    """Three million rows with 6,000 pending need no more memory than 200,000 do."""
    assert fresh(BOUNDED) == "6000000 True\n"
