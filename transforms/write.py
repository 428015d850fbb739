"""A shard file: TFRecords under a temporary name, with a checksum, renamed when complete."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Literal

import google_crc32c

from .declare import setting, settings_group
from .elements import ShardInfo
from .encode import Record

_WINDOW_BITS = {"zlib": 15, "gzip": 31}
_PIECES_PER_CALL = 1000  # below IOV_MAX
# Sent to the disk meanwhile, so that the last wait is short: a shard must be durable before its sidecar is there.
_FLUSH_BYTES = 16 << 20
_CHUNK_BYTES = 4 << 20


@settings_group
class WriteSettings:
    """How shards are written."""

    compression: Literal["none", "gzip", "zlib"] = setting(
        "none", "of the shard files; readers find it in spectrabeam.json"
    )


class ShardWriter:
    """Writes the records of one shard; leaves either the whole file or nothing under its name.

    A record is its length (uint64) with a masked CRC-32C, then the data with theirs; the format is
    TensorFlow's (tensorflow/core/lib/io/record_writer.h).
    """

    def __init__(self, path: str, temporary: str, compression: str = "none"):
        self._path = path
        self._temporary = temporary
        self._file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        bits = _WINDOW_BITS.get(compression)
        self._compressor = None if bits is None else zlib.compressobj(wbits=bits)
        self._crc = 0
        self._num_bytes = 0
        self._examples = 0
        self._headers: dict[int, bytes] = {}
        self._flusher = ThreadPoolExecutor(1, "flush")
        self._flush: Future[None] | None = None
        self._flushed = 0

    def write(self, records: Iterable[Record]) -> None:
        """Appends records; they reach the file before this returns, unless compressed."""
        pieces: list[bytes] = []
        for record in records:
            length, crc = 0, 0
            for piece in record:
                length += len(piece)
                crc = google_crc32c.extend(crc, piece)
            header = self._headers.get(length)
            if header is None:
                packed = struct.pack("<Q", length)
                header = packed + struct.pack("<I", _masked(google_crc32c.value(packed)))
                self._headers[length] = header
            pieces += (header, *record, struct.pack("<I", _masked(crc)))
            self._examples += 1
        if self._compressor is not None:
            compress = self._compressor.compress
            pieces = [compressed for piece in pieces if (compressed := compress(piece))]
        self._append(pieces)
        due = self._num_bytes - self._flushed >= _FLUSH_BYTES
        if due and (self._flush is None or self._flush.done()):
            if self._flush is not None:
                self._flush.result()  # the system tells of a failing disk once only
            self._flushed = self._num_bytes
            self._flush = self._flusher.submit(os.fdatasync, self._file)

    def close(self) -> ShardInfo:
        """Makes the file durable and gives it its name."""
        if self._compressor is not None:
            self._append([self._compressor.flush()])
        self._flusher.shutdown()
        if self._flush is not None:
            self._flush.result()
        os.fsync(self._file)
        os.close(self._file)
        self._file = -1
        os.replace(self._temporary, self._path)
        return ShardInfo(self._examples, self._num_bytes, f"{self._crc:08x}")

    def abandon(self) -> None:
        """Removes what was written, unless `close` was reached."""
        if self._file >= 0:
            self._flusher.shutdown()
            os.close(self._file)
            self._file = -1
            os.unlink(self._temporary)

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abandon()

    def _append(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            self._crc = google_crc32c.extend(self._crc, piece)
        for first in range(0, len(pieces), _PIECES_PER_CALL):
            some = pieces[first : first + _PIECES_PER_CALL]
            expected = sum(map(len, some))
            written = os.writev(self._file, some)
            while written < expected:  # a signal or a full quota came between
                rest = b"".join(some)[written:]
                written += os.write(self._file, rest)
            self._num_bytes += expected


def checksum(path: str) -> tuple[int, str]:
    """Length and CRC-32C (8 hex digits) of a file, as `ShardInfo` has them.

    Raises:
      OSError: it cannot be read.
    """
    num_bytes = crc = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            num_bytes += len(chunk)
            crc = google_crc32c.extend(crc, chunk)
    return num_bytes, f"{crc:08x}"


def _masked(crc: int) -> int:
    """TensorFlow stores checksums rotated and offset, since data may hold checksums itself."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
