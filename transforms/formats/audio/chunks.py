"""Files made of chunks: a name, a length, and that many bytes. The walk trusts no length."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from typing import BinaryIO

from ...rejects import Reason, RejectError

MOST_CHUNKS = 1024
_WINDOW_BYTES = 4096
_PRINTABLE = bytes(range(32, 127))
_AFTER_UNPADDED = (b"data", b"fmt ", b"fact", b"LIST", b"SSND", b"COMM")


class Bytes:
    """A file's bytes at any position; the last 4096 stay in memory, so that most headers are one read."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._first = 0
        file.seek(0)
        self._window = file.read(_WINDOW_BYTES)

    def at(self, position: int, count: int) -> bytes:
        """Up to `count` (at most 4096) bytes from there; fewer at the end of the file."""
        first = position - self._first
        if first < 0 or first + count > len(self._window):
            self._file.seek(position)
            self._first, first = position, 0
            self._window = self._file.read(_WINDOW_BYTES)
        return self._window[first : first + count]

    def bulk(self, position: int, count: int) -> bytes:
        """Up to `count` bytes from there, of any number."""
        self._file.seek(position)
        return self._file.read(count)


@dataclasses.dataclass(frozen=True)
class Form:
    """How chunks are laid out.

    Attributes:
      header: of the name and the length.
      align: chunks begin at multiples of this many bytes.
      own_header: whether the length counts the header as well.
    """

    header: struct.Struct
    align: int = 2
    own_header: bool = False


def walk(data: Bytes, position: int, form: Form) -> Iterator[tuple[bytes, int, int]]:
    """(first four bytes of the name, position of the content, its length as declared) of each chunk up to the end.

    Raises:
      RejectError: there is no chunk where one should begin, or there are too many of them.
    """
    size = form.header.size
    for _ in range(MOST_CHUNKS):
        header = data.at(position, size)
        if len(header) < size:
            return
        name, length = form.header.unpack(header)
        if form.own_header:
            length = length - size if length else 0  # 0 was never mended
        if not _is_name(name) or (form.own_header and length < 0):
            raise RejectError(
                Reason.BAD_FORMAT,
                f"no chunk begins at byte {position}, where the one before it should end: the header is damaged",
            )
        yield name[:4], position + size, length
        position = _next(data, position + size, length, form)
    raise RejectError(
        Reason.BAD_FORMAT, f"more than {MOST_CHUNKS} chunks come before the samples: the file is damaged"
    )


def only_chunks_follow(data: Bytes, first: int, length: int, size: int, form: Form) -> bool:
    """Whether the bytes after a chunk's content are chunks of fitting lengths up to the end of the file, and nothing else.

    Args:
      data: the file.
      first, length: of the content.
      size: of the file.
      form: of the chunks.
    """
    position = _next(data, first, length, form)
    if position >= size:
        return False
    try:
        for _, first, length in walk(data, position, form):
            if first + length > size:
                return False
    except RejectError:
        return False
    return _next(data, first, length, form) >= size


def _next(data: Bytes, first: int, length: int, form: Form) -> int:
    """Where the chunk after the content begins."""
    end, padding = first + max(length, 0), -length % form.align
    # some writers leave the padding byte out: a known name right here shows it
    return end if padding == 1 and data.at(end, 4) in _AFTER_UNPADDED else end + padding


def _is_name(name: bytes) -> bool:
    return not name[:4].translate(None, _PRINTABLE)
