"""Servers on a loop, with their client in a process of its own: CPU microseconds of the server a request.

Beside it, how many were answered a second, on a machine that both have to share.
"""
from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from time import process_time

from tickwheel.bench.dropins.client import Visit
from tickwheel.bench.dropins.sample import Sample
from tickwheel.extras import require

CONNECTIONS = 32
LIMIT_S = 30.0
HELLO = "hello"
LINE = "x" * 60 + "\n"


async def measure_echo(n: int, seed: int) -> Sample:
    """A line is sent back: streams, as they are."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        return await _visited(server.sockets[0].getsockname()[1], LINE, LINE[-1], n)


async def measure_limited_echo(n: int, seed: int) -> Sample:
    """The same, and each line must come within half a minute."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            async with asyncio.timeout(LIMIT_S):
                line = await reader.readline()
            if not line:
                break
            writer.write(line)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        return await _visited(server.sockets[0].getsockname()[1], LINE, LINE[-1], n)


async def measure_hello(n: int, seed: int) -> Sample:
    """A page of aiohttp's."""
    async with _hello_server() as port:
        return await _visited(port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", HELLO, n)


@asynccontextmanager
async def _hello_server() -> AsyncIterator[int]:
    web = require("aiohttp.web", "the server of pages", "bench")

    async def hello(request: object) -> object:
        return web.Response(text=HELLO)

    application = web.Application()
    application.router.add_get("/", hello)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _visited(port: int, message: str, answer_end: str, requests: int) -> Sample:
    messages = max(1, requests // CONNECTIONS)
    visit = Visit(port, message, answer_end, CONNECTIONS, messages)
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tickwheel.bench.dropins.client", json.dumps(asdict(visit)), stdout=PIPE
    )
    assert client.stdout is not None
    await client.stdout.readline()      # it is ready
    begin = process_time()
    seconds = await client.stdout.readline()
    cpu_s = process_time() - begin
    if await client.wait():
        raise RuntimeError("the client failed: its error is above")
    answered = messages * CONNECTIONS
    return Sample(cpu_s * 1e6 / answered, round(answered / float(seconds)))
