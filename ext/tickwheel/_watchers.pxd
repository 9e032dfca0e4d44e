"""Who watches which key: a hash table of keys, each with the cyclic list of the watches on it.

Intrusive: a `Watch` is in the memory of its operation, and leaves its list in O(1). `Watchers` are found
by hash, but leave the table by their address, so that nothing here calls a key's `__eq__`. They stay while
a watch is on their list or somebody has *pinned* them, to use their address outside of the section.

The caller owns the references: to the key of watchers in the table, and to those whose watches are linked.
"""
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc


cdef struct Watch:
    Watch* prev                 # NULL: on no list
    Watch* next
    Watchers* watchers
    PyObject* operation


cdef struct Watchers:
    Watch root                  # sentinel: next is the first, prev the last watch
    Watchers* chain             # the next in the same slot
    PyObject* key
    Py_hash_t hash
    int64_t count               # watches on the list
    int64_t pins
    int64_t stamp               # of the block of watches that was linked last


cdef struct WatchTable:
    Watchers** slots
    int shift                   # 64 - log2(slots)
    int64_t count               # watchers
    int64_t added               # watchers that ever came: whoever walks a chain sees that there is a new one
    int64_t watched             # watches on all lists
    int64_t stamp               # blocks that were linked


cdef inline bint table_init(WatchTable* table) noexcept nogil:
    """False: no memory."""
    table.shift = 64 - 6
    table.count = table.added = table.watched = table.stamp = 0
    table.slots = <Watchers**>calloc(64, sizeof(Watchers*))
    return table.slots != NULL


cdef inline int64_t table_size(const WatchTable* table) noexcept nogil:
    return <int64_t>1 << (64 - table.shift)


cdef inline Watchers** table_slot(const WatchTable* table, Py_hash_t hash) noexcept nogil:
    # Fibonacci hashing: the hashes of small integers differ in their low bits alone.
    return &table.slots[(<uint64_t>hash * <uint64_t>0x9E3779B97F4A7C15) >> table.shift]


cdef inline void table_grow(WatchTable* table) noexcept nogil:
    """Twice the slots. Without memory the chains get longer."""
    cdef WatchTable old = table[0]
    cdef Watchers** slots = <Watchers**>calloc(2 * table_size(&old), sizeof(Watchers*))
    cdef Watchers** slot
    cdef Watchers* watchers
    cdef int64_t i
    if slots == NULL:
        return
    table.slots = slots
    table.shift -= 1
    for i in range(table_size(&old)):
        while old.slots[i] != NULL:
            watchers = old.slots[i]
            old.slots[i] = watchers.chain
            slot = table_slot(table, watchers.hash)
            watchers.chain = slot[0]
            slot[0] = watchers
    free(old.slots)


cdef inline Watchers* table_add(WatchTable* table, PyObject* key, Py_hash_t hash) noexcept nogil:
    """New watchers for a key that has none, pinned once. NULL: no memory. Amortised O(1)."""
    cdef Watchers** slot
    cdef Watchers* watchers = <Watchers*>malloc(sizeof(Watchers))
    if watchers == NULL:
        return NULL
    if table.count >= table_size(table):
        table_grow(table)
    watchers.root.prev = watchers.root.next = &watchers.root
    watchers.key = key
    watchers.hash = hash
    watchers.count = watchers.stamp = 0
    watchers.pins = 1
    slot = table_slot(table, hash)
    watchers.chain = slot[0]
    slot[0] = watchers
    table.count += 1
    table.added += 1
    return watchers


cdef inline Watchers* table_find(const WatchTable* table, Watchers* after, Py_hash_t hash) noexcept nogil:
    """The first watchers with that hash, or the first one `after` those; pinned. NULL: there are none."""
    cdef Watchers* watchers = table_slot(table, hash)[0] if after == NULL else after.chain
    while watchers != NULL and watchers.hash != hash:
        watchers = watchers.chain
    if watchers != NULL:
        watchers.pins += 1
    return watchers


cdef inline void watchers_tidy(WatchTable* table, Watchers* watchers, Watchers** unused) noexcept nogil:
    """Take watchers that nobody needs out of the table. They go before `unused`, for the caller to
    release once it has left the section."""
    cdef Watchers** link
    if watchers.count > 0 or watchers.pins > 0:
        return
    link = table_slot(table, watchers.hash)
    while link[0] != watchers:
        link = &link[0].chain
    link[0] = watchers.chain
    table.count -= 1
    watchers.chain = unused[0]
    unused[0] = watchers


cdef inline void watchers_unpin(WatchTable* table, Watchers* watchers, Watchers** unused) noexcept nogil:
    watchers.pins -= 1
    watchers_tidy(table, watchers, unused)


cdef inline void watch_link(WatchTable* table, Watch* watch) noexcept nogil:
    """Put a watch at the end of its watchers' list. Their pin is the caller's still."""
    cdef Watch* root = &watch.watchers.root
    watch.prev = root.prev
    watch.next = root
    root.prev.next = watch
    root.prev = watch
    watch.watchers.count += 1
    table.watched += 1


cdef inline void watch_unlink(WatchTable* table, Watch* watch, Watchers** unused) noexcept nogil:
    watch.prev.next = watch.next
    watch.next.prev = watch.prev
    watch.prev = watch.next = NULL
    watch.watchers.count -= 1
    table.watched -= 1
    watchers_tidy(table, watch.watchers, unused)


cdef inline const char* table_check(const WatchTable* table) noexcept nogil:
    """What is broken; NULL: nothing. O(slots + watches)."""
    cdef int64_t i
    cdef int64_t watched = 0
    cdef int64_t count = 0
    cdef int64_t length
    cdef Watchers* watchers
    cdef Watch* watch
    for i in range(table_size(table)):
        watchers = table.slots[i]
        while watchers != NULL:
            count += 1
            if table_slot(table, watchers.hash) != &table.slots[i]:
                return b"W1: watchers are in another slot than their hash's"
            if watchers.count <= 0 and watchers.pins <= 0:
                return b"W2: watchers without a watch and without a pin are in the table"
            length = 0
            watch = watchers.root.next
            while watch != &watchers.root:
                if watch.next.prev != watch or watch.prev.next != watch:
                    return b"I5: the links of a watch are not mutual"
                if watch.watchers != watchers:
                    return b"W3: a watch is on another list than its watchers'"
                length += 1
                watch = watch.next
            if length != watchers.count:
                return b"I4: a list of watches has another length than its watchers count"
            watched += length
            watchers = watchers.chain
    if watched != table.watched:
        return b"I4: the lists of watches do not add up to `watched`"
    if count != table.count:
        return b"W4: the chains do not add up to the table's count"
    return NULL
