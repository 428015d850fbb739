"""SEG-Y: one recording a trace, read by range.

Layout: SEG-Y revision 1 (2002) and the few fields of revision 2 (2017) that change what the samples are. Bytes are
counted from 0 here, from 1 there.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..base import ReadSettings, choose_members, empty, short_read
from ..samples import scaling, store

_FILE_HEADER_BYTES, _TRACE_HEADER_BYTES, _TEXT_HEADER_BYTES = 3600, 240, 3200
_IBM = 1
_TYPES = {
    _IBM: "u4",
    2: "i4",
    3: "i2",
    5: "f4",
    6: "f8",
    8: "i1",
    9: "i8",
    10: "u4",
    11: "u2",
    12: "u8",
    16: "u1",
}
_UNITS = {1: "Pa", 2: "V", 3: "mV", 4: "A", 5: "m", 6: "m/s", 7: "m/s^2", 8: "N", 9: "W"}
_TEXT_BEGINS = (b"C 1", b"C1 ", b"C01", "C 1".encode("cp037"), "C1 ".encode("cp037"), "C01".encode("cp037"))
_PLACES = {"field_record": 8, "trace_number": 12, "cdp": 20}


class SegyReader:
    """Traces of IBM or IEEE floats or integers. Needs no package."""

    name: ClassVar[str] = "segy"
    suffixes: ClassVar[tuple[str, ...]] = (".sgy", ".segy")
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        self._settings = settings

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the text header's first card and a possible binary header."""
        if len(head) < _FILE_HEADER_BYTES or head[:3] not in _TEXT_BEGINS:
            return False
        order = _byte_order(head)
        interval, samples = (struct.unpack_from(order + "H", head, at)[0] for at in (3216, 3220))
        return _format_code(head, order) in _TYPES and interval > 0 and samples > 0

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """From the file's and the traces' headers."""
        assert file is not None
        if size == 0:
            raise empty("the file has 0 bytes")
        file.seek(0)
        head = file.read(_FILE_HEADER_BYTES)
        if len(head) < _FILE_HEADER_BYTES:
            raise RejectError(
                Reason.TRUNCATED, f"{size} bytes hold no SEG-Y file header of {_FILE_HEADER_BYTES} bytes"
            )
        order = _byte_order(head)
        code = _format_code(head, order)
        if code not in _TYPES:
            raise RejectError(
                Reason.BAD_FORMAT,
                f"sample format code {code} in the binary header is none of {sorted(_TYPES)}",
            )
        extended = struct.unpack_from(order + "h", head, 3504)[0] if head[3500] else 0
        if extended < 0:
            raise RejectError(Reason.BAD_FORMAT, "a variable number of extended text headers cannot be read")
        first = _FILE_HEADER_BYTES + _TEXT_HEADER_BYTES * extended
        traces = list(_traces(file, size, first, order, head, np.dtype(_TYPES[code]).itemsize))
        if not traces:
            raise empty(f"no trace follows the file header ({size} bytes)")
        names = [str(number) for number in range(1, len(traces) + 1)]
        chosen = set(choose_members(names, self._settings.members))
        return [
            self._describe(name, order, code, *trace)
            for name, trace in zip(names, traces, strict=True)
            if name in chosen
        ]

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Reads the range's bytes."""
        order, code, offset = locator[0], *map(int, locator[1:].split(":"))
        dtype = np.dtype(order + _TYPES[code])
        file.seek(offset + start * dtype.itemsize)
        content = file.read(dtype.itemsize * len(out))
        if len(content) < dtype.itemsize * len(out):
            raise short_read(start, len(out), len(content) // dtype.itemsize)
        samples = np.frombuffer(content, dtype)
        if code == _IBM:
            samples = from_ibm(samples)
        store(samples, out, *scaling(self._settings.scale, samples.dtype))

    def _describe(
        self, name: str, order: str, code: int, header: bytes, offset: int, declared: int, there: int
    ) -> Description | RejectError:
        frames = min(declared, there)
        if frames == 0:
            return RejectError(
                Reason.EMPTY, f"{declared} samples are promised, and none is there", member=name
            )
        message = f"the trace header promises {declared} samples, {there} are there"
        if frames < declared and self._settings.strict:
            return RejectError(Reason.TRUNCATED, f"{message}: the file is cut short", member=name)
        interval = struct.unpack_from(order + "H", header, 116)[0]
        values = {key: struct.unpack_from(order + "i", header, at)[0] for key, at in _PLACES.items()}
        return Description(
            format=self.name,
            sample_rate=1e6 / interval if interval else None,
            channels=1,
            frames=frames,
            dtype="ibm32" if code == _IBM else np.dtype(order + _TYPES[code]).str,
            frames_declared=declared,
            warnings=(message,) if frames < declared else (),
            member=name,
            locator=f"{order}{code}:{offset}",
            unit=_UNITS.get(struct.unpack_from(order + "h", header, 202)[0])
            if self._settings.scale in ("auto", "none")
            else None,
            start_time_ns=_start_ns(header, order),
            attributes={key: value for key, value in values.items() if value},
        )


def from_ibm(stored: np.ndarray) -> np.ndarray:
    """IBM System/360 single floats as float64, exactly: sign, power of 16 less 64, fraction of 24 bits.

    Args:
      stored: uint32 [samples], any byte order.
    """
    fraction = (stored & 0xFFFFFF).astype(np.float64)
    power = ((stored >> 24) & 0x7F).astype(np.int32)
    return np.where(stored >> 31, -1.0, 1.0) * np.ldexp(fraction, 4 * (power - 64) - 24)


def _byte_order(head: bytes) -> str:
    """Big-endian as the standard has it, unless the format code is possible only the other way round."""
    return ">" if _format_code(head, ">") in range(1, 17) or _format_code(head, "<") not in _TYPES else "<"


def _format_code(head: bytes, order: str) -> int:
    return struct.unpack_from(order + "h", head, 3224)[0]


def _traces(
    file: BinaryIO, size: int, position: int, order: str, head: bytes, itemsize: int
) -> Iterator[Any]:
    """Of each trace: header, offset of its samples, samples promised, samples there.

    Raises:
      RejectError: a trace does not say its length, so that the next one cannot be found.
    """
    default = struct.unpack_from(order + "H", head, 3220)[0]
    default_interval = head[3216:3218]
    if head[3500] >= 2 and default == 0:  # revision 2 has a longer field for long traces
        default = struct.unpack_from(order + "I", head, 3268)[0]
    while position + _TRACE_HEADER_BYTES <= size:
        file.seek(position)
        header = file.read(_TRACE_HEADER_BYTES)
        if len(header) < _TRACE_HEADER_BYTES:
            return
        declared = struct.unpack_from(order + "H", header, 114)[0] or default
        if declared == 0:
            raise RejectError(
                Reason.CORRUPT, f"the trace at byte {position} promises no samples, nor does the file header"
            )
        if not any(header[116:118]):
            header = header[:116] + default_interval + header[118:]
        offset = position + _TRACE_HEADER_BYTES
        yield header, offset, declared, min(declared, (size - offset) // itemsize)
        position = offset + declared * itemsize


def _start_ns(header: bytes, order: str) -> int | None:
    """From year, day of the year and time of day; None where the day is not set. The delay is not counted in."""
    year, day, hour, minute, second = struct.unpack_from(order + "5h", header, 156)
    if 0 <= year < 100 and day:  # two digits, as older files have them
        year += 2000 if year < 30 else 1900
    if not 1 <= year <= 9999 or not 1 <= day <= 366:
        return None
    days = datetime.date(year, 1, 1).toordinal() - datetime.date(1970, 1, 1).toordinal() + day - 1
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 10**9
