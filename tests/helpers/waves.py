"""WAV and other containers put together byte by byte, with headers that may lie."""

from __future__ import annotations

import io
import struct

import numpy as np

from spectrabeam.transforms.elements import Description
from spectrabeam.transforms.rejects import Reason, RejectError

GUID_TAIL = bytes.fromhex("000010008000 00aa00389b71")
WAVE64_RIFF = b"riff" + bytes.fromhex("2e91cf11a5d628db04c10000")
WAVE64_TAIL = bytes.fromhex("f3acd3118cd100c04f8edb8a")
RAMP = (np.arange(1000) * 61 - 30000).astype(np.int16)


def chunk(name: bytes, content: bytes, length: int | None = None, order: str = "<") -> bytes:
    """A RIFF chunk with its padding."""
    length = len(content) if length is None else length
    return name + struct.pack(f"{order}I", length) + content + bytes(len(content) % 2)


def fmt(
    code: int = 1,
    channels: int = 1,
    rate: int = 16000,
    bits: int = 16,
    align: int | None = None,
    order: str = "<",
) -> bytes:
    """The content of a plain fmt chunk of 16 bytes."""
    align = channels * ((bits + 7) // 8) if align is None else align
    return struct.pack(f"{order}HHIIHH", code, channels, rate, rate * align % (1 << 32), align, bits)


def extensible(code: int, channels: int, bits: int, valid: int, order: str = "<") -> bytes:
    """The content of an extensible fmt chunk of 40 bytes."""
    plain = fmt(0xFFFE, channels, 16000, bits, order=order)
    return plain + struct.pack(f"{order}HHII", 22, valid, 0, code) + GUID_TAIL


def riff(
    samples: bytes,
    *,
    format: bytes | None = None,
    riff_length: int | None = None,
    data_length: int | None = None,
    before: bytes = b"",
    after: bytes = b"",
    magic: bytes = b"RIFF",
) -> bytes:
    """A WAV file; mono int16 at 16 kHz where no format is given. `before` stands before fmt."""
    order = ">" if magic == b"RIFX" else "<"
    format = fmt(order=order) if format is None else format
    body = before + chunk(b"fmt ", format, order=order) + chunk(b"data", samples, data_length, order) + after
    return (
        magic
        + struct.pack(f"{order}I", len(body) + 4 if riff_length is None else riff_length)
        + b"WAVE"
        + body
    )


def rf64(
    samples: bytes, *, long_length: int | None = None, data_length: int = 0xFFFFFFFF, magic: bytes = b"RF64"
) -> bytes:
    """An RF64 or BW64 file of mono int16."""
    long_length = len(samples) if long_length is None else long_length
    ds64 = struct.pack("<QQQI", len(samples) + 72, long_length, long_length // 2, 0)
    return riff(
        samples, before=chunk(b"ds64", ds64), riff_length=0xFFFFFFFF, data_length=data_length, magic=magic
    )


def wave64(samples: bytes, *, data_length: int | None = None) -> bytes:
    """A WAVE64 file of mono int16."""

    def part(name: bytes, content: bytes, length: int | None = None) -> bytes:
        length = len(content) + 24 if length is None else length
        return name + WAVE64_TAIL + struct.pack("<Q", length) + content + bytes(-len(content) % 8)

    body = b"wave" + WAVE64_TAIL + part(b"fmt ", fmt()) + part(b"data", samples, data_length)
    return WAVE64_RIFF + struct.pack("<Q", len(body) + 24) + body


def describe(reader, content: bytes):
    """The description of the only recording in a file."""
    (described,) = reader.describe(io.BytesIO(content), len(content))
    return described


def read(
    reader,
    content: bytes,
    channel: int = 0,
    start: int = 0,
    count: int | None = None,
    dtype: type = np.float32,
):
    """Samples of a channel; all of them where no count is given."""
    description = describe(reader, content)
    count = description.frames - start if count is None else count
    out = np.full(count, 77, dtype)
    reader.read(io.BytesIO(content), description.locator, channel, start, out)
    return out


def outcome(reader, content: bytes) -> Description | Reason:
    """The description of a file, read to its end; or why it cannot be used."""
    try:
        description = describe(reader, content)
        read(reader, content, description.channels - 1)
    except RejectError as error:
        return error.reason
    return description


def refused(reader, content: bytes) -> tuple:
    """(reason, message) for a file that cannot be used."""
    try:
        described = reader.describe(io.BytesIO(content), len(content))
    except RejectError as error:
        return error.reason, str(error)
    raise AssertionError(f"was not refused: {described}")
