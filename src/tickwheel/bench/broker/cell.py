"""A cell: a rate. A broker is measured in a process of its own, and its load in another one:

    python -m tickwheel.bench.broker.cell ARGUMENTS
"""
from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tickwheel.bench.broker.load import LAST_POLLS_S, PATIENCE_S
from tickwheel.bench.broker.sample import Sample, Seen, Setting, Sizes
from tickwheel.bench.broker.served import measure_rate
from tickwheel.bench.process import in_fresh_process
from tickwheel.dropin.asyncio import new_event_loop

UP_AND_DOWN_S = 60.0    # until all clients are connected, and from the last answer to the end


@dataclass(frozen=True, slots=True)
class Cell:
    rate: int               # produces a second
    setting: Setting

    def measure(self, seed: int) -> Sample:
        """One run. RuntimeError: it failed; the message is its last line."""
        longest_s = self.setting.seconds + PATIENCE_S + LAST_POLLS_S + UP_AND_DOWN_S
        # Here, and not in the process that uses it: that one may be killed.
        with TemporaryDirectory(prefix="tickwheel-") as folder:
            arguments = {"cell": asdict(self), "seed": seed, "folder": folder}
            seen = in_fresh_process("tickwheel.bench.broker.cell", arguments, longest_s)
        return Sample(**seen | {
            "seen": Seen(**seen["seen"]), "sizes": [Sizes(*sizes) for sizes in seen["sizes"]],
        })


def measure_here(cell: Cell, seed: int, folder: str) -> Sample:
    # The loop that `tickwheel broker` has.
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(measure_rate(cell.rate, cell.setting, seed, Path(folder)))


def main(argv: list[str]) -> None:
    arguments = json.loads(argv[0])
    cell = arguments["cell"]
    cell = Cell(**cell | {"setting": Setting(**cell["setting"])})
    sample = measure_here(cell, arguments["seed"], arguments["folder"])
    json.dump(asdict(sample), sys.stdout)
    sys.stdout.flush()
    os._exit(0)     # what is still held need not be torn down one by one


if __name__ == "__main__":
    main(sys.argv[1:])
