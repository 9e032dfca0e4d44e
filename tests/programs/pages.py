"""aiohttp: a server with pages, a stream, time limits and a web socket; a client with limits of its own."""

import asyncio
from collections import Counter

import aiohttp
from aiohttp import web

NEVER_S, SOON_S, AMPLE_S = 3600, 0.2, 60


def application(seen):
    routes = web.RouteTableDef()

    @routes.get("/hello/{name}")
    async def hello(request):
        seen["hello"] += 1
        return web.Response(text=f"hello {request.match_info['name']}")

    @routes.post("/echo")
    async def echo(request):
        async with asyncio.timeout(AMPLE_S):
            return web.Response(body=await request.read())

    @routes.get("/stream")
    async def stream(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(5):
            await asyncio.sleep(0.01)
            await response.write(f"piece {number}\n".encode())
        return response

    @routes.get("/stuck")
    async def stuck(request):
        try:
            await asyncio.sleep(NEVER_S)
        finally:
            seen["stuck, and left alone"] += 1

    @routes.get("/limited")
    async def limited(request):
        try:
            async with asyncio.timeout(SOON_S):
                await asyncio.sleep(NEVER_S)
        except TimeoutError:
            seen["limited"] += 1
            return web.Response(status=504, text="too late")

    @routes.get("/talk")
    async def talk(request):
        socket = web.WebSocketResponse(heartbeat=SOON_S)
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data.upper())
        seen[f"talk ended with {socket.close_code}"] += 1
        return socket

    made = web.Application(handler_args=None)
    made.add_routes(routes)
    return made


async def serve(announce, stop, size):
    seen = Counter()
    runner = web.AppRunner(
        application(seen), handle_signals=False, keepalive_timeout=SOON_S, handler_cancellation=True
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    announce(site._server.sockets[0].getsockname()[1])
    await stop.wait()
    await runner.cleanup()
    return [f"{what}: {times}" for what, times in sorted(seen.items())]


async def visit(port, size):
    lines = []
    base = f"http://127.0.0.1:{port}"
    limits = aiohttp.ClientTimeout(total=AMPLE_S)
    async with aiohttp.ClientSession(base, timeout=limits) as session:

        async def text(path, **options):
            async with session.get(path, **options) as response:
                return f"{path}: {response.status} {await response.text()!r}"

        lines += await asyncio.gather(*(text(f"/hello/{number}") for number in range(size)))
        await asyncio.sleep(2 * SOON_S)  # the server has closed the idle connections
        lines.append(await text("/hello/again"))
        async with session.post("/echo", data=b"x" * 1_000_000) as response:
            lines.append(f"/echo: {len(await response.read()):,} bytes")
        lines += [await text("/stream"), await text("/limited"), await text("/nowhere")]
        for limit in aiohttp.ClientTimeout(total=SOON_S), aiohttp.ClientTimeout(sock_read=SOON_S):
            try:
                lines.append(await text("/stuck", timeout=limit))
            except TimeoutError as error:
                lines.append(f"/stuck: {type(error).__name__}")
        async with session.ws_connect("/talk", heartbeat=SOON_S) as socket:
            speech = asyncio.create_task(speak(socket, ["one", "two"]))
            lines += [f"/talk: {await socket.receive_str()}" for _ in range(2)]
            await speech
            lines.append(f"/talk: closed {socket.closed}")
    return lines


async def speak(socket, words):
    """With pauses, through which heartbeats both ways keep the socket open."""
    for word in words:
        await asyncio.sleep(3 * SOON_S)
        await socket.send_str(word)
