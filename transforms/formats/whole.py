"""Decoded recordings kept for a while: for formats that cannot be read by range."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from ..rejects import Reason, RejectError

_KEPT_BYTES = 256 << 20


class DecodedCache:
    """The last decoded arrays, up to 256 MiB and at least one; safe to use from several threads."""

    def __init__(self, most_bytes: int = _KEPT_BYTES):
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Any, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()
        self._decoding: dict[Any, threading.Lock] = {}

    def get(self, file: BinaryIO, locator: str, decode: Callable[[], np.ndarray]) -> np.ndarray:
        """What `decode` gives for the recording at `locator` of a file, which must not be changed."""
        key = _identity(file)
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
                array = decode()
                with self._lock:
                    self._keep(key, array)
            finally:
                with self._lock:
                    self._decoding.pop(key, None)
            return array

    def _keep(self, key: tuple, array: np.ndarray) -> None:
        self._kept[key] = array
        while len(self._kept) > 1 and sum(each.nbytes for each in self._kept.values()) > self._most_bytes:
            self._kept.popitem(last=False)


def _identity(file: BinaryIO) -> tuple | None:
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
