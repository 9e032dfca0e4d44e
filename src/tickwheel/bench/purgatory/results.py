"""What the rows say together: how far each design goes, and what became of the project's promises."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median

from tickwheel.bench.calibration import REFERENCE_NS
from tickwheel.bench.purgatory.plan import RequestRow, RunRow

OURS = "wheel"
OLD = "old"
FEW_KEYS = 3

CAVEATS = (
    "Each run is a fresh process: requests arrive at the target rate (exponential gaps) and are enqueued by "
    "one thread; another completes them after a log-normal latency, from a timer of its own; what is not "
    "complete after the timeout expires. Load and keys are made before the clock starts.",
    "`drain` is from the last request enqueued to the last one complete; where it is longer than the timeout "
    "the design had put work off, and that time counts in what is called its fastest.",
    "CPU time is that of all threads, harness included, until the last request was complete. The harness "
    "expires nothing: the requests beyond the timeout stay with it.",
    "Memory is the growth of resident memory at its peak, less what the process had free at the start: a "
    "megabyte or two.",
    "`late` is from a request's deadline to its on_expiration; `call` is force_complete for the thread that "
    "calls it, every 64th timed with 3 keys, each with 1,000. Where there is a GIL, both contain the wait "
    "for it: a thread that never sleeps keeps it for the interpreter's switch interval. By default that is "
    "the tick here; Python's own default is 5 ms.",
    "With more than 10 keys there are fewer requests, at lower rates, in proportion: the designs' work a "
    "second is that of 10 keys.",
    "`scaled` puts a figure beside those from the machine where Kafka's was measured, by a loop of plain "
    f"Python, `x += i & 7` over a range, that took {REFERENCE_NS:g} ns an iteration there.",
    "One request at a time: CPU time of construction, watching and completion, the operation being a Python "
    "class; the median over chunks.",
)


@dataclass(frozen=True, slots=True)
class Kafka:
    """Kafka's own purgatory on the JVM, under this load (its harness mended: it completed at the timeout)."""

    name: str
    rate: float             # requests a second at saturation
    cpu_us: float           # a request, at 100,000 a second
    promised_rate: float    # by this project
    old_rate: str           # of Kafka 0.8's


KAFKA = {
    (20.0, 60.0): Kafka("low", 507_000, 3.0, 500_000, "peaks near 95,000, then collapses to half of it"),
    (200.0, 400.0): Kafka("high", 417_000, 3.6, 420_000, "50,000 did not finish in a minute"),
}
REQUEST_PROMISED_NS = 850.0
LATE_PROMISED_MS = 10.0


@dataclass(frozen=True, slots=True)
class Peak:
    """The fastest that a design went under a load, as it was and as it would be on the reference machine."""

    latency_ms: tuple[float, float]
    design: str
    variant: str
    rate: float
    scaled_rate: float
    cpu_us: float
    scaled_cpu_us: float


@dataclass(frozen=True, slots=True)
class Verdict:
    promise: str
    seen: float
    holds: bool


def latency_name(p50_ms: float, p75_ms: float) -> str:
    known = KAFKA.get((p50_ms, p75_ms))
    return known.name if known else f"{p50_ms:g}/{p75_ms:g} ms"


def calibration_ns(runs: Sequence[RunRow], requests: Sequence[RequestRow]) -> float | None:
    """The median over all processes: that of one is too noisy to scale by."""
    seen = [sample.calibration_ns for row in runs for sample in row.samples]
    seen += [sample.calibration_ns for row in requests for sample in row.samples]
    return median(seen) if seen else None


def slowness(runs: Sequence[RunRow], requests: Sequence[RequestRow]) -> float:
    """How many times slower than the reference machine this one is; 1 where nothing was measured."""
    return (calibration_ns(runs, requests) or REFERENCE_NS) / REFERENCE_NS


def peaks(runs: Sequence[RunRow], scale: float) -> list[Peak]:
    """Of each latency and design, with few keys: the row with the highest sustained rate."""
    best: dict[tuple[tuple[float, float], str], Peak] = {}
    for row in runs:
        setting, rate = row.setting, row.sustained
        load = (setting.p50_ms, setting.p75_ms), row.name
        if (
            row.sample is not None
            and rate is not None
            and setting.keys == FEW_KEYS
            and (load not in best or rate > best[load].rate)
        ):
            cpu_us = row.sample.cpu_us
            best[load] = Peak(load[0], setting.design, row.name, rate, rate * scale, cpu_us, cpu_us / scale)
    return list(best.values())


def verdicts(runs: Sequence[RunRow], requests: Sequence[RequestRow]) -> list[Verdict]:
    """What the project promises of its purgatory, where the rows can tell."""
    scale = slowness(runs, requests)
    return [*_saturation(peaks(runs, scale)), *_lateness(runs), *_single(requests, scale)]


def _saturation(fastest: Sequence[Peak]) -> Iterator[Verdict]:
    for peak in fastest:
        kafka = KAFKA.get(peak.latency_ms)
        if kafka and peak.design == OURS:
            yield Verdict(
                f"{peak.variant}, {kafka.name}: at least {kafka.promised_rate:,.0f} requests/s, scaled",
                peak.scaled_rate, peak.scaled_rate >= kafka.promised_rate,
            )
            yield Verdict(
                f"{peak.variant}, {kafka.name}: less than {kafka.cpu_us:g} us of CPU a request, scaled "
                f"(the aim is half of it)",
                peak.scaled_cpu_us, peak.scaled_cpu_us < kafka.cpu_us,
            )
    for old, ours in product(fastest, fastest):
        if (old.design, ours.design) == (OLD, OURS) and old.latency_ms == ours.latency_ms:
            share = old.rate / ours.rate
            yield Verdict(
                f"{OLD}, {latency_name(*old.latency_ms)}: saturates below {ours.variant} (share of its rate)",
                share, share < 1,
            )


def _lateness(runs: Sequence[RunRow]) -> Iterator[Verdict]:
    for row in runs:
        late = row.sample.late_p99_ms if row.sample else None
        if row.setting.design == OURS and row.target.of_own == 0.8 and late is not None:
            latency = latency_name(row.setting.p50_ms, row.setting.p75_ms)
            yield Verdict(
                f"{row.name}, {latency}, {row.setting.keys:,} keys: p99 lateness below "
                f"{LATE_PROMISED_MS:g} ms at 80% of its own rate",
                late, late < LATE_PROMISED_MS,
            )


def _single(requests: Sequence[RequestRow], scale: float) -> Iterator[Verdict]:
    ns = {
        (row.name, row.cell.story): row.sample.request_ns / scale
        for row in requests
        if row.cell.design == OURS and row.sample
    }
    for (name, story), figure in ns.items():
        if story == "3 keys":
            yield Verdict(
                f"{name}: one request, 3 keys, at most {REQUEST_PROMISED_NS:g} ns, scaled",
                figure, figure <= REQUEST_PROMISED_NS,
            )
        if story == "1,000 keys" and (name, "3 keys") in ns:
            share = (figure / 1000) / (ns[name, "3 keys"] / 3)
            yield Verdict(f"{name}: a key of 1,000 costs no more than a key of 3 (share)", share, share <= 1)
