"""What the tests of the shards' operators share: stores that count, fickle logs, random batches."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from tickwheel.spark.shards import segments
from tickwheel.spark.shards.shard import NEVER_US, Progress, advance

KEYS = {"strings": "key-{}".format, "ints": int, "bytes": lambda k: bytes([k, 255])}


def us(instant):
    """An instant that came out, in microseconds."""
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class Disk(dict):
    """A store of segments, counting the bytes that are put."""

    put_bytes = 0

    def put(self, number, data):
        assert number not in self, "a segment is written once"
        self[number] = bytes(data)
        self.put_bytes += len(data)

    def remove(self, number):
        del self[number]


class Shard:
    """An operator on stores, where cleaning happens after few rows, and what it has given out."""

    def __init__(self, operator, segment_rows=segments.SEGMENT_ROWS, most_loose=segments.MOST_LOOSE):
        self.logs, self.settings = operator.logs, operator.settings
        self._operator = operator
        self.stores = {log: Disk() for log in operator.logs}
        self.sizes = segment_rows, most_loose
        self.progress = Progress()
        self.output = []

    def play(self, rows, watermark_us):
        """One batch; the rows it gave out."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(segments, "SEGMENT_ROWS", self.sizes[0])
            patch.setattr(segments, "MOST_LOOSE", self.sizes[1])
            output, after = advance(self, self.stores, self.progress, rows, watermark_us)
        assert after.decided_us == max(self.progress.decided_us, watermark_us)
        assert after.next_us is None or after.next_us > after.decided_us, "a timer that is over already spins"
        self.progress = after
        given = [] if output is None else output.to_pylist()
        self.output += given
        return given

    def step(self, stored, new, since_us, until_us):
        step = self._operator.step(stored, new, since_us, until_us)
        assert step.wanted.keys() == stored.keys()
        for log, mask in step.wanted.items():
            assert len(mask) == stored[log].num_rows
        self.wanted = Counter({log: int(mask.sum()) for log, mask in step.wanted.items()})
        self.wanted.update({log: rows.num_rows for log, rows in step.added.items()})
        return step

    def stored(self):
        """The rows in each log."""
        return {
            log: sum(segments.decode(data).num_rows for data in disk.values())
            for log, disk in self.stores.items()
        }

    def check_bounds(self):
        rows, loose = self.sizes
        for log, stored in self.stored().items():
            assert stored <= 2 * self.wanted[log] + rows * loose

    def put_bytes(self):
        return sum(disk.put_bytes for disk in self.stores.values())


class Fickle:
    """An operator on logs without order, in which a row that is not wanted is kept or not as a coin falls."""

    def __init__(self, operator, seed):
        self._operator = operator
        self._coin = random.Random(seed)
        self._logs = {}
        self._since = NEVER_US
        self.output = []

    def play(self, rows, watermark_us):
        until = max(self._since, watermark_us)
        if rows is not None:
            rows = rows.filter([at > self._since for at in rows["at_us"].to_pylist()])
        if self._logs or (rows is not None and rows.num_rows):
            step = self._operator.step(self._logs, rows, self._since, until)
            kept = {}
            for log in self._operator.logs:
                parts = []
                if log in self._logs and (mask := step.wanted[log]).any():
                    stays = [bool(one) or self._coin.random() < 0.5 for one in mask]
                    stayed = self._logs[log].filter(stays)
                    order = list(range(stayed.num_rows))
                    self._coin.shuffle(order)
                    parts.append(stayed.take(pa.array(order, pa.int64())))
                if log in step.added:
                    parts.append(step.added[log])
                rows_of = sum(part.num_rows for part in parts)
                if rows_of:
                    kept[log] = pa.concat_tables(parts)
            self._logs = kept
            self.output += [] if step.output is None else step.output.to_pylist()
        self._since = until


@st.composite
def streams(draw, row, most_batches=10):
    """Batches of rows, each with the watermark after it: [([(at, ...), ...], watermark), ...].

    `row`: a strategy of tuples, of which the first is the time as an offset from the watermark before; at or
    below 0 it is late.
    """
    watermark = draw(st.integers(-5, 5))
    batches = [([], NEVER_US)] if draw(st.booleans()) else []
    for offsets, step in draw(
        st.lists(
            st.tuples(st.lists(row, max_size=8), st.sampled_from([0, 0, 1, 2, 3, 5, 8, 13, 30])),
            min_size=1, max_size=most_batches,
        )
    ):
        rows = [(watermark + offset, *rest) for offset, *rest in offsets]
        watermark += step
        batches.append((rows, watermark))
    return batches


def accepted(batches):
    """After each batch: all rows so far that were not late, and the watermark."""
    rows, watermark = [], NEVER_US
    for batch, after in batches:
        rows += [row for row in batch if row[0] > watermark]
        watermark = max(watermark, after)
        yield list(rows), watermark


SIZES = st.tuples(st.sampled_from([2, 4, 8, 2048]), st.sampled_from([1, 2, 5]))
