"""Levels: the hierarchical timing wheel, over nodes. Tasks and table slots alike stand on it.

Level 0 has one bucket a tick; a bucket of level k spans a whole turn of level k - 1.
A node goes into the lowest level whose turn, counted from that level's time, reaches
its deadline. When a coarse bucket expires its nodes cascade: they are put in anew, lower
down. Levels are added on demand, and only then is memory allocated.

    I1  a bucket is in the heap once iff its expiration is set
    I2  expiration <= deadline < expiration + span
    I3  each level's time is a multiple of its span

Source: Varghese and Lauck's hierarchical wheels (scheme 7), with Kafka's queue of buckets
in place of the ticking. Ticks may be any int64; division rounds down throughout. Distances
are unsigned: from the most negative tick to the greatest they need all 64 bits.
"""
from cpython.pyport cimport PY_SSIZE_T_MAX
from libc.stdint cimport UINT64_MAX, int64_t, uint64_t
from libc.stdlib cimport free, malloc

from tickwheel._bucket cimport (
    UNSET, Bucket, Node, bucket_append, bucket_init, bucket_is_empty, bucket_take_all,
)
from tickwheel._bucketheap cimport (
    BucketHeap, HeapEntry, heap_free, heap_init, heap_pop, heap_push, heap_reserve,
)

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define tw_prefetch(address) __builtin_prefetch(address)
    #define tw_rare(condition) __builtin_expect(!!(condition), 0)
    #else
    #define tw_prefetch(address) ((void)(address))
    #define tw_rare(condition) (condition)
    #endif
    """
    void tw_prefetch(const void* address) noexcept nogil
    bint tw_rare(bint condition) noexcept nogil

cdef enum:
    MAX_LEVELS = 64             # 2 ** 64 ticks with the smallest wheel


cdef struct Level:
    uint64_t span               # ticks a bucket
    uint64_t interval           # ticks a turn: span * wheel_size; UINT64_MAX: past 64 bits, so all
    int64_t time                # tick; a multiple of span (I3), modulo 2 ** 64
    int shift                   # log2(span) where the wheel size is a power of two
    Bucket* buckets


cdef struct Levels:
    int64_t time                # the current tick
    int64_t wheel_size
    int64_t mask                # wheel_size - 1 if that is a power of two, else -1
    int size_shift
    int count
    BucketHeap heap
    int64_t wakeups             # instants at which a non-empty bucket expired
    int64_t cascades            # nodes put in anew because a coarse bucket expired
    int64_t last_wakeup         # tick of the last of them
    Level level[MAX_LEVELS]


cdef enum Insertion:
    INSERTED
    DUE
    NO_MEMORY


cdef inline int64_t floor_div(int64_t a, uint64_t b) noexcept nogil:
    # ~a is -1 - a: the truncating division of a number that is not negative, mirrored.
    return <int64_t>(<uint64_t>a // b) if a >= 0 else ~<int64_t>(<uint64_t>~a // b)


cdef inline int64_t level_floor(const Levels* levels, const Level* level, int64_t tick) noexcept nogil:
    """The start of the bucket of this level that covers `tick`."""
    if levels.mask >= 0:
        return <int64_t>(<uint64_t>tick & (0 - level.span))
    return <int64_t>(<uint64_t>floor_div(tick, level.span) * level.span)


cdef inline Bucket* level_bucket(const Levels* levels, const Level* level, int64_t tick) noexcept nogil:
    cdef int64_t slot
    if levels.mask >= 0:
        return &level.buckets[(tick >> level.shift) & levels.mask]
    slot = floor_div(tick, level.span) % levels.wheel_size
    return &level.buckets[slot if slot >= 0 else slot + levels.wheel_size]


cdef inline bint level_reaches(
    const Levels* levels, const Level* level, uint64_t ticks, int64_t tick,
) noexcept nogil:
    """Is `tick`, not before the current one, less than `ticks` (a span or more) after this level's time?"""
    # Not tick - level.time: that can pass 64 bits.
    return (<uint64_t>tick - <uint64_t>levels.time
            < ticks - (<uint64_t>levels.time - <uint64_t>level.time))


cdef inline bint level_covers(const Levels* levels, const Level* level, int64_t deadline) noexcept nogil:
    """Is this deadline, not before the current tick, within this level's turn?"""
    return level_reaches(levels, level, level.interval, deadline) or level.interval == UINT64_MAX


cdef inline bint levels_add_level(Levels* levels) noexcept nogil:
    """Add the next coarser wheel. False: no memory, nothing changed."""
    cdef Level* level = &levels.level[levels.count]
    cdef int64_t i
    if levels.wheel_size > PY_SSIZE_T_MAX // (MAX_LEVELS * <Py_ssize_t>sizeof(Bucket)):
        return False
    if not heap_reserve(&levels.heap, (levels.count + 1) * levels.wheel_size):
        return False
    level.buckets = <Bucket*>malloc(levels.wheel_size * sizeof(Bucket))
    if level.buckets == NULL:
        return False
    for i in range(levels.wheel_size):
        bucket_init(&level.buckets[i])
        level.buckets[i].root.deadline = levels.count
    level.span = 1 if levels.count == 0 else levels.level[levels.count - 1].interval
    level.shift = levels.count * levels.size_shift
    level.interval = (level.span * <uint64_t>levels.wheel_size
                      if level.span <= UINT64_MAX // <uint64_t>levels.wheel_size else UINT64_MAX)
    level.time = level_floor(levels, level, levels.time)
    levels.count += 1
    return True


cdef inline bint levels_init(Levels* levels, int64_t wheel_size, int64_t time) noexcept nogil:
    """Empty levels, the finest one made. False: no memory (nothing to free)."""
    levels.time = time
    levels.wheel_size = wheel_size
    levels.mask = wheel_size - 1 if wheel_size & (wheel_size - 1) == 0 else -1
    levels.size_shift = 0
    while levels.mask >= 0 and (<int64_t>1 << levels.size_shift) < wheel_size:
        levels.size_shift += 1
    levels.count = 0
    levels.wakeups = 0
    levels.cascades = 0
    levels.last_wakeup = UNSET
    heap_init(&levels.heap)
    if levels_add_level(levels):
        return True
    heap_free(&levels.heap)
    return False


cdef inline bint levels_reserve(Levels* levels, int64_t deadline) noexcept nogil:
    """Add the levels for this deadline: inserting it, or a nearer one, then allocates nothing.
    False: no memory, the levels made so far stay."""
    cdef Level* top = &levels.level[levels.count - 1]
    while deadline > levels.time and not level_covers(levels, top, deadline):
        if not levels_add_level(levels):
            return False
        top = &levels.level[levels.count - 1]
    return True


cdef inline void levels_free(Levels* levels) noexcept nogil:
    cdef int i
    for i in range(levels.count):
        free(levels.level[i].buckets)
    levels.count = 0
    heap_free(&levels.heap)


cdef inline int64_t levels_nbytes(const Levels* levels) noexcept nogil:
    """What is allocated beside the struct itself."""
    return (levels.heap.capacity * <int64_t>sizeof(HeapEntry)
            + levels.count * levels.wheel_size * <int64_t>sizeof(Bucket))


cdef inline Insertion levels_insert(Levels* levels, Node* node, int64_t* expiration) noexcept nogil:
    """Link `node` by its deadline; `expiration` is set to its bucket's. O(levels).

    DUE: the deadline has come, the node is not linked. NO_MEMORY: for a level
    that it needs; nothing changed.
    """
    cdef int64_t deadline = node.deadline
    cdef int i = 0
    cdef Level* level
    cdef Bucket* bucket
    if deadline <= levels.time:
        return DUE
    while True:
        level = &levels.level[i]
        if level_covers(levels, level, deadline):
            break
        i += 1
        if i == levels.count and not levels_add_level(levels):
            return NO_MEMORY
    bucket = level_bucket(levels, level, deadline)
    bucket_append(bucket, node)
    if bucket.expiration == UNSET:
        heap_push(&levels.heap, bucket, level_floor(levels, level, deadline))
    expiration[0] = bucket.expiration
    return INSERTED


cdef inline void levels_set_time(Levels* levels, int64_t tick) noexcept nogil:
    """Move the clock to `tick`; no bucket may expire between. O(levels that turn)."""
    cdef Level* level
    cdef int i
    for i in range(levels.count):
        level = &levels.level[i]
        # The spans divide each other: where one level stays, the coarser ones do.
        if level_reaches(levels, level, level.span, tick):
            break
        level.time = level_floor(levels, level, tick)
    levels.time = tick


cdef inline bint levels_next_expiration(Levels* levels, int64_t* expiration) noexcept nogil:
    """When the next non-empty bucket expires; False: there is none.

    Buckets that cancellations emptied are dropped on the way: each once, so
    amortised O(log buckets).
    """
    while levels.heap.size > 0:
        if not bucket_is_empty(levels.heap.entries[0].bucket):
            expiration[0] = levels.heap.entries[0].expiration
            return True
        heap_pop(&levels.heap)
    return False


cdef inline void levels_cascade(Levels* levels, Node* node) noexcept nogil:
    """Put a node of an expiring coarse bucket in anew. Never needs a level: it fits lower down."""
    cdef int64_t expiration
    levels_insert(levels, node, &expiration)


cdef inline int64_t levels_advance(
    Levels* levels, int64_t now, Bucket* due, int64_t budget,
) noexcept nogil:
    """Move the clock towards `now` and the nodes that come due to the end of `due`,
    in ascending order of their ticks. Returns the part of the budget that is left.

    At most `budget` nodes are touched (made due or cascaded): 0 left means that
    there may be more, and the clock stands at the bucket that is not finished.
    Time never goes back: an earlier `now` changes nothing (R6).
    """
    cdef Bucket* bucket
    cdef Node* node
    cdef Node* scout
    cdef int64_t tick
    while levels.heap.size > 0 and levels.heap.entries[0].expiration <= now:
        bucket = levels.heap.entries[0].bucket
        if bucket_is_empty(bucket):
            heap_pop(&levels.heap)
            continue
        if budget <= 0:
            return 0
        tick = bucket.expiration
        if tick > levels.time:
            levels_set_time(levels, tick)
        if tick != levels.last_wakeup:
            levels.last_wakeup = tick
            levels.wakeups += 1
        node = bucket.root.next
        scout = bucket.root.prev
        while node != &bucket.root and budget > 0:
            # Each step along the links waits for memory: a scout that comes from the other end waits
            # at the same time, and what it has seen is in the cache when we get there.
            scout = scout.prev if scout != node else &bucket.root
            tw_prefetch(scout)
            # By hand: the node's own links are written when it is put in anew.
            bucket.root.next = node.next
            node.next.prev = &bucket.root
            budget -= 1
            if node.deadline > tick:
                levels.cascades += 1
                levels_cascade(levels, node)
            else:
                bucket_append(due, node)
            node = bucket.root.next
        if bucket_is_empty(bucket):
            heap_pop(&levels.heap)
    if now > levels.time:
        levels_set_time(levels, now)
    return budget
