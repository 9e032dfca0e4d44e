"""What a run is, and what it saw."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Setting:
    """Of a broker and its clients, whatever the rate."""

    seconds: float          # of load
    producers: int          # connections that produce, in turn
    consumers: int          # connections that poll, in turn over the partitions
    waiting: int            # connections that poll where nothing comes
    partitions: int
    replicas: int           # of each partition; one leads

    @property
    def connections(self) -> int:
        return self.producers + self.consumers + self.waiting


@dataclass(frozen=True, slots=True)
class Seen:
    """What the clients saw, until all was answered or their patience was over."""

    sent: int               # requests: produces and fetches
    answered: int
    errors: int             # answers with an error, or to another request than the next
    records: int            # deliveries that there should be: a record to each consumer of its partition
    delivered: int          # of these, at least once
    again: int              # deliveries beyond the first
    rate: float             # produces answered a second, from the first one's time to the last answer
    late_p99_ms: float      # from a produce's planned time until it is sent
    produce_p50_ms: float | None        # from the planned time to the answer
    produce_p99_ms: float | None
    fetch_p50_ms: float | None          # from the planned time until a consumer has the record
    fetch_p99_ms: float | None


class Sizes(NamedTuple):
    """Of the purgatories at a moment."""

    at_s: float             # since the first produce's time
    produces: int           # operations that wait
    produce_watched: int    # (operation, key) pairs
    fetches: int
    fetch_watched: int


@dataclass(frozen=True, slots=True)
class Sample:
    seen: Seen
    cpu_share: float        # of one core: the broker's process, all threads, while it had its load
    cpu_us: float           # of it, a request that was answered meanwhile
    sizes: list[Sizes]

    def most(self, size: Callable[[Sizes], int]) -> int | None:
        """At any moment, as far as was seen."""
        return max(map(size, self.sizes), default=None)
