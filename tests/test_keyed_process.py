"""KeyedExecutor and the end of things: the interpreter's exit, fork, an executor that is dropped."""

import os

import pytest
from forked import IN_CHILD

pytestmark = pytest.mark.filterwarnings("ignore:.*fork")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def test_exit_does_what_was_submitted(fresh):
    """As ThreadPoolExecutor: the interpreter ends when the last call has, without a shutdown."""
    out = fresh("""
import os, time
from tickwheel.recipes.keyed import KeyedExecutor
executor = KeyedExecutor(2)
def work(number):
    time.sleep(0.001)
    os.write(1, f"{number}\\n".encode())
for number in range(40):
    executor.submit(number % 2, work, number)
""")
    assert sorted(map(int, out.split())) == list(range(40))


def test_exit_waits_for_no_idle_worker(fresh):
    """Idle workers end, whether the executor was shut down, dropped or kept."""
    fresh("""
from tickwheel.recipes.keyed import KeyedExecutor
executors = [KeyedExecutor(3) for _ in range(3)]
for executor in executors:
    for key in range(10):
        executor.submit(key, str).result()
executors[0].shutdown()
del executors[1], executor
""")


def test_after_exit_has_begun_nothing_is_taken(fresh):
    """Also by an executor that is made then."""
    out = fresh("""
import threading
from tickwheel.recipes.keyed import KeyedExecutor
executor = KeyedExecutor(1)
def late():
    threading.main_thread().join()
    for mine in (executor, KeyedExecutor(1)):
        try:
            mine.submit("a", str)
        except RuntimeError as error:
            print(error)
threading.Thread(target=late).start()
""")
    assert out == "the interpreter is going down: no more calls are taken\n" * 2


def test_an_executor_that_is_dropped_lets_its_workers_end(fresh):
    """What it had taken is done, then its threads end, and nothing of it is left."""
    fresh("""
import gc, threading, time, weakref
from tickwheel.recipes.keyed import KeyedExecutor
def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)
opened = threading.Event()
executor = KeyedExecutor(3)
futures = [executor.submit(number % 5, opened.wait) for number in range(50)]
ref, crew = weakref.ref(executor), weakref.ref(executor._crew)
assert threading.active_count() == 4
del executor
assert ref() is None
opened.set()
assert all(future.result(30) for future in futures)
until(lambda: threading.active_count() == 1)
gc.collect()
assert crew() is None
""")


@forks
def test_a_child_of_fork_is_told(fresh):
    """RuntimeError on use, never a deadlock, though the parent's workers were busy and its lock held; the
    parent goes on, and the child makes executors of its own."""
    out = fresh(IN_CHILD + """
import threading
from tickwheel.recipes.keyed import KeyedExecutor
opened, inside = threading.Event(), threading.Event()
executor = KeyedExecutor(2, max_pending=1)
def work():
    inside.set()
    opened.wait()
first, second = executor.submit("a", work), executor.submit("a", str, 2)
inside.wait()
def hold():
    with executor._crew._lock:
        held.set()
        opened.wait()
held = threading.Event()
threading.Thread(target=hold).start()
held.wait()
def child():
    try:
        executor.submit("a", str)
    except RuntimeError as error:
        print(error)
    print(len(executor), executor.stats().running)
    executor.shutdown()
    with KeyedExecutor(1) as mine:
        print(mine.submit("a", str, 1).result())
assert in_child(child)
opened.set()
print(second.result(30))
""")
    assert out.splitlines() == [
        "this executor was made before fork() and has no workers in the child: make a new one",
        "0 0",
        "1",
        "2",
    ]


@forks
def test_a_call_may_fork(fresh):
    """In the child its thread ends with the call: what waits is the parent's to do."""
    out = fresh("""
import os, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from tickwheel.recipes.keyed import KeyedExecutor
opened = threading.Event()
def fork():
    opened.wait()
    return os.fork()
with KeyedExecutor(1) as executor:
    forking = executor.submit("a", fork)
    def tell(_):
        if forking.result() == 0:
            os.write(1, b"%d in the child\\n" % executor.stats().running)
    forking.add_done_callback(tell)
    behind = executor.submit("a", os.write, 1, b"behind\\n")
    opened.set()
    pid = forking.result(30)
    assert pid and os.waitpid(pid, 0)[1] == 0
    behind.result(30)
    assert executor.stats().completed == 2
""")
    assert sorted(out.splitlines()) == ["0 in the child", "behind"]


@forks
def test_a_process_of_multiprocessing_does_what_was_submitted(fresh):
    """As ThreadPoolExecutor: such processes end without `atexit`."""
    out = fresh("""
import multiprocessing, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from tickwheel.recipes.keyed import KeyedExecutor
def main():
    executor = KeyedExecutor(2)
    for number in range(10):
        executor.submit("a", lambda number: (time.sleep(0.01), print(number, flush=True)), number)
process = multiprocessing.get_context("fork").Process(target=main)
process.start()
process.join()
assert process.exitcode == 0
""")
    assert out.split() == [str(number) for number in range(10)]


def test_destructors_may_submit_anywhere(fresh):
    """A destructor runs wherever its thread is, also inside of submit: what it submits is done, and in the
    order of its key."""
    fresh("""
import gc, threading
from tickwheel.recipes.keyed import KeyedExecutor
gc.set_threshold(3)
ran = {}
class Litter:
    def __init__(self, number):
        self.me, self.number = self, number
    def __del__(self):
        if executor is not None:
            executor.submit(self.number % 3, ran.setdefault("litter", []).append, self.number)
def submit():
    for number in range(2000):
        Litter(number)
        executor.submit(number % 7, ran.setdefault(number % 7, []).append, number)
with KeyedExecutor(3) as executor:
    submit()
executor = None
assert [ran[key] for key in range(7)] == [list(range(key, 2000, 7)) for key in range(7)]
assert ran["litter"]
""", timeout=120)


