"""Connection: one client's. Cuts frames, has one request handled at a time, answers in order."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from typing import Any, cast

from tickwheel.log import logger
from tickwheel.loopexecutor import LoopExecutor
from tickwheel.recipes.idle import IdleTracker
from tickwheel.replication.apis import HANDLERS, Cluster, Refused
from tickwheel.replication.wire import Malformed, Request, decode, encode

__all__ = ["Connection", "Service"]

_LENGTH = struct.Struct(">i")
AHEAD = 64 << 10  # bytes of further requests that are taken in while one is handled
UNSENT = 64 << 10  # bytes of answers that may wait for the client: with more, its next request waits


@dataclass(frozen=True, slots=True)
class Service:
    """What the connections of a broker share. All of it is the loop's, but any thread may use `executor`."""

    cluster: Cluster
    loop: asyncio.AbstractEventLoop
    thread: int  # in which the loop runs
    executor: LoopExecutor  # brings answers to the loop
    silent: IdleTracker[Connection]
    max_request: int  # bytes
    frame_timeout: float  # seconds
    connections: set[Connection] = field(default_factory=set)
    empty: asyncio.Event = field(default_factory=asyncio.Event)  # for who waits until the last one is gone


class Connection(asyncio.Protocol):
    """Closed, with a line in the log: at bytes that are no request that is served, after a request that is
    not whole within `frame_timeout`, and when it was silent for long. Nobody else notices.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._bytes = bytearray()  # that came, from the next request on
        self._request: Request | None = None  # that is handled; the next waits
        self._in_handler = False
        self._comes_again = False  # a turn in which the loop looks at what came further
        self._sends = True  # its answers are read
        self._last = False  # no further request is taken
        self._deadline: asyncio.TimerHandle | None = None  # of a request that is not whole

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=UNSENT)
        peer = transport.get_extra_info("peername")  # None: it has gone already
        self._peer = "{}:{}".format(*peer) if peer else "a client"
        host, port, *_ = transport.get_extra_info("sockname")
        self._cluster = self._service.cluster._replace(host=host, port=port)
        self._service.connections.add(self)
        self._service.silent.touch(self)

    def data_received(self, data: bytes) -> None:
        self._bytes += data
        self._touch()
        if self._comes_again:
            self._pace()
        else:
            self._next()

    def _touch(self) -> None:
        if not self._last:  # else what is left of it has a deadline of its own, and the timer is closed
            self._service.silent.touch(self)

    def _next(self) -> None:
        """Have one request handled, if it is whole and its turn; another one in the loop's next turn."""
        if self._transport.is_closing():
            return
        try:
            if self._request is None and self._sends and (frame := self._cut()) is not None:
                self._handle(decode(frame))
                if self._request is None and self._bytes:
                    self._comes_again = True
                    self._service.loop.call_soon(self._again)
        except Malformed as problem:
            self._end(str(problem))
            return
        except Exception:
            logger().exception("%s closed: its request failed", self._peer)
            self._transport.abort()
            return
        self._pace()

    def _again(self) -> None:
        self._comes_again = False
        self._next()

    def _cut(self) -> bytes | None:
        """The next request's bytes, if it is whole."""
        if len(self._bytes) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._bytes)
        if not 0 <= length <= self._service.max_request:
            raise Malformed(f"a request must have 0 to {self._service.max_request} bytes, got {length}")
        end = _LENGTH.size + length
        if len(self._bytes) < end:
            return None
        with memoryview(self._bytes) as view:
            frame = bytes(view[_LENGTH.size : end])
        del self._bytes[:end]
        return frame

    def _pace(self) -> None:
        """Read on or not, and wait for the rest of a request or not."""
        waits = self._request is not None or self._comes_again or not self._sends
        if waits and len(self._bytes) > AHEAD:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
        if waits or not self._bytes:
            self._drop_deadline()
        elif self._deadline is None:
            self._deadline = self._service.loop.call_later(self._service.frame_timeout, self._late)

    def _handle(self, request: Request) -> None:
        self._drop_deadline()
        self._request = request
        self._in_handler = True
        try:
            HANDLERS[request.api](self._cluster, request, partial(self._answer, request))
        finally:
            self._in_handler = False

    def _answer(self, request: Request, response: Any) -> None:
        """From any thread. Within its own handler at once, else in a turn of the loop with others."""
        if self._in_handler and get_ident() == self._service.thread:
            self._send(request, response)
        else:
            self._service.executor.submit(partial(self._bring, request, response))

    def _bring(self, request: Request, response: Any) -> None:
        if self._request is not request:
            return  # the client has gone
        try:
            self._send(request, response)
        except Exception:
            logger().exception("%s closed: its answer failed", self._peer)
            self._transport.abort()
        self._next()

    def _send(self, request: Request, response: Any) -> None:
        self._request = None
        self._touch()
        if isinstance(response, Refused):
            self._end(response.reason)
        elif response is not None:
            self._transport.write(encode(request, response))
        if self._last:
            self._transport.close()

    def pause_writing(self) -> None:
        self._sends = False

    def resume_writing(self) -> None:
        self._sends = True
        self._touch()
        self._next()

    # The end

    def _late(self) -> None:
        self._end(
            f"a request must be whole within {self._service.frame_timeout} s, got {len(self._bytes)} bytes"
        )

    def fell_silent(self) -> None:
        """Nothing has come for long. It is not silent while its request is handled."""
        if self in self._service.silent or self._transport.is_closing():
            return
        if self._request is not None:
            self._touch()
        else:
            self._end("it was silent for too long")

    def _end(self, reason: str) -> None:
        # One line, whatever is in a name that the client has sent.
        printable = "".join(one if one.isprintable() else repr(one)[1:-1] for one in reason)
        logger().warning("%s closed: %s", self._peer, printable)
        self._transport.abort()

    def finish(self) -> None:
        """Answer what is handled, take no more, and close."""
        self._last = True
        if self._request is None:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._request = None
        self._bytes.clear()
        self._drop_deadline()
        self._service.silent.remove(self)
        self._service.connections.discard(self)
        if not self._service.connections:
            self._service.empty.set()

    def _drop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
