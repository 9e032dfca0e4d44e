"""Seconds and ticks: the two ways between them, each in one function. The mirror of `_ticks.pxd`.

Ticks are multiples of `tick` seconds from zero of the clock. A task fires once
`deadline_tick(when) <= now_tick(now)`, hence not before `when` (less 1 ns): both compare
products n * tick, which no rounding of a quotient can get wrong.
"""

LAST_TICK = 2**62  # deadlines beyond it never come


def deadline_tick(when: float, tick: float) -> int:
    """The least n with n * tick >= when - 1 ns: a deadline less than that above a tick is on it (R1)."""
    quotient = when / tick
    if not -4.6e18 < quotient < 4.6e18:
        return LAST_TICK if quotient > 0 else -LAST_TICK
    least = when - 1e-9
    n = int(quotient)
    if (n - 1) * tick >= least:
        return n - 1
    if n * tick >= least:
        return n
    return n + 1


def now_tick(now: float, tick: float) -> int:
    """The greatest n with n * tick <= now; less than any deadline that never comes."""
    quotient = now / tick
    if not -4.6e18 < quotient < 4.6e18:
        return LAST_TICK - 1 if quotient > 0 else -LAST_TICK
    n = int(quotient)
    if (n + 1) * tick <= now:
        return n + 1
    if n * tick > now:
        return n - 1
    return n
