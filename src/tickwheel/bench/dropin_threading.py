"""`threading.Timer` and its drop-in, beside others that are pending: what construct + start + cancel cost.

    python -m tickwheel.bench.dropin_threading ARGUMENTS        (in a process of its own)
"""
from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import asdict, dataclass
from time import perf_counter_ns

from tickwheel.bench.process import in_fresh_process
from tickwheel.dropin.threading import Timer

KINDS: dict[str, type[threading.Timer]] = {"threading.Timer": threading.Timer, "drop-in": Timer}
INTERVAL_S = 3600.0
BATCH = 500                 # timers constructed and started, then cancelled
LONGEST_S = 600.0


@dataclass(frozen=True, slots=True)
class TimerCell:
    kind: str               # of KINDS
    pending: int            # with a whole batch started
    batches: int

    def measure(self) -> TimerSample:
        """In a fresh process. RuntimeError: it failed."""
        return TimerSample(**in_fresh_process("tickwheel.bench.dropin_threading", asdict(self), LONGEST_S))


@dataclass(frozen=True, slots=True)
class TimerSample:
    start_ns: list[float]   # to construct and start a timer: the mean of each batch
    cancel_ns: list[float]
    threads: int            # while all are pending


def measure_here(cell: TimerCell) -> TimerSample:
    kind = KINDS[cell.kind]
    pending = [kind(INTERVAL_S, print) for _ in range(cell.pending - BATCH)]
    for timer in pending:
        timer.start()
    start_ns, cancel_ns, threads = [], [], 0
    for _ in range(cell.batches):
        timers = []
        begin = perf_counter_ns()
        for _ in range(BATCH):
            timer = kind(INTERVAL_S, print)
            timer.start()
            timers.append(timer)
        started = perf_counter_ns()
        threads = threading.active_count()
        cancelling = perf_counter_ns()
        for timer in timers:
            timer.cancel()
        cancelled = perf_counter_ns()
        for timer in timers:
            timer.join()    # the threads of one batch are no load on the next
        start_ns.append((started - begin) / BATCH)
        cancel_ns.append((cancelled - cancelling) / BATCH)
    return TimerSample(start_ns, cancel_ns, threads)


def main(argv: list[str]) -> None:
    json.dump(asdict(measure_here(TimerCell(**json.loads(argv[0])))), sys.stdout)
    sys.stdout.flush()
    os._exit(0)     # what is pending would hold the exit


if __name__ == "__main__":
    main(sys.argv[1:])
