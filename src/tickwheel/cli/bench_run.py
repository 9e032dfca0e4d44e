"""What every benchmark's command does with its rows: measure them, print them, draw them."""
from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

from tickwheel.cli.progress import progress

if TYPE_CHECKING:
    from tickwheel.bench.runner import Measurable


class Page(Protocol):
    """Made before the long work, so that a missing extra is known then."""

    def html(self) -> str: ...


def run_rows(
    args: Namespace,
    rows: Sequence[Measurable],
    rounds: int,
    *,
    page: Callable[[], Page],
    heading: Callable[[], str],
    as_json: Callable[[], Any],
    as_text: Callable[[], str],
) -> int:
    """Fill the rows in and give out what `args` ask for; the exit code. `heading` comes first."""
    from tickwheel.bench.runner import measure
    from tickwheel.output import whole_text

    with ExitStack() as files:
        # Opened first: a place that cannot be written is known before the long work.
        if args.report:
            report = page()
            file = files.enter_context(whole_text(args.report))
        if not args.json:
            print(heading(), flush=True)
        with progress("measuring") as show:
            measure(rows, rounds, show)
        if args.report:
            file.write(report.html())
    print(json.dumps(as_json()) if args.json else as_text())
    return 0
