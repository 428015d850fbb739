"""Variables of MATLAB files, and the list of matrices that is a MATLAB 4 file.

Layout: The MathWorks, "MAT-File Format" (R2024b), version 4: each matrix after five integers and its name.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from ...rejects import Reason, RejectError
from ..attributes import Value, plain_value
from .npy import read_up_to
from .stored import StoredArray

_HEAD_BYTES = 8192  # of a variable: what describes it, and short texts
_TYPES_4 = ("f8", "f4", "i4", "i2", "u2", "u1")
_KINDS_4 = ("full", "text", "sparse array")


@dataclasses.dataclass(frozen=True)
class Compressed:
    """Where a compressed variable is: offset and bytes in the file, bytes it says to inflate to, byte order."""

    offset: int
    num_bytes: int
    inflated: int
    order: str


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable of a file.

    Attributes:
      name: of it.
      array: its numbers; of a compressed variable offsets count from the start of what it inflates to.
      kind: what it is where it is no array of numbers, such as "struct".
      value: of a scalar or short text.
      compressed: where a compressed variable is.
      cut: compressed bytes that are missing at the end of the file.
    """

    name: str
    array: StoredArray | None = None
    kind: str | None = None
    value: Value | None = None
    compressed: Compressed | None = None
    cut: int = 0


def damaged(where: int, what: str) -> RejectError:
    """A file that does not keep to its own layout."""
    return RejectError(Reason.CORRUPT, f"the file is damaged at byte {where}: {what}")


def whole_value(value: Value | None) -> Value | None:
    """MATLAB's numbers are floats unless said otherwise: whole ones read better as integers."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def iter_variables_4(file: BinaryIO, size: int) -> Iterator[Variable]:
    """The variables of a MATLAB 4 file of `size` bytes, in its order.

    Raises:
      RejectError: it does not keep to its layout.
    """
    position = 0
    while position < size:
        file.seek(position)
        head = read_up_to(file, _HEAD_BYTES)
        if len(head) < 20:
            raise RejectError(
                Reason.TRUNCATED, f"the file is cut short in a variable's header, at byte {position}"
            )
        order = "<" if 0 <= struct.unpack_from("<i", head)[0] <= 5000 else ">"
        code, rows, columns, imaginary, name_bytes = struct.unpack_from(order + "5i", head)
        endian, zero, number, kind = code // 1000, code // 100 % 10, code // 10 % 10, code % 10
        name = head[20 : 20 + max(0, name_bytes)].rstrip(b"\0").decode("latin-1")
        if (
            endian != "<>".index(order) or zero or number >= len(_TYPES_4) or kind >= len(_KINDS_4)
            or rows < 0 or columns < 0 or imaginary not in (0, 1) or not 0 < name_bytes <= 4096 or not name.isprintable()
        ):  # fmt: skip
            if position == 0:
                raise RejectError(
                    Reason.BAD_FORMAT, "it begins neither as a MATLAB 5 or 7.3 file nor as a MATLAB 4 one"
                )
            raise damaged(
                position, f"no MATLAB 4 variable has the header {code, rows, columns, imaginary, name_bytes}"
            )
        start = position + 20 + name_bytes
        array = StoredArray(start, np.dtype(order + _TYPES_4[number]), (rows, columns), fortran=True)
        position = start + array.num_bytes * (1 + imaginary)
        if imaginary:
            array = dataclasses.replace(array, imaginary=start + array.num_bytes)
        values = np.frombuffer(b"", array.dtype)
        if (
            (rows == 1 or rows * columns == 1)
            and array.num_bytes <= _HEAD_BYTES - 20 - name_bytes
            and not imaginary
        ):
            first = 20 + name_bytes
            whole = (len(head) - first) // array.dtype.itemsize * array.dtype.itemsize
            values = np.frombuffer(head[first : first + min(array.num_bytes, whole)], array.dtype)
        if kind == 1:
            value = plain_value(bytes(values.astype(np.uint8)).decode("latin-1")) if len(values) else None
            yield Variable(name, kind="text", value=value)
        elif kind == 2:
            yield Variable(name, kind="sparse array")
        else:
            yield Variable(
                name, array, value=whole_value(plain_value(values)) if rows * columns == 1 else None
            )
