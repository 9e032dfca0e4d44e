"""`tickwheel bench spark`: the pipeline on Spark, each step beside the ways that one would otherwise take."""
from __future__ import annotations

from argparse import ArgumentTypeError, Namespace, _SubParsersAction
from typing import Any

from tickwheel.cli.bench_quantities import chosen, count
from tickwheel.cli.bench_run import Page, run_rows
from tickwheel.cli.output_options import add_output_options

FEWEST = 1000


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "spark",
        help="generate, replay, tune and idle clients on Spark, beside other ways",
        description="Each cell (story, contender) is measured in a fresh process with a Spark session of its "
        "own. The whole run takes ten minutes; narrow it down with the options. Its files, a gigabyte or "
        "two, are made in the system's folder for temporary files and removed at the end.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--cells", metavar="A,B", help="which stories (default: all; a wrong name lists them)")
    add("--rows", type=_rows, default="1e7", metavar="N",
        help="requests; a hundredth as many clients, a tenth as many where they are pending "
        "(default %(default)s)")
    add("--rounds", type=count, default=1, metavar="N", help="fresh processes a cell (default %(default)s)")
    add("--master", type=_cores, default="local[2]", metavar="local[N]",
        help="this machine, with so many cores (default %(default)s)")
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    from tempfile import TemporaryDirectory

    from tickwheel.bench.spark import java_version

    java = java_version()

    from tickwheel.bench.spark.plan import plan
    from tickwheel.bench.spark.stories import STORIES
    from tickwheel.cli.bench_spark_text import as_json, as_text, heading

    names = chosen("--cells", args.cells, tuple(STORIES))
    with TemporaryDirectory(prefix="tickwheel-") as folder:
        rows = plan(names, args.rows, args.master, folder)

        def page() -> Page:
            from tickwheel.cli.bench_spark_page import SparkPage

            return SparkPage(rows, java)

        return run_rows(
            args, rows, args.rounds, page=page, heading=lambda: heading(rows, java),
            as_json=lambda: as_json(rows, args.rounds, java), as_text=lambda: as_text(rows),
        )


def _rows(text: str) -> int:
    rows = count(text)
    if rows < FEWEST:
        raise ArgumentTypeError(f"must be >= {FEWEST:,}, got {text!r}")
    return rows


def _cores(text: str) -> int:
    """`local[4]`: the cells share files of this machine."""
    number = text.removeprefix("local[").removesuffix("]")
    if text != f"local[{number}]" or not number.isdecimal() or not int(number):
        raise ArgumentTypeError(f"must be local[N], with N cores, such as local[2], got {text!r}")
    return int(number)
