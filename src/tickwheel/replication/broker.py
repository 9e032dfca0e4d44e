"""Broker: a replicated log served to Kafka's clients, on an asyncio loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from threading import get_ident
from types import TracebackType
from typing import Self

from tickwheel.loopexecutor import LoopExecutor
from tickwheel.recipes.idle import IdleTracker
from tickwheel.replication.apis import Cluster
from tickwheel.replication.connection import Connection, Service
from tickwheel.replication.follower import Follower
from tickwheel.replication.replicas import ReplicaManager

__all__ = ["Broker"]

BACKLOG = 1024
ANSWERS_A_TURN = 100  # of the loop: so many answers that come at once leave it its time
LAST_ANSWERS_S = 5.0  # that clients have to read them when the broker ends


class Broker:
    """Serves a log, of which `followers` are all the replicas, on the running loop; `async with` closes it.

    manager, followers  what is served; `close()` closes them too
    auto_create         a topic that a client asks for is made
    max_request         bytes; a client that sends a longer one is closed
    frame_timeout       seconds within which a request that has begun must be whole
    idle_timeout        seconds after which a silent client is closed, unless its request is handled

    Whoever can reach the address can read and write: there is no authentication.
    """

    def __init__(
        self,
        manager: ReplicaManager,
        followers: Sequence[Follower],
        *,
        auto_create: bool = False,
        max_request: int = 100 << 20,
        frame_timeout: float = 30.0,
        idle_timeout: float = 600.0,
    ) -> None:
        if not followers:
            raise ValueError("followers must be those of all replicas, got none")
        if max_request < 1:
            raise ValueError(f"max_request must be >= 1, got {max_request}")
        self._manager = manager
        self._followers = tuple(followers)
        loop = asyncio.get_running_loop()
        executor = LoopExecutor(loop, ANSWERS_A_TURN)
        self._silent: IdleTracker[Connection] = IdleTracker(
            idle_timeout, lambda client: executor.submit(client.fell_silent), timer=manager.timer
        )
        self._service = Service(
            Cluster(manager, tuple(follower.id for follower in followers), auto_create, "", 0),
            loop,
            get_ident(),
            executor,
            self._silent,
            max_request,
            frame_timeout,
        )
        self._server: asyncio.Server | None = None

    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> tuple[str, int]:
        """Take connections from now on; host and port, which the system chose if it is 0."""
        self._server = await self._service.loop.create_server(
            lambda: Connection(self._service), host, port, backlog=BACKLOG
        )
        address: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return address

    async def close(self) -> None:
        """Take no more connections and requests, answer what waits with what there is, close all files."""
        if self._server is not None:
            # Closed at once, asyncio loses those that it has accepted: to be a connection takes two turns.
            for listening in self._server.sockets:
                self._service.loop.remove_reader(listening)
            for _ in range(2):
                await asyncio.sleep(0)
            self._server.close()
        for connection in list(self._service.connections):
            connection.finish()
        for follower in self._followers:
            follower.stop()
        self._manager.close()
        if self._service.connections:
            self._service.empty.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_ANSWERS_S):
                    await self._service.empty.wait()
        for connection in list(self._service.connections):
            connection.abort()
        self._silent.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
