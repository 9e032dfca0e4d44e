"""Times as text and as whole nanoseconds: exact both ways, no float between."""
from __future__ import annotations

import re
from decimal import Decimal

UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}

NEVER = 2**63 - 1       # in an int64 column of times: it does not come
MAX_NS = NEVER - 1
MIN_NS = -(2**63)

_NUMBER = re.compile(r"\s*[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?\s*", re.ASCII)


def to_ns(text: str, unit: str) -> int:
    """The nanoseconds of a number written in `unit`: `to_ns("1.5", "s")` is 1_500_000_000.

    ValueError states the rule that `text` breaks, for the caller to put between name and value.
    """
    if text.isdecimal() and text.isascii() and len(text) < 20:
        ns = int(text) * UNITS[unit]
    elif _NUMBER.fullmatch(text):
        numerator, denominator = Decimal(text).as_integer_ratio()
        ns, finer = divmod(numerator * UNITS[unit], denominator)
        if finer:
            raise ValueError("must be a whole number of nanoseconds")
    else:
        raise ValueError("must be a number")
    if not MIN_NS <= ns <= MAX_NS:
        raise ValueError("must fit in 64 bits as nanoseconds")
    return ns


def from_ns(ns: int, unit: str) -> str:
    """The number in `unit`, exact, without trailing zeros: `from_ns(1_500_000_000, "s")` is "1.5"."""
    whole, rest = divmod(abs(ns), UNITS[unit])
    places = len(str(UNITS[unit])) - 1
    fraction = f".{rest:0{places}}".rstrip("0") if rest else ""
    return f"{'-' if ns < 0 else ''}{whole}{fraction}"


def unit_of(column: str) -> str | None:
    """The unit at the end of a column's name: "arrival_ms" is in ms."""
    stem, _, unit = column.rpartition("_")
    return unit if stem and unit in UNITS else None
