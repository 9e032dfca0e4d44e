"""The run: which cells there are, measured round by round, peers next to one another in time."""
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median
from typing import Any, Protocol

from tickwheel.bench import bulk
from tickwheel.bench.cell import Cell, Sample
from tickwheel.bench.peers import PEERS
from tickwheel.bench.row import CellRow

PEER_NAMES = (*PEERS, bulk.NAME)
FIRST_SEED = 20_151_028     # any would do; another round is another seed, for all peers alike
SEEDS_A_ROUND = 1_000       # a cell's batches count on from its round's


@dataclass(frozen=True, slots=True)
class Figure:
    """Over all rounds: nanoseconds an operation, or bytes a timer."""

    median: float       # over the rounds, of the median of each: a round weighs the same whatever it repeats
    low: float          # of the batches
    high: float
    p99: float          # of the chunks: the median over the rounds


class Row(CellRow[Cell, Sample]):
    """What its samples say."""

    __slots__ = ()

    @property
    def figure(self) -> Figure | None:
        if not self.samples:
            return None
        batches = [batch for sample in self.samples for batch in sample.batches]
        return Figure(
            median=median(median(sample.batches) for sample in self.samples),
            low=min(batches),
            high=max(batches),
            p99=median(sample.p99 for sample in self.samples),
        )


def plan(
    operations: Sequence[str], peers: Sequence[str], sizes: Sequence[int], collectors: Sequence[str]
) -> list[Row]:
    """The rows to come, those that one reads together next to one another."""
    return [
        Row(cell, note=obstacle(cell))
        for operation in operations
        # Memory is the same, whether or not the collector runs.
        for collector in (collectors[-1:] if operation == "memory" else collectors)
        for n in sizes
        for peer in peers
        if peer in PEERS or operation in bulk.OPERATIONS
        for cell in [Cell(peer, operation, n, collector)]
    ]


def obstacle(cell: Cell) -> str | None:
    """Why a cell cannot be measured here, in a line; None: it can."""
    if cell.peer == bulk.NAME:
        return None
    peer = PEERS[cell.peer]
    if cell.operation not in peer.operations:
        return "has no such operation"
    if peer.module is not None and find_spec(peer.module) is None:
        return f"needs {peer.module}: pip install 'tickwheel[bench]'"
    if peer.largest is not None and cell.n > peer.largest:
        return f"not asked for more than {peer.largest:,}"
    if cell.operation == "memory" and not os.path.exists("/proc/self/statm"):
        return "resident memory is read from /proc, which this system has not"
    return None


class Measurable(Protocol):
    """A row of whatever benchmark: a cell that can be measured, what it gave, and why there is nothing."""

    samples: list[Any]
    note: str | None

    @property
    def cell(self) -> Any: ...


def measure(rows: Sequence[Measurable], rounds: int, show: Callable[[float], object]) -> None:
    """Fill the rows in: all of them once, then all again, so that what disturbs the machine for a
    while disturbs neighbours alike. A cell that fails keeps the reason as its note and is not repeated."""
    todo = [row for row in rows if row.note is None]
    done = 0
    for number in range(rounds):
        for row in todo:
            if row.note is None:
                try:
                    row.samples.append(row.cell.measure(FIRST_SEED + number * SEEDS_A_ROUND))
                except RuntimeError as error:
                    row.note = f"failed: {error}"
            done += 1
            show(done / (rounds * len(todo)))
