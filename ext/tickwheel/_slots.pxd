"""Slots: numeric timers side by side in one array, each a node and an id; no object a timer.

A slot is known by its index, since growing may move the array: the links are put right then.
Slots given back wait on a stack of indices, which costs nothing until there are any.
A column beside the slots holds what its owner needs for each (generations, times).
"""
from cpython.pyport cimport PY_SSIZE_T_MAX
from libc.stdint cimport UINT32_MAX, int64_t, uint32_t, uintptr_t
from libc.stdlib cimport free, realloc

from tickwheel._bucket cimport Node, node_init, node_is_linked


cdef struct Slot:
    Node node
    int64_t id


cdef struct Slots:
    Slot* items
    void* column
    uint32_t* freed             # stack of indices: those of items[:used] that are free
    int64_t capacity
    int64_t used                # slots handed out at least once
    int64_t freed_count
    int64_t freed_capacity
    int64_t column_width        # bytes


cdef inline void slots_init(Slots* slots, int64_t column_width) noexcept nogil:
    slots.items = NULL
    slots.column = NULL
    slots.freed = NULL
    slots.capacity = 0
    slots.used = 0
    slots.freed_count = 0
    slots.freed_capacity = 0
    slots.column_width = column_width


cdef inline void slots_free(Slots* slots) noexcept nogil:
    free(slots.items)
    free(slots.column)
    free(slots.freed)
    slots_init(slots, slots.column_width)


cdef inline int64_t slots_nbytes(const Slots* slots) noexcept nogil:
    return (slots.capacity * (<int64_t>sizeof(Slot) + slots.column_width)
            + slots.freed_capacity * <int64_t>sizeof(uint32_t))


cdef inline uint32_t slot_index(const Slots* slots, const Node* node) noexcept nogil:
    return <uint32_t>(<const Slot*>node - slots.items)      # the node is the slot's first member


cdef inline Node* link_moved(Node* link, uintptr_t base, uintptr_t size, uintptr_t distance) noexcept nogil:
    """Where a link leads now; NULL: to a bucket, which did not move."""
    return <Node*>(<uintptr_t>link + distance) if <uintptr_t>link - base < size else NULL


cdef inline void slots_mend_links(Slots* slots, uintptr_t base) noexcept nogil:
    """The slots have moved here from `base`: let all links to them follow. O(used)."""
    cdef uintptr_t size = slots.used * sizeof(Slot)
    cdef uintptr_t distance = <uintptr_t>slots.items - base
    cdef Node* node
    cdef Node* moved
    cdef int64_t i
    for i in range(slots.used):
        node = &slots.items[i].node
        if not node_is_linked(node):
            continue
        moved = link_moved(node.next, base, size, distance)
        if moved != NULL:
            node.next = moved
        else:
            node.next.prev = node
        moved = link_moved(node.prev, base, size, distance)
        if moved != NULL:
            node.prev = moved
        else:
            node.prev.next = node


cdef inline bint slots_reserve(Slots* slots, int64_t more) noexcept nogil:
    """Make room for `more` slots to be taken. False: no memory, nothing changed.

    Grows by a tenth, so that few lie idle; exactly for a batch that is larger. O(used).
    """
    cdef int64_t capacity = slots.capacity + slots.capacity // 10
    cdef int64_t needed = slots.used + more - slots.freed_count
    cdef uintptr_t base = <uintptr_t>slots.items
    cdef void* grown
    if needed <= slots.capacity:
        return True
    capacity = max(capacity, needed)
    if needed > <int64_t>UINT32_MAX or capacity > PY_SSIZE_T_MAX // <int64_t>sizeof(Slot):
        return False
    grown = realloc(slots.column, capacity * slots.column_width)
    if grown == NULL:
        return False
    slots.column = grown
    grown = realloc(slots.items, capacity * sizeof(Slot))
    if grown == NULL:
        return False
    slots.items = <Slot*>grown
    slots.capacity = capacity
    if <uintptr_t>grown != base:
        slots_mend_links(slots, base)
    return True


cdef inline bint slots_reserve_freed(Slots* slots, int64_t more) noexcept nogil:
    """Make room for `more` slots, or all there are, to be given back. False: no memory, nothing changed."""
    cdef int64_t needed = min(slots.freed_count + more, slots.capacity)
    cdef int64_t capacity = min(max(needed, slots.freed_capacity * 2), slots.capacity)
    cdef void* grown
    if needed <= slots.freed_capacity:
        return True
    grown = realloc(slots.freed, capacity * sizeof(uint32_t))
    if grown == NULL:
        return False
    slots.freed = <uint32_t*>grown
    slots.freed_capacity = capacity
    return True


cdef inline uint32_t slots_take(Slots* slots) noexcept nogil:
    """The index of a free slot; room must have been reserved. Its node is not initialised."""
    if slots.freed_count > 0:
        slots.freed_count -= 1
        return slots.freed[slots.freed_count]
    slots.used += 1
    return <uint32_t>(slots.used - 1)


cdef inline void slots_give_back(Slots* slots, uint32_t index) noexcept nogil:
    """Room must have been reserved; the slot's node is off every list."""
    slots.freed[slots.freed_count] = index
    slots.freed_count += 1
