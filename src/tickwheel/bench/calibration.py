"""How fast this machine runs plain Python: what puts figures of another machine beside its own."""
from time import perf_counter_ns

REFERENCE_NS = 27.0         # an iteration, where and when Kafka's purgatory was measured on the JVM
ITERATIONS = 200_000
REPETITIONS = 5


def calibrate() -> float:
    """Nanoseconds an iteration of `x += i & 7` over a range: the best of a few repetitions."""
    return min(_loop_ns() for _ in range(REPETITIONS)) / ITERATIONS


def _loop_ns() -> int:
    x = 0
    begin = perf_counter_ns()
    for i in range(ITERATIONS):
        x += i & 7
    return perf_counter_ns() - begin
