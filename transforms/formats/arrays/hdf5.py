"""HDF5 and netCDF-4: each dataset of numbers is a recording, read by range."""

from __future__ import annotations

from typing import Any, BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..array_shape import read_shape
from ..base import ReadSettings
from ..members import Member, describe_member, read_range, select, split_row
from ..samples import scaling
from ..whole import DecodedCache
from .hdf5_chunks import Chunks, ChunkSlices, index_chunks
from .hdf5_files import OpenFiles, SafeSlices, open_hdf5, reported
from .hdf5_members import find_datasets, to_member
from .hdf5_source import find_signature
from .stored import from_locator, read_stored

_KEPT_INDEX_BYTES = 64 << 20
_KEPT_CHUNK_BYTES = 64 << 20


class Hdf5Reader:
    """Files of HDF5, whatever wrote them; members are named by their path, such as run1/accel."""

    name: ClassVar[str] = "hdf5"
    suffixes: ClassVar[tuple[str, ...]] = (".h5", ".hdf5", ".hdf", ".he5")
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        self._settings = settings
        self._arrays = Hdf5Arrays(settings)

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the signature, which may stand after a block of another program's; MATLAB's has its own reader."""
        return find_signature(head) is not None and not head.startswith(b"MATLAB")

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """From the datasets' headers; scales of dimensions are left out unless asked for."""
        assert file is not None
        return describe_hdf5(file, size, self.name, self._settings)

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """By seeking where the samples lie as they are, else by the chunks that the range touches."""
        locator, row = split_row(locator, self._settings)
        self._arrays.read(file, locator, row or channel, start, out)


def describe_hdf5(
    file: Any, size: int, format_name: str, settings: ReadSettings
) -> list[Description | RejectError]:
    """The datasets of a file of `size` bytes, sorted by path."""
    if size == 0:
        raise RejectError(Reason.EMPTY, "the file has 0 bytes")
    with open_hdf5(file) as opened:
        datasets, broken = find_datasets(opened, file)
        entries: dict[str, Member | RejectError] = {**broken}
        hidden: dict[str, Member | RejectError] = {}
        for found in datasets:
            with reported(found.path):
                place = hidden if found.dataset.is_scale else entries
            place[found.path] = to_member(found, size, settings)
        return describe_selected(format_name, dict(sorted(entries.items())), settings, hidden)


def describe_selected(
    format_name: str,
    entries: dict[str, Member | RejectError],
    settings: ReadSettings,
    hidden: dict[str, Member | RejectError] | None = None,
) -> list[Description | RejectError]:
    """The descriptions of those members that the settings select; see `select`."""
    described: list[Description | RejectError] = []
    for entry in select(entries, settings, hidden):
        if isinstance(entry, RejectError):
            described.append(entry)
        else:
            described += describe_member(format_name, entry, settings)
    return described


class Hdf5Arrays:
    """Reads members of HDF5 files; keeps files open, and chunks decoded, for a while."""

    def __init__(self, settings: ReadSettings):
        self._settings = settings
        self._open = OpenFiles()
        self._indexes = DecodedCache()
        self._decoded = DecodedCache()

    def read(
        self,
        file: BinaryIO,
        locator: str,
        other: int,
        start: int,
        out: np.ndarray,
        *,
        transposed: bool = False,
    ) -> None:
        """Fills `out` [samples] from the array at a member's locator; see `read_range` for the others."""
        kind, path = locator[0], locator[1:]
        if kind == "@":
            array, settings = from_locator(path), self._settings
            shape = read_shape(array.shape, settings.array_axes)
            read_stored(file, array, shape, other, start, out, scaling(settings.scale, array.sample_dtype))
        elif kind == "k":
            chunks = self._indexes.get(file, path, lambda: _index(file, path))  # type: ignore[arg-type]
            slices = ChunkSlices(file, chunks, self._decoded, self._settings.decode_limit)  # type: ignore[arg-type]
            self._read_slices(slices, other, start, out, transposed)
        else:
            with self._open.dataset(file, path, self._settings.decode_limit) as slices:
                self._read_slices(slices, other, start, out, transposed)

    def _read_slices(
        self, slices: ChunkSlices | SafeSlices, other: int, start: int, out: np.ndarray, transposed: bool
    ) -> None:
        settings = self._settings
        shape = read_shape(slices.shape[::-1] if transposed else slices.shape, settings.array_axes)
        scale = scaling(settings.scale, slices.dtype)
        read_range(slices, shape, other, start, out, scale, transposed=transposed)


def _index(file: BinaryIO, path: str) -> Chunks:
    with open_hdf5(file) as opened, reported(path):
        return index_chunks(opened[path], path)
