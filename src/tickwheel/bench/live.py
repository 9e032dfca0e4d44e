"""The benchmark's load on our purgatory, while another thread changes the configuration all the time.

    python -m tickwheel.bench.live ARGUMENTS        (in a process of its own)

Every request must be completed, by its event or by its timeout, and none of them twice: the ledger of a run
raises when more completions come than there were requests.
"""
from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import cycle
from threading import Event
from typing import Any

from tickwheel.bench.process import in_fresh_process
from tickwheel.bench.purgatories.wheel import WheelPurgatory
from tickwheel.bench.purgatory.run import Sample, Setting, run
from tickwheel.meanwhile import meanwhile
from tickwheel.timer import Timer

EVERY_S = 0.02
LONGEST_S = 600.0
RATE = 50_000.0         # requests a second: what a machine can bear beside the moving

Configurations = Sequence[tuple[float, int]]        # tick in seconds, wheel size


@dataclass(frozen=True, slots=True)
class LiveSample:
    reconfigured: int
    run: Sample


@dataclass(frozen=True, slots=True)
class LiveCell:
    """The proposal's load with low latency, at RATE."""

    configurations: Configurations
    requests: int

    def measure(self, seed: int) -> LiveSample:
        """In a fresh process. RuntimeError: it failed."""
        arguments = {"cell": asdict(self), "seed": seed}
        figures = in_fresh_process("tickwheel.bench.live", arguments, LONGEST_S)
        return LiveSample(figures["reconfigured"], Sample(**figures["run"]))


@dataclass(slots=True)
class LiveRow:
    cell: LiveCell
    samples: list[LiveSample] = field(default_factory=list)
    note: str | None = None


def measure_here(cell: LiveCell, seed: int) -> LiveSample:
    tick, wheel_size = cell.configurations[0]
    setting = Setting(
        WheelPurgatory.name, wheel_size=wheel_size, tick=tick, rate=RATE, requests=cell.requests
    )
    times = 0

    def reconfigure(timer: Timer, over: Event) -> None:
        """One configuration after the other, again and again."""
        nonlocal times
        configurations = cycle(cell.configurations)
        while not over.wait(EVERY_S):
            tick, wheel_size = next(configurations)
            timer.reconfigure(tick=tick, wheel_size=wheel_size)
            times += 1

    def beside(purgatory: Any) -> AbstractContextManager[None]:
        return meanwhile(partial(reconfigure, purgatory.timer), "reconfigurer")

    sample = run(setting, seed, beside)
    return LiveSample(times, sample)


def main(argv: list[str]) -> None:
    arguments = json.loads(argv[0])
    json.dump(asdict(measure_here(LiveCell(**arguments["cell"]), arguments["seed"])), sys.stdout)
    sys.stdout.flush()
    os._exit(0)     # as a run's own process


if __name__ == "__main__":
    main(sys.argv[1:])
