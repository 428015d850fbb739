"""Serialised tf.train.Example messages, read without TensorFlow, whose import takes seconds and 600 MB.

Example { Features features = 1; }, Features { map<string, Feature> feature = 1; }, each entry { string key = 1;
Feature value = 2; }, Feature { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; }, each
list { repeated value = 1; }, numbers packed or not (https://protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Protocol

import numpy as np

MOST_FEATURES = 10_000
_MOST_KEY_BYTES = 4096
_SMALL_BYTES = 4096
_PIECE_BYTES = 1 << 20
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_KINDS = {1: "bytes", 2: "float", 3: "int64"}


class MalformedError(ValueError):
    """Bytes that are no tf.train.Example."""


class Stream(Protocol):
    """What messages are read from."""

    def read(self, size: int, /) -> bytes:
        """The next `size` bytes, fewer at the end only."""
        ...

    def seek(self, position: int, /) -> int:
        """Goes to a position."""
        ...


@dataclasses.dataclass(frozen=True)
class Feature:
    """One feature of an example: where its values are.

    Attributes:
      kind: bytes, float or int64; "" where it holds no list.
      count: number of values; of a bytes list 2 stands for more than one.
      spans: (position, length) in the stream of packed numbers or of the first bytes value.
      packed: whether the spans hold nothing but numbers.
      small: the content of the spans, where it is short.
    """

    kind: str
    count: int = 0
    spans: tuple[tuple[int, int], ...] = ()
    packed: bool = True
    small: bytes | None = None

    def read(self, stream: Stream) -> bytes:
        """The content of the spans: packed numbers, or the first bytes value."""
        if self.small is not None:
            return self.small
        pieces = []
        for position, length in self.spans:
            stream.seek(position)
            pieces.append(_take(stream, length))
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def numbers(self, stream: Stream) -> np.ndarray:
        """The values of a list of numbers, float32 or int64 [count]."""
        content = self.read(stream)
        if self.packed:
            return np.frombuffer(content, "<f4") if self.kind == "float" else _decode_varints(content)
        return _unpacked(content, self.kind)


def parse_example(stream: Stream, start: int, end: int) -> dict[str, Feature]:
    """The features of the message at [start, end) of a stream, without reading long lists of floats.

    Raises:
      MalformedError: it is no tf.train.Example.
    """
    cursor = _Cursor(stream, start)
    features: dict[str, Feature] = {}
    for number, features_end in cursor.fields(end):
        if number != 1:
            continue
        for number, entry_end in cursor.fields(features_end):
            if number != 1:
                continue
            key, feature = b"", Feature("")
            for number, part_end in cursor.fields(entry_end):
                if number == 1:
                    if part_end - cursor.position > _MOST_KEY_BYTES:
                        raise MalformedError(f"a key has {part_end - cursor.position} bytes")
                    key = cursor.take(part_end - cursor.position)
                elif number == 2:
                    feature = _parse_feature(cursor, part_end)
            features[key.decode("utf-8", "backslashreplace")] = feature
            if len(features) > MOST_FEATURES:
                raise MalformedError(f"it has more than {MOST_FEATURES} features")
    return features


class _Cursor:
    """Reads a message field by field; nothing is read that is not asked for."""

    def __init__(self, stream: Stream, start: int):
        self._stream = stream
        self.position = start
        stream.seek(start)

    def take(self, count: int) -> bytes:
        """The next bytes."""
        self.position += count
        return _take(self._stream, count)

    def go_to(self, position: int) -> None:
        """Skips to a position."""
        if position != self.position:
            self._stream.seek(position)
            self.position = position

    def varint(self, end: int) -> int:
        """The next number of variable length."""
        value = shift = 0
        while True:
            if self.position >= end or shift > 63:
                raise MalformedError("a number does not end")
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def fields(self, end: int) -> Iterator[tuple[int, int]]:
        """(field number, end of its content) of each message or text up to `end`; the cursor stands at its content."""
        while self.position < end:
            tag = self.varint(end)
            number, wire = tag >> 3, tag & 7
            if wire == _BYTES:
                length = self.varint(end)
                after = self.position + length
                if after > end:
                    raise MalformedError(f"field {number} has {length} bytes, beyond the end of its message")
                yield number, after
                self.go_to(after)
            elif wire == _VARINT:
                self.varint(end)
            elif wire in (_FIXED32, _FIXED64):
                self.go_to(self.position + (4 if wire == _FIXED32 else 8))
            else:
                raise MalformedError(f"field {number} has the wire type {wire}")
        if self.position > end:
            raise MalformedError("a field runs beyond the end of its message")


def _parse_feature(cursor: _Cursor, end: int) -> Feature:
    found = Feature("")
    for number, list_end in cursor.fields(end):
        if number not in _KINDS:
            continue
        if found.kind:
            raise MalformedError("a feature has several lists")
        kind = _KINDS[number]
        found = _parse_bytes(cursor, list_end) if kind == "bytes" else _parse_numbers(cursor, kind, list_end)
    return found


def _parse_bytes(cursor: _Cursor, end: int) -> Feature:
    found = Feature("bytes")
    for number, after in cursor.fields(end):
        if number != 1:
            continue
        if found.count:  # only single values are of use, so further ones are not counted
            cursor.go_to(end)
            return dataclasses.replace(found, count=2)
        start, length = cursor.position, after - cursor.position
        small = cursor.take(length) if length <= _SMALL_BYTES else None
        found = Feature("bytes", 1, ((start, length),), small=small)
    return found


def _parse_numbers(cursor: _Cursor, kind: str, end: int) -> Feature:
    start = cursor.position
    if start == end:
        return Feature(kind)
    first = cursor.take(1)[0]
    cursor.go_to(start)
    if first != (1 << 3 | _BYTES):
        content = cursor.take(end - start)
        small = content if len(content) <= _SMALL_BYTES else None
        return Feature(
            kind, len(_unpacked(content, kind)), ((start, end - start),), packed=False, small=small
        )
    count, spans, content = 0, [], b""
    for number, after in cursor.fields(end):
        if number != 1:
            raise MalformedError(f"a list of numbers has a field {number}")
        length = after - cursor.position
        spans.append((cursor.position, length))
        if len(spans) > MOST_FEATURES:
            raise MalformedError("a list of numbers is in too many pieces")
        if kind == "float" and length % 4:
            raise MalformedError(f"a list of floats has {length} bytes, no multiple of 4")
        if length <= _SMALL_BYTES:
            content += cursor.take(length)
            count += length // 4 if kind == "float" else _count_varints(content[-length:] if length else b"")
        elif kind == "float":
            count += length // 4
        else:
            for piece in range(0, length, _PIECE_BYTES):
                count += _count_varints(cursor.take(min(_PIECE_BYTES, length - piece)))
    total = sum(length for _, length in spans)
    small = content if total == len(content) and total <= _SMALL_BYTES else None
    return Feature(kind, count, tuple(spans), small=small)


def _take(stream: Stream, count: int) -> bytes:
    content = stream.read(count)
    if len(content) < count:
        raise MalformedError("it ends too early")
    return content


def _count_varints(content: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(content, np.uint8) < 0x80))


def _decode_varints(content: bytes) -> np.ndarray:
    """Numbers of variable length as int64 [count]; takes about 32 bytes a number meanwhile."""
    raw = np.frombuffer(content, np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    if not len(raw):
        return np.empty(0, np.int64)
    if not len(ends) or ends[-1] != len(raw) - 1:
        raise MalformedError("a number does not end")
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if (longest := int(lengths.max())) > 10:
        raise MalformedError(f"a number has {longest} bytes")
    values = np.zeros(len(ends), np.uint64)
    for index in range(longest):
        there = np.flatnonzero(lengths > index)
        values[there] |= (raw[starts[there] + index] & 0x7F).astype(np.uint64) << np.uint64(7 * index)
    return values.view(np.int64)


def _unpacked(content: bytes, kind: str) -> np.ndarray:
    """Numbers that each have a tag of their own, which protobuf allows and TensorFlow does not write."""
    if kind == "float":
        pairs = np.dtype([("tag", "u1"), ("value", "<f4")])
        if len(content) % pairs.itemsize == 0:
            found = np.frombuffer(content, pairs)
            if (found["tag"] == (1 << 3 | _FIXED32)).all():
                return found["value"]
    else:
        found = _decode_varints(content)
        if len(found) % 2 == 0 and (found[::2] == (1 << 3 | _VARINT)).all():
            return found[1::2]
    raise MalformedError(f"a list of {kind} values is in no form that can be read")
