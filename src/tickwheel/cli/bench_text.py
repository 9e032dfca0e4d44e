"""What `tickwheel bench` prints: the machine, the caveats, a table an operation, the losses, the targets."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from tickwheel.bench import bulk
from tickwheel.bench.cell import Cell
from tickwheel.bench.peers import PEERS
from tickwheel.bench.results import CAVEATS, THIS, losses, medians, ratio, targets_seen
from tickwheel.bench.runner import Row
from tickwheel.machine import machine

NET = "net of the measuring loop"


def heading(rows: Sequence[Row]) -> str:
    """The core and the machine in one line; then what to keep in mind, and who takes part."""
    facts = machine(packages(rows))
    names = dict.fromkeys(row.cell.peer for row in rows)
    return "\n".join((
        f"tickwheel {facts.pop('tickwheel')}; " + "; ".join(f"{name} {fact}" for name, fact in facts.items()),
        "",
        *(f"- {caveat}" for caveat in CAVEATS),
        "",
        *contenders(names),
    ))


def contenders(names: Iterable[str]) -> Iterator[str]:
    """A line each: its name, and what it is."""
    return (f"{name:<18}{about(name)}" for name in names)


def packages(rows: Sequence[Row]) -> list[str]:
    """The distributions whose versions matter."""
    names = dict.fromkeys(row.cell.peer for row in rows)
    return [module for name in names if name in PEERS and (module := PEERS[name].module)]


def about(peer: str) -> str:
    return bulk.ABOUT if peer == bulk.NAME else PEERS[peer].about


def as_text(rows: Sequence[Row]) -> str:
    known = medians(rows)
    return "\n".join((*_tables(rows, known), *_losses(known), *_targets(known)))


def as_json(rows: Sequence[Row], rounds: int) -> dict[str, Any]:
    known = medians(rows)
    return {
        "machine": machine(packages(rows)),
        "caveats": CAVEATS,
        "rounds": rounds,
        "rows": [
            asdict(row.cell) | {
                "unit": unit(row.cell.operation),
                "figure": asdict(row.figure) if row.figure else None,
                "ratio": ratio(row.cell, known),
                "note": row.note,
            }
            for row in rows
        ],
        "targets": [
            {"target": str(target), "seen": seen, "holds": target.holds(seen), "net_of_loop": net}
            for target, seen, net in targets_seen(known)
        ],
    }


def unit(operation: str) -> str:
    return "bytes a timer" if operation == "memory" else "ns an operation"


def _tables(rows: Sequence[Row], known: dict[Cell, float]) -> Iterator[str]:
    for (operation, collector, n), group in groupby(
        rows, lambda row: (row.cell.operation, row.cell.gc, row.cell.n)
    ):
        yield ""
        yield f"{operation}, {n:,} pending, GC {collector}: {unit(operation)}"
        yield f"  {'':<18}{'median':>12}{'[low - high]':>26}{'p99':>14}{'x ' + THIS:>14}"
        for row in group:
            yield f"  {row.cell.peer:<18}" + _numbers(row, known)


def _numbers(row: Row, known: dict[Cell, float]) -> str:
    figure = row.figure
    if figure is None:
        return row.note or ""
    times = ratio(row.cell, known)
    return (
        f"{figure.median:>12,.1f}{f'[{figure.low:,.1f} - {figure.high:,.1f}]':>26}{figure.p99:>14,.1f}"
        + (f"{times:>14.2f}" if times else "") + (f"  {row.note}" if row.note else "")
    )


def _losses(known: dict[Cell, float]) -> Iterator[str]:
    beaten = losses(known)
    if beaten:
        yield ""
        yield f"Where {THIS} loses: a peer's share of its figure"
        for cell, times in beaten:
            yield f"  {cell.operation}, {cell.n:,} pending, GC {cell.gc}: {cell.peer} {times:.2f}"


def _targets(known: dict[Cell, float]) -> Iterator[str]:
    seen = targets_seen(known)
    if seen:
        yield ""
        yield f"Targets, GC off{'seen':>11}{NET:>28}   target"
        for target, value, net in seen:
            beside = "-" if net is None else f"{net:.2f}"
            yield f"  {'holds' if target.holds(value) else 'FAILS':<13}{value:>11.2f}{beside:>28}   {target}"
