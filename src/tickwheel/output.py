"""Files and folders that appear whole or not at all."""
from __future__ import annotations

import gzip
import io
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, cast


def is_device(path: str) -> bool:
    """Whether something is there that is no regular file: a pipe, /dev/stdout, a folder."""
    return os.path.exists(path) and not os.path.isfile(path)


@contextmanager
def whole_file(path: str) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` when the block ends, and never if it raises.

    Until then its bytes are in a hidden neighbour. A device or a pipe is written directly.
    OSError names `path`, whether it cannot be opened, written or put in place.
    """
    if is_device(path):
        # Renaming over /dev/null would replace the device; a directory refuses to be opened.
        with io.BufferedWriter(_NamedFile(path, "wb", path)) as device:
            yield device
        return
    target = os.path.realpath(path)     # a link stays a link
    neighbour = _neighbour(target)
    try:
        with io.BufferedWriter(_NamedFile(neighbour, "xb", path)) as file:
            yield file
        with _naming(path):
            os.replace(neighbour, target)
    except BaseException:
        with suppress(OSError):         # it may not have come that far
            os.unlink(neighbour)
        raise


@contextmanager
def whole_text(path: str) -> Iterator[IO[str]]:
    """As `whole_file`, for UTF-8 text with the newlines as written; gzip if `path` ends in .gz.

    The same text gives the same bytes: the gzip header holds neither name nor time.
    """
    with whole_file(path) as file:
        packed = gzip.GzipFile("", "wb", 6, file, mtime=0) if path.endswith(".gz") else file
        with io.TextIOWrapper(cast(IO[bytes], packed), encoding="utf-8", newline="") as text:
            yield text


@contextmanager
def whole_folder(path: str) -> Iterator[str]:
    """The same for a folder that is not there yet: the absolute name of its hidden neighbour, which is
    removed with all that is in it if the block raises. ValueError: something is there. OSError names `path`.
    """
    target = os.path.abspath(path)
    if os.path.lexists(target):
        raise ValueError(f"path must be a folder that is not there yet, got {path!r}")
    neighbour = _neighbour(target)
    with _naming(path):
        os.mkdir(neighbour)
    try:
        yield neighbour
        with _naming(path):
            os.rename(neighbour, target)
    except BaseException:
        shutil.rmtree(neighbour, ignore_errors=True)
        raise


def _neighbour(target: str) -> str:
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name}.{secrets.token_hex(4)}.part")


class _NamedFile(io.FileIO):
    """A raw file whose errors name the file that was asked for: of a full disk the system names none."""

    def __init__(self, file: str, mode: str, name: str) -> None:
        self._asked_for = name
        with _naming(name):
            super().__init__(file, mode)

    def write(self, data: Any) -> int:
        with _naming(self._asked_for):
            return super().write(data)

    def close(self) -> None:
        with _naming(self._asked_for):
            super().close()


@contextmanager
def _naming(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
