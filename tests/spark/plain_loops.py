"""What the streams should give out, found by sorting and looping over all rows at once: the oracles."""

from collections import defaultdict
from datetime import timedelta


def times_of(rows, key):
    """Of each key its times, ascending."""
    times = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["time"]):
        times[row[key]].append(row["time"])
    return times


def idle_spells(rows, timeout_s):
    """Of each client its spells of activity, cut where it was silent for the timeout."""
    timeout = timedelta(seconds=timeout_s)
    for client, times in times_of(rows, "client").items():
        first = last = times[0]
        for time in [*times[1:], None]:
            if time is None or time - last >= timeout:
                yield {"client": client, "first_seen": first, "last_seen": last, "idle_at": last + timeout}
                first = time
            last = time


def outcomes(requests, completions, delay_s):
    """Of each operation its outcome.

    A completion counts from the watermark's delay before its request to the deadline. Requests up to the
    delay after what decided an operation repeat it.
    """
    delay = timedelta(seconds=delay_s)
    completed = times_of(completions, "id")
    requested = defaultdict(list)
    for row in requests:
        requested[row["id"]].append((row["time"], row["time"] + timedelta(milliseconds=row["timeout_ms"])))
    for id, requests_of_id in requested.items():
        waiting = requests_of_id
        while waiting:
            time, deadline = min(waiting)
            counts = [other for other in completed[id] if time - delay <= other <= deadline]
            yield {
                "id": id,
                "requested_at": time,
                "deadline": deadline,
                "outcome": "completed" if counts else "expired",
                "completed_at": counts[0] if counts else None,
            }
            decided = max(time, counts[0]) if counts else deadline
            waiting = [request for request in waiting if request[0] > decided + delay]
