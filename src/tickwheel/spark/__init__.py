"""The pipeline on Spark: workloads, what-if replays, timeouts over streams. DataFrame in, DataFrame out.

    from tickwheel.spark import Config, generate_requests, recommend, replay

    trace = generate_requests(spark, 10_000_000, n_shards=8)
    results = replay(trace, [Config(tick_ms=1), Config(tick_ms=10, wheel_size=64)])
    recommend(results, max_p99_lateness_ms=5).show()

All of it works over Spark Connect too. Needs the `spark` extra, which is asked for only when a name is used.
"""
from __future__ import annotations

from importlib import import_module
from typing import Any

from tickwheel.extras import require

_ROOMS = {
    "Config": "whatif",
    "dedup_within": "streaming",
    "delayed_operations": "streaming",
    "detect_idle": "streaming",
    "generate_requests": "workload",
    "in_order": "streaming",
    "recommend": "choice",
    "replay": "whatif",
    "replay_files": "whatif",
    "summarize": "choice",
}

__all__ = list(_ROOMS)


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in ("pyspark", "numpy", "pandas", "pyarrow"):
        require(module, "tickwheel.spark", "spark")
    return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
