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
    """Keeps the last decoded things of a reader; all caches of a process share 256 MiB, and at least one thing.

    Safe to use from several threads.
    """

    def get(self, file: BinaryIO, locator: str, decode: Callable[[], Kept]) -> Kept:
        """What `decode` gives for the recording at `locator` of a file, which must not be changed."""
        key = file_identity(file)
        if key is None:  # nothing tells whether the next file is the same one
            return decode()
        return _STORE.get((id(self), *key, locator), decode)

    def __del__(self) -> None:
        _STORE.forget(id(self))


class _Store:
    """What all caches keep, the last used last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple, Any] = OrderedDict()
        self._num_bytes = 0
        self._lock = threading.RLock()  # forgetting may come in the middle of keeping
        self._decoding: dict[tuple, threading.Lock] = {}

    def get(self, key: tuple, decode: Callable[[], Any]) -> Any:
        """The kept thing, or a new one; threads that want the same wait for the first."""
        with self._lock:
            turn = self._decoding.setdefault(key, threading.Lock())
        with turn:
            try:
                with self._lock:
                    if key in self._kept:
                        self._kept.move_to_end(key)
                        return self._kept[key]
                thing = decode()
                with self._lock:
                    self._keep(key, thing)
                return thing
            finally:
                with self._lock:
                    self._decoding.pop(key, None)

    def _keep(self, key: tuple, thing: HasBytes) -> None:
        if key in self._kept:  # another thread was as quick
            return
        self._kept[key] = thing
        self._num_bytes += thing.nbytes
        while len(self._kept) > 1 and self._num_bytes > _KEPT_BYTES:
            _, dropped = self._kept.popitem(last=False)
            self._num_bytes -= dropped.nbytes

    def forget(self, owner: int) -> None:
        """Drops what a cache kept, since it is gone."""
        with self._lock:
            for key in list(self._kept):
                if key[0] == owner:
                    self._num_bytes -= self._kept.pop(key).nbytes


_STORE = _Store()


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
