"""What the batch calls of a table and a replay have in common: their arguments, and one call at a time."""
from cpython.array cimport array
from cpython.memoryview cimport PyMemoryView_GET_BUFFER
from libc.stdint cimport int64_t

cdef int64_t int64_of(str name, object value) except? -1
cdef object int64s_of(str name, object values)
cdef array new_int64s(int64_t n)


cdef inline const int64_t* items_of(object view):
    return <const int64_t*>PyMemoryView_GET_BUFFER(view).buf


cdef inline int64_t* longs_of(array items) noexcept:
    return <int64_t*>items.data.as_voidptr


cdef class OneCall:
    cdef bint busy

    cdef int begin(self) except -1
    cdef void end(self) noexcept
