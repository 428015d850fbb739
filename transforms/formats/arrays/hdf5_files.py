"""HDF5 files kept open for a while, and what the library says of damaged ones."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from ...rejects import Reason, RejectError
from ..members import count_bytes
from ..whole import file_identity, require_decodable
from .hdf5_source import Source

_KEPT_FILES = 8
_CHUNK_CACHE_BYTES = 16 << 20
_MOST_CHUNK_CACHE_BYTES = 64 << 20  # for chunks larger than the above

# What h5py makes of damage: HDF5's own errors, and numbers, names and types that Python or numpy cannot take.
_DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError)


class _OpenFile:
    """An h5py file with its lent file, and the datasets that were opened in it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lent = Source()
        self.file: Any = None
        self.datasets: dict[str, Any] = {}

    def close(self) -> None:
        """Waits for a reader, then closes."""
        with self.lock:
            self.drop()

    def drop(self) -> None:
        """Closes; the lock is held."""
        self.datasets.clear()
        if self.file is not None:
            file, self.file = self.file, None
            file.close()


class OpenFiles:
    """The last HDF5 files, kept open, since opening costs sixty times what reading a range does."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple, _OpenFile] = OrderedDict()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def dataset(self, file: BinaryIO, path: str, decode_limit: int) -> Iterator[SafeSlices]:
        """The dataset at a path; nobody else reads the file meanwhile."""
        key = file_identity(file)
        if key is None:  # nothing tells whether the next file is the same one
            opened = _OpenFile()
        else:
            with self._lock:
                opened = self._kept.setdefault(key, _OpenFile())
                self._kept.move_to_end(key)
                surplus = self._kept.popitem(last=False)[1] if len(self._kept) > _KEPT_FILES else None
            if surplus is not None:
                surplus.close()
        try:
            with opened.lock:
                opened.lent.lent = file
                try:
                    if opened.file is None:
                        opened.file = open_hdf5(opened.lent)
                    if path not in opened.datasets:
                        opened.datasets.clear()  # one at a time: each has a cache of chunks
                        opened.datasets[path] = _open_dataset(opened.file, path, decode_limit)
                    yield SafeSlices(opened.datasets[path])
                except BaseException:  # what was read before it failed is not to be trusted
                    opened.drop()
                    raise
                finally:
                    opened.lent.lent = None
        finally:
            if key is None:
                opened.close()


def open_hdf5(file: BinaryIO | Source) -> Any:
    """An `h5py.File`.

    Raises:
      OSError: reading fails.
      RejectError: it is no HDF5 file, or it is damaged or cut short.
    """
    import h5py

    try:
        return h5py.File(file if isinstance(file, Source) else Source(file), "r")
    except _DAMAGE as error:
        raise _reject_open(error) from error


def _reject_open(error: Exception) -> Exception:
    if isinstance(error, OSError) and error.errno is not None:
        return error
    text = _one_line(error)
    if "truncated file" in text:
        return RejectError(Reason.TRUNCATED, f"the file is cut short, and HDF5 cannot open it: {text}")
    return RejectError(Reason.BAD_FORMAT, f"HDF5 cannot open it: {text}")


@contextlib.contextmanager
def reported(path: str) -> Iterator[None]:
    """What h5py says of damage at a path, as a reject; errors of the file itself pass: they bear a number."""
    try:
        yield
    except RejectError:
        raise
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise RejectError(Reason.CORRUPT, f"HDF5 cannot read {path}: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _open_dataset(file: Any, path: str, decode_limit: int) -> Any:
    """A dataset whose cache holds at least one of its chunks."""
    import h5py

    with reported(path):
        dataset = file[path]
        if dataset.chunks is None:
            return dataset
        chunk_bytes = count_bytes(dataset.chunks, dataset.dtype)
        require_decodable(chunk_bytes, decode_limit)
        if chunk_bytes > _MOST_CHUNK_CACHE_BYTES:
            return dataset
        access = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
        access.set_chunk_cache(1009, max(_CHUNK_CACHE_BYTES, chunk_bytes), 0.75)
        return h5py.Dataset(h5py.h5d.open(file.id, path.encode("utf-8", "surrogateescape"), access))


class SafeSlices:
    """A dataset whose errors are rejects."""

    def __init__(self, dataset: Any):
        self._dataset = dataset
        self.shape: tuple[int, ...] = dataset.shape
        self.dtype: np.dtype = dataset.dtype

    def __getitem__(self, index: tuple) -> np.ndarray:
        with reported(self._dataset.name):
            return self._dataset[index]
