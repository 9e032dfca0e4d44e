"""The load of a broker, in a process of its own:

    python -m tickwheel.bench.broker.load ARGUMENTS

It prints, each as a line of JSON: when it begins, on the system's monotonic clock; the requests that were
answered when the last produce was and all consumers had its record; and what it saw.
"""
from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from time import monotonic, sleep

from tickwheel.bench.broker.clients import Consumer, Ledger, Producer
from tickwheel.bench.broker.frames import MAX_WAIT_S, Fetch, Produce, Record
from tickwheel.bench.broker.sample import Seen, Setting
from tickwheel.bench.recipes.descriptors import allow_connections

PATIENCE_S = 60.0       # after the last produce's time; what is not answered then never is
LAST_POLLS_S = 10.0     # after which the last polls must have been answered
SETTLES_S = 2 * MAX_WAIT_S      # from the first poll to the first produce


@dataclass(frozen=True, slots=True)
class Visit:
    host: str
    port: int
    topic: str              # to which records come
    quiet_topic: str        # with one partition, to which none do
    rate: int               # produces a second
    seed: int
    setting: Setting


def planned_times(rate: int, seconds: float, seed: int) -> array[float]:
    """When requests are sent that come one by one, independently of one another: a Poisson process.

    Of those with as many requests as the rate says, so that what was reached can be compared with it.
    """
    uniform = random.Random(seed).uniform
    return array("d", sorted(uniform(0.0, seconds) for _ in range(max(1, round(rate * seconds)))))


async def visit(plan: Visit) -> Seen:
    """Have the load, and say what was seen. An error: a connection was lost, or something cannot be sent."""
    loop, setting = asyncio.get_running_loop(), plan.setting
    times = planned_times(plan.rate, setting.seconds, plan.seed)
    wanted = [number % setting.partitions for number in range(setting.consumers)]
    records = sum(len(range(partition, len(times), setting.partitions)) for partition in wanted)
    ledger = Ledger(len(times), records)
    loop.set_exception_handler(lambda _, context: ledger.fail(context.get("exception", OSError(context))))
    producers = [
        (await loop.create_connection(partial(Producer, ledger), plan.host, plan.port))[1]
        for _ in range(setting.producers)
    ]
    consumers = [await _consumer(plan, ledger, Fetch(plan.topic, partition)) for partition in wanted]
    for number in range(setting.waiting):
        waiter = await _consumer(plan, ledger, Fetch(plan.quiet_topic, 0))
        # Else all of them time out at once, for ever.
        loop.call_later(MAX_WAIT_S * number / setting.waiting, waiter.poll)
    for consumer in consumers:
        consumer.poll()
    await asyncio.sleep(SETTLES_S)
    before, begin = ledger.answered, monotonic()
    print(json.dumps(begin), flush=True)
    requests = [Produce(plan.topic, partition) for partition in range(setting.partitions)]

    def send(number: int) -> None:
        record = Record(int((begin + times[number]) * 1e9), number)
        producers[number % len(producers)].produce(requests[number % len(requests)], record)

    pace = threading.Thread(target=_keep_pace, args=(begin, times, loop, send), name="pace", daemon=True)
    pace.start()
    with suppress(TimeoutError):
        async with asyncio.timeout(setting.seconds + PATIENCE_S):
            await ledger.over.wait()
    if ledger.error:
        raise ledger.error
    print(json.dumps(ledger.answered - before), flush=True)
    ledger.ends = True
    until = monotonic() + LAST_POLLS_S
    while ledger.answered < ledger.sent and monotonic() < until:
        await asyncio.sleep(0.01)
    delivered = sum(len(consumer.numbers) for consumer in consumers)
    return Seen(
        sent=ledger.sent,
        answered=ledger.answered,
        errors=ledger.errors,
        records=records,
        delivered=delivered,
        again=len(ledger.fetch_ns) - delivered,
        rate=len(ledger.produce_ns) / max(1e-9, ledger.last_answer_ns / 1e9 - begin),
        late_p99_ms=_percentile_ms(ledger.late_ns, 0.99) or 0.0,
        produce_p50_ms=_percentile_ms(ledger.produce_ns, 0.50),
        produce_p99_ms=_percentile_ms(ledger.produce_ns, 0.99),
        fetch_p50_ms=_percentile_ms(ledger.fetch_ns, 0.50),
        fetch_p99_ms=_percentile_ms(ledger.fetch_ns, 0.99),
    )


async def _consumer(plan: Visit, ledger: Ledger, request: Fetch) -> Consumer:
    loop = asyncio.get_running_loop()
    _, consumer = await loop.create_connection(partial(Consumer, ledger, request), plan.host, plan.port)
    return consumer


def _keep_pace(
    begin: float, times: Sequence[float], loop: asyncio.AbstractEventLoop, send: Callable[[int], object]
) -> None:
    """Have each request sent at its time. A thread: what a loop sleeps is rounded up to milliseconds."""
    for number, at in enumerate(times):
        ahead = begin + at - monotonic()
        if ahead > 0:
            sleep(ahead)
        loop.call_soon_threadsafe(send, number)


def _percentile_ms(ns: Sequence[int], share: float) -> float | None:
    return sorted(ns)[int(len(ns) * share)] / 1e6 if ns else None


def main(argv: list[str]) -> None:
    arguments = json.loads(argv[0])
    plan = Visit(**arguments | {"setting": Setting(**arguments["setting"])})
    allow_connections(plan.setting.connections)
    print(json.dumps(asdict(asyncio.run(visit(plan)))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
