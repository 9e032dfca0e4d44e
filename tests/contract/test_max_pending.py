"""`max_pending`: `TooManyPending` past it, with nothing changed."""

import concurrent.futures

import pytest


def test_too_many_pending_changes_nothing(tw, make_timer, clock):
    """`TooManyPending`, a RuntimeError, past `max_pending`; each end of a scheduling makes room."""
    timer = make_timer(tick=1.0, executor="inline", clock=clock, start=False, max_pending=3)
    assert issubclass(tw.TooManyPending, RuntimeError)
    tasks = [timer.schedule(n, list) for n in (1, 5, 9)]
    added = tw.TimerTask(1.0)
    for call in (
        lambda: timer.schedule(1.0, list),
        lambda: timer.schedule(0, list),
        lambda: timer.schedule_at(1.0, list),
        lambda: timer.schedule_every(1.0, list),
        lambda: timer.submit(1.0, list),
        lambda: timer.add(added),
    ):
        with pytest.raises(tw.TooManyPending, match="max_pending"):
            call()
    assert (len(timer), timer.stats().scheduled, added.state) == (3, 3, "IDLE")
    assert tasks[1].reschedule(7.0) is True
    tasks[2].cancel()
    timer.add(added)
    with pytest.raises(tw.TooManyPending):
        timer.schedule(1.0, list)
    clock.advance(1.0)
    timer.advance_clock()
    timer.schedule(1.0, list)
    timer.schedule(1.0, list)
    assert len(timer) == 3


def test_queued_tasks_count_as_pending(tw, make_timer, clock, collecting):
    """`max_pending` bounds what waits in the executor's queue too."""
    timer = make_timer(executor=collecting, clock=clock, start=False, max_pending=2)
    timer.schedule(0, list)
    timer.schedule(0, list)
    with pytest.raises(tw.TooManyPending):
        timer.schedule(0, list)
    collecting.run_all()
    timer.schedule(0, list)


def test_a_periodic_task_keeps_its_place(tw, make_timer, clock):
    """`max_pending` never stops the next run of a task that was accepted."""
    timer = make_timer(tick=1.0, executor="inline", clock=clock, start=False, max_pending=1)
    refused = []

    def callback():
        try:
            timer.schedule(1.0, list)
        except tw.TooManyPending:
            refused.append(clock.time())

    task = timer.schedule_every(1.0, callback)
    for _ in range(3):
        clock.advance(1.0)
        timer.advance_clock()
    assert refused == [1.0, 2.0, 3.0]
    assert task.cancel() is True


def test_a_full_timer_still_hands_back_an_already_done_limit(tw, make_timer, clock):
    """`limit` past `max_pending` raises and leaves the future alone."""
    timer = make_timer(executor="inline", clock=clock, start=False, max_pending=1)
    timer.schedule(1.0, list)
    future = concurrent.futures.Future()
    with pytest.raises(tw.TooManyPending):
        timer.limit(future, 5.0)
    assert not future.cancelled()
    future.set_result(1)
