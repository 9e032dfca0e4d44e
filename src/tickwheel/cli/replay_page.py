"""The report of a replay: what is drawn is counted in fixed memory while the outcomes go by."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from tickwheel._reference.histogram import SIZE, index_of, upper_edge
from tickwheel.replay import ReplayResult
from tickwheel.replay.outcomes import Outcomes
from tickwheel.report import Report, new_figure
from tickwheel.units import NEVER, from_ns


class ReplayPage:
    """`add` takes the outcomes of a replay in their order; `html` is the page when it is done."""

    def __init__(self, trace: str) -> None:
        self.trace = trace
        self._figure = new_figure()     # if that needs an extra, say so before the long work
        self._latencies = [0] * SIZE

    def add(self, outcomes: Outcomes) -> None:
        for arrival, completion, fire in zip(
            outcomes.arrivals, outcomes.completions, outcomes.fires, strict=True
        ):
            if fire == NEVER:
                self._latencies[index_of(completion - arrival)] += 1

    def html(self, result: ReplayResult) -> str:
        own = "each request's own"
        report = Report(f"Replay of {self.trace}", packages=("matplotlib", "pyarrow"))
        report.table("Replay", [
            ("what", "value"),
            ("core", result.implementation),
            ("timeout, ms", own if result.timeout_ns is None else from_ns(result.timeout_ns, "ms")),
            ("tick, ms", from_ns(result.tick_ns, "ms")),
            ("wheel size", result.wheel_size),
            ("purge interval", result.purge_interval),
        ])
        report.table("Outcomes", [
            ("outcome", "requests", "share"),
            *(
                (outcome, count, f"{count / result.requests:.2%}" if result.requests else None)
                for outcome, count in (("completed", result.completed), ("expired", result.expired))
            ),
        ])
        report.table("Wheel", [
            ("what", "value"),
            ("peak pending", result.peak_pending),
            ("bucket wake-ups", result.wakeups),
            ("cascades", result.cascades),
            ("purges", result.purges),
            ("purged", result.purged),
            ("peak watched", result.peak_watched),
            ("lateness p50, ms", result.lateness_p50_ns / 1e6),
            ("lateness p99, ms", result.lateness_p99_ns / 1e6),
            ("lateness max, ms", result.lateness_max_ns / 1e6),
            ("events per second", round(result.events_per_second)),
        ])
        if result.requests:
            self._plot_pending(result)
            report.plot("Pending over time", self._figure)
        if result.completed:
            latencies = _share_figure(self._latencies, "latency, ms", wide=True)
            report.plot("Latency of the completed requests", latencies)
        if result.expired:
            lateness = _share_figure(result.lateness_counts, "fire after the exact deadline, ms")
            report.plot("Lateness of the expired requests", lateness)
        return report.html()

    def _plot_pending(self, result: ReplayResult) -> None:
        axes = self._figure.subplots()
        width, peaks = result.pending_width_ns, result.pending_peaks
        seconds = [i * width / 1e9 for i in range(len(peaks) + 1)]
        axes.stairs(peaks, seconds, label=f"the most in each {width / 1e9:.3g} s")
        axes.axhline(result.peak_pending, linestyle=":", color="black", label=f"peak {result.peak_pending:,}")
        axes.set(xlabel="seconds since the start", ylabel="pending requests", ylim=(0, None))
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)


def _share_figure(counts: Sequence[int], xlabel: str, *, wide: bool = False) -> Any:
    """The share of a histogram's values that lie at or below each value. `wide`: over many powers of ten."""
    figure = new_figure()
    axes = figure.subplots()
    there = [i for i, count in enumerate(counts) if count]
    sums = list(accumulate(counts[i] for i in there))
    axes.step([upper_edge(i) / 1e6 for i in there], [part / sums[-1] for part in sums], where="post")
    axes.set(xlabel=xlabel, ylabel="share of requests", ylim=(0, 1))
    if wide and there[-1] > 0:
        axes.set_xscale("log")
    axes.grid(alpha=0.3)
    return figure
