"""One call at a time, and what batches are made of: see `_onecall.pxd`."""
cimport cython
from cpython.array cimport array, clone
from cpython.number cimport PyNumber_Index
from libc.stdint cimport int64_t

import sys

cdef array INT64S = array("q")
cdef str NATIVE = "@=<" if sys.byteorder == "little" else "@=>"


cdef int64_t int64_of(str name, object value) except? -1:
    value = PyNumber_Index(value)
    try:
        return value
    except OverflowError:
        raise ValueError(f"{name} must fit 64 bits, got {value}") from None


cdef object int64s_of(str name, object values):
    """A view of the buffer, which stays in place while the view lives."""
    try:
        view = memoryview(values)
    except TypeError:
        raise TypeError(f"{name} must be a buffer of int64, got {type(values).__name__}") from None
    if view.itemsize != 8 or view.format.lstrip(NATIVE) not in ("q", "l"):
        raise ValueError(f"{name} must be a buffer of int64 (format 'q'), got format {view.format!r}")
    if view.ndim != 1 or not view.c_contiguous:
        raise ValueError(
            f"{name} must be contiguous and have one dimension, got {view.ndim}, strides {view.strides}")
    return view


cdef array new_int64s(int64_t n):
    """`n` of them, not set."""
    return clone(INT64S, n, False)


cdef class OneCall:
    """One call at a time: a second one, from a thread or a destructor, is refused and changes nothing."""

    cdef int begin(self) except -1:
        cdef bint busy
        with cython.critical_section(self):
            busy = self.busy
            self.busy = True
        if busy:
            raise RuntimeError(f"{type(self).__name__} is in use by another call")
        return 0

    cdef void end(self) noexcept:
        with cython.critical_section(self):
            self.busy = False
