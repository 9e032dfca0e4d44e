"""What shards of segments are compared with: a state and a timer for each client, and shards of one value."""
from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
    ValueState,
)

from tickwheel.spark.processor import SegmentMap, ShardProcessor

FOUND = "client string, first_ms bigint, last_ms bigint, idle_ms bigint"


class ClientTimer(StatefulProcessor):
    """The guide's way: each client has a state, and a timer that its messages move.

    It knows the instant of its timer, so it need not ask for the list of them as the guide does. Rows as
    `Row`, with times in whole milliseconds; the messages of one batch are put in order, later ones are not.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._seen = handle.getValueState("seen", "first_ms bigint, last_ms bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        times = sorted(row.at_ms for row in rows)
        seen = self._seen.get()
        first, last = seen or (times[0], times[0])
        for at in times:
            # The timer that was due in between has not fired yet, and will not: it is moved.
            if at - last >= self._timeout_ms:
                yield self._idle(key, first, last)
                first = at
            last = at
        if seen:
            self._handle.deleteTimer(seen[1] + self._timeout_ms)
        self._seen.update((first, last))
        self._handle.registerTimer(last + self._timeout_ms)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        yield self._idle(key, *self._seen.get())
        self._seen.clear()

    def close(self) -> None:
        """Nothing is open."""

    def _idle(self, key: Any, first_ms: int, last_ms: int) -> Row:
        return Row(client=key[0], first_ms=first_ms, last_ms=last_ms, idle_ms=last_ms + self._timeout_ms)


class OneValue(ShardProcessor):
    """A shard's segments in one value of state, which every change writes anew."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self._values = {
            log: ValueMap(handle.getValueState(f"{log}_value", "data binary")) for log in self._stores
        }
        self._stores.update(self._values)

    def _advance(self, *batch: Any) -> Iterator[Any]:
        yield from super()._advance(*batch)
        for value in self._values.values():
            value.flush()


class ValueMap(SegmentMap):
    """The map in a value."""

    def __init__(self, state: ValueState) -> None:
        self._state = state
        self._segments: dict[int, bytes] = {}
        self._changed = False

    def items(self) -> Iterator[tuple[int, bytes]]:
        stored = self._state.get()
        self._segments = pickle.loads(stored[0]) if stored else {}
        return iter(self._segments.items())

    def put(self, number: int, data: bytes) -> None:
        self._segments[number] = data
        self._changed = True

    def remove(self, number: int) -> None:
        del self._segments[number]
        self._changed = True

    def flush(self) -> None:
        """Write what has changed since `items`."""
        if self._changed:
            self._state.update((pickle.dumps(self._segments),))
            self._changed = False
