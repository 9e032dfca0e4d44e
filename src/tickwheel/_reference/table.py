"""TimerTable in plain Python: the mirror of `_table.pyx`, with the same results and the same bytes.

The bytes are a table's exact contents, so that the restored one behaves as this one would:

    header      magic, then seven int64: version, wheel_size, time, used, freed, live, lists
    uint32      the generation of each used slot, then the stack of freed slots
    lists       level, expiration, length (int64), then of each node index, deadline, id (int64):
                the due list, as level -1, then the buckets that are not empty, in ascending order
    uint32      crc32 of all before

Integers are in the machine's own order: elsewhere the version is not recognised.
"""

from __future__ import annotations

import sys
from array import array
from binascii import crc32
from collections.abc import Iterator
from struct import Struct
from typing import Any, Self

from tickwheel._reference.levels import Bucket, Levels, Node
from tickwheel._reference.onecall import Int64s, OneCall, int64_of, int64s_of

MAGIC = b"tickwhl\0"
VERSION = 1
HEADER = Struct("=8s7q")
CHECKSUM = Struct("=I")
MAX_GENERATION = 2**31 - 1
ALL = 2**64  # levels enough for any deadline, nodes enough for any budget


class Slot(Node):
    __slots__ = ("id", "index")

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index
        self.id = 0


class TimerTable:
    """Numeric timers for bulk work.

    A handle is generation << 32 | index, and positive; the generation of a slot is counted up when
    its timer ends, so that a stale handle is recognised.
    """

    __slots__ = ("_due", "_freed", "_generations", "_levels", "_one_call", "_slots")

    def __init__(self, wheel_size: int = 512, start_tick: int = 0) -> None:
        size = int64_of("wheel_size", wheel_size)
        tick = int64_of("start_tick", start_tick)
        if size < 2:
            raise ValueError(f"wheel_size must be >= 2, got {size}")
        self._levels: Levels[Slot] = Levels(size, tick)
        self._slots: list[Slot] = []
        self._generations = array("I")
        self._freed: list[int] = []  # stack of indices
        self._due: Bucket[Slot] = Bucket()  # scheduled when already due: out first at the next advance
        self._one_call = OneCall(type(self).__name__)

    def __len__(self) -> int:
        return len(self._slots) - len(self._freed)

    def __repr__(self) -> str:
        return f"<TimerTable: {len(self)} pending at tick {self._levels.time}>"

    @property
    def current_tick(self) -> int:
        return self._levels.time

    @property
    def nbytes(self) -> int:
        """Bytes in memory, all told; the integers that slots refer to are not."""
        levels = self._levels
        buckets = sum(len(level.buckets) for level in levels.levels)
        return (
            sum(map(sys.getsizeof, (self, self._slots, self._generations, self._freed, levels.heap)))
            + len(self._slots) * sys.getsizeof(Slot(0))
            + buckets * sys.getsizeof(self._due)
        )

    def schedule_many(self, deadline_ticks: Any, ids: Any = None) -> Int64s:
        """Schedule a timer for each deadline: their handles. Without `ids` an id is the handle. O(levels)."""
        deadlines = int64s_of("deadline_ticks", deadline_ticks)
        named = None if ids is None else int64s_of("ids", ids)
        if named is not None and len(named) != len(deadlines):
            raise ValueError(f"ids must be as many as deadline_ticks, got {len(named)} and {len(deadlines)}")
        handles = array("q", bytes(8 * len(deadlines)))
        slots, generations, freed = self._slots, self._generations, self._freed
        insert, append = self._levels.insert, self._due.append
        with self._one_call:
            for i, deadline in enumerate(deadlines):
                if freed:
                    slot = slots[freed.pop()]
                else:
                    slot = Slot(len(slots))
                    slots.append(slot)
                    generations.append(1)
                handles[i] = handle = generations[slot.index] << 32 | slot.index
                slot.id = handle if named is None else named[i]
                slot.deadline = deadline
                if insert(slot) is None:
                    append(slot)
        return handles

    def cancel_many(self, handles: Any) -> int:
        """Cancel these timers: how many there were. Stale, repeated and unknown handles do not count."""
        slots, generations, freed = self._slots, self._generations, self._freed
        given = int64s_of("handles", handles)
        with self._one_call:
            before = len(freed)
            for handle in given:
                index = handle & 0xFFFFFFFF
                # A generation alone is not enough: a handle can be made up.
                if index < len(slots) and generations[index] == handle >> 32 and slots[index].is_linked():
                    slots[index].unlink()
                    self._end_generation(index)
                    freed.append(index)
            return len(freed) - before

    def _end_generation(self, index: int) -> None:
        generation = self._generations[index]
        self._generations[index] = generation + 1 if generation < MAX_GENERATION else 1

    def advance(self, now_tick: int) -> tuple[Int64s, Int64s]:
        """Move the clock to `now_tick`: (ids, deadlines) of what came due, in firing order. An earlier
        tick changes nothing (R6)."""
        now = int64_of("now_tick", now_tick)
        ids, deadlines = array("q"), array("q")
        with self._one_call:
            if now >= self._levels.time:
                self._levels.advance(now, self._due, ALL)
                for slot in self._due:
                    ids.append(slot.id)
                    deadlines.append(slot.deadline)
                    slot.prev = slot.next = None
                    self._end_generation(slot.index)
                    self._freed.append(slot.index)
                self._due.empty()
        return ids, deadlines

    def next_expiration(self) -> int | None:
        """The tick at which there is something to do; None: never. The current one if a timer is due."""
        with self._one_call:
            return self._levels.time if self._due else self._levels.next_expiration()

    def to_bytes(self) -> bytes:
        """The exact contents, versioned and with a checksum; `from_bytes` restores them on either core."""
        with self._one_call:
            records = array("q")
            lists = 0
            for level, expiration, bucket in self._lists():
                nodes = [(slot.index, slot.deadline, slot.id) for slot in bucket]
                records.extend((level, expiration, len(nodes)))
                for node in nodes:
                    records.extend(node)
                lists += 1
            levels, used, freed = self._levels, len(self._slots), len(self._freed)
            saved = b"".join((
                HEADER.pack(MAGIC, VERSION, levels.wheel_size, levels.time, used, freed, used - freed, lists),
                self._generations.tobytes(),
                array("I", self._freed).tobytes(),
                records.tobytes(),
            ))
        return saved + CHECKSUM.pack(crc32(saved))

    def _lists(self) -> Iterator[tuple[int, int, Bucket[Slot]]]:
        """(level, expiration, list): the due list, then the buckets not empty, in ascending order."""
        yield -1, self._levels.time, self._due
        size = self._levels.wheel_size
        for level in self._levels.levels:
            first = level.time // level.span
            for n in range(first, first + size):
                bucket = level.buckets[n % size]
                if bucket:
                    yield level.number, n * level.span, bucket

    @classmethod
    def from_bytes(cls, saved: Any) -> Self:
        """The table that `to_bytes` saved. ValueError: these are not its bytes, or not all, or changed."""
        data = bytes(memoryview(saved))
        size = len(data) - CHECKSUM.size
        if size < HEADER.size or not data.startswith(MAGIC):
            raise ValueError(f"not a TimerTable's bytes: {len(data)} of them, first {data[: len(MAGIC)]!r}")
        _, version, wheel_size, time, used, freed, live, lists = HEADER.unpack_from(data)
        if version != VERSION:
            raise ValueError(f"bytes of a TimerTable must be of version {VERSION}, got {version}")
        if CHECKSUM.unpack_from(data, size)[0] != crc32(memoryview(data)[:size]):
            raise ValueError("bytes of a TimerTable are damaged or cut short: the checksum differs")
        try:
            if wheel_size < 2:
                raise Unfit("its wheel_size is less than 2")
            words = HEADER.size + 4 * (used + freed)
            if not (
                0 <= freed <= used <= size
                and live == used - freed
                and 1 <= lists <= size
                and size == words + 24 * (lists + live)
            ):
                raise Unfit("its counts do not agree with its length")
            table = cls.__new__(cls)
            TimerTable.__init__(table, wheel_size, time)
            generations, stack = array("I", data[HEADER.size : words]), array("q", data[words:size])
            table._load(generations[:used], generations[used:], live, lists, stack)
        except Unfit as fault:
            raise ValueError(f"bytes of a TimerTable do not fit together: {fault}") from None
        return table

    def _load(
        self, generations: array[int], freed: array[int], live: int, lists: int, records: array[int]
    ) -> None:
        """Fill an empty table; after Unfit it is spoilt."""
        if not all(0 < generation <= MAX_GENERATION for generation in generations):
            raise Unfit("a generation is out of range")
        self._generations = generations
        self._slots = [Slot(index) for index in range(len(generations))]
        at, left = 0, live
        for i in range(lists):
            level, expiration, length = records[at : at + 3]
            if not 0 <= length <= left:
                raise Unfit("a list is longer than the timers that are left")
            left -= length
            end = at + 3 + 3 * length
            if i > 0:
                bucket, greatest = self._bucket_to_load(level, expiration, length)
                self._load_list(bucket, expiration, greatest, records[at + 3 : end])
            elif (level, expiration) != (-1, self._levels.time):
                raise Unfit("its due list is missing")
            else:
                self._load_list(self._due, -ALL, self._levels.time, records[at + 3 : end])
            at = end
        if left > 0:
            raise Unfit("its lists are shorter than the number of timers")
        self._freed = freed.tolist()
        seen = set()
        for index in self._freed:
            if index >= len(self._slots) or self._slots[index].is_linked() or index in seen:
                raise Unfit("a freed slot is out of range or named twice")
            seen.add(index)

    def _bucket_to_load(self, number: int, expiration: int, length: int) -> tuple[Bucket[Slot], int]:
        """An empty bucket, now in the heap, and its greatest deadline."""
        levels = self._levels
        while number >= len(levels.levels) and levels.levels[-1].interval < ALL:
            levels.add_level()
        if not 0 <= number < len(levels.levels):
            raise Unfit("a level is out of range")
        level = levels.levels[number]
        if expiration < levels.time or expiration % level.span or expiration - level.time >= level.interval:
            raise Unfit("a bucket is out of range")
        bucket = level.buckets[expiration // level.span % levels.wheel_size]
        if length < 1 or bucket:
            raise Unfit("a bucket is empty or named twice")
        levels.push(bucket, expiration)
        return bucket, expiration + level.span - 1

    def _load_list(self, bucket: Bucket[Slot], least: int, greatest: int, records: array[int]) -> None:
        fields = iter(records)
        for index, deadline, identity in zip(fields, fields, fields, strict=True):
            if not 0 <= index < len(self._slots) or self._slots[index].is_linked():
                raise Unfit("a slot is out of range or named twice")
            if not least <= deadline <= greatest:
                raise Unfit("a deadline lies outside its bucket")
            slot = self._slots[index]
            slot.deadline, slot.id = deadline, identity
            bucket.append(slot)

    def _check(self) -> None:
        """Assert I1 to I5. O(n)."""
        with self._one_call:
            linked = self._levels.check() + self._due.check()
            assert linked == len(self), f"I4: the lists' lengths add up to len: {linked} != {len(self)}"


class Unfit(Exception):
    """Why saved bytes cannot be a table's."""
