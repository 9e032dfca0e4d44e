"""The load of a run, all of it made before the clock starts."""
from array import array
from dataclasses import dataclass
from itertools import cycle, islice
from math import inf
from random import Random

from tickwheel.workload import generate

KEYS_DRAWN = 1 << 17        # in all the sets of keys together: the requests take the sets in turn
BATCH = 256                 # requests between two looks at the clock, where there is no target rate
SLOT_NS = 1_000_000

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """A request has a latency and a tuple of keys; those of one batch are enqueued together.

    At a target rate a batch is what arrives in the same millisecond, enqueued at its end: a thread that
    slept before each request would measure its sleeping. Kafka's harness sleeps by the millisecond too.
    """

    latencies: "array[float]"   # seconds
    keys: list[Keys]
    starts: "array[float]"      # of each batch, seconds from the start of the run
    counts: "array[int]"        # requests in each

    def in_time(self, timeout: float, requests: int) -> int:
        """How many of the first requests have a latency below `timeout` seconds."""
        return sum(latency < timeout for latency in islice(self.latencies, requests))


def make_load(
    requests: int, rate: float, p50_ms: float, p75_ms: float, keys: int, key_space: int, seed: int
) -> Load:
    """The same seed gives the same latencies and keys, at any rate a second; `inf`: as fast as they go."""
    latencies, starts, counts = array("d"), array("d"), array("q")
    paced = rate < inf
    slot = -1
    for arrival, completion in generate(
        requests, seed=seed, rate_per_s=rate if paced else 1e6, p50_ms=p50_ms, p75_ms=p75_ms
    ):
        latencies.append((completion - arrival) / 1e9)
        if paced and -(-arrival // SLOT_NS) != slot:
            slot = -(-arrival // SLOT_NS)
            starts.append(slot * SLOT_NS / 1e9)
            counts.append(0)
        elif not paced and len(latencies) % BATCH == 1:
            starts.append(0.0)
            counts.append(0)
        counts[-1] += 1
    return Load(latencies, list(islice(cycle(key_sets(keys, key_space, seed)), requests)), starts, counts)


def key_sets(keys: int, key_space: int, seed: int) -> list[Keys]:
    """Tuples of so many distinct keys each."""
    names = [f"key{number}" for number in range(key_space)]
    random = Random(seed)
    return [tuple(random.sample(names, keys)) for _ in range(max(1, KEYS_DRAWN // keys))]
