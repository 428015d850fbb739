"""WFDB (PhysioNet): a text header, .hea, and samples in the files beside it that it names; read by range."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any, BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..base import ReadSettings, choose_members, empty, local_path, short_read
from ..samples import store
from ..whole import DecodedCache, require_decodable
from .physionet_header import (
    COMPRESSED,
    FORMATS,
    PIECE_SAMPLES,
    call,
    comments_of,
    file_size,
    looks_like_header,
    open_header,
    record_path,
    sample_bits,
    start_ns,
)


class WfdbReader:
    """Signals of one header as the channels of one recording; of one a rate where they have several rates."""

    name: ClassVar[str] = "wfdb"
    suffixes: ClassVar[tuple[str, ...]] = (".hea",)
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        self._settings = settings
        self._physical = settings.scale == "auto"
        self._cache = DecodedCache()

    @staticmethod
    def matches(head: bytes) -> bool:
        """By a record line, and a signal line with a file name and a known format."""
        return looks_like_header(head)

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """From the header and the sizes of the sample files."""
        assert file is not None
        if size == 0:
            raise empty("the file has 0 bytes")
        record = open_header(file)
        groups: dict[int, list[int]] = {}
        for signal, per_frame in enumerate(record.samps_per_frame):
            groups.setdefault(per_frame, []).append(signal)
        frames, declared, warnings = self._count_frames(record, os.path.dirname(local_path(file, "WFDB")))
        rate = float(record.fs) if record.fs else None
        names = [f"{(rate or 1.0) * per_frame:g}Hz" for per_frame in groups]
        chosen = set(choose_members(names, self._settings.members) if len(groups) > 1 else names)
        described: list[Description | RejectError] = []
        for name, (per_frame, signals) in zip(names, groups.items(), strict=True):
            if name in chosen:
                found = self._describe(record, signals, frames * per_frame, rate and rate * per_frame)
                more = {"member": name} if len(groups) > 1 else {}
                described.append(
                    dataclasses.replace(
                        found, frames_declared=declared * per_frame, warnings=warnings, **more
                    )
                )
        return described

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Reads the frames around the range; signals of a file are interleaved, so all of them are read."""
        frames, per_frame, *signals = map(int, re.split("[:,]", locator))
        signal = signals[channel]
        if start + len(out) > frames * per_frame:
            raise short_read(start, len(out), max(0, frames * per_frame - start))
        record = open_header(file)
        format_name, physical = record.fmt[signal], self._physical and out.dtype != np.int16
        if format_name == "8":  # differences: only the whole signal gives its values
            require_decodable(8 * frames * sum(record.samps_per_frame), self._settings.decode_limit)
            whole = self._cache.get(
                file, f"{signal}:{physical}", lambda: self._rows(file, record, signal, 0, frames, physical)
            )
            self._store(whole[start : start + len(out)], out, format_name)
            return
        piece = max(1, PIECE_SAMPLES // sum(record.samps_per_frame))
        end = start + len(out)
        for first in range(start // per_frame, -(-end // per_frame), piece):
            stop = min(first + piece, -(-end // per_frame))
            rows = self._rows(file, record, signal, first, stop, physical)
            low, high = max(start, first * per_frame), min(end, stop * per_frame)
            part = rows[low - first * per_frame : high - first * per_frame]
            self._store(part, out[low - start : high - start], format_name)

    def _store(self, samples: np.ndarray, out: np.ndarray, format_name: str) -> None:
        bits = sample_bits(format_name)
        scale = self._settings.scale
        factor = (
            float(2 ** (1 - bits)) if scale == "pcm" else float(scale) if isinstance(scale, float) else 1.0
        )
        if out.dtype == np.int16:
            samples, factor = samples.astype(np.int16 if bits <= 16 else np.int32), 1.0
        store(samples, out, 0.0, factor)

    def _count_frames(self, record: Any, folder: str) -> tuple[int, int, tuple[str, ...]]:
        """Frames there, frames promised, what is odd."""
        declared, there = record.sig_len or 0, None
        for name in dict.fromkeys(record.file_name):
            size = file_size(os.path.join(folder, name), name)
            signals = [each for each, other in enumerate(record.file_name) if other == name]
            if record.fmt[signals[0]] in COMPRESSED:
                continue
            _, num_bytes, samples = FORMATS[record.fmt[signals[0]]]
            a_frame = sum(record.samps_per_frame[each] for each in signals)
            size -= record.byte_offset[signals[0]] or 0
            found = max(0, size) * samples // (num_bytes * a_frame)
            there = found if there is None else min(there, found)
        there = declared if there is None else there
        skew = max(each or 0 for each in record.skew)
        frames = min(declared, there) if declared else there
        if frames < declared:
            frames -= skew  # signals that lag are read from beyond
        if frames <= 0:
            raise empty(f"the header promises {declared} samples a signal, and none is there")
        if not declared or frames == declared:
            return frames, frames, ()
        message = f"the header promises {declared} samples a signal, {frames} are there"
        if self._settings.strict:
            raise RejectError(Reason.TRUNCATED, f"{message}: a sample file is cut short")
        return frames, declared, (message,)

    def _describe(self, record: Any, signals: list[int], frames: int, rate: float | None) -> Description:
        formats = {record.fmt[signal] for signal in signals}
        units = [record.units[signal] or "mV" for signal in signals]  # mV where the header says nothing
        attributes = comments_of(record.comments)
        if len(set(units)) > 1 and self._physical:
            attributes["units"] = ",".join(units)[:1000]
        bits = max(map(sample_bits, formats))
        per_frame = record.samps_per_frame[signals[0]]
        return Description(
            format=self.name,
            sample_rate=rate,
            channels=len(signals),
            frames=frames,
            dtype="<i2" if bits == 16 else f"int{bits}",
            locator=f"{frames // per_frame}:{per_frame}:{','.join(map(str, signals))}",
            channel_names=tuple(record.sig_name[signal] or f"{signal}" for signal in signals),
            unit=(units[0] if len(set(units)) == 1 else None)
            if self._physical
            else "counts"
            if self._settings.scale == "none"
            else None,
            start_time_ns=start_ns(record),
            attributes=attributes,
        )

    def _rows(
        self, file: BinaryIO, record: Any, signal: int, first: int, stop: int, physical: bool
    ) -> np.ndarray:
        """Samples of a signal in frames `first` to `stop`: float64 in physical units, or int64 as stored."""
        several = max(record.samps_per_frame) > 1
        found = call(
            "rdrecord", record_path(file), sampfrom=first, sampto=stop, channels=[signal], physical=physical,
            smooth_frames=not several,
        )  # fmt: skip
        if several:
            return (found.e_p_signal if physical else found.e_d_signal)[0]
        return (found.p_signal if physical else found.d_signal)[:, 0]
