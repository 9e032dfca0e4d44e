"""What `tickwheel bench recipes` prints: a table a story, where ours loses, what became of the promises."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from tickwheel.bench.recipes.plan import Row, package_of
from tickwheel.bench.recipes.results import CAVEATS, figure, losses, ratio, verdicts
from tickwheel.bench.recipes.stories import STORIES, Story
from tickwheel.cli.bench_tables import Column, figures, header, machine_line, number, promises
from tickwheel.machine import machine

WIDTH = 24      # of a contender's name


def heading(rows: Sequence[Row]) -> str:
    return "\n".join((machine_line(packages(rows)), "", *(f"- {caveat}" for caveat in CAVEATS)))


def packages(rows: Sequence[Row]) -> list[str]:
    """Those whose versions matter."""
    needed = (package_of(row.cell) for row in rows if row.note is None)
    return [package for package in dict.fromkeys(needed) if package]


def told(rows: Sequence[Row]) -> Iterator[tuple[Story, str, list[Row]]]:
    """Each story, with its caption and its rows; a collector each, where there are two."""
    for (name, collector), group in groupby(rows, lambda row: (row.cell.story, row.cell.gc)):
        own, story = list(group), STORIES[name]
        yield story, f"{story.caption(own[0].cell.sizes)}; GC {collector}", own


def columns(story: Story, rows: Sequence[Row]) -> tuple[Column[Row], ...]:
    """What there is to say of each of a story's rows: its figure first, and how many times ours it is."""

    def seen(what: str) -> Column[Row]:
        return Column(what, max(12, len(what) + 3), lambda row: row.seen(what))

    found = [seen(what) for what in story.seen]
    found.insert(1, Column(f"x {story.ours}", len(story.ours) + 5, lambda row: ratio(row, rows)))
    if story.beyond:
        found.insert(1, Column("beyond", 9, lambda row: figure(row, rows)))
    return tuple(found)


def as_text(rows: Sequence[Row]) -> str:
    return "\n".join((*_tables(rows), *_losses(rows), *promises(verdicts(rows))))


def _tables(rows: Sequence[Row]) -> Iterator[str]:
    for story, caption, own in told(rows):
        heads = columns(story, own)
        yield ""
        yield caption
        yield f"  {'':<{WIDTH}}{header(heads)}"
        for row in own:
            seen = figures(heads, row) if row.samples else ""
            yield f"  {row.cell.contender:<{WIDTH}}{seen}  {row.note or ''}".rstrip()


def _losses(rows: Sequence[Row]) -> Iterator[str]:
    if found := losses(rows):
        yield ""
        yield "Cheaper than ours"
        for row, times in found:
            story = STORIES[row.cell.story]
            unit = f"{story.seen[0]} beyond {story.beyond}" if story.beyond else story.seen[0]
            share = f"{number(times)} of the {unit} of {story.ours}, GC {row.cell.gc}"
            yield f"  {row.cell.story:<12}{row.cell.contender:<{WIDTH}}{share}"


def as_json(rows: Sequence[Row], rounds: int) -> dict[str, Any]:
    return {
        "machine": machine(packages(rows)),
        "caveats": CAVEATS,
        "rounds": rounds,
        "rows": [
            asdict(row.cell) | {
                "unit": STORIES[row.cell.story].seen[0],
                "figure": figure(row, rows),
                "ratio": ratio(row, rows),
                "samples": [sample.seen for sample in row.samples],
                "note": row.note,
            }
            for row in rows
        ],
        "promises": [asdict(verdict) for verdict in verdicts(rows)],
    }
