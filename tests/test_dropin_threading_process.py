"""Exit and fork: each story ends the same way with the original and with the drop-in."""

import os
import sys

import pytest
from forked import IN_CHILD

# A defect of theirs: from then on functions that are due take turns in the main thread.
no_threads_at_exit = (3, 12) <= sys.version_info < (3, 12, 2)
threads_at_exit = pytest.mark.skipif(no_threads_at_exit, reason="3.12.0 and 3.12.1 start no threads at exit")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@pytest.fixture(params=["threading", "tickwheel.dropin.threading"])
def story(request, fresh):
    """Runs a story in a fresh interpreter, with this `Timer`, and returns what it printed."""

    def run(text, **expected):
        begin = f"import atexit, os, sys, threading, time, warnings\nfrom {request.param} import Timer\n"
        return fresh(begin + text, **expected)

    return run


def test_exit_waits_for_pending_timers(story):
    """All that are no daemons fire first."""
    assert story("""
for n in (1, 2, 3):
    Timer(0.1 * n, print, [n], {"flush": True}).start()
print("the end of main", flush=True)
atexit.register(print, "exit", flush=True)
""") == "the end of main\n1\n2\n3\nexit\n"


def test_exit_does_not_wait_for_daemons(story):
    """They are abandoned."""
    assert story("""
for n in range(10):
    timer = Timer(3600.0, print, ["never"])
    timer.daemon = True
    timer.start()
print("the end of main")
""") == "the end of main\n"


@threads_at_exit
def test_daemons_fire_while_exit_waits_for_others(story):
    """As long as there is somebody to wait for."""
    assert story("""
timer = Timer(0.05, print, ["daemon"], {"flush": True})
timer.daemon = True
timer.start()
Timer(0.5, print, ["the last"]).start()
""") == "daemon\nthe last\n"


def test_exit_does_not_wait_for_the_cancelled(story):
    """Neither for what was cancelled, nor for what is cancelled while it waits."""
    assert story("""
first, second = Timer(3600.0, print, ["never"]), Timer(3600.0, print, ["never"])
first.start(); second.start()
first.cancel()
Timer(0.1, second.cancel).start()
""") == ""


def test_exit_does_not_wait_for_what_another_thread_cancels(story):
    """The same from a thread that is no timer, by way of the event."""
    assert story("""
timer = Timer(3600.0, print, ["never"])
timer.start()

def cancel():
    time.sleep(0.1)
    timer.finished.set()

threading.Thread(target=cancel).start()
""") == ""


def test_exit_waits_for_a_function_that_runs(story):
    """Also where nothing is pending any more."""
    assert story("""
entered = threading.Event()
def slow():
    entered.set()
    time.sleep(0.3)
    print("done")
Timer(0, slow).start()
entered.wait()
""") == "done\n"


def test_exit_does_not_wait_for_a_daemon_that_runs(story):
    """A function that never ends."""
    assert story("""
entered = threading.Event()
timer = Timer(0, lambda: (entered.set(), threading.Event().wait()))
timer.daemon = True
timer.start()
entered.wait()
""") == ""


@threads_at_exit
def test_a_chain_goes_on_while_exit_waits(story):
    """What a timer's function starts is waited for too; so is what a thread starts that exit waits for."""
    assert story("""
def call(n):
    print(n, flush=True)
    if n < 4:
        Timer(0.02, call, [n + 1]).start()
Timer(0.02, call, [1]).start()

def thread():
    time.sleep(0.4)
    Timer(0.05, print, ["from a thread"]).start()
threading.Thread(target=thread).start()
""") == "1\n2\n3\n4\nfrom a thread\n"


def test_a_periodic_subclass_holds_exit(story):
    """Until it is cancelled."""
    assert story("""
class Periodic(Timer):
    def run(self):
        while not self.finished.wait(self.interval):
            self.function()

periodic = Periodic(0.01, lambda: None)
periodic.start()
Timer(0.1, periodic.cancel).start()
Timer(0.2, print, ["over"]).start()
""") == "over\n"


def test_an_error_on_the_way_out(story):
    """It is printed, and the exit code is main's."""
    assert story(
        """
Timer(0.05, lambda: 1 / 0).start()
Timer(0.1, print, ["still here"]).start()
""",
        stderr="ZeroDivisionError",
    ) == "still here\n"


def test_exit_with_a_code(story):
    """sys.exit in main: the timers are waited for; in a function it ends nothing."""
    assert story("""
Timer(0.05, sys.exit, [5]).start()
Timer(0.1, print, ["fired"]).start()
sys.exit(3)
""", code=3) == "fired\n"


def test_a_timer_from_an_atexit_function(story):
    """Too late for threads from 3.12 on: it starts, or says that it cannot, and nothing hangs."""
    assert story("""
def late():
    for daemon in (True, False):
        timer = Timer(3600.0, print, ["never"])
        timer.daemon = daemon
        try:
            timer.start()
        except RuntimeError as error:
            assert "interpreter shutdown" in str(error), error
            assert not timer.is_alive()
        else:
            timer.cancel()
            timer.join()
    print("done")
atexit.register(late)
""") == "done\n"


def test_exit_while_threads_start_and_cancel(story):
    """Daemon threads in the midst of it: no hang and no crash."""
    story("""
started = threading.Event()

def hammer():
    try:
        while True:
            timer = Timer(0.001, list)
            timer.daemon = True
            timer.start()
            other = Timer(9.0, list)
            other.daemon = False
            other.start()
            other.cancel()
            started.set()
            time.sleep(0.0005)
    except RuntimeError:
        pass    # the interpreter is going down

for _ in range(3):
    threading.Thread(target=hammer, daemon=True).start()
started.wait()
""")


@forks
def test_fork_leaves_pending_timers_behind(story):
    """The parent's do not exist in the child: not alive, never called. The parent's go on."""
    assert story(IN_CHILD + """
calls, release = [], threading.Event()
pending, running = Timer(0.5, calls.append, [1]), Timer(0, release.wait)
pending.start(); running.start()
finished = pending.finished
while running.ident is None:
    time.sleep(0.001)

def child():
    for timer in (pending, running):
        assert not timer.is_alive(), timer
        timer.join()
        try:
            timer.start()
        except RuntimeError:
            pass
        else:
            raise AssertionError("started twice")
    pending.cancel()
    assert finished.is_set()
    time.sleep(1)
    assert calls == []

assert in_child(child)
release.set()
pending.join(); running.join()
print(calls)
""") == "[1]\n"


@forks
def test_a_child_has_timers_of_its_own(story):
    """They fire and are cancelled, in a child of a child too."""
    assert story(IN_CHILD + """
calls, before = [], Timer(3600.0, list)
before.start()

def child():
    timer = Timer(0.01, calls.append, [1])
    timer.start()
    timer.join(30)
    assert not timer.is_alive()
    assert calls.pop() == 1
    cancelled = Timer(3600.0, list)
    cancelled.start()
    cancelled.cancel()
    cancelled.join(30)

assert in_child(child)
assert in_child(lambda: in_child(child) or 1 / 0)
before.cancel()
print(calls)
""") == "[]\n"


@forks
def test_a_fork_from_a_function(story):
    """The timer is alive in the child too, whose threads and timers work; the function goes on in both."""
    assert story(IN_CHILD + """
results = []

def child():
    assert timer.is_alive()
    assert threading.active_count() == 1
    assert threading.current_thread() is threading.main_thread()
    thread = threading.Thread(target=results.append, args=[1])
    thread.start(); thread.join()
    other = Timer(0.01, results.append, [2])
    other.start(); other.join()
    assert results == [1, 2]

def function():
    results.append(in_child(child))
    assert threading.current_thread() is timer

timer = Timer(0.01, function)
timer.start()
timer.join()
print(results)
""") == "[True]\n"


@forks
def test_a_fork_from_a_run(story):
    """The same where the thread is the timer's own."""
    assert story(IN_CHILD + """
results = []

def child():
    assert periodic.is_alive()
    assert threading.active_count() == 1
    thread = threading.Thread(target=results.append, args=[1])
    thread.start(); thread.join()
    assert results == [1]

class Periodic(Timer):
    def run(self):
        while not self.finished.wait(self.interval):
            results.append(in_child(child))
            assert threading.current_thread() is self
            self.cancel()

periodic = Periodic(0.01, list)
periodic.start()
periodic.join()
print(results)
""") == "[True]\n"


@forks
def test_a_child_that_returns_from_the_function(story):
    """Its only thread ends with the function, and with it the child."""
    assert story(IN_CHILD + """
pids = []

def function():
    pids.append(os.fork())

timer = Timer(0.01, function)
timer.start()
timer.join()
assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == 0
print("whole")
""") == "whole\n"


@forks
def test_a_child_that_exits_by_the_front_door(story):
    """It waits for its own timers, not for the parent's."""
    assert story(IN_CHILD + """
parents = Timer(3600.0, print, ["never"])
parents.start()
pid = os.fork()
if pid == 0:
    Timer(0.05, print, ["child's"]).start()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
parents.cancel()
""") == "child's\n"


@forks
def test_processes_made_by_functions(story):
    """multiprocessing with fork, from a timer's function, with a timer in the process."""
    assert story(IN_CHILD + """
import multiprocessing
context = multiprocessing.get_context("fork")

def work():
    Timer(0.01, print, ["child's timer"], {"flush": True}).start()

def function():
    process = context.Process(target=work)
    process.start(); process.join()
    print(process.exitcode)

timer = Timer(0.01, function)
timer.start()
timer.join()
""") == "child's timer\n0\n"


@forks
def test_fork_while_threads_start_and_cancel(story):
    """Whatever they were in the middle of, the child never waits for them."""
    assert story(IN_CHILD + """
over = threading.Event()

def hammer():
    while not over.is_set():
        timer = Timer(0.001, list)
        timer.start()
        other = Timer(9.0, list)
        other.start()
        other.finished.is_set()
        other.cancel()
        timer.join()

threads = [threading.Thread(target=hammer) for _ in range(3)]
for thread in threads:
    thread.start()

def child():
    results = []
    timer = Timer(0.001, results.append, [1])
    timer.start()
    timer.join(30)
    assert results == [1]

good = sum(in_child(child) for _ in range(20))
over.set()
for thread in threads:
    thread.join()
print(good)
""") == "20\n"
