"""Messages in the words of the command line: the option that was typed, not the parameter it became."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def speaking_of(**options: str) -> Iterator[None]:
    """For a command's `run`: with `core="--core"`, the ValueError "core must ..." is "--core must ..."."""
    try:
        yield
    except ValueError as error:
        parameter, _, rule = str(error).partition(" ")
        if parameter in options and rule.startswith("must "):
            raise ValueError(f"{options[parameter]} {rule}") from None
        raise
