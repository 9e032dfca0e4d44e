"""The report of `tickwheel bench recipes`: each story's bars, and the table beside them."""
from __future__ import annotations

from collections.abc import Sequence

from tickwheel.bench.recipes.plan import Row
from tickwheel.bench.recipes.results import CAVEATS, figure, losses, verdicts
from tickwheel.cli.bench_pages import bars, promises
from tickwheel.cli.bench_recipes_text import columns, packages, told
from tickwheel.report import Report, new_figure


class RecipesPage:
    """Made before the long work, so that a missing extra is known then; `html` when the rows are full."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._report = Report("Recipes, measured", packages=(*packages(rows), "matplotlib"))
        new_figure()

    def html(self) -> str:
        report = self._report
        for caveat in CAVEATS:
            report.text(caveat)
        promises(report, verdicts(self._rows))
        if found := losses(self._rows):
            report.table("Cheaper than ours", [
                ("story", "contender", "GC", "share of ours"),
                *((row.cell.story, row.cell.contender, row.cell.gc, times) for row, times in found),
            ])
        for story, caption, rows in told(self._rows):
            if figures := _figures(rows):
                beyond = f", beyond {story.beyond}" if story.beyond else ""
                report.plot(caption, bars(figures, f"{story.seen[0]}{beyond}"))
            heads = columns(story, rows)
            report.table(caption, [
                ("", *(head.heading for head in heads), "note"),
                *((row.cell.contender, *(head.figure(row) for head in heads), row.note) for row in rows),
            ])
        return report.html()


def _figures(rows: Sequence[Row]) -> dict[str, float]:
    seen = ((row.cell.contender, figure(row, rows)) for row in rows)
    return {name: value for name, value in seen if value is not None}
