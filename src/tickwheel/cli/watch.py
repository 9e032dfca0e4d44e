"""`tickwheel watch`: who has fallen silent, from a stream that it follows."""
from __future__ import annotations

import errno
import json
import os
import re
import signal
import sys
from argparse import ArgumentTypeError, Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Any

from tickwheel.cli.places import has_scheme, is_inside
from tickwheel.cli.quantities import duration_ns, whole
from tickwheel.cli.signals import stopped_by_signals
from tickwheel.cli.wording import speaking_of
from tickwheel.units import UNITS

if TYPE_CHECKING:
    from tickwheel.spark.following import Batch

METHODS = ("wheel", "session")
INTERRUPTED = 130

NOTES = """\
Times are those of the rows. A client is offline once the watermark, the greatest time seen less
--watermark, has passed its last row by --timeout; rows behind the watermark are left out.

Without --schema the files that are there at the start are read once to find it out. A header that
says otherwise, or a cell that is none of its type, ends the command; --option mode=PERMISSIVE and
the like, Spark's own, are stronger.

Ctrl-C or SIGTERM let the batch under way end. The same command goes on from there with the same
--checkpoint. A batch that a crash cut short is done again: in --out it takes its own place, so that
nothing is there twice; on stdout its lines may come again.
"""


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "watch",
        help="follow a stream on Spark and tell who has fallen silent",
        description="Follow the files that come into FOLDER, and print or write a row for each client that\n"
        "was silent for --timeout: its key, first_seen, last_seen, idle_at.",
        epilog=NOTES,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("folder", nargs="?", metavar="FOLDER", help="files come here whole; none for a source without files")
    add("--key", required=True, metavar="COL", help="who: a column of the rows")
    add("--time", required=True, metavar="COL", help="when: a timestamp, or a number since the epoch")
    add("--checkpoint", required=True, metavar="DIR", help="where to go on from after a restart")
    add("--unit", choices=UNITS, help="of a --time that is a number (default: as its name ends)")
    add("--timeout", type=duration_ns, default="30s", metavar="DURATION",
        help="silent for so long is offline (default %(default)s)")
    add("--watermark", type=duration_ns, default="10s", metavar="DURATION",
        help="how late a row may come (default %(default)s)")
    add("--shards", type=whole, default=8, metavar="N",
        help="of the state, for good (default %(default)s)")
    add("--method", choices=METHODS, default="wheel",
        help="wheel, or session: Spark's session_window (default %(default)s)")
    add("--format", default="csv", metavar="NAME",
        help="of Spark's reader: csv, json, parquet, kafka and so on (default %(default)s)")
    add("--option", type=_option, action="append", default=[], metavar="NAME=VALUE",
        help="of Spark's reader, such as maxFilesPerTrigger=10; repeatable (default: none)")
    add("--schema", metavar="DDL",
        help="of the files, such as 'client STRING, time TIMESTAMP' (default: read from those there)")
    add("--out", metavar="DIR", help="write each batch to a folder batch=N in it (default: print JSON lines)")
    add("--out-format", choices=("json", "parquet"), default="json", help="of --out (default %(default)s)")
    add("--once", action="store_true", help="end when all that is there now is done (default: go on)")
    add("--json", action="store_true", help="print the progress on stderr as JSON lines (default: text)")
    add("--master", default="local[*]", metavar="URL", help="of Spark (default %(default)s)")
    parser.set_defaults(run=run)


@speaking_of(
    master="--master", schema="--schema", time="--time", unit="--unit", key="--key", timeout="--timeout",
    n_shards="--shards", df="the stream", folder="FOLDER",
)
def run(args: Namespace) -> int:
    from tickwheel.spark.session import local_session

    _check_places(args)
    places = args.folder, args.checkpoint, args.out
    folder, checkpoint, out = (place and _absolute(place) for place in places)
    with local_session(args.master, "watch") as spark:
        # Only now: they need the pyspark that the session has asked for.
        from tickwheel.spark.following import (
            as_ddl,
            follow,
            printed,
            schema_of,
            stream_of,
            with_event_time,
            written,
        )
        from tickwheel.spark.streaming import PROVIDER, ROCKSDB, detect_idle

        spark.conf.set(PROVIDER, ROCKSDB)
        options = dict(args.option)
        schema = args.schema
        if schema is None and folder is not None:
            schema = schema_of(spark, args.format, folder, options, key=args.key)
            ddl = as_ddl(schema)
            _tell({"schema": ddl} if args.json else f"--schema, from the files that are there: {ddl}")
        rows = stream_of(spark, args.format, folder, options, schema)
        # Rounded up, to whole milliseconds and microseconds: what is promised is not cut short.
        rows = with_event_time(rows, args.time, args.unit, -(-args.watermark // 10**6))
        if args.key not in rows.columns:
            raise ValueError(f"key must be one of the columns {', '.join(rows.columns)}, got {args.key!r}")
        timeout = timedelta(microseconds=-(-args.timeout // 1000))
        idle = detect_idle(rows, args.key, args.time, timeout, args.shards, args.method)
        take = written(spark, out, args.out_format) if out else printed(_print)
        stopping = Event()

        def stop(number: int) -> None:
            if stopping.is_set() and number == signal.SIGINT:
                raise KeyboardInterrupt     # the second one: at once
            stopping.set()

        with stopped_by_signals(stop) as received:
            for batch in follow(idle, take, checkpoint, once=args.once, stopping=stopping):
                _tell(asdict(batch) if args.json else _text(batch))
    return INTERRUPTED if signal.SIGINT in received else 0


def _check_places(args: Namespace) -> None:
    """FOLDER is there, and no other checkpoint's results in the way. What has a scheme is left to Spark."""
    if args.folder is not None and not has_scheme(args.folder) and not os.path.isdir(args.folder):
        problem = errno.ENOTDIR if os.path.exists(args.folder) else errno.ENOENT
        raise OSError(problem, os.strerror(problem), args.folder)
    if args.folder is not None and (pattern := re.search(r"[][{}*?\\]", args.folder)):
        # Spark takes it for a pattern, and follows what matches: another folder, or none, without a word.
        raise ValueError(f"folder must be without {pattern[0]!r} in its name, got {args.folder!r}")
    if args.out and not has_scheme(args.out) and os.path.exists(args.out) and not os.path.isdir(args.out):
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), args.out)
    places = {"folder": args.folder, "--checkpoint": args.checkpoint, "--out": args.out}
    names: dict[str, str] = {}
    for name, place in places.items():
        if place is not None and (other := names.setdefault(os.path.realpath(place), name)) != name:
            raise ValueError(f"{name} must be another folder than the {other}, got {place!r}")
    for name in ("--checkpoint", "--out"):
        if args.folder and places[name] and is_inside(places[name], args.folder):
            raise ValueError(f"{name} must not be inside the folder that is followed, got {places[name]!r}")
    begun = has_scheme(args.checkpoint) or os.path.isdir(os.path.join(args.checkpoint, "offsets"))
    if args.out and not begun and os.path.isdir(args.out) and os.listdir(args.out):
        raise ValueError(f"--out must be empty where --checkpoint is new, got {args.out!r}")


def _absolute(place: str) -> str:
    """For a JVM, which may be in another folder."""
    return place if has_scheme(place) else os.path.abspath(place)


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    return name, value


def _print(line: str) -> None:
    print(line, flush=True)


def _tell(what: str | dict[str, Any]) -> None:
    with suppress(BrokenPipeError):     # whoever read the progress has gone; the job goes on
        print(what if isinstance(what, str) else json.dumps(what), file=sys.stderr, flush=True)


def _text(batch: Batch) -> str:
    return (
        f"batch {batch.batch}: {batch.rows:,} rows, {batch.rows_per_s:,.0f}/s, watermark {batch.watermark}, "
        f"{batch.events:,} offline, state {batch.state_rows:,} rows, {batch.state_bytes / 1e3:,.0f} kB"
    )
