"""What `tickwheel bench configuration` prints: a table a distribution of delays, and the range of each."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from tickwheel.bench.configuration import DELAYS, Row, Sample
from tickwheel.bench.live import LiveRow
from tickwheel.cli.bench_tables import Column, figures, header, machine_line
from tickwheel.machine import machine

CAVEATS = (
    "All tasks are scheduled at time 0; time is virtual: the reaper's own loop, on a clock that jumps to "
    "what the reaper would sleep for. Figures are CPU time; a real wake-up costs some microseconds more.",
    "cascades: how often a task moves to a finer wheel; wake-ups: each sleep of the reaper, for a cascade "
    "too; late: from the exact deadline to the firing, all of it rounding up to a tick.",
    "moved: what a reconfiguration to the row below had to move when half of the tasks had fired, and the "
    "time for that; lost, twice, early: tasks of that run that did not fire once, and at their time.",
)
COLUMNS: tuple[Column[Sample], ...] = (
    Column("tasks/s", 12, lambda sample: round(1e9 / (sample.schedule_ns + sample.expire_ns))),
    Column("schedule ns", 13, lambda sample: sample.schedule_ns),
    Column("expire ns", 11, lambda sample: sample.expire_ns),
    Column("cascades a task", 17, lambda sample: sample.cascades),
    Column("wake-ups a task", 17, lambda sample: sample.wakeups),
    Column("late ms p50", 13, lambda sample: sample.late_p50_ms),
    Column("p99", 9, lambda sample: sample.late_p99_ms),
    Column("moved", 9, lambda sample: sample.moved),
    Column("in ms", 8, lambda sample: sample.reconfigure_ms),
    Column("lost", 6, lambda sample: sample.lost),
    Column("twice", 7, lambda sample: sample.twice),
    Column("early", 7, lambda sample: sample.early),
)


def heading() -> str:
    return "\n".join((machine_line(), "", *(f"- {caveat}" for caveat in CAVEATS)))


def distributions(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each distribution of delays, and what it is."""
    for delays, group in groupby(rows, lambda row: row.cell.delays):
        own = list(group)
        yield f"{delays}: {DELAYS[delays][0]}; {own[0].cell.tasks:,} tasks", own


def range_line(rows: Sequence[Row]) -> str | None:
    """The answer in a line: what the worst configuration costs."""
    ns = {
        row.cell.configuration: sample.schedule_ns + sample.expire_ns
        for row in rows
        if (sample := row.sample)
    }
    if not ns:
        return None
    best, worst = min(ns, key=lambda key: ns[key]), max(ns, key=lambda key: ns[key])
    times = ns[worst] / ns[best]
    return f"the slowest ({worst}) takes {times:.1f} times the CPU time of the fastest ({best})"


def live_line(live: LiveRow) -> str:
    """What became of the requests of a purgatory that was reconfigured while it ran."""
    if not live.samples:
        return f"Reconfigured while it ran: {live.note}"
    runs = [sample.run for sample in live.samples]
    for run in runs:
        if run.died:
            return f"Reconfigured while it ran: {run.died}"
    times = sum(sample.reconfigured for sample in live.samples)
    requests, never = sum(run.enqueued for run in runs), sum(run.never for run in runs)
    return (
        f"Reconfigured while it ran, {times:,} times: {requests:,} requests to a purgatory at "
        f"{runs[0].rate:,.0f}/s, {never:,} never completed, none twice"
    )


def as_text(rows: Sequence[Row], live: LiveRow) -> str:
    return "\n".join((*_lines(rows), "", live_line(live)))


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    for caption, own in distributions(rows):
        yield ""
        yield caption
        yield f"  {'tick x wheel size':<18}{header(COLUMNS)}"
        for row in own:
            seen = figures(COLUMNS, row.sample) if row.sample else row.note
            yield f"  {row.cell.configuration!s:<18}{seen}"
        if line := range_line(own):
            yield f"  {line}"


def as_json(rows: Sequence[Row], live: LiveRow) -> dict[str, Any]:
    return {
        "machine": machine(),
        "caveats": CAVEATS,
        "rows": [
            asdict(row.cell) | {"samples": [asdict(sample) for sample in row.samples], "note": row.note}
            for row in rows
        ],
        "live": {"samples": [asdict(sample) for sample in live.samples], "note": live.note},
    }
