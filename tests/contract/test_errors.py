"""Bad input: one clear error that names argument, rule and value, and nothing changed."""

import copy
import math
import pickle

import pytest

NOT_FINITE = [math.nan, math.inf, -math.inf]


# --- making a timer


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tick": 0}, "tick must be > 0, got 0"),
        ({"tick": -0.5}, "tick must be > 0, got -0.5"),
        ({"tick": math.nan}, "tick must be .*, got nan"),
        ({"tick": math.inf}, "tick must be .*finite, got inf"),
        ({"wheel_size": 1}, "wheel_size must be >= 2, got 1"),
        ({"wheel_size": 0}, "wheel_size must be >= 2, got 0"),
        ({"wheel_size": -5}, "wheel_size must be >= 2, got -5"),
        ({"max_pending": 0}, "max_pending must be >= 1, got 0"),
        ({"max_pending": -1}, "max_pending must be >= 1, got -1"),
    ],
)
def test_a_bad_option_is_named(tw, options, message):
    """ValueError: `tick must be > 0, got 0`."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        tw.Timer(start=False, **options)


@pytest.mark.parametrize("tick", [1e-15, 1e-320])
def test_a_tick_below_a_nanosecond_is_refused(tw, timer, tick):
    """Deadlines are compared to a nanosecond: on a finer tick they would be early, or never come."""
    with pytest.raises(ValueError, match=rf"^tick must be >= 1e-09 .*, got {tick}$"):
        tw.Timer(start=False, tick=tick)
    with pytest.raises(ValueError, match=rf"^tick must be >= 1e-09 .*, got {tick}$"):
        timer.reconfigure(tick=tick)


@pytest.mark.parametrize(
    "options", [{"tick": "1"}, {"tick": None}, {"wheel_size": 2.5}, {"wheel_size": "8"}, {"max_pending": 1.5}]
)
def test_an_option_of_the_wrong_type_is_a_type_error(tw, options):
    """As in the standard library: a float is no size, a string no number."""
    with pytest.raises(TypeError):
        tw.Timer(start=False, **options)


@pytest.mark.parametrize("options", [{"on_error": 3}, {"on_error": "log"}])
def test_on_error_must_be_callable(tw, options):
    """TypeError when it is given, not when it is needed."""
    with pytest.raises(TypeError, match=r"on_error must be callable"):
        tw.Timer(start=False, **options)


def test_options_are_keywords(tw):
    """A bare number does not say whether it is a tick or a size."""
    with pytest.raises(TypeError):
        tw.Timer(0.001)
    with pytest.raises(TypeError):
        tw.Timer(ticks=0.001)


# --- delays


@pytest.mark.parametrize("delay", NOT_FINITE)
def test_a_delay_must_be_finite(tw, timer, delay):
    """ValueError `delay must be finite, got nan`, wherever a delay is given, and nothing is scheduled."""
    message = f"^delay must be finite, got {delay}$"
    task = timer.schedule(5.0, list)
    for call in (
        lambda: timer.schedule(delay, list),
        lambda: timer.submit(delay, list),
        lambda: task.reschedule(delay),
        lambda: tw.TimerTask(delay),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert (len(timer), timer.stats().scheduled) == (1, 1)
    assert (task.when, task.state) == (5.0, "PENDING")


@pytest.mark.parametrize("when", NOT_FINITE)
def test_a_deadline_must_be_finite(timer, when):
    """ValueError `when must be finite, got nan`."""
    with pytest.raises(ValueError, match=f"^when must be finite, got {when}$"):
        timer.schedule_at(when, list)
    assert len(timer) == 0


@pytest.mark.parametrize("value", ["1", None, [], 1j])
def test_a_delay_must_be_a_number(tw, timer, value):
    """TypeError, and nothing changed."""
    task = timer.schedule(5.0, list)
    for call in (
        lambda: timer.schedule(value, list),
        lambda: timer.schedule_at(value, list),
        lambda: timer.schedule_every(value, list),
        lambda: timer.submit(value, list),
        lambda: task.reschedule(value),
        lambda: tw.TimerTask(value),
    ):
        with pytest.raises(TypeError):
            call()
    assert len(timer) == 1
    assert task.when == 5.0


def test_any_real_number_is_a_delay(timer, advance):
    """Integers, and whatever has `__float__`, as `time.sleep` takes them."""
    from decimal import Decimal
    from fractions import Fraction

    fired = []
    for delay in (1, True, Fraction(3, 2), Decimal("1.5"), 2.0):
        timer.schedule(delay, fired.append, delay)
    assert advance(2.0) == 5
    assert fired == [1, True, Fraction(3, 2), Decimal("1.5"), 2.0]


class Unready:
    """A number whose conversion uses the timer."""

    def __init__(self, action):
        self.action = action

    def __float__(self):
        self.action()
        return 5.0


def test_a_number_may_use_the_timer_while_it_is_read(timer, advance):
    """R7: `__float__` is user code: it may cancel the very task that is being moved."""
    task = timer.schedule(1.0, list)
    assert task.reschedule(Unready(task.cancel)) is False
    assert len(timer) == 0
    timer.schedule(Unready(lambda: timer.schedule(1.0, list)), list)
    assert len(timer) == 2
    timer._check()
    assert advance(5.0) == 2
    doomed = Unready(timer.close)
    with pytest.raises(RuntimeError):
        timer.schedule(doomed, list)


@pytest.mark.parametrize("delay", [100 * 365.25 * 86400, 1e12, 1e15])
def test_huge_delays_are_pending(timer, advance, delay):
    """100-year delays work, and far longer ones neither overflow nor fire early."""
    task = timer.schedule(delay, list)
    assert task.when == delay
    assert advance(99 * 365.25 * 86400) == 0
    assert task.state == "PENDING"
    timer._check()
    assert task.cancel() is True


@pytest.mark.parametrize("delay", [1e18, 1e19, 1e100, 1.7e308])
@pytest.mark.parametrize("way", ["schedule", "schedule_at", "reschedule", "add"])
def test_a_delay_beyond_the_wheel_never_fires_early(tw, timer, advance, delay, way):
    """A finite delay past the range of ticks is either refused by name or pending: it never runs at once."""
    task = timer.schedule(5.0, list)
    try:
        if way == "reschedule":
            task.reschedule(delay)
        elif way == "add":
            timer.add(tw.TimerTask(delay))
        else:
            getattr(timer, way)(delay, list)
    except ValueError as error:
        assert "must be" in str(error)
        assert str(delay) in str(error)
    timer._check()
    near = task.when == 5.0
    assert advance(6.0) == near
    assert advance(1e10) == 0
    timer._check()


def test_a_tiny_tick_meets_a_huge_delay(make_timer, clock):
    """The product of the two is what may overflow."""
    timer = make_timer(tick=1e-9, executor="inline", clock=clock, start=False)
    try:
        timer.schedule(1e12, list)
    except ValueError as error:
        assert "must be" in str(error)
    clock.advance(1.0)
    assert timer.advance_clock() == 0
    timer._check()


# --- callbacks and arguments


def test_a_callback_must_be_callable(timer):
    """TypeError `callback must be callable, got 3`, at `schedule`, not when it is due."""
    for call in (
        lambda: timer.schedule(1.0, 3),
        lambda: timer.schedule(0, 3),
        lambda: timer.schedule_at(1.0, 3),
        lambda: timer.schedule_every(1.0, 3),
    ):
        with pytest.raises(TypeError, match=r"^callback must be callable, got 3$"):
            call()
    with pytest.raises(TypeError, match=r"must be callable, got 3$"):
        timer.submit(1.0, 3)
    assert len(timer) == 0


def test_arguments_are_positional(timer):
    """`schedule(delay, callback, /, *args)`: no keyword but `executor`."""
    for call in (
        timer.schedule,
        lambda: timer.schedule(1.0),
        lambda: timer.schedule(delay=1.0, callback=list),
        lambda: timer.schedule(1.0, list, daemon=True),
        lambda: timer.schedule_every(1.0, list, mised="skip"),
        lambda: timer.submit(1.0),
    ):
        with pytest.raises(TypeError):
            call()
    assert len(timer) == 0


@pytest.mark.parametrize("what", [None, 3, list, object()])
def test_only_tasks_are_added(tw, timer, what):
    """TypeError for what is no `TimerTask`."""
    with pytest.raises(TypeError):
        timer.add(what)
    with pytest.raises(TypeError):
        tw.TimingWheel().add(what, 5)
    with pytest.raises(TypeError):
        tw.TimingWheel().cancel(what)
    assert len(timer) == 0


def test_a_subclass_that_forgot_its_init_is_told(tw, timer):
    """A task whose `__init__` was never called has no delay: an error, not a crash."""

    class Forgetful(tw.TimerTask):
        def __init__(self):
            pass

    try:
        task = Forgetful()
    except TypeError:
        return  # refused when it is made
    repr(task)
    assert task.cancel() is False
    with pytest.raises((ValueError, RuntimeError, TypeError)):
        timer.add(task)
    assert len(timer) == 0
    timer._check()


def test_initialising_a_pending_task_again_is_refused(tw, timer):
    """`__init__` called a second time must not pull a pending task from under the wheel."""
    task = tw.TimerTask(5.0)
    timer.add(task)
    with pytest.raises(RuntimeError):
        task.__init__(1.0)
    assert (task.when, task.state, len(timer)) == (5.0, "PENDING", 1)
    timer._check()


@pytest.mark.parametrize("copy", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_is_linked_cannot_be_copied(tw, timer, advance, copy):
    """TypeError: a copy would share the links of its original."""
    task, wheel = timer.schedule(5.0, list), tw.TimingWheel()
    wheel.add(tw.TimerTask(0), 5)
    for thing in (task, wheel, timer):
        with pytest.raises(TypeError):
            copy(thing)
    timer._check()
    assert advance(5.0) == 1


def test_a_timer_subclass_that_forgot_its_init_is_told(tw):
    """An error for each method, and no crash, on a timer whose `__init__` was never called."""

    class Forgetful(tw.Timer):
        def __init__(self):
            pass

    timer = Forgetful()
    for call in (
        lambda: timer.schedule(1.0, list),
        lambda: timer.schedule_at(1.0, list),
        lambda: timer.schedule_every(1.0, list),
        lambda: timer.submit(1.0, list),
        lambda: timer.add(tw.TimerTask(1.0)),
        lambda: len(timer),
        timer.time,
        timer.stats,
        timer.reconfigure,
        timer.advance_clock,
        timer.close,
        timer._check,
    ):
        with pytest.raises((RuntimeError, AttributeError)):
            call()


@pytest.mark.parametrize("reading", [math.nan, math.inf, "noon", None])
def test_a_clock_that_tells_nonsense_is_told(make_timer, scripted, reading):
    """An error in whoever reads it, and what is pending stays whole."""
    timer = make_timer(tick=1.0, executor="inline", clock=scripted, start=False)
    task = timer.schedule(5.0, list)
    scripted.now = reading
    for call in (lambda: timer.schedule(1.0, list), lambda: task.reschedule(9.0), timer.advance_clock):
        with pytest.raises((ValueError, TypeError)):
            call()
    scripted.now = 5.0
    timer._check()
    assert timer.advance_clock() == 1


# --- waiting by hand


@pytest.mark.parametrize("timeout", [math.nan, "1"])
def test_a_bad_timeout_of_advance_clock(timer, timeout):
    """A timeout that is no number is refused."""
    with pytest.raises((ValueError, TypeError)):
        timer.advance_clock(timeout=timeout)
