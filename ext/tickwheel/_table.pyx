"""TimerTable: numeric timers for bulk work, no Python object a timer; in batches without the GIL."""
from cpython.array cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, INT64_MIN, int64_t, uint32_t
from libc.string cimport memcpy

from tickwheel._bucket cimport (
    Bucket, Node, bucket_append, bucket_init, bucket_is_empty, bucket_take_all, node_is_linked, node_unlink,
)
from tickwheel._check cimport levels_check, list_check
from tickwheel._levels cimport (
    DUE, Levels, levels_advance, levels_free, levels_init, levels_insert, levels_nbytes,
    levels_next_expiration, levels_reserve, tw_prefetch,
)
from tickwheel._onecall cimport OneCall, int64_of, int64s_of, items_of, longs_of, new_int64s
from tickwheel._saved cimport VERSION, Header, header_fault, saved_lists, saved_size, table_load, table_save
from tickwheel._slots cimport (
    Slot, Slots, slot_index, slots_free, slots_give_back, slots_init, slots_nbytes, slots_reserve,
    slots_reserve_freed, slots_take,
)

from binascii import crc32

cdef bytes MAGIC = b"tickwhl\0"

cdef enum:
    CHUNK = 16384               # nodes made due before they are taken over: few enough to be cached still
    AHEAD = 16                  # slots to look ahead


cdef class TimerTable(OneCall):
    """TimerTable(wheel_size=512, start_tick=0)

    A handle is generation << 32 | index, and positive; the generation of a slot is counted up when
    its timer ends, so that a stale handle is recognised.
    """
    cdef Levels levels
    cdef Slots slots            # beside them, of each: its generation
    cdef Bucket due             # scheduled when already due: out first at the next advance

    def __cinit__(self, wheel_size=512, start_tick=0):
        cdef int64_t size = int64_of("wheel_size", wheel_size)
        cdef int64_t tick = int64_of("start_tick", start_tick)
        if size < 2:
            raise ValueError(f"wheel_size must be >= 2, got {size}")
        slots_init(&self.slots, sizeof(uint32_t))
        bucket_init(&self.due)
        if not levels_init(&self.levels, size, tick):
            raise MemoryError(f"no memory for wheel_size {size}")

    def __dealloc__(self):
        levels_free(&self.levels)
        slots_free(&self.slots)

    def __len__(self):
        return self.live()

    def __repr__(self):
        return f"<TimerTable: {self.live()} pending at tick {self.levels.time}>"

    @property
    def current_tick(self):
        return self.levels.time

    @property
    def nbytes(self):
        """Bytes in memory, all told."""
        return sizeof(TimerTable) + slots_nbytes(&self.slots) + levels_nbytes(&self.levels)

    def schedule_many(self, deadline_ticks, ids=None):
        """Schedule a timer for each deadline: their handles. Without `ids` an id is the handle. O(levels)."""
        cdef object deadlines = int64s_of("deadline_ticks", deadline_ticks)
        cdef object named = None if ids is None else int64s_of("ids", ids)
        cdef int64_t n = len(deadlines)
        cdef const int64_t* items = items_of(deadlines)
        cdef const int64_t* names = NULL
        cdef array handles
        cdef int64_t* out
        cdef bint room
        if named is not None:
            names = items_of(named)
            if len(named) != n:
                raise ValueError(f"ids must be as many as deadline_ticks, got {len(named)} and {n}")
        handles = new_int64s(n)
        out = longs_of(handles)
        self.begin()
        try:
            with nogil:
                room = self.schedule_items(items, names, n, out)
            if not room:
                raise MemoryError(f"no memory for {n} more timers")
        finally:
            self.end()
        return handles

    def cancel_many(self, handles):
        """Cancel these timers: how many there were. Stale, repeated and unknown handles do not count."""
        cdef object view = int64s_of("handles", handles)
        cdef int64_t n = len(view)
        cdef const int64_t* items = items_of(view)
        cdef int64_t count
        self.begin()
        try:
            if not slots_reserve_freed(&self.slots, min(n, self.live())):
                raise MemoryError(f"no memory to cancel {n} timers")
            with nogil:
                count = self.cancel_items(items, n)
        finally:
            self.end()
        return count

    def advance(self, now_tick):
        """Move the clock to `now_tick`: (ids, deadlines) of what came due, in firing order. An earlier
        tick changes nothing (R6). After a MemoryError nothing is lost: all come at the next advance."""
        cdef int64_t now = int64_of("now_tick", now_tick)
        cdef array ids, deadlines
        cdef int64_t first
        cdef int64_t* out_ids
        cdef int64_t* out_deadlines
        cdef bint room
        self.begin()
        first = self.slots.freed_count
        try:
            with nogil:
                room = self.collect(now)
            if not room:
                raise MemoryError
            ids = new_int64s(self.slots.freed_count - first)
            deadlines = new_int64s(self.slots.freed_count - first)
            out_ids = longs_of(ids)
            out_deadlines = longs_of(deadlines)
            with nogil:
                self.hand_out(first, out_ids, out_deadlines)
        except MemoryError:
            self.put_back(first)
            raise MemoryError("no memory for the timers that are due") from None
        finally:
            self.end()
        return ids, deadlines

    def next_expiration(self):
        """The tick at which there is something to do; None: never. The current one if a timer is due."""
        cdef int64_t tick
        self.begin()
        try:
            if not bucket_is_empty(&self.due):
                return self.levels.time
            return tick if levels_next_expiration(&self.levels, &tick) else None
        finally:
            self.end()

    def to_bytes(self):
        """The exact contents, versioned and with a checksum; `from_bytes` restores them on either core."""
        cdef Header header
        cdef object saved
        cdef uint32_t checksum
        cdef char* out
        cdef int64_t size
        self.begin()
        try:
            memcpy(header.magic, <const char*>MAGIC, sizeof(header.magic))
            header.version = VERSION
            header.wheel_size = self.levels.wheel_size
            header.time = self.levels.time
            header.used = self.slots.used
            header.freed = self.slots.freed_count
            header.live = self.live()
            header.lists = saved_lists(&self.levels)
            size = saved_size(&header)
            saved = PyBytes_FromStringAndSize(NULL, size + sizeof(checksum))
            out = PyBytes_AS_STRING(saved)
            with nogil:
                table_save(&self.levels, &self.slots, &self.due, &header, out)
            checksum = crc32(memoryview(saved)[:size])
            memcpy(out + size, &checksum, sizeof(checksum))
        finally:
            self.end()
        return saved

    @classmethod
    def from_bytes(cls, saved):
        """The table that `to_bytes` saved. ValueError: these are not its bytes, or not all, or changed."""
        cdef bytes data = bytes(memoryview(saved))
        cdef const char* start = data
        cdef int64_t size = len(data) - <int64_t>sizeof(uint32_t)
        cdef uint32_t checksum
        cdef Header header
        cdef const char* fault
        cdef TimerTable table
        if size < <int64_t>sizeof(Header) or data[:len(MAGIC)] != MAGIC:
            raise ValueError(f"not a TimerTable's bytes: {len(data)} of them, first {data[:len(MAGIC)]!r}")
        memcpy(&header, start, sizeof(Header))
        if header.version != VERSION:
            raise ValueError(f"bytes of a TimerTable must be of version {VERSION}, got {header.version}")
        memcpy(&checksum, start + size, sizeof(checksum))
        if checksum != crc32(memoryview(data)[:size]):
            raise ValueError("bytes of a TimerTable are damaged or cut short: the checksum differs")
        fault = header_fault(&header, size)
        if fault == NULL:
            table = TimerTable.__new__(cls, header.wheel_size, header.time)
            if not (slots_reserve(&table.slots, header.used)
                    and slots_reserve_freed(&table.slots, header.freed)):
                raise MemoryError(f"no memory for {header.used} timers")
            with nogil:
                fault = table_load(&table.levels, &table.slots, &table.due, &header, start)
        if fault == NULL:
            return table
        if fault[0] == 0:
            raise MemoryError("no memory for the levels of a TimerTable")
        raise ValueError(f"bytes of a TimerTable do not fit together: {fault.decode()}")

    def _check(self):
        """Assert I1 to I5. O(n)."""
        cdef int64_t linked, due = 0
        cdef const char* broken
        self.begin()
        try:
            broken = levels_check(&self.levels, &linked)
            if broken == NULL:
                broken = list_check(&self.due, &due)
            if broken != NULL:
                raise AssertionError(broken.decode())
            if linked + due != self.live():
                raise AssertionError(f"I4: the lists' lengths add up to len: {linked + due} != {self.live()}")
        finally:
            self.end()

    cdef inline int64_t live(self) noexcept nogil:
        return self.slots.used - self.slots.freed_count

    cdef bint schedule_items(
        self, const int64_t* deadlines, const int64_t* ids, int64_t n, int64_t* handles,
    ) noexcept nogil:
        """False: no memory, nothing changed."""
        cdef Slots* slots = &self.slots
        cdef uint32_t* generations
        cdef int64_t i, expiration, greatest = INT64_MIN
        cdef uint32_t index
        cdef Slot* slot
        for i in range(n):
            greatest = max(greatest, deadlines[i])
        if not (slots_reserve(slots, n) and levels_reserve(&self.levels, greatest)):
            return False
        generations = <uint32_t*>slots.column
        for i in range(n):
            if slots.freed_count > AHEAD:
                tw_prefetch(&slots.items[slots.freed[slots.freed_count - AHEAD]])
                tw_prefetch(&generations[slots.freed[slots.freed_count - AHEAD]])
            elif slots.freed_count == 0:
                generations[slots.used] = 1
            index = slots_take(slots)
            slot = &slots.items[index]
            handles[i] = <int64_t>generations[index] << 32 | index
            slot.id = handles[i] if ids == NULL else ids[i]
            # Whoever owns the buffer may write to it meanwhile: levels are there up to the greatest.
            slot.node.deadline = min(deadlines[i], greatest)
            if levels_insert(&self.levels, &slot.node, &expiration) == DUE:
                bucket_append(&self.due, &slot.node)
        return True

    cdef inline void end_generation(self, uint32_t index) noexcept nogil:
        cdef uint32_t* generation = <uint32_t*>self.slots.column + index
        generation[0] = generation[0] + 1 if generation[0] < <uint32_t>INT32_MAX else 1

    cdef int64_t cancel_items(self, const int64_t* handles, int64_t n) noexcept nogil:
        """Room to give them back has been reserved."""
        cdef Slots* slots = &self.slots
        cdef uint32_t* generations = <uint32_t*>slots.column
        cdef int64_t i, handle, before = slots.freed_count
        cdef uint32_t index
        cdef Node* node
        for i in range(n):
            # First the slot is asked for, then its neighbours: each is there when its turn comes.
            if i + 2 * AHEAD < n:
                index = <uint32_t>handles[i + 2 * AHEAD]
                tw_prefetch(&slots.items[index])
                tw_prefetch(&generations[index])
            if i + AHEAD < n:
                index = <uint32_t>handles[i + AHEAD]
                if index < slots.used:
                    node = &slots.items[index].node
                    tw_prefetch(node.next)
                    tw_prefetch(node.prev)
            handle = handles[i]     # read once: whoever owns the buffer may write to it meanwhile
            index = <uint32_t>handle
            # A generation alone is not enough: a handle can be made up.
            if (index < slots.used and generations[index] == handle >> 32
                    and node_is_linked(&slots.items[index].node)):
                node_unlink(&slots.items[index].node)
                self.end_generation(index)
                slots_give_back(slots, index)
        return slots.freed_count - before

    cdef bint collect(self, int64_t now) noexcept nogil:
        """Move the clock and put what comes due, in order, on the stack of freed slots.
        False: no memory; the rest waits in `due`."""
        cdef Slots* slots = &self.slots
        cdef Bucket* due = &self.due
        cdef Node* node
        cdef uint32_t index
        cdef int64_t _i, left = 0
        if now < self.levels.time:
            return True
        while True:
            if bucket_is_empty(due):
                left = levels_advance(&self.levels, now, due, CHUNK)
                if bucket_is_empty(due) and left > 0:
                    return True
            if not slots_reserve_freed(slots, CHUNK):
                return False
            node = due.root.next
            for _i in range(CHUNK):
                if node == &due.root:
                    break
                index = slot_index(slots, node)
                node = node.next
                slots.items[index].node.next = NULL
                slots_give_back(slots, index)
            due.root.next = node
            node.prev = &due.root

    cdef void hand_out(self, int64_t first, int64_t* ids, int64_t* deadlines) noexcept nogil:
        """What `collect` put on the stack, from `first` on. Its slots are known beforehand, so their
        cache misses overlap; a walk along the links would wait for each."""
        cdef Slots* slots = &self.slots
        cdef uint32_t* generations = <uint32_t*>slots.column
        cdef uint32_t* taken = slots.freed + first
        cdef int64_t i, n = slots.freed_count - first
        for i in range(n):
            if i + AHEAD < n:
                tw_prefetch(&slots.items[taken[i + AHEAD]])
                tw_prefetch(&generations[taken[i + AHEAD]])
            ids[i] = slots.items[taken[i]].id
            deadlines[i] = slots.items[taken[i]].node.deadline
            self.end_generation(taken[i])

    cdef void put_back(self, int64_t first) noexcept nogil:
        """Undo `collect`: what it took over is due again, before the rest."""
        cdef Bucket rest
        cdef int64_t i
        bucket_init(&rest)
        bucket_take_all(&rest, &self.due)
        for i in range(first, self.slots.freed_count):
            bucket_append(&self.due, &self.slots.items[self.slots.freed[i]].node)
        self.slots.freed_count = first
        bucket_take_all(&self.due, &rest)
