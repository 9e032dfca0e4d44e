"""A broker in a thread of the test's own process, and one in a process of its own."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

from tickwheel.dropin.asyncio import new_event_loop
from tickwheel.replication.broker import Broker
from tickwheel.replication.follower import Follower
from tickwheel.replication.replicas import ReplicaManager


class Here:
    """A broker whose log the test can reach into."""

    def __init__(self, folder, *, partitions=3, segment_bytes=1 << 30, follow=True, **options):
        self.manager = ReplicaManager(folder, replicas=3, min_isr=2, segment_bytes=segment_bytes)
        if "events" not in self.manager.topics():
            self.manager.create_topic("events", partitions)
        self.followers = [Follower(self.manager, id) for id in range(3)]
        for follower in self.followers:
            if not follow:
                follower.pause()
        self._options = options
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._ready.wait(60)

    def _run(self):
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self):
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with Broker(self.manager, self.followers, **self._options) as self.broker:
            self.address = await self.broker.listen()
            self._ready.set()
            await self._stopping.wait()

    @property
    def connections(self):
        """Those that the broker knows of."""
        return list(self.broker._service.connections)

    def stop(self):
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(30)
            assert not self._thread.is_alive()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Apart:
    """`tickwheel broker` in its own process."""

    def __init__(self, folder, *arguments):
        command = [
            sys.executable,
            "-m",
            "tickwheel.cli.__main__",
            "broker",
            "--data",
            str(folder),
            "--port",
            "0",
        ]
        self.process = subprocess.Popen(
            [*command, "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate()[1])
        self.ready = json.loads(line)
        self.address = self.ready["host"], self.ready["port"]
        self.servers = f"{self.address[0]}:{self.address[1]}"

    def cpu_s(self):
        """Seconds of processor time that it has used so far."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, number=signal.SIGTERM):
        """Its exit code and what it wrote to stderr."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.communicate()
