"""Seconds and ticks: the two ways between them, each in one function, and the clock that is read most.

Ticks are multiples of `tick` seconds from zero of the clock. A task fires once
`deadline_tick(when) <= now_tick(now)`, hence not before `when` (less 1 ns): both compare
products n * tick, which no rounding of a quotient can get wrong.
"""
from libc.stdint cimport int64_t

from tickwheel._levels cimport tw_rare

cdef extern from *:
    """
    /* time.monotonic() without the call: the same clock, the same rounding. */
    #if defined(__linux__)
    #include <time.h>
    static CYTHON_INLINE double tw_monotonic(void) {
        struct timespec t;
        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)(t.tv_sec * 1000000000LL + t.tv_nsec) / 1e9;
    }
    #elif PY_VERSION_HEX >= 0x030D0000
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


cdef struct Grid:
    double tick                 # seconds
    double frequency            # 1 / tick: a division takes longer than all the rest


cdef inline int64_t LAST_TICK() noexcept nogil:
    """Deadlines beyond it never come; no sum of ticks overflows."""
    return <int64_t>1 << 62


cdef inline int64_t estimate(double seconds, const Grid* grid) noexcept nogil:
    """seconds / tick, towards zero, at most one off."""
    cdef double quotient = seconds * grid.frequency
    if tw_rare(not (-1e15 < quotient < 1e15)):      # beyond, the product is more than half a tick off
        quotient = seconds / grid.tick
        if not (-4.6e18 < quotient < 4.6e18):
            return LAST_TICK() if quotient > 0 else -LAST_TICK()
    return <int64_t>quotient


cdef inline int64_t deadline_tick(double when, const Grid* grid) noexcept nogil:
    """The least n with n * tick >= when - 1 ns: a deadline less than that above a tick is on it (R1)."""
    cdef int64_t n = estimate(when, grid)
    cdef double least = when - 1e-9
    if (n - 1) * grid.tick >= least:
        return n - 1
    return n if n * grid.tick >= least else n + 1


cdef inline int64_t now_tick(double now, const Grid* grid) noexcept nogil:
    """The greatest n with n * tick <= now; less than any deadline that never comes."""
    cdef int64_t n = estimate(now, grid)
    if n * grid.tick > now:
        n -= 1
    elif (n + 1) * grid.tick <= now:
        n += 1
    return min(n, LAST_TICK() - 1)
