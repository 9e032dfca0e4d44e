"""The options that say what a trace's requests are: the same for every command that reads one."""
from __future__ import annotations

from argparse import ArgumentParser

from tickwheel.cli.quantities import column_value, duration_ns
from tickwheel.units import UNITS


def add_trace_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--arrival", default="arrival_ms", metavar="COL", help="time of arrival (default %(default)s)")
    add("--completion", default="completion_ms", metavar="COL",
        help="time of completion, empty where there was none (default %(default)s)")
    add("--unit", choices=UNITS, help="of these columns (default: as their names end)")
    timeout = parser.add_mutually_exclusive_group().add_argument
    timeout("--timeout", type=duration_ns, default="200ms", metavar="DURATION",
            help="of each request, such as 200ms or 1s (default %(default)s)")
    timeout("--timeout-column", metavar="COL", help="a column of the requests' own timeouts (default: none)")
    add("--where", type=column_value, action="append", default=[], metavar="COL=VALUE",
        help="only rows whose column has this value, an empty one for null; repeatable (default: all)")
