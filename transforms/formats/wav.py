"""WAV through libsndfile: it knows the container's many variants."""

from __future__ import annotations

from typing import BinaryIO, ClassVar

import numpy as np

from ..elements import Description
from ..rejects import Reason, RejectError
from .base import ReadSettings, not_int16, short_read

_INTEGER_BITS = {"PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32}


class WavReader:
    """RIFF, RIFX, RF64 and WAVE64 files."""

    name: ClassVar[str] = "wav"
    suffixes: ClassVar[tuple[str, ...]] = (".wav", ".wave")
    needs_header: ClassVar[bool] = True

    def __init__(self, settings: ReadSettings):
        self._scale = settings.scale

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the container's first twelve bytes."""
        return (head[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64") and head[8:12] == b"WAVE") or head[
            :4
        ] == b"riff"

    def describe(self, file: BinaryIO | None, size: int) -> Description:
        """From the header; libsndfile holds frame counts to what is there."""
        assert file is not None
        if size == 0:
            raise RejectError(Reason.EMPTY, "the file has 0 bytes")
        with _open(file) as sound:
            if sound.frames == 0:
                raise RejectError(Reason.EMPTY, f"the header is there, but no sample follows ({size} bytes)")
            return Description(
                format=self.name,
                sample_rate=float(sound.samplerate),
                channels=sound.channels,
                frames=sound.frames,
                dtype=sound.subtype,
                frames_declared=sound.frames,
            )

    def read(self, file: BinaryIO, channel: int, start: int, out: np.ndarray) -> None:
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
            np.multiply(frames[:, channel], factor, out=out, casting="same_kind")

    def _factor(self, subtype: str) -> float:
        """What to multiply libsndfile's full scale of 1 with."""
        if self._scale in ("auto", "pcm"):
            return 1.0
        as_stored = float(2 ** (_INTEGER_BITS[subtype] - 1)) if subtype in _INTEGER_BITS else 1.0
        return as_stored if self._scale == "none" else as_stored * float(self._scale)


def _open(file: BinaryIO):
    import soundfile

    file.seek(0)
    try:
        return soundfile.SoundFile(file)
    except soundfile.LibsndfileError as error:
        raise RejectError(
            Reason.BAD_FORMAT, f"libsndfile cannot open it: {error.error_string.rstrip('.')}"
        ) from error
