"""The report of `tickwheel bench dropins`: each story's bars, and the table beside them."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tickwheel.bench.dropins.plan import Row
from tickwheel.bench.dropins.results import CAVEATS, collectors, ratio, verdicts
from tickwheel.bench.dropins.stories import Story
from tickwheel.cli.bench_dropins_text import contenders, packages, told
from tickwheel.cli.bench_pages import promises, scale
from tickwheel.report import Report, new_figure


class DropinsPage:
    """Made before the long work, so that a missing extra is known then; `html` when the rows are full."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._report = Report("Drop-ins, measured", packages=(*packages(rows), "matplotlib"))
        new_figure()

    def html(self) -> str:
        report = self._report
        for caveat in CAVEATS:
            report.text(caveat)
        promises(report, verdicts(self._rows))
        for story, caption, rows in told(self._rows):
            if any(row.figure for row in rows):
                report.plot(caption, _bars(rows, story))
            beside = [story.beside] if story.beside else []
            report.table(caption, [
                ("", "GC", "median", "lowest", "highest", f"x {story.ours}", *beside, "note"),
                *(
                    (
                        name, row.cell.gc, row.figure, *_range(row), ratio(row, rows),
                        *([row.beside] if beside else []), row.note,
                    )
                    for name, group in contenders(rows)
                    for row in group
                ),
            ])
        return report.html()


def _range(row: Row) -> tuple[float | None, float | None]:
    figures = [sample.figure for sample in row.samples]
    return (min(figures), max(figures)) if figures else (None, None)


def _bars(rows: Sequence[Row], story: Story) -> Any:
    """A group a contender, a bar a collector."""
    groups = [(name, group) for name, group in contenders(rows) if any(row.figure for row in group)]
    figure = new_figure(height=1.2 + 0.4 * len(groups))
    axes = figure.subplots()
    kinds = collectors(rows)
    thickness = 0.8 / len(kinds)
    for place, collector in enumerate(kinds):
        bars = [
            (number + place * thickness, row.figure)
            for number, (_, group) in enumerate(groups)
            for row in group
            if row.cell.gc == collector and row.figure is not None
        ]
        if bars:
            axes.barh(*zip(*bars, strict=True), height=thickness, label=f"GC {collector}")
    seen = [row.figure for row in rows if row.figure and row.figure > 0]
    axes.set(xscale=scale(seen), xlabel=story.unit)
    middles = [number + 0.4 - thickness / 2 for number in range(len(groups))]
    axes.set_yticks(middles, [name for name, _ in groups])
    axes.invert_yaxis()
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
