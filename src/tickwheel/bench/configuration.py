"""How the timer bears a bad configuration: tick x wheel size x delays, in virtual time, nothing sleeps.

    python -m tickwheel.bench.configuration ARGUMENTS       (one cell, in a process of its own)

All tasks are scheduled at time 0 and expire in the order of their deadlines. The reaper's own loop runs
here, on a clock that jumps to what the reaper would sleep for, so its wake-ups are those of a real run: a
cascade is a wake-up too. A second run of the same tasks is reconfigured in the middle, and counts each
task's firings.
"""
from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import exp, inf, log
from random import Random
from time import perf_counter_ns, process_time_ns

from tickwheel.bench.process import in_fresh_process
from tickwheel.bench.row import CellRow
from tickwheel.reaper import reap
from tickwheel.timer import Timer
from tickwheel.workload import UPPER_QUARTILE

LONGEST_S = 600.0


@dataclass(frozen=True, slots=True)
class Configuration:
    tick: float             # seconds
    wheel_size: int

    def span(self, levels: int) -> float:
        """Seconds that so many wheels cover."""
        return self.tick * float(self.wheel_size) ** levels

    def __str__(self) -> str:
        return f"{self.tick * 1e3:g} ms x {self.wheel_size}"


Draw = Callable[[Random, Configuration], float]


def _log_normal(p50: float, p75: float) -> Draw:
    sigma = log(p75 / p50) / UPPER_QUARTILE
    return lambda random, _: exp(random.gauss(log(p50), sigma))


# What the tasks' delays are drawn from: the first three lie where the configuration puts them.
DELAYS: dict[str, tuple[str, Draw]] = {
    "first": (
        "uniform within the first wheel",
        lambda random, configuration: random.uniform(0, configuration.span(1)),
    ),
    "three": (
        "uniform over three wheels",
        lambda random, configuration: random.uniform(0, configuration.span(3)),
    ),
    "beyond": (
        "uniform over as much again, all beyond the third wheel",
        lambda random, configuration: random.uniform(configuration.span(3), 2 * configuration.span(3)),
    ),
    "low": ("log-normal, p50 20 ms, p75 60 ms", _log_normal(0.020, 0.060)),
    "high": ("log-normal, p50 200 ms, p75 400 ms", _log_normal(0.200, 0.400)),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """Tasks whose delays come from a distribution, on one configuration; `to` another one in the middle."""

    delays: str
    tick: float
    wheel_size: int
    to_tick: float
    to_wheel_size: int
    tasks: int

    @property
    def configuration(self) -> Configuration:
        return Configuration(self.tick, self.wheel_size)

    @property
    def to(self) -> Configuration:
        return Configuration(self.to_tick, self.to_wheel_size)

    def measure(self, seed: int) -> Sample:
        """In a fresh process. RuntimeError: it failed."""
        arguments = {"cell": asdict(self), "seed": seed}
        return Sample(**in_fresh_process("tickwheel.bench.configuration", arguments, LONGEST_S))


@dataclass(frozen=True, slots=True)
class Sample:
    schedule_ns: float      # CPU time a task
    expire_ns: float        # CPU time a task: from the first wake-up until the last has fired
    cascades: float         # a task: its moves to a finer wheel
    wakeups: float          # a task
    late_p50_ms: float      # after the exact deadline: the price of a coarse tick
    late_p99_ms: float
    moved: int              # tasks pending in the second run when it was reconfigured
    reconfigure_ms: float
    lost: int               # tasks that the second run did not fire,
    twice: int              # that it fired more than once,
    early: int              # before their time

    @property
    def exact(self) -> bool:
        return not (self.lost or self.twice or self.early)


class JumpingClock:
    """Jumps to where a sleeper would wake. Where none would wake again, `at_rest` is called."""

    at_rest: Callable[[], object]

    def __init__(self) -> None:
        self.now = 0.0
        self.wakeups = 0

    def time(self) -> float:
        return self.now

    def sleeper(self, idle: Callable[[], bool]) -> JumpingClock:
        return self

    def wait_until(self, when: float) -> None:
        if when == inf:
            self.at_rest()
        else:
            self.wakeups += 1
            self.now = max(self.now, when)

    def wake(self) -> None:
        pass        # it never sleeps

    def close(self) -> None:
        pass


def measure_here(cell: Cell, seed: int) -> Sample:
    random = Random(seed)
    draw = DELAYS[cell.delays][1]
    whens = [draw(random, cell.configuration) for _ in range(cell.tasks)]
    timer, clock = _timer(cell.configuration)
    begin = process_time_ns()
    schedule_at = timer.schedule_at
    for when in whens:
        schedule_at(when, _nothing)
    scheduled = process_time_ns()
    reap(timer._core, clock)
    expired = process_time_ns()
    stats = timer.stats()
    moved, reconfigure_ms, fired, early = _reconfigured(cell, whens)
    return Sample(
        schedule_ns=(scheduled - begin) / cell.tasks,
        expire_ns=(expired - scheduled) / cell.tasks,
        cascades=timer._core.cascades / cell.tasks,
        wakeups=clock.wakeups / cell.tasks,
        late_p50_ms=stats.lateness_p50 * 1e3,
        late_p99_ms=stats.lateness_p99 * 1e3,
        moved=moved,
        reconfigure_ms=reconfigure_ms,
        lost=fired.count(0),
        twice=sum(times > 1 for times in fired),
        early=early,
    )


def _timer(configuration: Configuration) -> tuple[Timer, JumpingClock]:
    clock = JumpingClock()
    timer = Timer(
        tick=configuration.tick,
        wheel_size=configuration.wheel_size,
        executor="inline",
        clock=clock,
        start=False,
    )
    clock.at_rest = timer.close
    return timer, clock


def _nothing() -> None:
    pass


def _reconfigured(cell: Cell, whens: list[float]) -> tuple[int, float, list[int], int]:
    """How many tasks were pending when half had fired, what moving them took, and each task's firings."""
    timer, clock = _timer(cell.configuration)
    fired = [0] * cell.tasks
    early: list[int] = []
    seen: list[tuple[int, float]] = []

    def fire(number: int) -> None:
        fired[number] += 1
        if clock.now < whens[number] - 1e-9:
            early.append(number)
        if not seen and len(timer) <= cell.tasks // 2:
            pending = len(timer)
            begin = perf_counter_ns()
            timer.reconfigure(tick=cell.to.tick, wheel_size=cell.to.wheel_size)
            seen.append((pending, (perf_counter_ns() - begin) / 1e6))

    for number, when in enumerate(whens):
        timer.schedule_at(when, fire, number)
    reap(timer._core, clock)
    [(moved, ms)] = seen
    return moved, ms, fired, len(early)


class Row(CellRow[Cell, Sample]):
    """What its samples say."""

    __slots__ = ()

    @property
    def sample(self) -> Sample | None:
        """The round of median speed; one that lost, repeated or hurried a task, before all others."""
        for sample in self.samples:
            if not sample.exact:
                return sample
        ordered = sorted(self.samples, key=lambda sample: sample.schedule_ns + sample.expire_ns)
        return ordered[len(ordered) // 2] if ordered else None


def plan(delays: Sequence[str], ticks: Sequence[float], wheel_sizes: Sequence[int], tasks: int) -> list[Row]:
    """Every configuration under each distribution; in the middle it becomes the next one of the sweep."""
    configurations = list(product(ticks, wheel_sizes))
    following = [*configurations[1:], configurations[0]]
    return [
        Row(Cell(name, *here, *there, tasks))
        for name in delays
        for here, there in zip(configurations, following, strict=True)
    ]


def main(argv: list[str]) -> None:
    arguments = json.loads(argv[0])
    print(json.dumps(asdict(measure_here(Cell(**arguments["cell"]), arguments["seed"]))))


if __name__ == "__main__":
    main(sys.argv[1:])
