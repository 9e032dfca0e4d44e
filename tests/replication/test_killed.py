"""`kill -9` in mid-append: what was acknowledged is there again, and what is torn is not."""

import os
import subprocess
import sys
import time
from pathlib import Path

import killed_producer
import pytest
from killed_producer import SETTINGS, value
from kio.records.readers import read_batch

import tickwheel
from tickwheel.replication.follower import Follower
from tickwheel.replication.replicas import ReplicaManager

HANG_S = 120


def produce_and_kill(data, lines):
    """Let a process append until it has said so many lines, then kill it: all that it said."""
    path = [str(Path(killed_producer.__file__).parent), str(Path(tickwheel.__file__).parent.parent)]
    with subprocess.Popen(
        [sys.executable, killed_producer.__file__, str(data)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")])},
        stdout=subprocess.PIPE,
    ) as process:
        said = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        said += process.stdout.readlines()
    assert b"" not in said, "it ended by itself"
    return [tuple(map(int, line.split())) for line in said if line.endswith(b"\n")]


def values_in(log):
    """What kio reads in a whole log: {offset: value}."""
    found, offset = {}, log.start_offset
    while offset < log.end_offset:
        data, position = log.read(offset, 1 << 20), 0
        while position < len(data):
            read, size = read_batch(data, position)
            found |= {record.offset: record.value for record in read.records}
            position += size
        offset = max(found) + 1
    return found


def tear(data, rng):
    """Leave the start of a batch at the end of each log, as a write that came no further does."""
    for folder in data.glob("replica-*/*"):
        first, last = min(folder.glob("*.log")), max(folder.glob("*.log"))
        with last.open("ab") as file:
            file.write(first.read_bytes()[: rng.randrange(1, 60)])


def wait_for(what):
    """Until it is so; that it never becomes so is a failure."""
    until = time.monotonic() + HANG_S
    while not what():
        assert time.monotonic() < until, "the followers do not catch up"
        time.sleep(0.01)


def check(data, acknowledged):
    with ReplicaManager(data, **SETTINGS) as manager:
        partitions = manager.topics()["events"]
        for partition in partitions:
            promised = {at: number for name, at, number in acknowledged if name == partition.name.number}
            for id in partition.isr:
                there = values_in(partition._replicas[id].log)
                lost = [offset for offset in promised if there.get(offset) != value(promised[offset])]
                assert not lost, f"{partition.name} on {id} has lost {lost}"
            for id, replica in partition._replicas.items():
                files = data.glob(f"replica-{id}/{partition.name}/*.log")
                assert sum(path.stat().st_size for path in files) == replica.log.size, "what is torn is gone"
        followers = [Follower(manager, id) for id in range(SETTINGS["replicas"])]
        try:
            for partition in partitions:
                check_agreement(partition)
        finally:
            for follower in followers:
                follower.stop()


def check_agreement(partition):
    """All replicas get in sync, and have the same."""
    replicas = partition._replicas.values()
    wait_for(lambda: len(partition.isr) == SETTINGS["replicas"])
    wait_for(lambda: len({replica.log.end_offset for replica in replicas}) == 1)
    first, *others = (values_in(replica.log) for replica in replicas)
    assert all(other == first for other in others)
    wait_for(lambda: partition._replicas[partition.leader].high_watermark == len(first))


@pytest.mark.skipif(sys.platform == "win32", reason="a process that is killed there may still have its files")
def test_what_was_acknowledged_survives_a_kill(tmp_path, rng, soak):
    """Each record acknowledged with acks=all is there after `kill -9` in mid-append, at its offset, with its
    content, in each replica in sync; torn batches are gone; and all replicas agree once they have caught up.
    The same data is killed again and again, at times with a torn tail on top.
    """
    acknowledged = []
    for kill in range(20 if soak else 3):
        acknowledged += produce_and_kill(tmp_path, rng.randrange(1, 100))
        if kill % 2:
            tear(tmp_path, rng)
        check(tmp_path, acknowledged)
