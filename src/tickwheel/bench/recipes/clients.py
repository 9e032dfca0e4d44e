"""Clients that send messages at a rate, in real time. Some of them stop: every offline event is looked at.

Who stays sends a message every `stayers / rate` seconds, all in turn, in random order. Who stops is touched
when all come online, and once more when it says goodbye, at a planned moment that is written down.
"""
from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from math import ceil
from time import monotonic, process_time, sleep

from tickwheel.bench.recipes.sample import EARLY, MISSING, TWICE, Sample, Sizes, share
from tickwheel.bench.recipes.touches import Make
from tickwheel.bench.recipes.trackers import EVERY_S, Nothing

CPU, LATE_P99, LATE_MAX, EVENTS, RATE = "CPU %", "late p99 ms", "late max ms", "events", "messages/s"

STOPPING = 0.1          # of the clients
STEP_S = 0.001          # between two batches of messages
ARRIVAL_S = 1.0         # in which all clients come online, if a fifth of the timeout is not less,
GOODBYES_S = 2.0        # and then the moments of who stops, if two fifths are not less
GRACE_S = EVERY_S + 0.5     # until a scan or a ring must have told the last
BASELINE_S = 6.0        # of load without a tracker, which has nobody to wait for
SPARE = 1.02            # times the seconds between two messages of a client: no timeout is shorter


@dataclass(frozen=True, slots=True)
class Faults:
    """What an offline event must not be, counted over all of them."""

    missing: int
    twice: int
    early: int
    late_s: list[float]         # of those that are right; sorted


def timeout_s(sizes: Sizes, rate: float) -> float:
    """The one asked for; whole seconds and longer, if who stays would be silent for so long."""
    needed = SPARE * sizes.clients / rate
    return sizes.timeout_s if sizes.timeout_s >= needed else float(ceil(needed))


def check(events: Sequence[tuple[int, float]], last: Mapping[int, float], timeout: float) -> Faults:
    """`events` are (client, moment), `last` the moment of each goodbye, taken just before it: no deadline is
    before the one seen here. An event of a client that never stopped is early."""
    seen = Counter(client for client, _ in events)
    ends = [(moment, last[client] + timeout) for client, moment in events if client in last]
    strangers = sum(count for client, count in seen.items() if client not in last)
    return Faults(
        missing=sum(client not in seen for client in last),
        twice=sum(seen[client] - 1 for client in last if client in seen),
        early=strangers + sum(moment < due for moment, due in ends),
        late_s=sorted(moment - due for moment, due in ends if moment >= due),
    )


def measure_clients(make: Make, rate: float, sizes: Sizes, seed: int) -> Sample:
    """CPU is that of the process while messages come, the load's own contained: see the row without a
    tracker."""
    timeout = timeout_s(sizes, rate)
    clients = list(range(sizes.clients))
    random.Random(seed).shuffle(clients)
    count = max(1, int(STOPPING * len(clients)))
    stopping, circle = clients[:count], cycle(clients[count:])
    events: list[tuple[int, float]] = []
    tracker = make(timeout, lambda client: events.append((client, monotonic())))
    touch = tracker.touch

    steps = int(min(ARRIVAL_S, timeout / 5) / STEP_S)
    begin = monotonic()
    for step in range(steps):
        for client in clients[step * len(clients) // steps : (step + 1) * len(clients) // steps]:
            touch(client)
        _until(begin + (step + 1) * STEP_S)

    last: dict[int, float] = {}
    goodbyes_s = min(GOODBYES_S, 2 * timeout / 5)
    goodbyes = int(goodbyes_s / STEP_S)
    live_s = goodbyes_s + timeout + GRACE_S
    if make is Nothing:
        live_s = min(live_s, BASELINE_S)
    sent = step = 0
    cpu, begin = process_time(), monotonic()
    while (elapsed := monotonic() - begin) < live_s:
        # As many as are due by now: a step that comes late has more.
        due = int((elapsed + STEP_S) * rate)
        for client in islice(circle, due - sent):
            touch(client)
        sent = due
        until = min(len(stopping), (step := step + 1) * len(stopping) // goodbyes)
        for client in stopping[len(last) : until]:
            last[client] = monotonic()
            touch(client)
        _until(begin + elapsed + STEP_S)
    cpu, elapsed = process_time() - cpu, monotonic() - begin
    tracker.close()

    seen = {CPU: 100 * cpu / elapsed, RATE: sent / elapsed}
    if make is not Nothing:
        faults = check(events, last, timeout)
        seen |= {
            EVENTS: len(events), MISSING: faults.missing, TWICE: faults.twice, EARLY: faults.early,
        }
        if faults.late_s:
            seen |= {LATE_P99: share(faults.late_s, 0.99) * 1e3, LATE_MAX: faults.late_s[-1] * 1e3}
    return Sample(seen)


def _until(moment: float) -> None:
    if (rest := moment - monotonic()) > 0:
        sleep(rest)
