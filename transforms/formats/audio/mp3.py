"""MP3, decoded whole, once."""

from __future__ import annotations

from typing import BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from .chunks import Bytes
from .sndfile import AS_IT_IS, Edits
from .streams import StreamReader

_HEAD_BYTES = 4096  # that `matches` sees
_MPEG1_KBITS = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_MPEG2_KBITS = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_MPEG1_SAMPLES, _MPEG2_SAMPLES = 1152, 576  # of a frame
_MOST_FRAME_BYTES = 1441
_MOST_PADDING = 1 << 20  # zeros between the stream and a tag
_TAGS = (b"TAG", b"ID3", b"APETAGEX", b"LYRICS")


class Mp3Reader(StreamReader):
    """MPEG-1 and 2 layer III."""

    name: ClassVar[str] = "mp3"
    suffixes: ClassVar[tuple[str, ...]] = (".mp3",)

    @staticmethod
    def matches(head: bytes) -> bool:
        """By two frames one after the other, at the start or after an ID3v2 tag; or by a tag that fills the head."""
        position = _id3_bytes(head)
        if position + 4 > len(head):
            return position > 0 and len(head) >= _HEAD_BYTES
        first = head[position : position + 4]
        length = _mp3_frame_bytes(first)
        if length is None:
            return False
        second = head[position + length : position + length + 4]
        if len(second) < 4:
            return position > 0 and len(head) >= _HEAD_BYTES
        # version, layer and sample rate stay
        return _mp3_frame_bytes(second) is not None and all(
            (a ^ b) & mask == 0 for a, b, mask in zip(first, second, b"\xff\xfe\x0c\0", strict=True)
        )

    def _describe(self, file: BinaryIO, size: int) -> list[Description | RejectError]:
        data = Bytes(file)
        position = _first_frame(data)
        frame = data.at(position, 200)
        if _mp3_frame_bytes(frame[:4]) is None or _tells_length(frame):
            return self._sounds.describe(file, size)
        # libsndfile takes the first frame's bit rate for that of all, and leaves out what it did not expect
        frames, warnings = self._walk(data, position, size)
        edits = _length(frame, frames)
        return self._sounds.describe(file, size, edits=edits, warnings=warnings, locator=str(frames))

    def _walk(self, data: Bytes, position: int, size: int) -> tuple[int, tuple[str, ...]]:
        """(MPEG frames, warnings) from there to the end of the stream.

        Raises:
          RejectError: what comes after a frame is neither a frame nor the end.
        """
        frames = 0
        while position < size:
            header = data.at(position, 8)
            length = _mp3_frame_bytes(header[:4])
            if length is None:
                rest = data.bulk(position, min(size - position, _MOST_PADDING)).lstrip(b"\0")
                if not rest or rest.startswith(_TAGS):
                    break
                raise RejectError(
                    Reason.CORRUPT,
                    f"the stream loses sync at byte {position} of {size}, after {frames} MPEG frames",
                )
            if position + length > size:
                message = f"the last MPEG frame is cut short: {size - position} of {length} bytes are there"
                if self._settings.strict:
                    raise RejectError(Reason.TRUNCATED, f"{message}: strict rejects it")
                return frames, (f"{message}; it is left out",)
            position += length
            frames += 1
        return frames, ()

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Decodes the whole stream once, and takes the range from it."""
        edits = AS_IT_IS
        if locator:
            data = Bytes(file)
            edits = _length(data.at(_first_frame(data), 4), int(locator))
        self._sounds.read(file, locator, channel, start, out, edits=edits)


def _first_frame(data: Bytes) -> int:
    """Where the first frame should be: after the tag and zeros."""
    position = _id3_bytes(data.at(0, 10))
    near = data.at(position, _HEAD_BYTES)
    return position + len(near) - len(near.lstrip(b"\0"))


def _id3_bytes(head: bytes) -> int:
    """Length of the ID3v2 tag at the start, 0 where there is none."""
    if head[:3] != b"ID3" or len(head) < 10 or max(head[6:10]) >= 0x80 or 0xFF in head[3:5]:
        return 0
    return 10 + (head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9])


def _tells_length(frame: bytes) -> bool:
    """Whether the first frame holds the number of frames in place of sound."""
    at = _tag_position(frame)
    xing = (
        frame[at : at + 4] in (b"Xing", b"Info") and frame[at + 7 : at + 8] != b"" and frame[at + 7] & 1 == 1
    )
    return xing or frame[36:40] == b"VBRI"


def _length(header: bytes, frames: int) -> Edits:
    """What has libsndfile go on to the last frame: it takes a file for as long as the first frame's bit rate says."""
    samples = _MPEG1_SAMPLES if header[1] & 0x08 else _MPEG2_SAMPLES
    return Edits(size=frames * _MOST_FRAME_BYTES + (1 << 16), frames=frames * samples)


def _tag_position(header: bytes) -> int:
    """Where the tag stands in a frame: after its side information."""
    mpeg1, mono = header[1] & 0x08 != 0, header[3] >> 6 == 3
    return 4 + ((17 if mono else 32) if mpeg1 else (9 if mono else 17))


def _mp3_frame_bytes(header: bytes) -> int | None:
    """Length of the layer III frame that begins with these four bytes, or None where none can."""
    if len(header) < 4:
        return None
    bits = int.from_bytes(header, "big")
    version, layer, kbits, rate = bits >> 19 & 3, bits >> 17 & 3, bits >> 12 & 15, bits >> 10 & 3
    if bits >> 21 != 0x7FF or version == 1 or layer != 1 or kbits in (0, 15) or rate == 3:
        return None
    hertz = (44100, 48000, 32000)[rate] // {3: 1, 2: 2, 0: 4}[version]
    table, samples = (_MPEG1_KBITS, 144) if version == 3 else (_MPEG2_KBITS, 72)
    return samples * 1000 * table[kbits - 1] // hertz + (bits >> 9 & 1)
