"""Two threads at one operation: one stops before each line of its call, and the other makes its own there.

What another thread may do between two lines does not depend on when an interpreter lets it. The compiled
core has no lines: there the calls follow each other.
"""

import sys
import threading

import pytest

WAIT = 30
BLOCKED = 0.01  # seconds, after which the other thread is taken to wait for a lock that the stopped one holds


class Stepper:
    """Runs a function, and before its n-th line in the package another one, in a thread of its own."""

    def __init__(self, tw, step, other):
        self.package = tw.__path__[0]
        self.step = step
        self.other = threading.Thread(target=other)
        self.place = None  # the line before which it ran; None: there are not so many

    def __call__(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(self.package):
            return None
        if event == "line" and self.place is None:
            self.step -= 1
            if self.step == 0:
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                self.other.start()
                self.other.join(BLOCKED)
        return self

    def run(self, function):
        before = sys.gettrace()
        sys.settrace(self)
        try:
            function()
        finally:
            sys.settrace(before)
        if self.place is None:
            self.other.start()
        self.other.join(WAIT)
        assert not self.other.is_alive()


class Scene:
    """An operation, two purgatories with one timer, and what came of all calls."""

    def __init__(self, make_purgatory, make_operation, timer):
        self.left, self.right, self.timer = make_purgatory("left"), make_purgatory("right"), timer
        self.operation = make_operation(60.0)
        self.comings, self.leavings, self.errors = [], [], []

    def bring(self, purgatory, *keys):
        try:
            if not purgatory.try_complete_else_watch(self.operation, keys):
                self.comings.append(self.operation)
        except RuntimeError as error:
            if "already" not in str(error) and "not done with it" not in str(error):
                self.errors.append(error)

    def bring_left(self):
        self.bring(self.left, "a", "b")

    def bring_right(self):
        self.bring(self.right, "a")

    def add(self):
        self.timer.add(self.operation)
        self.comings.append(self.operation)

    def cancel(self):
        if self.operation.cancel():
            self.leavings.append(self.operation)

    def cancel_for_key(self):
        self.leavings.extend(self.left.cancel_for_key("a"))

    def move(self):
        self.cancel()
        self.bring_right()

    def complete(self):
        self.operation.force_complete()

    def settle(self):
        """It is in one place at most, all of it, and each of its comings ended once."""
        left, right, operation = self.left, self.right, self.operation
        assert not self.errors
        left._check()
        right._check()
        self.timer._check()
        waits = operation.state == "PENDING"
        assert left.delayed + right.delayed == len(self.timer) == waits
        assert (left.watched, right.watched) == (2 * left.delayed, right.delayed)
        assert not (waits and operation.is_completed)
        if operation.is_completed:
            assert operation.diary.count("complete") == 1
        else:
            assert len(self.comings) == len(self.leavings) + waits
        assert len(left.close() + right.close()) == waits
        assert (left.watched, left.delayed, right.watched, right.delayed, len(self.timer)) == (0, 0, 0, 0, 0)


BEFORE = {
    "new": [],
    "dropped": [Scene.bring_left, Scene.cancel],
    "waiting": [Scene.bring_left],
    "a timer's": [Scene.add],
}
CASES = [
    ("new", Scene.bring_left, Scene.bring_right),
    ("new", Scene.bring_left, Scene.cancel),
    ("new", Scene.bring_left, Scene.move),
    ("new", Scene.bring_left, Scene.complete),
    ("new", Scene.cancel, Scene.bring_left),
    ("dropped", Scene.bring_left, Scene.bring_right),
    ("dropped", Scene.bring_left, Scene.move),
    ("dropped", Scene.cancel, Scene.bring_right),
    ("waiting", Scene.cancel, Scene.bring_right),
    ("waiting", Scene.cancel, Scene.move),
    ("waiting", Scene.cancel_for_key, Scene.move),
    ("waiting", Scene.cancel_for_key, Scene.complete),
    ("waiting", Scene.move, Scene.bring_left),
    ("a timer's", Scene.cancel, Scene.move),
]


@pytest.mark.parametrize(
    ("before", "call", "other"), CASES, ids=lambda case: case if isinstance(case, str) else case.__name__
)
def test_two_threads_at_every_step(tw, make_purgatory, make_operation, timer, before, call, other):
    """Whoever comes between, and wherever: it is in one place at most, and nothing is left elsewhere."""
    step, place = 1, ""
    while place is not None:
        scene = Scene(make_purgatory, make_operation, timer)
        for act in BEFORE[before]:
            act(scene)
        stepper = Stepper(tw, step, lambda scene=scene: other(scene))
        stepper.run(lambda scene=scene: call(scene))
        place = stepper.place
        try:
            scene.settle()
        except AssertionError as error:
            error.add_note(f"the other thread came before {place}")
            raise
        step += 1
    assert step > 1
