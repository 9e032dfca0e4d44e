"""What `tickwheel bench dropins` prints: a table a story, and what became of the promises."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from tickwheel.bench.dropins.loops import UVLOOP
from tickwheel.bench.dropins.plan import Row
from tickwheel.bench.dropins.results import CAVEATS, collectors, ratio, verdicts
from tickwheel.bench.dropins.stories import STORIES, Story
from tickwheel.cli.bench_tables import machine_line, number, promises
from tickwheel.machine import machine


def heading(rows: Sequence[Row]) -> str:
    return "\n".join((machine_line(packages(rows)), "", *(f"- {caveat}" for caveat in CAVEATS)))


def packages(rows: Sequence[Row]) -> list[str]:
    """Those whose versions matter."""
    needed = (
        package
        for row in rows
        if row.note is None
        for package in (STORIES[row.cell.story].needs, UVLOOP if row.cell.contender == UVLOOP else None)
    )
    return [package for package in dict.fromkeys(needed) if package]


def told(rows: Sequence[Row]) -> Iterator[tuple[Story, str, list[Row]]]:
    """Each story, with its caption and its rows."""
    for name, group in groupby(rows, lambda row: row.cell.story):
        own, story = list(group), STORIES[name]
        n = max(row.cell.n for row in own)
        yield story, f"{story.caption}; {n:,} {story.counted}: {story.unit}", own


def contenders(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """A contender's rows, a collector each; its name says its N where that is not that of all."""
    several = len({row.cell.n for row in rows}) > 1
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.cell.n, row.cell.contender), []).append(row)
    for (n, contender), group in sorted(groups.items(), key=lambda item: item[0][0]):
        yield f"{contender} at {n:,}" if several else contender, group


def as_text(rows: Sequence[Row]) -> str:
    return "\n".join((*_tables(rows), *promises(verdicts(rows))))


def _tables(rows: Sequence[Row]) -> Iterator[str]:
    for story, caption, own in told(rows):
        heads = "".join(f"{f'GC {gc}':>12}{f'x {story.ours}':>14}" for gc in collectors(own))
        yield ""
        yield caption
        yield f"  {'':<28}{heads}" + (f"{story.beside:>20}" if story.beside else "")
        for name, group in contenders(own):
            if all(row.figure is None for row in group):
                yield f"  {name:<28}{group[0].note or ''}".rstrip()
                continue
            cells = "".join(f"{number(row.figure):>12}{number(ratio(row, own)):>14}" for row in group)
            beside = f"{number(group[0].beside):>20}" if story.beside else ""
            notes = "; ".join(dict.fromkeys(row.note for row in group if row.note))
            yield f"  {name:<28}{cells}{beside}  {notes}".rstrip()


def as_json(rows: Sequence[Row], rounds: int) -> dict[str, Any]:
    return {
        "machine": machine(packages(rows)),
        "caveats": CAVEATS,
        "rounds": rounds,
        "rows": [
            asdict(row.cell) | {
                "unit": STORIES[row.cell.story].unit,
                "figure": row.figure,
                "ratio": ratio(row, rows),
                "beside": {STORIES[row.cell.story].beside: row.beside} if row.beside is not None else {},
                "samples": [sample.figure for sample in row.samples],
                "note": row.note,
            }
            for row in rows
        ],
        "promises": [asdict(verdict) for verdict in verdicts(rows)],
    }
