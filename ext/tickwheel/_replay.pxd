"""Replay: a trace of requests through the wheel in virtual time, without the GIL.

A request is scheduled at its arrival, cancelled at its completion, and expires at its deadline
rounded up to a tick; ticks are multiples of `tick` from zero. At one instant completions come
first, then bucket expiries, then arrivals. Which of the two ends a request is known when it
arrives, so only completions that will win are remembered: each in the heap is still to come.

As the seeds' purgatory would, it counts the requests in the watcher lists: those that became pending, until
a purge, which comes when more than `purge_interval` of them have ended.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from tickwheel._bucket cimport Bucket, Node, bucket_init, bucket_is_empty, node_init, node_unlink
from tickwheel._curve cimport Curve, curve_begin, curve_init, curve_reach, curve_sample
from tickwheel._histogram cimport HISTOGRAM_SIZE, histogram_add
from tickwheel._levels cimport (
    Levels, floor_div, levels_advance, levels_free, levels_init, levels_insert, levels_next_expiration,
    levels_reserve, levels_set_time,
)
from tickwheel._slots cimport (
    Slots, slot_index, slots_free, slots_give_back, slots_init, slots_reserve, slots_reserve_freed,
    slots_take,
)

cdef extern from "<stdint.h>":
    const int64_t NEVER "INT64_MAX"     # the completion of a request that has none


cdef struct Completion:
    int64_t time
    uint32_t index              # of its slot


cdef struct Decision:
    int64_t row
    int64_t fire                # NEVER: completed


cdef struct Replay:
    int64_t tick
    int64_t timeout             # of each request; -1: each row has its own
    int64_t latest              # the last deadline whose fire time is below NEVER
    Levels levels
    Slots slots                 # beside them, of each: arrival + timeout
    Bucket due
    Completion* completions     # binary min-heap by (time, row)
    int64_t completion_count
    int64_t completion_capacity
    Decision* decisions         # not handed out yet
    int64_t decision_count
    int64_t decision_capacity
    int64_t rows
    int64_t arrival             # of the last row
    int64_t completed
    int64_t expired
    int64_t purge_interval      # 0 where `kept` is
    int64_t kept                # in the watcher lists when its request has ended: 1; 0: it left them at once
    int64_t ended               # of the requests in the watcher lists
    int64_t purges
    int64_t purged
    int64_t peak_watched
    Curve curve                 # pending at the ends of instants, before the last arrival's
    int64_t lateness_max
    int64_t lateness_counts[HISTOGRAM_SIZE]


cdef struct Batch:
    const int64_t* arrivals
    const int64_t* completions
    const int64_t* timeouts     # NULL: the replay has one for all
    int64_t n
    int64_t last_arrival        # once the rows are checked: none is after it
    int64_t last_deadline


cdef enum Fault:
    FINE
    NOT_ASCENDING
    COMPLETED_BEFORE
    NEGATIVE_TIMEOUT
    TOO_LATE


cdef inline bint replay_init(
    Replay* replay, int64_t tick, int64_t timeout, int64_t wheel_size, int64_t purge_interval,
) noexcept nogil:
    """A timeout of -1: each row has its own; a purge interval of -1: those that ended are not kept.
    False: no memory (nothing to free)."""
    memset(replay, 0, sizeof(Replay))
    replay.tick = tick
    replay.timeout = timeout
    replay.latest = (NEVER - 1) // tick * tick
    replay.arrival = INT64_MIN
    replay.kept = purge_interval >= 0
    replay.purge_interval = max(purge_interval, 0)
    curve_init(&replay.curve)
    bucket_init(&replay.due)
    slots_init(&replay.slots, sizeof(int64_t))
    return levels_init(&replay.levels, wheel_size, floor_div(INT64_MIN, tick))


cdef inline void replay_free(Replay* replay) noexcept nogil:
    levels_free(&replay.levels)
    slots_free(&replay.slots)
    free(replay.completions)
    free(replay.decisions)


cdef inline int64_t replay_pending(const Replay* replay) noexcept nogil:
    return replay.slots.used - replay.slots.freed_count


cdef inline int64_t replay_fire(const Replay* replay, int64_t when) noexcept nogil:
    """`when`, rounded up to a tick."""
    cdef uint64_t over = <uint64_t>when - <uint64_t>floor_div(when, replay.tick) * <uint64_t>replay.tick
    return when if over == 0 else when + (replay.tick - <int64_t>over)


cdef inline int64_t batch_timeout(const Replay* replay, const Batch* batch, int64_t i) noexcept nogil:
    return replay.timeout if batch.timeouts == NULL else batch.timeouts[i]


cdef inline Fault replay_check(const Replay* replay, Batch* batch, int64_t* row) noexcept nogil:
    """What is wrong with the first bad row, `row` becomes its index; FINE: nothing."""
    cdef int64_t i, arrival, timeout
    batch.last_arrival = replay.arrival
    batch.last_deadline = INT64_MIN
    for i in range(batch.n):
        row[0] = i
        arrival = batch.arrivals[i]
        timeout = batch_timeout(replay, batch, i)
        if arrival < batch.last_arrival:
            return NOT_ASCENDING
        if batch.completions[i] < arrival:
            return COMPLETED_BEFORE
        if timeout < 0:
            return NEGATIVE_TIMEOUT
        if arrival > replay.latest - timeout:
            return TOO_LATE
        batch.last_arrival = arrival
        batch.last_deadline = max(batch.last_deadline, arrival + timeout)
    return FINE


cdef inline bint replay_reserve(Replay* replay, const Batch* batch) noexcept nogil:
    """Make room for rows that have been checked. False: no memory, nothing lost."""
    cdef int64_t pending = replay_pending(replay) + batch.n
    cdef int64_t decided = replay.decision_count + pending
    cdef void* grown
    if pending > replay.completion_capacity:
        grown = realloc(replay.completions, pending * sizeof(Completion))
        if grown == NULL:
            return False
        replay.completions = <Completion*>grown
        replay.completion_capacity = pending
    if decided > replay.decision_capacity:
        grown = realloc(replay.decisions, decided * sizeof(Decision))
        if grown == NULL:
            return False
        replay.decisions = <Decision*>grown
        replay.decision_capacity = decided
    return (slots_reserve(&replay.slots, batch.n) and slots_reserve_freed(&replay.slots, pending)
            and levels_reserve(&replay.levels, floor_div(batch.last_deadline, replay.tick) + 1))


cdef inline void replay_decide(Replay* replay, int64_t row, int64_t fire) noexcept nogil:
    replay.decisions[replay.decision_count].row = row
    replay.decisions[replay.decision_count].fire = fire
    replay.decision_count += 1


cdef inline void replay_complete(Replay* replay, int64_t row) noexcept nogil:
    replay.completed += 1
    replay_decide(replay, row, NEVER)


cdef inline void replay_expire(Replay* replay, int64_t row, int64_t when, int64_t fire) noexcept nogil:
    cdef int64_t lateness = fire - when
    replay.expired += 1
    histogram_add(replay.lateness_counts, lateness)
    replay.lateness_max = max(replay.lateness_max, lateness)
    replay_decide(replay, row, fire)


cdef inline void replay_leave(Replay* replay, uint32_t index) noexcept nogil:
    """The request in this slot is pending no more; its node is off every list."""
    slots_give_back(&replay.slots, index)
    replay.ended += replay.kept
    if replay.ended > replay.purge_interval:
        replay.purges += 1
        replay.purged += replay.ended
        replay.ended = 0


cdef inline bint completion_before(
    const Replay* replay, const Completion* a, const Completion* b,
) noexcept nogil:
    if a.time != b.time:
        return a.time < b.time
    return replay.slots.items[a.index].id < replay.slots.items[b.index].id


cdef inline void completion_push(Replay* replay, Completion added) noexcept nogil:
    cdef Completion* heap = replay.completions
    cdef int64_t parent, i = replay.completion_count
    replay.completion_count += 1
    while i > 0:
        parent = (i - 1) >> 1
        if not completion_before(replay, &added, &heap[parent]):
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = added


cdef inline Completion completion_pop(Replay* replay) noexcept nogil:
    cdef Completion* heap = replay.completions
    cdef Completion top = heap[0]
    cdef Completion last
    cdef int64_t parent, child = 1, i = 0
    replay.completion_count -= 1
    last = heap[replay.completion_count]
    # The hole sinks to a leaf and `last` rises from there: it belongs near the leaves.
    while child < replay.completion_count:
        if child + 1 < replay.completion_count:
            child += completion_before(replay, &heap[child + 1], &heap[child])
        heap[i] = heap[child]
        i = child
        child = 2 * i + 1
    while i > 0:
        parent = (i - 1) >> 1
        if not completion_before(replay, &last, &heap[parent]):
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = last
    return top


cdef inline void replay_until(Replay* replay, int64_t limit) noexcept nogil:
    """Let everything happen that happens up to and at `limit`, in the order of time."""
    cdef Levels* levels = &replay.levels
    cdef Slots* slots = &replay.slots
    cdef Bucket* due = &replay.due
    cdef Node* node
    cdef int64_t expiry, completion, expiration = NEVER
    cdef uint32_t index
    while True:
        # A bucket expires after the current tick, and so at a time that fits.
        expiry = expiration * replay.tick if levels_next_expiration(levels, &expiration) else NEVER
        completion = replay.completions[0].time if replay.completion_count > 0 else NEVER
        if min(expiry, completion) > limit:
            return
        if completion <= expiry:
            if completion > replay.curve.until:
                curve_reach(&replay.curve, completion, replay_pending(replay))
            index = completion_pop(replay).index
            node_unlink(&slots.items[index].node)
            replay_complete(replay, slots.items[index].id)
            replay_leave(replay, index)
            continue
        levels_advance(levels, expiration, due, INT64_MAX)
        if expiry > replay.curve.until and not bucket_is_empty(due):
            curve_reach(&replay.curve, expiry, replay_pending(replay))
        node = due.root.next
        while node != &due.root:
            index = slot_index(slots, node)
            node = node.next
            node_init(&slots.items[index].node)
            replay_expire(replay, slots.items[index].id, (<int64_t*>slots.column)[index], expiry)
            replay_leave(replay, index)
        bucket_init(due)


cdef inline void replay_arrive(
    Replay* replay, int64_t arrival, int64_t completion, int64_t when,
) noexcept nogil:
    """`when`: arrival + timeout."""
    cdef Levels* levels = &replay.levels
    cdef Slots* slots = &replay.slots
    cdef int64_t now = floor_div(arrival, replay.tick)
    cdef int64_t fire = replay_fire(replay, when)
    cdef int64_t expiration
    cdef Completion added
    if arrival > replay.arrival:
        curve_sample(&replay.curve, replay_pending(replay))
        replay.arrival = arrival
        replay_until(replay, arrival)
        if arrival > replay.curve.until:
            curve_reach(&replay.curve, arrival, replay_pending(replay))
        if now > levels.time:
            levels_set_time(levels, now)
    if completion <= arrival:
        replay_complete(replay, replay.rows)
    elif fire == arrival:
        replay_expire(replay, replay.rows, when, fire)
    else:
        added.index = slots_take(slots)
        slots.items[added.index].id = replay.rows
        slots.items[added.index].node.deadline = floor_div(fire, replay.tick)
        (<int64_t*>slots.column)[added.index] = when
        levels_insert(levels, &slots.items[added.index].node, &expiration)
        replay.peak_watched = max(replay.peak_watched, replay_pending(replay) + replay.ended)
        if completion <= fire:
            added.time = completion
            completion_push(replay, added)
    replay.rows += 1


cdef inline void replay_feed(Replay* replay, const Batch* batch) noexcept nogil:
    """Rows that have been checked and for which there is room."""
    cdef int64_t i, arrival, when
    if replay.rows == 0 and batch.n > 0:
        curve_begin(&replay.curve, max(replay.arrival, min(batch.arrivals[0], batch.last_arrival)))
    for i in range(batch.n):
        # Whoever owns the buffers may write to them meanwhile: no harm beyond a wrong result.
        arrival = max(replay.arrival, min(batch.arrivals[i], batch.last_arrival))
        when = <int64_t>(<uint64_t>arrival + <uint64_t>batch_timeout(replay, batch, i))
        if when < arrival or when > batch.last_deadline:
            when = batch.last_deadline
        replay_arrive(replay, arrival, batch.completions[i], when)


cdef inline void replay_finish(Replay* replay) noexcept nogil:
    if replay.rows > 0:
        curve_sample(&replay.curve, replay_pending(replay))
    replay_until(replay, NEVER - 1)
