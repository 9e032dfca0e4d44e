"""BucketHeap: a binary min-heap of buckets by expiration. Which bucket is next?

Of two that expire at one tick the coarser is first, so that the order is the same on
every core. The keys are stored beside the pointers: sifting touches buckets on ties alone.
Capacity is reserved when a level is made: a push never allocates.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from cpython.pyport cimport PY_SSIZE_T_MAX

from tickwheel._bucket cimport UNSET, Bucket


cdef struct HeapEntry:
    int64_t expiration
    Bucket* bucket


cdef struct BucketHeap:
    HeapEntry* entries
    Py_ssize_t size
    Py_ssize_t capacity


cdef inline void heap_init(BucketHeap* heap) noexcept nogil:
    heap.entries = NULL
    heap.size = 0
    heap.capacity = 0


cdef inline void heap_free(BucketHeap* heap) noexcept nogil:
    free(heap.entries)
    heap_init(heap)


cdef inline bint heap_reserve(BucketHeap* heap, Py_ssize_t capacity) noexcept nogil:
    """Make room for `capacity` buckets. False: no memory, nothing changed."""
    cdef HeapEntry* entries
    if capacity <= heap.capacity:
        return True
    if capacity > PY_SSIZE_T_MAX // <Py_ssize_t>sizeof(HeapEntry):
        return False
    entries = <HeapEntry*>realloc(heap.entries, capacity * sizeof(HeapEntry))
    if entries == NULL:
        return False
    heap.entries = entries
    heap.capacity = capacity
    return True


cdef inline bint heap_before(
    int64_t expiration, const Bucket* bucket, const HeapEntry* other,
) noexcept nogil:
    return expiration < other.expiration or (
        expiration == other.expiration and bucket.root.deadline > other.bucket.root.deadline)


cdef inline void heap_push(BucketHeap* heap, Bucket* bucket, int64_t expiration) noexcept nogil:
    """Set the bucket's expiration and put it in. It must not be in (I1). O(log n)."""
    cdef HeapEntry* entries = heap.entries
    cdef Py_ssize_t i = heap.size
    cdef Py_ssize_t parent
    heap.size += 1
    bucket.expiration = expiration
    while i > 0:
        parent = (i - 1) >> 1
        if not heap_before(expiration, bucket, &entries[parent]):
            break
        entries[i] = entries[parent]
        i = parent
    entries[i].expiration = expiration
    entries[i].bucket = bucket


cdef inline Bucket* heap_pop(BucketHeap* heap) noexcept nogil:
    """Take out the bucket that expires first; its expiration is UNSET afterwards. O(log n)."""
    cdef HeapEntry* entries = heap.entries
    cdef Bucket* top = entries[0].bucket
    cdef HeapEntry last
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t child = 1
    heap.size -= 1
    last = entries[heap.size]
    while child < heap.size:
        if child + 1 < heap.size and heap_before(
                entries[child + 1].expiration, entries[child + 1].bucket, &entries[child]):
            child += 1
        if heap_before(last.expiration, last.bucket, &entries[child]):
            break
        entries[i] = entries[child]
        i = child
        child = 2 * i + 1
    entries[i] = last
    top.expiration = UNSET
    return top
