"""The hierarchical timing wheel over nodes, in plain Python: what `_bucket.pxd`,
`_bucketheap.pxd` and `_levels.pxd` do, with the same results.

Level 0 has one bucket a tick; a bucket of level k spans a whole turn of level k - 1.
A node goes into the lowest level whose turn, counted from that level's time, reaches
its deadline. When a coarse bucket expires its nodes cascade: they are put in anew, lower
down. Levels are added on demand. Ticks may be negative; division rounds down throughout.

    I1  a bucket is in the heap once iff its expiration is set
    I2  expiration <= deadline < expiration + span
    I3  each level's time is a multiple of its span
    I5  links are mutual
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar


def check_size(wheel_size: int) -> None:
    if wheel_size > MAX_WHEEL_SIZE:
        raise MemoryError(f"no memory for a wheel of {wheel_size} buckets")


class Node:
    """A member of one bucket at most. Off every list its links are None."""

    __slots__ = ("deadline", "next", "prev")

    prev: Any  # a node; not said so, since a cast costs a call
    next: Any
    deadline: int  # tick

    def __init__(self, deadline: int = 0) -> None:
        self.prev = self.next = None
        self.deadline = deadline

    def is_linked(self) -> bool:
        return self.next is not None

    def unlink(self) -> None:
        """Take the node off its list. O(1)."""
        before, after = self.prev, self.next
        before.next = after
        after.prev = before
        self.prev = self.next = None


N = TypeVar("N", bound=Node)
MAX_WHEEL_SIZE = 2**28  # more would end the process before it ends the list


class Bucket(Node, Generic[N]):
    """A cyclic list of nodes, itself the sentinel: `next` is the first, `prev` the last."""

    __slots__ = ("expiration", "level")

    expiration: int | None  # tick; None while the bucket is not in the heap (I1)

    def __init__(self, level: int = 0) -> None:
        self.prev = self.next = self
        self.deadline = 0
        self.expiration = None
        self.level = level

    def __bool__(self) -> bool:
        return self.next is not self

    def __iter__(self) -> Iterator[N]:
        """The nodes in order; the one just yielded may be unlinked."""
        node = self.next
        while node is not self:
            after = node.next
            yield node
            node = after

    def empty(self) -> None:
        """Forget all nodes; their links stay as they are."""
        self.prev = self.next = self

    def append(self, node: N) -> None:
        last = self.prev
        node.prev = last
        node.next = self
        last.next = node
        self.prev = node

    def take_all(self, source: Bucket[N]) -> None:
        """Append all of `source` in its order; `source` is empty afterwards. O(1)."""
        first, last = source.next, source.prev
        if first is source:
            return
        first.prev = self.prev
        self.prev.next = first
        last.next = self
        self.prev = last
        source.prev = source.next = source

    def check(self) -> int:
        """Assert that the links are mutual (I5); the list's length."""
        length = 0
        node: Node = self
        while True:
            assert node.next is not None, "I5: links are mutual"
            assert node.next.prev is node, "I5: links are mutual"
            node = node.next
            if node is self:
                return length
            length += 1


class Level(Generic[N]):
    """One wheel: a ring of buckets."""

    __slots__ = ("buckets", "interval", "number", "span", "time")

    def __init__(self, number: int, span: int, wheel_size: int, now: int) -> None:
        self.number = number
        self.span = span  # ticks a bucket
        self.interval = span * wheel_size  # ticks a turn
        self.time = now - now % span  # tick; a multiple of span (I3)
        self.buckets: list[Bucket[N]] = [Bucket(number) for _ in range(wheel_size)]


class Levels(Generic[N]):
    """The hierarchy. Knows ticks; calls nothing."""

    __slots__ = ("cascades", "heap", "last_wakeup", "levels", "time", "wakeups", "wheel_size")

    def __init__(self, wheel_size: int, time: int) -> None:
        check_size(wheel_size)
        self.time = time  # the current tick
        self.wheel_size = wheel_size
        self.levels: list[Level[N]] = [Level(0, 1, wheel_size, time)]
        # (expiration, -level, bucket): unique in its first two, so buckets are never compared. Of two
        # that expire at one tick the coarser is first.
        self.heap: list[tuple[int, int, Bucket[N]]] = []
        self.wakeups = 0  # instants at which a non-empty bucket expired
        self.cascades = 0  # nodes put in anew because a coarse bucket expired
        self.last_wakeup: int | None = None

    def empty(self) -> None:
        """Forget all nodes, wherever they were; the clock and the counts stay."""
        self.heap.clear()
        for level in self.levels:
            for bucket in level.buckets:
                bucket.empty()
                bucket.expiration = None
            level.time = self.time - self.time % level.span

    def nodes(self) -> Iterator[N]:
        """All of them, in no order. O(n + non-empty buckets)."""
        for _, _, bucket in self.heap:
            yield from bucket

    def insert(self, node: N) -> int | None:
        """Link `node` by its deadline: its bucket's expiration. None: due, and not linked. O(levels)."""
        deadline = node.deadline
        if deadline <= self.time:
            return None
        for level in self.levels:
            if deadline - level.time < level.interval:
                break
        else:
            level = self.add_level()
            while deadline - level.time >= level.interval:
                level = self.add_level()
        quotient = deadline // level.span
        bucket = level.buckets[quotient % self.wheel_size]
        last = bucket.prev  # bucket.append, by hand
        node.prev = last
        node.next = bucket
        last.next = node
        bucket.prev = node
        expiration = bucket.expiration
        if expiration is None:
            expiration = quotient * level.span
            self.push(bucket, expiration)
        return expiration

    def push(self, bucket: Bucket[N], expiration: int) -> None:
        """Set the bucket's expiration and put it into the heap. It must not be in (I1). O(log buckets)."""
        bucket.expiration = expiration
        heappush(self.heap, (expiration, -bucket.level, bucket))

    def add_level(self) -> Level[N]:
        """Add the next coarser wheel."""
        level: Level[N] = Level(len(self.levels), self.levels[-1].interval, self.wheel_size, self.time)
        self.levels.append(level)
        return level

    def set_time(self, tick: int) -> None:
        """Move the clock to `tick`; no bucket may expire between. O(levels that turn)."""
        self.time = tick
        for level in self.levels:
            # The spans divide each other: where one level stays, the coarser ones do.
            if tick - level.time < level.span:
                break
            level.time = tick - tick % level.span

    def next_expiration(self) -> int | None:
        """When the next non-empty bucket expires. Drops those that cancellations emptied on the way."""
        heap = self.heap
        while heap:
            expiration, _, bucket = heap[0]
            if bucket.next is not bucket:
                return expiration
            bucket.expiration = None
            heappop(heap)
        return None

    def advance(self, now: int, due: Bucket[N], budget: int) -> int:
        """Move the clock towards `now` and the nodes that come due to the end of `due`, in ascending
        order of their ticks. Returns the part of the budget that is left.

        At most `budget` nodes are touched (made due or cascaded): 0 left means that there may be
        more, and the clock stands at the bucket that is not finished. An earlier `now` changes nothing (R6).
        """
        heap = self.heap
        while heap and heap[0][0] <= now:
            tick, _, bucket = heap[0]
            if bucket.next is bucket:
                bucket.expiration = None
                heappop(heap)
                continue
            if budget <= 0:
                return 0
            if tick > self.time:
                self.set_time(tick)
            if tick != self.last_wakeup:
                self.last_wakeup = tick
                self.wakeups += 1
            budget = self._expire(bucket, tick, due, budget)
            if bucket.next is bucket:
                # Still the first: what cascades goes to later ticks.
                bucket.expiration = None
                heappop(heap)
        if now > self.time:
            self.set_time(now)
        return budget

    def _expire(self, bucket: Bucket[N], tick: int, due: Bucket[N], budget: int) -> int:
        if bucket.level == 0:  # all are due: moved as one chain
            first = last = bucket.next
            budget -= 1
            while budget > 0 and last.next is not bucket:
                last = last.next
                budget -= 1
            bucket.next = last.next
            last.next.prev = bucket
            first.prev = due.prev
            due.prev.next = first
            last.next = due
            due.prev = last
            return budget
        while budget > 0 and bucket.next is not bucket:
            node = bucket.next
            bucket.next = node.next
            node.next.prev = bucket
            budget -= 1
            if node.deadline > tick:
                self.cascades += 1
                self.insert(node)
            else:
                due.append(node)
        return budget

    def check(self) -> int:
        """Assert that the levels are whole; the nodes on all lists, for I4. O(n)."""
        heap = self.heap
        held = {id(bucket) for _, _, bucket in heap}
        assert len(held) == len(heap), "I1: a bucket is in the heap once"
        most = len(self.levels) * self.wheel_size
        assert len(heap) <= most, "I1: the heap holds no more buckets than there are"
        for i, (expiration, _, bucket) in enumerate(heap):
            assert i == 0 or heap[(i - 1) >> 1] < heap[i], "I1: a bucket in the heap expires after its parent"
            assert bucket.expiration == expiration, "I1: a bucket in the heap has its expiration set"
        length = 0
        for level in self.levels:
            assert level.time == self.time - self.time % level.span, (
                f"I3: each level's time is a multiple of its span, the last one that has come: {level.time}"
            )
            for slot, bucket in enumerate(level.buckets):
                count = bucket.check()
                if id(bucket) in held:
                    self._check_deadlines(level, slot, bucket)
                else:
                    assert bucket.expiration is None, "I1: a bucket whose expiration is set is in the heap"
                    assert count == 0, "I1: a bucket that is not empty has its expiration set"
                length += count
        return length

    def _check_deadlines(self, level: Level[N], slot: int, bucket: Bucket[N]) -> None:
        start, span = bucket.expiration, level.span
        assert start is not None
        assert (start % span, start // span % self.wheel_size) == (0, slot), (
            f"I2: a bucket's expiration is the start of its span: {start}"
        )
        for node in bucket:
            assert start <= node.deadline < start + span, (
                f"I2: expiration <= deadline < expiration + span: {start} <= {node.deadline} < {start + span}"
            )
