"""FLAC, read by range, and Ogg (Vorbis, Opus, FLAC), decoded whole, once."""

from __future__ import annotations

import dataclasses
from typing import BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..base import ReadSettings
from .chunks import Bytes
from .sndfile import AS_IT_IS, Edits
from .sound import SoundReader

_FLAC_TOTAL = 21  # of STREAMINFO, always the first block: its total of samples is the low 36 bits of 5 bytes
_FLAC_HEADER_BYTES = 42
_OGG_PAGE_BYTES = 27 + 255 + 255 * 255
_OGG_LAST = 4


class StreamReader:
    """A format that libsndfile decodes from its first byte."""

    name: ClassVar[str]
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        self._settings = settings
        self._sounds = SoundReader(self.name, settings)

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """From the header, held to what can be decoded."""
        assert file is not None
        if size == 0:
            raise RejectError(Reason.EMPTY, "the file has 0 bytes")
        return self._describe(file, size)

    def _describe(self, file: BinaryIO, size: int) -> list[Description | RejectError]:
        return self._sounds.describe(file, size)

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Decodes the range."""
        self._sounds.read(file, locator, channel, start, out)


class FlacReader(StreamReader):
    """FLAC streams. A stream that is cut short or damaged is corrupt, whatever of it could be decoded.

    Where its header leaves the length open, as when it was written to a pipe, the locator holds it.
    """

    name: ClassVar[str] = "flac"
    suffixes: ClassVar[tuple[str, ...]] = (".flac", ".fla")

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the stream marker."""
        return head[:4] == b"fLaC"

    def _describe(self, file: BinaryIO, size: int) -> list[Description | RejectError]:
        head = Bytes(file).at(0, _FLAC_HEADER_BYTES)
        if head[:4] == b"fLaC" and len(head) < _FLAC_HEADER_BYTES:
            raise RejectError(Reason.CORRUPT, f"the file is cut short within its header ({size} bytes)")
        if head[:4] != b"fLaC" or _flac_total(head):
            return self._sounds.describe(file, size)
        frames = self._sounds.count_frames(file, size)
        if not frames:
            raise RejectError(Reason.EMPTY, f"the header is there, but no sample follows ({size} bytes)")
        warning = (
            f"the header leaves the length open, as when it is written to a pipe: {frames} frames are decoded"
        )
        edits = _flac_edits(head, frames)
        return self._sounds.describe(file, size, edits=edits, warnings=(warning,), locator=str(frames))

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Seeks to the range and decodes it."""
        edits = _flac_edits(Bytes(file).at(0, _FLAC_HEADER_BYTES), int(locator)) if locator else AS_IT_IS
        self._sounds.read(file, locator, channel, start, out, edits=edits)


def _flac_total(head: bytes) -> int:
    return int.from_bytes(head[_FLAC_TOTAL : _FLAC_TOTAL + 5], "big") & ((1 << 36) - 1)


def _flac_edits(head: bytes, frames: int) -> Edits:
    """What gives a stream its length, so that libsndfile can seek in it."""
    bits = int.from_bytes(head[_FLAC_TOTAL : _FLAC_TOTAL + 5], "big") >> 36 << 36
    return Edits({_FLAC_TOTAL: (bits | frames).to_bytes(5, "big")})


class OggReader(StreamReader):
    """The first stream of Ogg files: Vorbis, Opus or FLAC."""

    name: ClassVar[str] = "ogg"
    suffixes: ClassVar[tuple[str, ...]] = (".ogg", ".oga", ".opus")

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the first page: its marker, and the codec of its packet."""
        packet = head[27 + head[26] :] if len(head) > 27 else b""
        return head[:5] == b"OggS\0" and packet.startswith((b"\x01vorbis", b"OpusHead", b"\x7fFLAC"))

    def _describe(self, file: BinaryIO, size: int) -> list[Description | RejectError]:
        (described,) = self._sounds.describe(file, size)
        assert isinstance(described, Description)
        return [dataclasses.replace(described, warnings=self._end_warnings(file, size))]

    def _end_warnings(self, file: BinaryIO, size: int) -> tuple[str, ...]:
        """Whether the last whole page is marked as the last one; pages count their samples, so it is used up to there."""
        first = max(0, size - 2 * _OGG_PAGE_BYTES)
        tail = Bytes(file).bulk(first, size - first)
        position = len(tail)
        while (position := tail.rfind(b"OggS\0", 0, position)) >= 0:
            header = tail[position : position + 27]
            lacing = tail[position + 27 : position + 27 + header[26]] if len(header) == 27 else b""
            end = position + 27 + len(lacing) + sum(lacing)
            if len(header) < 27 or len(lacing) < header[26] or end > len(tail):
                continue  # a page that is cut short
            if header[5] & _OGG_LAST:
                return ()
            break
        message = "the stream has no last page: it is cut short, or its recording did not end"
        if self._settings.strict:
            raise RejectError(Reason.TRUNCATED, f"{message}: strict rejects it")
        return (f"{message}; what its whole pages hold is used",)
