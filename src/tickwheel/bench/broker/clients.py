"""The clients of a broker: connections that produce, connections that poll; and what all of them saw."""
from __future__ import annotations

import asyncio
from array import array
from collections import Counter, deque
from collections.abc import Callable
from time import monotonic_ns

from tickwheel.bench.broker.frames import ANSWERED_BY, CORRELATION, LENGTH, Fetch, Produce, Record


class Ledger:
    """What the clients write down; `over` is set when so many produces and deliveries have been seen."""

    def __init__(self, produces: int, deliveries: int) -> None:
        self.sent = self.answered = self.errors = 0
        self.late_ns = array("q")           # from a produce's planned time until it is sent
        self.produce_ns = array("q")        # from there to its answer
        self.fetch_ns = array("q")          # from there until a consumer has its record
        self.last_answer_ns = 0             # when the last produce was answered
        self.ends = False                   # polls are not repeated
        self.over = asyncio.Event()
        self.error: Exception | None = None     # for which it ends before its time
        self._produces, self._deliveries = produces, deliveries

    def fail(self, error: Exception) -> None:
        self.error = self.error or error
        self.over.set()

    def check(self) -> None:
        if len(self.produce_ns) >= self._produces and len(self.fetch_ns) >= self._deliveries:
            self.over.set()


class Client(asyncio.Protocol):
    """Sends requests without waiting for answers, which come in order, each once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._bytes = bytearray()
        self._next_id = 0
        self._answered = 0      # correlation ids are counted: the next answer's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if not self._ledger.ends:
            self._ledger.fail(error or EOFError("the broker closed a connection"))

    def _send(self, frame: Callable[[int], bytes]) -> None:
        self._transport.write(frame(self._next_id))
        self._next_id += 1
        self._ledger.sent += 1

    def data_received(self, data: bytes) -> None:
        now_ns = monotonic_ns()
        self._bytes += data
        while len(self._bytes) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self._bytes)[0]
            if len(self._bytes) < end:
                return
            answer = bytes(self._bytes[:end])
            del self._bytes[:end]
            self._ledger.answered += 1
            (correlation_id,) = CORRELATION.unpack_from(answer, ANSWERED_BY)
            if correlation_id != self._answered or correlation_id >= self._next_id:
                self._ledger.errors += 1
            self._answered += 1
            self._take(answer, now_ns)
            self._ledger.check()

    def _take(self, answer: bytes, now_ns: int) -> None:
        raise NotImplementedError


class Producer(Client):
    """Brings records at their times, one a request."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._waiting: deque[tuple[Produce, int]] = deque()     # that are not answered, and their times

    def produce(self, request: Produce, record: Record) -> None:
        self._ledger.late_ns.append(monotonic_ns() - record.planned_ns)
        self._waiting.append((request, record.planned_ns))
        self._send(lambda correlation_id: request.frame(correlation_id, record))

    def _take(self, answer: bytes, now_ns: int) -> None:
        if not self._waiting:
            return      # an answer that nobody asked for: its correlation id says so
        request, planned_ns = self._waiting.popleft()
        self._ledger.errors += request.error(answer) != 0
        self._ledger.produce_ns.append(now_ns - planned_ns)
        self._ledger.last_answer_ns = now_ns


class Consumer(Client):
    """Polls a partition from its first offset on, each time for what is behind the last record."""

    def __init__(self, ledger: Ledger, request: Fetch) -> None:
        super().__init__(ledger)
        self._request = request
        self._offset = 0
        self.numbers: Counter[int] = Counter()      # of the records that came

    def poll(self) -> None:
        self._send(lambda correlation_id: self._request.frame(correlation_id, self._offset))

    def _take(self, answer: bytes, now_ns: int) -> None:
        if self._request.error(answer):
            self._ledger.errors += 1
        else:
            for end_offset, record in self._request.records(answer):
                self._offset = end_offset
                self.numbers[record.number] += 1
                self._ledger.fetch_ns.append(now_ns - record.planned_ns)
        if not self._ledger.ends:
            self.poll()
