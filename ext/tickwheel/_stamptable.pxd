"""Keys' stamps, by the hashes of the keys: a table whose slots hold all that a touch needs, side by side.

A dictionary keeps hash and key in one place, the value in another, and what the value refers to in a third;
each is a wait for memory where there are many keys. The probing is that of CPython's `dict`: hashes of
consecutive integers are in consecutive slots.

Keys are compared by the caller, since a key's `__eq__` may call anything. It looks at `changes` before and
after, and searches anew where the slots have changed. A slot is also found by its owner's address, so
that nothing is compared where it is taken out. References to keys and owners are the caller's.
"""
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free

cdef extern from *:
    """
    #define TW_TAKEN ((PyObject *)1)    /* no object's address */
    #define TW_FEWEST_SLOTS 64
    """
    PyObject* TAKEN "TW_TAKEN"
    const size_t FEWEST "TW_FEWEST_SLOTS"


cdef struct Slot:
    Py_hash_t hash
    PyObject* key               # NULL: free, and ends a search; TAKEN: free, and a search goes on
    PyObject* owner
    double stamp


cdef struct StampTable:
    Slot* slots
    size_t mask                 # how many, a power of two, less one
    size_t count                # with a key
    size_t filled               # with a key or TAKEN
    uint64_t changes            # how often a slot got or lost its key, or moved


cdef struct Search:             # where a hash may be, one slot after the other
    Slot* slot
    size_t perturb


cdef inline void search_first(const StampTable* table, Py_hash_t hash, Search* search) noexcept nogil:
    search.perturb = <size_t>hash
    search.slot = &table.slots[<size_t>hash & table.mask]


cdef inline void search_next(const StampTable* table, Search* search) noexcept nogil:
    search.perturb >>= 5
    search.slot = &table.slots[(5 * <size_t>(search.slot - table.slots) + search.perturb + 1) & table.mask]


cdef inline bint stamps_init(StampTable* table, size_t size) noexcept nogil:
    """An empty table of so many slots, a power of two. False: no memory."""
    table.slots = <Slot*>calloc(size, sizeof(Slot))
    table.mask = size - 1
    table.count = table.filled = 0
    table.changes += 1
    return table.slots != NULL


cdef inline void stamps_put(StampTable* table, Slot slot) noexcept nogil:
    """Where there is room for a key that is not there. O(1) on average."""
    cdef Search search
    search_first(table, slot.hash, &search)
    while search.slot.key != NULL:
        search_next(table, &search)
    search.slot[0] = slot
    table.count += 1
    table.filled += 1
    table.changes += 1


cdef inline bint stamps_make_room(StampTable* table) noexcept nogil:
    """Room for one more key: at most two slots of three are filled. False: no memory. Amortised O(1)."""
    cdef StampTable old = table[0]
    cdef size_t size = FEWEST
    cdef size_t i
    if 3 * (table.filled + 1) <= 2 * (table.mask + 1):
        return True
    while size < 2 * (table.count + 1):
        size *= 2
    if not stamps_init(table, size):
        table[0] = old
        return False
    for i in range(old.mask + 1):
        if old.slots[i].owner != NULL:
            stamps_put(table, old.slots[i])
    free(old.slots)
    return True


cdef inline Slot* stamps_of(const StampTable* table, Py_hash_t hash, PyObject* owner) noexcept nogil:
    """The slot with that owner; NULL: there is none."""
    cdef Search search
    search_first(table, hash, &search)
    while search.slot.key != NULL:
        if search.slot.owner == owner:
            return search.slot
        search_next(table, &search)
    return NULL


cdef inline void stamps_take(StampTable* table, Slot* slot) noexcept nogil:
    """The slot is nobody's any more."""
    slot.key = TAKEN
    slot.owner = NULL
    table.count -= 1
    table.changes += 1


cdef inline const char* stamps_check(const StampTable* table) noexcept nogil:
    """What is broken; NULL: nothing. O(slots)."""
    cdef size_t i
    cdef size_t count = 0
    cdef size_t filled = 0
    cdef Slot* slot
    for i in range(table.mask + 1):
        slot = &table.slots[i]
        filled += slot.key != NULL
        if (slot.owner == NULL) != (slot.key == NULL or slot.key == TAKEN):
            return b"a slot has a key and no owner, or the other way round"
        if slot.owner != NULL:
            count += 1
            if stamps_of(table, slot.hash, slot.owner) != slot:
                return b"a slot is not found by its hash and owner"
    if count != table.count or filled != table.filled:
        return b"the slots do not add up to `count` and `filled`"
    if filled > table.mask:
        return b"no slot is free: a search would not end"
    return NULL
