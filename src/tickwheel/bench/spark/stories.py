"""All that is measured: stories, each with its contenders, one of them ours, and the files that they read."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tickwheel.bench.spark import jobs, streams
from tickwheel.bench.spark.ground import Ground, Sample
from tickwheel.bench.spark.inputs import Input, Messages, RequestFiles

SHARDS = (1, 2, 4)              # a core
SIZES = (4, 2, 1)               # the rows of a whole run, divided by these
IDLE_SIZES = (50, 10)
PENDING = (0.001, 0.1, 1.0)

GENERATED, NO_KEYS, SQL = "generate_requests", "generate_requests, no keys", "Spark's rand()"
ONE_PROCESS = "one process"
READ, FILES_1, FILES_8 = "read once", "replay_files, 1", "replay_files, 8"
FRAME_1, FRAME_8, IDENTITY, CROSS_JOIN = "replay, 1", "replay, 8", "mapInArrow, identity", "cross join, 8"
TUNE = "tickwheel tune"
WHEEL, SESSION, CLIENT_TIMERS = "wheel", "session", "timer a client"
ONE_VALUE = "wheel, one value"
IDLE_RIVALS = frozenset([SESSION, CLIENT_TIMERS, ONE_VALUE])

ADVICE = (
    "session_window is the better choice where few of many clients have messages in a batch, as below: Spark "
    "reads the states of these alone, a shard its whole state; and where nothing else wants Python."
)

Inputs = Callable[[int, int], Sequence[Input]]      # of the rows of a whole run, and the cores


@dataclass(frozen=True, slots=True)
class Story:
    caption: str
    ours: str | None        # that the others are put beside
    contenders: Mapping[str, Callable[[Ground], Sample]]
    inputs: Inputs
    unit: str = "seconds"           # what a sample's seconds are of
    seen: tuple[str, ...] = ()      # what there is beside it
    rivals: frozenset[str] = frozenset()    # that one could take instead
    advice: str | None = None       # which to take


def requests_read(rows: int, cores: int) -> list[Input]:
    sizes = [rows, jobs.few(rows), rows // jobs.CROSS_JOIN_SHARE, jobs.few(rows // jobs.CROSS_JOIN_SHARE)]
    return [jobs.requests(size, cores) for size in sizes]


def requests_sized(rows: int, cores: int) -> list[Input]:
    return [
        jobs.requests(size, cores, shards)
        for share in SIZES
        for size in (rows // share, jobs.few(rows // share))
        for shards in SHARDS
    ]


def requests_pending(rows: int, cores: int) -> RequestFiles:
    return jobs.requests(rows // 10, cores, shards_a_core=1, never=1.0)     # all shards at a time


def messages(rows: int) -> Messages:
    return Messages(clients=max(1, rows // 100), rows=max(1, rows // 50), batches=4)


def messages_sized(rows: int, share: int) -> Messages:
    return Messages(clients=max(1, rows // share // 2), rows=max(1, rows // share), batches=3)


def messages_growing(rows: int) -> Messages:
    return Messages(max(1, rows // 10), max(1, rows // 10_000), batches=7, all_first=True)


def idle(detect: streams.Detect) -> Callable[[Ground], Sample]:
    return lambda ground: streams.measure_idle(detect, messages(ground.rows), streams.SHARDS_A_CORE, ground)


def idle_sized(shards_a_core: int, share: int) -> Callable[[Ground], Sample]:
    return lambda ground: streams.measure_idle(
        streams.wheel, messages_sized(ground.rows, share), shards_a_core, ground
    )


def growth(detect: streams.Detect) -> Callable[[Ground], Sample]:
    return lambda ground: streams.measure_growth(detect, messages_growing(ground.rows), ground)


def pending(share: float) -> Callable[[Ground], Sample]:
    return lambda ground: jobs.measure_pending(share, requests_pending(ground.rows, ground.cores), ground)


def shards_of(shards_a_core: int, share: int) -> str:
    return f"{shards_a_core} a core, rows / {share}"


STORIES: dict[str, Story] = {
    "generate": Story("generate requests, to Parquet", NO_KEYS, {
        GENERATED: partial(jobs.measure_generate, jobs.write_all_columns),
        NO_KEYS: partial(jobs.measure_generate, jobs.write_without_keys),
        SQL: partial(jobs.measure_generate, jobs.write_sql),
        ONE_PROCESS: partial(jobs.measure_generate, jobs.write_here, share=jobs.ONE_PROCESS_SHARE),
    }, lambda rows, cores: [], rivals=frozenset([SQL, ONE_PROCESS])),
    "replay": Story("replay of files, 1 or 8 configurations in a pass", FILES_1, {
        READ: partial(jobs.measure_replay, jobs.read_once),
        FILES_1: partial(jobs.measure_replay, jobs.play_files(jobs.ONE)),
        FILES_8: partial(jobs.measure_replay, jobs.play_files(jobs.EIGHT)),
        FRAME_1: partial(jobs.measure_replay, jobs.play_frame(jobs.ONE)),
        FRAME_8: partial(jobs.measure_replay, jobs.play_frame(jobs.EIGHT)),
        IDENTITY: partial(jobs.measure_replay, jobs.identity),
        CROSS_JOIN: partial(jobs.measure_replay, jobs.cross_join, share=jobs.CROSS_JOIN_SHARE),
        ONE_PROCESS: partial(jobs.measure_replay, jobs.play_here),
    }, requests_read, seen=(jobs.KERNEL_NS,), rivals=frozenset([FRAME_1, FRAME_8, CROSS_JOIN, ONE_PROCESS])),
    "tune": Story("tickwheel tune, 12 configurations, from start to end", None, {
        TUNE: jobs.measure_tune,
    }, lambda rows, cores: [jobs.requests(rows, cores)]),
    "idle": Story("idle clients, many messages a batch", WHEEL, {
        WHEEL: idle(streams.wheel),
        SESSION: idle(streams.session),
        CLIENT_TIMERS: idle(streams.client_timers),
    }, lambda rows, cores: [messages(rows)],
        "seconds a batch", ("clients", "workers MB"), IDLE_RIVALS, ADVICE),
    "growth": Story("idle clients, many pending, few messages a batch", WHEEL, {
        WHEEL: growth(streams.wheel),
        SESSION: growth(streams.session),
        ONE_VALUE: growth(streams.one_value),
    }, lambda rows, cores: [messages_growing(rows)],
        "seconds a batch", ("clients", "all pending, KB", "KB a batch"), IDLE_RIVALS),
    "shards": Story("replay_files, by shards, and rows", None, {
        shards_of(shards, share): partial(jobs.measure_shards, shards, share)
        for shards in SHARDS
        for share in SIZES
    }, requests_sized, seen=("workers MB",)),
    "shards-idle": Story("detect_idle, by shards, and messages and clients", None, {
        shards_of(shards, share): idle_sized(shards, share)
        for shards in SHARDS
        for share in IDLE_SIZES
    }, lambda rows, cores: [messages_sized(rows, share) for share in IDLE_SIZES],
        "seconds a batch", ("clients", "workers MB")),
    "pending": Story("replay_files, by what is pending at once", None, {
        f"{share:g} of the rows": pending(share) for share in PENDING
    }, lambda rows, cores: [requests_pending(rows, cores)], seen=("pending", "workers MB")),
}
