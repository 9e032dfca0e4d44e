"""The report of `tickwheel bench broker`: latency over rate, and the purgatories' sizes over time."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tickwheel.bench.broker.plan import Row
from tickwheel.bench.broker.results import CAVEATS, verdicts
from tickwheel.bench.broker.sample import Sample
from tickwheel.cli.bench_broker_text import COLUMNS, PACKAGES, caption
from tickwheel.cli.bench_pages import promises
from tickwheel.report import Report, new_figure


class BrokerPage:
    """Made before the long work, so that a missing extra is known then; `html` when the rows are full."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._report = Report("The broker, measured", packages=(*PACKAGES, "matplotlib"))
        new_figure()

    def html(self) -> str:
        report = self._report
        for caveat in CAVEATS:
            report.text(caveat)
        promises(report, verdicts(self._rows))
        ran = [(row.cell.rate, row.sample) for row in self._rows if row.sample]
        if ran:
            report.plot("Latency over rate", _latencies(ran))
        report.table(caption(self._rows[0].cell.setting), [
            ("asked/s", *(column.heading for column in COLUMNS), "note"),
            *(
                (
                    row.cell.rate,
                    *(column.figure(row.sample) if row.sample else None for column in COLUMNS), row.note,
                )
                for row in self._rows
            ),
        ])
        for rate, sample in ran:
            if sample.sizes:
                report.plot(f"The purgatories over time at {rate:,} produces a second", _sizes(sample))
        return report.html()


def _latencies(ran: Sequence[tuple[int, Sample]]) -> Any:
    figure = new_figure()
    axes = figure.subplots()
    rates = [rate for rate, _ in ran]
    for what, color in ("produce", "C0"), ("fetch", "C1"):
        for share, style in ("p50", "--"), ("p99", "-"):
            # What had nothing to measure is a gap in its line.
            heights = [getattr(sample.seen, f"{what}_{share}_ms") or float("nan") for _, sample in ran]
            axes.plot(rates, heights, style, color=color, marker="o", markersize=4, label=f"{what} {share}")
    axes.set(xscale="log", yscale="log", xlabel="rate asked for, produces a second", ylabel="ms")
    axes.set_xticks(rates, [f"{rate:,}" for rate in rates])
    axes.minorticks_off()
    axes.grid(which="both", alpha=0.2)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _sizes(sample: Sample) -> Any:
    """One above the other: dozens wait for replicas, hundreds for records."""
    figure = new_figure(height=4.5)
    above, below = figure.subplots(2, sharex=True)
    times, produces, produce_pairs, fetches, fetch_pairs = zip(*sample.sizes, strict=True)
    for axes, name, waiting, watched in (
        (above, "produce", produces, produce_pairs),
        (below, "fetch", fetches, fetch_pairs),
    ):
        axes.plot(times, watched, color="C1", linewidth=1, label="watched, with each key")
        axes.plot(times, waiting, color="C0", linewidth=1, label="waiting")
        axes.set_ylim(bottom=0)
        axes.set(ylabel=name)
        axes.grid(alpha=0.2)
    above.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    below.set(xlabel="seconds")
    return figure
