"""What a touch costs, where all clients are tracked; and what memory a client takes up."""
from __future__ import annotations

import gc
import random
from collections.abc import Callable
from time import process_time_ns
from typing import Any

from tickwheel.bench.recipes.sample import Sample, Sizes, memory
from tickwheel.bench.recipes.trackers import OnIdle, Ring, Tracker

NS_TOUCH, BYTES = "CPU ns a touch", "bytes a client"

TIMEOUT_S = 3600.0      # nobody falls silent meanwhile
PASSES = 10             # each touches all clients once, in an order of its own

Make = Callable[[float, OnIdle], Tracker]


def measure_touch(make: Make, sizes: Sizes, seed: int, turned: bool = False) -> Sample:
    """The median of some passes, their loop taken away. `turned`: between two passes a ring has turned, as
    where there are seconds between the messages of a client."""
    keys = list(range(sizes.clients))
    order = keys.copy()
    shuffle = random.Random(seed).shuffle
    gc.collect()
    before = memory()
    tracker = make(TIMEOUT_S, print)
    for key in keys:
        tracker.touch(key)
    after = memory()
    costs = []
    for _ in range(PASSES):
        shuffle(order)
        if turned:
            assert isinstance(tracker, Ring)
            tracker.turn()
        costs.append(_touch_all(tracker.touch, order) - _walk(order))
    tracker.close()
    seen = {NS_TOUCH: sorted(costs)[PASSES // 2] / len(keys)}
    if before is not None and after is not None:
        seen[BYTES] = (after - before) / len(keys)
    return Sample(seen)


def _touch_all(touch: Callable[[Any], object], keys: list[int]) -> int:
    begin = process_time_ns()
    for key in keys:
        touch(key)
    return process_time_ns() - begin


def _walk(keys: list[int]) -> int:
    begin = process_time_ns()
    for _ in keys:
        pass
    return process_time_ns() - begin
