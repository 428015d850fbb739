"""Files opened by libsndfile: what it sees of them, and what becomes of its errors."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from ...rejects import Reason, RejectError
from .pcm import read_into

_TAG_BYTES = 128  # of ID3v1, at the end of MP3 files
_OWN_FORMATS = {"wav": ("WAV", "WAVEX", "W64", "RF64"), "aiff": ("AIFF",), "au": ("AU",), "caf": ("CAF",)}
_UNSUPPORTED = "its samples are encoded in a way that is not supported: convert it to PCM"
_CLEARER = {
    "unimplemented format": _UNSUPPORTED,
    "unsupported encoding": _UNSUPPORTED,
    "SF_INFO struct incomplete": "its header gives no usable sample rate or channel count",
    "Format not recognised": "it is damaged, or of another format",
    "unknown format": "it is damaged, or of another format",
    "unknown error in flac": "it is damaged",
    "malformed": "its header is damaged",
    "File does not exist": "it ends within its first frames, or they are damaged",
    "Internal psf_fseek": "it ends within its first frames, or they are damaged",
}


@dataclasses.dataclass(frozen=True)
class Edits:
    """What libsndfile sees in place of a file's header.

    Attributes:
      patches: position → bytes that replace the file's.
      size: of the file, or None for its own; what is added ends at once, but for zeros where a tag may be.
      frames: samples per channel, or None where libsndfile knows.
    """

    patches: Mapping[int, bytes] = dataclasses.field(default_factory=dict)
    size: int | None = None
    frames: int | None = None


AS_IT_IS = Edits()


@contextlib.contextmanager
def open_sound(
    file: BinaryIO, size: int, format_name: str, edits: Edits = AS_IT_IS, codec: str = ""
) -> Iterator[Any]:
    """The sound in a file.

    Args:
      file, size: where it is, and its bytes.
      format_name: what it has to be.
      edits: what libsndfile sees instead.
      codec: for the message where it is not supported.

    Raises:
      OSError: reading fails.
      RejectError: libsndfile does not understand the file.
    """
    import soundfile

    formats = _OWN_FORMATS.get(format_name, (format_name.upper(),))
    view = _View(file, size, edits)
    try:
        with _sound_class()(view) as opened:
            if opened.format not in formats:
                raise RejectError(
                    Reason.BAD_FORMAT, f"it is no {format_name} file but {opened.format}: set input_format"
                )
            if opened.subtype == "ALAC_20":  # one channel of two comes out 2**15 too low, in libsndfile 1.2.2
                raise RejectError(
                    Reason.BAD_FORMAT,
                    "20-bit ALAC is not decoded rightly by libsndfile: convert it to 24 bits",
                )
            yield opened
    except soundfile.LibsndfileError as error:
        if view.error:
            raise view.error from error
        said = error.error_string.strip().rstrip(".")
        message = next((text for part, text in _CLEARER.items() if part in said), said or "it is damaged")
        if codec and message == _UNSUPPORTED:
            message = f"its samples are compressed as {codec}, which is not supported: convert it to PCM"
        else:
            message = f"libsndfile cannot read it{f' ({codec})' if codec else ''}: {message}"
        raise RejectError(Reason.BAD_FORMAT, message) from error
    except RejectError:
        if view.error:
            raise view.error from None
        raise
    if view.error:
        raise view.error


class _View:
    """A file as libsndfile sees it: edited, and errors kept, since its callbacks cannot raise."""

    def __init__(self, file: BinaryIO, size: int, edits: Edits):
        self._file, self._patches = file, edits.patches
        self._size = size if edits.size is None else edits.size
        self._position = 0
        self.error: OSError | None = None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Goes there, unless it is before the start."""
        target = offset + (0, self._position, self._size)[whence]
        if target >= 0:
            self._position = target
        return self._position

    def tell(self) -> int:
        """Where it is."""
        return self._position

    def readinto(self, buffer: memoryview) -> int:
        """As the file's, but gives nothing where it fails."""
        buffer = memoryview(buffer).cast("B")
        try:
            self._file.seek(self._position)
            count = read_into(self._file, buffer)
            if not count and self._size - _TAG_BYTES <= self._position < self._size:
                count = min(len(buffer), self._size - self._position)
                buffer[:count] = bytes(count)
        except OSError as error:
            self.error = error
            return 0
        for position, content in self._patches.items():
            for index, byte in enumerate(content, position - self._position):
                if 0 <= index < count:
                    buffer[index] = byte
        self._position += count
        return count

    def read(self, size: int = -1) -> bytes:
        """As the file's."""
        buffer = bytearray(max(0, self._size - self._position) if size < 0 else size)
        return bytes(buffer[: self.readinto(memoryview(buffer))])

    def write(self, content: bytes) -> int:
        """Nothing: libsndfile only reads."""
        return 0


@functools.cache
def _sound_class() -> Any:
    import soundfile

    class Sound(soundfile.SoundFile):
        """Goes straight on: soundfile's own seek after each read fails at the end of some streams."""

        def seekable(self) -> bool:
            return False

        def can_seek(self) -> bool:
            return super().seekable()

    return Sound
