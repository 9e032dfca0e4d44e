"""A cell: an operation, a peer, N pending timers, GC on or off. Measured in a process of its own,

    python -m tickwheel.bench.cell '{"cell": {"peer": P, "operation": O, "n": N, "gc": "on|off"}, "seed": S}'

so that no peer inherits another's heap, specialised bytecode or garbage.
"""
import gc
import json
import os
import sys
import time
from dataclasses import asdict, dataclass

from tickwheel.bench import bulk, micro
from tickwheel.bench.peers import PEERS
from tickwheel.bench.process import in_fresh_process

ENOUGH_OPERATIONS = 500_000     # batches are repeated until so many are done,
ENOUGH_S = 4.0                  # or so much time has passed


@dataclass(frozen=True, slots=True)
class Cell:
    peer: str
    operation: str
    n: int
    gc: str                     # "on" | "off"

    def measure(self, seed: int) -> "Sample":
        """One round, in a fresh process. RuntimeError: it failed; the message is its last line."""
        core = PEERS[self.peer].core if self.peer in PEERS else None
        arguments = {"cell": asdict(self), "seed": seed}
        return Sample(**in_fresh_process("tickwheel.bench.cell", arguments, core=core))


@dataclass(frozen=True, slots=True)
class Sample:
    """What one process measured: nanoseconds an operation, or bytes a timer."""

    batches: list[float]        # the mean of each
    p99: float                  # of their chunks


def measure_here(cell: Cell, seed: int) -> Sample:
    """Batches until there are enough, each on a fresh peer."""
    batches: list[float] = []
    chunk_means: list[float] = []
    until = time.perf_counter() + ENOUGH_S
    # The memory of a second batch would come from what the first gave back.
    enough = 1 if cell.operation == "memory" else max(1, ENOUGH_OPERATIONS // cell.n)
    while len(batches) < enough and (not batches or time.perf_counter() < until):
        at = seed + len(batches)
        if cell.peer == bulk.NAME:
            chunks = [bulk.batch(cell.operation, cell.n, at)]
        else:
            chunks = micro.batch(PEERS[cell.peer], cell.operation, cell.n, at)
        batches.append(sum(amount for amount, _ in chunks) / sum(operations for _, operations in chunks))
        chunk_means += [amount / operations for amount, operations in chunks]
    return Sample(batches, sorted(chunk_means)[len(chunk_means) * 99 // 100])


def main(argv: list[str]) -> None:
    arguments = json.loads(argv[0])
    cell = Cell(**arguments["cell"])
    if cell.gc == "off":
        gc.disable()
    json.dump(asdict(measure_here(cell, arguments["seed"])), sys.stdout)
    sys.stdout.flush()
    # What is still pending need not be torn down one by one.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
