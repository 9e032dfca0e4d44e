"""What `tickwheel tune` prints: the configurations, best first, which to take, and what the others cost."""
from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tickwheel.cli.bench_tables import Column, figures, header, machine_line
from tickwheel.machine import machine

if TYPE_CHECKING:
    from tickwheel.spark.tuning import Tuning

HALF = 0.5      # of the requests: a shard with more is told of
CAVEATS = (
    "late: from the exact deadline to the firing, of the requests that expire. cost: seconds of a core for "
    "the requests, wake-ups, cascades and purges that were counted, at fixed prices: no clock is in it.",
    "memory: of the buckets of one shard's wheels, and what had ended in its watcher lists. times: the cost, "
    "to that of the recommended configuration.",
)
COLUMNS: tuple[Column[Any], ...] = (
    Column("late ms p50", 13, lambda row: row.lateness_p50_ms),
    Column("p99", 8, lambda row: row.lateness_p99_ms),
    Column("max", 8, lambda row: row.lateness_max_ms),
    Column("wake-ups", 12, lambda row: row.wakeups),
    Column("cascades", 13, lambda row: row.cascades),
    Column("purges", 9, lambda row: row.purges),
    Column("memory kB", 11, lambda row: row.memory_bytes / 1000),
    Column("cost s", 9, lambda row: row.cost_s),
    Column("times", 7, lambda row: row.cost_ratio),
)


def heading(args: Namespace, tuning: Tuning) -> str:
    """What was replayed."""
    best = tuning.choices[0]
    shards = "1 shard" if best.shards == 1 else f"{best.shards:,} shards"
    return (
        f"{best.requests:,} requests in {shards}, {best.expired:,} expired after {timeout_of(args)}; "
        f"Spark on {args.master}"
    )


def choice_line(args: Namespace, tuning: Tuning) -> str:
    """Which to take, and why; or that there is none."""
    best = tuning.choices[0]
    limit = f"a p99 lateness of {args.max_lateness / 1e6:g} ms"
    if not best.recommended:
        late = f"{best.lateness_p99_ms:.3g} ms"
        return f"none meets the limit, {limit}: the least late is {configuration(best)}, with {late}"
    return f"take {configuration(best)}: {best.why}, {limit}"


def warning_line(tuning: Tuning) -> str | None:
    """One shard of several with most of the requests."""
    best, largest = tuning.choices[0], tuning.shards[0]
    if best.shards == 1 or largest.requests <= HALF * best.requests:
        return None
    return (
        f"warning: shard {largest.shard} has {largest.requests / best.requests:.0%} of the requests: "
        "the sums are mostly its own, and one core had most of the work"
    )


def configuration(row: Any) -> str:
    """As options of the command."""
    purge = "" if row.purge_interval is None else f" --purge-interval {row.purge_interval}"
    return f"--tick {row.tick_ms:g}ms --wheel-size {row.wheel_size}{purge}"


def timeout_of(args: Namespace) -> str:
    return f"{args.timeout / 1e6:g} ms" if args.timeout_column is None else str(args.timeout_column)


def as_text(args: Namespace, tuning: Tuning) -> str:
    return "\n".join(_lines(args, tuning))


def _lines(args: Namespace, tuning: Tuning) -> Iterator[str]:
    yield machine_line(("pyspark",))
    yield heading(args, tuning)
    yield ""
    yield from (f"- {caveat}" for caveat in CAVEATS)
    yield ""
    width = max(len(configuration(row)) for row in tuning.choices)
    yield f"  {'':<{width}}{header(COLUMNS)}"
    for row in tuning.choices:
        mark = "*" if row.recommended else " " if row.meets else "x"
        yield f"{mark} {configuration(row):<{width}}{figures(COLUMNS, row)}"
    yield "  * recommended; x over the limit of lateness"
    yield ""
    yield choice_line(args, tuning)
    if line := warning_line(tuning):
        yield line


def as_json(args: Namespace, tuning: Tuning) -> dict[str, Any]:
    return {
        "machine": machine(("pyspark",)),
        "master": args.master,
        "timeout": timeout_of(args),
        "max_lateness_ms": args.max_lateness / 1e6,
        "choice": choice_line(args, tuning),
        "warning": warning_line(tuning),
        "caveats": CAVEATS,
        "configurations": [row.asDict() for row in tuning.choices],
    }
