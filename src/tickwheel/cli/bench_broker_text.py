"""What `tickwheel bench broker` prints: the machine, the caveats, a line a rate, the promises."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from tickwheel.bench.broker.frames import VALUE
from tickwheel.bench.broker.plan import Row
from tickwheel.bench.broker.results import CAVEATS, verdicts
from tickwheel.bench.broker.sample import Sample, Seen, Setting
from tickwheel.cli.bench_tables import Column, figures, header, machine_line, promises
from tickwheel.machine import machine

PACKAGES = ("kio", "crc32c")


def heading(rows: Sequence[Row]) -> str:
    return "\n".join((machine_line(PACKAGES), "", *(f"- {caveat}" for caveat in CAVEATS)))


def caption(setting: Setting) -> str:
    return (
        f"produce, acks=all, records of {len(VALUE)} bytes; {setting.partitions:,} partitions, "
        f"{setting.replicas:,} replicas; {setting.producers:,} producers, {setting.consumers:,} consumers, "
        f"{setting.waiting:,} further polls; {setting.seconds:g} s; latencies in ms"
    )


def _seen(heading: str, width: int, figure: Callable[[Seen], float | None]) -> Column[Sample]:
    return Column(heading, width, lambda sample: figure(sample.seen))


COLUMNS: tuple[Column[Sample], ...] = (
    _seen("reached/s", 11, lambda seen: round(seen.rate)),
    _seen("produce p50", 13, lambda seen: seen.produce_p50_ms),
    _seen("p99", 8, lambda seen: seen.produce_p99_ms),
    _seen("fetch p50", 11, lambda seen: seen.fetch_p50_ms),
    _seen("p99", 8, lambda seen: seen.fetch_p99_ms),
    _seen("late p99", 10, lambda seen: seen.late_p99_ms),
    Column("CPU %", 7, lambda sample: 100 * sample.cpu_share),
    Column("CPU us", 8, lambda sample: sample.cpu_us),
    Column("most produces", 15, lambda sample: sample.most(lambda sizes: sizes.produces)),
    Column("fetches", 9, lambda sample: sample.most(lambda sizes: sizes.fetches)),
    _seen("sent", 9, lambda seen: seen.sent),
    _seen("answered", 10, lambda seen: seen.answered),
    _seen("errors", 8, lambda seen: seen.errors),
)


def as_text(rows: Sequence[Row]) -> str:
    return "\n".join((*_table(rows), *promises(verdicts(rows))))


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield ""
    yield caption(rows[0].cell.setting)
    yield f"  {'asked/s':>9}{header(COLUMNS)}"
    for row in rows:
        seen = figures(COLUMNS, row.sample) if row.sample else ""
        yield f"  {row.cell.rate:>9,}{seen}  {row.note or ''}".rstrip()


def as_json(rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "machine": machine(PACKAGES),
        "caveats": CAVEATS,
        "setting": asdict(rows[0].cell.setting),
        "rows": [
            {
                "rate": row.cell.rate,
                "sample": _told(row.sample) if row.sample else None,
                "note": row.note,
            }
            for row in rows
        ],
        "promises": [asdict(verdict) for verdict in verdicts(rows)],
    }


def _told(sample: Sample) -> dict[str, Any]:
    """The sizes as objects, too."""
    return asdict(sample) | {"sizes": [sizes._asdict() for sizes in sample.sizes]}
