"""A process that appends with acks=all as fast as it can, and says what was acknowledged: until it is killed.

Each line on stdout: partition, offset and number of a record; `value(number)` is what is in it.
"""

import itertools
import os
import random
import sys
import threading
from pathlib import Path

from batchmaker import batch

from tickwheel.replication.follower import Follower
from tickwheel.replication.partition import TopicPartition
from tickwheel.replication.replicas import ReplicaManager

PARTITIONS = 2
UNDER_WAY = 4
SETTINGS = {"replicas": 3, "min_isr": 2, "segment_bytes": 1 << 20}


def value(number):
    chance = random.Random(number)
    return chance.randbytes(chance.choice([10, 1000, 200_000]))


def run(data):
    manager = ReplicaManager(data, **SETTINGS)
    if not manager.topics():
        manager.create_topic("events", PARTITIONS)
    followers = [Follower(manager, id) for id in range(3)]  # noqa: F841
    numbers = itertools.count(random.getrandbits(60))
    free = threading.Semaphore(UNDER_WAY)
    while True:
        free.acquire()
        runs = {
            TopicPartition("events", partition): list(itertools.islice(numbers, 3))
            for partition in range(PARTITIONS)
        }

        def done(answers, runs=runs):
            lines = [
                f"{name.number} {answers[name].base_offset + at} {number}\n"
                for name, run in runs.items()
                for at, number in enumerate(run)
            ]
            os.write(1, "".join(lines).encode())
            free.release()

        manager.append(
            {name: batch(value(run[0]), value(run[1])) + batch(value(run[2])) for name, run in runs.items()},
            -1,
            60.0,
            done,
        )


if __name__ == "__main__":
    run(Path(sys.argv[1]))
