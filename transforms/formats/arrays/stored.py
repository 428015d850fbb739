"""Arrays that lie in a file as they are: read by seeking, only the bytes that a range touches."""

from __future__ import annotations

import dataclasses
import math
from typing import BinaryIO

import numpy as np

from ...rejects import Reason, RejectError
from ..array_shape import ArrayShape, read_shape
from ..base import short_read
from ..members import PIECE_BYTES
from ..samples import store
from ..settings import ReadSettings

_MOST_FRAME_BYTES = 4096  # of a wider frame only the channel's own bytes are read: a page each, anyway


@dataclasses.dataclass(frozen=True)
class StoredArray:
    """Where an array lies.

    Attributes:
      offset: of its first byte.
      dtype: as stored, with byte order.
      shape: as its writer saw it.
      fortran: whether the first axis varies fastest, else the last.
      imaginary: offset of the imaginary parts, where they lie apart from the real ones.
      imaginary_dtype: as they are stored, where that is another type.
      meant: the type that the numbers are meant to have, where they are stored in a shorter one.
    """

    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    fortran: bool = False
    imaginary: int | None = None
    imaginary_dtype: np.dtype | None = None
    meant: np.dtype | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes of the array, without imaginary parts that lie apart."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def sample_dtype(self) -> np.dtype:
        """The type that its samples have for a user."""
        dtype = self.meant or self.dtype
        if self.imaginary is None:
            return dtype
        return np.dtype(np.complex64 if dtype.kind == "f" and dtype.itemsize <= 4 else np.complex128)

    def stride(self, axis: int | None) -> int:
        """Elements from one index of an axis to the next."""
        if axis is None:
            return 0
        return math.prod(self.shape[:axis] if self.fortran else self.shape[axis + 1 :])

    def to_locator(self) -> str:
        """The form that a description carries."""
        return " ".join(
            (
                str(self.offset),
                self.dtype.str,
                "F" if self.fortran else "C",
                "x".join(map(str, self.shape)) or "-",
                "-" if self.imaginary is None else str(self.imaginary),
                "-" if self.imaginary_dtype is None else self.imaginary_dtype.str,
                "-" if self.meant is None else self.meant.str,
            )
        )


def from_locator(locator: str) -> StoredArray:
    """The array that `to_locator` wrote."""
    offset, dtype, order, shape, imaginary, imaginary_dtype, meant = locator.split(" ")
    return StoredArray(
        offset=int(offset),
        dtype=np.dtype(dtype),
        shape=() if shape == "-" else tuple(map(int, shape.split("x"))),
        fortran=order == "F",
        imaginary=None if imaginary == "-" else int(imaginary),
        imaginary_dtype=None if imaginary_dtype == "-" else np.dtype(imaginary_dtype),
        meant=None if meant == "-" else np.dtype(meant),
    )


def frames_present(array: StoredArray, size: int, settings: ReadSettings) -> int | None:
    """Frames that are there, where the file ends before the array does; None where all of it is there.

    Raises:
      RejectError: what is there cannot be used: strict, or time is not the axis that varies slowest.
    """
    there = size - array.offset
    missing = array.offset + array.num_bytes - size
    if array.imaginary is not None:
        dtype = array.imaginary_dtype or array.dtype
        missing = max(missing, array.imaginary + math.prod(array.shape) * dtype.itemsize - size)
    if missing <= 0:
        return None
    message = f"the header promises an array of shape {array.shape}, but {missing} bytes of it are missing"
    shape = read_shape(array.shape, settings.array_axes)
    stride = array.stride(shape.time_axis)
    slowest = shape.other_axis is None or stride > array.stride(shape.other_axis)
    if settings.strict or array.imaginary is not None or not slowest:
        cure = (
            "strict is set"
            if settings.strict
            else "only arrays whose slowest axis is time can be used in part"
        )
        raise RejectError(Reason.TRUNCATED, f"{message}: the file is cut short, and {cure}")
    frames = there // (max(1, stride) * array.dtype.itemsize) if there > 0 else 0
    if frames == 0:
        raise RejectError(Reason.EMPTY, f"{message}: not one sample is there")
    return frames


def read_stored(
    file: BinaryIO,
    array: StoredArray,
    shape: ArrayShape,
    other: int,
    start: int,
    out: np.ndarray,
    scaling: tuple[float, float],
) -> None:
    """Fills `out` [samples] from sample `start`, straight where no conversion is needed, else by pieces.

    Args:
      file: at any position.
      array: where it lies.
      shape: how it is read.
      other: index on the axis of channels or recordings.
      start: first sample.
      out: as `Reader.read` has it.
      scaling: (offset, factor).

    Raises:
      RejectError: the range is not there.
    """
    if start + len(out) > shape.frames:
        raise short_read(start, len(out), max(0, shape.frames - start))
    step = max(1, array.stride(shape.time_axis))
    first = other * array.stride(shape.other_axis) + start * step
    plain = (
        array.imaginary is None and array.meant is None and (scaling == (0.0, 1.0) or out.dtype == np.int16)
    )
    if plain and step == 1 and array.dtype == out.dtype:
        _fill(file, array.offset + first * array.dtype.itemsize, out, start)
        return
    piece = max(1, PIECE_BYTES // array.dtype.itemsize)
    if step * array.dtype.itemsize <= _MOST_FRAME_BYTES:
        piece = max(1, piece // step)
    for done in range(0, len(out), piece):
        part = out[done : done + piece]
        at = first + done * step
        values = _take(file, array.dtype, array.offset, at, step, len(part), start + done)
        if array.meant is not None:
            values = values.astype(array.meant)
        if array.imaginary is not None:
            dtype = array.imaginary_dtype or array.dtype
            imaginary = _take(file, dtype, array.imaginary, at, step, len(part), start + done)
            values = values.astype(array.sample_dtype)
            values.imag = imaginary
        store(values, part, *scaling)


def _take(
    file: BinaryIO, dtype: np.dtype, offset: int, first: int, step: int, count: int, start: int
) -> np.ndarray:
    """`count` elements, each `step` after the one before; `start` is for the message only."""
    itemsize = dtype.itemsize
    if step * itemsize > _MOST_FRAME_BYTES:
        values = np.empty(count, dtype)
        for index in range(count):
            _fill(file, offset + (first + index * step) * itemsize, values[index : index + 1], start + index)
        return values
    values = np.empty((count - 1) * step + 1, dtype)
    _fill(file, offset + first * itemsize, values, start)
    return values[::step]


def _fill(file: BinaryIO, position: int, values: np.ndarray, start: int) -> None:
    file.seek(position)
    buffer = values.view(np.uint8).data
    done = 0
    while done < len(buffer):
        count = file.readinto(buffer[done:])  # type: ignore[attr-defined]
        if not count:
            raise short_read(start, len(values), done // values.dtype.itemsize)
        done += count
