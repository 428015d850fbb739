"""WAV: the walk over its chunks is in riff.py, the samples are read in pcm.py."""

from __future__ import annotations

from typing import ClassVar

from .chunks import Bytes
from .container import ContainerReader, chunk_tail_warning
from .pcm import Layout
from .riff import chunks_follow, is_riff, length_patch, riff_layout
from .sndfile import Edits


class WavReader(ContainerReader):
    """RIFF, RIFX, RF64, BW64 and WAVE64 files."""

    name: ClassVar[str] = "wav"
    suffixes: ClassVar[tuple[str, ...]] = (".wav", ".wave", ".bwf", ".rf64", ".w64")

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the container's first bytes."""
        return is_riff(head)

    def layout(self, data: Bytes, size: int, *, strict: bool) -> Layout:
        """See `riff_layout`."""
        return riff_layout(data, size, strict=strict)

    def edits(self, data: Bytes, layout: Layout) -> Edits:
        """The true length of the samples, where the header's is another one."""
        return Edits(length_patch(data, layout))

    def tail_warnings(self, data: Bytes, layout: Layout, size: int) -> tuple[str, ...]:
        """Where something other than chunks follows the samples, such as more samples."""
        follow = size - layout.offset - (layout.declared_bytes or size)
        if follow <= 1 or chunks_follow(data, layout, size):
            return ()
        return chunk_tail_warning(follow)
