"""Runs a program's server or client on a loop.

    python stage.py PROGRAM serve stock|wheel SIZE          prints its port first
    python stage.py PROGRAM visit stock|wheel SIZE PORT

A program is a module beside this one. `serve(announce, stop, size)` calls `announce(port)` and goes on until
the event `stop`, which SIGTERM sets; `visit(port, size)` is its client. Both are coroutine functions that
return the lines of their transcript, in which no time and no port may stand: it is the same on every loop.
"""

import asyncio
import importlib
import signal
import sys

from tickwheel.dropin import asyncio as dropin

LOOPS = {"stock": (asyncio.run, asyncio.new_event_loop), "wheel": (dropin.run, dropin.new_event_loop)}


async def serve(program, size):
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    return await program.serve(lambda port: print(port, flush=True), stop, size)


async def on_the_right_loop(name, main):
    on_wheel = isinstance(asyncio.get_running_loop(), dropin.WheelEventLoop)
    assert on_wheel == (name == "wheel")
    return await main


def main(name, role, loop, size, port=None):
    program = importlib.import_module(name)
    part = serve(program, int(size)) if role == "serve" else program.visit(int(port), int(size))
    run, factory = LOOPS[loop]
    whole = on_the_right_loop(loop, part)
    lines = program.run(whole, factory) if hasattr(program, "run") else run(whole)
    print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
