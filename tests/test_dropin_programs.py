"""Real programs on `WheelEventLoop`, on loopback: server and client, a process each, say what they say on the
stock loop."""

import contextlib
import os
import pathlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import pytest

import tickwheel

STAGE = pathlib.Path(__file__).parent / "programs" / "stage.py"
PATH = [str(pathlib.Path(tickwheel.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
LONGEST_S = 150


@contextlib.contextmanager
def started(*arguments):
    """A process on the stage, which does not outlive the block."""
    with subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-W", "error", str(STAGE), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(PATH)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        guard = threading.Timer(LONGEST_S, process.kill)
        guard.start()
        try:
            yield process
        finally:
            guard.cancel()
            process.kill()


def ended(process):
    """The lines that it printed, once it has ended well."""
    out, err = process.communicate()
    assert (process.returncode, err) == (0, ""), err
    return out.splitlines()


def play(program, loop, size):
    """Server and client on that loop: both transcripts."""
    with started(program, "serve", loop, size) as server:
        port = server.stdout.readline().strip()
        assert port, ended(server)
        with started(program, "visit", loop, size, port) as client:
            visited = ended(client)
        server.terminate()
        return visited, ended(server)


def both_loops(program, packages, size):
    """The transcripts, which are the same on both loops."""
    for package in packages:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install --group programs")
    with ThreadPoolExecutor(2) as pool:  # at the same time: each waits a lot
        stock, wheel = pool.map(lambda loop: play(program, loop, size), ("stock", "wheel"))
    assert wheel == stock
    return wheel


def test_an_aiohttp_server_and_client():
    """Pages, a stream, limits on both sides, keepalive connections that end, a web socket's heartbeat."""
    visited, served = both_loops("pages", ["aiohttp"], size=100)
    assert visited[:100] == [f"/hello/{number}: 200 'hello {number}'" for number in range(100)]
    assert visited[100:] == [
        "/hello/again: 200 'hello again'",
        "/echo: 1,000,000 bytes",
        f"/stream: 200 {''.join(f'piece {number}' + chr(10) for number in range(5))!r}",
        "/limited: 504 'too late'",
        "/nowhere: 404 '404: Not Found'",
        "/stuck: TimeoutError",
        "/stuck: SocketTimeoutError",
        "/talk: ONE",
        "/talk: TWO",
        "/talk: closed False",
    ]
    assert served == ["hello: 101", "limited: 1", "stuck, and left alone: 2", "talk ended with 1000: 1"]


def test_a_websockets_server_with_keepalive():
    """Every connection is pinged until it closes; one that answers no ping is closed for that."""
    visited, served = both_loops("chat", ["websockets"], size=2000)
    assert visited == [
        "2,000 connected",
        "first: Counter({'FIRST': 2000}), 2,000 differ",
        "again: Counter({'AGAIN': 2000}), 2,000 differ",
        *["mute: 101, told 'keepalive ping timeout'"] * 5,
        "Counter({1000: 2000})",
    ]
    assert served == [
        "answered no ping, closed 1006 : 5",
        "answered pings, closed 1000 : 2,000",
    ]


def test_httpx_and_anyio():
    """A server over anyio's streams and an httpx client, on anyio's asyncio backend; scopes that expire."""
    visited, served = both_loops("fetch", ["anyio", "httpx"], size=20)
    assert visited[:20] == sorted(f"/hello/{number}: 200 'hello {number}'" for number in range(20))
    assert visited[20:] == [
        "/thread: 200 'from a thread'",
        "/limited: 504 'too late: True'",
        "/nowhere: 404 'nowhere'",
        "/stuck: ReadTimeout",
        "/hello/again: 200 'hello again'",
        "moved on: True",
        "failed after a while",
    ]
    assert served == ["idle", "stuck, and cancelled"]
