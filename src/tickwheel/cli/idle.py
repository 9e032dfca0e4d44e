"""`tickwheel idle`: who fell silent, from a log, in virtual time."""
from __future__ import annotations

import os
from argparse import Namespace, _SubParsersAction
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, cast

from tickwheel.cli.progress import progress
from tickwheel.cli.quantities import column_value, duration_ns, file_ending_in
from tickwheel.cli.wording import speaking_of
from tickwheel.units import UNITS


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "idle",
        help="tell who fell silent in a log",
        description="Read the rows of TRACE, in order of time, and count in virtual time who was silent for "
        "--timeout: offline at the last row plus --timeout, to the nanosecond. A row at that very instant "
        "comes too late, and begins anew. Who was not yet silent for so long when the log ends is online.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("trace", metavar="TRACE",
        help="CSV or JSON lines (.jsonl), also .gz, or .parquet; or a folder of such files")
    add("--key", required=True, metavar="COL", help="who: a column, compared as text, in no row empty")
    add("--time", required=True, metavar="COL", help="when: a column that does not go back")
    add("--unit", choices=UNITS, help="of --time (default: as its name ends)")
    add("--timeout", type=duration_ns, default="30s", metavar="DURATION",
        help="silent for so long is offline (default %(default)s)")
    add("--where", type=column_value, action="append", default=[], metavar="COL=VALUE",
        help="only rows whose column has this value, an empty one for null; repeatable (default: all)")
    add("--out", type=file_ending_in(".csv", ".csv.gz", ".jsonl", ".jsonl.gz"), metavar="FILE",
        help="write key, first and last row and offline time of each who fell silent to this .csv or .jsonl, "
             "also .gz (default: none)")
    add("--json", action="store_true", help="print one JSON object (default: text)")
    parser.set_defaults(run=run)


@speaking_of(unit="--unit", key="--key")
def run(args: Namespace) -> int:
    from tickwheel.cli.idle_text import as_json, as_text, spell_file
    from tickwheel.recipes.idlelog import IdleLog
    from tickwheel.trace import Trace
    from tickwheel.units import MAX_NS

    _check_out(args.trace, args.out)
    trace = Trace(
        args.trace,
        arrival=args.time,
        completion=args.time,       # a row takes no time
        unit=args.unit,
        where=args.where,
        id=args.key,
        id_required=True,
        latest_ns=MAX_NS - args.timeout,
    )
    log = IdleLog(args.timeout)
    with ExitStack() as files:
        # Opened first: a place that cannot be written is known before the long work.
        write = files.enter_context(spell_file(args.out, args.key, trace.unit)) if args.out else None
        with progress("reading") as show:
            for chunk in trace:
                spells = log.feed(cast(Sequence[str], chunk.labels), chunk.arrivals)
                if write is not None:
                    write(spells)
                show(trace.fraction)
    print(as_json(log) if args.json else as_text(log))
    return 0


def _check_out(trace: str, out: str | None) -> None:
    """The events must neither take the log's place nor be read as a part of it."""
    if out is not None:
        place = os.path.realpath(out)
        if os.path.realpath(trace) in (place, os.path.dirname(place)):
            raise ValueError(f"--out must not be the trace nor in its folder, got {out!r}")
