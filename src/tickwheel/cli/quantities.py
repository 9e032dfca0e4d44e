"""What people type: `200ms`, `1000/s`, `COLUMN=VALUE`, `out.html`. For argparse's `type`.

Each error says the rule, "must be ...", and the value seen; the parser puts the argument before it.
"""
from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable

from tickwheel.output import is_device
from tickwheel.units import UNITS, to_ns

_DURATION = re.compile(rf"([-+]?[.\d]+) ?({'|'.join(UNITS)})", re.ASCII)
_RATE = re.compile(r"(\d+(?:\.\d+)?)/s", re.ASCII)


def duration_ns(text: str) -> int:
    """`1.5us` is 1500, exact and > 0; refused if it is finer than 1 ns."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise ArgumentTypeError(f"must be a duration such as 200ms or 1s, got {text!r}")
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
        raise ArgumentTypeError(f"must be a rate such as 1000/s, got {text!r}")
    return float(match[1])


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"must be a whole number, got {text!r}") from None


def share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"must be a share between 0 and 1, got {text!r}") from None


def column_value(text: str) -> tuple[str, str]:
    """`COLUMN=VALUE` at its first equals sign; the value may be empty."""
    column, equals, value = text.partition("=")
    if not column or not equals:
        raise ArgumentTypeError(f"must be COLUMN=VALUE, got {text!r}")
    return column, value


def file_ending_in(*suffixes: str) -> Callable[[str], str]:
    """The name of a file to write, which says its format; a device or a pipe may be called anything."""

    def name(text: str) -> str:
        if not (text.endswith(suffixes) or is_device(text)):
            raise ArgumentTypeError(f"must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}, got {text!r}")
        return text

    return name
