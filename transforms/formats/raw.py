"""Headerless samples: what they are comes from the settings alone."""

from __future__ import annotations

from typing import BinaryIO, ClassVar

import numpy as np

from ..elements import Description
from ..rejects import Reason, RejectError
from .base import ReadSettings, not_int16, short_read

_PIECE_BYTES = 4 << 20
_CONTAINERS = (b"RIFF", b"RIFX", b"RF64", b"BW64", b"riff", b"fLaC", b"OggS", b"FORM")


class RawReader:
    """Interleaved samples after a header of fixed length.

    Raises:
      ValueError: raw_dtype or sample_rate is not set; nothing in a headerless file says them.
    """

    name: ClassVar[str] = "raw"
    suffixes: ClassVar[tuple[str, ...]] = (".raw",)
    needs_header: ClassVar[bool] = False  # the size in the listing says it all, so nothing is opened to plan

    def __init__(self, settings: ReadSettings):
        if settings.raw_dtype is None or settings.sample_rate is None:
            missing = "raw_dtype" if settings.raw_dtype is None else "sample_rate"
            raise ValueError(
                f"{missing} is not set, and headerless files do not say it: give both, for example "
                "--raw-dtype '<f4' --sample-rate 25600"
            )
        self._settings = settings
        self._dtype = np.dtype(settings.raw_dtype)
        self._frame_bytes = self._dtype.itemsize * settings.raw_channels
        self._offset, self._factor = _scaling(settings.scale, self._dtype)
        self._as_stored = (
            self._dtype == np.float32
            and self._dtype.isnative
            and settings.raw_channels == 1
            and (self._offset, self._factor) == (0.0, 1.0)
        )

    @staticmethod
    def matches(head: bytes) -> bool:
        """Never: nothing in the content says that a file is headerless."""
        return False

    def describe(self, file: BinaryIO | None, size: int) -> Description:
        """Frames follow from the size: (size − header) / (channels × bytes a sample)."""
        settings = self._settings
        header = settings.raw_header_bytes
        if size <= header:
            raise RejectError(
                Reason.EMPTY,
                f"the file has {size} bytes and raw_header_bytes={header}: no sample is left"
                if header
                else "the file has 0 bytes",
            )
        frames, rest = divmod(size - header, self._frame_bytes)
        if rest and (settings.partial_frame == "reject" or frames == 0):
            raise RejectError(
                Reason.PARTIAL_FRAME,
                f"{size} bytes less a header of {header} are no whole number of frames of {self._frame_bytes} "
                f"bytes ({self._dtype.str} × {settings.raw_channels} channels), {rest} are left over: check "
                "raw_dtype, raw_channels and raw_header_bytes, or set partial_frame=drop",
            )
        return Description(
            format=self.name,
            sample_rate=settings.sample_rate,
            channels=settings.raw_channels,
            frames=frames,
            dtype=self._dtype.str,
            frames_declared=frames,
            warnings=(f"{rest} bytes of a partial frame at the end left out",) if rest else (),
        )

    def read(self, file: BinaryIO, channel: int, start: int, out: np.ndarray) -> None:
        """Reads the range's bytes, straight into `out` where they need no conversion, else by pieces."""
        settings = self._settings
        file.seek(settings.raw_header_bytes + start * self._frame_bytes)
        if self._as_stored and out.dtype == np.float32:
            self._fill(file, out.data.cast("B"), start)
            _refuse_container(out, start + settings.raw_header_bytes)
            return
        if out.dtype == np.int16 and self._dtype.newbyteorder("=") != np.int16:
            raise not_int16(self._dtype.str)
        piece = max(1, _PIECE_BYTES // self._frame_bytes)
        for first in range(0, len(out), piece):
            part = out[first : first + piece]
            frames = np.empty((len(part), settings.raw_channels), self._dtype)
            self._fill(file, frames.data.cast("B"), start + first)
            _refuse_container(frames, start + first + settings.raw_header_bytes)
            samples = frames[:, channel]
            with np.errstate(over="ignore"):  # beyond float32 becomes infinite, and is rejected as such
                if out.dtype == np.int16 or (self._offset, self._factor) == (0.0, 1.0):
                    part[:] = samples
                else:
                    part[:] = (samples.astype(np.float64) - self._offset) * self._factor

    def _fill(self, file: BinaryIO, buffer: memoryview, start: int) -> None:
        done = 0
        while done < len(buffer):
            count = file.readinto(buffer[done:])  # type: ignore[attr-defined]
            if not count:
                raise short_read(start, len(buffer) // self._frame_bytes, done // self._frame_bytes)
            done += count


def _refuse_container(samples: np.ndarray, position: int) -> None:
    """A file that begins as an audio container does is not headerless, whatever its name says."""
    if position == 0 and samples.data.cast("B")[:4] in _CONTAINERS:
        magic = bytes(samples.data.cast("B")[:4]).decode("ascii")
        raise RejectError(
            Reason.BAD_FORMAT,
            f"the file begins with {magic} as an audio file does, so it is not headerless: give it as a glob with "
            "input_format=wav, or set raw_header_bytes to skip its header",
        )


def _scaling(scale: str | float, dtype: np.dtype) -> tuple[float, float]:
    """(offset, factor): samples are (stored − offset) × factor."""
    if isinstance(scale, float):
        return 0.0, scale
    if scale == "pcm" and dtype.kind in "iu":
        full_scale = float(2 ** (8 * dtype.itemsize - 1))
        return (full_scale if dtype.kind == "u" else 0.0), 1.0 / full_scale
    return 0.0, 1.0
