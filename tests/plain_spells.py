"""Idle clients of a log by plain loops: what `tickwheel idle` and its recipe are compared with. No wheel."""
import gzip
import os
from collections import Counter
from itertools import accumulate
from pathlib import Path

TRACES = Path(os.environ.get("TICKWHEEL_TRACES", Path(__file__).parents[2] / "shared" / "traces"))
LOG = TRACES / "nasa-http-1995-08-01" / "requests.csv.gz"
NO_LOG = f"the real trace is not in {TRACES} (TICKWHEEL_TRACES)"


def spells_of(rows, timeout):
    """(key, first_seen, last_seen, idle_at) of every spell, by idle_at and key; its last may be open."""
    times_of = {}
    for key, time in rows:
        times_of.setdefault(key, []).append(time)
    spells = []
    for key, times in times_of.items():
        first = last = times[0]
        for time in times[1:]:
            if time - last >= timeout:
                spells.append((key, first, last, last + timeout))
                first = time
            last = time
        spells.append((key, first, last, last + timeout))
    return sorted(spells, key=lambda spell: (spell[3], spell[0]))


def over_by(spells, time):
    return [spell for spell in spells if spell[3] <= time]


def most_at_once(rows, spells):
    """Of the instants of the rows, the one with most keys online: from a first row until before idle_at."""
    changes = Counter()
    for _, first, _, idle_at in spells:
        changes[first] += 1
        changes[idle_at] -= 1
    return max(accumulate(changes[time] for time in sorted(changes)), default=0)


def log_rows():
    """The web server's log: (host_id, time_s), twelve hours of 2,365 clients."""
    with gzip.open(LOG, "rt") as file:
        header = next(file).rstrip().split(",")
        host, time = header.index("host_id"), header.index("time_s")
        cells = (line.split(",") for line in file)
        return [(row[host], int(row[time])) for row in cells]
