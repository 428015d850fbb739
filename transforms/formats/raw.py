"""Headerless samples: what they are comes from the settings alone."""

from __future__ import annotations

from typing import BinaryIO, ClassVar

import numpy as np

from ..elements import Description
from ..rejects import Reason, RejectError
from .base import ReadSettings, short_read
from .samples import scaling, store

_PIECE_BYTES = 4 << 20
_CONTAINERS = (b"RIFF", b"RIFX", b"RF64", b"BW64", b"riff", b"fLaC", b"OggS", b"FORM")


class RawReader:
    """Samples after a header and before a footer of fixed lengths.

    Raises:
      ValueError: raw_dtype is not set; nothing in a headerless file says it.
    """

    name: ClassVar[str] = "raw"
    suffixes: ClassVar[tuple[str, ...]] = (".raw",)
    needs_header: ClassVar[bool] = False  # the size in the listing says it all, so nothing is opened to plan
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        if settings.raw_dtype is None:
            raise ValueError(
                "raw_dtype is not set, and headerless files do not say it: give it with the sample rate, for example "
                "--raw-dtype '<f4' --sample-rate 25600"
            )
        self._settings = settings
        self._dtype = np.dtype(settings.raw_dtype)
        self._frame_bytes = self._dtype.itemsize * settings.raw_channels
        self._scaling = scaling(settings.scale, self._dtype)
        self._planar = settings.raw_layout == "planar" and settings.raw_channels > 1
        self._as_stored = (
            self._dtype == np.float32
            and self._dtype.isnative
            and (settings.raw_channels == 1 or self._planar)
            and self._scaling == (0.0, 1.0)
        )

    @staticmethod
    def matches(head: bytes) -> bool:
        """Never: nothing in the content says that a file is headerless."""
        return False

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """Frames follow from the size: (size − header − footer) / (channels × bytes a sample)."""
        settings = self._settings
        around = settings.raw_header_bytes + settings.raw_footer_bytes
        if size <= around:
            raise RejectError(
                Reason.EMPTY,
                f"the file has {size} bytes, raw_header_bytes={settings.raw_header_bytes} and "
                f"raw_footer_bytes={settings.raw_footer_bytes}: no sample is left"
                if around
                else "the file has 0 bytes",
            )
        frames, rest = divmod(size - around, self._frame_bytes)
        drop = settings.partial_frame == "drop" and not settings.strict and not self._planar
        if rest and (not drop or frames == 0):
            cure = "or set partial_frame=drop"
            if settings.partial_frame == "drop":
                cure = "since strict, planar channels and files below one frame allow no drop"
            raise RejectError(
                Reason.PARTIAL_FRAME,
                f"{size} bytes less a header and footer of {around} are no whole number of frames of "
                f"{self._frame_bytes} bytes ({self._dtype.str} × {settings.raw_channels} channels), {rest} are left "
                f"over: check raw_dtype, raw_channels and raw_header_bytes, {cure}",
            )
        return [
            Description(
                format=self.name,
                sample_rate=None,
                channels=settings.raw_channels,
                frames=frames,
                dtype=self._dtype.str,
                warnings=(f"{rest} bytes of a partial frame at the end left out",) if rest else (),
                locator=str(frames) if self._planar else "",
                is_complex=self._dtype.kind == "c",
            )
        ]

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Reads the range's bytes, straight into `out` where they need no conversion, else by pieces."""
        settings = self._settings
        if self._planar:
            first = (channel * int(locator) + start) * self._dtype.itemsize
            channels, channel = 1, 0
        else:
            first, channels = start * self._frame_bytes, settings.raw_channels
        position = settings.raw_header_bytes + first
        file.seek(position)
        if self._as_stored and out.dtype == np.float32:
            self._fill(file, out.data.cast("B"), start)
            _refuse_container(out, position)
            return
        piece = max(1, _PIECE_BYTES // (channels * self._dtype.itemsize))
        for first in range(0, len(out), piece):
            part = out[first : first + piece]
            frames = np.empty((len(part), channels), self._dtype)
            self._fill(file, frames.view(np.uint8).data.cast("B"), start + first)
            _refuse_container(frames, position + first)
            store(frames[:, channel], part, *self._scaling)

    def _fill(self, file: BinaryIO, buffer: memoryview, start: int) -> None:
        done = 0
        while done < len(buffer):
            count = file.readinto(buffer[done:])  # type: ignore[attr-defined]
            if not count:
                raise short_read(start, len(buffer) // self._frame_bytes, done // self._frame_bytes)
            done += count


def _refuse_container(samples: np.ndarray, position: int) -> None:
    """A file that begins as an audio container does is not headerless, whatever its name says."""
    first = samples.reshape(-1)[:4].tobytes()[:4] if position == 0 else b""
    if first in _CONTAINERS:
        magic = first.decode("ascii")
        raise RejectError(
            Reason.BAD_FORMAT,
            f"the file begins with {magic} as an audio file does, so it is not headerless: give it as a glob with "
            "input_format=wav, or set raw_header_bytes to skip its header",
        )
