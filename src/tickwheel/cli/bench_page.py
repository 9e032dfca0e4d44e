"""The report of `tickwheel bench`: time per operation over N, and ratios, beside the tables."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from tickwheel.bench.cell import Cell
from tickwheel.bench.results import CAVEATS, THIS, losses, medians, ratio, targets_seen
from tickwheel.bench.runner import Row
from tickwheel.cli.bench_text import NET, about, packages, unit
from tickwheel.report import Report, new_figure

COLOURS = 10    # in matplotlib's cycle


class BenchPage:
    """Made before the long work, so that a missing extra is known then; `html` when the rows are full."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._report = Report("Timers, measured", packages=(*packages(rows), "matplotlib"))
        new_figure()

    def html(self) -> str:
        report, known = self._report, medians(self._rows)
        for caveat in CAVEATS:
            report.text(caveat)
        names = dict.fromkeys(row.cell.peer for row in self._rows)
        report.table("Contenders", [("name", "what it is"), *((name, about(name)) for name in names)])
        if seen := targets_seen(known):
            report.table("Targets, GC off", [
                ("target", "seen", "", NET),
                *(
                    (str(target), value, "holds" if target.holds(value) else "fails", net)
                    for target, value, net in seen
                ),
            ])
        if beaten := losses(known):
            report.table(f"Where {THIS} loses", [
                ("operation", "pending", "GC", "peer", f"share of {THIS}'s figure"),
                *((cell.operation, cell.n, cell.gc, cell.peer, times) for cell, times in beaten),
            ])
        for (operation, collector), group in groupby(
            self._rows, lambda row: (row.cell.operation, row.cell.gc)
        ):
            rows = list(group)
            caption = f"{operation}, GC {collector}: {unit(operation)}"
            if any(row.figure for row in rows):
                report.plot(f"{caption}, over the pending timers", _over_n(rows))
            if any(ratio(row.cell, known) for row in rows):
                report.plot(f"{caption}, as a multiple of {THIS}", _multiples(rows, known))
            report.table(caption, [
                ("peer", "pending", "median", "low", "high", "p99", f"x {THIS}", "note"),
                *(
                    (row.cell.peer, row.cell.n, *_numbers(row), ratio(row.cell, known), row.note)
                    for row in rows
                ),
            ])
        return report.html()


def _numbers(row: Row) -> tuple[float | None, ...]:
    figure = row.figure
    return (figure.median, figure.low, figure.high, figure.p99) if figure else (None,) * 4


def _over_n(rows: Sequence[Row]) -> Any:
    """A line a peer, both axes logarithmic."""
    figure = new_figure(height=5.0)
    axes = figure.subplots()
    for number, peer in enumerate(dict.fromkeys(row.cell.peer for row in rows)):
        points = [(row.cell.n, row.figure.median) for row in rows if row.cell.peer == peer and row.figure]
        if points:
            ours = peer == THIS
            axes.plot(
                *zip(*points, strict=True), label=peer, marker="o", markersize=4,
                linewidth=3 if ours else 1, color="black" if ours else None,
                linestyle="-" if number <= COLOURS else "--",
            )
    axes.set(xscale="log", yscale="log", xlabel="pending timers", ylabel=unit(rows[0].cell.operation))
    axes.grid(which="both", alpha=0.2)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _multiples(rows: Sequence[Row], known: Mapping[Cell, float]) -> Any:
    """A group of bars a peer, a bar a size."""
    peers = [peer for peer in dict.fromkeys(row.cell.peer for row in rows) if peer != THIS]
    sizes = sorted({row.cell.n for row in rows})
    figure = new_figure(height=1.5 + 0.3 * len(peers))
    axes = figure.subplots()
    thickness = 0.8 / len(sizes)
    for place, n in enumerate(sizes):
        bars = [
            (peers.index(row.cell.peer) + place * thickness, times)
            for row in rows
            if row.cell.n == n and row.cell.peer != THIS and (times := ratio(row.cell, known))
        ]
        if bars:
            axes.barh(*zip(*bars, strict=True), height=thickness, label=f"{n:,} pending")
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set(xscale="log", xlabel=f"times {THIS}")
    axes.set_yticks([number + 0.4 - thickness / 2 for number in range(len(peers))], peers)
    axes.invert_yaxis()
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
