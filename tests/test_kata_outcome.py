"""The kata's outcomes: the pipeline's in virtual time, what is wrong with one, where two differ."""
import pytest

pytest.importorskip("pyarrow", reason="the extra `spark`")
pytest.importorskip("numpy", reason="the extra `spark`")

from tickwheel.bench.kata.in_process import play
from tickwheel.bench.kata.outcome import OUTCOME, Check, Played, check, compared, difference, outcome_of
from tickwheel.bench.kata.stream import deliveries

RIGHT = Check(violations=0, repeated=0, lost=0, unknown=0)


def in_order(due):
    """Each client's uuids, each once, in the order of their creation: the plain oracle."""
    events = {}
    for delivery in sorted(due, key=lambda delivery: delivery.created_s):
        events.setdefault(delivery.client_id, {})[delivery.uuid.bytes] = None
    return {client: list(uuids) for client, uuids in events.items()}


@pytest.fixture
def due(rng):
    """Of 12 clients over 30 s, a third of them again."""
    return deliveries(rate=40, duration_s=30, clients=12, duplicates=0.35, seed=rng.randrange(2**32))


@pytest.mark.parametrize("clients", [1, 12, 10_000])
def test_the_pipeline_passes_each_event_on_once_and_in_order(rng, clients):
    """Also those that come again 9 s later; hours of the stream take no time."""
    seed = rng.randrange(2**32)
    due = deliveries(rate=100, duration_s=40, clients=clients, duplicates=0.3, seed=seed)
    shown = []
    played = play(due, shown.append)
    assert difference({"played": played.outcome, "oracle": outcome_of(in_order(due))}) is None
    assert check(played.outcome, due) == RIGHT
    assert played.outcome.schema == OUTCOME
    assert shown == [0]


def test_an_event_after_the_window_is_passed_on_again(due):
    """What the kata rules out is not hidden: 10 s after its first delivery an id is new."""
    first = due[0]
    again = [
        first._replace(delivered_s=first.delivered_s + later_s) for later_s in (9.9, 10.1, 20.0, 20.3)
    ]
    stream = sorted([*due, *again], key=lambda delivery: delivery.delivered_s)
    stream = [
        delivery for delivery in stream
        if delivery.uuid != first.uuid or delivery in (first, *again)
    ]
    assert check(play(stream).outcome, stream) == Check(violations=0, repeated=2, lost=0, unknown=0)


def test_no_deliveries_are_no_rows():
    """An empty outcome, and right."""
    played = play([])
    assert played.outcome.num_rows == 0
    assert check(played.outcome, []) == RIGHT
    assert compared([], {"one": played, "other": played}).problems == []


def broken(due, change):
    """The right outcome's clients and uuids, changed."""
    events = in_order(due)
    change(events)
    return outcome_of(events)


def swap(events):
    uuids = events[min(events)]
    uuids[3], uuids[4] = uuids[4], uuids[3]


def lose(events):
    del events[max(events)][-1]


def repeat(events):
    events[max(events)].append(events[max(events)][-1])


def invent(events):
    events[max(events)].append(bytes(16))


def give_away(events):
    events[max(events)].append(events[min(events)].pop())


@pytest.mark.parametrize(("change", "found", "said"), [
    (swap, Check(1, 0, 0, 0), "1 out of order"),
    (lose, Check(0, 0, 1, 0), "1 events lost"),
    (repeat, Check(0, 1, 0, 0), "1 duplicates passed on"),
    (invent, Check(0, 0, 0, 1), "1 rows of no event of their client"),
    (give_away, Check(0, 0, 1, 1), "1 events lost, 1 rows of no event of their client"),
])
def test_a_wrong_outcome_is_found_out(due, change, found, said):
    """By what was delivered, and beside a right one; also where both are wrong in the same way."""
    wrong, right = Played(broken(due, change), 1.0), Played(outcome_of(in_order(due)), 1.0)
    assert check(wrong.outcome, due) == found
    differ, fault = compared(due, {"one": right, "other": wrong}).problems
    assert differ.startswith("The outcomes differ: ")
    assert fault == f"other is wrong: {said}."
    assert compared(due, {"one": wrong, "other": wrong}).problems == [
        f"one is wrong: {said}.", f"other is wrong: {said}."
    ]


def test_a_gap_in_the_sequence_is_out_of_order(due):
    """Numbers that do not begin at 1, or leave one out, are counted once each."""
    right = outcome_of(in_order(due))
    numbers = right["sequence"].to_pylist()
    clients = right["client_id"].to_pylist()
    for place in (0, 5):
        moved = [
            number + (client == clients[0] and number > place)
            for client, number in zip(clients, numbers, strict=True)
        ]
        outcome = right.set_column(1, OUTCOME.field(1), [moved])
        assert check(outcome, due) == Check(violations=1, repeated=0, lost=0, unknown=0)


def test_the_first_row_that_differs_is_named(due):
    """Client, sequence and uuid of both; where one outcome ends, that. The order of the rows is nothing."""
    right = outcome_of(in_order(due))
    assert difference({"a": right, "b": right.take(list(reversed(range(len(right)))))}) is None
    told = difference({"a": right, "b": broken(due, swap)})
    client = min(in_order(due))
    assert told.startswith(f"client {client}, sequence 4, ")
    assert f" in a and client {client}, sequence 4, " in told
    assert told.endswith(" in b")
    assert difference({"a": right, "b": broken(due, lose)}).endswith(" in a and nothing more in b")
    empty = right.slice(0, 0)
    assert difference({"a": empty, "b": right}).startswith("nothing more in a and client 0, sequence 1, ")
    assert difference({"a": empty, "b": empty}) is None
