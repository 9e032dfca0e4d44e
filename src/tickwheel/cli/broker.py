"""`tickwheel broker`: a replicated log that Kafka's clients talk to."""
from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import sys
from argparse import ArgumentTypeError, Namespace, _SubParsersAction
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tickwheel.cli.bench_quantities import count
from tickwheel.cli.quantities import duration_ns, whole
from tickwheel.cli.signals import stopped_by_signals
from tickwheel.cli.wording import speaking_of

if TYPE_CHECKING:
    from tickwheel.replication.replicas import ReplicaManager

INTERRUPTED = 130
MAX_PORT = 65535


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "broker",
        help="serve a replicated log to Kafka's clients",
        description="Keep topics in --data, each partition with a leader and followers in this process, and "
        "serve them over Kafka's protocol, without authentication: to produce, and to consume partitions "
        "that the client assigns itself. Print one line when clients can come; log to stderr; SIGINT or "
        "SIGTERM ends it.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--data", required=True, metavar="DIR", help="folder of the logs, made if it is not there")
    add("--host", default="127.0.0.1", metavar="HOST", help="to listen at (default %(default)s)")
    add("--port", type=_port, default=9092, metavar="N",
        help="to listen at, 0 for one that is free (default %(default)s)")
    add("--topic", type=_topic, action="append", default=[], metavar="NAME:PARTITIONS",
        help="make it if it is not there; repeatable (default: none)")
    add("--replicas", type=count, default=3, metavar="N",
        help="copies of each partition (default %(default)s)")
    add("--min-isr", type=count, metavar="N",
        help="replicas that must be in sync for acks=all (default: 2, or 1 where there is one)")
    add("--lag-max", type=duration_ns, default="10s", metavar="DURATION",
        help="a follower that has not caught up for so long is not in sync (default %(default)s)")
    add("--segment-bytes", type=count, default=1 << 30, metavar="N",
        help="size at which a new file is begun (default %(default)s)")
    add("--flush", action="store_true",
        help="have each append on the disk before it is acknowledged (default: left to the system, which is "
             "safe unless the machine loses power)")
    add("--auto-create", action="store_true", help="make a topic that a client asks for (default: an error)")
    add("--max-request", type=count, default=100 << 20, metavar="BYTES",
        help="a client that sends a longer one is closed (default %(default)s)")
    add("--idle-timeout", type=duration_ns, default="600s", metavar="DURATION",
        help="a client that is silent for so long is closed (default %(default)s)")
    add("--json", action="store_true", help="print a JSON object when clients can come (default: text)")
    parser.set_defaults(run=run)


@speaking_of(
    data="--data",
    topic="--topic",
    partitions="--topic's partitions",
    replicas="--replicas",
    min_isr="--min-isr",
    lag_max="--lag-max",
)
def run(args: Namespace) -> int:
    from tickwheel.dropin.asyncio import new_event_loop
    from tickwheel.replication.broker import Broker
    from tickwheel.replication.errors import PartitionError
    from tickwheel.replication.folderlock import locked
    from tickwheel.replication.follower import Follower
    from tickwheel.replication.replicas import ReplicaManager

    async def serve(manager: ReplicaManager) -> int:
        broker = Broker(
            manager,
            [Follower(manager, id) for id in range(args.replicas)],
            auto_create=args.auto_create,
            max_request=args.max_request,
            idle_timeout=args.idle_timeout / 1e9,
        )
        async with broker:
            try:
                host, port = await broker.listen(args.host, args.port)
            except (socket.gaierror, UnicodeError):
                raise ValueError(f"--host must be an address or its name, got {args.host!r}") from None
            topics = {name: len(partitions) for name, partitions in manager.topics().items()}
            loop, stopping = asyncio.get_running_loop(), asyncio.Event()
            with stopped_by_signals(lambda _: loop.call_soon_threadsafe(stopping.set)) as received:
                ready = {"host": host, "port": port, "topics": topics}
                print(json.dumps(ready) if args.json else f"listening at {host}:{port}", flush=True)
                await stopping.wait()
        return INTERRUPTED if signal.SIGINT in received else 0

    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    _allow_open_files()
    folder = Path(args.data)
    try:
        with locked(folder, flush=args.flush), ReplicaManager(
            folder,
            replicas=args.replicas,
            min_isr=min(2, args.replicas) if args.min_isr is None else args.min_isr,
            lag_max=args.lag_max / 1e9,
            segment_bytes=args.segment_bytes,
            flush=args.flush,
        ) as manager:
            _make_topics(manager, args.topic)
            # On the wheel: a timer for each request that is not whole, cancelled as soon as it is.
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                return runner.run(serve(manager))
    except PartitionError as error:  # a topic of no such name, a disk that is full
        raise ValueError(str(error)) from None


def _make_topics(manager: ReplicaManager, topics: list[tuple[str, int]]) -> None:
    for name, partitions in topics:
        there = manager.topics().get(name)
        if there is None:
            manager.create_topic(name, partitions)
        elif len(there) != partitions:
            raise ValueError(f"topic must have the partitions it has, {name}:{len(there)}, got {partitions}")


def _allow_open_files() -> None:
    """A connection each, and the logs: as many as the system lets this process have."""
    with suppress(ImportError):  # Windows has no such limit
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError):  # some systems call no limit what they then refuse
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _port(text: str) -> int:
    port = whole(text)
    if not 0 <= port <= MAX_PORT:
        raise ArgumentTypeError(f"must be between 0 and {MAX_PORT}, got {port}")
    return port


def _topic(text: str) -> tuple[str, int]:
    name, colon, partitions = text.rpartition(":")
    if not name or not colon or not partitions.isdecimal():
        raise ArgumentTypeError(f"must be NAME:PARTITIONS, got {text!r}")
    return name, int(partitions)
