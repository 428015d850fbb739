"""How readers open files."""

from __future__ import annotations

import errno
import functools
import io
import os
import stat
from typing import BinaryIO, cast

from .rejects import Reason, RejectError

NO_FILE = "it is no regular file but a pipe, socket or device"


class Folder(io.RawIOBase):
    """A recording that is a folder, in the place of a file: it has a name and a size, and no bytes."""

    def __init__(self, uri: bytes):
        self.name = uri

    @functools.cached_property
    def size(self) -> int:
        """Bytes of all files in it; not counted again for each block that is read."""
        return _size_at(self.name, os.stat(self.name).st_mtime_ns)

    def readable(self) -> bool:
        """Yes: it reads as empty."""
        return True

    def readinto(self, buffer: object) -> int:
        """Nothing."""
        return 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """The end is at the size of all files in it."""
        return self.size if whence == os.SEEK_END else offset


@functools.lru_cache(maxsize=1024)
def _size_at(uri: bytes, modified_ns: int) -> int:
    del modified_ns  # a folder that was written to is counted anew
    return folder_size(uri)


def folder_size(uri: bytes) -> int:
    """Bytes of all files below a folder."""
    return sum(
        os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(uri) for name in names
    )


def open_local(uri: bytes) -> BinaryIO:
    """A local file, unbuffered: readers ask for whole ranges.

    Raises:
      OSError: it cannot be opened.
      RejectError: it is a pipe or the like, which may never give or end.
    """
    file = io.FileIO(uri, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise RejectError(Reason.NOT_A_FILE, NO_FILE)
    return cast(BinaryIO, file)


def open_source(uri: bytes, *, is_folder: bool) -> BinaryIO:
    """A recording's file, or its `Folder` where the format keeps it in one.

    Raises:
      OSError, RejectError: see `open_local`.
    """
    if not is_folder:
        return open_local(uri)
    if not os.path.isdir(uri):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return cast(BinaryIO, Folder(uri))
