"""A table's bytes: its exact contents, so that the restored one behaves as this one would.

    header      magic, then seven int64: version, wheel_size, time, used, freed, live, lists
    uint32      the generation of each used slot, then the stack of freed slots
    lists       level, expiration, length (int64), then of each node index, deadline, id (int64):
                the due list, as level -1, then the buckets that are not empty, in ascending order
    uint32      crc32 of all before

Integers are in the machine's own order: elsewhere the version is not recognised.
"""
from libc.stdint cimport INT32_MAX, INT64_MIN, UINT64_MAX, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from tickwheel._bucket cimport Bucket, Node, bucket_append, bucket_is_empty, node_init, node_is_linked
from tickwheel._bucketheap cimport heap_push
from tickwheel._levels cimport Level, Levels, level_bucket, level_covers, level_floor, levels_add_level
from tickwheel._slots cimport Slots, slot_index

cdef enum:
    VERSION = 1


cdef struct Header:
    char magic[8]
    int64_t version
    int64_t wheel_size
    int64_t time
    int64_t used
    int64_t freed
    int64_t live
    int64_t lists


cdef struct SavedList:
    int64_t level
    int64_t expiration
    int64_t length


cdef struct SavedNode:
    int64_t index
    int64_t deadline
    int64_t id


cdef inline Bucket* level_nth(const Levels* levels, const Level* level, int64_t n) noexcept nogil:
    """The n-th bucket of a level counted from the current one, so in ascending order."""
    cdef int64_t slot = level_bucket(levels, level, levels.time) - level.buckets + n
    return &level.buckets[slot if slot < levels.wheel_size else slot - levels.wheel_size]


cdef inline int64_t saved_lists(const Levels* levels) noexcept nogil:
    cdef int64_t k, n, count = 1
    for k in range(levels.count):
        for n in range(levels.wheel_size):
            count += not bucket_is_empty(&levels.level[k].buckets[n])
    return count


cdef inline int64_t saved_size(const Header* header) noexcept nogil:
    """Bytes before the checksum."""
    return (<int64_t>sizeof(Header) + (header.used + header.freed) * <int64_t>sizeof(uint32_t)
            + header.lists * <int64_t>sizeof(SavedList) + header.live * <int64_t>sizeof(SavedNode))


cdef inline char* save_list(
    const Slots* slots, const Bucket* bucket, int64_t level, int64_t expiration, char* out,
) noexcept nogil:
    cdef SavedList saved
    cdef SavedNode record
    cdef const Node* node = bucket.root.next
    cdef char* head = out
    saved.level = level
    saved.expiration = expiration
    saved.length = 0
    out += sizeof(SavedList)
    while node != &bucket.root:
        record.index = slot_index(slots, node)
        record.deadline = node.deadline
        record.id = slots.items[record.index].id
        memcpy(out, &record, sizeof(SavedNode))
        out += sizeof(SavedNode)
        saved.length += 1
        node = node.next
    memcpy(head, &saved, sizeof(SavedList))
    return out


cdef inline void table_save(
    const Levels* levels, const Slots* slots, const Bucket* due, const Header* header, char* out,
) noexcept nogil:
    """Write all but the checksum: `saved_size` bytes."""
    cdef const Bucket* bucket
    cdef int64_t k, n
    memcpy(out, header, sizeof(Header))
    out += sizeof(Header)
    if slots.used > 0:
        memcpy(out, slots.column, slots.used * sizeof(uint32_t))
        out += slots.used * sizeof(uint32_t)
    if slots.freed_count > 0:
        memcpy(out, slots.freed, slots.freed_count * sizeof(uint32_t))
        out += slots.freed_count * sizeof(uint32_t)
    out = save_list(slots, due, -1, levels.time, out)
    for k in range(levels.count):
        for n in range(levels.wheel_size):
            bucket = level_nth(levels, &levels.level[k], n)
            if not bucket_is_empty(bucket):
                out = save_list(slots, bucket, k, bucket.expiration, out)


cdef inline const char* header_fault(const Header* header, int64_t size) noexcept nogil:
    """NULL when the counts agree with each other and with `size`, the bytes before the checksum."""
    if header.wheel_size < 2:
        return "its wheel_size is less than 2"
    # Each is bounded before they are added up, so that the sum cannot wrap.
    if not (0 <= header.freed <= header.used <= size and header.live == header.used - header.freed
            and 1 <= header.lists <= size and saved_size(header) == size):
        return "its counts do not agree with its length"
    return NULL


cdef inline const char* load_list(
    Slots* slots, Bucket* bucket, int64_t length, int64_t least, uint64_t reach, const char** data,
) noexcept nogil:
    """Append the nodes of one list; least <= deadline <= least + reach."""
    cdef SavedNode record
    cdef Node* node
    cdef int64_t _i
    for _i in range(length):
        memcpy(&record, data[0], sizeof(SavedNode))
        data[0] += sizeof(SavedNode)
        if not 0 <= record.index < slots.used or node_is_linked(&slots.items[record.index].node):
            return "a slot is out of range or named twice"
        if record.deadline < least or <uint64_t>record.deadline - <uint64_t>least > reach:
            return "a deadline lies outside its bucket"
        node = &slots.items[record.index].node
        node.deadline = record.deadline
        slots.items[record.index].id = record.id
        bucket_append(bucket, node)
    return NULL


cdef inline const char* load_bucket(
    Levels* levels, Slots* slots, const SavedList* saved, const char** data,
) noexcept nogil:
    cdef Level* level
    cdef Bucket* bucket
    while saved.level >= levels.count and levels.level[levels.count - 1].interval != UINT64_MAX:
        if not levels_add_level(levels):
            return ""
    if not 0 <= saved.level < levels.count:
        return "a level is out of range"
    level = &levels.level[saved.level]
    if (saved.expiration < levels.time or level_floor(levels, level, saved.expiration) != saved.expiration
            or not level_covers(levels, level, saved.expiration)):
        return "a bucket is out of range"
    bucket = level_bucket(levels, level, saved.expiration)
    if saved.length < 1 or not bucket_is_empty(bucket):
        return "a bucket is empty or named twice"
    heap_push(&levels.heap, bucket, saved.expiration)
    return load_list(slots, bucket, saved.length, saved.expiration, level.span - 1, data)


cdef inline const char* load_freed(Slots* slots) noexcept nogil:
    """Each freed slot is in range, on no list and named once."""
    cdef const char* fault = NULL
    cdef Node* node
    cdef int64_t i, marked = 0
    for i in range(slots.freed_count):
        if slots.freed[i] >= slots.used or node_is_linked(&slots.items[slots.freed[i]].node):
            fault = "a freed slot is out of range or named twice"
            break
        node = &slots.items[slots.freed[i]].node
        node.next = node
        marked += 1
    for i in range(marked):
        node_init(&slots.items[slots.freed[i]].node)
    return fault


cdef inline const char* table_load(
    Levels* levels, Slots* slots, Bucket* due, const Header* header, const char* data,
) noexcept nogil:
    """Fill an empty table for which slots have been reserved, from bytes whose header has been
    checked. NULL: done; "": no memory for a level; else what is wrong, and the table is spoilt."""
    cdef uint32_t* generations = <uint32_t*>slots.column
    cdef SavedList saved
    cdef const char* fault = NULL
    cdef uint64_t past
    cdef int64_t i, left = header.live
    slots.used = header.used
    slots.freed_count = header.freed
    data += sizeof(Header)
    if header.used > 0:
        memcpy(generations, data, header.used * sizeof(uint32_t))
        data += header.used * sizeof(uint32_t)
    if header.freed > 0:
        memcpy(slots.freed, data, header.freed * sizeof(uint32_t))
        data += header.freed * sizeof(uint32_t)
    for i in range(header.used):
        if not 0 < generations[i] <= <uint32_t>INT32_MAX:
            return "a generation is out of range"
        node_init(&slots.items[i].node)
    for i in range(header.lists):
        memcpy(&saved, data, sizeof(SavedList))
        data += sizeof(SavedList)
        if not 0 <= saved.length <= left:
            return "a list is longer than the timers that are left"
        left -= saved.length
        if i > 0:
            fault = load_bucket(levels, slots, &saved, &data)
        elif saved.level != -1 or saved.expiration != levels.time:
            fault = "its due list is missing"
        else:
            past = <uint64_t>levels.time - <uint64_t>INT64_MIN
            fault = load_list(slots, due, saved.length, INT64_MIN, past, &data)
        if fault != NULL:
            return fault
    if left > 0:
        return "its lists are shorter than the number of timers"
    return load_freed(slots)
