"""Compressed sound through libsndfile: by range where its seeking is exact, else decoded whole once."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..base import ReadSettings, not_int16, short_read
from ..samples import store
from ..whole import DecodedCache, require_decodable
from .pcm import unit
from .sndfile import AS_IT_IS, Edits, open_sound

_BLOCK_FRAMES = 1 << 16
_COUNTED_FRAMES = 1 << 12  # an error loses its block, and says where it is
_UNKNOWN_FRAMES = 1 << 60  # libsndfile says 2**63 - 1 where a stream does not tell its length

# Bits of what comes out of the decoder; the other subtypes decode to floats.
_BITS = {
    "PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32,
    "ALAC_16": 16, "ALAC_24": 24, "ALAC_32": 32,
    "MS_ADPCM": 16, "IMA_ADPCM": 16, "VOX_ADPCM": 16, "GSM610": 16, "G721_32": 16, "G723_24": 16, "G723_40": 16,
    "NMS_ADPCM_16": 16, "NMS_ADPCM_24": 16, "NMS_ADPCM_32": 16, "DWVW_12": 12, "DWVW_16": 16, "DWVW_24": 24,
}  # fmt: skip
# After a seek these decode to the same bits as from the start; Vorbis, Opus and MP3 do not.
_SEEK_EXACTLY = ("PCM_", "ALAC_", "MS_ADPCM", "IMA_ADPCM")


class SoundReader:
    """Describes and reads what libsndfile decodes.

    Args:
      name: of the format.
      settings: of the run.
    """

    def __init__(self, name: str, settings: ReadSettings):
        self._name = name
        self._settings = settings
        self._decoded = DecodedCache()

    def describe(
        self,
        file: BinaryIO,
        size: int,
        *,
        edits: Edits = AS_IT_IS,
        codec: str = "",
        warnings: tuple[str, ...] = (),
        locator: str = "",
    ) -> list[Description | RejectError]:
        """From the header, and the last sample, which a stream that is cut short does not give.

        Raises:
          RejectError: libsndfile cannot read it, or not to its end.
        """
        with open_sound(file, size, self._name, edits, codec) as opened:
            frames, channels, subtype = edits.frames or opened.frames, opened.channels, opened.subtype
            if frames <= 0:
                raise RejectError(Reason.EMPTY, f"the header is there, but no sample follows ({size} bytes)")
            if not _seeks_exactly(opened):
                require_decodable(4 * frames * channels, self._settings.decode_limit)
            # an Ogg stream has the frames of its last page; what cannot seek shows its end only when it is read
            whole = opened.format == "OGG" or not opened.can_seek() or _reaches(opened, frames)
            rate = float(opened.samplerate)
        if not whole:
            found = self.count_frames(file, size, edits=edits, most=frames)
            raise RejectError(
                Reason.CORRUPT,
                f"the stream is cut short or damaged: it can be decoded up to sample {found} of {frames}",
            )
        return [
            Description(
                format=self._name,
                sample_rate=rate,
                channels=channels,
                frames=frames,
                dtype=subtype,
                warnings=warnings,
                locator=locator,
                unit=unit(self._settings.scale, integer=subtype in _BITS),
            )
        ]

    def count_frames(
        self,
        file: BinaryIO,
        size: int,
        *,
        edits: Edits = AS_IT_IS,
        most: int = _UNKNOWN_FRAMES,
    ) -> int:
        """Samples per channel that can be decoded from the start, by decoding them.

        Args:
          file, size, edits: as for `describe`.
          most: how many the header promises; if not given, an error of the decoder is one of the stream.

        Raises:
          RejectError: there are far more than a file of that size has; or the stream is damaged.
        """
        import soundfile

        with open_sound(file, size, self._name, edits) as opened:
            # sound is rarely compressed to less than a tenth; without a bound, a small file keeps us for hours
            limit = max(self._settings.decode_limit, 64 * size)
            block = np.empty((_COUNTED_FRAMES, opened.channels), np.float32)
            found = 0
            while found < most:
                try:
                    count = len(opened.read(out=block))
                except soundfile.LibsndfileError as error:
                    if most < _UNKNOWN_FRAMES:
                        break
                    raise RejectError(
                        Reason.CORRUPT,
                        f"the stream loses sync after sample {found}: it is cut short or damaged",
                    ) from error
                found += count
                if count < len(block):
                    break
                require_decodable(4 * found * opened.channels, limit)
            return found

    def read(
        self,
        file: BinaryIO,
        locator: str,
        channel: int,
        start: int,
        out: np.ndarray,
        *,
        edits: Edits = AS_IT_IS,
    ) -> None:
        """See `Reader.read`."""
        size = file.seek(0, os.SEEK_END)
        with open_sound(file, size, self._name, edits) as opened:
            frames, subtype = edits.frames or opened.frames, opened.subtype
            if out.dtype == np.int16 and subtype not in ("PCM_16", "ALAC_16"):
                raise not_int16(subtype)
            if start + len(out) > frames:
                raise short_read(start, len(out), max(0, frames - start))
            if _seeks_exactly(opened):
                dtype = np.int16 if out.dtype == np.int16 else np.float32
                decoded = _decode_range(opened, start, len(out), dtype)
            else:
                # from the start, so that samples do not depend on where reading began
                decoded = self._decoded.get(file, locator, lambda: self._decode_whole(opened, frames))
                if len(decoded) < frames:
                    raise _lost(len(decoded), f"the header promises {frames}")
                decoded = decoded[start : start + len(out)]
        store(decoded[:, channel], out, 0.0, self._factor(subtype) if out.dtype != np.int16 else 1.0)

    def _decode_whole(self, opened: Any, frames: int) -> np.ndarray:
        """[frames, channels], or fewer where decoding fails: kept as well, so that it is not tried for each range."""
        require_decodable(4 * frames * opened.channels, self._settings.decode_limit)
        decoded, _ = _decode(opened, frames, np.float32)
        if opened.name.error:  # of reading: the next try may go well
            raise opened.name.error
        return decoded

    def _factor(self, subtype: str) -> float:
        """What to multiply libsndfile's full scale of 1 with."""
        scale = self._settings.scale
        if scale in ("auto", "pcm"):
            return 1.0
        as_stored = float(2 ** (_BITS[subtype] - 1)) if subtype in _BITS else 1.0
        return as_stored if scale == "none" else as_stored * float(scale)


def _seeks_exactly(opened: Any) -> bool:
    return opened.format != "OGG" and opened.subtype.startswith(_SEEK_EXACTLY)


def _reaches(opened: Any, frames: int) -> bool:
    """Whether the last sample can be decoded."""
    import soundfile

    if frames >= _UNKNOWN_FRAMES:
        return False
    try:
        opened.seek(frames - 1)
        return len(opened.read(out=np.empty((1, opened.channels), np.float32))) == 1
    except soundfile.LibsndfileError:
        return False


def _decode(opened: Any, count: int, dtype: type) -> tuple[np.ndarray, str]:
    """The next `count` frames, fewer where decoding fails, and why it did: [frames, channels]."""
    import soundfile

    frames = np.empty((count, opened.channels), dtype)
    found = 0
    try:
        while found < count:
            more = len(opened.read(out=frames[found : found + _BLOCK_FRAMES]))
            if not more:
                break
            found += more
    except soundfile.LibsndfileError as error:
        return frames[:found], f" ({error.error_string.strip().rstrip('.')})"
    return frames[:found], ""


def _decode_range(opened: Any, start: int, count: int, dtype: type) -> np.ndarray:
    """[count, channels] from sample `start`.

    Raises:
      RejectError: decoding fails on the way.
    """
    import soundfile

    what = f"samples {start} to {start + count} cannot all be decoded"
    try:
        if start:
            opened.seek(start)
    except soundfile.LibsndfileError as error:
        raise _lost(start, what) from error
    frames, trouble = _decode(opened, count, dtype)
    if len(frames) < count:
        raise _lost(start + len(frames), what + trouble)
    return frames


def _lost(where: int, what: str) -> RejectError:
    return RejectError(Reason.CORRUPT, f"the stream is cut short or damaged after sample {where}: {what}")
