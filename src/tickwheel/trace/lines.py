"""Lines of UTF-8 text from a file that may be gzip, in bounded memory, bad bytes placed exactly."""
from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from typing import BinaryIO

BLOCK = 1 << 20
LONGEST_LINE = 1 << 24


class BadFile(Exception):
    """What is wrong with the file as a whole."""


class BadRow(BadFile):
    """What is wrong with the row that would have come next."""


def text_lines(file: BinaryIO, packed: bool) -> Iterator[str]:
    """The lines with their ends; blank ones at the end of the file are not lines.

    BadRow is raised after every line before the bad one was handed out.
    """
    blocks = _unpacked(file) if packed else iter(lambda: file.read(BLOCK), b"")
    held = b""          # the last line that is not blank, perhaps unfinished, and what follows it
    for block in blocks:
        data = held + block if held else block.removeprefix(codecs.BOM_UTF8)
        end = data.rfind(b"\n", 0, len(data.rstrip(b"\r\n"))) + 1
        yield from _decoded(data[:end])
        held = data[end:]
        if len(held) > LONGEST_LINE:
            raise BadRow(f"a line must not be longer than {LONGEST_LINE} bytes")
    yield from _decoded(held.rstrip(b"\r\n"))


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    stream = gzip.GzipFile(fileobj=file, mode="rb")
    started = False
    try:
        # read1: what comes before the damage is handed out, not lost with it.
        while block := stream.read1(BLOCK):
            started = True
            yield block
    except EOFError:
        raise BadRow("the gzip file is truncated here") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        if not started:
            raise BadFile("not a gzip file, though its name ends in .gz") from None
        raise BadRow(f"the gzip file is damaged here ({error})") from None


def _decoded(data: bytes) -> Iterator[str]:
    end, problem = len(data), ""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        end, problem = error.start, f"must be UTF-8 text, got byte 0x{data[error.start]:02x}"
    nul = data.find(b"\0", 0, end)
    if nul >= 0:
        end, problem = nul, "must be text, got a NUL byte"
    if problem:
        end = data.rfind(b"\n", 0, end) + 1
    yield from io.StringIO(data[:end].decode(), newline="\n")
    if problem:
        raise BadRow(problem)
