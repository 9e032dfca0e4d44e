"""The kata's stream: events of many clients, some delivered again; the same for the same seed.

Deliveries come as a Poisson process, `rate` a second in all: clients do not take turns, and a consumer
that keeps up with evenly spaced events alone keeps up with none that there are. Each is, with the
probability `duplicates`, an event of the last `AGAIN_WITHIN_S` once more (the same id, client and
creation), each of these being as likely as another; and else a new one, created now, of any client.
So the share of duplicates is the same at every moment, and no event comes again later.

Times are whole microseconds from the start, and no two deliveries have the same: who sorts by time, on a
thread or on Spark, sorts the same way.
"""
from __future__ import annotations

from random import Random
from typing import NamedTuple
from uuid import UUID

from tickwheel.workload import check

WINDOW_S = 10.0         # the kata assumes that no event comes again after so long
# A second less: a stream that runs late in real time still keeps what the kata assumes.
AGAIN_WITHIN_S = 9.0
FASTEST = 100_000.0     # a second: from there on microseconds would have to be shared
MOST = 5_000_000        # deliveries


class Delivery(NamedTuple):
    """One push of an event; it is a duplicate where `delivered_s > created_s`. Seconds from the start."""

    created_s: float
    client_id: int
    uuid: UUID
    delivered_s: float

    @property
    def again(self) -> bool:
        return self.delivered_s > self.created_s


def deliveries(
    *, rate: float = 1000.0, duration_s: float = 30.0, clients: int = 300, duplicates: float = 0.05,
    seed: int = 1,
) -> list[Delivery]:
    """All that are due in `duration_s`, in the order of `delivered_s`: a pure function of its arguments.

    Clients are numbered from 0. A shorter stream begins a longer one. ValueError: an argument out of its
    range. Cost: 5 us and 300 bytes a delivery.
    """
    check("rate", rate, f"> 0 and at most {FASTEST:,.0f} a second", 0 < rate <= FASTEST)
    check("duration_s", duration_s, "> 0", duration_s > 0)
    few = f"so short that there are at most {MOST:,} deliveries"
    check("duration_s", f"{duration_s:g} s at {rate:g} a second", few, duration_s * rate <= MOST)
    check("clients", clients, ">= 1", clients >= 1)
    check("duplicates", duplicates, ">= 0 and < 1", 0 <= duplicates < 1)
    check("seed", seed, ">= 0", seed >= 0)
    random = Random(seed)
    per_us, end_us, within_us = rate / 1e6, duration_s * 1e6, AGAIN_WITHIN_S * 1e6
    delivered: list[Delivery] = []
    first: list[tuple[int, Delivery]] = []      # the new ones among them, each with its microsecond
    oldest = 0                                  # in `first`, that may come again
    exact_us, now_us = 0.0, -1
    while True:
        exact_us += random.expovariate(per_us)
        now_us = max(now_us + 1, round(exact_us))
        if now_us >= end_us:
            return delivered
        now_s = now_us / 1e6
        while oldest < len(first) and now_us - first[oldest][0] > within_us:
            oldest += 1
        if random.random() < duplicates and oldest < len(first):
            delivery = first[random.randrange(oldest, len(first))][1]._replace(delivered_s=now_s)
        else:
            uuid = UUID(int=random.getrandbits(128), version=4)
            delivery = Delivery(now_s, random.randrange(clients), uuid, now_s)
            first.append((now_us, delivery))
        delivered.append(delivery)
