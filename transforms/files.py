"""How readers open files."""

from __future__ import annotations

import io
import os
import stat
from typing import BinaryIO, cast

from .rejects import Reason, RejectError

NO_FILE = "it is no regular file but a pipe, socket or device"


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
