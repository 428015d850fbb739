"""WAV through libsndfile: it knows the container's many variants."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar

import numpy as np

from ..elements import Description
from ..rejects import Reason, RejectError
from .base import ReadSettings, not_int16, short_read
from .samples import FULL_SCALE

_INTEGER_BITS = {"PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32}


class WavReader:
    """RIFF, RIFX, RF64 and WAVE64 files."""

    name: ClassVar[str] = "wav"
    suffixes: ClassVar[tuple[str, ...]] = (".wav", ".wave")
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        self._scale = settings.scale

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the container's first twelve bytes."""
        return (head[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64") and head[8:12] == b"WAVE") or head[
            :4
        ] == b"riff"

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """From the header; libsndfile holds frame counts to what is there."""
        assert file is not None
        if size == 0:
            raise RejectError(Reason.EMPTY, "the file has 0 bytes")
        with _open(file) as sound:
            if sound.frames == 0:
                raise RejectError(Reason.EMPTY, f"the header is there, but no sample follows ({size} bytes)")
            declared = _declared_frames(sound)
            warnings = (f"the header promises {declared} frames, {sound.frames} are there",)
            return [
                Description(
                    format=self.name,
                    sample_rate=float(sound.samplerate),
                    channels=sound.channels,
                    frames=sound.frames,
                    dtype=sound.subtype,
                    frames_declared=declared,
                    warnings=warnings if declared != sound.frames else (),
                    unit=FULL_SCALE,
                )
            ]

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Seeks to the range and decodes it, all channels at once since they are interleaved."""
        with _open(file) as sound:
            if out.dtype == np.int16:
                if sound.subtype != "PCM_16":
                    raise not_int16(sound.subtype)
                factor, dtype = 1, "int16"
            else:
                factor, dtype = self._factor(sound.subtype), "float32"
            if start > sound.frames:
                raise short_read(start, len(out), 0)
            sound.seek(start)
            # float32 holds 24 bits: deeper samples are rounded once, by libsndfile, from the whole value
            frames = sound.read(len(out), dtype=dtype, always_2d=True)
        if len(frames) < len(out):
            raise short_read(start, len(out), len(frames))
        with np.errstate(over="ignore"):  # beyond float32 becomes infinite, and is rejected as such
            np.multiply(frames[:, channel], factor, out=out, casting="same_kind")

    def _factor(self, subtype: str) -> float:
        """What to multiply libsndfile's full scale of 1 with."""
        if self._scale in ("auto", "pcm"):
            return 1.0
        as_stored = float(2 ** (_INTEGER_BITS[subtype] - 1)) if subtype in _INTEGER_BITS else 1.0
        return as_stored if self._scale == "none" else as_stored * float(self._scale)


def _declared_frames(sound: Any) -> int:
    """Frames by the header's own data size; libsndfile notes in its log where it holds it to what is there."""
    noted = re.search(r"^\s*data : (\d+) \(should be (\d+)\)", sound.extra_info, re.MULTILINE)
    if not noted or not int(noted[2]):
        return sound.frames
    frame_bytes = int(noted[2]) / sound.frames
    return round(int(noted[1]) / frame_bytes)


class _Watched:
    """A file whose errors are kept: libsndfile reads through callbacks that cannot raise."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self.error: OSError | None = None
        self.seek, self.tell = file.seek, file.tell

    def readinto(self, buffer: memoryview) -> int:
        """As the file's, but gives nothing where it fails."""
        try:
            return self._file.readinto(buffer)  # type: ignore[attr-defined]
        except OSError as error:
            self.error = error
            return 0

    def read(self, size: int = -1) -> bytes:
        """As the file's, but gives nothing where it fails."""
        try:
            return self._file.read(size)
        except OSError as error:
            self.error = error
            return b""


@contextlib.contextmanager
def _open(file: BinaryIO) -> Iterator[Any]:
    """The sound in a file.

    Raises:
      OSError: reading fails.
      RejectError: libsndfile does not understand the file.
    """
    import soundfile

    file.seek(0)
    watched = _Watched(file)
    try:
        with soundfile.SoundFile(watched) as sound:  # type: ignore[arg-type]
            yield sound
    except soundfile.LibsndfileError as error:
        if watched.error:
            raise watched.error from error
        message = f"libsndfile cannot read it: {error.error_string.rstrip('.')}"
        raise RejectError(Reason.BAD_FORMAT, message) from error
    if watched.error:
        raise watched.error
