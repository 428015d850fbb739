"""TDMS (LabVIEW): channels of a group that belong together are the channels of one recording; read by range."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..attributes import find_rate, find_start, kept, merge_scopes
from ..base import ReadSettings, empty, short_read
from ..members import NoSamplesError, select
from ..samples import scaling, store
from ..whole import DecodedCache, require_decodable
from .tdms_index import Channel, Contents, call, open_tdms, understand

_SECONDS_1904_TO_1970 = 2_082_844_800
_UNITS = ("unit_string", "NI_UnitDescription", "Unit", "unit")


class TdmsReader:
    """TDMS files, also DAQmx ones.

    Channels of a group with equal length, rate, start and sample type are one recording, named after the group;
    if they differ, each channel is a recording, named group/channel.
    """

    name: ClassVar[str] = "tdms"
    suffixes: ClassVar[tuple[str, ...]] = (".tdms",)
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        self._settings = settings
        self._physical = settings.scale == "auto"
        self._contents = DecodedCache()
        self._decoded = DecodedCache()

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the first segment's tag and version."""
        return (
            head[:4] == b"TDSm"
            and {head[8:12], head[8:12][::-1]} & {b"\x69\x12\0\0", b"\x68\x12\0\0"} != set()
        )

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """From the metadata of all segments."""
        assert file is not None
        if size == 0:
            raise empty("the file has 0 bytes")
        contents = understand(file)
        if contents.incomplete and self._settings.strict:
            raise RejectError(Reason.TRUNCATED, "the last segment is cut short")
        if not contents.channels:
            raise empty("the file holds no channel")
        entries = dict(self._entries(contents))
        return list(select(entries, self._settings))

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Reads the range's bytes; DAQmx channels are decoded whole."""
        contents = self._contents.get(file, "", lambda: understand(file))
        number = int(locator.split(",")[channel])
        found = contents.channels[number] if number < len(contents.channels) else None
        if found is None or start + len(out) > found.frames:
            raise short_read(start, len(out), max(0, found.frames - start) if found else 0)
        if found.is_daqmx:
            self._read_daqmx(file, found, number, start, out)
            return
        samples = found.raw(file, start, len(out))
        if found.scaling is None or not self._physical or out.dtype == np.int16:
            store(samples, out, *scaling(self._settings.scale, samples.dtype))
            return
        from nptdms.base_segment import RawChannelDataChunk

        store(call(found.scaling.scale, RawChannelDataChunk.channel_data(samples)), out)

    def _read_daqmx(self, file: BinaryIO, found: Channel, number: int, start: int, out: np.ndarray) -> None:
        require_decodable(8 * found.frames, self._settings.decode_limit)

        def decode() -> np.ndarray:
            source = open_tdms(file)[found.group][found.name]
            samples = call(source.read_data, scaled=self._physical)
            return next(iter(samples.values())) if isinstance(samples, dict) else samples

        samples = self._decoded.get(file, f"{number}", decode)[start : start + len(out)]
        if len(samples) < len(out):
            raise short_read(start, len(out), len(samples))
        store(
            samples,
            out,
            *(scaling(self._settings.scale, samples.dtype) if not self._physical else (0.0, 1.0)),
        )

    def _entries(self, contents: Contents) -> Iterator[tuple[str, Description | RejectError]]:
        groups: dict[str, list[tuple[int, Channel]]] = {}
        for number, channel in enumerate(contents.channels):
            groups.setdefault(channel.group, []).append((number, channel))
        warnings = ("the last segment is cut short",) if contents.incomplete else ()
        for name, group in groups.items():
            usable = [each for each in group if _reason(each[1]) is None]
            # a cut leaves channels of different lengths, which were equal
            alike = {
                _shape(channel, self._settings, with_frames=not contents.incomplete) for _, channel in usable
            }
            if usable and len(alike) == 1:
                yield name, self._describe(name, usable, warnings)
            for number, channel in group:
                member = f"{name}/{channel.name}"
                reason = _reason(channel)
                if reason is not None:
                    kind = RejectError if reason[0] == Reason.EMPTY else NoSamplesError
                    yield member, kind(*reason, member=member)
                elif len(alike) > 1:
                    yield member, self._describe(member, [(number, channel)], warnings)

    def _describe(
        self, name: str, channels: list[tuple[int, Channel]], warnings: tuple[str, ...]
    ) -> Description:
        first = channels[0][1]
        rate, start_ns, more = _timing(first, self._settings)
        units = [_unit(channel) for _, channel in channels]
        scopes = first.values if len(channels) == 1 else first.values[1:]
        attributes = merge_scopes(scopes)
        if len(set(units)) > 1:
            attributes = {"units": ",".join(unit or "" for unit in units)[:1000]} | attributes
        scaled = any(channel.scaling is not None for _, channel in channels)
        assert first.dtype is not None
        return Description(
            format=self.name,
            sample_rate=rate,
            channels=len(channels),
            frames=min(channel.frames for _, channel in channels),
            dtype=first.dtype.str,
            warnings=(*warnings, *more),
            member=name,
            locator=",".join(str(number) for number, _ in channels),
            is_complex=first.dtype.kind == "c",
            channel_names=tuple(channel.name for _, channel in channels),
            unit=units[0] if len(set(units)) == 1 and (self._physical or not scaled) else None,
            start_time_ns=start_ns,
            attributes=kept(attributes),
        )


def _reason(channel: Channel) -> tuple[Reason, str] | None:
    """Why a channel is no recording, if it is none."""
    if channel.dtype is None or channel.dtype.kind not in "iufc":
        return Reason.BAD_FORMAT, "the channel holds text, times or truth values, no numbers"
    if channel.frames == 0:
        return Reason.EMPTY, "the channel holds no sample"
    return None


def _shape(channel: Channel, settings: ReadSettings, *, with_frames: bool) -> tuple:
    """What the channels of one recording have in common."""
    rate, start_ns, _ = _timing(channel, settings)
    return channel.frames if with_frames else 0, rate, start_ns, channel.dtype


def _timing(channel: Channel, settings: ReadSettings) -> tuple[float | None, int | None, tuple[str, ...]]:
    """Rate, time of the first sample in ns, warnings: from the waveform properties, else from the settings' keys."""
    values = merge_scopes(channel.values)
    rate, start_ns = _rate(channel.properties.get("wf_increment")), _start_ns(channel.properties)
    if rate is None:
        rate = find_rate(values, settings.rate_key)
    warnings: tuple[str, ...] = ()
    if start_ns is None:
        start_ns, warnings = find_start(values, settings.time_key)
    return rate, start_ns, warnings


def _rate(increment: Any) -> float | None:
    """Hz; LabVIEW writes an increment of 0 where it knows none."""
    if not isinstance(increment, (int, float, np.number)) or increment == 0:
        return None
    rate = 1.0 / float(increment)
    if math.isfinite(rate) and abs(rate - round(rate)) <= 1e-9 * abs(rate):
        return float(round(rate))
    return rate


def _start_ns(properties: Any) -> int | None:
    """Of the first sample; LabVIEW writes its epoch, 1904, where it knows no start."""
    start, offset = properties.get("wf_start_time"), properties.get("wf_start_offset", 0.0)
    if not hasattr(start, "second_fractions") or (start.seconds, start.second_fractions) == (0, 0):
        return None
    nanoseconds = (int(start.seconds) - _SECONDS_1904_TO_1970) * 10**9 + (
        int(start.second_fractions) * 10**9 + 2**63 >> 64
    )
    if isinstance(offset, (int, float, np.number)) and math.isfinite(offset) and abs(offset) < 1e9:
        nanoseconds += round(float(offset) * 1e9)
    return nanoseconds if abs(nanoseconds) < 2**63 else None


def _unit(channel: Channel) -> str | None:
    for key in _UNITS:
        unit = channel.values[0].get(key)
        if isinstance(unit, str) and unit:
            return unit
    return None
