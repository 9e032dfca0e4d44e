"""The report of `tickwheel tune`: cost, wake-ups and cascades over the wheel size, lateness, pending."""
from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

from tickwheel.cli.tune_text import (
    CAVEATS,
    COLUMNS,
    choice_line,
    configuration,
    timeout_of,
    warning_line,
)
from tickwheel.report import Report, new_figure

if TYPE_CHECKING:
    from tickwheel.spark.tuning import Tuning


class TunePage:
    """Made before the long work, so that a missing extra is known then; `html` when it is done."""

    def __init__(self, args: Namespace) -> None:
        self._args = args
        new_figure()

    def html(self, tuning: Tuning) -> str:
        args = self._args
        report = Report(f"Tuning for {', '.join(args.traces)}", packages=("matplotlib", "pyarrow", "pyspark"))
        report.table("Replays", [
            ("what", "value"),
            ("Spark's master", args.master),
            ("timeout", timeout_of(args)),
            ("p99 lateness at most, ms", args.max_lateness / 1e6),
            ("shards", tuning.choices[0].shards),
            ("requests", tuning.choices[0].requests),
            ("completed", tuning.choices[0].completed),
            ("expired", tuning.choices[0].expired),
        ])
        report.text(choice_line(args, tuning))
        if line := warning_line(tuning):
            report.text(line)
        report.table("Configurations, best first", [
            ("tick ms", "wheel size", "purge", *(column.heading for column in COLUMNS)),
            *(
                (row.tick_ms, row.wheel_size, row.purge_interval, *(column.figure(row) for column in COLUMNS))
                for row in tuning.choices
            ),
        ])
        report.table("Why in this order", [
            ("configuration", "why"),
            *((configuration(row), row.why) for row in tuning.choices),
        ])
        for caveat in CAVEATS:
            report.text(caveat)
        report.plot("Cost", _over_wheel_size(tuning, lambda row: row.cost_s, "seconds of a core"))
        report.plot("Wake-ups", _over_wheel_size(tuning, lambda row: row.wakeups, "wake-ups"))
        report.plot("Cascades", _over_wheel_size(tuning, lambda row: row.cascades, "cascades"))
        if tuning.lateness:
            report.plot("Lateness of the expired requests", _lateness(tuning))
        if tuning.choices[0].requests:
            caption = f"Pending over time, {configuration(tuning.choices[0])}"
            report.plot(caption, _pending(tuning))
        return report.html()


def _over_wheel_size(tuning: Tuning, y: Callable[[Any], float], label: str) -> Any:
    figure = new_figure()
    axes = figure.subplots()
    def line_of(row: Any) -> tuple[float, int]:
        return row.tick_ms, -1 if row.purge_interval is None else row.purge_interval

    rows = sorted(tuning.choices, key=lambda row: (*line_of(row), row.wheel_size))
    for (tick, interval), line in groupby(rows, line_of):
        points = [(row.wheel_size, y(row)) for row in line]
        purge = "" if interval < 0 else f", purge {interval:,}"
        axes.plot(*zip(*points, strict=True), label=f"tick {tick:g} ms{purge}", marker="o", markersize=4)
    axes.set(xscale="log", xlabel="wheel size", ylabel=label, ylim=(0, None))
    sizes = sorted({row.wheel_size for row in rows})
    axes.set_xticks(sizes, map(str, sizes))
    axes.minorticks_off()
    axes.grid(alpha=0.2)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _lateness(tuning: Tuning) -> Any:
    """The share of the expired requests that fire at most so late, a line a tick."""
    figure = new_figure()
    axes = figure.subplots()
    for tick, buckets in groupby(tuning.lateness, lambda bucket: bucket.tick_ms):
        edges, counts = zip(*((bucket.upto_ns / 1e6, bucket.requests) for bucket in buckets), strict=True)
        sums = list(accumulate(counts))
        axes.step(edges, [part / sums[-1] for part in sums], where="post", label=f"tick {tick:g} ms")
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set(
        xlabel="fire after the exact deadline, ms", ylabel="share of requests", xlim=(0, None), ylim=(0, 1)
    )
    axes.grid(alpha=0.2)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _pending(tuning: Tuning) -> Any:
    """The most pending in each interval of time, a line a shard."""
    figure = new_figure()
    axes = figure.subplots()
    curves = [shard for shard in tuning.shards if shard.pending]
    start = min(shard.pending[0].at_ms for shard in curves)
    for shard in curves:
        seconds = [(point.at_ms - start) / 1e3 for point in shard.pending]
        peaks = [point.peak for point in shard.pending]
        axes.step(seconds, peaks, where="post", label=f"shard {shard.shard}")
    axes.set(xlabel="seconds since the first arrival", ylabel="pending requests", ylim=(0, None))
    axes.grid(alpha=0.2)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
