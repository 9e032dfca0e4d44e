"""`tickwheel kata --spark`: the kata's stream as fast as it goes, in one process and on Spark, compared."""
from __future__ import annotations

import json
from argparse import Namespace
from tempfile import TemporaryDirectory

from tickwheel.cli.progress import progress

IN_REAL_TIME = ("consume", "threads", "only", "each_second", "report")   # options of the designs
DIFFERENT = 1       # exit code


def run_on_spark(args: Namespace) -> int:
    """The exit code: not 0 where the outcomes differ, or are wrong."""
    from tickwheel.bench.kata.stream import deliveries
    from tickwheel.spark.progress import job_progress
    from tickwheel.spark.session import local_session

    for option in IN_REAL_TIME:
        if getattr(args, option) not in (None, False):
            raise ValueError(f"--{option.replace('_', '-')} must not be given with --spark")
    master = args.master or "local[*]"
    if not master.startswith("local"):
        raise ValueError(f"master must be this machine, as local[2] is: the files are here; got {master!r}")
    stream = {
        "rate": args.rate,
        "duration_s": args.duration / 1e9,
        "clients": args.clients,
        "duplicates": args.duplicates,
        "seed": args.seed,
    }
    due = deliveries(**stream)
    # The session ends before the folder is removed: nobody writes into it then.
    with TemporaryDirectory(prefix="tickwheel-") as folder, local_session(master, "kata --spark") as spark:
        # Only now: they need the packages that the session has asked for.
        from tickwheel.bench.kata import in_process, on_spark
        from tickwheel.bench.kata.outcome import compared
        from tickwheel.cli.kata_spark_text import LOCAL, SPARK, as_json, as_text, heading
        from tickwheel.spark.streaming import PROVIDER, ROCKSDB

        spark.conf.set(PROVIDER, ROCKSDB)
        if not args.json:
            print(heading(stream, due, master), flush=True)
        with progress(LOCAL) as show:
            local = in_process.play(due, show)
        with progress(SPARK) as show, job_progress(spark, show):
            parallel = on_spark.play(due, spark, folder)
    comparison = compared(due, {LOCAL: local, SPARK: parallel})
    print(json.dumps(as_json(stream, master, comparison)) if args.json else as_text(comparison))
    return DIFFERENT if comparison.problems else 0
