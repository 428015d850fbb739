"""WAV files written by the standard library, by libsndfile and byte by byte, read back as float and as they came."""

import io
import json
import struct
import wave
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.files import open_local
from spectrabeam.transforms.formats.audio.wav import WavReader
from spectrabeam.transforms.formats.base import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.waves import RAMP, describe, extensible, fmt, read, refused, riff

SUBTYPES = {1: "PCM_U8", 2: "PCM_16", 3: "PCM_24", 4: "PCM_32"}


def reader(**settings):
    return WavReader(ReadSettings(**settings))


def integers(width, frames, channels, seed=0):
    """Sample values of `width` bytes over the whole range, int64 [frames, channels]; 8 bits are centred."""
    limit = 2 ** (8 * width - 1)
    return np.random.default_rng(seed).integers(-limit, limit - 1, (frames, channels), endpoint=True)


def packed(values, width, order="<"):
    """The bytes of integers of any width."""
    last = values.astype("<i8").view(np.uint8).reshape(*values.shape, 8)[..., :width]
    return (last if order == "<" else last[..., ::-1]).tobytes()


def pcm(values, width, rate=8000):
    """The file's bytes, by the standard library."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(values.shape[1])
        sound.setsampwidth(width)
        sound.setframerate(rate)
        sound.writeframes(packed(values + 128 if width == 1 else values, width))
    return file.getvalue()


def sndfile(samples, subtype, **more: Any):
    file = io.BytesIO()
    more = {"format": "WAV"} | more
    soundfile.write(file, samples, 44100, subtype=subtype, **more)
    return file.getvalue()


@st.composite
def ranges(draw):
    width, channels, frames = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 40))
    start = draw(st.integers(0, frames - 1))
    values = integers(width, frames, channels, draw(st.integers(0, 1 << 30)))
    return width, values, draw(st.integers(0, channels - 1)), start, draw(st.integers(1, frames - start))


@given(ranges())
def test_any_range_of_any_channel_is_read_to_minus_one_up_to_below_one(given_range):
    width, values, channel, start, count = given_range
    content = pcm(values, width)
    described = describe(reader(), content)
    assert (described.frames, described.channels) == values.shape
    assert (described.sample_rate, described.dtype, described.format) == (8000.0, SUBTYPES[width], "wav")
    assert (described.warnings, described.frames_declared, described.unit) == ((), None, "full scale")
    expected = (values[start : start + count, channel] / 2.0 ** (8 * width - 1)).astype(np.float32)
    np.testing.assert_array_equal(read(reader(), content, channel, start, count), expected)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("width", range(1, 9))
@pytest.mark.parametrize("channels", [1, 3])
def test_integers_of_any_width_and_byte_order_are_divided_by_their_full_scale(width, order, channels):
    """A11, A14: one factor for all; big-endian is little-endian turned around."""
    values = integers(width, 33, channels, width)
    stored = values + 128 if width == 1 else values
    magic = b"RIFF" if order == "<" else b"RIFX"
    content = riff(
        packed(stored, width, order), format=fmt(1, channels, bits=8 * width, order=order), magic=magic
    )
    for channel in range(channels):
        expected = np.array([float(np.float32(int(v))) for v in values[:, channel]]) / 2.0 ** (8 * width - 1)
        np.testing.assert_array_equal(read(reader(), content, channel, 2, 30), expected[2:32])


@pytest.mark.parametrize("width", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize(("scale", "factor"), [("none", 1.0), (0.125, 0.125), (0.3, 0.3), ("pcm", None)])
def test_scale_gives_counts_or_a_multiple_of_them(width, scale, factor):
    values = integers(width, 50, 2)
    factor = 2.0 ** (1 - 8 * width) if factor is None else factor
    content = riff(packed(values + 128 * (width == 1), width), format=fmt(1, 2, bits=8 * width))
    expected = (values[:, 1].astype(np.float64) * factor).astype(np.float32)
    np.testing.assert_array_equal(read(reader(scale=scale), content, 1, 0, 50), expected)
    unit = {"none": "counts", "pcm": "full scale"}.get(scale)
    assert describe(reader(scale=scale), content).unit == unit


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize(("scale", "factor"), [("auto", 1), ("none", 1), ("pcm", 1), (2.0, 2)])
def test_floats_come_as_they_are_also_beyond_one(subtype, scale, factor):
    """A12: nothing is clipped or normalised."""
    samples = np.array([0.1, -3.5, 1e-3, 0.0])
    found = read(reader(scale=scale), sndfile(samples, subtype), 0, 0, 4)
    np.testing.assert_array_equal(found, (samples.astype(np.float32) * factor))
    loud = np.tile(np.array([0, 3.7, -5, 0.5], np.float32), 250)
    found = read(reader(), sndfile(loud, subtype))
    assert (found.max(), found.min()) == (np.float32(3.7), -5)


def test_the_extremes_of_16_bits_keep_their_sign():
    """A12: -32768 is -1, never +1."""
    found = read(reader(), riff(np.array([-32768, 32767], "<i2").tobytes()))
    assert found.tolist() == [-1.0, 32767 / 32768]


def test_silence_in_8_bits_is_zero_and_half_of_full_scale_in_24_bits_is_a_half():
    """A11."""
    assert read(reader(), riff(bytes([128, 128]), format=fmt(bits=8))).tolist() == [0.0, 0.0]
    assert read(reader(), riff((1 << 22).to_bytes(3, "little"), format=fmt(bits=24))).tolist() == [0.5]


def test_int16_samples_can_be_read_as_they_came():
    values = integers(2, 30, 2)
    found = read(reader(), pcm(values, 2), 1, 3, 20, np.int16)
    assert found.dtype == np.int16
    np.testing.assert_array_equal(found, values[3:23, 1])
    big = riff(packed(values, 2, ">"), format=fmt(1, 2, order=">"), magic=b"RIFX")
    np.testing.assert_array_equal(read(reader(), big, 1, 3, 20, np.int16), values[3:23, 1])


@pytest.mark.parametrize("scale", ["auto", "none", 0.3])
def test_complex_samples_have_no_imaginary_part(scale):
    content = riff(RAMP.tobytes())
    found = read(reader(scale=scale), content, dtype=np.complex64)
    np.testing.assert_array_equal(found.real, read(reader(scale=scale), content))
    assert not found.imag.any()


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_24", "PCM_32", "FLOAT", "ULAW", "MS_ADPCM"])
def test_other_types_are_refused_as_int16(subtype):
    message = f"samples are stored as {subtype}, and keep_waveform=int16 keeps 16-bit integers as they came"
    with pytest.raises(RejectError, match=message) as caught:
        read(reader(), sndfile(RAMP, subtype), 0, 0, 9, np.int16)
    assert caught.value.reason is Reason.DTYPE_MISMATCH


@pytest.mark.parametrize(
    ("more", "subtype"),
    [({}, "PCM_16"), ({"endian": "BIG"}, "PCM_24"), ({"format": "RF64"}, "PCM_24"), ({"format": "W64"}, "PCM_16"),
     ({"format": "W64"}, "DOUBLE"), ({"format": "WAVEX"}, "PCM_16"), ({"format": "WAVEX"}, "FLOAT"),
     ({"format": "WAVEX"}, "ULAW"), ({}, "ALAW"), ({"endian": "BIG"}, "FLOAT")],
)  # fmt: skip
def test_each_container_is_known_by_its_content_and_read_as_by_libsndfile(more, subtype):
    """A06, A09, A14."""
    samples = np.random.default_rng(5).uniform(-1, 1, (501, 3))
    content = sndfile(samples, subtype, **more)
    assert WavReader.matches(content[:64])
    expected, rate = soundfile.read(io.BytesIO(content), dtype="float32")
    described = describe(reader(), content)
    assert (described.frames, described.channels, described.sample_rate) == (501, 3, rate)
    assert (described.dtype, described.warnings) == (subtype, ())
    for channel in range(3):
        np.testing.assert_array_equal(read(reader(), content, channel, 5, 400), expected[5:405, channel])


@pytest.mark.parametrize(("subtype", "code"), [("ALAW", 6), ("ULAW", 7)])
@pytest.mark.parametrize(("scale", "factor"), [("auto", 1 / 32768), ("none", 1.0), (0.5, 0.5)])
def test_all_bytes_of_a_law_and_mu_law_are_expanded_as_by_libsndfile(subtype, code, scale, factor):
    content = riff(bytes(range(256)), format=fmt(code, bits=8))
    expected = soundfile.read(io.BytesIO(content), dtype="int16")[0]
    np.testing.assert_array_equal(read(reader(scale=scale), content), expected * np.float32(factor))
    assert describe(reader(), content).dtype == subtype


@pytest.mark.parametrize(
    ("subtype", "channels"),
    [
        ("MS_ADPCM", 2),
        ("IMA_ADPCM", 2),
        ("GSM610", 1),
        ("G721_32", 1),
        ("NMS_ADPCM_16", 1),
        ("NMS_ADPCM_32", 1),
    ],
)
def test_any_range_of_compressed_samples_equals_that_of_the_whole(subtype, channels):
    samples = np.sin(np.arange(9000 * channels).reshape(-1, channels) * 0.02) / 2
    content = sndfile(samples, subtype)
    whole = np.empty((20000, channels), np.float32)
    with soundfile.SoundFile(io.BytesIO(content)) as sound:
        frames = sound.frames
        whole = sound.read(frames, dtype="float32", always_2d=True)
    described = describe(reader(), content)
    assert (described.frames, described.channels, described.dtype) == (frames, channels, subtype)
    random = np.random.default_rng(1)
    wav = reader()
    for start in [0, *random.integers(0, frames - 600, 15)]:
        found = read(wav, content, channels - 1, start, 600)
        np.testing.assert_array_equal(found, whole[start : start + 600, channels - 1])
    np.testing.assert_array_equal(read(reader(scale="none"), content)[:99], whole[:99, 0] * 32768)


def test_extensible_headers_say_what_plain_ones_do():
    """A06: the code is in the subformat; 24 valid bits at the top of 32 are as loud as 24 bits."""
    plain = read(reader(), riff(RAMP.tobytes()))
    np.testing.assert_array_equal(
        read(reader(), riff(RAMP.tobytes(), format=extensible(1, 1, 16, 16))), plain
    )
    wide = (RAMP.astype("<i4") << 16) + (3 << 8)
    content = riff(wide.tobytes(), format=extensible(1, 1, 32, 24))
    assert describe(reader(), content).dtype == "PCM_24 in 32"
    found = read(reader(), content)
    assert np.abs(found - plain).max() <= 3 * 2.0**-23
    np.testing.assert_array_equal(found, (wide / 2.0**31).astype(np.float32))
    np.testing.assert_array_equal(found, soundfile.read(io.BytesIO(content), dtype="float32")[0])


@pytest.mark.parametrize(("shift", "dtype"), [(8, "PCM_24 in 32"), (0, "PCM_24 low in 32")])
@pytest.mark.parametrize(("scale", "factor"), [("auto", 2.0**-23), ("none", None)])
def test_24_bits_at_either_end_of_32_are_as_loud(shift, dtype, scale, factor):
    """A11: without the extensible header, ALSA puts them at the bottom and Microsoft at the top."""
    values = integers(3, 400, 2) | 1
    content = riff((values << shift).astype("<i4").tobytes(), format=fmt(1, 2, bits=24, align=8))
    assert describe(reader(), content).dtype == dtype
    factor = factor or float(1 << shift)
    np.testing.assert_array_equal(read(reader(scale=scale), content, 1), (values[:, 1] * factor).astype("f4"))


def test_24_bits_at_no_end_of_32_are_refused():
    content = riff((RAMP * 1.1).astype("<f4").tobytes(), format=fmt(bits=24, align=4))
    reason, message = refused(reader(), content)
    assert reason is Reason.BAD_FORMAT
    assert "24-bit samples in 4 bytes that are neither at their top nor at their bottom" in message


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"RIFF\0\0\0\0AVI LIST",
        b"RIFF\0\0\0\0",
        b"ID3\3",
        b"fLaC",
        b"OggS",
        b"riff" + bytes(60),
        b"RIFX\0\0\0\0AIFF",
    ],
)
def test_other_content_is_not_taken_for_wav(head):
    assert not WavReader.matches(head)


@pytest.mark.parametrize(("start", "count", "found"), [(5, 10, 5), (10, 4, 0), (11, 4, 0)])
def test_a_range_beyond_the_end_is_truncated(start, count, found):
    content = pcm(integers(2, 10, 1), 2) + b"LIST\4\0\0\0more"
    message = f"only {found} of {count} samples could be read from sample {start}: the file is cut short"
    with pytest.raises(RejectError, match=message) as caught:
        read(reader(), content, 0, start, count)
    assert caught.value.reason is Reason.TRUNCATED


def test_one_reader_serves_many_files():
    wav = reader()
    for seed in range(3):
        values = integers(2, 12, 1, seed)
        np.testing.assert_array_equal(read(wav, pcm(values, 2), 0, 0, 12), values[:, 0] / np.float32(32768))


def test_more_than_a_piece_of_many_channels_is_read_in_pieces():
    values = integers(2, 40, 30000).astype("<i2")
    content = riff(values.tobytes(), format=fmt(1, 30000))
    np.testing.assert_array_equal(read(reader(scale="none"), content, 29999, 1, 39), values[1:, 29999])


@pytest.mark.parametrize("rate", [0, 1, 44100, 0xFFFFFFFF])
def test_the_rate_is_passed_on_whatever_it_is(rate):
    """A22: the plan holds it to its limits; nothing is allocated by it."""
    assert describe(reader(), riff(RAMP.tobytes(), format=fmt(rate=rate))).sample_rate == float(rate)


class Failing(io.BytesIO):
    """Fails after so many reads, as a remote file may."""

    def __init__(self, content, reads):
        super().__init__(content)
        self.left = reads

    def readinto(self, buffer):
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error")
        return super().readinto(buffer)


@pytest.mark.parametrize(
    ("subtype", "reads"),
    [
        ("PCM_16", 0),
        ("MS_ADPCM", 0),
        ("MS_ADPCM", 1),
        ("MS_ADPCM", 2),
        ("GSM610", 0),
        ("GSM610", 1),
        ("GSM610", 2),
    ],
)
def test_a_failing_file_is_an_error_of_reading_not_of_the_format(subtype, reads):
    content = sndfile(np.tile(RAMP, 40), subtype)
    with pytest.raises(OSError, match="Input/output error"):
        reader().read(Failing(content, reads), "", 0, 30000, np.empty(5000, np.float32))


def test_a_path_a_file_and_bytes_in_memory_give_the_same(tmp_path):
    """A08."""
    path = tmp_path / "a.wav"
    for subtype in ("PCM_24", "IMA_ADPCM"):
        path.write_bytes(sndfile(np.tile(RAMP, 9), subtype))
        expected = soundfile.read(path, dtype="float32")[0][100:5100]
        for file in (open_local(bytes(path)), path.open("rb"), io.BytesIO(path.read_bytes())):
            with file:
                assert reader().describe(file, path.stat().st_size) == [describe(reader(), path.read_bytes())]
                out = np.empty(5000, np.float32)
                reader().read(file, "", 0, 100, out)
                np.testing.assert_array_equal(out, expected)


def test_odd_files_are_read_as_by_scipy_and_libsndfile(shared):
    """Rates, channels, frames and first samples of every odd WAV that another reader can read."""
    odd = shared / "data" / "odd"
    read_by_others = 0
    for name, entry in json.loads((odd / "expected.json").read_text())["files"].items():
        if not name.endswith(".wav"):
            continue
        content = (odd / name).read_bytes()
        for other in (entry["readers"]["scipy.io.wavfile"], entry["readers"]["soundfile"]):
            if not other["readable"]:
                continue
            read_by_others += 1
            described = describe(reader(), content)
            found = (described.sample_rate, described.channels, described.frames)
            assert found == (other["rate"], other["channels"], other["frames"]), name
            cut = "early-eof" in name
            assert bool(described.warnings) == cut
            assert described.frames_declared == (4410 if cut else None)
            for channel, first in enumerate(other["first"]):
                samples = read(reader(), content, channel, 0, len(first))
                np.testing.assert_array_equal(samples, np.array(first).astype(np.float32), err_msg=name)
            whole = np.array([read(reader(), content, channel) for channel in range(described.channels)])
            assert (whole.min(), whole.max()) == (np.float32(other["min"]), np.float32(other["max"]))
    assert read_by_others == 28
    content = (odd / "test-44100Hz-le-1ch-4bytes-early-eof-no-data.wav").read_bytes()
    assert refused(reader(), content)[0] is Reason.EMPTY
    little, big = ((odd / f"test-44100Hz-{order}-1ch-4bytes.wav").read_bytes() for order in ("le", "be"))
    np.testing.assert_array_equal(read(reader(), little), read(reader(), big))


@pytest.mark.parametrize(
    ("code", "name"), [(0x0055, "MP3"), (0x0161, "Windows Media Audio"), (0x1234, "an unknown codec")]
)
def test_codecs_that_cannot_be_decoded_are_named(code, name):
    reason, message = refused(reader(), riff(bytes(64), format=fmt(code) + struct.pack("<H", 0)))
    assert reason is Reason.BAD_FORMAT
    assert message == (
        f"its samples are compressed as {name} (format code 0x{code:04x}), which is not supported: convert it to PCM"
    )
