"""What `tickwheel bench spark` prints: a table a story, where ours loses, and what became of the promises."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from tickwheel.bench.spark.plan import Row
from tickwheel.bench.spark.results import CAVEATS, configured_ns, losses, ratio, verdicts
from tickwheel.bench.spark.stories import STORIES, Story
from tickwheel.cli.bench_tables import Column, figures, header, machine_line, number, promises
from tickwheel.machine import machine

PACKAGES = ("pyspark", "pyarrow", "numpy", "pandas", "protobuf")
WIDTH = 30      # of a contender's name


def heading(rows: Sequence[Row], java: str) -> str:
    line = f"{machine_line(PACKAGES)}; Java {java}; master {master(rows)}"
    return "\n".join((line, "", *(f"- {caveat}" for caveat in CAVEATS)))


def master(rows: Sequence[Row]) -> str:
    return f"local[{rows[0].cell.cores}]"


def told(rows: Sequence[Row]) -> Iterator[tuple[Story, list[Row]]]:
    """Each story and its rows."""
    for name, group in groupby(rows, lambda row: row.cell.story):
        yield STORIES[name], list(group)


def columns(story: Story, rows: Sequence[Row]) -> tuple[Column[Row], ...]:
    """What there is to say of each of a story's rows."""

    def seen(what: str) -> Column[Row]:
        return Column(what, max(14, len(what) + 2), lambda row: row.seen(what))

    found: list[Column[Row]] = [
        Column("rows", 14, lambda row: row.samples[0].rows if row.samples else None),
        Column(story.unit, 18, lambda row: row.figure),
        Column("rows/s", 12, lambda row: row.rows_per_s),
        *map(seen, story.seen),
    ]
    if story.ours:
        found.insert(3, Column(f"x {story.ours}", len(story.ours) + 5, lambda row: ratio(row, rows)))
    if any(configured_ns(row, rows) is not None for row in rows):
        found.append(Column("core ns beyond reading", 24, lambda row: configured_ns(row, rows)))
    return tuple(found)


def as_text(rows: Sequence[Row]) -> str:
    return "\n".join((*_tables(rows), *_losses(rows), *promises(verdicts(rows))))


def _tables(rows: Sequence[Row]) -> Iterator[str]:
    for story, own in told(rows):
        heads = columns(story, own)
        yield ""
        yield story.caption
        yield f"  {'':<{WIDTH}}{header(heads)}"
        for row in own:
            seen = figures(heads, row) if row.samples else ""
            yield f"  {row.cell.contender:<{WIDTH}}{seen}  {row.note or ''}".rstrip()
        if story.advice:
            yield f"  {story.advice}"


def _losses(rows: Sequence[Row]) -> Iterator[str]:
    if found := losses(rows):
        yield ""
        yield "Faster than ours"
        for row, times in found:
            ours = STORIES[row.cell.story].ours
            yield f"  {row.cell.story:<14}{row.cell.contender:<{WIDTH}}{number(times)} of the time of {ours}"


def as_json(rows: Sequence[Row], rounds: int, java: str) -> dict[str, Any]:
    return {
        "machine": machine(PACKAGES) | {"Java": java, "master": master(rows)},
        "caveats": CAVEATS,
        "rounds": rounds,
        "rows": [
            {
                "story": row.cell.story,
                "contender": row.cell.contender,
                "seconds": row.figure,
                "rows_per_s": row.rows_per_s,
                "ratio": ratio(row, rows),
                "configured_ns": configured_ns(row, rows),
                "samples": [asdict(sample) for sample in row.samples],
                "note": row.note,
            }
            for row in rows
        ],
        "promises": [asdict(verdict) for verdict in verdicts(rows)],
    }
