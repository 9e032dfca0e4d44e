"""What a measurement was taken on."""
from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from importlib import metadata

from tickwheel._core import IMPLEMENTATION


def machine(packages: Iterable[str] = ()) -> dict[str, str]:
    """CPU, cores, system, Python, tickwheel and its core in use, and the versions of `packages`."""
    return {
        "CPU": _cpu(),
        "cores": str(_cores()),
        "system": platform.platform(),
        "Python": _python(),
        "tickwheel": f"{version('tickwheel')} ({IMPLEMENTATION} core)",
        **{package: version(package) for package in packages},
    }


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() in ("model name", "Model"):
                    return value.strip()
    except OSError:
        pass        # not Linux
    return platform.processor() or platform.machine()


def _cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _python() -> str:
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    return f"{platform.python_implementation()} {platform.python_version()}" + ("" if gil else ", no GIL")
