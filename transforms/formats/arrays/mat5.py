"""MATLAB 5 files (also called 6, and 7 where elements are compressed): what variables they hold and where.

Layout: The MathWorks, "MAT-File Format" (R2024b), version 5: a header of 128 bytes, then elements of type, length
and content, padded to eight bytes.
"""

from __future__ import annotations

import dataclasses
import math
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from ...rejects import Reason, RejectError
from ..attributes import Value, plain_value
from .mat_variables import Compressed, Variable, damaged, whole_value
from .npy import read_up_to
from .stored import StoredArray

_HEADER_BYTES = 128
_HEAD_BYTES = 8192  # of a variable: its flags, shape and name take some hundred
_MATRIX, _COMPRESSED = 14, 15
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_TEXT = {1: "latin-1", 2: "latin-1", 4: "utf-16?", 16: "utf-8", 17: "utf-16?", 18: "utf-32?"}
_CHARS = 4
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_OTHERS = {
    1: "cell array",
    2: "struct",
    3: "object",
    4: "text",
    5: "sparse array",
    16: "function",
    17: "object",
}
_COMPLEX, _LOGICAL = 0x0800, 0x0200
_DEFLATE_RATIO = 1032  # no deflated byte gives more


def iter_variables_5(file: BinaryIO, size: int) -> Iterator[Variable]:
    """The variables of a MATLAB 5 file of `size` bytes, in its order.

    Raises:
      RejectError: it does not keep to its layout.
    """
    file.seek(0)
    head = read_up_to(file, _HEADER_BYTES)
    if len(head) < _HEADER_BYTES:
        raise RejectError(Reason.TRUNCATED, f"the file is cut short in its header, after {len(head)} bytes")
    if head[126:128] not in (b"IM", b"MI"):
        raise RejectError(
            Reason.BAD_FORMAT, f"the header has no mark of its byte order but {head[126:128]!r}"
        )
    order = "<" if head[126:128] == b"IM" else ">"
    position = _HEADER_BYTES
    while position < size:
        file.seek(position)
        tag = read_up_to(file, 8)
        if len(tag) < 8:
            raise RejectError(
                Reason.TRUNCATED, f"the file is cut short in a variable's tag, at byte {position}"
            )
        kind, length = struct.unpack(order + "II", tag)
        start = position + 8
        if kind == _MATRIX:
            variable = _find_matrix(file, start, length, size, order)
        elif kind == _COMPRESSED:
            variable = _find_compressed(file, start, length, size, order)
        else:
            raise damaged(position, f"a variable is expected, and type {kind} is found")
        if length == 0:
            raise damaged(position, "a variable of 0 bytes")
        if variable.name:  # one without is MATLAB's own store of functions
            yield variable
        position = start + length


def _find_matrix(file: BinaryIO, start: int, length: int, size: int, order: str) -> Variable:
    content = read_up_to(file, min(_HEAD_BYTES, length))
    try:
        variable = _parse_matrix(content, length, order, start)
    except RejectError as error:
        if start + len(content) < size or start + length <= size:
            raise
        message = f"the file is cut short in a variable's description, at byte {size}"
        raise RejectError(Reason.TRUNCATED, message) from error
    if variable.array is None or variable.array.imaginary is None:
        return variable
    file.seek(variable.array.imaginary)
    tag = read_up_to(file, 8)
    if len(tag) < 8:  # the array is cut short, which is seen from its offset
        return variable
    array = _find_imaginary(variable.array, tag, order)
    return dataclasses.replace(variable, array=array)


def _find_imaginary(array: StoredArray, tag: bytes, order: str) -> StoredArray:
    """The array with its imaginary part, of which only the tag's offset is known so far."""
    assert array.imaginary is not None
    stored, count, begin, _ = _element(tag, 0, order)
    if stored not in _TYPES or count != math.prod(array.shape) * np.dtype(_TYPES[stored]).itemsize:
        raise damaged(array.imaginary, f"imaginary parts of type {stored} and {count} bytes")
    dtype = np.dtype(order + _TYPES[stored])
    return dataclasses.replace(array, imaginary=array.imaginary + begin, imaginary_dtype=dtype)


def _find_compressed(file: BinaryIO, start: int, length: int, size: int, order: str) -> Variable:
    cut = max(0, start + length - size)
    stream = zlib.decompressobj()
    try:
        head = stream.decompress(read_up_to(file, min(length, _HEAD_BYTES)), _HEAD_BYTES)
        if len(head) < 8:
            raise damaged(start, "a compressed variable inflates to less than a tag")
        kind, inflated = struct.unpack(order + "II", head[:8])
        if kind != _MATRIX:
            raise damaged(start, f"a compressed variable should be a matrix, and is of type {kind}")
        variable = _parse_matrix(head[8:], inflated, order, 8)
    except (zlib.error, RejectError) as error:
        if cut:
            message = f"the file is cut short in a compressed variable, at byte {size}"
            raise RejectError(Reason.TRUNCATED, message) from error
        if isinstance(error, RejectError):
            raise
        raise damaged(start, f"a compressed variable does not inflate ({error})") from error
    if cut:
        return dataclasses.replace(variable, cut=cut)
    if inflated > length * _DEFLATE_RATIO:
        raise damaged(start, f"{length} compressed bytes cannot inflate to {inflated}")
    return dataclasses.replace(variable, compressed=Compressed(start, length, 8 + inflated, order))


def _element(content: bytes, at: int, order: str) -> tuple[int, int, int, int]:
    """(type, bytes, where they begin, where the next element begins) of the element at `at`."""
    if at + 8 > len(content):
        raise damaged(at, "a variable ends within its description")
    first, length = struct.unpack_from(order + "II", content, at)
    if first >> 16:  # up to four bytes stand in the tag itself
        if first >> 16 > 4:
            raise damaged(at, f"a short element of {first >> 16} bytes")
        return first & 0xFFFF, first >> 16, at + 4, at + 8
    return first, length, at + 8, at + 8 + -(-length // 8) * 8


def _parse_matrix(content: bytes, length: int, order: str, start: int) -> Variable:
    """A variable from the first bytes of a matrix element.

    Args:
      content: its first bytes.
      length: all of its bytes.
      order: byte order.
      start: where `content` begins, in the file or in what is inflated.
    """
    _, count, begin, at = _element(content, 0, order)
    if count != 8 or begin + 8 > len(content):
        raise damaged(start, f"array flags of {count} bytes, not 8")
    flags = struct.unpack_from(order + "I", content, begin)[0]
    kind = flags & 0xFF
    shape: tuple[int, ...] = ()
    if kind != 17:  # objects of newer classes have no shape
        _, count, begin, at = _element(content, at, order)
        if begin + count > len(content) or count > 512 or count % 4:
            raise damaged(start, f"a shape of {count} bytes")
        shape = struct.unpack_from(f"{order}{count // 4}i", content, begin)
    _, count, begin, at = _element(content, at, order)
    if begin + count > len(content):
        raise damaged(start, f"a name of {count} bytes")
    name = content[begin : begin + count].rstrip(b"\0").decode("latin-1")
    if any(each < 0 for each in shape):
        raise damaged(start, f"{name} has the impossible shape {shape}")
    if kind == _CHARS:
        return Variable(name, kind="text", value=_short_text(content, at, order, shape))
    if kind not in _CLASSES:
        return Variable(name, kind=_OTHERS.get(kind, f"of the unknown class {kind}"))
    array = _parse_numbers(content, at, length, order, start, flags, shape, name)
    value = None
    first = array.offset - start
    if math.prod(shape) == 1 and array.imaginary is None and first + array.num_bytes <= len(content):
        element = np.frombuffer(content, array.dtype, 1, first)
        value = whole_value(plain_value(element.astype(array.meant or array.dtype)))
    if flags & _LOGICAL:
        return Variable(name, kind="logical array", value=value)
    return Variable(name, array, value=value)


def _parse_numbers(
    content: bytes,
    at: int,
    length: int,
    order: str,
    start: int,
    flags: int,
    shape: tuple[int, ...],
    name: str,
) -> StoredArray:
    meant = np.dtype(order + _CLASSES[flags & 0xFF])
    if math.prod(shape) == 0:
        return StoredArray(start + at, meant, shape, fortran=True)
    stored, count, begin, after = _element(content, at, order)
    if stored not in _TYPES:
        raise damaged(start + at, f"{name} is stored as the unknown type {stored}")
    dtype = np.dtype(order + _TYPES[stored])
    array = StoredArray(start + begin, dtype, shape, fortran=True)
    if count != array.num_bytes:
        raise damaged(start + at, f"{name} of shape {shape} and type {dtype.str} has {count} bytes")
    if begin + count > length:
        raise damaged(start + at, f"{name} has {count} bytes, more than its {length}")
    imaginary = start + after if flags & _COMPLEX else None
    return dataclasses.replace(array, imaginary=imaginary, meant=meant if meant != dtype else None)


def _short_text(content: bytes, at: int, order: str, shape: tuple[int, ...]) -> Value | None:
    if len(shape) != 2 or shape[0] != 1 or shape[1] == 0:
        return None
    kind, count, begin, _ = _element(content, at, order)
    if begin + count > len(content) or kind not in _TEXT:
        return None
    codec = _TEXT[kind].replace("?", {"<": "-le", ">": "-be"}[order])
    return plain_value(content[begin : begin + count].decode(codec, "replace"))


def load_compressed(file: BinaryIO, where: Compressed) -> np.ndarray:
    """The numbers of a compressed variable, in MATLAB's shape.

    Raises:
      RejectError: they do not inflate to what they should.
    """
    content = _inflate(file, where)
    head = content[8 : 8 + _HEAD_BYTES].tobytes()
    variable = _parse_matrix(head, where.inflated - 8, where.order, 8)
    array = variable.array
    if array is None:
        raise damaged(where.offset, f"{variable.name} is no array of numbers any more")
    real = content[array.offset : array.offset + array.num_bytes].view(array.dtype)
    if array.meant is not None:
        real = real.astype(array.meant)
    if array.imaginary is None:
        return real.reshape(array.shape, order="F")
    array = _find_imaginary(array, content[array.imaginary : array.imaginary + 8].tobytes(), where.order)
    assert array.imaginary is not None
    assert array.imaginary_dtype is not None
    end = array.imaginary + len(real) * array.imaginary_dtype.itemsize
    if end > len(content):
        raise damaged(where.offset, f"{variable.name} ends within its imaginary parts")
    numbers = real.astype(array.sample_dtype)
    numbers.imag = content[array.imaginary : end].view(array.imaginary_dtype)
    return numbers.reshape(array.shape, order="F")


def _inflate(file: BinaryIO, where: Compressed) -> np.ndarray:
    """All bytes of a compressed variable, uint8 [bytes], checked to its end."""
    length = where.num_bytes
    content = np.empty(where.inflated, np.uint8)
    stream = zlib.decompressobj()
    file.seek(where.offset)
    done = 0
    pending = b""
    try:
        while not stream.eof:
            if not pending:
                pending = read_up_to(file, min(1 << 20, length))
                length -= len(pending)
            last = not pending
            # one byte more than there should be, so that a surplus shows
            part = stream.decompress(pending, min(1 << 20, len(content) - done + 1))
            if last and not part:
                break
            pending = stream.unconsumed_tail
            if done + len(part) > len(content):
                raise damaged(where.offset, f"a variable inflates to more than its {len(content)} bytes")
            content[done : done + len(part)] = np.frombuffer(part, np.uint8)
            done += len(part)
    except zlib.error as error:
        raise damaged(where.offset, f"a variable does not inflate ({error})") from error
    if done < len(content) or not stream.eof:
        raise damaged(where.offset, f"a variable inflates to {done} bytes, not {len(content)}")
    return content
