"""Witness: what has been promised of a log, and whether it is kept."""

import itertools
import re

from batchmaker import batch

from tickwheel.replication.batches import cut

_VALUE = re.compile(rb"<\d{9}>")


class Witness:
    """Makes records that are told apart, and notes which offset is promised to which, for ever.

    A record is promised when it was acknowledged with acks=all, and when a consumer has read it.
    """

    def __init__(self):
        self._numbers = itertools.count()
        self.promised = {}  # by partition: {offset: value}

    def records(self, batches=1, each=1, padding=0):
        """A run of batches, and the values in it."""
        values = [b"<%09d>" % next(self._numbers) for _ in range(batches * each)]
        padded = [value + b"." * padding for value in values]
        runs = (padded[i : i + each] for i in range(0, len(values), each))
        return b"".join(batch(*run) for run in runs), values

    def promise(self, name, base_offset, values):
        promised = self.promised.setdefault(name, {})
        for offset, value in enumerate(values, base_offset):
            assert promised.setdefault(offset, value) == value, f"{name} has another record at {offset}"

    def read(self, name, data):
        """A consumer has read this: it is promised from now on, and contradicts no promise."""
        for offset, values in contents(data):
            self.promise(name, offset, values)

    def check(self, name, log, who):
        """All that is promised is in this log."""
        promised = self.promised.get(name, {})
        if promised:
            assert max(promised) < log.end_offset, (
                f"{who} ends at {log.end_offset}, {max(promised)} is promised"
            )
        there = values_in(log)
        lost = {offset: value for offset, value in promised.items() if there[offset] != value}
        assert not lost, f"{who} has lost {lost}"


def contents(data):
    """Each batch of a run: its base offset and its values."""
    found = []
    for one in cut(data):
        values = _VALUE.findall(data[one.start : one.start + one.size])
        assert len(values) == one.records
        found.append((one.base_offset, values))
    return found


def values_in(log):
    """All values of a log, in order of their offsets: all of them, from 0 on."""
    values = []
    while len(values) < log.end_offset:
        for base_offset, more in contents(log.read(len(values), 1 << 20)):
            assert base_offset == len(values)
            values += more
    return values


def batches_in(log):
    """Each batch of a log, as bytes, by its leader epoch and base offset."""
    found, offset = {}, log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20)
        for one in cut(data):
            found[one.leader_epoch, one.base_offset] = data[one.start : one.start + one.size]
            offset = one.end_offset
    return found
