"""What the fresh processes start with that count whether something grows."""

import pytest

linux = pytest.mark.skipif("not __import__('os').path.exists('/proc/self/statm')", reason="reads /proc")

COUNTING = """
import gc, sys
import tickwheel as tw

def growth(work, rounds=5):
    "Blocks that the last rounds of `work` left allocated, by the least of several."
    work()
    least = None
    for _ in range(rounds):
        gc.collect()
        before = sys.getallocatedblocks()
        work()
        gc.collect()
        after = sys.getallocatedblocks()
        least = after - before if least is None else min(least, after - before)
    return least

def resident_bytes():
    "Bytes."
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096

clock = tw.ManualClock()
timer = tw.Timer(tick=0.001, executor="inline", clock=clock, start=False)
"""
