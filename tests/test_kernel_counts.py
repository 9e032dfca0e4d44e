"""What ReplayKernel learns of a trace beside its outcomes, on both cores, against plain lines: timeouts of
each row, the curve of what is pending, and the purges of the seeds' purgatory."""

from array import array

import pytest

from tickwheel import _replay
from tickwheel._reference.replay import ReplayKernel as ReferenceKernel

CORES = {"cython": _replay.ReplayKernel, "python": ReferenceKernel}
NEVER = 2**63 - 1
MOST = 256  # intervals of a curve


@pytest.fixture(params=CORES)
def make(request):
    return CORES[request.param]


def columns(rows):
    return [array("q", column) for column in zip(*rows, strict=True)] if rows else [array("q")] * 3


def random_rows(rng, tick, start):
    """(arrival, completion, timeout), with ties of every kind."""
    rows, arrival = [], start
    gap = rng.choice([1, 3, 50, 1000])
    for _ in range(rng.randint(0, 60)):
        arrival += rng.choice([0, 0, 1, rng.randint(0, gap), rng.randint(0, gap) * 5])
        timeout = rng.choice([0, 1, tick, rng.randint(0, gap * 5), rng.randint(0, 10**4)])
        after = rng.choice([0, 1, timeout, timeout + 1, rng.randint(0, 2 * timeout + 3)])
        rows.append((arrival, NEVER if rng.random() < 0.2 else arrival + after, timeout))
    return rows


def random_pieces(rng, rows, most):
    while rows:
        n = rng.randint(0, most)
        yield rows[:n]
        rows = rows[n:]


# The oracle.


def plain_fires(rows, tick):
    """The deadline, rounded up to a tick, or NEVER where the request completes by then."""
    deadlines = [-(-(arrival + timeout) // tick) * tick for arrival, _, timeout in rows]
    return [
        NEVER if completion <= deadline else deadline
        for (_, completion, _), deadline in zip(rows, deadlines, strict=True)
    ]


def plain_spans(rows, tick):
    """Of each request, (its arrival, its end): it is pending at t if arrival <= t < end."""
    fires = plain_fires(rows, tick)
    return [(row[0], row[1] if fire == NEVER else fire) for row, fire in zip(rows, fires, strict=True)]


def plain_curve(spans):
    if not spans:
        return 0, 1, []
    instants = sorted({instant for span in spans for instant in span})
    width = 1
    while instants[-1] // width - instants[0] // width >= MOST:
        width *= 2
    first, last = instants[0] // width, instants[-1] // width
    times = {number: [number * width] for number in range(first, last + 1)}
    for instant in instants:
        times[instant // width].append(instant)
    peaks = [max(sum(arrival <= t < end for arrival, end in spans) for t in times[i]) for i in times]
    return first * width, width, peaks


def plain_purges(spans, interval):
    """(purges, purged, peak watched)."""
    # At one instant: ends (0), then arrivals (1).
    story = sorted([(a, 1) for a, end in spans if a < end] + [(end, 0) for a, end in spans if a < end])
    pending = estimate = purges = purged = peak = 0
    for _, arrives in story:
        if arrives:
            pending += 1
            estimate += 1
            peak = max(peak, estimate)
            continue
        pending -= 1
        if interval is None:
            estimate = pending
        elif estimate - pending > interval:
            purges += 1
            purged += estimate - pending
            estimate = pending
    return purges, purged, peak


# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tick", [1, 2, 7, 10, 1000])
@pytest.mark.parametrize("wheel_size", [2, 5, 20, 512])
def test_it_equals_plain_lines(make, tick, wheel_size, rng):
    """Any tick, wheel, purge interval and sign, cut in any way: fires, curve and purges are exact."""
    for _ in range(15):
        rows = random_rows(rng, tick, rng.choice([0, -1, -1000, -(10**9), 10**18]))
        interval = rng.choice([None, 0, 1, 5, 20])
        spans = plain_spans(rows, tick)
        for most in (1, 7, 100):
            kernel = make(tick, None, wheel_size, interval)
            decided = []
            for piece in random_pieces(rng, rows, most):
                decided += zip(*kernel.feed(*columns(piece)), strict=True)
            decided += zip(*kernel.finish(), strict=True)
            assert sorted(decided) == list(enumerate(plain_fires(rows, tick)))
            assert kernel.pending_curve == plain_curve(spans)
            assert kernel.peak_pending == max(kernel.pending_curve[2], default=0)
            assert (kernel.purges, kernel.purged, kernel.peak_watched) == plain_purges(spans, interval)


def test_a_timeout_for_all_is_the_same_as_one_in_each_row(make, rng):
    """To the order of the decisions; and both cores agree."""
    for _ in range(30):
        timeout, tick = rng.choice([0, 9, 300]), rng.choice([1, 10])
        rows = [(arrival, completion, timeout) for arrival, completion, _ in random_rows(rng, tick, -50)]
        told = []
        for core in CORES.values():
            for kernel, given in ((core(tick, timeout, 8, 3), 2), (core(tick, None, 8, 3), 3)):
                decided = [*kernel.feed(*columns(rows)[:given]), *kernel.finish()]
                told.append((decided, kernel.pending_curve, kernel.wakeups, kernel.cascades, kernel.purges))
        assert told == [told[0]] * 4
        kernel = make(tick, None, 8, 3)
        assert [*kernel.feed(*columns(rows)), *kernel.finish()] == told[0][0]


def test_the_curve_can_be_read_meanwhile(make, rng):
    """It goes to the last event so far; reading changes nothing."""
    for _ in range(30):
        rows = random_rows(rng, 1, 0)
        kernel = make(1, None)
        for number, row in enumerate(rows, 1):
            kernel.feed(*columns([row]))
            now = row[0]
            spans = plain_spans(rows[:number], 1)
            start, width, peaks = kernel.pending_curve
            assert kernel.pending_curve == (start, width, peaks)
            assert kernel.pending == sum(a <= now < end for a, end in spans)
            assert start <= spans[0][0] < start + width
            assert start + (len(peaks) - 1) * width <= now < start + len(peaks) * width
            assert max(peaks) == max(sum(a <= t < end for a, end in spans) for t, _ in spans)
        kernel.finish()
        assert kernel.pending_curve == plain_curve(plain_spans(rows, 1))


def test_a_curve_by_hand(make):
    """Pending: 2 in [3, 5), 1 in [5, 8), then 3, at 500 four, and 2 in [1022, 1027)."""
    kernel = make(1, 1019)
    kernel.feed(array("q", [3, 3, 8, 8]), array("q", [5, NEVER, NEVER, NEVER]))
    assert kernel.pending_curve == (3, 1, [2, 2, 1, 1, 1, 3])
    kernel.feed(array("q", [500]), array("q", [501]))
    assert kernel.pending_curve == (2, 2, [2, 2, 1, *[3] * 246, 4])
    kernel.finish()
    start, width, peaks = kernel.pending_curve
    assert (start, width, len(peaks)) == (0, 8, 129)
    assert peaks == [2, *[3] * 61, 4, *[3] * 65, 2]


def test_a_curve_of_nothing(make):
    """No request: no interval. One that ends as it arrives: one interval in which nothing was pending."""
    kernel = make(1, 10)
    kernel.finish()
    assert kernel.pending_curve == (0, 1, [])
    kernel = make(1, 10)
    kernel.feed(array("q", [-7]), array("q", [-7]))
    kernel.finish()
    assert kernel.pending_curve == (-7, 1, [0])


@pytest.mark.parametrize(
    ("interval", "counts"),
    [(None, (0, 0, 4)), (0, (5, 5, 4)), (1, (2, 4, 4)), (2, (1, 3, 4)), (3, (1, 4, 5)), (9, (0, 0, 5))],
)
def test_purges_by_hand(make, interval, counts):
    """Four requests of which three complete, then a fifth, and two expire: N = 1 purges two by two."""
    kernel = make(1, 100, 20, interval)
    kernel.feed(array("q", [0, 0, 0, 0, 4]), array("q", [1, 2, 3, NEVER, NEVER]))
    kernel.finish()
    assert (kernel.purges, kernel.purged, kernel.peak_watched) == counts


@pytest.mark.parametrize("tick", [1, 2, 3, 10**9, NEVER - 1, NEVER])
def test_the_edges_of_64_bits(make, tick):
    """Any deadline that is below INT64_MAX when rounded up; one more is refused, never wrapped."""
    latest = (NEVER - 1) // tick * tick
    rows = [(-(2**63), NEVER, NEVER), (-(2**63), NEVER, 0), (-1, NEVER, latest + 1), (latest, NEVER, 0)]
    rows = [row for row in rows if row[0] + row[2] <= latest]
    kernel = make(tick, None, 3, 0)
    decided = list(zip(*kernel.feed(*columns(rows)), strict=True))
    decided += zip(*kernel.finish(), strict=True)
    assert sorted(decided) == list(enumerate(plain_fires(rows, tick)))
    assert kernel.pending_curve == plain_curve(plain_spans(rows, tick))
    with pytest.raises(ValueError, match=r"^row 0: arrival \+ timeout, rounded up to a tick, must fit 64"):
        make(tick, None).feed(*columns([(0, NEVER, latest + 1)]))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(5, 9, 1), (6, 9, -3)], "row 4: timeout must be >= 0, got -3"),
        ([(5, 9, -(2**63))], f"row 3: timeout must be >= 0, got {-(2**63)}"),
        ([(5, 9, 1), (4, 9, -1)], "row 4: arrivals must ascend, got 4 after 5"),
        ([(5, 4, -1)], "row 3: completion must be >= arrival, got 4 and 5"),
        (
            [(5, 9, 1), (7, 9, NEVER)],
            f"row 4: arrival + timeout, rounded up to a tick, must fit 64 bits, got 7 + {NEVER}",
        ),
    ],
)
def test_a_bad_row_is_named_and_nothing_has_changed(make, rows, message):
    """All rows are checked before the first is played."""
    kernel = make(10, None, 20, 0)
    kernel.feed(*columns([(0, 1, 50), (1, NEVER, 7), (2, NEVER, 100)]))
    before = kernel.events, kernel.pending_curve
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - compared in full below
        kernel.feed(*columns(rows))
    assert str(caught.value) == message
    assert (kernel.events, kernel.pending_curve) == before
    assert [list(column) for column in kernel.feed(*columns([(3, 3, 0), (200, 200, 0)]))] == [
        [3, 1, 2, 4],
        [NEVER, 10, 110, NEVER],
    ]


def test_timeouts_are_given_where_they_are_needed(make):
    """A kernel without a timeout needs them, one with a timeout refuses them."""
    one = array("q", [1])
    needed = r"^timeouts must be given to a kernel without a timeout, and to no other$"
    with pytest.raises(ValueError, match=needed):
        make(1, None).feed(one, one)
    with pytest.raises(ValueError, match=needed):
        make(1, 1).feed(one, one, one)
    with pytest.raises(ValueError, match=r"^timeouts must be as many as arrivals, got 2 and 1$"):
        make(1, None).feed(one, one, one + one)
    with pytest.raises(TypeError, match=r"^timeouts must be a buffer of int64, got list$"):
        make(1, None).feed(one, one, [1])


def test_bad_purge_intervals_are_refused(make):
    """Named, with the rule and the value."""
    with pytest.raises(ValueError, match=r"^purge_interval must be >= 0, got -1$"):
        make(1, 1, 2, -1)
    with pytest.raises(ValueError, match=r"^purge_interval must fit 64 bits, got 9223372036854775808$"):
        make(1, 1, 2, 2**63)
