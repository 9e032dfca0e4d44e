"""What the designs' figures say together, and what became of the project's promises."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tickwheel.bench.kata.designs import OURS, SPREAD
from tickwheel.bench.kata.run import DRAINS_S, Sample, Setting
from tickwheel.bench.purgatory.results import Verdict

IN_TIME_S = 0.1         # what comes in so short a time may wait where a design keeps up
ROOM = 1.1              # times the work that comes: with less, bursts alone make a queue of any design

CAVEATS = (
    "Each design gets the same deliveries at the same times, a Poisson process, in a fresh process. They "
    "wait in the design's queue, or in the stream where it blocks; what is delivered again comes within 9 s.",
    "The work sleeps, with a standard deviation of a tenth. An event is created when it is due: latency, "
    "from there to the start of its processing, grows also where the stream cannot deliver it. It is that of "
    "all events begun so far, which flatters what falls behind: neither backlog nor duplicates are in it.",
    "Processed a second, backlog and latency are as at the end of the stream. After it the queues have up to "
    f"{DRAINS_S:g} s to empty; violations, duplicates and losses count to the end of that.",
    "A violation is an event begun while another of its client is worked on, or after a later one. Lost is "
    "an event that the design gave up, unless it was processed when it came again.",
)


@dataclass(slots=True)
class Row:
    """A design, and what was seen; or why there is nothing."""

    setting: Setting
    sample: Sample | None = None
    note: str | None = None

    def measure(self, measured: Callable[[Setting], Sample]) -> None:
        try:
            self.sample = measured(self.setting)
        except RuntimeError as error:
            self.note = f"failed: {error}"

    @property
    def keeps_up(self) -> bool | None:
        """Whether no more waits at the end than what is being worked on and has just come."""
        if self.sample is None:
            return None
        setting = self.setting
        at_work_s = setting.consume * (1 + 3 * SPREAD)
        return self.sample.at_end.backlog <= setting.rate * (at_work_s + IN_TIME_S)


def sentence(row: Row) -> str:
    """What its figures show."""
    sample, name = row.sample, row.setting.design
    if sample is None:
        return f"{name}: {row.note}."
    at_end = sample.at_end
    if row.keeps_up:
        start = f"{name} keeps up: half of the events wait {at_end.latency.p50 * 1e3:.1f} ms or less"
    else:
        start = (
            f"{name} falls behind: {at_end.backlog:,} wait after {at_end.at_s:g} s, and those begun in the "
            f"meantime were up to {at_end.latency.longest:.1f} s old"
        )
    return f"{start}; {', '.join(_faults(sample)) or 'all in order, each once, nothing lost'}."


def _faults(sample: Sample) -> Iterator[str]:
    if sample.violations:
        yield f"{sample.violations:,} out of order"
    if sample.duplicates:
        yield f"{sample.duplicates:,} duplicates passed on"
    if sample.lost:
        yield f"{sample.lost:,} events lost"
    if sample.waiting:
        yield f"{sample.waiting:,} deliveries not processed {DRAINS_S:g} s later either"


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """What the project promises of its own design."""
    return [verdict for row in rows if row.setting.design == OURS for verdict in _verdicts(row)]


def _verdicts(row: Row) -> Iterator[Verdict]:
    sample = row.sample
    if sample is None:
        return
    yield _none("events out of order", sample.violations)
    yield _none("duplicates passed on", sample.duplicates)
    if _can_keep_up(row.setting):
        yield _none("events never processed", sample.events - sample.processed_events)
        yield Verdict(f"{OURS}: keeps up (backlog at the end)", sample.at_end.backlog, bool(row.keeps_up))


def _none(what: str, seen: int) -> Verdict:
    return Verdict(f"{OURS}: no {what}", seen, seen == 0)


def _can_keep_up(setting: Setting) -> bool:
    """Whether there are threads enough, and clients, each of which has its turn one event at a time."""
    comes = setting.rate * (1 - setting.duplicates) * setting.consume
    return min(setting.threads, setting.clients) >= ROOM * comes
