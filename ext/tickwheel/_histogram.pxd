"""A histogram of nanoseconds: 64 buckets to a power of two, so at most 1/64 too coarse.

The index of v is e * 64 + (v >> e), e = max(0, bit_length(v) - 7): exact below 128,
ascending throughout, and 3,711 for the greatest int64. Negative values count as 0.
"""
from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #if defined(_MSC_VER) && !defined(__clang__)
    #include <intrin.h>
    static CYTHON_INLINE int tw_log2(unsigned long long v) {
        unsigned long bit;
    #if defined(_WIN64)
        _BitScanReverse64(&bit, v);
        return (int)bit;
    #else
        if (_BitScanReverse(&bit, (unsigned long)(v >> 32))) return (int)bit + 32;
        _BitScanReverse(&bit, (unsigned long)v);
        return (int)bit;
    #endif
    }
    #else
    #define tw_log2(v) (63 - __builtin_clzll(v))
    #endif
    """
    int tw_log2(uint64_t v) noexcept nogil      # v > 0

cdef enum:
    SUB_BITS = 6
    HISTOGRAM_SIZE = 3712


cdef inline void histogram_add(int64_t* counts, int64_t v) noexcept nogil:
    cdef uint64_t value = <uint64_t>v if v > 0 else 0
    cdef int e = tw_log2(value | ((1 << SUB_BITS) - 1)) - SUB_BITS
    if e < 0:
        e = 0
    counts[(e << SUB_BITS) + <int>(value >> e)] += 1
