"""The report of `tickwheel bench configuration`: speed and cascades over the wheel size, a line a tick."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tickwheel.bench.configuration import Row, Sample
from tickwheel.bench.live import LiveRow
from tickwheel.cli.bench_configuration_text import CAVEATS, COLUMNS, distributions, live_line, range_line
from tickwheel.report import Report, new_figure


class ConfigurationPage:
    """Made before the long work, so that a missing extra is known then; `html` when the rows are full."""

    def __init__(self, rows: Sequence[Row], live: LiveRow) -> None:
        self._rows, self._live = rows, live
        self._report = Report("Bad configurations, measured", packages=("matplotlib",))
        new_figure()

    def html(self) -> str:
        report = self._report
        for caveat in CAVEATS:
            report.text(caveat)
        for caption, rows in distributions(self._rows):
            if line := range_line(rows):
                report.plot(f"{caption}: CPU time", _over_wheel_size(
                    rows, lambda sample: sample.schedule_ns + sample.expire_ns, "ns a task",
                ))
                report.plot(f"{caption}: cascades", _over_wheel_size(
                    rows, lambda sample: sample.cascades, "cascades a task",
                ))
                report.text(line)
            report.table(caption, [
                ("tick, ms", "wheel size", *(column.heading for column in COLUMNS), "note"),
                *(
                    (
                        row.cell.tick * 1e3, row.cell.wheel_size,
                        *(column.figure(row.sample) if row.sample else None for column in COLUMNS),
                        row.note,
                    )
                    for row in rows
                ),
            ])
        report.text(live_line(self._live))
        return report.html()


def _over_wheel_size(rows: Sequence[Row], y: Callable[[Sample], float], label: str) -> Any:
    figure = new_figure()
    axes = figure.subplots()
    for tick in dict.fromkeys(row.cell.tick for row in rows):
        points = sorted(
            (row.cell.wheel_size, y(sample))
            for row in rows
            if row.cell.tick == tick and (sample := row.sample)
        )
        if points:
            axes.plot(*zip(*points, strict=True), label=f"tick {tick * 1e3:g} ms", marker="o", markersize=4)
    axes.set(xscale="log", xlabel="wheel size", ylabel=label, ylim=(0, None))
    axes.grid(alpha=0.2)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
