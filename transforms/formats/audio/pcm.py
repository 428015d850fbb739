"""Uncompressed samples of audio containers, read by range: one seek, one read, no library."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import BinaryIO

import numpy as np

from ...rejects import Reason, RejectError
from ..base import not_int16, short_read
from ..samples import FULL_SCALE, store

_PIECE_BYTES = 4 << 20
_MARGIN = 8  # bytes around what is read: the widest number
_COUNTS = "counts"


@dataclasses.dataclass(frozen=True)
class Encoding:
    """How one sample is stored.

    Attributes:
      name: as in the ledger, such as PCM_16.
      kind: "i" signed, "u" with an offset of half the range, "f" float, or "a" A-law, "m" mu-law.
      width: bytes a sample. Integers of fewer bits stand at the top of them.
      order: "<" or ">".
      unused_bits: at the top, where integers stand at the bottom instead.
    """

    name: str
    kind: str
    width: int
    order: str = "<"
    unused_bits: int = 0

    @property
    def is_int16(self) -> bool:
        """Whether samples are 16-bit integers."""
        return self.kind == "i" and self.width == 2


@functools.cache
def pcm(bits: int, width: int, order: str, *, unsigned: bool = False) -> Encoding:
    """Integers of `bits` bits in `width` bytes."""
    name = f"PCM_{'U' if unsigned else 'S'}8" if width == 1 else f"PCM_{8 * width}"
    return Encoding(
        name if bits == 8 * width else f"PCM_{bits} in {8 * width}", "u" if unsigned else "i", width, order
    )


@functools.cache
def ieee(width: int, order: str) -> Encoding:
    """Floats of 4 or 8 bytes."""
    return Encoding({4: "FLOAT", 8: "DOUBLE"}[width], "f", width, order)


A_LAW = Encoding("ALAW", "a", 1)
MU_LAW = Encoding("ULAW", "m", 1)


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where the samples of a file are, and what they are.

    Attributes:
      encoding: of a sample, or None where the samples are compressed.
      channels: interleaved.
      sample_rate: Hz, as the header says.
      offset: position of the first sample.
      num_bytes: of samples that are there, a whole number of frames.
      declared_bytes: what the header promises, or None where it leaves that open.
      warnings: what is odd about the lengths.
      codec: name of the compression, or "".
    """

    encoding: Encoding | None
    channels: int
    sample_rate: float
    offset: int
    num_bytes: int
    declared_bytes: int | None = None
    warnings: tuple[str, ...] = ()
    codec: str = ""

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of each channel; 1 where the samples are compressed."""
        return self.channels * self.encoding.width if self.encoding else 1

    @property
    def frames(self) -> int:
        """Samples per channel that are there."""
        return self.num_bytes // self.frame_bytes


def lay_out(
    encoding: Encoding | None,
    channels: int,
    sample_rate: float,
    offset: int,
    declared: int | None,
    size: int,
    *,
    strict: bool,
    warnings: tuple[str, ...] = (),
    codec: str = "",
) -> Layout:
    """The layout of samples at `offset` of a file of `size` bytes: what the header declares, held to what is there.

    A declared length of None (left open, as when it was written to a pipe) or 0 (a recorder that lost its power)
    means up to the end of the file.

    Raises:
      RejectError: there is not one frame; or `strict`, and the samples are cut short.
    """
    if channels < 1:
        raise RejectError(Reason.BAD_FORMAT, f"channels={channels} in the header must be >= 1: it is damaged")
    present = max(0, size - offset)
    frame_bytes = channels * encoding.width if encoding else 1
    num_bytes = present if not declared else min(declared, present)
    rest = num_bytes % frame_bytes
    num_bytes -= rest
    if num_bytes == 0:
        raise RejectError(
            Reason.EMPTY,
            f"the header is there, but no sample follows ({size} bytes)"
            if not rest
            else f"{rest} bytes of samples are less than one frame of {frame_bytes} bytes",
        )
    length = f"{num_bytes // frame_bytes} frames" if encoding else f"{num_bytes} bytes of samples"
    if declared is None:
        warnings += (
            f"the header leaves the length open, as when it is written to a pipe: {length} up to the end of the file "
            "are used",
        )
    elif declared > present or declared == 0:
        promised = f"{declared // frame_bytes} frames" if encoding else f"{declared} bytes of samples"
        message = f"the header promises {promised}, {length.replace(' of samples', '')} are there"
        if strict:
            raise RejectError(Reason.TRUNCATED, f"{message}: strict rejects it")
        warnings += (message,)
    if rest:
        message = f"{rest} bytes of a partial frame at the end"
        if strict:
            raise RejectError(
                Reason.PARTIAL_FRAME, f"{message} ({frame_bytes} bytes a frame): strict rejects it"
            )
        warnings += (f"{message} left out",)
    return Layout(encoding, channels, sample_rate, offset, num_bytes, declared, warnings, codec)


def unit(scale: str | float, *, integer: bool) -> str | None:
    """Of samples as they are read with that scale."""
    if scale in ("auto", "pcm"):
        return FULL_SCALE
    return _COUNTS if scale == "none" and integer else None


def read_range(
    file: BinaryIO, layout: Layout, scale: str | float, channel: int, start: int, out: np.ndarray
) -> None:
    """Fills `out` from sample `start` of a channel, piece by piece where all channels together are large.

    Raises:
      RejectError: the range is not there, or `out` is int16 and the samples are not.
    """
    encoding, frame_bytes = layout.encoding, layout.frame_bytes
    assert encoding is not None
    if out.dtype == np.int16 and not encoding.is_int16:
        raise not_int16(encoding.name)
    if start + len(out) > layout.frames:
        raise short_read(start, len(out), max(0, layout.frames - start))
    file.seek(layout.offset + start * frame_bytes)
    piece = max(1, _PIECE_BYTES // frame_bytes)
    for first in range(0, len(out), piece):
        part = out[first : first + piece]
        raw = np.empty(len(part) * frame_bytes + 2 * _MARGIN, np.uint8)
        found = read_into(file, raw.data[_MARGIN:-_MARGIN])
        if found < len(raw) - 2 * _MARGIN:
            raise short_read(start, len(out), first + found // frame_bytes)
        _convert(_pick(raw, encoding, layout.channels, channel, len(part)), encoding, scale, part)


def read_into(file: BinaryIO, buffer: memoryview) -> int:
    """Fills `buffer`; returns how many bytes there were before the end of the file."""
    done = 0
    while done < len(buffer):
        count = file.readinto(buffer[done:])  # type: ignore[attr-defined]
        if not count:
            break
        done += count
    return done


def _pick(raw: np.ndarray, encoding: Encoding, channels: int, channel: int, samples: int) -> np.ndarray:
    """[samples] stored numbers of one channel, from bytes of all with a margin at both ends.

    Integers of 3, 5, 6 or 7 bytes become the top of 4 or 8: they are read with their neighbours' bytes, which are
    then masked.
    """
    width, order = encoding.width, encoding.order
    kind, wide = ("u", 1) if encoding.kind in "am" else (encoding.kind, 1 << (width - 1).bit_length())
    first = _MARGIN + channel * width - (wide - width if order == "<" else 0)
    stored = np.ndarray((samples,), f"{order}{kind}{wide}", raw, first, (channels * width,))
    return stored if wide == width else stored & stored.dtype.type(-1 << 8 * (wide - width))


def _convert(stored: np.ndarray, encoding: Encoding, scale: str | float, out: np.ndarray) -> None:
    """Stored numbers to samples."""
    width, kind = encoding.width, encoding.kind
    if kind in "am":
        stored, width = _law_table(kind)[stored], 2
    if out.dtype == np.int16:
        out[:] = stored
        return
    factor = 1.0 if isinstance(scale, str) else float(scale)
    if kind == "f":
        store(stored, out, 0.0, factor)
        return
    full_scale = 2.0 ** (8 * stored.itemsize - 1 - encoding.unused_bits)
    factor = 1.0 / full_scale if scale in ("auto", "pcm") else factor * 2.0 ** (8 * (width - stored.itemsize))
    if out.dtype == np.float32 and math.frexp(factor)[0] == 0.5 and 1e-30 < factor < 1e10:
        out[:] = stored  # rounds once; the rest is exact
        if kind == "u":
            out -= np.float32(full_scale)
        out *= np.float32(factor)
    else:
        store(stored, out, full_scale if kind == "u" else 0.0, factor)


@functools.cache
def _law_table(kind: str) -> np.ndarray:
    """int16 [256]: the 16-bit sample of each A-law or mu-law byte (ITU-T G.711)."""
    code = np.arange(256)
    if kind == "m":
        code = ~code & 0xFF
        magnitude = (((code & 0x0F) << 3) + 0x84 << ((code & 0x70) >> 4)) - 0x84
        negative = code & 0x80 != 0
    else:
        code = code ^ 0x55
        segment, step = (code & 0x70) >> 4, (code & 0x0F) << 4
        magnitude = np.where(segment == 0, step + 8, (step + 0x108) << np.maximum(segment - 1, 0))
        negative = code & 0x80 == 0
    return np.where(negative, -magnitude, magnitude).astype(np.int16)
