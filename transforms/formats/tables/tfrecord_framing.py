"""The framing of TFRecord files: lengths, checksums, compression.

A record is its length (uint64) with a masked CRC-32C, then the data with theirs
(tensorflow/core/lib/io/record_writer.h).
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import BinaryIO, cast

import google_crc32c
import numpy as np

from ...rejects import Reason, RejectError
from ..members import MOST_ROWS
from ..whole import DecodedCache, require_decodable
from .tfrecord_example import Stream

HEADER_BYTES, CHECKSUM_BYTES = 12, 4
_PIECE_BYTES = 1 << 20
_MOST_MEMBERS = 1000  # of a gzip file; TensorFlow writes one
_WINDOW_BITS = {"zlib": 15, "gzip": 31}


class _View:
    """An array's bytes, read as a file without a copy of all of it."""

    def __init__(self, content: np.ndarray):
        self._content = content.data
        self._position = 0

    def read(self, size: int) -> bytes:
        """The next bytes, fewer at the end."""
        first, self._position = self._position, min(self._position + size, len(self._content))
        return bytes(self._content[first : self._position])

    def seek(self, position: int) -> int:
        """Goes to a position."""
        self._position = position
        return position


def open_records(file: BinaryIO, cache: DecodedCache, limit: int) -> tuple[Stream, int | None]:
    """The records' bytes, and how many they are where they had to be inflated; `release` it afterwards.

    Args:
      file: of any size.
      cache: keeps what a compressed file inflates to.
      limit: most bytes of that.

    Raises:
      RejectError: it is above the limit.
    """
    file.seek(0)
    head = file.read(HEADER_BYTES)
    compression = _compression(head) if record_length(head) is None else None
    if compression is None:
        return io.BufferedReader(cast(io.RawIOBase, file)), None
    content = cache.get(file, "inflated", lambda: _inflate(file, compression, limit))
    return _View(content), len(content)


def starts_records(head: bytes) -> bool:
    """Whether a file begins with a record, after inflating where it is compressed."""
    if record_length(head) is not None:
        return True
    compression = _compression(head)
    return compression is not None and record_length(_inflate_start(head, compression)) is not None


def release(stream: Stream) -> None:
    """Leaves the file open that a buffered stream would close."""
    if isinstance(stream, io.BufferedReader):
        stream.detach()


def find_records(stream: Stream, end: int) -> tuple[list[tuple[int, int]], RejectError | None]:
    """(offset, length) of each record's data, and what is wrong after the last of them."""
    spans: list[tuple[int, int]] = []
    position = 0
    while position < end:
        stream.seek(position)
        header = stream.read(HEADER_BYTES)
        cut = RejectError(
            Reason.TRUNCATED,
            f"the file is cut short or damaged in record {len(spans)}, at byte {position} of {end}",
        )
        if len(header) < HEADER_BYTES:
            return spans, cut
        length = record_length(header)
        if length is None and not spans:
            what = "the file does not begin with a TFRecord, a length and its checksum"
            return spans, RejectError(Reason.BAD_FORMAT, what)
        if length is None:
            message = f"record {len(spans)}: the checksum of its length does not fit, so the rest of the file is lost"
            return spans, RejectError(Reason.CORRUPT, message, str(len(spans)))
        if position + HEADER_BYTES + length + CHECKSUM_BYTES > end:
            return spans, cut
        spans.append((position + HEADER_BYTES, length))
        if len(spans) > MOST_ROWS:
            return [], RejectError(Reason.TOO_LARGE, f"the file has more than {MOST_ROWS} records: split it")
        position += HEADER_BYTES + length + CHECKSUM_BYTES
    return spans, None if spans else RejectError(Reason.EMPTY, "no record is there")


def corrupt(length: int) -> RejectError:
    """A record's data is not what was written."""
    return RejectError(
        Reason.CORRUPT, f"the checksum of the record's {length} bytes does not fit: it is damaged"
    )


def data_fits(stream: Stream, offset: int, length: int) -> bool:
    """Whether a record's data has the checksum that follows it."""
    stream.seek(offset)
    crc, left = 0, length
    while left and (piece := stream.read(min(left, _PIECE_BYTES))):
        crc = google_crc32c.extend(crc, piece)
        left -= len(piece)
    return not left and stream.read(CHECKSUM_BYTES) == struct.pack("<I", _masked(crc))


def record_length(header: bytes) -> int | None:
    """The length that a record's first 12 bytes say, or None where its checksum does not fit."""
    if len(header) < HEADER_BYTES:
        return None
    length, checksum = struct.unpack("<QI", header[:HEADER_BYTES])
    return length if checksum_of(header[:8]) == checksum else None


def checksum_of(content: bytes) -> int:
    """The masked CRC-32C as it is stored."""
    return _masked(google_crc32c.value(content))


def _masked(crc: int) -> int:
    """TensorFlow stores checksums rotated and offset, since data may hold checksums itself."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _compression(head: bytes) -> str | None:
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    if len(head) >= 2 and head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0:
        return "zlib"
    return None


def _inflate_start(head: bytes, compression: str) -> bytes:
    try:
        return zlib.decompressobj(_WINDOW_BITS[compression]).decompress(head, HEADER_BYTES)
    except zlib.error:
        return b""


def _inflate(file: BinaryIO, compression: str, limit: int) -> np.ndarray:
    """What a compressed file holds, uint8 [bytes]; of a damaged one what comes before the damage.

    Raises:
      RejectError: it is above the limit.
    """
    file.seek(0)
    content = bytearray()
    inflater = zlib.decompressobj(_WINDOW_BITS[compression])
    members = 1
    try:
        while piece := file.read(_PIECE_BYTES):
            while piece:
                content += inflater.decompress(piece, _PIECE_BYTES)
                require_decodable(len(content), limit)
                piece = inflater.unconsumed_tail
                if inflater.eof:
                    piece = inflater.unused_data
                    if compression == "zlib" or not piece.startswith(b"\x1f") or members == _MOST_MEMBERS:
                        return np.frombuffer(content, np.uint8)
                    inflater = zlib.decompressobj(_WINDOW_BITS[compression])
                    members += 1
        content += inflater.flush()
    except zlib.error:
        pass
    return np.frombuffer(content, np.uint8)
