"""What the benchmarks' pages have in common."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tickwheel.bench.purgatory.results import Verdict
from tickwheel.report import Report, new_figure

FAR_APART = 20      # from so many times on the bars stand on a logarithmic axis


def promises(report: Report, seen: Sequence[Verdict]) -> None:
    """A table of what became of each; none where none could be judged."""
    if seen:
        report.table("Promises", [
            ("promise", "seen", ""),
            *((verdict.promise, verdict.seen, "holds" if verdict.holds else "fails") for verdict in seen),
        ])


def scale(figures: Sequence[float]) -> str:
    """The axis for bars so long. Bars of nothing, or less, have no logarithm."""
    least = min(figures)
    return "log" if least > 0 and max(figures) > FAR_APART * least else "linear"


def bars(figures: Mapping[str, float], label: str) -> Any:
    """A plot with a bar for each name; `label` says what is long."""
    plot = new_figure(height=1.2 + 0.3 * len(figures))
    axes = plot.subplots()
    axes.barh(range(len(figures)), list(figures.values()))
    axes.set_yticks(range(len(figures)), list(figures))
    axes.set(xscale=scale(list(figures.values())), xlabel=label)
    axes.invert_yaxis()
    return plot
