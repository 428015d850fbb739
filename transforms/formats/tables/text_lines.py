"""Lines of a text file, in bounded memory: numbered, from the end, and cleaned for the parser."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import BinaryIO

from ...rejects import Reason, RejectError
from .text_fields import BLANKS
from .text_layout import Layout, Line

MOST_LINE_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 20
_BACK_BYTES = 1 << 16
_BOM = b"\xef\xbb\xbf"
_END = b" \r\n\x1a"  # DOS ends texts with the last


def line_break(head: bytes) -> bytes:
    """What ends the lines of a file; old spreadsheets write a carriage return alone."""
    return b"\r" if b"\r" in head and b"\n" not in head else b"\n"


def table_end(file: BinaryIO, size: int, footer: int, newline: bytes) -> int:
    """Where the content ends: before blank lines at the end, and before `footer` lines above those."""
    end = _strip(file, size)
    for _ in range(footer):
        end = _strip(file, _rfind(file, end, newline))
    return end


def _strip(file: BinaryIO, end: int) -> int:
    while end > 0:
        first = max(0, end - _BACK_BYTES)
        file.seek(first)
        kept = file.read(end - first).rstrip(_END)
        if kept:
            return first + len(kept)
        end = first
    return 0


def _rfind(file: BinaryIO, end: int, newline: bytes) -> int:
    while end > 0:
        first = max(0, end - _BACK_BYTES)
        file.seek(first)
        found = file.read(end - first).rfind(newline)
        if found >= 0:
            return first + found
        end = first
    return 0


def iter_lines(file: BinaryIO, start: int, end: int, number: int, newline: bytes) -> Iterator[Line]:
    """The lines from byte `start`, which is the beginning of line `number`, up to `end`.

    Raises:
      RejectError: a line is longer than 16 MiB.
    """
    for chunk in _whole_lines(file, start, end, newline):
        for raw in chunk.split(newline)[: None if not chunk.endswith(newline) else -1]:
            yield Line(number, start, decode(raw.removeprefix(_BOM) if start == 0 else raw).rstrip("\r"))
            start += len(raw) + 1
            number += 1


def decode(raw: bytes) -> str:
    """UTF-8, or where it is not, Latin-1, of which any byte is a character."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _whole_lines(file: BinaryIO, start: int, end: int, newline: bytes) -> Iterator[bytes]:
    """Pieces of a file that end where lines do."""
    rest: list[bytes] = []
    length = 0
    while start < end:
        file.seek(start)
        chunk = file.read(min(_CHUNK_BYTES, end - start))
        if not chunk:
            break
        start += len(chunk)
        cut = chunk.rfind(newline) + 1
        if cut:
            yield b"".join((*rest, chunk[:cut]))
            rest, length = [], 0
        rest.append(chunk[cut:])
        length += len(chunk) - cut
        if length > MOST_LINE_BYTES:
            raise RejectError(
                Reason.BAD_FORMAT, f"a line is longer than {MOST_LINE_BYTES >> 20} MiB: it is no text table"
            )
    if length:
        yield b"".join(rest)


class Feed(io.RawIOBase):
    """The data lines of a table as the parser takes them: one delimiter between fields, a point as decimal mark."""

    def __init__(self, file: BinaryIO, start: int, end: int, newline: bytes, layout: Layout):
        self._chunks: Iterator[bytes] = _whole_lines(file, start, end, newline)
        self._newline = newline
        self._layout = layout
        self._left = b""
        self._at_start = start == 0
        self._lock = threading.Lock()

    def readable(self) -> bool:
        """Yes."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; nothing at the end, and after `stop`."""
        with self._lock:
            return self._read(size)

    def stop(self) -> None:
        """Lets go of the file: the parser reads ahead on a thread of its own, also after it has failed."""
        with self._lock:
            self._chunks, self._left = iter(()), b""

    def _read(self, size: int) -> bytes:
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._left = self._clean(chunk)
        if size < 0:
            size = len(self._left)
        piece, self._left = self._left[:size], self._left[size:]
        return piece

    def _clean(self, chunk: bytes) -> bytes:
        layout = self._layout
        if self._at_start:
            chunk, self._at_start = chunk.removeprefix(_BOM), False
        if self._newline != b"\n":
            chunk = chunk.replace(self._newline, b"\n")
        if layout.decimal == ",":
            chunk = chunk.replace(b",", b".")
        if layout.delimiter == BLANKS:
            chunk = chunk.replace(b"\t", b" ")
            while b"  " in chunk:  # each time halves the runs; ten times as fast as a regular expression
                chunk = chunk.replace(b"  ", b" ")
            chunk = chunk.replace(b"\n ", b"\n").replace(b" \n", b"\n").replace(b" \r\n", b"\r\n")
            return chunk.strip(b" ")
        if layout.iso is not None:  # blanks around numbers do not matter, around times they do
            mark = layout.delimiter.encode()
            chunk = (
                chunk.replace(mark + b" ", mark)
                .replace(b" " + mark, mark)
                .replace(b"\n ", b"\n")
                .lstrip(b" ")
            )
        return chunk
