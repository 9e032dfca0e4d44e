"""ElasticPool: more threads only while functions block, and none that is idle for long."""

import _thread
import importlib
import logging
import threading
import time

import pytest

WAIT = 30


@pytest.fixture
def elasticpool(tw):
    return importlib.import_module("tickwheel.dropin.elasticpool")


@pytest.fixture
def pool(elasticpool, monkeypatch):
    """Its threads end soon, and before the next test."""
    monkeypatch.setattr(elasticpool, "IDLE_S", 0.05)
    before = _thread._count()
    yield elasticpool.ElasticPool()
    wait_for(lambda: _thread._count() <= before)


def wait_for(condition):
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


def test_jobs_run_in_order_on_one_thread(pool):
    """As long as none blocks for long, those that are there suffice."""
    done = threading.Event()
    ran = []
    for n in range(10):
        pool.submit(lambda n=n: ran.append(n))
        wait_for(lambda n=n: n in ran)
    pool.submit(done.set)
    assert done.wait(WAIT)
    assert ran == list(range(10))


def test_jobs_that_block_hold_up_nobody(pool):
    """As many threads as there are of them: they meet at a barrier."""
    barrier = threading.Barrier(50)
    met = []
    for _ in range(50):
        pool.submit(lambda: met.append(barrier.wait(WAIT)))
    wait_for(lambda: len(met) == 50)


def test_one_that_blocks_after_another(pool):
    """An idle thread is woken for the first, and the second gets one of its own."""
    done = threading.Event()
    pool.submit(done.set)
    assert done.wait(WAIT)
    test_jobs_that_block_hold_up_nobody(pool)


def test_a_burst_of_short_jobs_is_no_burst_of_threads(pool):
    """20,000 at once: a small part of that in threads."""
    threads, done = set(), threading.Event()
    for _ in range(20_000):
        pool.submit(lambda: threads.add(_thread.get_ident()))
    pool.submit(done.set)
    assert done.wait(WAIT)
    assert len(threads) < 1000


def test_idle_threads_end(pool):
    """And a new one comes with the next job. Their number goes back to where it was."""
    for _ in range(3):
        before = _thread._count()
        test_jobs_that_block_hold_up_nobody(pool)
        wait_for(lambda before=before: _thread._count() <= before)


def test_no_job_is_lost_where_threads_come_and_go(elasticpool, monkeypatch, pool):
    """Jobs that arrive while threads lie down, wake up and end."""
    monkeypatch.setattr(elasticpool, "IDLE_S", 0.0005)
    ran = []
    for n in range(2000):
        pool.submit(lambda n=n: ran.append(n))
        time.sleep(0.0005 if n % 3 else 0.0011)
    wait_for(lambda: len(ran) == 2000)
    assert sorted(ran) == list(range(2000))


def test_submit_from_many_threads(pool):
    """Every job runs once."""
    ran = []
    threads = [
        threading.Thread(target=lambda: [pool.submit(lambda n=n: ran.append(n)) for n in range(1000)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: len(ran) == 4000)
    assert sorted(ran) == sorted(list(range(1000)) * 4)


def test_jobs_that_no_thread_takes(elasticpool, monkeypatch, pool, caplog):
    """Who asked to be told is told instead of the log, and may run them."""

    def refuse(*args):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    told, ran = [], []
    pool.on_refusal(lambda: told.append(1))
    with monkeypatch.context() as patch:
        patch.setattr(elasticpool._thread, "start_new_thread", refuse)
        pool.submit(lambda: ran.append(1))
        pool.submit(lambda: ran.append(2))
    assert (told, ran, caplog.text) == ([1, 1], [], "")
    pool.run_waiting()
    assert ran == [1, 2]


def test_exit_that_has_not_told_yet(elasticpool, monkeypatch, pool, caplog):
    """CPython 3.12.0 and 3.12.1 start no thread from before the exit functions on: no reason to log."""

    def refuse(*args):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    told, ran = [], []
    monkeypatch.setattr(elasticpool._thread, "start_new_thread", refuse)
    pool.submit(lambda: ran.append(1))
    assert (told, ran, caplog.text) == ([], [], "")
    pool.on_refusal(lambda: told.append(1))
    pool.run_waiting()
    assert (told, ran, caplog.text) == ([1], [1], "")


def test_no_thread_to_be_had(elasticpool, monkeypatch, pool, caplog):
    """It is logged, and the job runs with the next one that gets a thread."""

    def refuse(*args):
        raise RuntimeError("can't start new thread")

    ran = []
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR, "tickwheel"):
        patch.setattr(elasticpool._thread, "start_new_thread", refuse)
        pool.submit(lambda: ran.append(1))
    assert "no thread can be started: 1 due functions wait" in caplog.text
    assert ran == []
    pool.submit(lambda: ran.append(2))
    wait_for(lambda: ran == [1, 2])
