"""websockets: a server that pings many connections; some never answer, and are closed for it."""

import asyncio
import base64
import os
import resource
from collections import Counter

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve as listen
from websockets.exceptions import ConnectionClosed

PING_EVERY_S, PING_LIMIT_S, CLOSE_LIMIT_S = 1.0, 10.0, 1.0
MUTE = 5
AT_ONCE = 50  # handshakes
AMPLE_S = 120


def allow_files(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


async def serve(announce, stop, size):
    allow_files(size + 100)
    seen = Counter()

    async def handle(connection):
        try:
            async for message in connection:
                await connection.send(message.upper())
        except ConnectionClosed:
            pass
        answered = "answered pings" if connection.latency else "answered no ping"
        seen[f"{answered}, closed {connection.close_code} {connection.close_reason}"] += 1

    async with listen(
        handle,
        "127.0.0.1",
        0,
        ping_interval=PING_EVERY_S,
        ping_timeout=PING_LIMIT_S,
        close_timeout=CLOSE_LIMIT_S,
        open_timeout=AMPLE_S,
        backlog=1024,
    ) as server:
        announce(server.sockets[0].getsockname()[1])
        await stop.wait()
    return [f"{what}: {times:,}" for what, times in sorted(seen.items())]


async def visit(port, size):
    allow_files(size + 100)
    uri, gate = f"ws://127.0.0.1:{port}", asyncio.Semaphore(AT_ONCE)
    limits = {"ping_interval": PING_EVERY_S, "ping_timeout": AMPLE_S, "open_timeout": AMPLE_S}

    async def open_one(_):
        async with gate:
            return await connect(uri, **limits)

    async def ask(connection, question):
        await connection.send(question)
        async with asyncio.timeout(AMPLE_S):
            return await connection.recv()

    async def ask_all(connections, word):
        answers = await asyncio.gather(*(ask(each, f"{word} {i}") for i, each in enumerate(connections)))
        words = Counter(answer.partition(" ")[0] for answer in answers)
        return f"{word}: {words}, {len(set(answers)):,} differ"

    async with asyncio.timeout(AMPLE_S):
        mute = asyncio.gather(*(never_answer(port) for _ in range(MUTE)))
        connections = await asyncio.gather(*map(open_one, range(size)))
        lines = [f"{len(connections):,} connected", await ask_all(connections, "first")]
        while not all(connection.latency for connection in connections):  # each has had its pong
            await asyncio.sleep(0.1)
        await asyncio.sleep(2 * PING_EVERY_S)
        lines.append(await ask_all(connections, "again"))
        lines += [f"mute: {ended}" for ended in await mute]
        await asyncio.gather(*(connection.close() for connection in connections))
    return [*lines, str(Counter(connection.close_code for connection in connections))]


async def never_answer(port):
    """A client that says hello and then nothing: how the server ends it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    key = base64.b64encode(os.urandom(16)).decode()
    writer.write(
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    status = await reader.readline()
    frames = await reader.read()  # pings that nobody answers, then a close
    writer.close()
    return f"{status.decode().split()[1]}, told {frames[-22:].decode()!r}"
