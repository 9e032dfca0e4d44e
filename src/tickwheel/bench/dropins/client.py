"""The client of a server that is measured: connections that each send a message and wait for its answer.

    python -m tickwheel.bench.dropins.client ARGUMENTS

It prints a line when it is ready, and when all is answered another one: the seconds that this took.
"""
from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from functools import partial
from time import perf_counter


@dataclass(frozen=True, slots=True)
class Visit:
    port: int
    message: str
    answer_end: str         # how each answer ends, and in what else nothing ends
    connections: int
    messages: int           # of each connection


class Conversation(asyncio.Protocol):
    def __init__(self, visit: Visit, over: asyncio.Future[None]) -> None:
        self._message, self._end = visit.message.encode(), visit.answer_end.encode()
        self._left = visit.messages
        self._over = over

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._message)

    def data_received(self, data: bytes) -> None:
        if data.endswith(self._end):
            self._left -= 1
            if self._left:
                self._transport.write(self._message)
            else:
                self._over.set_result(None)
                self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._over.done():
            self._over.set_exception(error or EOFError("the server closed a connection"))


async def converse(visit: Visit) -> float:
    """Seconds until all messages are answered."""
    loop = asyncio.get_running_loop()
    all_over = [loop.create_future() for _ in range(visit.connections)]
    begin = perf_counter()
    for over in all_over:
        await loop.create_connection(partial(Conversation, visit, over), "127.0.0.1", visit.port)
    await asyncio.gather(*all_over)
    return perf_counter() - begin


def main(argv: list[str]) -> None:
    print("ready", flush=True)
    print(asyncio.run(converse(Visit(**json.loads(argv[0])))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
