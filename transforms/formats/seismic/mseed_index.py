"""Where the records of a miniSEED file lie, from their headers alone: they are read by range this way.

Layout and meaning of the fields: SEED Reference Manual 2.4, chapter 8 (data record header, blockettes 100, 1000
and 1001).
"""

from __future__ import annotations

import dataclasses
import datetime
import struct
from typing import BinaryIO

from .traces import trace_id

_PIECE_BYTES = 4 << 20
_SMALLEST = 128
_LARGEST_POWER = 20
_BLANK = frozenset(b" \0")
_SEQUENCE = frozenset(b"0123456789 \0")
_QUALITIES = b"DRQM"
_CONTROL = b"VAST"
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_FIXED = {order: struct.Struct(order + "8x5s2s3s2sHHBBBxHHhhB2xBiHH") for order in "><"}
_PAIR = {order: struct.Struct(order + "HH") for order in "><"}
_FLOAT = {order: struct.Struct(order + "f") for order in "><"}


@dataclasses.dataclass(frozen=True)
class Record:
    """One data record, as its header has it.

    Attributes:
      codes: network, station, location, channel.
      quality: D, R, Q or M.
      start_ns: time of the first sample, nanoseconds since 1970 UTC.
      rate: Hz; 0 where the record holds no series.
      frames: samples.
      encoding: by its number in the manual.
      length: bytes.
    """

    codes: tuple[str, str, str, str]
    quality: int
    start_ns: int
    rate: float
    frames: int
    encoding: int
    length: int


@dataclasses.dataclass
class Stretch:
    """Consecutive records of one trace without a gap.

    Attributes:
      first: its first record.
      frames: samples in all records.
      records: of each record (offset, bytes, first sample).
      end_ns: when the sample after its last one is due.
      overlaps: whether it begins before an earlier stretch of the trace ends.
      cut_frames: samples of a record that is cut short and would follow.
    """

    first: Record
    frames: int = 0
    records: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)
    end_ns: int = 0
    overlaps: bool = False
    cut_frames: int = 0


@dataclasses.dataclass
class Index:
    """What a file holds.

    Attributes:
      stretches: in the order of their first records.
      skipped: bytes that are no record, though they are not blank.
      skipped_at: where the first of them lies.
      skipped_to: where the last of them ends.
      cut: (bytes there, bytes promised) of a last record that is cut short.
    """

    stretches: list[Stretch] = dataclasses.field(default_factory=list)
    skipped: int = 0
    skipped_at: int = 0
    skipped_to: int = 0
    cut: tuple[int, int] | None = None

    @property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        return sum(1000 + 200 * len(stretch.records) for stretch in self.stretches)


def parse_record(head: bytes) -> Record | None:
    """The record that begins with these bytes, or None if none does.

    A record without blockette 1000 does not say its length and counts as none.
    """
    if (
        len(head) < 48
        or head[6] not in _QUALITIES
        or head[7] not in _BLANK
        or not _SEQUENCE.issuperset(head[:6])
        or not head[8:20].isascii()
    ):
        return None
    for order in "><":
        fields = _FIXED[order].unpack_from(head)
        if 1900 <= fields[4] <= 2100 and 1 <= fields[5] <= 366:
            break
    else:
        return None
    station, location, channel, network, year, day, hour, minute, second, fraction = fields[:10]
    frames, factor, multiplier, activity, _, correction, _, blockette = fields[10:]
    if hour > 23 or minute > 59 or second > 60 or fraction > 9999:
        return None
    rate, microseconds, encoding, power = _nominal_rate(factor, multiplier), 0, None, 0
    while 48 <= blockette <= len(head) - 8:
        kind, following = _PAIR[order].unpack_from(head, blockette)
        if kind == 1000:
            encoding, power = head[blockette + 4], head[blockette + 6]
        elif kind == 1001:
            microseconds = head[blockette + 5] - 256 * (head[blockette + 5] > 127)
        elif kind == 100:
            rate = float(_FLOAT[order].unpack_from(head, blockette + 4)[0])
        if following <= blockette:
            break
        blockette = following
    if encoding is None or not 7 <= power <= _LARGEST_POWER:
        return None
    days = datetime.date(year, 1, 1).toordinal() - _EPOCH + day - 1
    start = ((days * 24 + hour) * 60 + minute) * 60 + second
    tenths = fraction + (
        0 if activity & 2 else correction
    )  # 0.1 ms; bit 1: the correction is applied already
    codes = tuple(
        part.decode("ascii", "replace").strip(" \0") for part in (network, station, location, channel)
    )
    return Record(
        codes,  # type: ignore[arg-type]
        head[6],
        start * 10**9 + tenths * 10**5 + microseconds * 1000,
        rate,
        frames,
        encoding,
        1 << power,
    )


def _nominal_rate(factor: int, multiplier: int) -> float:
    """Hz; negative numbers divide, as the manual says."""
    if factor == 0 or multiplier == 0:
        return 0.0
    rate = float(factor) if factor > 0 else -1.0 / factor
    return rate * multiplier if multiplier > 0 else -rate / multiplier


def index_records(file: BinaryIO, size: int) -> Index:
    """Reads through the file once, in pieces."""
    index, last = Index(), {}
    piece, piece_start, position, control_length = b"", 0, 0, 0
    while position < size:
        at = position - piece_start
        if at + 512 > len(piece) and piece_start + len(piece) < size:
            file.seek(position)
            piece, piece_start, at = file.read(_PIECE_BYTES), position, 0
        head = piece[at : at + 512]
        if not head:
            break
        record = parse_record(head)
        if record is None:
            control_length = _control_length(head) or control_length
            if control_length and len(head) > 6 and head[6] in _CONTROL and _SEQUENCE.issuperset(head[:6]):
                position += control_length
                continue
            there = head[:_SMALLEST]
            if not _BLANK.issuperset(there):
                index.skipped_at = index.skipped_at if index.skipped else position
                index.skipped += len(there)
                index.skipped_to = position + len(there)
            position += _SMALLEST
        else:
            _add(index, last, record, position, size)
            position += record.length
    return index


def _control_length(head: bytes) -> int:
    """Bytes of the control records of a full SEED volume, from blockette 10 in its first one."""
    if head[6:7] == b"V" and head[8:11] in (b"010", b"008") and head[19:21].isdigit():
        power = int(head[19:21])
        return 1 << power if 7 <= power <= _LARGEST_POWER else 0
    return 0


def _add(index: Index, last: dict, record: Record, position: int, size: int) -> None:
    """Continues the record's trace, or begins a stretch."""
    if record.frames == 0:
        return
    key = (record.codes, record.quality)
    stretch: Stretch | None = last.get(key)
    if stretch is None or not _continues(stretch, record):
        new = Stretch(record, overlaps=stretch is not None and record.start_ns < stretch.end_ns)
        new.end_ns = record.start_ns
        index.stretches.append(new)
        stretch = last[key] = new
    if position + record.length > size:
        index.cut = (size - position, record.length)
        stretch.cut_frames += record.frames
        return
    stretch.records.append((position, record.length, stretch.frames))
    stretch.frames += record.frames
    stretch.end_ns = record.start_ns + (
        round(record.frames * 1e9 / record.rate) if _is_rate(record.rate) else 0
    )


def _is_rate(rate: float) -> bool:
    return 1e-9 < rate < 1e15  # so that nanoseconds can be reckoned with


def _continues(stretch: Stretch, record: Record) -> bool:
    """Whether a record follows within half a sample interval; records without a rate always do."""
    first = stretch.first
    if (record.rate, record.encoding) != (first.rate, first.encoding):
        return False
    if not _is_rate(record.rate):
        return True
    return abs(record.start_ns - stretch.end_ns) <= 0.5e9 / record.rate


def stretch_id(stretch: Stretch) -> str:
    """The trace's id.

    >>> stretch_id(Stretch(Record(("BW", "BGLD", "", "EHE"), 68, 0, 200.0, 1, 11, 512)))
    'BW.BGLD..EHE'
    """
    return trace_id(*stretch.first.codes)
