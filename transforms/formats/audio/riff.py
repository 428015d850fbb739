"""The layout of a WAV file: RIFF, RIFX (big-endian), RF64 and BW64 (64-bit lengths), and Sony's WAVE64."""

from __future__ import annotations

import struct

import numpy as np

from ...rejects import Reason, RejectError
from .chunks import Bytes, Form, only_chunks_follow, walk
from .pcm import A_LAW, MU_LAW, Encoding, Layout, ieee, lay_out, pcm

_LITTLE, _BIG = Form(struct.Struct("<4sI")), Form(struct.Struct(">4sI"))
_WAVE64 = Form(struct.Struct("<16sQ"), align=8, own_header=True)
_FORMS = {b"RIFF": _LITTLE, b"RF64": _LITTLE, b"BW64": _LITTLE, b"RIFX": _BIG}
_WAVE64_RIFF = b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00"
_WAVE64_TAIL = b"\xf3\xac\xd3\x11\x8c\xd1\x00\xc0\x4f\x8e\xdb\x8a"  # of the chunks' names

_PCM, _FLOAT, _A_LAW, _MU_LAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_SUBFORMAT_TAILS = (
    b"\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71",  # KSDATAFORMAT_SUBTYPE_…
    b"\x00\x00\x00\x10\x80\x00\x00\xaa\x00\x38\x9b\x71",  # the same, its parts in big-endian order
    b"\x21\x07\xd3\x11\x86\x44\xc8\xc1\xca\x00\x00\x00",  # ambisonic B-format
)
_DECODED = (0x02, 0x11, 0x31, 0x38, 0x40)  # by libsndfile
_CODECS = {
    0x02: "Microsoft ADPCM", 0x11: "IMA ADPCM", 0x22: "DSP Group TrueSpeech", 0x31: "GSM 6.10", 0x38: "NMS ADPCM",
    0x40: "G.721 ADPCM", 0x45: "G.726 ADPCM", 0x50: "MPEG layer I or II", 0x55: "MP3", 0x64: "G.726 ADPCM",
    0xFF: "AAC", 0x160: "Windows Media Audio", 0x161: "Windows Media Audio", 0x2000: "AC-3", 0x674F: "Vorbis",
}  # fmt: skip
_SNIFFED_SAMPLES = 1 << 16


def is_riff(head: bytes) -> bool:
    """Whether a file begins as one of the five containers."""
    return (head[:4] in _FORMS and head[8:12] == b"WAVE") or (
        head[:16] == _WAVE64_RIFF and head[24:40] == b"wave" + _WAVE64_TAIL
    )


def riff_layout(data: Bytes, size: int, *, strict: bool = False) -> Layout:
    """The layout of a WAV file of `size` bytes.

    Raises:
      RejectError: it is none, it is damaged, or it has no sample.
    """
    head = data.at(0, 40)
    if not is_riff(head):
        raise RejectError(
            Reason.BAD_FORMAT, "it is no WAV file: it does not begin with RIFF, a length and WAVE"
        )
    form, position = (_WAVE64, 40) if head[:4] == b"riff" else (_FORMS[head[:4]], 12)
    format_at: tuple[int, int] | None = None
    samples_at: tuple[int, int] | None = None
    long_length: int | None = None
    end = position
    for name, first, length in walk(data, position, form):
        end = first + length
        if name == b"fmt " and format_at is None:
            format_at = first, length
        elif name == b"ds64" and form is _LITTLE and length >= 16:
            long_length = struct.unpack_from("<8xQ", data.at(first, 16).ljust(16, b"\0"))[0]
        elif name == b"data" and samples_at is None:
            samples_at = first, length
        if format_at and samples_at:
            break
    if samples_at is None:
        if end > size:
            raise RejectError(
                Reason.TRUNCATED,
                f"the file is cut short before its samples: a chunk ends at byte {end}, it at {size}",
            )
        raise RejectError(Reason.EMPTY, f"no data chunk: the file ends ({size} bytes) before its samples")
    if format_at is None:
        raise RejectError(Reason.BAD_FORMAT, "no fmt chunk: nothing says what the samples are")
    offset, length = samples_at
    code, encoding, channels, rate, notes = _read_format(data, format_at, form is _BIG)
    if encoding is not None and encoding.name == "PCM_24 in 32" and code == _PCM:
        encoding = _justified(data, offset, encoding)
    declared, more = _declared(
        data, form, offset, length, long_length if head[:4] in (b"RF64", b"BW64") else None, size
    )
    codec = "" if encoding else f"{_CODECS.get(code, 'an unknown codec')} (format code 0x{code:04x})"
    if encoding is None and code not in _DECODED:
        raise RejectError(
            Reason.BAD_FORMAT,
            f"its samples are compressed as {codec}, which is not supported: convert it to PCM",
        )
    return lay_out(
        encoding, channels, rate, offset, declared, size, strict=strict, warnings=notes + more, codec=codec
    )


def _declared(
    data: Bytes, form: Form, offset: int, length: int, long_length: int | None, size: int
) -> tuple[int | None, tuple[str, ...]]:
    """Bytes of samples by the header, None where it leaves them open; and what is odd about them."""
    present = size - offset
    if form is not _WAVE64 and length == 0xFFFFFFFF:
        length = length if long_length is None else long_length
    elif length == 0 and long_length:
        length = long_length
    is_open = form is not _WAVE64 and long_length is None and _is_open(length)
    if is_open and present > length and not only_chunks_follow(data, offset, length, size, form):
        return None, ()  # more was written than the header could ever say
    if length > present:
        # as written before the length is known, and never mended: all ones, the largest signed number, or a round
        # number next to it, some less the header
        most = (1 << 63) - 1 if form is _WAVE64 or long_length is not None else 0x7FFFFFFF
        return (None if length > 2 * most - 256 or abs(length - most) <= 4096 else length), ()
    if length == 0:
        if only_chunks_follow(data, offset, 0, size, form):
            raise RejectError(Reason.EMPTY, "the data chunk is empty: other chunks follow, but no sample")
        return 0, ()
    left = present - length
    if left >= 1 << 32 and left % (1 << 32) <= 1 and form is not _WAVE64 and long_length is None:
        return present, (
            f"the header's 32 bits cannot hold the length of {present} bytes: all up to the end of the file are used",
        )
    return length, ()


def _is_open(length: int) -> bool:
    """Whether a 32-bit length is what streaming encoders write before they know it."""
    return length == 0xFFFFFFFF or abs(length - 0x7FFFFFFF) <= 4096


def _read_format(
    data: Bytes, at: tuple[int, int], big: bool
) -> tuple[int, Encoding | None, int, float, tuple[str, ...]]:
    """(format code, encoding or None where compressed, channels, rate, warnings) of the fmt chunk."""
    body = data.at(at[0], min(at[1], 40))
    if len(body) < 16:
        raise RejectError(Reason.BAD_FORMAT, f"the fmt chunk has {len(body)} bytes and must have 16 at least")
    order = ">" if big else "<"
    code, channels, rate, _, align, bits = struct.unpack_from(f"{order}HHIIHH", body)
    valid = bits
    if code == _EXTENSIBLE:
        if len(body) < 40:
            raise RejectError(
                Reason.BAD_FORMAT,
                f"an extensible fmt chunk has {len(body)} bytes and must have 40: it is damaged",
            )
        valid = struct.unpack_from(f"{order}H", body, 18)[0] or bits
        code = struct.unpack_from(f"{order}I", body, 24)[0]
        if body[28:40] not in _SUBFORMAT_TAILS or code > 0xFFFF:
            raise RejectError(
                Reason.BAD_FORMAT,
                f"the subformat {body[24:40].hex()} is not known: convert the samples to PCM",
            )
    if code in (_A_LAW, _MU_LAW):
        return code, A_LAW if code == _A_LAW else MU_LAW, channels, float(rate), ()
    if code not in (_PCM, _FLOAT):
        return code, None, channels, float(rate), ()
    if not 1 <= bits <= 64 or (code == _FLOAT and bits not in (32, 64)):
        kind, rule = ("float", "32 or 64") if code == _FLOAT else ("integer", "1 to 64")
        raise RejectError(
            Reason.BAD_FORMAT,
            f"the header says {bits}-bit {kind} samples, and those of WAV have {rule} bits: convert the file",
        )
    least = (bits + 7) // 8
    width, rest = divmod(align, channels) if channels else (least, 0)
    notes: tuple[str, ...] = ()
    if rest or not least <= width <= 8 or (code == _FLOAT and width != least):
        width = least
        notes = (
            f"block_align={align} in the header does not fit {channels} channels of {bits} bits: taken as "
            f"{channels * width}",
        )
    if code == _FLOAT:
        return code, ieee(width, order), channels, float(rate), notes
    valid = valid if valid <= 8 * width else bits
    return code, pcm(valid, width, order, unsigned=width == 1), channels, float(rate), notes


def _justified(data: Bytes, offset: int, encoding: Encoding) -> Encoding:
    """24 bits in 4 bytes without the extensible header stand at their top (Microsoft) or at their bottom (ALSA).

    Raises:
      RejectError: at neither.
    """
    samples = np.frombuffer(data.bulk(offset, 4 * _SNIFFED_SAMPLES), np.uint8)
    samples = samples[: len(samples) // 4 * 4].view(f"{encoding.order}i4")
    if not (samples & 0xFF).any():
        return encoding
    if (np.abs(samples.astype(np.int64) + 0.5) < 1 << 23).all():
        return Encoding("PCM_24 low in 32", "i", 4, encoding.order, unused_bits=8)
    raise RejectError(
        Reason.BAD_FORMAT,
        "24-bit samples in 4 bytes that are neither at their top nor at their bottom, perhaps floats: convert the file",
    )


def chunks_follow(data: Bytes, layout: Layout, size: int) -> bool:
    """Whether nothing but chunks follows the samples of a WAV file."""
    head = data.at(0, 4)
    form = _WAVE64 if head == b"riff" else _FORMS[head]
    return only_chunks_follow(data, layout.offset, layout.declared_bytes or 0, size, form)


def length_patch(data: Bytes, layout: Layout) -> dict[int, bytes]:
    """Position and bytes of the true length of the samples, where the header says another one."""
    if layout.declared_bytes == layout.num_bytes or layout.num_bytes >= 0xFFFFFFFF:
        return {}
    if (head := data.at(0, 4)) == b"riff":
        return {layout.offset - 8: struct.pack("<Q", layout.num_bytes + 24)}
    return {layout.offset - 4: struct.pack(">I" if head == b"RIFX" else "<I", layout.num_bytes)}
