"""Node and Bucket: a cyclic doubly linked list whose links live in its members.

A bucket allocates nothing and owns nothing: whoever embeds a `Node` says what it
belongs to. A node is on one list at most; off every list its links are NULL.
"""
from libc.stdint cimport int64_t

cdef extern from "<stdint.h>":
    # Not an enum: there MSVC would cut it down to an int. No deadline can be there, it would be due at once.
    const int64_t UNSET "INT64_MIN"


cdef struct Node:
    Node* prev
    Node* next
    int64_t deadline            # tick


cdef struct Bucket:
    Node root                   # sentinel: next is the first, prev the last node, deadline the level
    int64_t expiration          # tick; UNSET while the bucket is not in the heap (I1)


cdef inline void bucket_init(Bucket* bucket) noexcept nogil:
    bucket.root.prev = &bucket.root
    bucket.root.next = &bucket.root
    bucket.root.deadline = 0
    bucket.expiration = UNSET


cdef inline bint bucket_is_empty(const Bucket* bucket) noexcept nogil:
    return bucket.root.next == &bucket.root


cdef inline void bucket_append(Bucket* bucket, Node* node) noexcept nogil:
    cdef Node* last = bucket.root.prev
    node.prev = last
    node.next = &bucket.root
    last.next = node
    bucket.root.prev = node


cdef inline void bucket_take_all(Bucket* bucket, Bucket* source) noexcept nogil:
    """Append all of `source` in its order; `source` is empty afterwards. O(1)."""
    cdef Node* first = source.root.next
    cdef Node* last = source.root.prev
    if first == &source.root:
        return
    first.prev = bucket.root.prev
    bucket.root.prev.next = first
    last.next = &bucket.root
    bucket.root.prev = last
    source.root.prev = &source.root
    source.root.next = &source.root


cdef inline void node_init(Node* node) noexcept nogil:
    node.prev = NULL
    node.next = NULL
    node.deadline = 0


cdef inline bint node_is_linked(const Node* node) noexcept nogil:
    return node.next != NULL


cdef inline void node_unlink(Node* node) noexcept nogil:
    node.prev.next = node.next
    node.next.prev = node.prev
    node.prev = NULL
    node.next = NULL
