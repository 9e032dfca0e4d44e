"""Plain-text tables of the longer benchmarks: columns that each know their heading, width and figure."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tickwheel.bench.purgatory.results import Verdict
from tickwheel.machine import machine

Measured = TypeVar("Measured")


@dataclass(frozen=True, slots=True)
class Column(Generic[Measured]):
    heading: str
    width: int
    figure: Callable[[Measured], float | None]


def header(columns: tuple[Column[Measured], ...]) -> str:
    return "".join(f"{column.heading:>{column.width}}" for column in columns)


def figures(columns: tuple[Column[Measured], ...], measured: Measured) -> str:
    return "".join(f"{number(column.figure(measured)):>{column.width}}" for column in columns)


def number(value: float | None) -> str:
    """Thousands apart; a float to three significant digits at least; None is a dash."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:.3g}"


def promises(seen: Sequence[Verdict]) -> Iterator[str]:
    """What became of each, a line; nothing where none could be judged."""
    if seen:
        yield ""
        yield "Promises"
        for verdict in seen:
            judged = "holds" if verdict.holds else "FAILS"
            yield f"  {judged:<7}{number(verdict.seen):>10}   {verdict.promise}"


def machine_line(packages: Iterable[str] = ()) -> str:
    """The core first, then what it runs on, with the versions of `packages`."""
    facts = machine(packages)
    core = f"tickwheel {facts.pop('tickwheel')}"
    return "; ".join((core, *(f"{name} {fact}" for name, fact in facts.items())))
