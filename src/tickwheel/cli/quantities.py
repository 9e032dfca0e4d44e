"""Quantities as people type them: `200ms`, `1000/s`, `COLUMN=VALUE`. For argparse's `type`."""
from __future__ import annotations

import re
from argparse import ArgumentTypeError

from tickwheel.units import UNITS, to_ns

_DURATION = re.compile(rf"([-+]?[.\d]+) ?({'|'.join(UNITS)})", re.ASCII)
_RATE = re.compile(r"(\d+(?:\.\d+)?)/s", re.ASCII)


def duration_ns(text: str) -> int:
    """`1.5us` is 1500, exact and > 0; refused if it is finer than 1 ns."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise ArgumentTypeError(f"a duration such as 200ms or 1s, got {text!r}")
    try:
        ns = to_ns(*match.groups())
    except ValueError as error:
        raise ArgumentTypeError(f"{error}, got {text!r}") from None
    if ns <= 0:
        raise ArgumentTypeError(f"must be > 0, got {text!r}")
    return ns


def rate_per_s(text: str) -> float:
    match = _RATE.fullmatch(text)
    if not match:
        raise ArgumentTypeError(f"a rate such as 1000/s, got {text!r}")
    return float(match[1])


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"a whole number, got {text!r}") from None


def share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"a share between 0 and 1, got {text!r}") from None


def column_value(text: str) -> tuple[str, str]:
    """`COLUMN=VALUE` at its first equals sign; the value may be empty."""
    column, equals, value = text.partition("=")
    if not column or not equals:
        raise ArgumentTypeError(f"COLUMN=VALUE, got {text!r}")
    return column, value
