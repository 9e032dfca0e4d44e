"""The report of `tickwheel bench spark`: each story's bars, and the table beside them."""
from __future__ import annotations

from collections.abc import Sequence

from tickwheel.bench.spark.plan import Row
from tickwheel.bench.spark.results import CAVEATS, verdicts
from tickwheel.cli.bench_pages import bars, promises
from tickwheel.cli.bench_spark_text import PACKAGES, columns, master, told
from tickwheel.report import Report, new_figure


class SparkPage:
    """Made before the long work, so that a missing extra is known then; `html` when the rows are full."""

    def __init__(self, rows: Sequence[Row], java: str) -> None:
        self._rows = rows
        self._java = java
        self._report = Report("The pipeline on Spark, measured", packages=(*PACKAGES, "matplotlib"))
        new_figure()

    def html(self) -> str:
        report = self._report
        report.text(f"Java {self._java}, master {master(self._rows)}.")
        for line in CAVEATS:
            report.text(line)
        promises(report, verdicts(self._rows))
        for story, rows in told(self._rows):
            if any(row.figure for row in rows):
                seconds = {row.cell.contender: 1e6 / row.rows_per_s for row in rows if row.rows_per_s}
                report.plot(story.caption, bars(seconds, "seconds a million rows"))
            if story.advice:
                report.text(story.advice)
            heads = columns(story, rows)
            report.table(story.caption, [
                ("", *(head.heading for head in heads), "note"),
                *((row.cell.contender, *(head.figure(row) for head in heads), row.note) for row in rows),
            ])
        return report.html()
