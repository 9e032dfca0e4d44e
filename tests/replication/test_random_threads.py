"""The promises of the replicated log under real threads and real time, while everything is made to happen."""

import random
import threading
import time
from contextlib import suppress

from witness import Witness, batches_in, contents

from tickwheel.replication.errors import PartitionError
from tickwheel.replication.follower import Follower
from tickwheel.replication.partition import TopicPartition
from tickwheel.replication.replicas import From, ReplicaManager

REPLICAS = 3
LAG_MAX = 0.3
SLACK_S = 30.0  # far more than any machine needs: an answer later than that counts as none
NAMES = [TopicPartition("events", number) for number in range(3)]


class Request:
    """A request of one thread, which waits for its one answer."""

    def __init__(self, keys):
        self.keys = set(keys)
        self._lock = threading.Lock()
        self._came = threading.Event()
        self.answers = []

    def __call__(self, answers):
        with self._lock:
            self.answers.append(answers)
        self._came.set()

    def answer(self, wait):
        assert self._came.wait(wait + SLACK_S), "not answered in time"
        self.check()
        return self.answers[0]

    def check(self):
        assert len(self.answers) == 1, "answered twice"
        assert set(self.answers[0]) == self.keys


class Life:
    """One manager's life: producers, consumers and a trouble-maker, each with what it has seen go wrong."""

    def __init__(self, data, witness, seed):
        self.witness = witness
        self.lock = threading.Lock()  # around the witness
        self.seed = seed
        self.requests = []
        self.wrong = []
        self.ends = threading.Event()
        self.manager = ReplicaManager(
            data, replicas=REPLICAS, min_isr=2, lag_max=LAG_MAX, segment_bytes=20_000
        )
        if not self.manager.topics():
            self.manager.create_topic("events", len(NAMES))
        # Nobody else shrinks the in-sync sets: the trouble-maker must know who is the last in one.
        self.manager._shrinking.cancel()
        self.followers = [Follower(self.manager, id) for id in range(REPLICAS)]

    def run(self, seconds, stop):
        """`stop`: close it while requests wait and calls are under way."""
        roles = [self.produce, self.produce, self.consume, self.consume, self.trouble]
        threads = [
            threading.Thread(target=self.noting, args=(role, random.Random(self.seed + number)))
            for number, role in enumerate(roles)
        ]
        for thread in threads:
            thread.start()
        self.ends.wait(seconds)
        if stop:
            self.manager.close()
        self.ends.set()
        for thread in threads:
            thread.join()
        for request in self.requests:
            request.check()
        assert not self.wrong, self.wrong

    def noting(self, role, rng):
        try:
            while not self.ends.is_set():
                role(rng)
        except BaseException as error:
            self.wrong.append(error)
            self.ends.set()
            raise

    def request(self, keys):
        request = Request(keys)
        with self.lock:
            self.requests.append(request)
        return request

    def produce(self, rng):
        chosen = rng.sample(NAMES, rng.randint(1, 2))
        acks, timeout = rng.choice([-1, -1, -1, 0, 1]), rng.choice([0.0, 0.05, 0.5])
        with self.lock:
            runs = {name: self.witness.records(rng.randint(1, 2), 2, rng.choice([0, 300])) for name in chosen}
        request = self.request(chosen)
        self.manager.append({name: data for name, (data, _) in runs.items()}, acks, timeout, request)
        for name, answer in request.answer(timeout).items():
            if acks == -1 and not isinstance(answer, PartitionError):
                with self.lock:
                    self.witness.promise(name, answer.base_offset, runs[name][1])

    def consume(self, rng):
        chosen = rng.sample(NAMES, rng.randint(1, 3))
        with self.lock:
            promised = {name: max(self.witness.promised.get(name, {}), default=-1) + 1 for name in chosen}
        positions = {
            name: From(max(0, offset - rng.randint(0, 9)), rng.choice([1, 5000]))
            for name, offset in promised.items()
        }
        min_bytes, max_wait = rng.choice([0, 1, 2000]), rng.choice([0.0, 0.05, 0.3])
        request = self.request(chosen)
        self.manager.fetch(positions, min_bytes=min_bytes, max_wait=max_wait, done=request)
        for name, answer in request.answer(max_wait).items():
            if isinstance(answer, PartitionError):
                assert self.manager.closed or self.manager.partition(name).leader is None, answer
                continue
            for base_offset, values in contents(answer.data):
                assert base_offset + len(values) <= answer.high_watermark
                assert positions[name].offset < base_offset + len(values)
            with self.lock:
                self.witness.read(name, answer.data)

    def trouble(self, rng):
        manager, id = self.manager, rng.randrange(REPLICAS)
        what = rng.choice(["lead", "lead", "lose", "stall", "shrink", "nothing"])
        with suppress(PartitionError):
            if what == "lead":
                manager.lead(rng.choice(NAMES), id)
            elif what == "lose" and all(manager.partition(name).isr != (id,) for name in NAMES):
                manager.lose(id)
            elif what == "stall":
                self.followers[id].pause()
                self.ends.wait(rng.uniform(0, 2 * LAG_MAX))
                if rng.random() < 0.5:
                    manager.shrink()
                self.followers[id].resume()
            elif what == "shrink":
                manager.shrink()
        self.ends.wait(rng.uniform(0, 0.05))

    def heal(self):
        """All replicas catch up, and then have the same, with all that was promised."""
        until = time.monotonic() + SLACK_S
        partitions = [self.manager.partition(name) for name in NAMES]
        logs = {
            partition.name: [replica.log for replica in partition._replicas.values()]
            for partition in partitions
        }
        while not all(
            len(partition.isr) == REPLICAS and len({log.end_offset for log in logs[partition.name]}) == 1
            for partition in partitions
        ):
            assert time.monotonic() < until, "the followers do not catch up"
            time.sleep(0.01)
        for partition in partitions:
            first, *others = logs[partition.name]
            self.witness.check(partition.name, first, partition.name)
            assert all(batches_in(other) == batches_in(first) for other in others)

    def close(self):
        self.manager.close()
        for follower in self.followers:
            follower.stop()


def test_promises_are_kept_among_threads(tmp_path, rng, soak):
    """No record acknowledged with acks=all is lost or moved, nobody reads past the high watermark, and each
    request is answered once and completely: also those that wait, or are made, while the manager is closed.
    """
    witness = Witness()
    rounds, seconds = (40, 3.0) if soak else (3, 1.0)
    for number in range(rounds):
        life = Life(tmp_path, witness, rng.getrandbits(30))
        try:
            life.run(seconds, stop=number % 2 == 0)
            if not life.manager.closed:
                life.heal()
        finally:
            life.close()
    assert sum(map(len, witness.promised.values())) > 0
