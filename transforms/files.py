"""How readers open files."""

from __future__ import annotations

from typing import BinaryIO, cast


def open_local(uri: bytes) -> BinaryIO:
    """A local file, unbuffered: readers ask for whole ranges."""
    return cast(BinaryIO, open(uri, "rb", buffering=0))
