"""What the rows say together: each contender beside ours, and what became of the project's promises."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tickwheel.bench.dropins.loops import STOCK, UVLOOP, WHEEL
from tickwheel.bench.dropins.plan import Row
from tickwheel.bench.dropins.stories import (
    DROP_IN,
    KEEPALIVE,
    ORIGINAL,
    OWN_ON_WHEEL,
    RESCHEDULED,
    SCHED,
    SCHED_DROP_IN,
    STORIES,
)
from tickwheel.bench.purgatory.results import Verdict

TIE = 0.85

CAVEATS = (
    "Read ratios, not absolutes: machines differ, and below 15 % is a tie. Each figure is the median over "
    "rounds of a fresh process each, in CPU time: other load is not in it, but what that does to the caches "
    "is. threading.Timer and lateness are in wall time.",
    "stock is asyncio's own loop, wheel is WheelEventLoop, uvloop is uvloop's; everything is measured inside "
    "the running loop, which turns once after 1,000 operations, and each timer has the context that asyncio "
    "captures. The loop that measures is contained.",
    "Pending timers are due in 30 to 60 s, in random order. asyncio drops cancelled timers once they are "
    "more than half of its heap: enough is measured to contain that.",
    "timeout and wait_for limit a coroutine that returns at once, and the same without a limit is taken "
    "away: an await of anything real costs far more than any of them.",
    "Idle timers: a message cancels its connection's timer and makes another one; or reschedules it; or "
    "notes the time (`stamp`), which the timer looks at when it goes off, once in each idle time, and is "
    "armed anew: the more messages there are in an idle time, the less of that falls to each. The loop "
    "then wakes up for every connection, and who writes the server must write that too.",
    "Servers: the CPU time of the server's process, with 32 connections from a client that shares the "
    "machine, by which requests a second are limited as well.",
)


@dataclass(frozen=True, slots=True)
class Promise:
    """Of one story: ours is so many times faster than a rival."""

    story: str
    ours: str
    rival: str
    times: float
    words: str

    def verdict(self, ours: Row, rival: Row) -> Verdict | None:
        """None: one of them was not measured."""
        if ours.figure is None or rival.figure is None:
            return None
        times = rival.figure / ours.figure
        words = f"{self.words}, {ours.cell.n:,} {STORIES[self.story].counted}"
        return Verdict(words, times, times >= self.times)


def _at_least(story: str, ours: str, rival: str, times: float) -> Promise:
    words = f"{STORIES[story].caption}, {ours}: at least {times:g} x {rival}"
    return Promise(story, ours, rival, times, words)


def _no_slower(story: str) -> Promise:
    words = f"{STORIES[story].caption}, {WHEEL}: no slower than {STOCK} (from {TIE:g} x on it is a tie)"
    return Promise(story, WHEEL, STOCK, TIE, words)


PROMISES = (
    _at_least("call-later", WHEEL, STOCK, 4),
    Promise("call-later", WHEEL, UVLOOP, 1, f"call_later + cancel, {WHEEL}: faster than {UVLOOP}"),
    _at_least("churn", WHEEL, STOCK, 6),
    _at_least("timeout", WHEEL, STOCK, 1.3),
    _at_least("timeout", OWN_ON_WHEEL, STOCK, 3),
    _at_least("threading", DROP_IN, ORIGINAL, 150),
    Promise("sched-cancel", SCHED_DROP_IN, SCHED, 1, "sched: cancel, drop-in: faster than the original"),
    _no_slower("echo"),
    _no_slower("echo-limited"),
    _no_slower("hello"),
)
HELD_EXACTLY = (WHEEL, RESCHEDULED)


def collectors(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.cell.gc for row in rows))


def ratio(row: Row, rows: Sequence[Row]) -> float | None:
    """How many times the figure of ours it is, with the same collector, and the same N if there is that."""
    told = STORIES[row.cell.story]
    ours = [
        other
        for other in rows
        if (other.cell.story, other.cell.contender, other.cell.gc) == (row.cell.story, told.ours, row.cell.gc)
    ]
    for other in [other for other in ours if other.cell.n == row.cell.n] or ours:
        return row.figure / other.figure if row.figure and other.figure else None
    return None


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """What the project promises of its drop-ins, where the rows can tell, with each collector."""
    return [verdict for collector in collectors(rows) for verdict in _verdicts(rows, collector)]


def _verdicts(rows: Sequence[Row], collector: str) -> Iterator[Verdict]:
    seen: Mapping[tuple[str, str], Row] = {     # the largest N
        (row.cell.story, row.cell.contender): row for row in rows if row.cell.gc == collector
    }
    for promise in PROMISES:
        ours, rival = (seen.get((promise.story, name)) for name in (promise.ours, promise.rival))
        if ours and rival and (verdict := promise.verdict(ours, rival)):
            yield Verdict(f"GC {collector}: {verdict.promise}", verdict.seen, verdict.holds)
    for (story, name), row in seen.items():
        if story in KEEPALIVE.values() and name in HELD_EXACTLY and row.beside is not None:
            n = row.cell.n
            words = f"GC {collector}: {STORIES[story].caption}, {name}: never more than {n:,} entries"
            yield Verdict(words, row.beside, row.beside == n)
