"""The micro benchmarks: what is timed, written once for all peers.

    schedule    N operations, while the pending timers grow from N/2 to 3N/2; the first batch of
                a process into new memory, page faults contained, the next into what it kept
    cancel      N of 3N/2 in random order: the call; the handles are dropped when the clock stands
    cancel-hot  those scheduled last, the latest first; N stay
    churn       cancel a random one, schedule another, drop the first's handle: N stay; half a
                turnover is done before the clock starts
    expire      all N, due within the last second, their handles dropped: a loop that comes late
    memory      growth of the process's resident memory, while N are made; the handles' list apart

Deadlines are random, 30 to 60 s ahead (nothing comes due while something else is measured),
the same for every peer; the callback is empty and shared. A chunk of operations and the turn
of the peer's loop that follows are timed together: work that a peer puts off is its own.
The clock is the process's CPU time, all threads together: who else uses the machine is not in it.
A peer with a thread of its own cannot be kept from firing: its `expire` is N timers due at
one instant, in wall time from that instant until the last has run.
"""
import gc
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from tickwheel.bench.peers import Peer

NEAREST_S, FARTHEST_S = 30.0, 60.0
WINDOW_S = 1.0                  # of the deadlines of `expire`
LEAD_S, LEAD_EACH_S = 0.2, 5e-6     # time to schedule all of them before the first is due

# The parts of the generators below that are the peer's own source come in by name: {schedule}.
FILL = """
    handles = []
    keep = handles.append
    for delay in workload.delays({fill}):
        {schedule}
        keep(handle)
    yield
"""
EMPTY = """
    if lives_on:
        for handle in handles:
            {cancel}
        yield
"""
STEPS = {
    "schedule": (0.5, FILL + """
    for delays in workload.chunks(workload.delays(n)):
        begin = clock()
        for delay in delays:
            {schedule}
            keep(handle)
        yield
        record(clock() - begin, len(delays))
""" + EMPTY),
    "cancel": (1.5, FILL + """
    workload.shuffle(handles)
    cancelled, handles = handles[:n], handles[n:]
    for chunk in workload.chunks(cancelled):
        begin = clock()
        for handle in chunk:
            {cancel}
        yield
        record(clock() - begin, len(chunk))
    handles += cancelled
""" + EMPTY),
    "cancel-hot": (1.0, FILL + """
    for delays in workload.chunks(workload.delays(n)):
        chunk = []
        for delay in delays:
            {schedule}
            chunk.append(handle)
        chunk.reverse()
        begin = clock()
        for handle in chunk:
            {cancel}
        yield
        record(clock() - begin, len(delays))
""" + EMPTY),
    "churn": (1.0, FILL + """
    for count, measured in (n // 2, False), (n, True):
        # Shuffled and then walked in order: the list is read ahead, so what is missed in the caches is
        # the timers' own memory. `delays` first: a place taken at their end would be skipped.
        workload.shuffle(handles)
        places = iter(range(n))
        for delays in workload.chunks(workload.delays(count)):
            begin = clock()
            for delay, i in zip(delays, places):
                handle = handles[i]
                {cancel}
                {schedule}
                handles[i] = handle
            yield
            if measured:
                record(clock() - begin, len(delays))
""" + EMPTY),
    "expire": (0.0, """
    for delay in workload.soon():
        {schedule}
    delay, callback = workload.end_s, finish
    {schedule}
    yield
    sleep(delay + 0.05)
    begin = clock()
    while not finished:
        yield
    record(clock() - begin, n)
"""),
    "expire-by-thread": (0.0, """
    instant = monotonic() + workload.end_s
    for _ in range(n):
        delay = instant - monotonic()
        {schedule}
    sleep(instant - monotonic())
    begin = wall_clock()
    while pending():
        sleep(0.0001)
        yield
    record(wall_clock() - begin, n)
"""),
    "memory": (0.0, """
    handles = [None] * n
    delays = workload.delays(n)
    collect()
    before = resident_bytes()
    for i, delay in enumerate(delays):
        {schedule}
        handles[i] = handle
    yield
    record(resident_bytes() - before, n)
""" + EMPTY),
}


class Workload:
    """The random choices of one batch: the same seed, the same choices for every peer."""

    def __init__(self, peer: type[Peer], n: int, seed: int) -> None:
        self.n = n
        self.end_s = LEAD_S + LEAD_EACH_S * n + WINDOW_S
        self._chunk = peer.chunk
        self._until = time.perf_counter() + peer.patience_s
        self._random = random.Random(seed)
        self.shuffle = self._random.shuffle

    def delays(self, count: int) -> list[float]:
        return [self._random.uniform(NEAREST_S, FARTHEST_S) for _ in range(count)]

    def soon(self) -> list[float]:
        return [self.end_s - WINDOW_S * self._random.random() for _ in range(self.n)]

    def chunks(self, items: list[Any]) -> Iterator[list[Any]]:
        """The items in pieces, taken out; one at least, but none after the peer's patience is gone."""
        while items:
            chunk = items[-self._chunk:]
            del items[-self._chunk:]
            yield chunk
            if time.perf_counter() > self._until:
                return


def nothing() -> None:
    """The callback of every timer measured."""


def resident_bytes() -> int:
    """The resident memory of this process, in whole pages."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def batch(kind: type[Peer], operation: str, n: int, seed: int) -> list[tuple[int, int]]:
    """One batch on a fresh peer: of each chunk nanoseconds (for `memory` bytes), and operations."""
    chunks: list[tuple[int, int]] = []
    peer = kind()
    peer.run(_steps(peer, operation, Workload(kind, n, seed), lambda *chunk: chunks.append(chunk)))
    peer.close()
    return chunks


def _steps(
    peer: Peer, operation: str, workload: Workload, record: Callable[[int, int], None]
) -> Iterator[None]:
    """The measuring generator of an operation, with the peer's own source in its loops."""
    if operation == "expire" and peer.own_thread:
        operation = "expire-by-thread"
    fill, body = STEPS[operation]
    finished: list[bool] = []
    names = {
        **peer.names(),
        "workload": workload, "n": workload.n, "record": record, "callback": nothing,
        "finished": finished, "finish": lambda: finished.append(True),
        "pending": peer.pending, "lives_on": peer.lives_on,
        "clock": time.process_time_ns, "wall_clock": time.perf_counter_ns,
        "monotonic": time.monotonic, "sleep": time.sleep,
        "collect": gc.collect, "resident_bytes": resident_bytes,
    }
    source = f"def steps({', '.join(names)}):" + body.format(
        schedule=peer.schedule, cancel=peer.cancel, fill=int(fill * workload.n),
    )
    namespace: dict[str, Any] = {}
    exec(compile(source, f"<{operation} of {peer.name}>", "exec"), namespace)
    steps: Iterator[None] = namespace["steps"](**names)
    return steps
