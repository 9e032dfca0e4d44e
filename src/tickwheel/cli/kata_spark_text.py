"""What `tickwheel kata --spark` prints: both outcomes in a table, and whether they agree."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tickwheel.bench.kata.outcome import Check, Comparison, Played
from tickwheel.bench.kata.stream import Delivery
from tickwheel.cli.bench_tables import Column, figures, header, machine_line
from tickwheel.machine import machine

LOCAL, SPARK = "one process", "Spark"
PACKAGES = ("pyspark", "pyarrow")

SEEN: tuple[Column[Check], ...] = (
    Column("order violations", 18, lambda seen: seen.violations),
    Column("duplicates passed on", 22, lambda seen: seen.repeated),
    Column("lost", 8, lambda seen: seen.lost),
)


def heading(stream: Mapping[str, Any], due: Sequence[Delivery], master: str) -> str:
    """The core and the machine in one line; the stream."""
    again = sum(delivery.again for delivery in due)
    return "\n".join((
        machine_line(PACKAGES),
        f"{len(due):,} deliveries in {stream['duration_s']:g} s, {again:,} of them again; "
        f"{stream['clients']:,} clients; no work; seed {stream['seed']}; Spark on {master}",
    ))


def as_text(compared: Comparison) -> str:
    return "\n".join(("", *_table(compared), "", *(compared.problems or [agreement(compared)])))


def agreement(compared: Comparison) -> str:
    return (
        f"The outcomes agree: the same {compared.events:,} events, each once, "
        "with the same number among those of its client."
    )


def _table(compared: Comparison) -> Iterator[str]:
    columns = _columns(compared)
    yield f"{'':<12}{header(columns)}{header(SEEN)}"
    for name, played in compared.played.items():
        yield f"{name:<12}{figures(columns, played)}{figures(SEEN, compared.checks[name])}"


def _columns(compared: Comparison) -> tuple[Column[Played], ...]:
    return (
        Column("deliveries", 11, lambda played: compared.deliveries),
        Column("events", 11, lambda played: len(played.outcome)),
        Column("dropped", 10, lambda played: compared.deliveries - len(played.outcome)),
        Column("seconds", 9, lambda played: played.seconds),
        Column("deliveries/s", 14, lambda played: round(compared.deliveries / played.seconds)),
    )


def as_json(stream: Mapping[str, Any], master: str, compared: Comparison) -> dict[str, Any]:
    return {
        "machine": machine(PACKAGES),
        "stream": dict(stream),
        "master": master,
        "deliveries": compared.deliveries,
        "events": compared.events,
        "outcomes": {
            name: {
                "events": len(played.outcome),
                "dropped": compared.deliveries - len(played.outcome),
                "seconds": played.seconds,
                **asdict(compared.checks[name]),
            }
            for name, played in compared.played.items()
        },
        "agree": compared.difference is None,
        "problems": compared.problems,
    }
