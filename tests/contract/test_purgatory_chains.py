"""Completions that trigger completions: queued, carried out one by one, of any length."""

import pytest

# Each chain runs in a fresh process, in a thread with a small stack and little room to recurse.
CHAIN = """
import sys, threading
import tickwheel as tw

LENGTH = 10_000
clock = tw.ManualClock()
timer = tw.Timer(tick=1.0, executor="inline", clock=clock, start=False)
purgatory = tw.DelayedOperationPurgatory("chain", timer=timer)
order, deepest = [], [0]

def depth():
    frame, count = sys._getframe(), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    return count

class Link(tw.DelayedOperation):
    def __init__(self, number, timeout=60.0):
        super().__init__(timeout)
        self.number = number
        self.ready = False

    def try_complete(self):
        return self.ready

    def on_complete(self):
        deepest[0] = max(deepest[0], depth())
        order.append(self.number)
        pull(self)

def pull(link):
    pass

def fill(timeout=60.0):
    links = [Link(number, timeout) for number in range(LENGTH)]
    for link in links:
        assert purgatory.try_complete_else_watch(link, [link.number, "all"]) is False
        link.ready = True
    return links

def run(story):
    "Runs the story on a small stack; ends the process with what it raised."
    heard = []

    def guarded():
        try:
            story()
        except BaseException:
            import traceback
            sys.setrecursionlimit(1000)
            heard.append(traceback.format_exc())

    threading.stack_size(256 * 1024)
    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if heard:
        sys.exit(heard[0])
    assert order == list(range(LENGTH)), (len(order), order[:5])
    assert deepest[0] < 40, deepest
    assert purgatory.watched == purgatory.delayed == len(timer) == 0
    purgatory._check()
    print("whole")
    purgatory.close()
    timer.close()

sys.setrecursionlimit(120)
"""

PULLS = {
    "check": """
def pull(link):
    assert purgatory.check_and_complete(link.number + 1) == 0
""",
    "force": """
def pull(link):
    if link.number + 1 < LENGTH:
        assert links[link.number + 1].force_complete() is True
        assert links[link.number + 1].is_completed
        assert links[link.number + 1].force_complete() is False
""",
    "mixed": """
def pull(link):
    if link.number % 2:
        assert purgatory.check_and_complete(link.number + 1) == 0
    elif link.number + 1 < LENGTH:
        assert links[link.number + 1].force_complete() is True
""",
}

BEGINNINGS = {
    "a check": "assert purgatory.check_and_complete(0) == 1",
    "a force": "assert links[0].force_complete() is True",
    "a timeout": "links[0].reschedule(1.0); clock.advance(1.0); assert timer.advance_clock() == 1",
}


@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("pull", PULLS)
def test_a_chain_of_ten_thousand(fresh, pull, beginning):
    """Each `on_complete` completes the next operation: one frame, in order, whoever began."""
    story = f"{PULLS[pull]}\nlinks = fill()\ndef story():\n    {BEGINNINGS[beginning]}\nrun(story)\n"
    assert fresh(CHAIN + story) == "whole\n"


@pytest.mark.parametrize("pull", ["check", "force"])
def test_a_chain_through_tries(fresh, pull):
    """Each `try_complete` triggers the next one's completion before it answers itself."""
    what = "purgatory.check_and_complete(self.number + 1)" if pull == "check" else "force_next(self)"
    assert fresh(
        CHAIN
        + f"""
def force_next(link):
    if link.number + 1 < LENGTH:
        links[link.number + 1].force_complete()

class Trying(Link):
    def try_complete(self):
        if self.ready:
            {what}
        return self.ready

Link = Trying
links = fill()
if {pull!r} == "force":
    def pull(link):
        force_next(link)
run(lambda: purgatory.check_and_complete(0))
"""
    ) == "whole\n"


def test_a_chain_of_operations_made_on_the_way(fresh):
    """Each `on_complete` brings a new operation that is complete at its first try."""
    assert fresh(
        CHAIN
        + """
def pull(link):
    if link.number + 1 < LENGTH:
        following = Link(link.number + 1)
        following.ready = True
        assert purgatory.try_complete_else_watch(following, ["a"]) is True
        assert following.is_completed

def story():
    first = Link(0)
    first.ready = True
    assert purgatory.try_complete_else_watch(first, ["a"]) is True

run(story)
"""
    ) == "whole\n"


def test_a_chain_of_timeouts_on_a_worker(fresh):
    """The same on the timer's own thread, begun by a timeout there."""
    assert fresh(
        CHAIN
        + """
timer = tw.Timer()
purgatory = tw.DelayedOperationPurgatory("chain", timer=timer)
over = threading.Event()

def pull(link):
    purgatory.check_and_complete(link.number + 1)
    if link.number + 1 == LENGTH:
        over.set()

threading.stack_size(256 * 1024)
links = fill()

def story():
    links[0].reschedule(0.001)
    assert over.wait(60)
    while purgatory.watched:
        pass

run(story)
"""
    ) == "whole\n"


def test_many_operations_complete_all_at_once(fresh):
    """Ten thousand errands left by one callback wait in a queue, not on the stack."""
    assert fresh(
        CHAIN
        + """
links = fill()
order.clear()
first = Link(-1)

def pull(link):
    if link is first:
        assert all(link.force_complete() for link in links)
        order.clear()

run(lambda: first.force_complete())
"""
    ) == "whole\n"


# --- in order, and outside of every operation's lock


def test_errands_are_carried_out_in_the_order_they_were_left(purgatory, watch):
    """First come, first served, and after the callback that left them has returned."""
    order = []

    def note(name):
        return lambda _: order.append(name)

    forced, checked, last = (watch(name, completed=note(name)) for name in ("forced", "checked", "last"))
    checked.ready = True

    def conduct(_):
        assert forced.force_complete() is True
        assert purgatory.check_and_complete("checked") == 0
        assert last.force_complete() is True
        assert (forced.is_completed, checked.is_completed, last.is_completed) == (True, False, True)
        order.append("conducted")

    watch("start", ready=True, completed=conduct)
    assert purgatory.check_and_complete("start") == 1
    assert order == ["conducted", "forced", "checked", "last"]


@pytest.mark.parametrize("when", ["trying", "completed", "expired"])
def test_no_callback_runs_inside_another(purgatory, watch, advance, when):
    """What a callback triggers begins when it has returned, whichever callback it is."""
    inside, overlaps = [], []

    def conduct(_):
        inside.append(1)
        purgatory.check_and_complete("k")
        third.force_complete()
        inside.pop()

    def note(_):
        overlaps.append(len(inside))

    second = watch("k", ready=True, completed=note, trying=note)
    third = watch("l", completed=note)
    watch("start", timeout=5.0, ready=True, **{when: conduct})
    if when == "expired":
        advance(5.0)
    else:
        purgatory.check_and_complete("start")
    assert second.is_completed and third.is_completed
    assert overlaps == [0, 0, 0]


def test_a_new_operation_is_tried_inside_a_callback(purgatory, watch, make_operation):
    """`try_complete_else_watch` must answer, so it tries at once; only the `on_complete` waits."""
    order = []

    def conduct(_):
        answers.append(purgatory.try_complete_else_watch(ready, ["a"]))
        answers.append(purgatory.try_complete_else_watch(waiting, ["a"]))
        order.append("conducted")

    answers = []
    ready = make_operation(ready=True, completed=lambda _: order.append("completed"))
    waiting = make_operation()
    watch("start", ready=True, completed=conduct)
    purgatory.check_and_complete("start")
    assert answers == [True, False]
    assert ready.diary == ["try", "complete"]
    assert waiting.diary == ["try", "try"]
    assert order == ["conducted", "completed"]
    assert purgatory.delayed == 1


def test_a_queued_on_complete_holds_nothing_up(purgatory, watch):
    """A forced operation is decided for all; by the end of the outermost call it has left every list."""

    def conduct(_):
        assert other.force_complete() is True
        assert other.diary == []
        assert other.cancel() is False

    other = watch("a", "b")
    watch("start", ready=True, completed=conduct)
    assert purgatory.check_and_complete("start") == 1
    assert other.diary == ["complete"]
    assert (purgatory.watched, purgatory.delayed) == (0, 0)


def test_errands_cross_purgatories(make_purgatory, make_operation):
    """A thread has one queue: two purgatories that trigger each other do not recurse either."""
    left, right = make_purgatory("left"), make_purgatory("right")
    order = []

    def bounce(operation):
        order.append(operation.number)
        (right if operation.number % 2 == 0 else left).check_and_complete(operation.number + 1)

    for number in range(500):
        operation = make_operation(completed=bounce)
        operation.number = number
        (right if number % 2 else left).try_complete_else_watch(operation, [number])
        operation.ready = True
    assert left.check_and_complete(0) == 1
    assert order == list(range(500))


def test_every_check_left_is_carried_out(purgatory, watch):
    """Three events are three checks, though they name the same key."""
    operation = watch("k")

    def conduct(_):
        for _ in range(3):
            purgatory.check_and_complete("k")

    watch("start", ready=True, completed=conduct)
    purgatory.check_and_complete("start")
    assert operation.diary == ["try"] * 3
