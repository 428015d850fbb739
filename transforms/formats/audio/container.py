"""What the readers of audio containers have in common: a layout from the header, samples by range."""

from __future__ import annotations

import abc
from typing import BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..base import ReadSettings
from .chunks import Bytes, Form, only_chunks_follow
from .pcm import Layout, read_range, unit
from .sndfile import AS_IT_IS, Edits
from .sound import SoundReader


class ContainerReader(abc.ABC):
    """Reads uncompressed samples itself; what is compressed goes through libsndfile."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        self._settings = settings
        self._sounds = SoundReader(self.name, settings)

    @abc.abstractmethod
    def layout(self, data: Bytes, size: int, *, strict: bool) -> Layout:
        """Where a file's samples are.

        Raises:
          RejectError: the file cannot be used.
        """

    def edits(self, data: Bytes, layout: Layout) -> Edits:
        """What libsndfile has to see in place of a header's wrong numbers."""
        return AS_IT_IS

    def tail_warnings(self, data: Bytes, layout: Layout, size: int) -> tuple[str, ...]:
        """About bytes after the samples that do not belong there."""
        return ()

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """From the header, held to what is there."""
        assert file is not None
        if size == 0:
            raise RejectError(Reason.EMPTY, "the file has 0 bytes")
        data = Bytes(file)
        layout = self.layout(data, size, strict=self._settings.strict)
        warnings = layout.warnings + self.tail_warnings(data, layout, size)
        if layout.encoding is None:
            edits = self.edits(data, layout)
            return self._sounds.describe(file, size, edits=edits, codec=layout.codec, warnings=warnings)
        declared = None if layout.declared_bytes is None else layout.declared_bytes // layout.frame_bytes
        return [
            Description(
                format=self.name,
                sample_rate=layout.sample_rate,
                channels=layout.channels,
                frames=layout.frames,
                dtype=layout.encoding.name,
                frames_declared=None if declared == layout.frames else declared,
                warnings=warnings,
                unit=unit(self._settings.scale, integer=layout.encoding.kind != "f"),
            )
        ]

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Seeks to the range and reads its bytes, all channels at once since they are interleaved."""
        size = file.seek(0, 2)
        data = Bytes(file)
        layout = self.layout(data, size, strict=False)
        if layout.encoding is None:
            self._sounds.read(file, locator, channel, start, out, edits=self.edits(data, layout))
        else:
            read_range(file, layout, self._settings.scale, channel, start, out)


def chunk_tail_warnings(data: Bytes, layout: Layout, size: int, form: Form) -> tuple[str, ...]:
    """Where something other than chunks of a form follows the samples."""
    length = layout.declared_bytes or size
    follow = size - layout.offset - length
    if follow <= 1 or only_chunks_follow(data, layout.offset, length, size, form):
        return ()
    return chunk_tail_warning(follow)


def chunk_tail_warning(follow: int) -> tuple[str, ...]:
    """The warning that `follow` bytes after the samples are no chunks."""
    return (f"{follow} bytes after the samples that the header declares are left out: they are no chunks",)
