"""A cell: a run, or a loop of single requests, in a process of its own: one that exhausts its memory takes
nothing with it."""
import json
import os
import sys
from dataclasses import asdict, dataclass

from tickwheel.bench.process import in_fresh_process
from tickwheel.bench.purgatory.request import RequestSample, time_requests
from tickwheel.bench.purgatory.run import Sample, Setting, run

MODULE = "tickwheel.bench.purgatory.cell"
# Beyond what a run may take by its schedule and its patience. CPython up to 3.13 may spin without memory: to
# unwind out of a `with` block it needs a new integer.
HANGS_S = 60.0


@dataclass(frozen=True, slots=True)
class RunCell:
    setting: Setting

    def measure(self, seed: int) -> Sample:
        """One run. RuntimeError: its process failed; the message says how."""
        setting = self.setting
        longest_s = setting.requests / setting.rate + setting.patience + HANGS_S
        return Sample(**in_fresh_process(MODULE, {"run": asdict(setting), "seed": seed}, longest_s))


@dataclass(frozen=True, slots=True)
class RequestCell:
    design: str
    wheel_size: int
    tick: float
    story: str
    watches: int                # of keys, by the requests that are timed
    gc: str                     # "on" | "off"

    def measure(self, seed: int) -> RequestSample:
        """Some chunks of requests; the seed has nothing to choose."""
        return RequestSample(**in_fresh_process(MODULE, {"request": asdict(self), "seed": seed}, HANGS_S))


def main(argv: list[str]) -> None:
    arguments = json.loads(argv[0])
    sample: Sample | RequestSample
    if "run" in arguments:
        sample = run(Setting(**arguments["run"]), arguments["seed"])
    else:
        cell = RequestCell(**arguments["request"])
        sample = time_requests(
            cell.design, cell.wheel_size, cell.tick, cell.story, cell.watches, cell.gc
        )
    json.dump(asdict(sample), sys.stdout)
    sys.stdout.flush()
    # What is still pending need not be torn down one by one, and threads that died need not be joined.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
