"""The options that say how a result is given out: the same for every command that draws a page."""
from __future__ import annotations

from argparse import ArgumentParser

from tickwheel.cli.quantities import file_ending_in


def add_output_options(parser: ArgumentParser, printed: str = "tables") -> None:
    """`--json` and `--report`; `printed` is what there is without the first."""
    parser.add_argument("--json", action="store_true", help=f"print one JSON object (default: {printed})")
    parser.add_argument("--report", type=file_ending_in(".html", ".htm"), metavar="FILE",
                        help="write a page with plots to this .html (default: none)")
