"""One module of CPython's own asyncio tests, run in this process, and what came of it.

    python asyncio_on_wheel.py RESULTS MODULE LOOP [TEST...]

MODULE is `test_events` or another of `test.test_asyncio`. LOOP is `wheel`; or `wheel+timeout`, where
asyncio.timeout is ours too; or `stock`, asyncio as it is. If any TESTs are named (`Class.test_name`), they
alone are run.
RESULTS, a file, gets as JSON: the tests that failed or were skipped and why, how many loops of which class
were made, and which core and whose timeout were there.
"""

from __future__ import annotations

import asyncio
import faulthandler
import importlib
import json
import sys
import unittest
from abc import ABCMeta
from asyncio import base_events, selector_events
from collections import Counter
from pathlib import Path

import tickwheel

SUITE = "test.test_asyncio"
HANG = 120  # seconds


def replace(ours):
    """Give asyncio's modules and policies our object for each of theirs."""
    theirs = {id(their): our for their, our in ours.items()}
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "asyncio"]:
        for name, value in list(vars(module).items()):
            if id(value) in theirs:
                setattr(module, name, theirs[id(value)])
            elif isinstance(value, type) and id(vars(value).get("_loop_factory")) in theirs:
                value._loop_factory = theirs[id(value._loop_factory)]


def use_wheel(module):
    """What asyncio makes is our loop; and what tests build on its base classes has our timers."""
    from tickwheel.dropin.asyncio import WheelEventLoop, WheelTimers

    BaseEventLoop = base_events.BaseEventLoop
    WheelBase = type("WheelBase", (WheelTimers, BaseEventLoop), {})
    WheelBaseSelector = ABCMeta("WheelBaseSelector", (WheelTimers, selector_events.BaseSelectorEventLoop), {})
    WheelBaseSelector.register(WheelEventLoop)  # tests ask whether it is one
    replace(
        {
            asyncio.SelectorEventLoop: WheelEventLoop,
            selector_events.BaseSelectorEventLoop: WheelBaseSelector,
            BaseEventLoop: WheelBase,
        }
    )
    importlib.import_module(f"{SUITE}.utils")  # its TestLoop stands on BaseEventLoop
    if module != "test_base_events":
        base_events.BaseEventLoop = BaseEventLoop  # others patch its methods, and mean every loop


def use_timeout():
    """asyncio.timeout is ours, for `wait_for` too."""
    from tickwheel.dropin import asyncio as ours

    replace(
        {asyncio.Timeout: ours.Timeout, asyncio.timeout: ours.timeout, asyncio.timeout_at: ours.timeout_at}
    )


def count_loops():
    """A count, kept from now on, of the loops made: by their class, or by the base of a test's own class."""
    made = Counter()
    init = base_events.BaseEventLoop.__init__

    def counted(self, *args, **kwargs):
        cls = next(cls for cls in type(self).__mro__ if not cls.__module__.startswith(SUITE))
        made[cls.__qualname__] += 1
        init(self, *args, **kwargs)

    base_events.BaseEventLoop.__init__ = counted
    return made


def name_of(test):
    """`Class.test_name`; also of a subtest."""
    return getattr(test, "test_case", test).id().removeprefix(f"{SUITE}.").partition(".")[2]


def run(module, loop, tests):
    """The fates of a module's tests."""
    made = count_loops()
    if loop != "stock":
        use_wheel(module)
    if loop == "wheel+timeout":
        use_timeout()
    suite = importlib.import_module(f"{SUITE}.{module}")
    load = unittest.defaultTestLoader
    chosen = load.loadTestsFromNames(tests, suite) if tests else load.loadTestsFromModule(suite)
    faulthandler.dump_traceback_later(HANG, exit=True)
    result = unittest.TextTestRunner(verbosity=2).run(chosen)
    faulthandler.cancel_dump_traceback_later()
    failed = {name_of(test): trace for test, trace in result.failures + result.errors}
    failed |= {name_of(test): "unexpected success" for test in result.unexpectedSuccesses}
    skipped = {name_of(test): reason for test, reason in result.skipped}
    return {
        "core": tickwheel.IMPLEMENTATION,
        "timeout": asyncio.Timeout.__module__,
        "loops": made,
        "failed": failed,
        "skipped": skipped,
    }


if __name__ == "__main__":
    results, module, loop, *tests = sys.argv[1:]
    Path(results).write_text(json.dumps(run(module, loop, tests), indent=1))
