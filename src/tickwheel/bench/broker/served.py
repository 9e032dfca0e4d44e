"""A broker with its load, and what is seen of it meanwhile. The load has a process of its own (`load`)."""
from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from dataclasses import asdict
from pathlib import Path
from threading import Event
from time import monotonic, process_time
from typing import Any

from tickwheel.bench.broker.load import Visit
from tickwheel.bench.broker.sample import Sample, Seen, Setting, Sizes
from tickwheel.bench.recipes.descriptors import allow_connections
from tickwheel.meanwhile import meanwhile
from tickwheel.replication.broker import Broker
from tickwheel.replication.follower import Follower
from tickwheel.replication.replicas import ReplicaManager

LOOK_EVERY_S = 0.05
TOPIC, QUIET = "events", "quiet"
MIN_ISR = 2
FILES_A_LOG = 2         # that are open at once, at most


class Probe:
    """The purgatories' sizes: `look_on` looks twenty times a second."""

    def __init__(self, manager: ReplicaManager) -> None:
        self.seen: list[Sizes] = []     # `at_s` on the monotonic clock
        self._manager = manager

    def look_on(self, over: Event) -> None:
        while not over.wait(LOOK_EVERY_S):
            produce, fetch = self._manager.stats()
            self.seen.append(
                Sizes(monotonic(), produce.delayed, produce.watched, fetch.delayed, fetch.watched)
            )


async def measure_rate(rate: int, setting: Setting, seed: int, folder: Path) -> Sample:
    """A broker on the running loop, whose logs are in a new folder, with a load of so many produces a second.

    RuntimeError: the load failed; the message is its last line.
    """
    logs = setting.replicas * (setting.partitions + 1)
    allow_connections(setting.connections + logs * FILES_A_LOG)
    manager = ReplicaManager(folder, replicas=setting.replicas, min_isr=min(MIN_ISR, setting.replicas))
    manager.create_topic(TOPIC, setting.partitions)
    manager.create_topic(QUIET, 1)
    async with Broker(manager, [Follower(manager, id) for id in range(setting.replicas)]) as broker:
        host, port = await broker.listen()
        plan = Visit(host, port, TOPIC, QUIET, rate, seed, setting)
        load = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tickwheel.bench.broker.load", json.dumps(asdict(plan))),
            stdout=PIPE,
            stderr=PIPE,
        )
        begin = await _said(load)
        cpu_s, since = process_time(), monotonic()
        probe = Probe(manager)
        with meanwhile(probe.look_on, "probe"):
            answered = await _said(load)
            cpu_s, wall_s = process_time() - cpu_s, monotonic() - since
        seen = Seen(**await _said(load))
        await load.wait()
    return Sample(
        seen=seen,
        cpu_share=cpu_s / wall_s,
        cpu_us=cpu_s * 1e6 / max(1, answered),
        sizes=[sizes._replace(at_s=sizes.at_s - begin) for sizes in probe.seen],
    )


async def _said(load: asyncio.subprocess.Process) -> Any:
    """The next line of what the load prints."""
    assert load.stdout is not None
    assert load.stderr is not None
    line = await load.stdout.readline()
    if not line:
        errors = (await load.stderr.read()).decode().strip().splitlines()
        raise RuntimeError(f"the load ended: {errors[-1] if errors else 'it does not say why'}")
    return json.loads(line)
