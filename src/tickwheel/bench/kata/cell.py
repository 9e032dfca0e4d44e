"""A run in a process of its own, which ends with the threads and the queues of a design that fell behind:

    python -m tickwheel.bench.kata.cell SETTING
"""
from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

from tickwheel.bench.kata.run import DRAINS_S, Sample, Setting, run
from tickwheel.bench.process import in_fresh_process

HANGS_S = 60.0      # beyond what a run takes by its setting


def measure(setting: Setting) -> Sample:
    """One run. RuntimeError: its process failed; the message is its last line."""
    longest_s = setting.duration + DRAINS_S + HANGS_S
    return Sample.of_json(in_fresh_process("tickwheel.bench.kata.cell", asdict(setting), longest_s))


def main(argv: list[str]) -> None:
    json.dump(asdict(run(Setting(**json.loads(argv[0])))), sys.stdout)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
