"""What `tickwheel bench purgatory` prints: a table a load, the peaks, single requests, the promises."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from tickwheel.bench.calibration import REFERENCE_NS
from tickwheel.bench.purgatories import DESIGNS
from tickwheel.bench.purgatory.plan import RequestRow, RunRow
from tickwheel.bench.purgatory.request import STORIES
from tickwheel.bench.purgatory.results import (
    CAVEATS,
    KAFKA,
    Peak,
    calibration_ns,
    latency_name,
    peaks,
    slowness,
    verdicts,
)
from tickwheel.bench.purgatory.run import Sample, Setting
from tickwheel.cli.bench_tables import Column, figures, header, machine_line, number, promises
from tickwheel.machine import machine

COLUMNS: tuple[Column[Sample], ...] = (
    Column("achieved/s", 11, lambda sample: round(sample.rate)),
    Column("CPU us", 8, lambda sample: sample.cpu_us),
    Column("memory MB", 10, lambda sample: None if sample.memory is None else sample.memory / 1e6),
    Column("GCs", 7, lambda sample: sample.collections),
    Column("GC ms", 7, lambda sample: sample.collections_ms),
    Column("wakeups", 9, lambda sample: sample.wakeups),
    Column("queue", 9, lambda sample: sample.queue_length),
    Column("purges", 8, lambda sample: sample.purges),
    Column("threads", 8, lambda sample: sample.threads),
    Column("late ms p50", 12, lambda sample: sample.late_p50_ms),
    Column("p99", 7, lambda sample: sample.late_p99_ms),
    Column("call us p50", 12, lambda sample: sample.call_p50_us),
    Column("p99", 7, lambda sample: sample.call_p99_us),
    Column("timed out %", 12, lambda sample: None if sample.timed_out is None else sample.timed_out * 100),
    Column("theory %", 9, lambda sample: sample.beyond_timeout * 100),
    Column("drain s", 10, lambda sample: sample.drain_s),
)


def heading(base: Setting, runs: Sequence[RunRow]) -> str:
    """The core and the machine in one line; the setting; what to keep in mind; who takes part."""
    return "\n".join((
        machine_line(),
        setting_line(base),
        "",
        *(f"- {caveat}" for caveat in CAVEATS),
        "",
        *(f"{name:<18}{about}" for name, about in contenders(runs)),
    ))


def setting_line(base: Setting) -> str:
    limit = "no limit" if base.memory_limit is None else f"{base.memory_limit / 1e6:,g} MB more at most"
    return (
        f"timeout {base.timeout * 1e3:g} ms, tick {base.tick * 1e3:g} ms, GC {base.gc}, switch interval "
        f"{base.switch_interval * 1e3:g} ms, memory: {limit}"
    )


def contenders(runs: Sequence[RunRow]) -> Iterator[tuple[str, str]]:
    for name, row in {row.name: row for row in runs}.items():
        yield name, DESIGNS[row.setting.design].summary


def loads(runs: Sequence[RunRow]) -> Iterator[tuple[str, list[RunRow]]]:
    """The rows of each load, and what it is."""
    for (p50, p75, keys, space, requests), rows in groupby(runs, lambda row: (
        row.setting.p50_ms, row.setting.p75_ms, row.setting.keys, row.setting.key_space, row.setting.requests,
    )):
        yield (
            f"{latency_name(p50, p75)}: latency p50 {p50:g} ms, p75 {p75:g} ms; {keys:,} of {space:,} keys; "
            f"{requests:,} requests"
        ), list(rows)


def remark(row: RunRow) -> str | None:
    """Why there are no figures, or what they must be read with."""
    sample = row.sample
    if sample is None:
        return row.note
    if sample.died:
        return sample.died
    if sample.never:
        return f"{sample.never:,} requests were never completed"
    if sample.enqueued < row.setting.requests:
        return f"gave up after {sample.enqueued:,} requests"
    return row.note


def as_text(runs: Sequence[RunRow], requests: Sequence[RequestRow]) -> str:
    return "\n".join((
        *_loads(runs),
        *_calibration(calibration_ns(runs, requests)),
        *_peaks(peaks(runs, slowness(runs, requests))),
        *_requests(requests),
        *promises(verdicts(runs, requests)),
    ))


def as_json(base: Setting, runs: Sequence[RunRow], requests: Sequence[RequestRow]) -> dict[str, Any]:
    return {
        "machine": machine(),
        "caveats": CAVEATS,
        "calibration": {"ns": calibration_ns(runs, requests), "reference_ns": REFERENCE_NS},
        "setting": {
            "timeout": base.timeout, "tick": base.tick, "gc": base.gc,
            "switch_interval": base.switch_interval, "memory_limit": base.memory_limit,
        },
        "runs": [
            {
                "design": row.setting.design,
                "wheel_size": row.setting.wheel_size,
                "latency": latency_name(row.setting.p50_ms, row.setting.p75_ms),
                "keys": row.setting.keys,
                "key_space": row.setting.key_space,
                "requests": row.setting.requests,
                "target": str(row.target),
                "samples": [asdict(sample) for sample in row.samples],
                "note": remark(row),
            }
            for row in runs
        ],
        "single": [
            asdict(row.cell) | {
                "request_ns": row.sample.request_ns if row.sample else None,
                "note": row.note,
            }
            for row in requests
        ],
        "promises": [asdict(verdict) for verdict in verdicts(runs, requests)],
    }


def _loads(runs: Sequence[RunRow]) -> Iterator[str]:
    for caption, rows in loads(runs):
        yield ""
        yield caption
        yield f"  {'target/s':>9} {'':<17}{header(COLUMNS)}"
        for row in rows:
            seen = figures(COLUMNS, row.sample) if row.sample else ""
            yield f"  {row.target!s:>9} {row.name:<17}{seen}  {remark(row) or ''}".rstrip()


def _calibration(ns: float | None) -> Iterator[str]:
    if ns is not None:
        yield ""
        yield (
            f"Calibration: {ns:.1f} ns an iteration here, {REFERENCE_NS:g} ns where Kafka's was measured; "
            f"scaled by {ns / REFERENCE_NS:.2f}"
        )


def _peaks(fastest: Sequence[Peak]) -> Iterator[str]:
    for latency, group in groupby(fastest, lambda peak: peak.latency_ms):
        kafka = KAFKA.get(latency)
        yield ""
        yield f"The fastest with 3 keys, {latency_name(*latency)}" + (
            f"; Kafka's on the JVM: {kafka.rate:,.0f}/s, at 100,000/s {kafka.cpu_us:g} us of CPU a request; "
            f"its 0.8 design {kafka.old_rate}" if kafka else ""
        )
        for peak in group:
            yield (
                f"  {peak.variant:<17}{peak.rate:>11,.0f}/s at {peak.cpu_us:>6.2f} us, scaled "
                f"{peak.scaled_rate:>9,.0f}/s at {peak.scaled_cpu_us:>6.2f} us"
                + (f", {peak.scaled_rate / kafka.rate:.2f} of Kafka's rate" if kafka else "")
            )


def _requests(rows: Sequence[RequestRow]) -> Iterator[str]:
    yield ""
    yield "One request at a time, one thread: construct, watch, complete; ns"
    yield f"  {'':<17}" + "".join(f"{story:>22}" for story in STORIES)
    for name, group in by_variant(rows):
        yield f"  {name:<17}" + "".join(
            f"{number(round(row.sample.request_ns)) if row.sample else row.note:>22}" for row in group
        )


def by_variant(rows: Sequence[RequestRow]) -> Iterator[tuple[str, list[RequestRow]]]:
    """A design's rows, a story each in the order of STORIES."""
    for name in dict.fromkeys(row.name for row in rows):
        yield name, [row for row in rows if row.name == name]
