"""The report of `tickwheel kata`: latency and backlog over time, and the table beside them."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tickwheel.bench.kata.designs import DESIGNS, OURS
from tickwheel.bench.kata.results import CAVEATS, Row, sentence, verdicts
from tickwheel.bench.kata.run import Moment
from tickwheel.cli.bench_pages import promises
from tickwheel.cli.kata_text import COLUMNS, PACKAGES, stream_line
from tickwheel.report import Report, new_figure


class KataPage:
    """Made before the long work, so that a missing extra is known then; `html` when the rows are full."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._report = Report("The stream kata", packages=(*PACKAGES, "matplotlib"))
        self._report.text(stream_line(rows[0].setting))
        new_figure()

    def html(self) -> str:
        report, rows = self._report, self._rows
        for row in rows:
            report.text(sentence(row))
        report.table("Designs", [
            ("design", *(column.heading for column in COLUMNS), "note"),
            *(
                (
                    row.setting.design,
                    *(column.figure(row.sample) if row.sample else None for column in COLUMNS),
                    row.note,
                )
                for row in rows
            ),
        ])
        promises(report, verdicts(rows))
        if any(row.sample for row in rows):
            report.plot("Latency over time: the median, and p99 dotted, of all events so far", _over_time(
                rows, "ms", lambda moment: moment.latency.p50 * 1e3, lambda moment: moment.latency.p99 * 1e3,
            ))
            report.plot("Deliveries that wait or are being worked on, over time", _over_time(
                rows, "deliveries", lambda moment: moment.backlog,
            ))
        report.table("What they are", [
            ("design", ""), *((row.setting.design, DESIGNS[row.setting.design].summary) for row in rows),
        ])
        for caveat in CAVEATS:
            report.text(caveat)
        return report.html()


def _over_time(rows: Sequence[Row], unit: str, *figures: Callable[[Moment], float]) -> Any:
    """A colour a design, thick where it is ours; a line a figure, the second one dotted."""
    figure = new_figure(height=5.0)
    axes = figure.subplots()
    for number, row in enumerate(rows):
        if row.sample is not None:
            seconds = [moment.at_s for moment in row.sample.moments]
            for read, style in zip(figures, ("-", ":"), strict=False):
                axes.plot(
                    seconds, [read(moment) for moment in row.sample.moments], style, color=f"C{number}",
                    linewidth=3 if row.setting.design == OURS else 1.5,
                    marker="." if len(seconds) == 1 else None,      # a line of one point is none
                    label=row.setting.design if style == "-" else None,
                )
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set(ylim=(0, None), xlabel="seconds", ylabel=unit)
    axes.grid(alpha=0.2)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
