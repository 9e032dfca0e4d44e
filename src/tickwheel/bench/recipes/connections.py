"""A TCP server on asyncio that closes connections which fall silent: `IdleTracker` with real sockets.

Its clients have a process of their own (`crowd`).
"""
from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from dataclasses import asdict
from time import process_time
from typing import NamedTuple

from tickwheel.bench.recipes.crowd import Crowd
from tickwheel.bench.recipes.descriptors import allow_connections
from tickwheel.bench.recipes.sample import EARLY, MISSING, TWICE, Sample, Sizes
from tickwheel.loopexecutor import LoopExecutor
from tickwheel.recipes.idle import IdleTracker
from tickwheel.timer import Timer


class Watched(NamedTuple):
    """What server and clients saw of the same connections."""

    connected: int
    packets: int
    offline: int            # connections that were reported
    twice: int              # of them more than once
    early: int              # of them less than the timeout after their last packet
    closed_silent: int      # by the server, as the clients saw it
    closed_talking: int
    lateness_max_s: float   # from the timeout after the last packet to the report
    cpu_s: float            # of the server's process, connecting included


CONNECTED, CLOSED, LATE_MAX, CPU = "connections", "closed", "late max ms", "CPU us a packet"
TIMEOUT_S, EVERY_S = 4.0, 1.0
TALKING = 5     # one in so many talks on


class Connection(asyncio.Protocol):
    """One client. It is a key of the tracker by itself."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.last_packet = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._server.connected += 1

    def data_received(self, data: bytes) -> None:
        self._server.packets += 1
        self.last_packet = self._server.time()
        self._server.tracker.touch(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.tracker.remove(self)


class Server:
    """Keeps what happened; `on_idle` runs on the loop, like all else here."""

    def __init__(self, timeout_s: float, timer: Timer) -> None:
        self._timeout_s = timeout_s
        self.time = timer.time
        self.tracker = IdleTracker(timeout_s, self._offline, timer=timer)
        self.connected = self.packets = self.early = 0
        self.offline: Counter[Connection] = Counter()
        self.lateness_max_s = 0.0

    def _offline(self, connection: Connection) -> None:
        late_s = self.time() - connection.last_packet - self._timeout_s
        self.early += late_s < 0
        self.lateness_max_s = max(self.lateness_max_s, late_s)
        self.offline[connection] += 1
        connection.transport.close()


async def serve(talking: int, silent: int, *, every_s: float, timeout_s: float) -> Watched:
    """Serve until the clients have seen all closed that fell silent, and for half a timeout more.

    Talking ones that a busy machine keeps from talking for `timeout_s` are offline too, rightly.
    """
    allow_connections(talking + silent)
    loop = asyncio.get_running_loop()
    with Timer(executor=LoopExecutor(loop)) as timer:
        server = Server(timeout_s, timer)
        listener = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0, backlog=1024)
        crowd = Crowd(listener.sockets[0].getsockname()[1], talking, silent, every_s)
        clients = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tickwheel.bench.recipes.crowd", json.dumps(asdict(crowd))),
            stdin=PIPE,
            stdout=PIPE,
        )
        assert clients.stdout is not None
        begin = process_time()
        for _ in ("connected", "all silent ones closed"):
            if not await clients.stdout.readline():
                raise RuntimeError("the clients failed: their error is above")
        await asyncio.sleep(timeout_s / 2)
        cpu_s = process_time() - begin
        answer, _ = await clients.communicate(b"")
        seen = json.loads(answer)
        listener.close()
        server.tracker.close()
    return Watched(
        connected=server.connected,
        packets=server.packets,
        offline=len(server.offline),
        twice=sum(times > 1 for times in server.offline.values()),
        early=server.early,
        closed_silent=seen["closed_silent"],
        closed_talking=seen["closed_talking"],
        lateness_max_s=server.lateness_max_s,
        cpu_s=cpu_s,
    )


def connections(sizes: Sizes) -> int:
    """A tenth of the clients of the other stories: both ends of each are open files here."""
    return max(TALKING, sizes.clients // 10)


def measure_connections(sizes: Sizes, seed: int) -> Sample:
    """OSError: more connections than open files are allowed."""
    n = connections(sizes)
    talking = n // TALKING
    saw = asyncio.run(serve(talking, n - talking, every_s=EVERY_S, timeout_s=TIMEOUT_S))
    return Sample({
        CONNECTED: saw.connected,
        CLOSED: saw.closed_silent + saw.closed_talking,
        LATE_MAX: saw.lateness_max_s * 1e3,
        CPU: saw.cpu_s * 1e6 / saw.packets,
        MISSING: n - talking - saw.closed_silent,
        TWICE: saw.twice,
        EARLY: saw.early,
    })
