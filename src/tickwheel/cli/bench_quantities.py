"""What people type for the longer benchmarks: `10k,max,80%`, `low,30ms/90ms`, `3/100`, `200M`, `20,512`.

For argparse's `type`, as in `tickwheel.cli.quantities`: each error says the rule and the value seen.
"""
from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from math import inf
from typing import TypeVar

from tickwheel.cli.quantities import duration_ns

T = TypeVar("T")

LATENCIES_MS = {"low": (20.0, 60.0), "high": (200.0, 400.0)}    # the proposal's: p50, p75

_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)([kM]?)", re.ASCII)
_BYTES = re.compile(r"(\d+)([kMG]?)", re.ASCII)
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def listed(one: Callable[[str], T]) -> Callable[[str], list[T]]:
    """`A,B`: each by `one`, in the order in which they were typed, each once."""

    def several(text: str) -> list[T]:
        return list(dict.fromkeys(one(part) for part in text.split(",")))

    return several


def chosen(option: str, text: str | None, known: Sequence[str]) -> Sequence[str]:
    """Those that are named, in the order of `known`; all, if none is."""
    if text is None:
        return known
    names = text.split(",")
    for name in names:
        if name not in known:
            raise ValueError(f"{option} must be among {', '.join(known)}, got {name!r}")
    return [name for name in known if name in names]


def count(text: str) -> int:
    """`1e6`, `250k`, `1000`: a whole number >= 1."""
    number = _number(text)
    if number is None or number != int(number) or number < 1:
        raise ArgumentTypeError(f"must be a whole number >= 1 such as 1000, 250k or 1e6, got {text!r}")
    return int(number)


def target_rate(text: str) -> tuple[float, float | None]:
    """`10k` is (10,000, None), `max` (inf, None), `80%` of what `max` reaches (inf, 0.8)."""
    if text == "max":
        return inf, None
    number = _number(text.removesuffix("%"))
    if number is None or number <= 0:
        raise ArgumentTypeError(f"must be rates a second such as 10k, 80% or max, got {text!r}")
    return (inf, number / 100) if text.endswith("%") else (number, None)


def latency_ms(text: str) -> tuple[float, float]:
    """`low` and `high` are the proposal's; `P50/P75` are two durations, the median and the upper quartile."""
    if text in LATENCIES_MS:
        return LATENCIES_MS[text]
    p50, slash, p75 = text.partition("/")
    if not slash:
        raise ArgumentTypeError(f"must be low, high or P50/P75 such as 20ms/60ms, got {text!r}")
    low, high = duration_ns(p50), duration_ns(p75)
    if low > high:
        raise ArgumentTypeError(f"must have a median that is not above the upper quartile, got {text!r}")
    return low / 1e6, high / 1e6


def keys_of(text: str) -> tuple[int, int]:
    """`3/100`: three distinct keys of a hundred."""
    keys, slash, space = text.partition("/")
    if not (slash and keys.isdecimal() and space.isdecimal() and 1 <= int(keys) <= int(space)):
        rule = "must be KEYS/SPACE such as 3/100, at least one key and not more than there are"
        raise ArgumentTypeError(f"{rule}, got {text!r}")
    return int(keys), int(space)


def wheel_size(text: str) -> int:
    if not (text.isdecimal() and int(text) >= 2):
        raise ArgumentTypeError(f"must be whole numbers >= 2, got {text!r}")
    return int(text)


def size_bytes(text: str) -> int:
    """`200M` is 200,000,000."""
    match = _BYTES.fullmatch(text)
    if not match or not int(match[1]):
        raise ArgumentTypeError(f"must be a size > 0 such as 200M or 1G, got {text!r}")
    return int(match[1]) * _FACTORS[match[2]]


def _number(text: str) -> float | None:
    match = _NUMBER.fullmatch(text)
    number = float(match[1]) * _FACTORS[match[2]] if match else inf
    return number if number < inf else None     # 1e400 is no number either
