"""httpx and anyio on anyio's asyncio backend: a small HTTP server over anyio's streams, an httpx client."""

import anyio
import h11
import httpx

NEVER_S, SOON_S, AMPLE_S = 3600, 0.2, 60


def run(whole, factory):
    async def main():
        return await whole

    return anyio.run(main, backend="asyncio", backend_options={"loop_factory": factory})


async def page(target, seen):
    """Status and body."""
    match target.split("/")[1:]:
        case ["hello", name]:
            return 200, f"hello {name}"
        case ["limited"]:
            with anyio.move_on_after(SOON_S) as scope:
                await anyio.sleep(NEVER_S)
            return 504, f"too late: {scope.cancelled_caught}"
        case ["stuck"]:
            try:
                await anyio.sleep(NEVER_S)
            except anyio.get_cancelled_exc_class():
                seen.append("stuck, and cancelled")
                raise
        case ["thread"]:
            return 200, await anyio.to_thread.run_sync(lambda: "from a thread")
    return 404, "nowhere"


async def converse(stream, seen):
    """One connection, until it ends or has been idle for a while."""
    protocol = h11.Connection(h11.SERVER)
    async with stream:
        while True:
            event = protocol.next_event()
            if event is h11.NEED_DATA:
                with anyio.move_on_after(2 * SOON_S) as scope:
                    try:
                        protocol.receive_data(await stream.receive())
                    except anyio.EndOfStream:
                        protocol.receive_data(b"")
                if scope.cancelled_caught:
                    seen.append("idle")
                    return
            elif isinstance(event, h11.Request):
                status, body = await page(event.target.decode(), seen)
            elif isinstance(event, h11.EndOfMessage):
                headers = [("content-length", str(len(body)))]
                for out in (
                    h11.Response(status_code=status, headers=headers),
                    h11.Data(data=body.encode()),
                    h11.EndOfMessage(),
                ):
                    if data := protocol.send(out):
                        await stream.send(data)
                protocol.start_next_cycle()
            elif isinstance(event, h11.ConnectionClosed):
                return


async def serve(announce, stop, size):
    seen = []
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        announce(listener.extra(anyio.abc.SocketAttribute.local_port))
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, lambda stream: converse(stream, seen))
            await stop.wait()
            group.cancel_scope.cancel()
    return sorted(set(seen))


async def visit(port, size):
    lines = []
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=AMPLE_S) as client:

        async def text(path, **options):
            try:
                response = await client.get(path, **options)
            except httpx.TimeoutException as error:
                lines.append(f"{path}: {type(error).__name__}")
            else:
                lines.append(f"{path}: {response.status_code} {response.text!r}")

        async with anyio.create_task_group() as group:
            for number in range(size):
                group.start_soon(text, f"/hello/{number}")
        lines.sort()
        for path in "/thread", "/limited", "/nowhere":
            await text(path)
        await text("/stuck", timeout=SOON_S)
        await anyio.sleep(4 * SOON_S)  # the server has ended what was idle
        await text("/hello/again")
        with anyio.move_on_after(SOON_S) as scope:
            await text("/stuck")
        lines.append(f"moved on: {scope.cancelled_caught}")
        try:
            with anyio.fail_after(SOON_S):
                await text("/stuck")
        except TimeoutError:
            lines.append("failed after a while")
    return lines
