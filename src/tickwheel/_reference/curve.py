"""The most that was pending in each interval of time, in plain Python: what `_curve.pxd` does.

An interval is 2 ** shift wide and starts at a multiple of that. There are SIZE at most: when time passes
the last, pairs become one. So the curve is a function of when things happened, and of nothing else.
"""

from __future__ import annotations

SIZE = 256


class Curve:
    def __init__(self) -> None:
        self.until = 0  # what happens up to then is in the last interval
        self.first = 0  # start of the first interval, in widths
        self.shift = 0
        self.peaks: list[int] = []

    def begin(self, now: int) -> None:
        """The first thing happens now; nothing was pending before."""
        self.until = self.first = now
        self.peaks = [0]

    def sample(self, pending: int) -> None:
        """So much was pending once all events of an instant in the last interval had happened."""
        if pending > self.peaks[-1]:
            self.peaks[-1] = pending

    def reach(self, now: int, pending: int) -> None:
        """Something is about to happen now, after `until`; so much was pending meanwhile. Amortised O(1)."""
        self.sample(pending)
        while (now >> self.shift) - self.first >= SIZE:
            self._widen()
        further = (now >> self.shift) - self.first + 1 - len(self.peaks)
        self.until = now | ((1 << self.shift) - 1)
        if further == 0:
            return
        self.peaks += [pending] * further
        if now == now >> self.shift << self.shift:
            # What is pending from the start of an interval is known when its first instant is over.
            self.peaks[-1] = 0
            self.until = now

    def _widen(self) -> None:
        """Merge pairs. The first may have lost its left half, in which nothing was pending."""
        peaks = [0] * (self.first & 1) + self.peaks
        self.peaks = [max(peaks[i : i + 2]) for i in range(0, len(peaks), 2)]
        self.first >>= 1
        self.shift += 1
