"""The proposal's workload: Poisson arrivals, log-normal latencies, seeded.

Kafka's new purgatory was measured with exponential gaps between the requests and latencies
given by their median and upper quartile: 20 and 60 ms where few requests time out after
200 ms, 200 and 400 ms where many do.

The rows come in blocks of 65,536, each a function of the seed and its number alone, so that
many processes make the same rows in parallel (`tickwheel.spark.workload` does). Gaps are
exponential, and how a run of them divides its length is independent of that length: so a
first stream draws the blocks' lengths, a Gamma variate each, and a block's own stream draws
65,536 gaps, scaled to the length of the block. That is the Poisson process, exactly.

After its gaps, a block draws three numbers for each request: u1, u2 the latency by Box and
Muller, `exp(mu + sigma * sqrt(-2 * log(1 - u1)) * cos(2 * pi * u2))`, with `mu = log(p50)`
and `sigma = log(p75 / p50) / 0.6745`; u3 whether it is ever completed. So one parameter
changes nothing that another one makes, and a shorter trace begins a longer one: the last
block draws all its gaps, however few are wanted. Numbers are those of `random.Random`, the
Mersenne Twister, the same on every Python and platform. Times are whole microseconds, which
hides the last bit of the platform's `log`, `exp` and `cos`.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import NamedTuple

from tickwheel.output import whole_text
from tickwheel.units import MAX_NS, NEVER, from_ns

BLOCK = 1 << 16                         # requests
UPPER_QUARTILE = 0.6744897501960817     # of the standard normal distribution
FARTHEST = 8.6                          # no u1 below 1 gives a deviate beyond it


def generate(
    requests: int,
    *,
    seed: int = 1,
    rate_per_s: float = 1000.0,
    p50_ms: float = 20.0,
    p75_ms: float = 60.0,
    never: float = 0.0,
) -> Iterator[tuple[int, int]]:
    """(arrival, completion) of each request in nanoseconds, from time 0, in order of arrival.

    `never`: the share of requests whose completion is NEVER. Memory: that of one block.
    """
    workload = Workload.of(
        requests, seed=seed, rate_per_s=rate_per_s, p50_ms=p50_ms, p75_ms=p75_ms, never=never
    )
    return (request for block in workload.blocks() for request in workload.block(block))


class Block(NamedTuple):
    """So many requests from the time `start_ns`; `length_ns`: what the gaps of a whole block take."""

    number: int
    start_ns: int
    length_ns: float
    requests: int


@dataclass(frozen=True, slots=True)
class Workload:
    """The parameters in the units of the formulas: nanoseconds and their logarithms."""

    requests: int
    seed: int
    gap_ns: float
    mu: float
    sigma: float
    never: float

    @classmethod
    def of(
        cls, requests: int, *, seed: int, rate_per_s: float, p50_ms: float, p75_ms: float, never: float
    ) -> Workload:
        """ValueError: a parameter out of its range."""
        check("requests", requests, ">= 0", requests >= 0)
        check("seed", seed, ">= 0", seed >= 0)
        check("rate_per_s", rate_per_s, "between 1e-6 and 1e9", 1e-6 <= rate_per_s <= 1e9)
        check("p50_ms", f"{p50_ms:g} ms", "> 0 ms", 0 < p50_ms < math.inf)
        check("p75_ms", f"{p75_ms:g} ms", f">= the median ({p50_ms:g} ms)", p50_ms <= p75_ms < math.inf)
        check("never", never, "between 0 and 1", 0 <= never <= 1)
        mu = math.log(p50_ms * 1e6)
        sigma = math.log(p75_ms / p50_ms) / UPPER_QUARTILE
        near = f"so near the median ({p50_ms:g} ms) that all latencies fit in 64 bits"
        check("p75_ms", f"{p75_ms:g} ms", near, mu + FARTHEST * sigma < math.log(MAX_NS))
        return cls(requests, seed, 1e9 / rate_per_s, mu, sigma, never)

    def blocks(self) -> Iterator[Block]:
        """All of them, in order. ValueError, when it gets there: one starts after 64 bits of time."""
        lengths = Random(self.key(0))
        start = 0
        for number, first in enumerate(range(0, self.requests, BLOCK)):
            if start > MAX_NS:
                raise self._too_long()
            length = float(round(lengths.gammavariate(BLOCK, 1.0) * self.gap_ns))
            yield Block(number, start, length, min(BLOCK, self.requests - first))
            start += int(length)

    def key(self, stream: int) -> int:
        """What seeds a stream of random numbers: 0 the blocks' lengths, n + 1 what block n draws."""
        return self.seed << 64 | stream

    def block(self, block: Block) -> Iterator[tuple[int, int]]:
        """Its requests, as `generate` yields them."""
        mu, sigma, never = self.mu, self.sigma, self.never
        start, length = block.start_ns, block.length_ns
        draw = Random(self.key(block.number + 1)).random
        ends = list(accumulate([-math.log(1.0 - draw()) for _ in range(BLOCK)]))
        last = ends[-1]
        del ends[block.requests :]
        for end in ends:
            arrival = start + int(length * (end / last))
            deviate = math.sqrt(-2.0 * math.log(1.0 - draw())) * math.cos(math.tau * draw())
            completion = arrival + round(math.exp(mu + sigma * deviate))
            if completion > MAX_NS:
                raise self._too_long()
            yield arrival // 1000 * 1000, NEVER if draw() < never else completion // 1000 * 1000

    def _too_long(self) -> ValueError:
        rule = f"high enough for the times of {self.requests} requests to fit in 64 bits"
        return ValueError(f"rate_per_s must be {rule}, got {1e9 / self.gap_ns:g}")


def write_trace(path: str, requests: Iterable[tuple[int, int]]) -> None:
    """A CSV file (.gz by its name) that `Trace(path)` reads, whole or not at all."""
    with whole_text(path) as file:
        file.write("request_id,arrival_ms,completion_ms\n")
        file.writelines(
            f"{number},{from_ns(arrival, 'ms')},{'' if completion == NEVER else from_ns(completion, 'ms')}\n"
            for number, (arrival, completion) in enumerate(requests, 1)
        )


def check(name: str, value: object, rule: str, holds: bool) -> None:
    """ValueError unless the rule holds."""
    if not holds:
        raise ValueError(f"{name} must be {rule}, got {value}")
