"""Requests and what completes them: of each operation one outcome, completed or expired.

What is stored is the requests that are not decided, completions that a request to come may ask for, and of
each id up to when its requests have been decided: its *horizon*. A request at or before its id's horizon is
done with, be it one that comes again or one that is no longer wanted and still in its log. So a horizon is
remembered while either may be, and no completion is needed to tell what has been decided.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tickwheel.spark.shards.grouping import FOREVER_US, Earliest, ascending, begins, encode, timestamps
from tickwheel.spark.shards.shard import NEVER_US, Step

TIMES = {"requests": ("at_us", "deadline_us"), "completions": ("at_us",), "horizons": ("until_us",)}


class Delayed:
    """In: rows of `id`, `at_us`, `deadline_us`, null for a completion. Out: an operation a row, `id,
    requested_at, deadline, outcome, completed_at`; completed_at is null where the outcome is "expired".

    An operation is a request. Of the completions from `delay` before it up to and at its deadline the least
    counts. It is decided at the later of request and completion, or at its deadline if none counts. Other
    requests of its id up to and at `delay` after that instant are duplicates: of them all, the one with the
    least (at, deadline) is the operation. A request after that is another operation.
    """

    logs = tuple(TIMES)

    def __init__(self, delay_us: int) -> None:
        self._delay_us = delay_us
        self.settings = f"delay {delay_us} us"

    def step(self, stored: Mapping[str, Any], new: Any, since_us: int, until_us: int) -> Step:
        """O(n log n) in the rows stored and new, and O(k n) in the n of ids with k operations to decide."""
        requests, completions, horizons = tables(stored, new)
        n_stored = {log: stored[log].num_rows if log in stored else 0 for log in TIMES}
        (request, completion, known), ids = encode(requests["id"], completions["id"], horizons["id"])
        at, deadline = requests["at_us"].to_numpy(), requests["deadline_us"].to_numpy()
        completed = completions["at_us"].to_numpy()
        reached = horizons["until_us"].to_numpy()
        horizon = np.full(len(ids), NEVER_US)
        np.maximum.at(horizon, known, reached)

        # One whose deadline has passed is done with also when its horizon is forgotten.
        live = np.flatnonzero((at > horizon[request]) & (deadline > since_us))
        live = live[np.lexsort((deadline[live], at[live], request[live]))]
        earliest = Earliest(completion, completed, len(ids))
        heads, counted, instant = self._decide(live, request, at, deadline, earliest, horizon, until_us)
        over = instant <= until_us

        # A pending operation is decided after `until`: its other requests up to `delay` later add nothing.
        pending = heads[~over]
        shadow = horizon.copy()
        shadow[request[pending]] = until_us + self._delay_us
        keep: Any = np.zeros(len(at), bool)
        keep[live[at[live] > shadow[request[live]]]] = True
        keep[pending] = True

        # A decided request may stay in its log: its horizon is forgotten when its deadline alone tells.
        forget = horizon.copy()
        logged = slice(n_stored["requests"])
        done = np.flatnonzero(at[logged] <= horizon[request[logged]])
        np.maximum.at(forget, request[done], deadline[done])
        remember = forget > until_us
        moved: Any = np.zeros(len(ids), bool)
        moved[request[heads[over]]] = True
        fresh = np.flatnonzero(moved & remember)

        # A request to come is after `until`, so it can ask for these; a pending one has no other.
        useful = completed + self._delay_us > until_us

        masks = {
            "requests": keep,
            "completions": useful,
            "horizons": remember[known] & (reached == horizon[known]),
        }
        step = Step(wanted={log: masks[log][: n_stored[log]] for log in stored})
        for log, rows in (("requests", requests), ("completions", completions)):
            step.added[log] = rows.slice(n_stored[log]).filter(pa.array(masks[log][n_stored[log] :]))
        step.added["horizons"] = pa.table({"id": ids.take(pa.array(fresh)), "until_us": horizon[fresh]})
        instants = np.concatenate([instant[~over], forget[remember], completed[useful] + self._delay_us])
        step.next_us = int(instants.min()) if len(instants) else None
        step.output = outcomes(
            ids.take(pa.array(request[heads[over]])),
            at[heads[over]], deadline[heads[over]], counted[over], instant[over],
        )
        return step

    def _decide(
        self, live: Any, request: Any, at: Any, deadline: Any, earliest: Earliest, horizon: Any, until_us: int
    ) -> Any:
        """The operations up to and with each id's first that is pending: their requests, the completions that
        count (FOREVER_US: none), and the instants that decide. Moves the horizons of those that are decided.

        `live`: the requests to look at, ascending by id, time and deadline.
        """
        rounds: list[Any] = [np.zeros((3, 0), np.int64)]
        while len(live):
            begin = begins(request[live])
            heads = live[begin]
            first = earliest.from_on(request[heads], at[heads] - self._delay_us)
            counted = np.where(first <= deadline[heads], first, FOREVER_US)
            # Not before the request, whatever its deadline: each round leaves its heads behind.
            instant = np.maximum(at[heads], np.where(counted == FOREVER_US, deadline[heads], first))
            rounds.append(np.stack([heads, counted, instant]))
            over = instant <= until_us
            horizon[request[heads[over]]] = instant[over] + self._delay_us
            live = live[over[np.cumsum(begin) - 1] & (at[live] > horizon[request[live]])]
        return np.concatenate(rounds, axis=1)


def tables(stored: Mapping[str, Any], new: Any) -> list[Any]:
    """Of each log the rows stored, and then the new ones."""
    came = {}
    id_type = next(iter(stored.values()))["id"].type if new is None else new["id"].type
    if new is not None:
        is_request = new["deadline_us"].is_valid()
        came = {"requests": new.filter(is_request), "completions": new.filter(pc.invert(is_request))}
    found = []
    for log, times in TIMES.items():
        schema = pa.schema([("id", id_type), *((name, pa.int64()) for name in times)])
        parts = [rows.select(schema.names).cast(schema) for rows in (stored.get(log), came.get(log)) if rows]
        found.append(pa.concat_tables([schema.empty_table(), *parts]))
    return found


def outcomes(ids: Any, at: Any, deadline: Any, counted: Any, instant: Any) -> Any:
    """Rows to give out, by the instant that decided."""
    expired = counted == FOREVER_US
    rows = pa.table(
        {
            "id": ids,
            "requested_at": timestamps(at),
            "deadline": timestamps(deadline),
            "outcome": pc.if_else(pa.array(expired), "expired", "completed"),
            "completed_at": timestamps(counted, expired),
            "instant": instant,
        }
    )
    return ascending(rows, ["instant", "id"]).drop_columns("instant")
