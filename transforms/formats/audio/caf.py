"""CAF (Apple's Core Audio Format): chunks of 64-bit lengths; uncompressed samples, or ALAC through libsndfile."""

from __future__ import annotations

import struct
from typing import ClassVar

from ...rejects import Reason, RejectError
from .chunks import Bytes, Form, only_chunks_follow, walk
from .container import ContainerReader, chunk_tail_warnings
from .pcm import A_LAW, MU_LAW, Encoding, Layout, ieee, lay_out, pcm

_FORM = Form(struct.Struct(">4sq"), align=1)
_IS_FLOAT, _IS_LITTLE = 1, 2


class CafReader(ContainerReader):
    """CAF files."""

    name: ClassVar[str] = "caf"
    suffixes: ClassVar[tuple[str, ...]] = (".caf",)

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the marker and the first chunk, which is always the same."""
        return head[:4] == b"caff" and head[8:12] == b"desc"

    def layout(self, data: Bytes, size: int, *, strict: bool) -> Layout:
        """From the desc and the data chunk."""
        if not self.matches(data.at(0, 12)):
            raise RejectError(
                Reason.BAD_FORMAT, "it is no CAF file: it does not begin with caff and a desc chunk"
            )
        description = data.at(20, 32)
        if len(description) < 32:
            raise RejectError(Reason.EMPTY, f"the file ends ({size} bytes) within its header")
        rate, kind, flags, packet, _, channels, bits = struct.unpack(">d4sIIIII", description)
        encoding = _encoding(kind, flags, packet, channels, bits)
        codec = "" if encoding else f"CAF {kind.decode('latin-1')!r}"
        for name, first, length in walk(data, 8, _FORM):
            if name == b"data":
                declared = None if length < 0 else length - 4
                if declared is not None and declared <= 0:
                    if only_chunks_follow(data, first + 4, 0, size, _FORM):
                        raise RejectError(
                            Reason.EMPTY, "the data chunk is empty: other chunks follow, but no sample"
                        )
                    declared = 0
                return lay_out(
                    encoding, channels, rate, first + 4, declared, size, strict=strict, codec=codec
                )
            if length < 0:
                raise RejectError(Reason.BAD_FORMAT, f"a chunk has {length} bytes: the header is damaged")
        raise RejectError(Reason.EMPTY, f"no data chunk: the file ends ({size} bytes) before its samples")

    def tail_warnings(self, data: Bytes, layout: Layout, size: int) -> tuple[str, ...]:
        """Where something other than chunks follows the samples."""
        return chunk_tail_warnings(data, layout, size, _FORM)


def _encoding(kind: bytes, flags: int, packet: int, channels: int, bits: int) -> Encoding | None:
    if kind != b"lpcm":
        return {b"alaw": A_LAW, b"ulaw": MU_LAW}.get(kind)
    width, rest = divmod(packet, channels) if channels else (0, 0)
    order = "<" if flags & _IS_LITTLE else ">"
    if rest or not (bits + 7) // 8 <= width <= 8 or bits == 0 or (flags & _IS_FLOAT and width not in (4, 8)):
        raise RejectError(
            Reason.BAD_FORMAT,
            f"packets of {packet} bytes do not fit {channels} channels of {bits} bits: the header is damaged",
        )
    return ieee(width, order) if flags & _IS_FLOAT else pcm(bits, width, order)
