"""What one must know to read the figures, and what became of the promises."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

from tickwheel.bench.broker.frames import MAX_WAIT_S, VALUE
from tickwheel.bench.broker.plan import Row
from tickwheel.bench.broker.served import LOOK_EVERY_S
from tickwheel.bench.purgatory.results import Verdict

CAVEATS = (
    "Each rate is measured once, with a broker and a load that are a process each, on one machine: they and "
    "whatever else runs there share its cores. CPU is that of the broker's process, all threads together: "
    "other load is not in it. Latencies are in wall time, and other load is in those.",
    "Open loop: produces are sent at planned moments, which come one by one at random, whatever has become "
    f"of those before. Each brings one record of {len(VALUE)} bytes to one partition, with acks=all. "
    "Latencies are counted from the planned moment: a broker that falls behind is as late as that makes it. "
    "`late` is the load's own part of it: from there until a produce is sent.",
    "`produce` ends with the answer, `fetch` when a consumer has the record: a produce, its replication and "
    "the answer to a poll. Where the rate reached is below the one asked for, the broker has fallen behind; "
    "latencies then grow as long as the load lasts, and say nothing beyond that. What is not answered a "
    "minute after the load is a fault.",
    f"All polls are long ones: one byte at least, {MAX_WAIT_S * 1e3:g} ms at most. The further ones wait at "
    "a topic to which nothing comes, time out and are repeated: that is in the CPU time. CPU us is a "
    "request's, produce or fetch; a fetch brings all records that are there, so that more load has "
    "fewer fetches a record.",
    f"The purgatories are looked at every {LOOK_EVERY_S * 1e3:g} ms: what waits for less is seen by chance. "
    "A follower's fetches wait there too. A broker handles one request of a connection at a time: of the "
    "produces at most as many wait there as there are producers, the others wait in their connections.",
    "Requests are encoded once by kio, with numbers written in later, and the clients do no more than they "
    "must: real clients cost more, the broker's part is the same.",
)


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """What the broker promises, where a run can tell."""
    return [verdict for row in rows for verdict in _of(row)]


def _of(row: Row) -> Iterator[Verdict]:
    if row.sample:
        seen, place = row.sample.seen, f"{row.cell.rate:,}/s"
        answers = abs(seen.sent - seen.answered) + seen.errors
        yield _faultless(f"{place}: every request answered exactly once, without error", answers)
        deliveries = seen.records - seen.delivered + seen.again
        yield _faultless(f"{place}: every record at each of its consumers exactly once", deliveries)


def _faultless(promise: str, faults: int) -> Verdict:
    return Verdict(f"{promise} (faults)", faults, not faults)
