"""Seismological text formats, GSE2 and the ASCII time series SLIST and TSPAIR: ObsPy decodes whole traces."""

from __future__ import annotations

import dataclasses
import re
from typing import BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..base import ReadSettings, choose_members, empty, short_read
from ..samples import scaling, store
from ..whole import DecodedCache, require_decodable
from .traces import COUNTS, as_counts, member_names, read_traces, require_obspy, trace_id

_LONGEST_LINE = 81


class _TextReader:
    """Text formats of whole blocks, one trace a block: a block is decoded whole, by ObsPy."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False
    _what: ClassVar[str]
    _begin: ClassVar[re.Pattern[bytes]]

    def __init__(self, settings: ReadSettings):
        self._settings = settings
        self._cache = DecodedCache()

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """From the header line of each block; samples that are text are counted, not decoded."""
        assert file is not None
        if size == 0:
            raise empty("the file has 0 bytes")
        require_obspy(self._what)
        require_decodable(size, self._settings.decode_limit)
        file.seek(0)
        content = file.read()
        starts = [match.start() for match in self._begin.finditer(content)]
        if not starts:
            raise RejectError(Reason.BAD_FORMAT, f"no {self._what} header is found in {size} bytes")
        blocks = list(zip(starts, [*starts[1:], len(content)], strict=True))
        found = [self._understand(content[first:last], number) for number, (first, last) in enumerate(blocks)]
        if len(found) == 1 and isinstance(found[0], RejectError):
            raise RejectError(found[0].reason, str(found[0]))
        names = member_names(
            [each.member or "" for each in found], [getattr(each, "start_time_ns", 0) for each in found]
        )
        chosen = set(choose_members(names, self._settings.members))
        return [
            self._finish(fields, name, f"{first}:{last - first}")
            for name, (first, last), fields in zip(names, blocks, found, strict=True)
            if name in chosen
        ]

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Decodes the block, once for all of its ranges."""

        def decode() -> np.ndarray:
            first, length = map(int, locator.split(":"))
            file.seek(first)
            return self._decode(file.read(length))

        samples = self._cache.get(file, locator, decode)[start : start + len(out)]
        if len(samples) < len(out):
            raise short_read(start, len(out), len(samples))
        store(samples, out, *scaling(self._settings.scale, samples.dtype))

    def _understand(self, block: bytes, number: int) -> Description | RejectError:
        try:
            return self._describe_block(block)
        except RejectError as error:
            return RejectError(error.reason, str(error), member=f"block {number + 1}")

    def _describe_block(self, block: bytes) -> Description:
        """The block's recording, with the trace's id as its member."""
        raise NotImplementedError

    def _decode(self, block: bytes) -> np.ndarray:
        raise NotImplementedError

    def _finish(self, found: Description | RejectError, name: str, locator: str) -> Description | RejectError:
        if isinstance(found, RejectError):
            return found
        if found.frames == 0:
            return RejectError(Reason.EMPTY, "the header is there, but no sample follows", member=name)
        warning: tuple[str, ...] = ()
        if found.frames_declared is not None and found.frames_declared > found.frames:
            warning = (f"the header promises {found.frames_declared} samples, {found.frames} are there",)
            if self._settings.strict:
                return RejectError(Reason.TRUNCATED, f"{warning[0]}: the file is cut short", member=name)
        return dataclasses.replace(found, member=name, locator=locator, warnings=(*found.warnings, *warning))

    def _from_header(self, header: bytes, format_name: str, dtype: np.dtype) -> Description:
        traces, _ = read_traces(header, format_name, self._what, headonly=True)
        stats = traces[0].stats
        return Description(
            format=self.name,
            sample_rate=float(stats.sampling_rate),
            channels=1,
            frames=0,
            dtype=dtype.str,
            frames_declared=int(stats.npts),
            member=trace_id(stats.network, stats.station, stats.location, stats.channel),
            unit=as_counts(self._settings.scale, dtype),
            start_time_ns=int(stats.starttime.ns),
            attributes={
                key: str(stats[key]) for key in ("network", "station", "location", "channel") if stats[key]
            },
        )


class Gse2Reader(_TextReader):
    """GSE2 files of CM6-packed or plain integers; the checksum of each trace is verified."""

    name: ClassVar[str] = "gse2"
    suffixes: ClassVar[tuple[str, ...]] = (".gse", ".gse2")
    _what: ClassVar[str] = "GSE2"
    _begin: ClassVar[re.Pattern[bytes]] = re.compile(rb"^WID2 ", re.MULTILINE)

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the first header line: WID2 and a date."""
        return re.match(rb"WID2 \d{4}/\d\d/\d\d ", head) is not None

    def _describe_block(self, block: bytes) -> Description:
        kind = block[44:48].strip()
        if kind not in (b"CM6", b"INT"):
            raise RejectError(
                Reason.BAD_FORMAT,
                f"the samples are stored as {kind.decode('ascii', 'replace')}, not as CM6 or INT",
            )
        found = self._from_header(block[:4096], "GSE2", np.dtype(np.int32))
        declared = found.frames_declared or 0
        require_decodable(4 * declared, self._settings.decode_limit)
        # a packed sample takes at least one character, so that many at most can be there
        if not 0 <= declared <= len(block):
            raise RejectError(
                Reason.CORRUPT, f"the header promises {declared} samples, and {len(block)} bytes hold fewer"
            )
        return dataclasses.replace(found, frames=declared)

    def _decode(self, block: bytes) -> np.ndarray:
        lines = block.partition(b"\nCHK2")[0].split(b"\n")
        packed = lines[2:] if lines[1:] and lines[1].startswith(b"STA2") else lines[1:]
        # ObsPy 1.5 copies longer lines beyond its buffer of 83 bytes
        if max(map(len, packed), default=0) > _LONGEST_LINE:
            raise RejectError(
                Reason.CORRUPT, "lines of samples have at most 80 characters, here one is longer"
            )
        traces, _ = read_traces(block, "GSE2", self._what, verify_chksum=True)
        return traces[0].data


class SlistReader(_TextReader):
    """SLIST and TSPAIR, the ASCII time series of the IRIS web services."""

    name: ClassVar[str] = "slist"
    suffixes: ClassVar[tuple[str, ...]] = (".slist", ".tspair")
    _what: ClassVar[str] = "SLIST or TSPAIR"
    _begin: ClassVar[re.Pattern[bytes]] = re.compile(rb"^TIMESERIES ", re.MULTILINE)
    _types: ClassVar[dict[bytes, str]] = {
        b"INTEGER": "<i8", b"INT8": "|i1", b"INT16": "<i2", b"INT32": "<i4", b"INT64": "<i8",
        b"FLOAT": "<f8", b"FLOAT16": "<f2", b"FLOAT32": "<f4", b"FLOAT64": "<f8",
    }  # fmt: skip

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the first line's keywords."""
        return re.match(rb"TIMESERIES [^\n]*, \d+ samples, [^\n]*, (SLIST|TSPAIR), ", head) is not None

    def _describe_block(self, block: bytes) -> Description:
        header, _, rows = block.partition(b"\n")
        fields = [field.strip() for field in header.split(b",")]
        kind, stored = (fields[4].upper(), fields[5].upper()) if len(fields) > 5 else (b"", b"")
        if kind not in (b"SLIST", b"TSPAIR") or stored not in self._types:
            line = header[:120].decode("ascii", "replace")
            raise RejectError(
                Reason.BAD_FORMAT, f"the header says neither SLIST nor TSPAIR with numbers: {line}"
            )
        dtype = np.dtype(self._types[stored])
        there = len(rows.split()) if kind == b"SLIST" else sum(bool(row.strip()) for row in rows.splitlines())
        found = self._from_header(header + b"\n", kind.decode(), dtype)
        declared = found.frames_declared or 0
        if there < declared and rows and not rows[-1:].isspace():
            there -= 1  # the last number may lack digits
        unit = fields[6].decode("ascii", "replace") if len(fields) > 6 and fields[6] else None
        if unit is not None and unit.lower() != COUNTS:
            found = dataclasses.replace(
                found, unit=unit if self._settings.scale in ("auto", "none") else None
            )
        return dataclasses.replace(found, frames=max(0, min(there, declared)))

    def _decode(self, block: bytes) -> np.ndarray:
        kind = "TSPAIR" if b"TSPAIR" in block.split(b"\n", 1)[0].upper() else "SLIST"
        traces, _ = read_traces(block, kind, self._what)
        return traces[0].data
