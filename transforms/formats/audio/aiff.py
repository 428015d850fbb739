"""AIFF and AIFF-C: big-endian chunks, samples in SSND."""

from __future__ import annotations

import math
import struct
from typing import ClassVar

from ...rejects import Reason, RejectError
from .chunks import Bytes, Form, only_chunks_follow, walk
from .container import ContainerReader, chunk_tail_warnings
from .pcm import A_LAW, MU_LAW, Encoding, Layout, ieee, lay_out, pcm

_FORM = Form(struct.Struct(">4sI"))
_OPEN = 0xFFFFFFFF
_ENCODINGS = {
    b"fl32": ieee(4, ">"), b"FL32": ieee(4, ">"), b"fl64": ieee(8, ">"), b"FL64": ieee(8, ">"),
    b"alaw": A_LAW, b"ALAW": A_LAW, b"ulaw": MU_LAW, b"ULAW": MU_LAW,
    b"in24": pcm(24, 3, ">"), b"in32": pcm(32, 4, ">"), b"42ni": pcm(24, 3, "<"), b"23ni": pcm(32, 4, "<"),
    b"raw ": pcm(8, 1, ">", unsigned=True),
}  # fmt: skip
_PLAIN = {b"NONE": ">", b"twos": ">", b"sowt": "<"}


class AiffReader(ContainerReader):
    """AIFF and AIFF-C files."""

    name: ClassVar[str] = "aiff"
    suffixes: ClassVar[tuple[str, ...]] = (".aif", ".aiff", ".aifc")

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the container's first twelve bytes."""
        return head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC")

    def layout(self, data: Bytes, size: int, *, strict: bool) -> Layout:
        """From COMM and SSND; SSND's length counts, since its samples are there."""
        head = data.at(0, 12)
        if not self.matches(head):
            raise RejectError(
                Reason.BAD_FORMAT, "it is no AIFF file: it does not begin with FORM, a length and AIFF"
            )
        common: bytes | None = None
        samples_at: tuple[int, int] | None = None
        for name, first, length in walk(data, 12, _FORM):
            if name == b"COMM" and common is None:
                common = data.at(first, min(length, 22))
            elif name == b"SSND" and samples_at is None:
                samples_at = first, length
            if common is not None and samples_at:
                break
        if common is not None and samples_at is None:
            raise RejectError(Reason.EMPTY, f"no SSND chunk: the file ends ({size} bytes) before its samples")
        if common is None or samples_at is None or len(common) < 18:
            raise RejectError(Reason.BAD_FORMAT, "no COMM chunk: nothing says what the samples are")
        channels, frames, bits = struct.unpack_from(">HIH", common)
        kind = common[18:22] if head[8:12] == b"AIFC" and len(common) == 22 else b"NONE"
        encoding, codec = _encoding(kind, bits), ""
        if encoding is None:
            codec = f"AIFF-C {kind.decode('latin-1')!r}"
        first, length = samples_at
        skip = int.from_bytes(data.at(first, 4), "big")
        offset = first + 8 + skip
        declared = _declared(data, length - 8 - skip, offset, size)
        notes: tuple[str, ...] = ()
        if encoding is not None and declared is not None and channels:
            frame_bytes = channels * encoding.width
            held = declared // frame_bytes
            if frames == held and declared:
                declared = held * frame_bytes  # SSND's length may count its padding
            elif frames in (0, _OPEN) and declared:
                notes = (f"COMM leaves the number of frames open, and SSND holds {held}: SSND counts",)
            elif declared:
                notes = (f"COMM says {frames} frames, and SSND holds {held}: SSND counts",)
        return lay_out(
            encoding, channels, _extended(common[8:18]), offset, declared, size, strict=strict, warnings=notes, codec=codec
        )  # fmt: skip

    def tail_warnings(self, data: Bytes, layout: Layout, size: int) -> tuple[str, ...]:
        """Where something other than chunks follows the samples."""
        return chunk_tail_warnings(data, layout, size, _FORM)


def _declared(data: Bytes, length: int, offset: int, size: int) -> int | None:
    if length > size - offset and (length > _OPEN - 4096 or abs(length - (_OPEN >> 1)) <= 4096):
        return None
    if length > 0:
        return length
    if length == 0 and only_chunks_follow(data, offset, 0, size, _FORM):
        raise RejectError(Reason.EMPTY, "the SSND chunk is empty: other chunks follow, but no sample")
    return 0


def _encoding(kind: bytes, bits: int) -> Encoding | None:
    """Of an AIFF-C compression type, or None where libsndfile has to know it."""
    if kind not in _PLAIN:
        return _ENCODINGS.get(kind)
    if not 1 <= bits <= 64:
        raise RejectError(Reason.BAD_FORMAT, f"the header says {bits}-bit samples, and AIFF has 1 to 64 bits")
    return pcm(bits, (bits + 7) // 8, _PLAIN[kind])


def _extended(stored: bytes) -> float:
    """An 80-bit IEEE 754 extended number."""
    exponent, mantissa = struct.unpack(">HQ", stored)
    sign = -1.0 if exponent & 0x8000 else 1.0
    exponent &= 0x7FFF
    if exponent == 0x7FFF:
        return math.nan
    try:
        return sign * math.ldexp(mantissa, exponent - 16383 - 63)
    except OverflowError:
        return sign * math.inf
