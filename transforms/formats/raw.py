"""Headerless samples: what they are comes from the settings alone."""

from __future__ import annotations

from typing import BinaryIO, ClassVar

import numpy as np

from ..elements import Description
from ..rejects import Reason, RejectError
from .base import ReadSettings, not_int16, short_read


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
        """Reads the range's bytes in one call, straight into `out` where they need no conversion."""
        file.seek(self._settings.raw_header_bytes + start * self._frame_bytes)
        if self._as_stored and out.dtype == np.float32:
            self._fill(file, out.data.cast("B"), start)
            return
        frames = np.empty((len(out), self._settings.raw_channels), self._dtype)
        self._fill(file, frames.data.cast("B"), start)
        samples = frames[:, channel]
        if out.dtype == np.int16:
            if self._dtype.newbyteorder("=") != np.int16:
                raise not_int16(self._dtype.str)
            out[:] = samples
        elif (self._offset, self._factor) == (0.0, 1.0):
            with np.errstate(over="ignore"):  # beyond float32 becomes infinite, and is rejected as such
                out[:] = samples
        else:
            with np.errstate(over="ignore"):
                out[:] = (samples.astype(np.float64) - self._offset) * self._factor

    def _fill(self, file: BinaryIO, buffer: memoryview, start: int) -> None:
        done = 0
        while done < len(buffer):
            count = file.readinto(buffer[done:])  # type: ignore[attr-defined]
            if not count:
                raise short_read(start, len(buffer) // self._frame_bytes, done // self._frame_bytes)
            done += count


def _scaling(scale: str | float, dtype: np.dtype) -> tuple[float, float]:
    """(offset, factor): samples are (stored − offset) × factor."""
    if isinstance(scale, float):
        return 0.0, scale
    if scale == "pcm" and dtype.kind in "iu":
        full_scale = float(2 ** (8 * dtype.itemsize - 1))
        return (full_scale if dtype.kind == "u" else 0.0), 1.0 / full_scale
    return 0.0, 1.0
