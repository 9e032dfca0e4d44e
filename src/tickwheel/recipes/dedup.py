"""Deduplicator: what comes more than once passes once in a window. See docs/dedup.md."""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Hashable, Iterable, Iterator
from typing import NoReturn, TypeVar

from tickwheel._core import TimerTask
from tickwheel.closing import Closing
from tickwheel.log import logger
from tickwheel.recipes.arguments import check_hashable, check_timer, seconds
from tickwheel.timer import Timer

__all__ = ["Deduplicator"]

T = TypeVar("T")
Entry = tuple[float, Hashable]  # until when its key is a repeat, and the key

CHUNK = 1024  # entries freed in one go: as long as the lock, or a loop, is held for it
WAKEUPS = 64  # of the freeing task in a window, at most, unless it is behind


class Deduplicator(Closing):
    """Says whether a key comes for the first time in `window` seconds, and forgets it when they are over.

    window   seconds, > 0: an accepted key is a repeat until `accepted + window`, when it passes again
    timer    whose clock it goes by and who frees what has expired; None for one of its own, which it closes

    >>> with Deduplicator(10.0) as orders:
    ...     [orders.first_seen("order-1"), orders.first_seen("order-1")]
    [True, False]

    From any thread. Memory is bounded by the window: what was accepted in the last 1 + 2/64 windows.

    A key's `__hash__` and `__eq__` may raise, let other threads run, and use the deduplicator for other
    keys. Two that must hold for Python's dictionaries must hold here: equal keys have equal hashes, for good;
    and where an `__eq__` runs Python code, unequal keys have unequal hashes, or threads may each put one in.
    """

    # What must hold:
    # 1. `setdefault` puts a *claim* in for an absent key, without a lock: whose claim is then in the map was
    #    first. A claim refuses everybody else and is its caller's: nobody else replaces or removes it.
    # 2. The clock is read when the claim is in, and the entry with its stamp takes the claim's place. So no
    #    entry is older than what was freed before it came, however long a thread is held up between the two.
    # 3. All else that changes the map holds the lock. The queue is in the order of expiry, but for threads
    #    that overtook each other: what is hidden behind a later one is freed late.
    # 4. `_late` is when freeing is overdue; -inf: nothing is armed. A sweep first sets it to -inf, then looks
    #    whether the queue is empty; who accepts first appends, then looks at `_late`: one of the two sees the
    #    other, and arms. Both go through the queue's own lock, which orders them without a GIL too.
    # 5. Who accepts while freeing is overdue frees a chunk itself: memory is bounded whatever the timer
    #    does, and a timer that was closed is found out.

    def __init__(self, window: float, *, timer: Timer | None = None) -> None:
        self._window = seconds(window, "window")
        check_timer(timer)
        self._pause = self._window / WAKEUPS
        self._owns_timer = timer is None
        self.timer = Timer(name="deduplicator") if timer is None else timer
        self._time = self.timer.time
        self._seen: dict[Hashable, Entry] = {}
        self._queue: deque[Entry] = deque()  # by expiry, but for threads that overtook others
        self._lock = threading.RLock()  # re-entered by destructors, signal handlers, keys' own code
        self._late = -math.inf
        self._task: TimerTask | None = None
        self._weak = weakref.ref(self)
        self._closed = False
        _deduplicators.add(self)

    def first_seen(self, key: Hashable) -> bool:
        """Whether `key` was not accepted within the window before now; it is accepted by that.

        Exactly one True for a key and window, however many threads ask. O(1), without a lock but when a key
        comes again after its window or freeing is behind. TypeError: `key` is not hashable. RuntimeError: it
        is closed, or its timer is, or full (`TooManyPending`). On an error nothing was accepted.
        """
        if self._closed:
            self._check_open()
        entry = claim = (math.inf, key)
        try:
            found = self._seen.setdefault(key, claim)
            now = self._time()
            if found is not claim:
                return found[0] <= now and self._again(key) is not None
            entry = (now + self._window, key)
            self._seen[key] = entry
            self._queue.append(entry)
            return now < self._late or self._settle()
        except BaseException:
            self._withdraw((claim, entry))
            check_hashable(key)
            raise

    def first_seen_many(self, keys: Iterable[Hashable]) -> list[bool]:
        """`first_seen` of each, at one time: the clock is read once. A repeat within `keys` is a repeat.

        On an error none of them is accepted. Costs less than one by one.
        """
        keys = list(keys)
        if self._closed:
            self._check_open()
        claims: list[Entry] = [(math.inf, key) for key in keys]
        entries: list[Entry] = []
        answers = []
        seen, queue = self._seen, self._queue
        try:
            found = list(map(seen.setdefault, keys, claims))
            now = self._time()
            until = now + self._window
            for key, claim, there in zip(keys, claims, found, strict=True):
                entry: Entry | None = None
                if there is claim:
                    entry = (until, key)
                    entries.append(entry)
                    seen[key] = entry
                    queue.append(entry)
                elif there[0] <= now:
                    entry = self._again(key)
                    if entry is not None:
                        entries.append(entry)
                answers.append(entry is not None)
            if entries and not now < self._late:
                self._settle()
        except BaseException:
            self._withdraw((*claims, *entries))
            for key in keys:
                check_hashable(key)
            raise
        return answers

    def unique(self, items: Iterable[T], key: Callable[[T], Hashable] | None = None) -> Iterator[T]:
        """The items that are seen for the first time, by `key(item)`, as they come."""
        for item in items:
            if self.first_seen(item if key is None else key(item)):
                yield item

    async def unique_async(
        self, items: AsyncIterable[T], key: Callable[[T], Hashable] | None = None
    ) -> AsyncIterator[T]:
        """The same of an asynchronous stream."""
        async for item in items:
            if self.first_seen(item if key is None else key(item)):
                yield item

    def forget(self, key: Hashable) -> bool:
        """Let `key` pass again, since the work on it failed. True: it would have been a repeat until now."""
        with self._lock:
            self._check_open()
            check_hashable(key)  # an empty dictionary does not ask
            found = self._seen.get(key)
            if found is None or found[0] == math.inf:  # a claim: nobody was told yet that it passed
                return False
            self._seen.pop(key, None)  # its entry in the queue stays there until its time
            return found[0] > self._time()

    def close(self) -> None:
        """Forget everything, and refuse what comes. From any thread, any number of times."""
        with self._lock:
            self._closed = True
            self._late = -math.inf  # whoever is about to accept settles, and is refused
            task, self._task = self._task, None
            # Released when the lock is: destructors of keys run.
            held = self._seen, self._queue
            self._seen, self._queue = {}, deque()
        del held
        if task is not None:
            task.cancel()
        if self._owns_timer:
            self.timer.close()

    def __len__(self) -> int:
        """How many keys are held, with those that have expired and are not freed yet."""
        return len(self._seen)

    def __bool__(self) -> bool:
        """True, also while it holds nothing."""
        return True

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot copy or pickle {self!r}: it has a timer")

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self)} held"
        return f"<Deduplicator of {self._window:g} s: {state}>"

    def _again(self, key: Hashable) -> Entry | None:
        """The entry of a key that comes again after its window; None: another was first."""
        with self._lock:
            now = self._time()
            entry = (now + self._window, key)
            found = self._seen.setdefault(key, entry)
            if found is not entry:
                if found[0] > now:
                    return None
                self._seen[key] = entry
            try:
                self._queue.append(entry)
                if not now < self._late:
                    self._settle()
            except BaseException:
                self._withdraw((entry,))
                raise
            return entry

    def _settle(self) -> bool:
        """Called by who accepted when nothing was armed, or freeing is overdue."""
        with self._lock:
            self._check_open()
            if not self._time() < self._late:
                self._sweep()
            return True

    def _withdraw(self, entries: Iterable[Entry]) -> None:
        """Take back what a call that failed has put into the map."""
        with self._lock:
            for entry in entries:
                key = entry[1]
                try:
                    if self._seen.get(key) is entry:
                        self._seen.pop(key, None)
                except Exception:
                    pass  # a key that cannot be looked up did not get in

    def _sweep(self) -> None:
        """Free a chunk of what has expired, and arm for the rest. With the lock held."""
        now = self._time()
        seen, queue = self._seen, self._queue
        try:
            for _ in range(min(CHUNK, len(queue))):
                # Taken out before it is looked at: code that runs between the two may sweep as well.
                entry = queue.popleft()
                if entry[0] > now:
                    queue.appendleft(entry)
                    break
                key = entry[1]
                try:
                    if seen.get(key) is entry:  # the key has not come again since
                        seen.pop(key, None)
                except Exception:
                    logger().exception("a key that cannot be looked up is held until close")
        finally:
            self._arm(now)

    def _arm(self, now: float) -> None:
        """See to it that the front of the queue is freed in time. With the lock held."""
        self._late = -math.inf  # before the look at the queue
        task = self._task
        try:
            front = self._queue[0][0]
        except IndexError:
            if task is not None:
                task.cancel()
            return
        when = front if front <= now else max(front, now + self._pause)
        # Moved if it is pending, as it is for who frees in its stead: a full timer refuses no move.
        if task is None or not task.reschedule(max(0.0, when - now)):
            self._task = self.timer.schedule_at(when, _free, self._weak)
        self._late = front + 2 * self._pause

    def _check_open(self) -> None:
        if self._closed:
            # What somebody put there who was on the way in when it was closed.
            self._seen.clear()
            self._queue.clear()
            raise RuntimeError("the deduplicator is closed")


def _free(weak: weakref.ref[Deduplicator]) -> None:
    """The timer's callback. It does not keep its deduplicator alive."""
    dedup = weak()
    if dedup is None:
        return
    with dedup._lock:
        try:
            dedup._sweep()
        except RuntimeError:
            pass  # the timer takes no more tasks: the next key that is accepted finds out


_deduplicators: weakref.WeakSet[Deduplicator] = weakref.WeakSet()


def _after_fork() -> None:
    """In a child: the timer is stopped, which the next key finds out, and the lock may be held for ever."""
    for dedup in list(_deduplicators):
        dedup._lock = threading.RLock()
        dedup._seen, dedup._queue = {}, deque()
        dedup._late = -math.inf


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
