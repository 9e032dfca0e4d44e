"""Which cells a benchmark of purgatories has, and their rows."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from tickwheel.bench.purgatory.cell import RequestCell, RunCell
from tickwheel.bench.purgatory.request import STORIES, RequestSample
from tickwheel.bench.purgatory.run import Sample, Setting
from tickwheel.bench.row import CellRow

SIZED = ("wheel", "wheel-purged", "ring")      # the designs that a wheel size makes a difference to
MOST_WATCHES = 600_000          # of the loops of single requests
FULL_LOAD_KEYS = 10             # with more keys there are fewer requests, at lower rates, in proportion


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests a second; `inf`: as fast as they go; `of_own`: a share of what the design did at that."""

    per_s: float
    of_own: float | None = None

    def __str__(self) -> str:
        if self.of_own is not None:
            return f"{self.of_own:.0%}"
        return "max" if self.per_s == inf else f"{self.per_s:,.0f}"


@dataclass(slots=True)
class RunRow:
    """A setting, its runs, and why there is none, if so."""

    setting: Setting
    target: Rate
    fastest: RunRow | None = None       # the same, as fast as it goes: for a share of its own rate
    samples: list[Sample] = field(default_factory=list)
    note: str | None = None

    @property
    def name(self) -> str:
        return variant(self.setting.design, self.setting.wheel_size)

    @property
    def cell(self) -> RunCell:
        """RuntimeError: its rate is a share of one that is not known."""
        if self.target.of_own is None:
            return RunCell(self.setting)
        if self.fastest is None or self.fastest.sustained is None:
            raise RuntimeError("its own fastest rate is not known")
        return RunCell(replace(self.setting, rate=self.fastest.sustained * self.target.of_own))

    @property
    def sample(self) -> Sample | None:
        """The run of the median rate, or the first that died: the figures of one run belong together."""
        for sample in self.samples:
            if sample.died:
                return sample
        ordered = sorted(self.samples, key=lambda sample: sample.rate)
        return ordered[len(ordered) // 2] if ordered else None

    @property
    def sustained(self) -> float | None:
        """Requests a second, to the last one complete: what a design put off, and drained longer than a
        timeout takes, counts. None: it died, or was not run."""
        sample = self.sample
        if sample is None or sample.died:
            return None
        put_off = max(0.0, sample.drain_s - self.setting.timeout)
        return sample.enqueued / (sample.enqueued / sample.rate + put_off)


class RequestRow(CellRow[RequestCell, RequestSample]):
    """What its samples say."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return variant(self.cell.design, self.cell.wheel_size)

    @property
    def sample(self) -> RequestSample | None:
        ordered = sorted(self.samples, key=lambda sample: sample.request_ns)
        return ordered[len(ordered) // 2] if ordered else None


def variant(design: str, wheel_size: int) -> str:
    return f"{design} {wheel_size}" if design in SIZED else design


def variants(designs: Sequence[str], wheel_sizes: Sequence[int]) -> Iterator[tuple[str, int]]:
    """A design with each wheel size that makes a difference."""
    for design in designs:
        for wheel_size in wheel_sizes if design in SIZED else wheel_sizes[:1]:
            yield design, wheel_size


def plan_runs(
    base: Setting,
    *,
    designs: Sequence[str],
    wheel_sizes: Sequence[int],
    latencies: Sequence[tuple[float, float]],
    rates: Sequence[Rate],
    keys: Sequence[tuple[int, int]],
) -> list[RunRow]:
    """The runs to come, those that one compares next to one another; the rest of a setting is `base`."""
    rows: list[RunRow] = []
    for p50_ms, p75_ms in latencies:
        for watched_keys, key_space in keys:
            share = min(1.0, FULL_LOAD_KEYS / watched_keys)
            fastest: dict[tuple[str, int], RunRow] = {}
            for rate in sorted(rates, key=lambda rate: (rate.of_own is not None, rate.per_s)):
                target = replace(rate, per_s=rate.per_s * share)
                for which in variants(designs, wheel_sizes):
                    setting = replace(
                        base,
                        design=which[0],
                        wheel_size=which[1],
                        p50_ms=p50_ms,
                        p75_ms=p75_ms,
                        keys=watched_keys,
                        key_space=key_space,
                        requests=max(1, int(base.requests * share)),
                        rate=target.per_s,
                    )
                    row = RunRow(setting, target, fastest.get(which))
                    if target == Rate(inf):
                        fastest[which] = row
                    rows.append(row)
    return rows


def plan_requests(
    base: Setting, *, designs: Sequence[str], wheel_sizes: Sequence[int]
) -> list[RequestRow]:
    watches = min(MOST_WATCHES, base.requests * 3)
    return [
        RequestRow(RequestCell(design, wheel_size, base.tick, story, watches, base.gc))
        for story in STORIES
        for design, wheel_size in variants(designs, wheel_sizes)
    ]
