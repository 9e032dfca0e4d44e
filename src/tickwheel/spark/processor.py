"""A shard's operator as Spark's StatefulProcessor: its state, and the one timer it registers.

The grouping key is the shard's number. State is a header, checked before anything is trusted, and a map of
segments for each log. A shard that was written by another number of shards must not be read: a key may live
elsewhere now. Every batch with rows looks at shard 0, whose header then tells, whatever else comes.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from tickwheel.spark.shards.packing import from_packs, to_packs
from tickwheel.spark.shards.shard import NEVER_US, Operator, Progress, advance

STATE_VERSION = 1
HEADER = "version int, n_shards int, settings string, decided_us bigint, next_us bigint"
US_PER_MS = 1000


class ShardProcessor(StatefulProcessor):
    """Plays the batches of each of `n_shards` shards through the operator. In: packs; out: packs.

    `columns` describes the rows in the packs; it must not change while there is state.
    """

    def __init__(self, operator: Operator, n_shards: int, columns: str) -> None:
        self._operator = operator
        # What state must have been written with to be read.
        self._written_with = {
            "version": STATE_VERSION,
            "n_shards": n_shards,
            "settings": f"{operator.settings}; rows of {columns}",
        }

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._header = handle.getValueState("header", HEADER)
        self._stores = {
            log: SegmentMap(handle.getMapState(log, "number bigint", "data binary"))
            for log in self._operator.logs
        }

    def handleInputRows(
        self, key: Any, rows: Iterable[Any], timerValues: TimerValues
    ) -> Iterator[Any]:
        packs = [pack for frame in rows for pack in frame["rows"]]
        return self._advance(key[0], from_packs(packs), timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Any]:
        # Spark itself deletes the timer afterwards; one for the same instant must not be registered again.
        return self._advance(key[0], None, timerValues, expiredTimerInfo.getExpiryTimeInMs())

    def close(self) -> None:
        """Nothing is open."""

    def _advance(
        self, shard: int, new: Any, timer_values: TimerValues, expired_ms: int | None = None
    ) -> Iterator[Any]:
        watermark_ms = timer_values.getCurrentWatermarkInMs()
        before = self._progress(shard)
        # Before the first event Spark says 0, which may well be later than the events.
        watermark_us = watermark_ms * US_PER_MS if watermark_ms > 0 else NEVER_US
        # A shard that nothing happens to may have decided less: what is late must not depend on that.
        if new is not None:
            new = new.filter(pc.greater(new["at_us"], watermark_us))
        try:
            output, after = advance(self._operator, self._stores, before, new, watermark_us)
        except ValueError as error:
            raise ValueError(f"the state of shard {shard}: {error}") from None
        self._set_timer(timer_ms(before), timer_ms(after), expired_ms)
        self._header.update((*self._written_with.values(), after.decided_us, after.next_us))
        if output is not None and output.num_rows:
            yield pd.DataFrame({"shard": shard, "rows": to_packs(output)})

    def _progress(self, shard: int) -> Progress:
        header = self._header.get()
        if header is None:
            return Progress()
        *written_with, decided_us, next_us = header
        for (name, asked), stored in zip(self._written_with.items(), written_with, strict=True):
            if stored != asked:
                raise ValueError(
                    f"{name} must be {stored}, with which the checkpoint was written (shard {shard}), "
                    f"got {asked}: use that or a new checkpoint"
                )
        return Progress(decided_us, next_us)

    def _set_timer(self, before_ms: int | None, after_ms: int | None, expired_ms: int | None) -> None:
        if before_ms == after_ms:
            return
        if before_ms is not None and before_ms != expired_ms:
            self._handle.deleteTimer(before_ms)
        if after_ms is not None:
            self._handle.registerTimer(after_ms)


class SegmentMap:
    """A map state as a `Store` of segments."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def items(self) -> Iterator[tuple[int, bytes]]:
        return ((number, data) for (number,), (data,) in self._state.iterator())

    def put(self, number: int, data: bytes) -> None:
        self._state.updateValue((number,), (data,))

    def remove(self, number: int) -> None:
        self._state.removeKey((number,))


def timer_ms(progress: Progress) -> int | None:
    """The instant of the shard's timer, rounded up to Spark's whole milliseconds. After the epoch, where
    Spark's watermark begins: a timer before it would never fire."""
    return None if progress.next_us is None else max(1, -(-progress.next_us // US_PER_MS))
