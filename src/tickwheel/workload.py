"""The proposal's workload: Poisson arrivals, log-normal latencies, seeded.

Kafka's new purgatory was measured with exponential gaps between the requests and latencies
given by their median and upper quartile: 20 and 60 ms where few requests time out after
200 ms, 200 and 400 ms where many do.

Each request takes four numbers from `random.Random(seed).random()`, the Mersenne Twister,
the same on every Python and platform: u0 the gap `-log(1 - u0) / rate`; u1, u2 the latency
by Box and Muller, `exp(mu + sigma * sqrt(-2 * log(1 - u1)) * cos(2 * pi * u2))`, with
`mu = log(p50)` and `sigma = log(p75 / p50) / 0.6745`; u3 whether it is ever completed. So
one parameter changes nothing that another one makes. Times are whole microseconds, which
hides the last bit of the platform's `log`, `exp` and `cos`.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from random import Random

from tickwheel.output import whole_text
from tickwheel.units import MAX_NS, NEVER, from_ns

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

    `never`: the share of requests whose completion is NEVER. Bounded memory.
    """
    _check("requests", requests, ">= 0", requests >= 0)
    _check("seed", seed, ">= 0", seed >= 0)
    _check("rate_per_s", rate_per_s, "between 1e-6 and 1e9", 1e-6 <= rate_per_s <= 1e9)
    _check("p50_ms", f"{p50_ms:g} ms", "> 0 ms", 0 < p50_ms < math.inf)
    _check("p75_ms", f"{p75_ms:g} ms", f">= the median ({p50_ms:g} ms)", p50_ms <= p75_ms < math.inf)
    _check("never", never, "between 0 and 1", 0 <= never <= 1)
    mu = math.log(p50_ms * 1e6)
    sigma = math.log(p75_ms / p50_ms) / UPPER_QUARTILE
    longest = math.log(MAX_NS)
    near = f"so near the median ({p50_ms:g} ms) that all latencies fit in 64 bits"
    _check("p75_ms", f"{p75_ms:g} ms", near, mu + FARTHEST * sigma < longest)
    return _requests(requests, Random(seed), 1e9 / rate_per_s, mu, sigma, never)


def _requests(
    requests: int, random: Random, gap: float, mu: float, sigma: float, never: float
) -> Iterator[tuple[int, int]]:
    draw = random.random
    clock = 0
    for _ in range(requests):
        clock += round(-math.log(1.0 - draw()) * gap)
        deviate = math.sqrt(-2.0 * math.log(1.0 - draw())) * math.cos(math.tau * draw())
        completion = clock + round(math.exp(mu + sigma * deviate))
        if completion > MAX_NS:
            rule = f"high enough for the times of {requests} requests to fit in 64 bits"
            raise ValueError(f"rate_per_s must be {rule}, got {1e9 / gap:g}")
        yield clock // 1000 * 1000, NEVER if draw() < never else completion // 1000 * 1000


def write_trace(path: str, requests: Iterable[tuple[int, int]]) -> None:
    """A CSV file (.gz by its name) that `Trace(path)` reads, whole or not at all."""
    with whole_text(path) as file:
        file.write("request_id,arrival_ms,completion_ms\n")
        file.writelines(
            f"{number},{from_ns(arrival, 'ms')},{'' if completion == NEVER else from_ns(completion, 'ms')}\n"
            for number, (arrival, completion) in enumerate(requests, 1)
        )


def _check(name: str, value: object, rule: str, holds: bool) -> None:
    if not holds:
        raise ValueError(f"{name} must be {rule}, got {value}")
