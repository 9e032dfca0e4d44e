"""A measurement in a process of its own, so that none inherits another's heap, bytecode or garbage."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def in_fresh_process(
    module: str, arguments: dict[str, Any], longest_s: float | None = None, core: str | None = None
) -> dict[str, Any]:
    """What `python -m module` prints as JSON, given `arguments` as JSON, on another core if one is named.

    RuntimeError: it failed; the message is its last line, or says that it did not end.
    """
    try:
        ended = subprocess.run(
            [sys.executable, "-m", module, json.dumps(arguments)],
            env=os.environ | ({"TICKWHEEL_CORE": core} if core else {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=longest_s,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no end after {longest_s:.0f} s") from None
    if ended.returncode:
        raise RuntimeError((ended.stderr.strip().splitlines() or [f"exit {ended.returncode}"])[-1])
    figures: dict[str, Any] = json.loads(ended.stdout)
    return figures
