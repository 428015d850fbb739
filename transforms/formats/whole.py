"""Decoded recordings kept for a while: for formats that cannot be read by range."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol, TypeVar

from ..rejects import Reason, RejectError

_KEPT_BYTES = 256 << 20


class HasBytes(Protocol):
    """What can be kept: a decoded array, or an index of where things lie in a file."""

    @property
    def nbytes(self) -> int:
        """Its memory."""
        ...


Kept = TypeVar("Kept", bound=HasBytes)


class DecodedCache:
    """The last decoded things, up to 256 MiB and at least one; safe to use from several threads."""

    def __init__(self, most_bytes: int = _KEPT_BYTES):
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._num_bytes = 0
        self._lock = threading.Lock()
        self._decoding: dict[Any, threading.Lock] = {}

    def get(self, file: BinaryIO, locator: str, decode: Callable[[], Kept]) -> Kept:
        """What `decode` gives for the recording at `locator` of a file, which must not be changed."""
        key = file_identity(file)
        if key is None:  # nothing tells whether the next file is the same one
            return decode()
        key = (*key, locator)
        with self._lock:
            turn = self._decoding.setdefault(key, threading.Lock())
        with turn:
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
            try:
                thing = decode()
                with self._lock:
                    self._keep(key, thing)
            finally:
                with self._lock:
                    self._decoding.pop(key, None)
            return thing

    def _keep(self, key: tuple, thing: HasBytes) -> None:
        if key in self._kept:  # another thread was as quick
            return
        self._kept[key] = thing
        self._num_bytes += thing.nbytes
        while len(self._kept) > 1 and self._num_bytes > self._most_bytes:
            _, dropped = self._kept.popitem(last=False)
            self._num_bytes -= dropped.nbytes


def file_identity(file: BinaryIO) -> tuple | None:
    """Tells files apart, and a file from what was in its place before; None where nothing does."""
    try:
        status = os.fstat(file.fileno())
    except (AttributeError, OSError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def require_decodable(num_bytes: int, limit: int) -> None:
    """Holds a recording that can only be decoded whole against the limit.

    Raises:
      RejectError: it is above.
    """
    if num_bytes > limit:
        raise RejectError(
            Reason.TOO_LARGE,
            f"the recording takes {num_bytes / 2**20:,.0f} MiB and can only be decoded whole, above "
            f"decode_limit={limit / 2**20:,.0f} MiB: raise it, or convert the file to a format that is read by range",
        )
