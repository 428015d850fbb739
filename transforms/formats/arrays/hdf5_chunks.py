"""Chunks of HDF5 datasets, found through HDF5 and decoded here.

HDF5 itself inflates a chunk until its stream ends, however long that takes, and crashes on one that is too short:
a damaged file must do neither. Filters as in the HDF5 File Format Specification, version 3.0.
"""

from __future__ import annotations

import array
import dataclasses
import math
import zlib
from typing import Any, BinaryIO

import numpy as np

from ...rejects import Reason, RejectError
from ..members import count_bytes
from ..whole import DecodedCache, require_decodable
from .npy import read_up_to

DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
DECODED_HERE = frozenset({DEFLATE, SHUFFLE, FLETCHER32})
_SLACK_BYTES = 64  # what filters may put around the numbers
_WORDS = 1 << 16


@dataclasses.dataclass(frozen=True)
class Chunks:
    """Where the chunks of a dataset are, and how they are encoded.

    Attributes:
      path: of the dataset.
      shape: of the dataset.
      chunk: shape of a chunk.
      dtype: of the numbers.
      filters: (code, first parameter), in the order in which they were applied.
      fill: what chunks that are not there hold, [].
      table: int64 [chunks, 4], sorted: number in the grid, offset in the file, bytes, filters left out.
    """

    path: str
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    dtype: np.dtype
    filters: tuple[tuple[int, int], ...]
    fill: np.ndarray
    table: np.ndarray

    @property
    def nbytes(self) -> int:
        """For caches: what it takes."""
        return self.table.nbytes + 1024

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of chunks along each axis."""
        return tuple(-(-count // size) for count, size in zip(self.shape, self.chunk, strict=True))


def list_filters(dataset: Any) -> list[tuple[int, int, str]]:
    """(code, first parameter, name) of each filter of a chunked dataset, in the order of writing."""
    properties = dataset.id.get_create_plist()
    filters = [properties.get_filter(number) for number in range(properties.get_nfilters())]
    return [
        (code, values[0] if values else 0, name.decode("utf-8", "replace"))
        for code, _, values, name in filters
    ]


def index_chunks(dataset: Any, path: str) -> Chunks:
    """Asks HDF5 for all chunks of a dataset; takes a microsecond each."""
    chunk, shape = dataset.chunks, dataset.shape
    grid = [-(-count // size) for count, size in zip(shape, chunk, strict=True)]
    rows = array.array("q")

    def note(info: Any) -> None:
        place = [first // size for first, size in zip(info.chunk_offset, chunk, strict=True)]
        if all(index < count for index, count in zip(place, grid, strict=True)):
            number = 0
            for index, count in zip(place, grid, strict=True):
                number = number * count + index
            rows.extend((number, info.byte_offset, info.size, info.filter_mask))

    dataset.id.chunk_iter(note)
    table = np.array(rows, np.int64).reshape(-1, 4)
    return Chunks(
        path=path,
        shape=shape,
        chunk=chunk,
        dtype=dataset.dtype,
        filters=tuple((code, value) for code, value, _ in list_filters(dataset)),
        fill=_fill_value(dataset) if len(table) < math.prod(grid) else np.zeros((), dataset.dtype),
        table=table[np.argsort(table[:, 0], kind="stable")],
    )


def _fill_value(dataset: Any) -> np.ndarray:
    """What stands for numbers that are not there; HDF5 is asked only where one was set, as it may crash on damage."""
    import h5py

    if dataset.id.get_create_plist().fill_value_defined() != h5py.h5d.FILL_VALUE_USER_DEFINED:
        return np.zeros((), dataset.dtype)
    return np.array(dataset.fillvalue, dataset.dtype)


class ChunkSlices:
    """A dataset that is sliced along one axis, from its chunks.

    Args:
      file: it is in.
      chunks: of it.
      decoded: keeps chunks.
      decode_limit: most bytes of one chunk.
    """

    def __init__(self, file: BinaryIO, chunks: Chunks, decoded: DecodedCache, decode_limit: int):
        require_decodable(count_bytes(chunks.chunk, chunks.dtype), decode_limit)
        self._file, self._chunks, self._decoded = file, chunks, decoded
        self.shape, self.dtype = chunks.shape, chunks.dtype

    def __getitem__(self, index: tuple[int | slice, ...]) -> np.ndarray:
        """The numbers, [samples]; all of `index` but at most one slice with both ends are integers."""
        chunk, grid = self._chunks.chunk, self._chunks.grid
        axis = next((axis for axis, place in enumerate(index) if isinstance(place, slice)), 0)
        along = index[axis]
        start, stop = (along.start, along.stop) if isinstance(along, slice) else (along, along + 1)
        place = [
            0 if isinstance(each, slice) else each // size for each, size in zip(index, chunk, strict=True)
        ]
        within: list[Any] = [
            0 if isinstance(each, slice) else each % size for each, size in zip(index, chunk, strict=True)
        ]
        parts = []
        while start < stop:
            place[axis] = start // chunk[axis]
            first = place[axis] * chunk[axis]
            end = min(stop, first + chunk[axis])
            within[axis] = slice(start - first, end - first)
            number = 0
            for each, count in zip(place, grid, strict=True):
                number = number * count + each
            used_up = end - start == math.prod(chunk)
            parts.append(self._get(number, keep=not used_up)[tuple(within)])
            start = end
        return np.concatenate(parts)

    def _get(self, number: int, *, keep: bool) -> np.ndarray:
        table = self._chunks.table
        row = int(np.searchsorted(table[:, 0], number))
        if row == len(table) or table[row, 0] != number:
            return np.broadcast_to(self._chunks.fill, self._chunks.chunk)
        _, offset, size, skipped = (int(each) for each in table[row])
        if not keep:
            return self._decode(number, offset, size, skipped)
        return self._decoded.get(
            self._file, f"{self._chunks.path}#{number}", lambda: self._decode(number, offset, size, skipped)
        )

    def _decode(self, number: int, offset: int, size: int, skipped: int) -> np.ndarray:
        chunks = self._chunks
        num_bytes = count_bytes(chunks.chunk, chunks.dtype)
        try:
            if size > 2 * num_bytes + 4096:
                raise ValueError(f"it has {size} bytes")
            self._file.seek(offset)
            content = read_up_to(self._file, size)
            if len(content) < size:
                raise ValueError(f"{size - len(content)} bytes are beyond the end of the file")
            for position in reversed(range(len(chunks.filters))):
                if not skipped >> position & 1:
                    content = _undo(*chunks.filters[position], content, num_bytes)
            if len(content) != num_bytes:
                raise ValueError(f"it decodes to {len(content)} bytes, not {num_bytes}")
        except (ValueError, zlib.error) as error:
            message = f"chunk {number} of {chunks.path} is damaged: {error}"
            raise RejectError(Reason.CORRUPT, message) from error
        return np.frombuffer(content, chunks.dtype).reshape(chunks.chunk)


def _undo(code: int, value: int, content: bytes, num_bytes: int) -> bytes:
    """What a filter was given, from what it gave.

    Raises:
      ValueError, zlib.error: it cannot have given that.
    """
    if code == DEFLATE:
        stream = zlib.decompressobj()
        inflated = stream.decompress(content, num_bytes + _SLACK_BYTES)
        if not stream.eof and stream.decompress(stream.unconsumed_tail, 1):
            raise ValueError(f"it inflates to more than {num_bytes} bytes")
        if not stream.eof:
            raise ValueError("its compressed stream does not end")
        return inflated
    if code == SHUFFLE:
        if value < 1:
            raise ValueError(f"it is shuffled by {value} bytes")
        whole = len(content) // value * value
        planes = np.frombuffer(content, np.uint8, whole).reshape(value, -1)
        return planes.T.tobytes() + content[whole:]
    if len(content) < 4:
        raise ValueError("it is shorter than its checksum")
    stored = int.from_bytes(content[-4:], "little")
    found = fletcher32(content[:-4])
    swapped = (found & 0x00FF00FF) << 8 | (found & 0xFF00FF00) >> 8  # as old versions wrote it
    if stored not in (found, swapped):
        raise ValueError("its checksum is another")
    return content[:-4]


def fletcher32(content: bytes) -> int:
    """Fletcher's checksum of 32 bits over big-endian words of 16, as HDF5 computes it."""
    words = np.frombuffer(content + bytes(len(content) % 2), ">u2")
    first = second = 0
    for start in range(0, len(words), _WORDS):
        part = words[start : start + _WORDS].astype(np.uint64)
        weights = np.arange(len(part), 0, -1, dtype=np.uint64)
        second += len(part) * first + int((part * weights).sum())
        first += int(part.sum())
    # ones' complement: a sum that is not 0 never becomes 0
    first, second = ((total % 65535 or 65535) if total else 0 for total in (first, second))
    return second << 16 | first
