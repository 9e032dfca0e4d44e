"""The clients of a TCP server: thousands of connections, some of which fall silent.

    python -m tickwheel.bench.recipes.crowd ARGUMENTS

It prints a line when all are connected, one when the server has closed all that fell silent, and, when
its input ends, what it saw as JSON.
"""
from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from functools import partial

from tickwheel.bench.recipes.descriptors import allow_connections

AT_ONCE = 100       # connections being made: the server's backlog holds so many
PACKET = b"."


@dataclass(frozen=True, slots=True)
class Crowd:
    port: int
    talking: int        # connections that send a packet every `every_s`
    silent: int         # connections that send one packet and then nothing
    every_s: float


@dataclass(slots=True)
class Seen:
    sent: int = 0
    closed_silent: int = 0      # by the server
    closed_talking: int = 0


class Client(asyncio.Protocol):
    def __init__(self, seen: Seen, lost: asyncio.Event, every_s: float | None) -> None:
        self._seen = seen
        self._lost = lost           # set at every end of a silent connection
        self._every_s = every_s     # None: it falls silent
        self._next: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._transport.write(PACKET)
        self._seen.sent += 1
        if self._every_s is not None:
            self._next = asyncio.get_running_loop().call_later(self._every_s, self._send)

    def connection_lost(self, error: Exception | None) -> None:
        if self._next is None:
            self._seen.closed_silent += 1
            self._lost.set()
        else:
            self._next.cancel()
            self._seen.closed_talking += 1


async def visit(crowd: Crowd) -> Seen:
    """Connect, talk until the input ends, and say what was seen until then."""
    loop = asyncio.get_running_loop()
    seen, lost, places = Seen(), asyncio.Event(), asyncio.Semaphore(AT_ONCE)

    async def connect(every_s: float | None) -> None:
        async with places:
            await loop.create_connection(partial(Client, seen, lost, every_s), "127.0.0.1", crowd.port)

    await asyncio.gather(
        *(connect(crowd.every_s) for _ in range(crowd.talking)), *(connect(None) for _ in range(crowd.silent))
    )
    print("connected", flush=True)
    while seen.closed_silent < crowd.silent:
        await lost.wait()
        lost.clear()
    print("all silent ones closed", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    return seen


def main(argv: list[str]) -> None:
    crowd = Crowd(**json.loads(argv[0]))
    allow_connections(crowd.talking + crowd.silent)
    print(json.dumps(asdict(asyncio.run(visit(crowd)))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
