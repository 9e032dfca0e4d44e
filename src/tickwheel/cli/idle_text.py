"""What `tickwheel idle` found: as text, as JSON, and each who fell silent in a file."""
from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from tickwheel._core import IMPLEMENTATION
from tickwheel.output import whole_text
from tickwheel.recipes.idlelog import IdleLog, Spell
from tickwheel.units import from_ns

Write = Callable[[Iterable[Spell]], None]


def as_text(log: IdleLog) -> str:
    """Of a log whose ticks are nanoseconds."""
    facts = {
        "core": IMPLEMENTATION,
        "rows": f"{log.rows:,}",
        "keys": f"{log.keys:,}",
        "offline events": f"{log.offline:,}",
        "online at the end": f"{log.online:,}",
        "peak online": f"{log.peak_online:,}",
        "span of the log": "-" if log.span is None else f"{from_ns(log.span, 's')} s",
    }
    return "\n".join(f"{name:<19}{value}" for name, value in facts.items())


def as_json(log: IdleLog) -> str:
    """Of a log whose ticks are nanoseconds; without rows its times are null."""
    return json.dumps(
        {
            "implementation": IMPLEMENTATION,
            "timeout_ns": log.timeout,
            "rows": log.rows,
            "keys": log.keys,
            "offline": log.offline,
            "online": log.online,
            "peak_online": log.peak_online,
            "first_ns": log.first_tick,
            "last_ns": log.last_tick,
        }
    )


@contextmanager
def spell_file(path: str, key: str, unit: str) -> Iterator[Write]:
    """A function that writes spells, in nanoseconds, to `path`: JSON lines by its name, else CSV; .gz too.

    Columns: `key`, as text, and `first_seen_<unit>`, `last_seen_<unit>`, `idle_at_<unit>`, exact. Whole or
    not at all.
    """
    columns = (key, *(f"{name}_{unit}" for name in Spell._fields[1:]))
    if key in columns[1:]:
        raise ValueError(f"key must not be named like another column of the events, got {key!r}")
    is_json = path.removesuffix(".gz").endswith(".jsonl")
    with whole_text(path) as file:
        if is_json:
            names = [json.dumps(column) for column in columns]
            yield lambda spells: file.writelines(_json_line(names, spell, unit) for spell in spells)
        else:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            yield lambda spells: writer.writerows((spell.key, *_times(spell, unit)) for spell in spells)


def _json_line(names: Sequence[str], spell: Spell, unit: str) -> str:
    # Put together here: the times are exact, and a float, which json would have to be given, is not.
    values = (json.dumps(spell.key), *_times(spell, unit))
    return "{" + ", ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True)) + "}\n"


def _times(spell: Spell, unit: str) -> Iterator[str]:
    return (from_ns(time, unit) for time in spell[1:])
