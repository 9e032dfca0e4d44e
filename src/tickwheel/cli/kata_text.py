"""What `tickwheel kata` prints: each design's metrics, as the article does, the table and what it shows."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from tickwheel.bench.kata.designs import DESIGNS
from tickwheel.bench.kata.results import CAVEATS, Row, sentence, verdicts
from tickwheel.bench.kata.run import Moment, Sample, Setting
from tickwheel.cli.bench_tables import Column, figures, header, machine_line, promises
from tickwheel.machine import machine

PACKAGES = ("hdrhistogram",)

COLUMNS: tuple[Column[Sample], ...] = (
    Column("processed/s", 13, lambda sample: round(sample.at_end.processed / sample.at_end.at_s)),
    Column("backlog", 10, lambda sample: sample.at_end.backlog),
    Column("latency ms p50", 16, lambda sample: sample.at_end.latency.p50 * 1e3),
    Column("p99", 9, lambda sample: sample.at_end.latency.p99 * 1e3),
    Column("p99.9", 9, lambda sample: sample.at_end.latency.p999 * 1e3),
    Column("order violations", 18, lambda sample: sample.violations),
    Column("duplicates passed on", 22, lambda sample: sample.duplicates),
    Column("lost", 8, lambda sample: sample.lost),
)
FIRST_SECONDS = 2


def heading(setting: Setting, names: Sequence[str]) -> str:
    """The core and the machine in one line; the stream; what to keep in mind; who takes part.

    ValueError: a setting that is no stream.
    """
    return "\n".join((
        machine_line(PACKAGES),
        stream_line(setting),
        "",
        *(f"- {caveat}" for caveat in CAVEATS),
        "",
        *(f"{name:<12}{DESIGNS[name].summary}" for name in names),
    ))


def stream_line(setting: Setting) -> str:
    due = setting.stream()
    again = sum(delivery.again for delivery in due)
    return (
        f"{len(due):,} deliveries in {setting.duration:g} s, {again:,} of them again; {setting.clients:,} "
        f"clients; {setting.consume * 1e3:g} ms of work each; {setting.threads:,} threads of ours; "
        f"seed {setting.seed}"
    )


def moments(row: Row, each_second: bool) -> str:
    """A design's metrics, a line a second: the first ones and the last, or each."""
    return "\n".join(("", row.setting.design, *_moments(row, each_second)))


def _moments(row: Row, each_second: bool) -> Iterator[str]:
    if row.sample is None:
        yield f"  {row.note}"
        return
    seen = row.sample.moments
    first = len(seen) if each_second else FIRST_SECONDS
    for number, moment in enumerate(seen, 1):
        if number <= first or number == len(seen):
            yield f"  {moment.at_s:>5g} s  latency_ms: {moment.latency}; {queue(moment)}"
        elif number == first + 1:
            yield f"  {'...':>7}"


def queue(moment: Moment) -> str:
    return "no queue" if moment.queue_length is None else f"queue={moment.queue_length}"


def as_text(rows: Sequence[Row]) -> str:
    return "\n".join((*_table(rows), "", *map(sentence, rows), *promises(verdicts(rows))))


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield ""
    yield f"{'':<12}{header(COLUMNS)}"
    for row in rows:
        seen = figures(COLUMNS, row.sample) if row.sample else ""
        yield f"{row.setting.design:<12}{seen}  {row.note or ''}".rstrip()


def as_json(rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "machine": machine(PACKAGES),
        "caveats": CAVEATS,
        "designs": [
            asdict(row.setting) | {
                "keeps_up": row.keeps_up,
                "seen": _seen(row.sample) if row.sample else None,
                "note": row.note,
            }
            for row in rows
        ],
        "promises": [asdict(verdict) for verdict in verdicts(rows)],
    }


def _seen(sample: Sample) -> dict[str, Any]:
    return asdict(sample) | {
        "moments": [asdict(moment) | {"latency": moment.latency._asdict()} for moment in sample.moments]
    }
