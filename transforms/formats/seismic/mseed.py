"""miniSEED: one recording a trace and stretch without a gap, read by range; ObsPy decodes the records."""

from __future__ import annotations

import bisect
import os
from typing import BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..base import ReadSettings, choose_members, empty, short_read
from ..samples import scaling, store
from ..whole import DecodedCache
from .mseed_index import Index, Stretch, index_records, parse_record, stretch_id
from .traces import as_counts, member_names, read_traces, require_obspy

_WHAT = "miniSEED"
# number in the manual: name, samples as ObsPy gives them
_ENCODINGS = {
    1: ("INT16", "<i2"), 3: ("INT32", "<i4"), 4: ("FLOAT32", "<f4"), 5: ("FLOAT64", "<f8"),
    10: ("STEIM1", "<i4"), 11: ("STEIM2", "<i4"), 12: ("GEOSCOPE24", "<f4"), 13: ("GEOSCOPE16_3", "<f4"),
    14: ("GEOSCOPE16_4", "<f4"), 16: ("CDSN", "<i4"), 30: ("SRO", "<i4"), 32: ("DWWSSN", "<i4"),
}  # fmt: skip
_PIECE_RECORDS = 4096


class MseedReader:
    """miniSEED 2, also the data records of full SEED volumes. Gaps are never bridged."""

    name: ClassVar[str] = "mseed"
    suffixes: ClassVar[tuple[str, ...]] = (".mseed", ".miniseed", ".ms", ".seed")
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        self._settings = settings
        self._indexes = DecodedCache()

    @staticmethod
    def matches(head: bytes) -> bool:
        """By a first record whose time, blockettes and length are possible; or a SEED volume; or miniSEED 3."""
        if head[:3] == b"MS\x03" or head[:8] in (b"000001V ", b"000001V\0"):
            return True
        return parse_record(head[:512]) is not None

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """From the records' headers; nothing is decoded."""
        assert file is not None
        if size == 0:
            raise empty("the file has 0 bytes")
        require_obspy(_WHAT)
        file.seek(0)
        if file.read(3) == b"MS\x03":
            raise RejectError(
                Reason.BAD_FORMAT,
                "the file is miniSEED 3, and version 2 can be read: convert it, such as by mseedconvert",
            )
        index = index_records(file, size)
        if not index.stretches:
            raise RejectError(
                Reason.BAD_FORMAT,
                f"no miniSEED data record is found in {size} bytes: records need samples and blockette 1000",
            )
        self._hold_to_strict(index, size)
        names = member_names(
            [stretch_id(each) for each in index.stretches], [each.first.start_ns for each in index.stretches]
        )
        chosen = set(choose_members(names, self._settings.members))
        if not self._settings.members:  # logs are taken only if asked for, or if there is nothing else
            series = {name for name, each in zip(names, index.stretches, strict=True) if each.first.encoding}
            chosen = series or chosen
        return [
            self._describe(stretch, name, number, index)
            for number, (name, stretch) in enumerate(zip(names, index.stretches, strict=True))
            if name in chosen
        ]

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Decodes the records that hold the range; each can be decoded alone."""
        index = self._indexes.get(file, "", lambda: _index(file))
        number, _, encoding = locator.partition(":")
        if int(number) >= len(index.stretches):
            raise short_read(start, len(out), 0)
        stretch = index.stretches[int(number)]
        if start + len(out) > stretch.frames:
            raise short_read(start, len(out), max(0, stretch.frames - start))
        dtype = np.dtype(_ENCODINGS[int(encoding)][1])
        factors = scaling(self._settings.scale, dtype)
        records = stretch.records
        first = bisect.bisect_right(records, start, key=_first_sample) - 1
        last = bisect.bisect_left(records, start + len(out), key=_first_sample)
        for part in range(first, last, _PIECE_RECORDS):
            stop = min(part + _PIECE_RECORDS, last)
            begin = _first_sample(records[part])
            end = _first_sample(records[stop]) if stop < len(records) else stretch.frames
            samples = _decode(file, records[part:stop], end - begin)
            low, high = max(start, begin), min(start + len(out), end)
            # ObsPy gives 16-bit integers as 32-bit ones
            store(
                samples[low - begin : high - begin].astype(dtype), out[low - start : high - start], *factors
            )

    def _hold_to_strict(self, index: Index, size: int) -> None:
        if not self._settings.strict:
            return
        if index.cut:
            raise RejectError(Reason.TRUNCATED, _cut_message(index.cut))
        if index.skipped:
            reason = Reason.TRUNCATED if index.skipped_to == size else Reason.CORRUPT
            raise RejectError(reason, _skipped_message(index))

    def _describe(self, stretch: Stretch, name: str, number: int, index: Index) -> Description | RejectError:
        first = stretch.first
        if first.encoding not in _ENCODINGS:
            kind = "text" if first.encoding == 0 else f"encoding {first.encoding}, which ObsPy cannot decode"
            return RejectError(
                Reason.BAD_FORMAT, f"the records hold {kind}: leave it out by members", member=name
            )
        warnings = []
        if index.skipped:
            warnings.append(_skipped_message(index))
        if stretch.overlaps:
            warnings.append("it begins before the trace's stretch before it ends")
        if stretch.cut_frames and index.cut:
            if not stretch.frames:
                return RejectError(Reason.TRUNCATED, _cut_message(index.cut), member=name)
            warnings.append(f"{_cut_message(index.cut)}, and its {stretch.cut_frames} samples are left out")
        encoding, dtype = _ENCODINGS[first.encoding]
        network, station, location, channel = first.codes
        described = {"network": network, "station": station, "location": location, "channel": channel}
        return Description(
            format=self.name,
            sample_rate=first.rate or None,
            channels=1,
            frames=stretch.frames,
            dtype=dtype,
            frames_declared=stretch.frames + stretch.cut_frames,
            warnings=tuple(warnings),
            member=name,
            locator=f"{number}:{first.encoding}",
            unit=as_counts(self._settings.scale, np.dtype(dtype)),
            start_time_ns=first.start_ns,
            attributes={key: value for key, value in described.items() if value}
            | {"quality": chr(first.quality), "encoding": encoding},
        )


def _index(file: BinaryIO) -> Index:
    return index_records(file, file.seek(0, os.SEEK_END))


def _cut_message(cut: tuple[int, int]) -> str:
    return f"the last record is cut short: {cut[0]} of {cut[1]} bytes are there"


def _skipped_message(index: Index) -> str:
    return f"{index.skipped} bytes, the first at byte {index.skipped_at}, are no miniSEED records"


def _first_sample(record: tuple[int, int, int]) -> int:
    return record[2]


def _decode(file: BinaryIO, records: list[tuple[int, int, int]], frames: int) -> np.ndarray:
    """The samples of consecutive records (offset, bytes, first sample).

    Raises:
      RejectError: the records are damaged, by their own integrity checks.
    """
    runs: list[list[int]] = []
    for offset, length, _ in records:  # neighbours are read together
        if runs and sum(runs[-1]) == offset:
            runs[-1][1] += length
        else:
            runs.append([offset, length])
    content = bytearray()
    for offset, length in runs:
        file.seek(offset)
        piece = file.read(length)
        if len(piece) < length:
            raise short_read(_first_sample(records[0]), frames, 0)
        content += piece
    traces, warned = read_traces(bytes(content), "MSEED", _WHAT)
    if warned:
        raise RejectError(Reason.CORRUPT, f"records are damaged: {warned[0]}")
    samples = np.concatenate([trace.data for trace in traces])
    if len(samples) != frames:
        raise RejectError(
            Reason.CORRUPT, f"{len(records)} records hold {len(samples)} samples, their headers say {frames}"
        )
    return samples
