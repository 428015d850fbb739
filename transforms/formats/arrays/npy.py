"""NPY: one array of numpy's own format, read by range."""

from __future__ import annotations

import io
import tokenize
from typing import BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..array_shape import read_shape
from ..base import ReadSettings
from ..members import Member, describe_member, require_numbers, split_row
from ..samples import scaling
from .stored import StoredArray, frames_present, from_locator, read_stored

MAGIC = b"\x93NUMPY"
MOST_HEADER_BYTES = 10_000  # numpy's own limit
HEAD_BYTES = MOST_HEADER_BYTES + 12


class NpyReader:
    """Files of `numpy.save`. The array is the recording, or its rows are."""

    name: ClassVar[str] = "npy"
    suffixes: ClassVar[tuple[str, ...]] = (".npy",)
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        self._settings = settings

    @staticmethod
    def matches(head: bytes) -> bool:
        """By numpy's magic bytes."""
        return head.startswith(MAGIC)

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """From the header, held against the size of the file."""
        assert file is not None
        if size == 0:
            raise RejectError(Reason.EMPTY, "the file has 0 bytes")
        file.seek(0)
        array = parse_header(read_up_to(file, min(size, HEAD_BYTES)), size)
        require_numbers(array.dtype)
        if 0 in array.shape:
            raise RejectError(Reason.EMPTY, f"the array has shape {array.shape}: no sample")
        surplus = size - array.offset - array.num_bytes
        if surplus > 0 and self._settings.strict:
            raise RejectError(Reason.BAD_FORMAT, f"{surplus} bytes follow the array, and strict is set")
        member = Member(
            name=None,
            shape=array.shape,
            dtype=array.dtype,
            locator=array.to_locator(),
            warnings=(f"{surplus} bytes after the array are left out",) if surplus > 0 else (),
            frames_present=frames_present(array, size, self._settings),
        )
        described = describe_member(self.name, member, self._settings)
        if isinstance(described[0], RejectError):  # there is no other member
            raise described[0]
        return described

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Seeks to the range and reads it."""
        locator, row = split_row(locator, self._settings)
        array = from_locator(locator)
        shape = read_shape(array.shape, self._settings.array_axes)
        read_stored(
            file, array, shape, row or channel, start, out, scaling(self._settings.scale, array.dtype)
        )


def read_up_to(file: BinaryIO, count: int) -> bytes:
    """The next bytes of an unbuffered file: `count`, or fewer where it ends."""
    parts = []
    while count > 0 and (part := file.read(count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def parse_header(head: bytes, size: int) -> StoredArray:
    """Where and what the array is, of any type, from a file's first `HEAD_BYTES` bytes.

    Raises:
      RejectError: it is no NPY file.
    """
    from numpy.lib import format as npy

    buffer = io.BytesIO(head)
    try:
        version = npy.read_magic(buffer)
        if version == (1, 0):
            shape, fortran, dtype = npy.read_array_header_1_0(buffer, MOST_HEADER_BYTES)
        elif version in ((2, 0), (3, 0)):  # they differ in the encoding of field names only
            shape, fortran, dtype = npy.read_array_header_2_0(buffer, MOST_HEADER_BYTES)
        else:
            raise RejectError(Reason.BAD_FORMAT, f"NPY version {version} is not known: 1.0, 2.0 and 3.0 are")
    # numpy evaluates the header as a Python literal; its parser gives up in these ways
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, tokenize.TokenError) as error:
        if isinstance(error, RejectError):
            raise
        if str(error).startswith("EOF") and len(head) == size and MAGIC.startswith(head[: len(MAGIC)]):
            raise RejectError(
                Reason.TRUNCATED, f"the file is cut short in its header, after {size} bytes"
            ) from error
        raise RejectError(Reason.BAD_FORMAT, f"numpy cannot read its header: {str(error)[:200]}") from error
    if any(isinstance(count, bool) or count < 0 for count in shape) or len(shape) > 64:
        raise RejectError(Reason.BAD_FORMAT, f"the header has the impossible shape {str(shape)[:80]}")
    return StoredArray(offset=buffer.tell(), dtype=dtype, shape=shape, fortran=bool(fortran))
