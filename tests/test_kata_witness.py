"""The stream kata's stream, and the witness who must see what a broken design does to it."""
from __future__ import annotations

import threading
from collections import Counter
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.bench.kata.stream import AGAIN_WITHIN_S, WINDOW_S, deliveries
from tickwheel.bench.kata.witness import Seen, Witness
from tickwheel.recipes.pipeline import Event

CLEAN = Seen(processed=0, events=0, violations=0, duplicates=0, refused=0, lost=0)


class Ages(list):
    """For PipelineMetrics, of which the witness asks only this."""

    latency = list.append


class Play:
    """Events that begin and end when the test says so, each on a thread of its own, before a witness."""

    def __init__(self):
        self.ages = Ages()
        self.witness = Witness(self, self.ages)
        self.at_work = {}       # the thread of a delivery, and what ends it
        self.begun = threading.Semaphore(0)

    def consume(self, event):
        self.begun.release()
        threading.current_thread().end.wait()
        return event

    def begin(self, name, event):
        thread = threading.Thread(target=self.witness.consume, args=(event,), daemon=True)
        thread.end = threading.Event()
        self.at_work[name] = thread
        thread.start()
        self.begun.acquire()

    def end(self, name):
        thread = self.at_work.pop(name)
        thread.end.set()
        thread.join()


def event(number, client=1, created=None):
    """`number` names it, and says when it was created."""
    return Event(float(number if created is None else created), client, UUID(int=number))


def seen(script):
    """`+1 -1`: event 1 begins, event 1 ends; 1 to 9 are of one client, 10 to 19 of the next. `+1' -1'`: event
    1 delivered again; `!1`: refused. What has not ended at the end ends after the look."""
    play = Play()
    for step in script.split():
        what, name = step[0], step[1:]
        number = int(name.rstrip("'"))
        if what == "+":
            play.begin(name, event(number, client=number // 10))
        elif what == "-":
            play.end(name)
        else:
            play.witness.refused(event(number, client=number // 10))
    result = play.witness.seen()
    for name in list(play.at_work):
        play.end(name)
    return result


@pytest.mark.parametrize(("script", "expected"), [
    ("", {}),
    ("+1 -1 +2 -2", {"processed": 2, "events": 2}),
    ("+1 +11 -1 -11", {"processed": 2, "events": 2}),                       # two clients at once
    ("+11 -11 +1 -1", {"processed": 2, "events": 2}),                       # order is a client's own
    ("+1 +2 -2 -1", {"processed": 2, "events": 2, "violations": 1}),        # overlapping
    ("+1 +2 -1 -2", {"processed": 2, "events": 2, "violations": 1}),
    ("+2 -2 +1 -1", {"processed": 2, "events": 2, "violations": 1}),        # overtaken
    ("+3 -3 +1 -1 +2 -2", {"processed": 3, "events": 3, "violations": 2}),
    ("+2 +1 -1 -2", {"processed": 2, "events": 2, "violations": 1}),        # both: once
    ("+1 -1 +2", {"processed": 1, "events": 1}),                            # the second one does not end
    ("+1 -1 +1' -1'", {"processed": 2, "events": 1, "duplicates": 1}),
    ("+1 -1 +2 -2 +1' -1'", {"processed": 3, "events": 2, "duplicates": 1}),    # it had its place
    ("+1 +1' -1 -1'", {"processed": 2, "events": 1, "duplicates": 1, "violations": 1}),
    ("+1 -1 +1' +2 -1' -2", {"processed": 3, "events": 2, "duplicates": 1, "violations": 1}),
    ("!1 +2 -2", {"processed": 1, "events": 1, "refused": 1, "lost": 1}),
    ("!1 !1", {"refused": 2, "lost": 1}),
    ("!1 +1 -1", {"processed": 1, "events": 1, "refused": 1}),              # the second delivery was taken
    ("!1 +2 -2 +1 -1", {"processed": 2, "events": 2, "refused": 1, "violations": 1}),
    ("+1 !1 -1", {"processed": 1, "events": 1, "refused": 1}),
])
def test_what_the_witness_sees(script, expected):
    """Order within a client, duplicates, losses: each fault is counted once, and nothing else is."""
    assert seen(script) == CLEAN._replace(**expected)


@st.composite
def scripts(draw):
    """Deliveries of few events, which begin in any order and end in any; a few of them twice."""
    numbers = draw(st.lists(st.integers(0, 5), max_size=8))
    steps = []
    open_ones = []
    for place, number in enumerate(numbers):
        steps.append(("begin", place, number))
        open_ones.append(place)
        while open_ones and draw(st.booleans()):
            steps.append(("end", open_ones.pop(draw(st.integers(0, len(open_ones) - 1))), None))
    return steps


@given(scripts())
def test_the_witness_agrees_with_the_definition(steps):
    """A violation, counted pair by pair: another one of the client is being worked on, or a later one began
    before the first delivery of this. Even numbers are one client's, odd ones another's."""
    play = Play()
    begun, ended, violations = [], set(), 0
    for what, place, number in steps:
        if what == "end":
            play.end(place)
            ended.add(place)
        else:
            of_client = [(at, other) for at, other in begun if other % 2 == number % 2]
            is_new = all(other != number for _, other in begun)
            violations += any(at not in ended for at, _ in of_client) or (
                is_new and any(other > number for _, other in of_client)
            )
            begun.append((place, number))
            play.begin(place, event(number, client=number % 2))
    result = play.witness.seen()
    for place in list(play.at_work):
        play.end(place)
    distinct = {number for _, number in begun}
    assert result == CLEAN._replace(
        processed=len(ended),
        events=len({number for place, number in begun if place in ended}),
        violations=violations,
        duplicates=len(begun) - len(distinct),
    )
    assert len(play.ages) == len(distinct)


def test_an_event_that_fails_stays_unprocessed():
    """What raises goes on to the caller; the event does not count as done."""
    class Broken:
        def consume(self, event):
            raise RuntimeError("broken")

    witness = Witness(Broken(), Ages())
    with pytest.raises(RuntimeError, match="broken"):
        witness.consume(event(1))
    witness.refused(event(1))
    assert witness.seen() == CLEAN._replace(refused=1, lost=1)
    with pytest.raises(RuntimeError):
        witness.consume(event(2))
    assert witness.seen().violations == 0, "the first one is not being worked on any more"


def test_the_stream_is_a_function_of_its_seed():
    """The same again for the same seed, another for another; a shorter one begins a longer one."""
    stream = deliveries(duration_s=3.0, seed=7)
    assert deliveries(duration_s=3.0, seed=7) == stream
    assert deliveries(duration_s=3.0, seed=8) != stream
    assert deliveries(duration_s=1.0, seed=7) == [row for row in stream if row.delivered_s < 1.0]


@pytest.mark.parametrize("seed", range(3))
def test_the_stream_keeps_what_the_kata_assumes(seed):
    """An event comes again within the window, the same, and never before it came first; the share of
    these, the rate and the clients are those asked for."""
    stream = deliveries(rate=2000.0, duration_s=25.0, clients=40, duplicates=0.1, seed=seed)
    first = {}
    for row in stream:
        if row.again:
            assert first[row.uuid] == row[:3]
            assert row.delivered_s - row.created_s <= AGAIN_WITHIN_S < WINDOW_S
        else:
            assert row.uuid not in first
            assert row.created_s == row.delivered_s
            first[row.uuid] = row[:3]
    times = [round(row.delivered_s * 1e6) for row in stream]
    assert all(earlier < later for earlier, later in pairwise(times))
    assert times[-1] < 25e6
    # Ten standard deviations each.
    assert abs(len(stream) - 50_000) < 10 * 50_000**0.5
    assert abs((len(stream) - len(first)) / len(stream) - 0.1) < 10 * (0.1 * 0.9 / len(stream)) ** 0.5
    counts = Counter(row.client_id for row in stream)
    assert sorted(counts) == list(range(40))
    assert max(counts.values()) < 1250 + 10 * 1250**0.5


def test_a_stream_without_duplicates_has_none():
    """Every delivery is then an event of its own; also in a stream so slow that the window is empty."""
    assert not any(row.again for row in deliveries(duration_s=2.0, duplicates=0.0))
    assert not any(row.again for row in deliveries(rate=1e-6, duration_s=1e8, duplicates=0.5))


def test_the_fastest_stream_shares_no_microsecond():
    """No two deliveries have one time, at whatever rate: sorting by time has one answer."""
    times = [row.delivered_s for row in deliveries(rate=100_000.0, duration_s=0.3)]
    assert len(set(times)) == len(times) > 20_000


@pytest.mark.parametrize(("argument", "problem"), [
    ({"rate": 0.0}, "rate must be > 0 and at most 100,000 a second, got 0.0"),
    ({"rate": 100_001.0}, "rate must be > 0 and at most 100,000 a second, got 100001.0"),
    ({"rate": float("nan")}, "rate must be > 0 and at most 100,000 a second, got nan"),
    ({"duration_s": 0.0}, "duration_s must be > 0, got 0.0"),
    ({"duration_s": 5001.0}, "duration_s must be so short that there are at most 5,000,000 deliveries, got"),
    ({"clients": 0}, "clients must be >= 1, got 0"),
    ({"duplicates": 1.0}, "duplicates must be >= 0 and < 1, got 1.0"),
    ({"duplicates": -0.1}, "duplicates must be >= 0 and < 1, got -0.1"),
    ({"seed": -1}, "seed must be >= 0, got -1"),
])
def test_what_is_no_stream_is_refused(argument, problem):
    """Argument, rule, value."""
    with pytest.raises(ValueError, match=problem.replace(".", r"\.")):
        deliveries(**argument)
