"""CPython's own asyncio tests, from the interpreter's `test` package, on our loop.

Each module runs in a process of its own, by `asyncio_on_wheel.py`. What fails or is skipped there, and not on
asyncio's own loop, here and now, is a failure.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# The modules that need a loop, and how many each makes at least, on any interpreter.
MODULES = {
    "test_base_events": 110,
    "test_buffered_proto": 1,
    "test_context": 1,
    "test_eager_task_factory": 35,
    "test_events": 240,
    "test_futures": 150,
    "test_futures2": 3,
    "test_locks": 65,
    "test_pep492": 10,
    "test_queues": 40,
    "test_runners": 30,
    "test_selector_events": 110,
    "test_sendfile": 55,
    "test_server": 2,
    "test_sock_lowlevel": 35,
    "test_ssl": 20,
    "test_sslproto": 20,
    "test_staggered": 5,
    "test_streams": 65,
    "test_subprocess": 110,
    "test_taskgroups": 35,
    "test_tasks": 1300,
    "test_threads": 6,
    "test_timeouts": 30,
    "test_unix_events": 110,
    "test_waitfor": 15,
}

# On the reference these alone, but for a soak: what stands above the timers is the same code.
ON_THE_REFERENCE = {"test_base_events", "test_events", "test_runners", "test_tasks", "test_timeouts"}

# Older interpreters have no such module.
SINCE = {"test_eager_task_factory": (3, 12), "test_staggered": (3, 13)}

# The tests that must fail. The one reason there may be: a test looks into asyncio's own heap of timers
# (`loop._scheduled`) for what is in the wheel.
EXCLUDED = {
    "test_base_events.BaseEventLoopTests.test_call_later": "the handle must be in the heap",
    "test_base_events.BaseEventLoopTests.test__run_once_cancelled_event_cleanup": (
        "cancelled handles must stay in the heap, and be counted, until they are half of it"
    ),
}

OURS = {"WheelEventLoop", "WheelBase", "WheelBaseSelector"}


@pytest.fixture
def suite(tw, core, tmp_path):
    """Runs a module of CPython's and returns what came of it; a process that dies is a failure."""
    if importlib.util.find_spec("test") is None or importlib.util.find_spec("test.test_asyncio") is None:
        pytest.skip("this interpreter comes without CPython's own tests")

    def run(module, loop, tests=()):
        results = tmp_path / "results.json"
        script = Path(__file__).with_name("asyncio_on_wheel.py")
        path = os.pathsep.join(
            filter(None, [str(Path(tw.__file__).parents[1]), os.environ.get("PYTHONPATH")])
        )
        process = subprocess.run(
            [sys.executable, script, results, module, loop, *tests],
            cwd=tmp_path,
            env={**os.environ, "TICKWHEEL_CORE": core, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert process.returncode == 0, f"{module} on {loop}: exit {process.returncode}\n{process.stdout}"
        return json.loads(results.read_text())

    return run


def hold_to_stock(suite, module, loop):
    """Run a module on our loop; what it returns has failed and was skipped no more than on asyncio's own."""
    ours = suite(module, loop)
    excluded = {test.removeprefix(f"{module}.") for test in EXCLUDED if test.startswith(f"{module}.")}
    failed = {test: trace for test, trace in ours["failed"].items() if test not in excluded}
    skipped = ours["skipped"]
    if failed:
        # Some hold a wall clock to tenths of a second: one more try, by themselves.
        again = suite(module, loop, [*failed])["failed"]
        failed = {test: trace for test, trace in failed.items() if test in again}
    if failed or skipped:
        stock = suite(module, "stock", [*failed, *skipped])
        failed = {test: trace for test, trace in failed.items() if test not in stock["failed"]}
        skipped = {test: reason for test, reason in skipped.items() if test not in stock["skipped"]}
    assert not failed, "\n".join(f"{test}\n{trace}" for test, trace in failed.items())
    assert not skipped, skipped
    assert excluded <= ours["failed"].keys(), f"no longer to be excluded: {excluded - ours['failed'].keys()}"
    return ours


@pytest.mark.parametrize("module", MODULES)
def test_cpythons_own_tests_pass_on_our_loop(suite, core, soak, module):
    """A program that changes its loop sees no difference: each module passes, and all its loops are ours."""
    if sys.version_info < SINCE.get(module, (3, 11)):
        pytest.skip(f"CPython {sys.version_info[0]}.{sys.version_info[1]} has no {module}")
    if core == "python" and not soak and module not in ON_THE_REFERENCE:
        pytest.skip("on the reference with --soak")
    ours = hold_to_stock(suite, module, "wheel")
    assert ours["core"] == core
    assert ours["loops"].keys() <= OURS
    assert sum(ours["loops"].values()) >= MODULES[module], ours["loops"]


@pytest.mark.parametrize("module", ["test_timeouts", "test_waitfor"])
def test_cpythons_own_tests_pass_with_our_timeout(suite, core, module):
    """`timeout` and `timeout_at` are asyncio's, also for `wait_for`."""
    if core == "python":
        pytest.skip("the reference's timeout is asyncio's")
    ours = hold_to_stock(suite, module, "wheel+timeout")
    assert ours["timeout"] == "tickwheel._timeout"
