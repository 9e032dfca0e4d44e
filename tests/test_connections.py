"""Real sockets: connections that fall silent are closed, each once, and no other."""
from __future__ import annotations

import asyncio

import pytest

from tickwheel.bench.recipes.connections import serve
from tickwheel.bench.recipes.descriptors import allow_connections


def test_ten_thousand_connections_fall_idle_each_once():
    """D1: over 10,000 real connections, each silent one is closed once, none before its timeout."""
    talking, silent = 2_000, 8_000
    seen = asyncio.run(serve(talking, silent, every_s=1.0, timeout_s=4.0))
    assert (seen.connected, seen.closed_silent) == (talking + silent, silent)
    assert (seen.twice, seen.early) == (0, 0)
    # A busy machine may keep a talking one silent for the timeout: then it is reported and closed, too.
    assert seen.offline >= silent + seen.closed_talking
    assert seen.packets > seen.connected


def test_more_connections_than_the_system_allows_are_refused():
    """The limit is named before the first connection is made."""
    resource = pytest.importorskip("resource", reason="the limit of open files is POSIX's")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY:
        pytest.skip("this system has no limit of open files")
    with pytest.raises(OSError, match=f"{hard} connections need {hard + 100} open files, .* allows {hard}"):
        allow_connections(hard)
