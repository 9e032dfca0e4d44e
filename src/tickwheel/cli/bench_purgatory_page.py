"""The report of `tickwheel bench purgatory`: each load's plots, a line a design, and the tables."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from tickwheel.bench.calibration import REFERENCE_NS
from tickwheel.bench.purgatory.plan import RequestRow, RunRow
from tickwheel.bench.purgatory.request import STORIES
from tickwheel.bench.purgatory.results import (
    CAVEATS,
    KAFKA,
    OURS,
    calibration_ns,
    latency_name,
    peaks,
    slowness,
    verdicts,
)
from tickwheel.bench.purgatory.run import Sample, Setting
from tickwheel.cli.bench_pages import promises
from tickwheel.cli.bench_purgatory_text import COLUMNS, by_variant, contenders, loads, remark, setting_line
from tickwheel.report import Report, new_figure


class PurgatoryPage:
    """Made before the long work, so that a missing extra is known then; `html` when the rows are full."""

    def __init__(self, base: Setting, runs: Sequence[RunRow], requests: Sequence[RequestRow]) -> None:
        self._runs, self._requests = runs, requests
        self._report = Report("Purgatories, measured", packages=("matplotlib",))
        self._report.text(setting_line(base))
        new_figure()

    def html(self) -> str:
        report, runs = self._report, self._runs
        for caveat in CAVEATS:
            report.text(caveat)
        report.table("Contenders", [("name", "what it is"), *contenders(runs)])
        report.table("Calibration, ns an iteration of `x += i & 7`", [
            ("here", "where Kafka's was measured"), (calibration_ns(runs, self._requests), REFERENCE_NS),
        ])
        promises(report, verdicts(runs, self._requests))
        if fastest := peaks(runs, slowness(runs, self._requests)):
            report.table("The fastest, with 3 keys", [
                ("latency", "design", "achieved/s", "scaled/s", "Kafka's on the JVM, /s", "CPU us", "scaled",
                 "Kafka's at 100,000/s"),
                *(
                    (
                        latency_name(*peak.latency_ms), peak.variant,
                        peak.rate, peak.scaled_rate, kafka.rate if kafka else None,
                        peak.cpu_us, peak.scaled_cpu_us, kafka.cpu_us if kafka else None,
                    )
                    for peak in fastest
                    for kafka in [KAFKA.get(peak.latency_ms)]
                ),
            ])
        report.table("One request at a time, ns", [
            ("design", *STORIES),
            *(
                (name, *(row.sample.request_ns if row.sample else None for row in rows))
                for name, rows in by_variant(self._requests)
            ),
        ])
        for caption, rows in loads(runs):
            self._load(caption, rows)
        return report.html()

    def _load(self, caption: str, rows: Sequence[RunRow]) -> None:
        report = self._report
        if any(row.sample for row in rows):
            report.plot(f"{caption}: achieved over target rate", _achieved_over_target(rows))
            report.plot(f"{caption}: CPU time over achieved rate", _over_achieved(
                rows, lambda sample: sample.cpu_us, "CPU us a request",
            ))
            report.plot(f"{caption}: memory over achieved rate", _over_achieved(
                rows, lambda sample: sample.memory and sample.memory / 1e6, "peak growth, MB",
            ))
        report.table(caption, [
            ("target/s", "design", *(column.heading for column in COLUMNS), "note"),
            *(
                (
                    str(row.target), row.name,
                    *(column.figure(row.sample) if row.sample else None for column in COLUMNS), remark(row),
                )
                for row in rows
            ),
        ])


def _achieved_over_target(rows: Sequence[RunRow]) -> Any:
    """What has no target, because it goes as fast as it can, stands at the right."""
    finite = [row.target.per_s for row in rows if row.target.per_s < inf]
    edge = 2 * max(finite + [sample.rate for row in rows if (sample := row.sample)])
    figure = _lines(
        [row for row in rows if row.target.of_own is None],
        lambda row, _: min(row.target.per_s, edge), lambda _, sample: sample.rate,
    )
    [axes] = figure.axes
    if finite:
        axes.plot([min(finite), edge], [min(finite), edge], color="black", linewidth=1, linestyle=":")
    axes.set(xlabel="target rate, requests a second; at the right: none", ylabel="achieved", yscale="log")
    return figure


def _over_achieved(rows: Sequence[RunRow], y: Callable[[Sample], float | None], label: str) -> Any:
    figure = _lines(rows, lambda _, sample: sample.rate, lambda _, sample: y(sample))
    [axes] = figure.axes
    axes.set(xlabel="achieved rate, requests a second", ylabel=label, yscale="log")
    return figure


def _lines(
    rows: Sequence[RunRow], x: Callable[[RunRow, Sample], float], y: Callable[[RunRow, Sample], float | None]
) -> Any:
    """A line a design, thick where it is ours; a cross is a run that ended before its time."""
    figure = new_figure(height=5.0)
    axes = figure.subplots()
    for number, name in enumerate(dict.fromkeys(row.name for row in rows)):
        own = [(row, sample) for row in rows if row.name == name and (sample := row.sample)]
        points = sorted(
            (x(row, sample), height, sample.enqueued < row.setting.requests)
            for row, sample in own
            if (height := y(row, sample))
        )
        if points:
            xs, heights, _ = zip(*points, strict=True)
            ours = own[0][0].setting.design == OURS
            axes.plot(xs, heights, label=name, marker="o", markersize=4, color=f"C{number}",
                      linewidth=3 if ours else 1)
            crosses = [(a, b) for a, b, early in points if early]
            if crosses:
                axes.plot(*zip(*crosses, strict=True), marker="x", markersize=12, linestyle="",
                          color=f"C{number}")
    axes.set(xscale="log")
    axes.grid(which="both", alpha=0.2)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
