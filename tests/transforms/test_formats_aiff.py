"""AIFF, AU and CAF: against libsndfile, and headers that lie."""

import io
import math
import struct

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.formats.audio.aiff import AiffReader
from spectrabeam.transforms.formats.audio.au import AuReader
from spectrabeam.transforms.formats.audio.caf import CafReader
from spectrabeam.transforms.formats.base import ReadSettings
from spectrabeam.transforms.rejects import Reason
from tests.helpers.waves import RAMP, describe, outcome, read, refused

READERS = {"AIFF": AiffReader, "AU": AuReader, "CAF": CafReader}
FULL = RAMP / np.float32(32768)
PLAIN = ["PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"]
ENCODED = {
    "AIFF": ["PCM_S8", "PCM_U8", *PLAIN, "IMA_ADPCM", "GSM610"],
    "AU": ["PCM_S8", *PLAIN, "G721_32", "G723_24", "G723_40"],
    "CAF": ["PCM_S8", *PLAIN, "ALAC_16", "ALAC_24", "ALAC_32"],
}


def encode(format, subtype, samples: np.ndarray = RAMP, **more):
    file = io.BytesIO()
    soundfile.write(file, samples, 8000, format=format, subtype=subtype, **more)
    return file.getvalue()


def endians(format, subtype):
    return [e for e in ("FILE", "LITTLE", "BIG") if soundfile.check_format(format, subtype, e)]


@pytest.mark.parametrize(
    ("format", "subtype", "endian"),
    [(f, s, e) for f, subtypes in ENCODED.items() for s in subtypes for e in endians(f, s)],
)
def test_any_range_of_any_channel_is_read_as_by_libsndfile(format, subtype, endian):
    channels = 1 if subtype.startswith(("G7", "GSM")) else 3 if subtype in PLAIN else 2
    samples = np.random.default_rng(3).uniform(-1, 1, (6001, channels))
    content = encode(format, subtype, samples, endian=endian)
    with soundfile.SoundFile(io.BytesIO(content)) as sound:
        expected = sound.read(sound.frames, dtype="float32", always_2d=True)
    reader = READERS[format](ReadSettings())
    described = describe(reader, content)
    assert (described.format, described.dtype) == (format.lower(), subtype)
    assert (described.frames, described.channels) == expected.shape
    assert (described.sample_rate, described.warnings, described.unit) == (8000.0, (), "full scale")
    for start, count in ((0, len(expected)), (17, 1000), (5000, 999), (len(expected) - 1, 1)):
        found = read(reader, content, channels - 1, start, count)
        np.testing.assert_array_equal(found, expected[start : start + count, channels - 1])


@pytest.mark.parametrize("format", READERS)
def test_content_alone_tells_the_format(format):
    content = encode(format, "PCM_16")
    assert {name for name, reader in READERS.items() if reader.matches(content[:4096])} == {format}
    for head in (b"", content[:3], b"FORM\0\0\0\0ILBM", b"caff\0\1\0\0", b".snd" + bytes(40), bytes(4096)):
        assert not READERS[format].matches(head)


@pytest.mark.parametrize("format", READERS)
@pytest.mark.parametrize(
    ("scale", "factor", "unit"), [("none", 1, "counts"), (0.3, 0.3, None), ("pcm", 2**-15, "full scale")]
)
def test_scales_are_those_of_wav(format, scale, factor, unit):
    reader = READERS[format](ReadSettings(scale=scale))
    content = encode(format, "PCM_16")
    np.testing.assert_array_equal(read(reader, content), (RAMP * factor).astype(np.float32))
    np.testing.assert_array_equal(read(reader, content, dtype=np.int16), RAMP)
    assert describe(reader, content).unit == unit


def test_unsigned_samples_of_aiff_c_are_centred():
    """A11."""
    content = encode("AIFF", "PCM_U8", np.array([0.0, 0.5, -1.0, -0.5]))
    assert read(AiffReader(ReadSettings()), content).tolist() == [0.0, 0.5, -1.0, -0.5]


def patched(content, at, packed):
    return content[:at] + packed + content[at + len(packed) :]


AIFF, AU, CAF = (encode(format, "PCM_16") for format in READERS)
SSND, COMM, DATA = AIFF.index(b"SSND") + 4, AIFF.index(b"COMM") + 10, CAF.index(b"data") + 4
LIES = {
    "AIFF": lambda length: patched(AIFF, SSND, struct.pack(">I", (length + 8) % (1 << 32))),
    "AU": lambda length: patched(AU, 8, struct.pack(">I", length % (1 << 32))),
    "CAF": lambda length: patched(CAF, DATA, struct.pack(">q", length + 4 if length >= 0 else -1)),
}
lies = pytest.mark.parametrize(("format", "make"), LIES.items(), ids=LIES)


@lies
def test_a_length_left_open_is_what_is_there(format, make):
    """A01: CAF and AU have a number that says so, AIFF is left with it."""
    content = make(-9) if format == "AIFF" else make(-1)
    for strict in (False, True):
        described = describe(READERS[format](ReadSettings(strict=strict)), content)
        assert described.warnings == (
            "the header leaves the length open, as when it is written to a pipe: 1000 frames up to the end of the "
            "file are used",
        )
    np.testing.assert_array_equal(read(READERS[format](ReadSettings()), content), FULL)


@lies
def test_a_length_of_zero_before_samples_is_what_is_there(format, make):
    """A04: libsndfile gives no frame, without a word."""
    content = make(0)
    described = describe(READERS[format](ReadSettings()), content)
    assert described.warnings == ("the header promises 0 frames, 1000 frames are there",)
    np.testing.assert_array_equal(read(READERS[format](ReadSettings()), content), FULL)
    assert refused(READERS[format](ReadSettings(strict=True)), content)[0] is Reason.TRUNCATED


@lies
def test_samples_that_are_cut_short_are_used_and_told_unless_strict(format, make):
    """A02."""
    whole = make(2000)
    assert describe(READERS[format](ReadSettings(strict=True)), whole).warnings == ()
    content = whole[:-1001]
    described = describe(READERS[format](ReadSettings()), content)
    assert (described.frames, described.frames_declared) == (499, 1000)
    assert described.warnings == (
        "the header promises 1000 frames, 499 frames are there",
        "1 bytes of a partial frame at the end left out",
    )
    np.testing.assert_array_equal(read(READERS[format](ReadSettings()), content), FULL[:499])
    assert refused(READERS[format](ReadSettings(strict=True)), content)[0] is Reason.TRUNCATED


@lies
def test_samples_that_the_header_leaves_out_are_told(format, make):
    described = describe(READERS[format](ReadSettings()), make(500))
    assert described.frames == 250
    assert any(
        "1500 bytes after the samples that the header declares are left out" in w for w in described.warnings
    )


@pytest.mark.parametrize(
    ("frames", "message"),
    [(0, "COMM leaves the number of frames open"), (0xFFFFFFFF, "COMM leaves"), (500, "COMM says 500 frames"),
     (5000, "COMM says 5000 frames")],
)  # fmt: skip
def test_the_number_of_frames_in_comm_does_not_count(frames, message):
    """HDR: as in libsndfile; the difference is told."""
    content = patched(AIFF, COMM, struct.pack(">I", frames))
    described = describe(AiffReader(ReadSettings()), content)
    assert described.frames == 1000
    (warning,) = described.warnings
    assert warning.startswith(message)
    assert "SSND holds 1000: SSND counts" in warning


def test_an_offset_in_ssnd_is_skipped():
    content = AIFF[: SSND + 4] + struct.pack(">II", 6, 0) + b"skip!!" + AIFF[SSND + 12 :]
    content = patched(content, SSND, struct.pack(">I", 2014))
    described = describe(AiffReader(ReadSettings()), content)
    assert (described.frames, described.warnings) == (1000, ())
    np.testing.assert_array_equal(read(AiffReader(ReadSettings()), content), FULL)


@pytest.mark.parametrize("rate", [1, 8000, 44100, 96000, 5_000_000, 0.5, 11025.5])
def test_the_rate_of_aiff_is_an_80_bit_float(rate):
    mantissa, exponent = math.frexp(rate)
    stored = struct.pack(">HQ", exponent + 16382, int(mantissa * (1 << 64)))
    assert describe(AiffReader(ReadSettings()), patched(AIFF, COMM + 6, stored)).sample_rate == rate


@pytest.mark.parametrize(
    "stored", [bytes(10), b"\x7f\xff" + bytes(8), b"\xff" * 10, b"\x7f\xfe" + b"\xff" * 8]
)
def test_senseless_rates_are_passed_on(stored):
    """A22: the plan rejects them."""
    rate = describe(AiffReader(ReadSettings()), patched(AIFF, COMM + 6, stored)).sample_rate
    assert rate == 0 or not math.isfinite(rate)


@pytest.mark.parametrize(
    ("format", "content", "reason"),
    [("AIFF", AIFF[: SSND - 4], Reason.EMPTY), ("AIFF", AIFF[: SSND + 12], Reason.EMPTY),
     ("AIFF", AIFF[:12], Reason.BAD_FORMAT), ("AIFF", AIFF[:20] + b"\xff" * 99, Reason.BAD_FORMAT),
     ("AIFF", patched(AIFF, COMM - 2, bytes(2)), Reason.BAD_FORMAT),
     ("AIFF", patched(AIFF, COMM + 4, bytes(2)), Reason.BAD_FORMAT),
     ("AU", AU[:20], Reason.EMPTY), ("AU", AU[:24], Reason.EMPTY), ("AU", patched(AU, 4, bytes(4)), Reason.BAD_FORMAT),
     ("AU", patched(AU, 4, b"\x7f\xff\xff\xff"), Reason.EMPTY), ("AU", patched(AU, 20, bytes(4)), Reason.BAD_FORMAT),
     ("AU", patched(AU, 12, struct.pack(">I", 30)), Reason.BAD_FORMAT),
     ("CAF", CAF[:30], Reason.EMPTY), ("CAF", CAF[:DATA], Reason.EMPTY), ("CAF", CAF[: DATA + 12], Reason.EMPTY),
     ("CAF", patched(CAF, 44, bytes(4)), Reason.BAD_FORMAT), ("CAF", patched(CAF, 48, bytes(4)), Reason.BAD_FORMAT),
     ("CAF", patched(CAF, 28, b"aac "), Reason.BAD_FORMAT), ("CAF", patched(CAF, 56, b"\xff" * 8), Reason.BAD_FORMAT),
     *((name, b"", Reason.EMPTY) for name in READERS), *((name, bytes(999), Reason.BAD_FORMAT) for name in READERS)],
)  # fmt: skip
def test_what_has_no_sample_or_is_damaged_is_refused(format, content, reason):
    """A27."""
    found, message = refused(READERS[format](ReadSettings()), content)
    assert found is reason, message
    assert "SF_INFO" not in message


def test_a_codec_that_cannot_be_decoded_is_named():
    content = patched(CAF, 28, b"aac ")
    assert refused(CafReader(ReadSettings()), content)[1] == (
        "its samples are compressed as CAF 'aac ', which is not supported: convert it to PCM"
    )


def test_20_bit_alac_is_refused_since_libsndfile_decodes_it_wrongly():
    content = encode("CAF", "ALAC_20", np.stack([RAMP, RAMP], 1))
    assert refused(CafReader(ReadSettings()), content)[0] is Reason.BAD_FORMAT


@pytest.mark.parametrize("format", READERS)
@given(data=st.data())
def test_damaged_headers_are_rejected_or_read_and_nothing_else(format, data):
    content = bytearray({"AIFF": AIFF, "AU": AU, "CAF": CAF[:60] + CAF[DATA - 4 :]}[format][:200])
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(4, 99))] = data.draw(st.integers(0, 255))
    content = bytes(content[: data.draw(st.integers(0, len(content)))])
    found = outcome(READERS[format](ReadSettings()), content)
    assert isinstance(found, Reason) or found.frames * found.channels <= len(content) * 8
