"""What every class with a `close` has: a `with` block closes it."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """A base without state, so that it stands beside a core's front: first, its methods before theirs."""

    __slots__ = ()

    def close(self) -> object:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
