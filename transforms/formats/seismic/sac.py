"""SAC, binary: a header of fixed layout and float32 samples, read by range.

Layout: SAC manual, "SAC Data File Format"; version 7 has doubles after the samples.
"""

from __future__ import annotations

import datetime
import math
import struct
from typing import BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..base import ReadSettings, empty, short_read
from ..samples import scaling, store

_HEADER_BYTES = 632
_FOOTER_BYTES = 22 * 8  # version 7: delta, b and twenty more in double precision
_INTEGERS, _TEXTS = 280, 440  # where the 40 integers and the texts begin
_NULL = -12345
_EVENLY_SAMPLED = (1, 4, _NULL)  # iftype: time series, general x versus y, not set
_FLOATS = {
    "stla": 31, "stlo": 32, "stel": 33, "stdp": 34, "evla": 35, "evlo": 36, "evel": 37, "evdp": 38, "mag": 39,
    "dist": 50, "az": 51, "baz": 52, "gcarc": 53, "cmpaz": 57, "cmpinc": 58, "o": 7, "a": 8,
}  # fmt: skip
_NAMES = {
    "network": (168, 8), "station": (0, 8), "location": (24, 8), "channel": (160, 8), "event": (8, 16),
}  # fmt: skip


class SacReader:
    """One evenly sampled trace a file, of either byte order. Needs no package."""

    name: ClassVar[str] = "sac"
    suffixes: ClassVar[tuple[str, ...]] = (".sac",)
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        self._settings = settings

    @staticmethod
    def matches(head: bytes) -> bool:
        """SAC has no magic: by version, logical fields, sample interval, and a length that fits what is there."""
        order = _byte_order(head)
        if order is None:
            return False
        delta, integers = struct.unpack_from(order + "f", head)[0], _integers(head, order)
        length = _HEADER_BYTES + 4 * integers[9]
        fits = length in (len(head), len(head) - _FOOTER_BYTES) if len(head) < 4096 else length >= len(head)
        flags = all(integers[each] in (0, 1, _NULL) for each in range(35, 39))
        texts = head[_TEXTS:_HEADER_BYTES].replace(b"\0", b" ")
        return fits and flags and delta > 0 and texts.isascii() and texts.decode("ascii").isprintable()

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """From the header, whose number of samples is held against the size."""
        assert file is not None
        if size == 0:
            raise empty("the file has 0 bytes")
        file.seek(0)
        head = file.read(_HEADER_BYTES)
        order = _byte_order(head)
        if order is None:
            raise RejectError(
                Reason.BAD_FORMAT,
                "the header's version (nvhdr) is neither 6 nor 7 in either byte order, or it is cut",
            )
        integers = _integers(head, order)
        if integers[15] not in _EVENLY_SAMPLED or integers[35] == 0:
            raise RejectError(
                Reason.BAD_FORMAT,
                f"it is no evenly sampled time series (iftype={integers[15]}, leven={integers[35]}): resample it first",
            )
        declared, there = integers[9], (size - _HEADER_BYTES) // 4
        frames = min(declared, there)
        if frames <= 0:
            raise empty(f"the header promises {declared} samples, and {size - _HEADER_BYTES} bytes follow it")
        warnings = self._check_size(declared, size, integers[6])
        delta, begin = self._timing(file, head, order, integers[6], declared, size)
        texts = {key: _text(head, *place) for key, place in _NAMES.items()}
        floats = struct.unpack_from(order + "70f", head)
        values = {key: floats[number] for key, number in _FLOATS.items() if _is_set(floats[number])}
        return [
            Description(
                format=self.name,
                sample_rate=_rate(delta),
                channels=1,
                frames=frames,
                dtype=f"{order}f4",
                frames_declared=declared,
                warnings=warnings,
                locator=order,
                start_time_ns=_start_ns(integers, begin),
                attributes={key: text for key, text in texts.items() if text}
                | {key: float(str(np.float32(value))) for key, value in values.items()},
            )
        ]

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Reads the range's bytes."""
        file.seek(_HEADER_BYTES + 4 * start)
        content = file.read(4 * len(out))
        if len(content) < 4 * len(out):
            raise short_read(start, len(out), len(content) // 4)
        samples = np.frombuffer(content, f"{locator}f4")
        store(samples, out, *scaling(self._settings.scale, samples.dtype))

    def _check_size(self, declared: int, size: int, version: int) -> tuple[str, ...]:
        expected = _HEADER_BYTES + 4 * declared
        if size < expected:
            message = f"the header promises {declared} samples, {(size - _HEADER_BYTES) // 4} are there"
            if self._settings.strict:
                raise RejectError(Reason.TRUNCATED, f"{message}: the file is cut short")
            return (message,)
        rest = size - expected - (_FOOTER_BYTES if version == 7 else 0)
        return (f"{rest} bytes after the samples left out",) if rest > 0 else ()

    def _timing(
        self, file: BinaryIO, head: bytes, order: str, version: int, declared: int, size: int
    ) -> tuple[float, float]:
        """Sample interval and time of the first sample after the reference, s; in double precision where it is there."""
        footer = _HEADER_BYTES + 4 * declared
        if version == 7 and size >= footer + _FOOTER_BYTES:
            file.seek(footer)
            return struct.unpack(order + "2d", file.read(16))
        floats = struct.unpack_from(order + "6f", head)
        # single precision stands for the shortest decimal number that it rounds to: 0.01, not 0.0099999998
        return float(str(np.float32(floats[0]))), float(str(np.float32(floats[5])))


def _byte_order(head: bytes) -> str | None:
    if len(head) < _HEADER_BYTES:
        return None
    for order in "<>":
        if struct.unpack_from(order + "i", head, _INTEGERS + 24)[0] in (6, 7):
            return order
    return None


def _integers(head: bytes, order: str) -> tuple[int, ...]:
    return struct.unpack_from(order + "40i", head, _INTEGERS)


def _is_set(value: float) -> bool:
    return math.isfinite(value) and value != _NULL


def _text(head: bytes, start: int, length: int) -> str:
    text = head[_TEXTS + start : _TEXTS + start + length].split(b"\0")[0].decode("ascii", "replace").strip()
    return "" if text == str(_NULL) else text


def _rate(delta: float) -> float | None:
    """Hz; an interval in single precision stands for the whole number of Hz that it is nearest to, if it is."""
    if not _is_set(delta) or delta == 0:
        return None
    rate = 1 / delta
    return float(round(rate)) if abs(rate - round(rate)) < 2e-7 * abs(rate) else rate


def _start_ns(integers: tuple[int, ...], begin: float) -> int | None:
    year, day, hour, minute, second, millisecond = integers[:6]
    if _NULL in (year, day, hour, minute, second) or not 1 <= year <= 9999 or not _is_set(begin):
        return None
    days = datetime.date(year, 1, 1).toordinal() - datetime.date(1970, 1, 1).toordinal() + day - 1
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    return seconds * 10**9 + (0 if millisecond == _NULL else millisecond) * 10**6 + round(begin * 1e9)
