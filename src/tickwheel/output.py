"""Files that appear whole or not at all."""
from __future__ import annotations

import gzip
import io
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, cast


@contextmanager
def whole_file(path: str) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` when the block ends, and never if it raises.

    Until then its bytes are in a hidden neighbour. A device or a pipe is written directly.
    OSError names `path`.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        # Renaming over /dev/null would replace the device; a directory refuses to be opened.
        with open(path, "wb") as device:
            yield device
        return
    target = os.path.realpath(path)     # a link stays a link
    folder, name = os.path.split(target)
    neighbour = os.path.join(folder, f".{name}.{secrets.token_hex(4)}.part")
    try:
        with open(neighbour, "xb") as file:
            yield file
        os.replace(neighbour, target)
    except BaseException as error:
        with suppress(OSError):         # it may not have come that far
            os.unlink(neighbour)
        if isinstance(error, OSError) and error.filename == neighbour:
            raise type(error)(error.errno, error.strerror, path) from None
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
