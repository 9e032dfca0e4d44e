"""`submit` and `limit`: futures on the wheel."""

import concurrent.futures
import threading
import time

import pytest

WAIT = 30


def fail():
    raise ZeroDivisionError


# --- submit


def test_a_future_gets_the_result(timer, advance):
    """`submit(delay, fn, *args)` calls fn when the delay has passed."""
    future = timer.submit(2.0, divmod, 7, 3)
    assert isinstance(future, concurrent.futures.Future)
    assert not future.done()
    advance(1.0)
    assert not future.done()
    advance(1.0)
    assert future.result(timeout=0) == (2, 1)
    assert len(timer) == 0


def test_a_future_gets_the_error(timer, advance):
    """R8: the errors of submit go to its future."""
    future = timer.submit(1.0, fail)
    advance(1.0)
    assert isinstance(future.exception(timeout=0), ZeroDivisionError)


def test_cancelling_the_future_unlinks_its_task(timer, advance):
    """The place in the wheel is free at once."""
    ran = []
    futures = [timer.submit(1.0, ran.append, number) for number in range(100)]
    assert len(timer) == 100
    assert all(future.cancel() for future in futures[::2])
    assert len(timer) == 50
    assert timer.stats().cancelled == 50
    advance(1.0)
    assert ran == list(range(1, 100, 2))
    assert futures[0].cancelled()
    with pytest.raises(concurrent.futures.CancelledError):
        futures[0].result(timeout=0)


def test_cancelling_twice_is_as_the_standard_library_has_it(timer):
    """`Future.cancel` of a cancelled future is True; the task is counted once."""
    future = timer.submit(1.0, list)
    assert [future.cancel(), future.cancel()] == [True, True]
    assert timer.stats().cancelled == 1


def test_a_queued_future_can_be_cancelled(busy, clock, gate):
    """R3: until fn has started, cancelling wins."""
    ran = []
    future = busy.submit(1.0, ran.append, 1)
    clock.advance(1.0)
    busy.advance_clock()
    assert future.cancel() is True
    gate.open()
    busy.close()
    assert ran == []


def test_a_running_future_cannot_be_cancelled(make_timer, gate):
    """While fn runs, the future says so."""
    timer = make_timer()
    future = timer.submit(0, gate.hold)
    gate.wait_entered()
    assert future.running()
    assert future.cancel() is False
    gate.open()
    assert future.result(timeout=WAIT) is None


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_a_cancelled_future_is_done_for_wait_and_as_completed(timer, how):
    """`concurrent.futures.wait` counts a cancelled future as done: nobody waits for it for ever."""
    futures = [timer.submit(5.0, list), timer.submit(5.0, list)]
    if how == "cancel":
        futures[0].cancel()
    else:
        timer.close()
    done, _ = concurrent.futures.wait(futures, timeout=0, return_when="FIRST_COMPLETED")
    assert futures[0] in done


def test_futures_work_with_wait_and_as_completed(make_timer):
    """They are the standard library's own."""
    timer = make_timer()
    futures = [timer.submit(delay, pow, 2, n) for n, delay in enumerate((0.01, 0.0, 0.005))]
    done, pending = concurrent.futures.wait(futures, timeout=WAIT)
    assert not pending
    assert [future.result() for future in futures] == [1, 2, 4]
    assert set(concurrent.futures.as_completed(futures, timeout=WAIT)) == done


def test_close_cancels_futures_and_does_not_return_their_tasks(timer):
    """Whoever waits for a future is told; `close` returns tasks that somebody holds."""
    task = timer.schedule(5.0, list)
    futures = [timer.submit(5.0, list) for _ in range(10)]
    assert timer.close() == [task]
    assert all(future.cancelled() for future in futures)
    stats = timer.stats()
    assert stats.pending == 0
    assert stats.scheduled >= stats.fired + stats.cancelled


def test_close_wakes_a_thread_that_waits_for_a_future(make_timer):
    """`result()` raises CancelledError once the timer is closed."""
    timer = make_timer()
    future = timer.submit(3600.0, list)
    raised = []

    def wait():
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(timeout=WAIT)
        raised.append(True)

    waiter = threading.Thread(target=wait)
    waiter.start()
    timer.close()
    waiter.join(WAIT)
    assert raised == [True]


def test_close_lets_a_running_future_finish(make_timer, gate):
    """R9: close waits for what runs, and its result arrives."""
    timer = make_timer()
    future = timer.submit(0, gate.hold)
    gate.wait_entered()
    threading.Timer(0.05, gate.open).start()
    timer.close()
    assert future.done()
    assert future.result() is None


@pytest.mark.parametrize("how", ["result", "cancel", "close"])
def test_done_callbacks_run_outside_every_lock(timer, advance, how):
    """R7: a future's callbacks may use the timer, also those that `close` and `cancel` call."""
    lengths = []
    future = timer.submit(1.0, list)

    def use(future):
        lengths.append(len(timer))
        if how != "close":
            timer.schedule(5.0, list).cancel()

    future.add_done_callback(use)
    if how == "result":
        advance(1.0)
    elif how == "cancel":
        future.cancel()
    else:
        timer.close()
    assert lengths == [0]


def test_submit_counts_against_max_pending(tw, make_timer, clock):
    """`TooManyPending`, and no future is left behind."""
    timer = make_timer(executor="inline", clock=clock, start=False, max_pending=1)
    future = timer.submit(1.0, list)
    with pytest.raises(tw.TooManyPending):
        timer.submit(1.0, list)
    assert future.cancel()
    timer.submit(1.0, list)


# --- limit


def test_limit_passes_the_result_on(timer, advance):
    """A new future with the old one's result, and its timeout leaves the wheel at once."""
    future = concurrent.futures.Future()
    limited = timer.limit(future, 5.0)
    assert limited is not future
    assert (limited.done(), len(timer)) == (False, 1)
    future.set_result("in time")
    assert limited.result(timeout=0) == "in time"
    assert len(timer) == 0
    assert advance(10.0) == 0


def test_limit_passes_the_error_on(timer):
    """The old future's exception is the new one's."""
    future = concurrent.futures.Future()
    limited = timer.limit(future, 5.0)
    error = ZeroDivisionError()
    future.set_exception(error)
    assert limited.exception(timeout=0) is error
    assert len(timer) == 0


def test_limit_of_a_future_that_is_done(timer):
    """Nothing to wait for: the new future is done too, and nothing is pending."""
    future = concurrent.futures.Future()
    future.set_result(3)
    limited = timer.limit(future, 5.0)
    assert limited.result(timeout=0) == 3
    assert len(timer) == 0


def test_a_limit_of_nothing_does_not_outrun_a_result(make_timer, clock):
    """A future that is done keeps its result, although its timeout is due at once and runs at once."""

    class AtOnce(concurrent.futures.Executor):
        def submit(self, fn, /, *args, **kwargs):
            fn()
            return concurrent.futures.Future()

    timer = make_timer(executor=AtOnce(), clock=clock, start=False)
    future = concurrent.futures.Future()
    future.set_result(3)
    assert timer.limit(future, 0).result(timeout=0) == 3
    assert len(timer) == 0


def test_limit_passes_a_cancellation_on(timer):
    """A cancelled future leaves nobody waiting."""
    future = concurrent.futures.Future()
    limited = timer.limit(future, 5.0)
    future.cancel()
    future.set_running_or_notify_cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        limited.result(timeout=0)
    assert len(timer) == 0


def test_limit_times_out_and_cancels(timer, advance):
    """After the timeout: TimeoutError, and a future that has not started is cancelled."""
    future = concurrent.futures.Future()
    limited = timer.limit(future, 5.0)
    assert advance(4.0) == 0
    assert not limited.done()
    advance(1.0)
    with pytest.raises(TimeoutError):
        limited.result(timeout=0)
    assert future.cancelled()
    assert len(timer) == 0


def test_limit_drops_a_late_result(timer, advance, caplog):
    """A future that runs cannot be cancelled; what it brings later changes nothing and logs nothing."""
    future = concurrent.futures.Future()
    future.set_running_or_notify_cancel()
    limited = timer.limit(future, 5.0)
    advance(5.0)
    assert isinstance(limited.exception(timeout=0), TimeoutError)
    assert not future.cancelled()
    future.set_result("late")
    assert isinstance(limited.exception(timeout=0), TimeoutError)
    assert caplog.records == []


def test_limit_of_nothing_times_out_on_the_next_turn(timer):
    """R4: a timeout <= 0 is due at once."""
    future = concurrent.futures.Future()
    limited = timer.limit(future, 0)
    timer.advance_clock()
    assert isinstance(limited.exception(timeout=0), TimeoutError)
    assert future.cancelled()


def test_a_limit_can_be_cancelled(timer, advance, caplog):
    """Cancelling the new future frees its place; the old one's result is dropped in silence."""
    future = concurrent.futures.Future()
    limited = timer.limit(future, 5.0)
    assert limited.cancel() is True
    assert len(timer) == 0
    if not future.cancelled():
        future.set_result(1)
    assert advance(10.0) == 0
    assert caplog.records == []


def test_close_cancels_a_limit(timer):
    """Whoever waits for the limited future is told, and no task of it is returned."""
    future = concurrent.futures.Future()
    limited = timer.limit(future, 5.0)
    assert timer.close() == []
    assert limited.cancelled()


def test_limit_on_a_pool(make_timer):
    """A real pool: one call in time, one too late."""
    timer = make_timer()
    release = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        quick = timer.limit(pool.submit(pow, 2, 5), WAIT)
        slow = timer.limit(pool.submit(release.wait, WAIT), 0.01)
        assert quick.result(timeout=WAIT) == 32
        with pytest.raises(TimeoutError):
            slow.result(timeout=WAIT)
        release.set()
    assert len(timer) == 0


def test_limit_races_its_result_without_losing_either(make_timer, rng):
    """Result and timeout at the same time: the new future ends with one of the two, always."""
    timer = make_timer()
    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for _ in range(300):
            limited = timer.limit(pool.submit(time.sleep, rng.random() * 0.002), rng.random() * 0.002)
            error = limited.exception(timeout=WAIT)
            assert error is None or isinstance(error, TimeoutError)
            outcomes.append(error is None)
    assert len(timer) == 0
    print(f"{sum(outcomes)} of {len(outcomes)} in time")


@pytest.mark.parametrize("timeout", [float("nan"), float("inf")])
def test_a_bad_timeout_is_named(timer, timeout):
    """ValueError names the argument, the rule and the value seen; nothing is left behind."""
    future = concurrent.futures.Future()
    with pytest.raises(ValueError, match=f"^timeout must be finite, got {timeout}$"):
        timer.limit(future, timeout)
    assert len(timer) == 0
    assert future.cancel()


def test_a_limit_of_what_is_no_future_is_refused(timer):
    """TypeError names the argument and the value; no timeout of it is left pending."""
    with pytest.raises(TypeError, match=r"^future must be .*Future, got 'x'$"):
        timer.limit("x", 5.0)
    with pytest.raises(TypeError):
        timer.limit(concurrent.futures.Future(), "x")
    assert len(timer) == 0
