"""What the rows say together: each contender beside ours, and what became of the project's promises."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

from tickwheel.bench.purgatory.results import Verdict
from tickwheel.bench.recipes import calls, clients, duplicates, touches
from tickwheel.bench.recipes.plan import Row
from tickwheel.bench.recipes.sample import DISORDER, EARLY, MISSING, TWICE, WRONG
from tickwheel.bench.recipes.stories import (
    CACHE,
    FILTER,
    FILTER_BATCHES,
    KEYED,
    LOCKED_CACHE,
    PARTITIONS,
    STORIES,
    TRACKER,
)

TOUCH_NS = 250.0
LATE_MS = 1.0 + 50.0        # a tick, and what the system may take
TIMES_CACHE = 3.0
HELD_SHARE = 1.1            # of what is live: what the freeing may lag behind

CAVEATS = (
    "Read ratios, not absolutes: machines differ, and below 15 % is a tie. Each cell is a process of its "
    "own; a figure is the median over rounds, of faults the most. CPU time is that of the whole process, all "
    "threads together: other load is not in it, but what that does to the caches is. Lateness, waiting and "
    "calls/s are in wall time, and other load is in those.",
    "rearm moves a timer at each touch; scan is a dictionary of stamps, looked through each second; ring has "
    "a slot for each second, a set of clients; order is an OrderedDict by last touch, under a lock, whose "
    "first is the next to fall silent: it needs no timer, since all clients have one timeout. IdleTracker "
    "alone can also end a client by its age. All of them may be used by several threads.",
    "A touch: all clients once, in random order, the loop taken away, while nobody falls silent. What "
    "IdleTracker puts off (a look at each client, once a timeout) is not in it, but in the CPU of idle and "
    "idle-busy. The ring turns before each pass, as where a client's messages are seconds apart; `ring, same "
    "second` does not.",
    "Idle clients: all come online, then a tenth of them stop at planned moments within two seconds; the "
    "others send on, in turn, at the rate. Offline events are counted against the plan: missing, twice, "
    "early. CPU % is of one core; `beyond` is what the load alone has not, in which an empty call stands for "
    "a touch; differences of some tenths of a percent are noise, and may be less than nothing. A timeout is "
    "never shorter than what clients that stay need at the rate.",
    "scan and ring know whole seconds: they are up to a second late by design. The ring's timeout is rounded "
    "up to whole seconds as well.",
    f"dedup: a key in {duplicates.AGAIN_EVERY} is one of the last two windows again. Expiry is contained, "
    "the timer's work with it, which is done in the same thread; so is a step of the virtual clock for each "
    f"{duplicates.STEP:,} keys. All answers are checked. A TTLCache without a lock is for one thread alone; "
    "`locked` is what threads need. The peak contains the answers, the same for all.",
    "submit: an empty call, with its future. Threads take turns at the GIL, which is a large part of it and "
    "not the same from run to run. ThreadPoolExecutor keeps no order: it is the least that this can cost.",
    "hot-key: calls that sleep, submitted at an even pace to workers that are busy for five sixths of the "
    "time. `hash % n` has a thread and a queue for each part of the keys: that of the hot key has more work "
    "than its thread can do, and what waits there grows as long as the run lasts.",
)


def figure(row: Row, rows: Sequence[Row]) -> float | None:
    """What is compared: the first that a story's rows have seen, beyond what it is without a contender."""
    story = STORIES[row.cell.story]
    seen = row.seen(story.seen[0])
    if story.beyond is None or seen is None:
        return seen
    base = _named(rows, row, story.beyond)
    bare = base.seen(story.seen[0]) if base else None
    return seen - bare if bare is not None and base is not row else None


def ratio(row: Row, rows: Sequence[Row]) -> float | None:
    """How many times the figure of ours it is, with the same collector."""
    ours = _named(rows, row, STORIES[row.cell.story].ours)
    own, base = figure(row, rows), figure(ours, rows) if ours else None
    # Beyond a load that is all there is, a figure may be nothing, or less.
    return own / base if own is not None and base is not None and base > 0 and own > 0 else None


def losses(rows: Sequence[Row]) -> list[tuple[Row, float]]:
    """Where a rival is cheaper than ours, by which share of our figure; the worst first."""
    ratios = [
        (row, times)
        for row in rows
        if not row.cell.contender.startswith(STORIES[row.cell.story].ours)
        and (times := ratio(row, rows)) is not None
        and times < 1
    ]
    return sorted(ratios, key=lambda pair: pair[1])


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """What the project promises of its recipes, where the rows can tell."""
    return [
        verdict
        for row in rows
        for judge in (_tracker, _filter, _keyed)
        for verdict in judge(row, rows)
    ]


def _tracker(row: Row, rows: Sequence[Row]) -> Iterator[Verdict]:
    if row.cell.contender != TRACKER:
        return
    ns = row.seen(touches.NS_TOUCH)
    if ns is not None:
        yield Verdict(f"{_place(row)}: at most {TOUCH_NS:g} ns", ns, ns <= TOUCH_NS)
    yield from _faultless(row, (MISSING, TWICE, EARLY), f"{_place(row)}: every offline event exactly once")
    late = row.seen(clients.LATE_MAX)
    if late is not None:
        yield Verdict(f"{_place(row)}: within one tick + 50 ms", late, late <= LATE_MS)


def _filter(row: Row, rows: Sequence[Row]) -> Iterator[Verdict]:
    if row.cell.contender not in (FILTER, FILTER_BATCHES):
        return
    yield from _faultless(row, (WRONG,), f"{_place(row)}: none passed twice, none dropped wrongly")
    held, live = row.seen(duplicates.HELD), row.seen(duplicates.LIVE)
    if held and live:
        words = f"{_place(row)}: holds at most {HELD_SHARE:g} x what is live"
        yield Verdict(words, held / live, held / live <= HELD_SHARE)
    for rival in CACHE, LOCKED_CACHE:
        other, own = _named(rows, row, rival), figure(row, rows)
        theirs = figure(other, rows) if other else None
        if own and theirs:
            words = f"{_place(row)}: at least {TIMES_CACHE:g} x {rival}"
            yield Verdict(words, theirs / own, theirs / own >= TIMES_CACHE)


def _keyed(row: Row, rows: Sequence[Row]) -> Iterator[Verdict]:
    if row.cell.contender != KEYED:
        return
    yield from _faultless(row, (DISORDER,), f"{_place(row)}: in order within each key")
    other = _named(rows, row, PARTITIONS)
    own, theirs = row.seen(calls.WAIT_P99), other.seen(calls.WAIT_P99) if other else None
    if own and theirs:
        words = f"{_place(row)}: the others wait no longer than with {PARTITIONS} (p99, share)"
        yield Verdict(words, own / theirs, own / theirs <= 1)


def _faultless(row: Row, faults: Sequence[str], words: str) -> Iterator[Verdict]:
    counts = [count for fault in faults if (count := row.seen(fault)) is not None]
    if counts:
        yield Verdict(f"{words} (faults)", sum(counts), not any(counts))


def _place(row: Row) -> str:
    collector = f", GC {row.cell.gc}" if STORIES[row.cell.story].collectors else ""
    return f"{row.cell.story}, {row.cell.contender}{collector}"


def _named(rows: Sequence[Row], like: Row, contender: str) -> Row | None:
    """The contender's row of the same story, with the same collector."""
    for row in rows:
        if (row.cell.story, row.cell.gc, row.cell.contender) == (like.cell.story, like.cell.gc, contender):
            return row
    return None
