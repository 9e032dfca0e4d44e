"""Curve: the most that was pending in each interval of time, in fixed memory.

An interval is 2 ** shift wide and starts at a multiple of that. There are CURVE_SIZE at most: when time
passes the last, pairs become one. So the curve is a function of when things happened, and of nothing else.
"""
from libc.stdint cimport int64_t, uint64_t

cdef enum:
    CURVE_SIZE = 256            # 56 shifts bring all 64 bits into as many


cdef struct Curve:
    int64_t until               # what happens up to then is in the last interval
    int64_t first               # start of the first interval, in widths
    int shift
    int last                    # -1: not begun
    int64_t peaks[CURVE_SIZE]   # those of intervals 0 to last


cdef inline void curve_init(Curve* curve) noexcept nogil:
    curve.first = 0
    curve.shift = 0
    curve.last = -1


cdef inline void curve_begin(Curve* curve, int64_t now) noexcept nogil:
    """The first thing happens now; nothing was pending before."""
    curve.until = now
    curve.first = now
    curve.last = 0
    curve.peaks[0] = 0


cdef inline void curve_sample(Curve* curve, int64_t pending) noexcept nogil:
    """So much was pending once all events of an instant in the last interval had happened."""
    curve.peaks[curve.last] = max(curve.peaks[curve.last], pending)


cdef inline void curve_widen(Curve* curve) noexcept nogil:
    """Merge pairs. The first may have lost its left half, in which nothing was pending."""
    cdef int odd = <int>(curve.first & 1)
    cdef int i, half
    for i in range(1, curve.last + 1):
        half = (odd + i) >> 1
        if (odd + i) & 1:
            curve.peaks[half] = max(curve.peaks[half], curve.peaks[i])
        else:
            curve.peaks[half] = curve.peaks[i]
    curve.last = (odd + curve.last) >> 1
    curve.first >>= 1
    curve.shift += 1


cdef inline void curve_reach(Curve* curve, int64_t now, int64_t pending) noexcept nogil:
    """Something is about to happen now, after `until`; so much was pending meanwhile. Amortised O(1)."""
    cdef int index
    curve_sample(curve, pending)
    # Unsigned: from the first time to the last all 64 bits are needed.
    while <uint64_t>(now >> curve.shift) - <uint64_t>curve.first >= CURVE_SIZE:
        curve_widen(curve)
    index = <int>(<uint64_t>(now >> curve.shift) - <uint64_t>curve.first)
    curve.until = now | ((<int64_t>1 << curve.shift) - 1)
    if index == curve.last:
        return
    while curve.last < index:
        curve.last += 1
        curve.peaks[curve.last] = pending
    if now == <int64_t>(<uint64_t>(now >> curve.shift) << curve.shift):
        # What is pending from the start of an interval is known when its first instant is over.
        curve.peaks[index] = 0
        curve.until = now
