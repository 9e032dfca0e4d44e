"""One shard of a stateful operator: its logs, what has been decided, and when there is more to decide.

Nothing of Spark is here. A batch is one `advance`: the rows that came, and the watermark, up to which all
rows have come. What the operator gives out is a function of the set of rows and the watermark, not of the
batches in which they came.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow.compute as pc

from tickwheel.spark.shards.segments import Segments, Store

NEVER_US = -(2**63)     # as a watermark: none yet


@dataclass(slots=True)
class Step:
    """What a batch changes. `wanted`: of each log that had rows, the mask of those to keep; `added`: rows to
    append to a log; `next_us`: the next instant at which there is something to give out or to forget."""

    output: Any = None      # table, None: nothing
    wanted: dict[str, Any] = field(default_factory=dict)
    added: dict[str, Any] = field(default_factory=dict)
    next_us: int | None = None


class Operator(Protocol):
    """What the rows of a shard mean. Neither logs nor settings may change while there is state."""

    @property
    def logs(self) -> tuple[str, ...]:
        """The names of its logs."""

    @property
    def settings(self) -> str:
        """What it was made with, in words."""

    def step(self, stored: Mapping[str, Any], new: Any, since_us: int, until_us: int) -> Step:
        """All that is decided after `since_us`, up to and at `until_us`.

        `stored`: the table of each log that is not empty, rows that are no longer wanted among them.
        `new`: the table of rows that came, not late, or None. Their times are int64 microseconds, `at_us`.
        """
        ...


@dataclass(slots=True)
class Progress:
    """What a shard remembers beside its logs: up to when it has decided, and its one timer."""

    decided_us: int = NEVER_US
    next_us: int | None = None


def advance(
    operator: Operator, stores: Mapping[str, Store], progress: Progress, new: Any, watermark_us: int
) -> tuple[Any, Progress]:
    """Play one batch: the output (a table or None) and the progress from then on. O(rows stored + new).

    Rows at or before what has been decided are late: they are left out.
    """
    since = progress.decided_us
    until = max(since, watermark_us)
    if new is not None and since != NEVER_US:
        new = new.filter(pc.greater(new["at_us"], since))
    if new is not None and new.num_rows == 0:
        new = None
    if new is None and (progress.next_us is None or progress.next_us > until):
        return None, Progress(until, progress.next_us)
    logs = {name: Segments(store) for name, store in stores.items()}
    stored = {name: log.rows for name, log in logs.items() if log.rows is not None}
    step = operator.step(stored, new, since, until)
    for name, log in logs.items():
        log.save(step.wanted.get(name), step.added.get(name))
    return step.output, Progress(until, step.next_us)
