"""levels_check: are the levels whole? For every `_check()`, and so for debug builds and random tests."""
from libc.stdint cimport int64_t, uint64_t

from tickwheel._bucket cimport UNSET, Bucket, Node, bucket_is_empty
from tickwheel._bucketheap cimport BucketHeap, heap_before
from tickwheel._levels cimport Level, Levels, level_bucket, level_floor

cdef extern from *:
    """
    #ifdef TICKWHEEL_DEBUG
    #define TW_CHECKED 256      /* a check looks at all tasks: not after each step of a million */
    #else
    #define TW_CHECKED 0
    #endif
    """
    const int64_t CHECKED "TW_CHECKED"      # a debug build checks itself after each step with fewer tasks


cdef inline const char* list_check(const Bucket* bucket, int64_t* length) noexcept nogil:
    """NULL when the links are mutual (I5); adds to `length`."""
    cdef const Node* node = &bucket.root
    while True:
        if node.next == NULL or node.next.prev != node:
            return "I5: links are mutual"
        node = node.next
        if node == &bucket.root:
            return NULL
        length[0] += 1


cdef inline const char* heap_check(Levels* levels) noexcept nogil:
    """NULL when each bucket is in the heap once iff its expiration is set (I1)."""
    cdef const char* broken = NULL
    cdef BucketHeap* heap = &levels.heap
    cdef Py_ssize_t i, visited = 0
    cdef int64_t k, j
    if heap.size > levels.count * levels.wheel_size:
        return "I1: the heap holds no more buckets than there are"
    for i in range(1, heap.size):
        if heap_before(heap.entries[i].expiration, heap.entries[i].bucket, &heap.entries[(i - 1) >> 1]):
            return "I1: a bucket in the heap expires after its parent"
    # Tick off what the heap holds: a bucket seen twice is UNSET by then, one set at the end was missed.
    while visited < heap.size:
        if heap.entries[visited].bucket.expiration != heap.entries[visited].expiration:
            broken = "I1: a bucket is in the heap once, with its expiration set"
            break
        heap.entries[visited].bucket.expiration = UNSET
        visited += 1
    for k in range(levels.count if broken == NULL else 0):
        for j in range(levels.wheel_size):
            if levels.level[k].buckets[j].expiration != UNSET:
                broken = "I1: a bucket whose expiration is set is in the heap"
    for i in range(visited):
        heap.entries[i].bucket.expiration = heap.entries[i].expiration
    return broken


cdef inline const char* level_check(Levels* levels, Level* level, int64_t* length) noexcept nogil:
    cdef const char* broken
    cdef Bucket* bucket
    cdef Node* node
    cdef int64_t j
    if level.time != level_floor(levels, level, levels.time):
        return "I3: each level's time is a multiple of its span, the last one that has come"
    for j in range(levels.wheel_size):
        bucket = &level.buckets[j]
        broken = list_check(bucket, length)
        if broken != NULL:
            return broken
        if bucket.expiration == UNSET:
            if not bucket_is_empty(bucket):
                return "I1: a bucket that is not empty has its expiration set"
            continue
        if (level_floor(levels, level, bucket.expiration) != bucket.expiration
                or level_bucket(levels, level, bucket.expiration) != bucket):
            return "I2: a bucket's expiration is the start of its span"
        node = bucket.root.next
        while node != &bucket.root:
            if (node.deadline < bucket.expiration
                    or <uint64_t>node.deadline - <uint64_t>bucket.expiration >= level.span):
                return "I2: expiration <= deadline < expiration + span"
            node = node.next
    return NULL


cdef inline const char* levels_check(Levels* levels, int64_t* length) noexcept nogil:
    """NULL when whole, else the invariant that is broken. `length`: the nodes on all lists, for I4. O(n)."""
    cdef const char* broken = heap_check(levels)
    cdef int k
    length[0] = 0
    for k in range(levels.count):
        if broken == NULL:
            broken = level_check(levels, &levels.level[k], length)
    return broken
