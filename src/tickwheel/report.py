"""The report: one HTML file with its tables and plots inside, to read anywhere without a network.

    report = Report("A replay")
    report.table("Outcomes", [("outcome", "requests"), ("completed", 9_990), ("expired", 10)])
    figure = new_figure()
    figure.subplots().plot(seconds, pending)
    report.plot("Pending over time", figure)
    report.write("out.html")
"""
from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from tickwheel.extras import require
from tickwheel.machine import machine
from tickwheel.output import whole_text

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { line-height: 1.2; }
figure { margin: 2rem 0; overflow-x: auto; break-inside: avoid; }
figcaption { font-weight: 600; margin-bottom: .5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .75rem; text-align: left; border-bottom: 1px solid #8886; }
.number { text-align: right; white-space: nowrap; }
svg { max-width: 100%; height: auto; }
svg text { fill: currentColor; }
@media print { body { max-width: none; font-size: 11px; } figure { overflow: visible; } }
"""


class Report:
    """A page under construction: what is added appears in that order, after the machine it was made on.

    `packages` are those whose versions matter to what is reported.
    """

    def __init__(self, title: str, packages: Iterable[str] = ()) -> None:
        self.title = title
        self._body: list[str] = []
        self.table("Machine", [("what", "which"), *machine(packages).items()])

    def text(self, paragraph: str) -> None:
        self._body.append(f"<p>{escape(paragraph)}</p>")

    def table(self, caption: str, rows: Iterable[Sequence[object]]) -> None:
        """The first row is the header. Numbers are aligned to the right, None is a dash."""
        header, *body = rows
        numeric = [
            any(map(_is_number, cells)) and all(cell is None or _is_number(cell) for cell in cells)
            for cells in zip(*body, strict=True)
        ] or [False] * len(header)
        lines = [_row("th", header, numeric), *(_row("td", row, numeric) for row in body)]
        self._figure(caption, "<table>\n" + "\n".join(lines) + "\n</table>")

    def plot(self, caption: str, figure: Any) -> None:
        """A matplotlib figure, drawn now, in the colours of the page (black is the reader's ink)."""
        self._figure(caption, _svg(figure))

    def html(self) -> str:
        title = escape(self.title)
        return "\n".join((
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title>",
            f"<style>{STYLE}</style></head>",
            f"<body><h1>{title}</h1>",
            *self._body,
            "</body></html>",
            "",
        ))

    def write(self, path: str) -> None:
        """The page appears at `path` whole or not at all."""
        with whole_text(path) as file:
            file.write(self.html())

    def _figure(self, caption: str, content: str) -> None:
        self._body.append(f"<figure><figcaption>{escape(caption)}</figcaption>\n{content}\n</figure>")


def new_figure(width: float = 8.0, height: float = 4.0) -> Any:
    """An empty `matplotlib.figure.Figure`, in inches; no display and no global state is involved."""
    require("matplotlib", "a report with plots")
    return require("matplotlib.figure", "a report with plots").Figure((width, height), layout="constrained")


def _svg(figure: Any) -> str:
    matplotlib = require("matplotlib", "a report with plots")
    for axes in figure.axes:
        if legend := axes.get_legend():
            legend.set_frame_on(False)      # its white would hide the reader's ink on a dark page
    buffer = io.StringIO()
    # Text stays text, and the same figure gives the same bytes.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tickwheel"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    return svg[svg.index("<svg"):].strip().replace(": #000000", ": currentColor")


def _row(tag: str, cells: Sequence[object], numeric: Sequence[bool]) -> str:
    opening = (f'<{tag} class="number">' if right else f"<{tag}>" for right in numeric)
    row = zip(opening, cells, strict=True)
    return f"<tr>{''.join(f'{start}{escape(_cell(cell))}</{tag}>' for start, cell in row)}</tr>"


def _is_number(cell: object) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def _cell(cell: object) -> str:
    """Thousands apart; a float to three significant digits at least."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
    return f"{cell:,}" if _is_number(cell) else str(cell)
