"""What the rows say together: each contender beside ours, and what became of the project's promises."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

from tickwheel.bench.purgatory.results import Verdict
from tickwheel.bench.spark import jobs, stories
from tickwheel.bench.spark.plan import Row
from tickwheel.bench.spark.stories import FILES_1, FILES_8, SHARDS, SIZES, shards_of

MADE_PER_S = 2e6
READ_PER_S = 5e6
CONFIGURED_NS = 120.0
TIMES_CLIENT_TIMERS = 6.0
TUNED_S = 120.0
TUNED_ROWS = 10_000_000
TIE = 0.85

CAVEATS = (
    "Read ratios, not absolutes: machines differ, and below 15 % is a tie. Each cell is a process and a "
    "Spark session of its own, in wall time: other load is in it. Seconds are the median over rounds of the "
    "median of its runs or batches.",
    "A job over files runs once over few rows before it is measured, then up to three times; of a stream the "
    "first batch is not counted. Files are in the system's cache. What workers and the JVM need to start is "
    "in `tune` alone.",
    "Garbage collectors are as they come: the JVM's own choice, and Python's, on, in driver and workers; "
    "what they take is in the figures.",
    "`read once` reads with the very reader of replay_files and does nothing: what configurations take "
    "beyond it is theirs. `one process` is tickwheel without Spark, on one core; it generates a tenth of the "
    "rows, as CSV. `cross join` copies a tenth of the rows for each configuration. The kernel's CPU time has "
    "no other load in it, and no reading.",
    "Spark's rand() gives other rows for another number of partitions, and must sort them all.",
    "Idle clients: each has two messages a batch in the mean, a batch is 20 s, the timeout 30 s, the "
    "watermark 5 s behind. `timer a client` is transformWithState with a state and an event-time timer for "
    "each client, as Spark's guide writes it, in its Row version, which is the faster one; but it remembers "
    "its timer, and need not list the timers.",
    "All that detect idle clients must find the same, and all replays count the same: see the promises.",
    "KB a batch is what Spark counts as put into its RocksDB store; `one value` keeps a shard's whole state "
    "in one value. `all pending` is what the batch put in which all clients came.",
    "Workers MB: the most that Python's workers held together, less the files that they map; what their fork "
    "shares is counted in each.",
)


def ratio(row: Row, rows: Sequence[Row]) -> float | None:
    """How many times as long it takes for a row as ours does."""
    name = stories.STORIES[row.cell.story].ours
    ours = _named(rows, row.cell.story, name) if name else None
    if row.rows_per_s and ours and ours.rows_per_s:
        return ours.rows_per_s / row.rows_per_s
    return None


def losses(rows: Sequence[Row]) -> list[tuple[Row, float]]:
    """Where a rival is faster than ours, by which share of our time; the worst first."""
    rivals = [row for row in rows if row.cell.contender in stories.STORIES[row.cell.story].rivals]
    ratios = [(row, times) for row in rivals if (times := ratio(row, rows)) is not None and times < 1]
    return sorted(ratios, key=lambda pair: pair[1])


def configured_ns(row: Row, rows: Sequence[Row]) -> float | None:
    """Nanoseconds of one core for each row and configuration, beyond reading once."""
    count = {FILES_1: len(jobs.ONE), FILES_8: len(jobs.EIGHT)}.get(row.cell.contender)
    read = _named(rows, "replay", stories.READ)
    if count is None or row.figure is None or read is None or read.figure is None:
        return None
    return (row.figure - read.figure) * row.cell.cores / (row.cell.rows * count) * 1e9


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """What the project promises of its pipeline, where the rows can tell."""
    return [*_speeds(rows), *_equalities(rows), *_growth(rows)]


def _speeds(rows: Sequence[Row]) -> Iterator[Verdict]:
    for story, contender, per_s in (
        ("generate", stories.GENERATED, MADE_PER_S),
        ("replay", FILES_1, READ_PER_S),
    ):
        row = _named(rows, story, contender)
        if row and row.rows_per_s:
            words = f"{contender}: at least {per_s:,.0f} rows/s"
            yield Verdict(words, row.rows_per_s, row.rows_per_s >= per_s)
    eight = _named(rows, "replay", FILES_8)
    if eight and (ns := configured_ns(eight, rows)) is not None:
        words = f"{FILES_8}: at most {CONFIGURED_NS:g} ns of a core a row and configuration beyond reading"
        yield Verdict(words, ns, ns <= CONFIGURED_NS)
    peer = _named(rows, "idle", stories.CLIENT_TIMERS)
    if peer and (times := ratio(peer, rows)) is not None:
        words = f"detect_idle, {stories.WHEEL}: at least {TIMES_CLIENT_TIMERS:g} x {stories.CLIENT_TIMERS}"
        yield Verdict(words, times, times >= TIMES_CLIENT_TIMERS)
    tuned = _named(rows, "tune", stories.TUNE)
    if tuned and tuned.figure is not None and tuned.cell.rows >= TUNED_ROWS:
        words = f"{stories.TUNE}, {tuned.cell.rows:,} requests: less than {TUNED_S:g} s"
        yield Verdict(words, tuned.figure, tuned.figure < TUNED_S)


def _equalities(rows: Sequence[Row]) -> Iterator[Verdict]:
    """Of the same rows everybody finds the same."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row.found:
            groups.setdefault((row.cell.story, row.samples[0].rows), []).append(row)
    for (story, _), group in groups.items():
        if len(group) > 1 and not story.startswith("shards"):
            found = set().union(*(row.found for row in group))
            names = "; ".join(row.cell.contender for row in group)
            words = f"{story}: {names}: all found the same ({', '.join(sorted(found))})"
            yield Verdict(words, len(found), len(found) == 1)


def _growth(rows: Sequence[Row]) -> Iterator[Verdict]:
    """From the fewest rows to the most: time grows with the rows, and memory does not."""
    for shards in SHARDS:
        few, *_, many = (_named(rows, "shards", shards_of(shards, share)) for share in SIZES)
        if few and many and few.figure and many.figure:
            times = SIZES[0] / SIZES[-1]
            words = f"replay_files, {shards} a core: {times:g} x the rows take so many times as long at most"
            yield Verdict(words, many.figure / few.figure, many.figure / few.figure <= times / TIE)
            before, after = few.seen("workers MB"), many.seen("workers MB")
            if before and after:
                words = f"replay_files, {shards} a core: {times:g} x the rows take no more memory"
                yield Verdict(words, after / before, after / before <= 1 / TIE)


def _named(rows: Sequence[Row], story: str, contender: str) -> Row | None:
    for row in rows:
        if (row.cell.story, row.cell.contender) == (story, contender):
            return row
    return None
