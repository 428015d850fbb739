"""The file under an HDF5 library: lent anew for each read, and watched for what makes the library hang."""

from __future__ import annotations

import io
import struct
from typing import Any, BinaryIO

SIGNATURE = b"\x89HDF\r\n\x1a\n"
SIGNATURE_OFFSETS = (0, 512, 1024, 2048)
_HEAP_MAGIC = b"GCOL"
_MOST_BEYOND_BYTES = 1 << 16  # that HDF5 may read ahead


def find_signature(head: bytes) -> int | None:
    """Where HDF5 begins in a file's first 4096 bytes, or None."""
    for offset in SIGNATURE_OFFSETS:
        if head[offset : offset + len(SIGNATURE)] == SIGNATURE:
            return offset
    return None


class Source(io.RawIOBase):
    """A file for h5py, whose place another handle of the same file can take.

    h5py hands errors of these methods on as they are.
    """

    def __init__(self, file: BinaryIO | None = None) -> None:
        super().__init__()
        self.lent: Any = file
        self._length_bytes: int | None = None

    def readable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """As the file lent."""
        return self.lent.seek(offset, whence)

    def tell(self) -> int:
        """As the file lent."""
        return self.lent.tell()

    def readinto(self, buffer: Any) -> int:
        """As the file lent, but never less than asked for, since h5py does not ask again: zeros follow its end.

        Raises:
          ValueError: a length is damaged.
        """
        view = memoryview(buffer).cast("B")
        start = self.lent.tell()
        done = _fill(self.lent, view)
        if len(view) - done > _MOST_BEYOND_BYTES:
            raise ValueError(f"{len(view)} bytes are asked for at byte {start}, and {done} are there")
        view[done:] = bytes(len(view) - done)
        if view[:4] == _HEAP_MAGIC:
            self._check_heap(start)
        return len(view)

    def _check_heap(self, start: int) -> None:
        """Walks a global heap as HDF5 1.14 does, which goes round for ever where an object takes no place.

        Raises:
          ValueError: it would.
        """
        if self._length_bytes is None:
            self._length_bytes = self._find_length_bytes()
        length_bytes = self._length_bytes
        size = int.from_bytes(self._read(start + 8, length_bytes), "little")
        end = self.lent.seek(0, 2)
        heap = memoryview(self._read(start, min(size, end - start)))
        at = 8 + -(-length_bytes // 8) * 8
        header = 8 + -(-length_bytes // 8) * 8
        while at + header <= len(heap):
            number = struct.unpack_from("<H", heap, at)[0]
            object_bytes = int.from_bytes(heap[at + 8 : at + 8 + length_bytes], "little")
            step = header + -(-object_bytes // 8) * 8 if number else object_bytes
            if step == 0 or at + step > len(heap):
                raise ValueError(f"the heap of texts at byte {start} is damaged at object {number}")
            at += step

    def _find_length_bytes(self) -> int:
        head = self._read(0, 4096)
        offset = find_signature(head) or 0
        version = head[offset + 8]
        return min(8, head[offset + (14 if version < 2 else 10)]) or 8

    def _read(self, start: int, count: int) -> bytes:
        content = bytearray(max(0, count))
        self.lent.seek(start)
        return bytes(content[: _fill(self.lent, memoryview(content))])


def _fill(file: Any, view: memoryview) -> int:
    """Bytes read into `view`: all of them but at the file's end."""
    done = 0
    while done < len(view):
        count = file.readinto(view[done:])
        if not count:
            break
        done += count
    return done
