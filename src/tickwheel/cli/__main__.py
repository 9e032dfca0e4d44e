"""`tickwheel COMMAND`: the parser, and what every command has in common at its end.

A command is a module with `add_parser(subparsers)`, which sets `run` as a default, and
`run(args) -> int`. What it needs beyond its parser it imports in `run`, so that the others
start quickly. Bad input is a ValueError, an OSError or a MissingExtra: one line, exit 2.
"""
from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from tickwheel._core import IMPLEMENTATION
from tickwheel.extras import MissingExtra

COMMANDS = ("generate", "replay", "bench", "tune", "watch", "idle", "kata", "broker")
BAD_INPUT = 2
INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, without the usage: argument, rule, value seen."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message.removeprefix("argument ").replace(": must ", " must ", 1))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse's own words differ from version to version.
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"must be among {', '.join(action.choices)}, got {value!r}")


class ShowVersion(argparse.Action):
    """Prints it and ends. Looked up only when it is asked for."""

    def __call__(self, *_: object) -> NoReturn:
        from tickwheel.machine import version

        print(f"tickwheel {version('tickwheel')} ({IMPLEMENTATION} core)")
        raise SystemExit(0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    try:
        code = _run(argv)
        print(end="", flush=True)       # a reader that went away is noticed here
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()
        return INTERRUPTED
    except OSError as error:
        if error.filename is None:      # perhaps from stdout itself: its disk is full
            _abandon_stdout()
        problem = error.strerror or str(error)
        return _bad_input(problem if error.filename is None else f"{error.filename or repr('')}: {problem}")
    except (ValueError, MissingExtra, MemoryError) as error:
        return _bad_input(str(error) or "out of memory")


def _run(argv: Sequence[str] | None) -> int:
    try:
        args = _parser().parse_args(argv)
    except SystemExit as end:           # --help and --version
        return int(end.code or 0)
    code: int = args.run(args)
    return code


def _parser() -> Parser:
    parser = Parser(prog="tickwheel", description="Millions of timers, measured.", allow_abbrev=False)
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show version and core, and exit")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        import_module(f"tickwheel.cli.{command}").add_parser(subparsers)
    return parser


def _abandon_stdout() -> None:
    """Let what is left in its buffer go nowhere: the interpreter flushes it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _bad_input(problem: str) -> int:
    print("tickwheel:", " ".join(problem.splitlines()), file=sys.stderr)
    return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
