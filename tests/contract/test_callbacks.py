"""R7 and R8: user code runs outside every lock, and its errors stop nothing."""

import logging
import threading

import pytest

WAIT = 30


def elsewhere(function):
    """Runs a function in another thread and waits: fails if a lock is held here that it needs there."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join(WAIT)
    assert results, "blocked or failed"
    return results[0]


def fail(*_):
    raise ZeroDivisionError("callback")


# --- R7


def use_everything(timer, tw):
    """Each public operation of a timer once; returns what is left pending."""
    before = len(timer)
    task = timer.schedule(1e6, list)
    assert task.reschedule(2e6)
    assert task.cancel()
    timer.schedule_at(timer.time() + 1e6, list).cancel()
    timer.schedule_every(1e6, list).cancel()
    timer.submit(1e6, list).cancel()
    task = tw.TimerTask(1e6)
    timer.add(task)
    assert task.cancel()
    timer.reconfigure(wheel_size=16)
    assert timer.stats().pending == len(timer) == before
    repr(task)
    return True


def test_a_callback_holds_no_lock_of_the_timer(tw, timer, advance):
    """R7: while a callback runs, another thread can do everything."""
    results = []
    timer.schedule(1.0, lambda: results.append(elsewhere(lambda: use_everything(timer, tw))))
    timer.schedule(1.0, lambda: results.append(use_everything(timer, tw)))
    assert advance(1.0) == 2
    assert results == [True, True]


def test_a_workers_callback_holds_no_lock_of_the_timer(tw, make_timer):
    """R7: the same on the default executor with the reaper running."""
    timer = make_timer()
    results = []
    finished = threading.Event()

    def callback():
        results.append(elsewhere(lambda: use_everything(timer, tw)))
        results.append(use_everything(timer, tw))
        finished.set()

    timer.schedule(0.001, callback)
    assert finished.wait(WAIT)
    assert results == [True, True]


def test_on_error_holds_no_lock_of_the_timer(tw, make_timer, clock):
    """R7: `on_error` is user code too."""
    results = []
    timer = make_timer(
        executor="inline",
        clock=clock,
        start=False,
        on_error=lambda task, error: results.append(elsewhere(lambda: use_everything(timer, tw))),
    )
    timer.schedule(0, fail)
    timer.advance_clock()
    assert results == [True]


def test_a_callback_may_schedule_cancel_and_reschedule(timer, advance):
    """R7: what a callback does to other tasks holds."""
    fired = []

    def conduct():
        cancelled.cancel()
        moved.reschedule(10.0)
        timer.schedule(1.0, fired.append, "new")

    timer.schedule(1.0, conduct)
    cancelled = timer.schedule(1.0, fired.append, "cancelled")
    moved = timer.schedule(1.0, fired.append, "moved")
    for _ in range(12):
        advance(1.0)
    assert fired == ["new", "moved"]


def test_a_callback_may_close_the_timer(timer, advance):
    """R7, R9: what has not started, though due, is returned and not run."""
    fired, returned = [], []
    timer.schedule(1.0, lambda: returned.extend(timer.close()))
    due = timer.schedule(1.0, fired.append, "due")
    later = timer.schedule(9.0, fired.append, "later")
    assert advance(1.0) == 1
    assert fired == []
    assert {id(task) for task in returned} == {id(due), id(later)}
    assert due.state == later.state == "IDLE"


def test_a_callback_that_turns_the_wheel_does_nothing(timer, advance):
    """`advance_clock` from inside a callback does nothing and returns 0."""
    results, fired = [], []
    timer.schedule(1.0, lambda: results.append((timer.advance_clock(), list(fired))))
    timer.schedule(1.0, fired.append, 1)
    assert advance(1.0) == 2
    assert results == [(0, [])]
    assert fired == [1]


def test_only_a_timer_without_a_reaper_is_turned_by_hand(make_timer):
    """`advance_clock` is a RuntimeError where a reaper runs."""
    timer = make_timer()
    with pytest.raises(RuntimeError):
        timer.advance_clock()


# --- R8


def test_an_error_stops_nothing(timer, advance, caplog):
    """R8: the tasks after it run, those of the same instant and later ones."""
    fired = []
    for number in range(100):
        timer.schedule(1 + number % 3, fail if number % 2 else fired.append, number)
    assert advance(1.0) + advance(5.0) == 100
    assert len(fired) == 50
    assert timer.stats().errors == 50
    assert timer.stats().fired == 100


def test_an_error_is_logged_then_reported(make_timer, clock, caplog):
    """R8: first to the logger "tickwheel", with its traceback, then to `on_error(task, exception)`."""
    reports = []

    def on_error(task, error):
        reports.append((task, error, len(caplog.records)))

    timer = make_timer(executor="inline", clock=clock, start=False, on_error=on_error)
    task = timer.schedule(0, fail)
    timer.advance_clock()
    (record,) = caplog.records
    ((reported, error, logged_before),) = reports
    assert (record.name, record.levelno) == ("tickwheel", logging.ERROR)
    assert record.exc_info[1] is error
    assert isinstance(error, ZeroDivisionError)
    assert (reported, logged_before) == (task, 1)


def test_without_on_error_it_is_logged(timer, caplog):
    """R8: an error never passes in silence."""
    timer.schedule(0, fail)
    timer.advance_clock()
    (record,) = caplog.records
    assert record.exc_info[0] is ZeroDivisionError


def test_an_error_in_on_error_is_logged_too(make_timer, clock, caplog):
    """R8: a broken `on_error` leaves two log records and stops nothing."""

    def on_error(task, error):
        raise LookupError("on_error")

    timer = make_timer(executor="inline", clock=clock, start=False, on_error=on_error)
    fired = []
    timer.schedule(0, fail)
    timer.schedule(0, fired.append, 1)
    timer.advance_clock()
    assert [record.exc_info[0] for record in caplog.records] == [ZeroDivisionError, LookupError]
    assert fired == [1]


def test_an_error_on_the_worker_is_logged_and_reported(make_timer, caplog):
    """R8: the same on the default executor, which goes on."""
    reports = []
    timer = make_timer(on_error=lambda task, error: reports.append((task, type(error))))
    finished = threading.Event()
    task = timer.schedule(0.001, fail)
    timer.schedule(0.002, finished.set)
    assert finished.wait(WAIT)
    assert reports == [(task, ZeroDivisionError)]
    assert [record.name for record in caplog.records] == ["tickwheel"]


def test_a_run_method_that_raises_is_reported(tw, make_timer, clock, caplog):
    """R8: `run` is a callback."""

    class Broken(tw.TimerTask):
        def run(self):
            raise ZeroDivisionError

    reports = []

    def on_error(*args):
        reports.append(args)

    timer = make_timer(executor="inline", clock=clock, start=False, on_error=on_error)
    task = Broken(0)
    timer.add(task)
    timer.advance_clock()
    ((reported, error),) = reports
    assert reported is task
    assert isinstance(error, ZeroDivisionError)


def test_the_errors_of_submit_go_to_its_future_only(make_timer, clock, caplog):
    """R8: neither logged nor reported."""
    reports = []

    def on_error(*args):
        reports.append(args)

    timer = make_timer(executor="inline", clock=clock, start=False, on_error=on_error)
    future = timer.submit(0, fail)
    timer.advance_clock()
    with pytest.raises(ZeroDivisionError):
        future.result(timeout=0)
    assert reports == []
    assert caplog.records == []


@pytest.mark.parametrize("exception", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes_through_and_what_was_due_stays_due(timer, clock, exception):
    """R8: KeyboardInterrupt and SystemExit leave `advance_clock`; the next call goes on where it stopped."""
    fired = []

    def interrupt():
        raise exception

    timer.schedule(1.0, fired.append, 1)
    timer.schedule(1.0, interrupt)
    timer.schedule(1.0, fired.append, 2)
    timer.schedule(2.0, fired.append, 3)
    clock.advance(2.0)
    with pytest.raises(exception):
        timer.advance_clock()
    assert fired == [1]
    assert len(timer) == 2
    timer._check()
    assert timer.advance_clock() == 2
    assert fired == [1, 2, 3]


@pytest.mark.parametrize("exception", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_periodic_task_goes_on(timer, clock, advance, exception):
    """R3, R8: the run that was interrupted has fired; the next one is pending and can be cancelled."""
    runs = []

    def interrupt():
        runs.append(clock.time())
        if len(runs) == 1:
            raise exception

    task = timer.schedule_every(1.0, interrupt)
    clock.advance(1.0)
    with pytest.raises(exception):
        timer.advance_clock()
    assert (task.state, len(timer)) == ("PENDING", 1)
    advance(1.0)
    assert runs == [1.0, 2.0]
    assert task.cancel() is True


@pytest.mark.parametrize("executor", [None, "inline"])
@pytest.mark.parametrize("exception", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_no_exception_ends_the_timers_own_threads(make_timer, caplog, executor, exception):
    """R8: on the reaper and on the worker nobody is above to catch them, and they stop nothing."""
    timer = make_timer(executor=executor)
    finished = threading.Event()

    def leave():
        raise exception

    timer.schedule(0.001, leave)
    timer.schedule(0.002, finished.set)
    assert finished.wait(WAIT)
    finished.clear()
    timer.schedule(0, finished.set)
    assert finished.wait(WAIT)


@pytest.mark.parametrize("executor", [None, "inline"])
def test_a_logger_that_raises_ends_no_thread(make_timer, capfd, executor):
    """R8: with the log broken the error goes to stderr, and reaper and worker go on."""

    def refuse(record):
        raise LookupError("filter")

    timer = make_timer(executor=executor)
    finished = threading.Event()
    log = logging.getLogger("tickwheel")
    log.addFilter(refuse)
    try:
        timer.schedule(0.001, fail)
        timer.schedule(0.005, finished.set)
        assert finished.wait(WAIT)
    finally:
        log.removeFilter(refuse)
    heard = capfd.readouterr().err
    assert "LookupError" in heard
    assert "ZeroDivisionError" in heard


def test_an_error_while_the_wheel_is_turned_leaves_it_whole(timer, advance, caplog, rng):
    """R8: thousands of failing callbacks, over cascades, keep every invariant and every count."""
    for _ in range(3000):
        timer.schedule(rng.randrange(1, 5000), fail)
    while len(timer):
        advance(rng.choice((1.0, 50.0, 600.0)))
        timer._check()
    stats = timer.stats()
    assert (stats.fired, stats.errors, stats.scheduled) == (3000, 3000, 3000)
