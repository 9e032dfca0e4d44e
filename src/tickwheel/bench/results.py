"""What a run says: ratios to this core, where it loses, and the targets."""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tickwheel.bench import bulk
from tickwheel.bench.cell import Cell
from tickwheel.bench.peers import EmptyLoop, Tickwheel
from tickwheel.bench.runner import Row

CAVEATS = (
    "Read ratios, not absolutes: machines differ, and below 15 % is a tie.",
    "Each figure is the median over rounds of a fresh process each; in brackets the lowest and the highest "
    "batch; p99 over chunks of 1,000 operations. It is CPU time, of all threads: other load is not in it, "
    "but what that does to the caches is.",
    "The first batch of a process grows into new memory, the next ones into what the process kept: at 1e6 "
    "there is only the first, below it is one of several, and seen in the highest.",
    "The loop that measures is contained in every figure; the row `empty-loop` says what it costs. Targets "
    "are judged by figures with it, and shown net of it as well.",
    "schedule, cancel and churn have N timers pending on average, due in 30 to 60 s, in random order; cancel "
    "is the call, its handle is dropped outside the timing, in churn inside; expire has all N due within a "
    "second, found by a loop that comes late; the callback is empty.",
    "A chunk of 1,000 operations is timed with one turn of the peer's loop. A real loop turns more often, "
    "and then costs more.",
    "gevent's timers read the loop's cached time, which is free and may be old; the others read the clock.",
    "heapq, heapq-compacted and sparse are plain Python: compare them with the row `reference`.",
    "A peer with a thread of its own (tickwheel-reaper, threading) expires all N at one instant, in wall "
    "time, wake-up included.",
    "memory is the growth of the process's resident memory, in pages of 4 KiB: coarse below 1e5 timers.",
)
THIS = Tickwheel.name


@dataclass(frozen=True, slots=True)
class Target:
    """What the project promises of one cell, GC off: so many times faster than a peer, or a limit."""

    operation: str
    n: int
    limit: float                # times at least, if there is a rival; else ns or bytes at most
    rival: str | None = None
    peer: str = THIS
    why: str = ""

    def __str__(self) -> str:
        what = f"{self.peer} {self.operation} at {self.n:.0e}".replace("e+0", "e")
        if self.rival:
            return f"{what}: at least {self.limit:g} x {self.rival}"
        unit = "bytes" if self.operation == "memory" else "ns"
        return f"{what}: at most {self.limit:g} {unit}" + (f" ({self.why})" if self.why else "")

    def seen(self, known: Mapping[Cell, float]) -> float | None:
        """The ratio, or the figure; None: its cells were not measured."""
        ours = known.get(Cell(self.peer, self.operation, self.n, "off"))
        if self.rival is None or ours is None:
            return ours
        theirs = known.get(Cell(self.rival, self.operation, self.n, "off"))
        return None if theirs is None else theirs / ours

    def holds(self, seen: float) -> bool:
        return seen >= self.limit if self.rival else seen <= self.limit


KAFKA = "Kafka's own timer on the JVM, on another machine"
TARGETS = (
    Target("schedule", 100_000, 3, "gevent"),
    Target("schedule", 100_000, 12, "asyncio"),
    Target("schedule", 100_000, 104, why=KAFKA),
    Target("cancel", 100_000, 4, "gevent"),
    Target("cancel", 100_000, 90, why=KAFKA),
    Target("churn", 100_000, 4, "gevent"),
    Target("churn", 100_000, 15, "asyncio"),
    Target("expire", 100_000, 3, "gevent"),
    Target("memory", 100_000, 104),
    Target("schedule", 1_000_000, 25, peer=bulk.NAME),
    Target("cancel", 1_000_000, 30, peer=bulk.NAME),
    Target("expire", 1_000_000, 150, peer=bulk.NAME),
    Target("memory", 1_000_000, 40, peer=bulk.NAME),
)


def medians(rows: Iterable[Row]) -> dict[Cell, float]:
    return {row.cell: figure.median for row in rows if (figure := row.figure)}


def ratio(cell: Cell, known: Mapping[Cell, float]) -> float | None:
    """How many times this core's figure it is, in the same operation, size and collector."""
    ours = known.get(Cell(THIS, cell.operation, cell.n, cell.gc))
    theirs = known.get(cell)
    return None if ours is None or theirs is None else theirs / ours


def losses(known: Mapping[Cell, float]) -> list[tuple[Cell, float]]:
    """Where a peer beats this core, and by which share of its figure; the worst first."""
    ratios = [(cell, ratio(cell, known)) for cell in known if cell.peer not in (EmptyLoop.name, bulk.NAME)]
    return sorted(
        ((cell, times) for cell, times in ratios if times is not None and times < 1), key=lambda pair: pair[1]
    )


def net_of_loop(known: Mapping[Cell, float]) -> dict[Cell, float]:
    """The figures less the measuring loop's, where that was measured; a batch of the table has no loop."""
    return {
        cell: figure - loop
        for cell, figure in known.items()
        if cell.peer != bulk.NAME
        and (loop := known.get(replace(cell, peer=EmptyLoop.name))) is not None
        and figure > loop
    }


def targets_seen(known: Mapping[Cell, float]) -> list[tuple[Target, float, float | None]]:
    """The targets whose cells were measured, what was seen, which decides, and the same net of the loop."""
    net = net_of_loop(known)
    return [
        (target, seen, target.seen(net)) for target in TARGETS if (seen := target.seen(known)) is not None
    ]
