"""Seconds and ticks: the two ways between them, each in one function, and the clock that is read most.

Ticks are multiples of `tick` seconds from zero of the clock. A task fires once
`deadline_tick(when) <= now_tick(now)`, hence not before `when` (less 1 ns): both compare
products n * tick, which no rounding of a quotient can get wrong.
"""
from libc.stdint cimport int64_t

from tickwheel._levels cimport tw_rare

cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030D0000
    static CYTHON_INLINE double tw_monotonic(void) {
        PyTime_t t;
        (void)PyTime_MonotonicRaw(&t);
        return (double)t / 1e9;
    }
    #else
    static CYTHON_INLINE double tw_monotonic(void) {
        return (double)_PyTime_GetMonotonicClock() / 1e9;
    }
    #endif
    """
    double tw_monotonic() noexcept nogil


cdef inline int64_t LAST_TICK() noexcept nogil:
    """Deadlines beyond it never come; no sum of ticks overflows."""
    return <int64_t>1 << 62


cdef inline int64_t deadline_tick(double when, double tick) noexcept nogil:
    """The least n with n * tick >= when - 1 ns: a deadline less than that above a tick is on it (R1)."""
    cdef double quotient = when / tick
    cdef double least = when - 1e-9
    cdef int64_t n
    if tw_rare(not (-4.6e18 < quotient < 4.6e18)):
        return LAST_TICK() if quotient > 0 else -LAST_TICK()
    n = <int64_t>quotient
    if (n - 1) * tick >= least:
        return n - 1
    if n * tick >= least:
        return n
    return n + 1


cdef inline int64_t now_tick(double now, double tick) noexcept nogil:
    """The greatest n with n * tick <= now."""
    cdef double quotient = now / tick
    cdef int64_t n
    if tw_rare(not (-4.6e18 < quotient < 4.6e18)):
        return LAST_TICK() if quotient > 0 else -LAST_TICK()
    n = <int64_t>quotient
    if (n + 1) * tick <= now:
        return n + 1
    if n * tick > now:
        return n - 1
    return n
