"""A histogram of nanoseconds: 64 buckets to a power of two, so at most 1/64 too coarse.

Exact below 128, ascending throughout; negative values count as 0.
"""

SUB_BITS = 6
SIZE = 3712


def index_of(v: int) -> int:
    """The bucket of `v`; 3,711 for the greatest int64."""
    e = v.bit_length() - SUB_BITS - 1
    if v < 0:
        return 0
    return (e << SUB_BITS) + (v >> e) if e > 0 else v


def upper_edge(index: int) -> int:
    """The greatest value that `index_of` puts there."""
    e = max((index >> SUB_BITS) - 1, 0)
    return ((index - (e << SUB_BITS) + 1) << e) - 1
