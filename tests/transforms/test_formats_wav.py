"""WAV files written by the standard library and by libsndfile, read back as float and as they came."""

import io
import wave

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.formats.base import ReadSettings
from spectrabeam.transforms.formats.choose import format_by_content
from spectrabeam.transforms.formats.wav import WavReader
from spectrabeam.transforms.rejects import Reason, RejectError

SUBTYPES = {1: "PCM_U8", 2: "PCM_16", 3: "PCM_24", 4: "PCM_32"}


def reader(**settings):
    return WavReader(ReadSettings(**settings))


def integers(width, frames, channels, seed=0):
    """Sample values of `width` bytes over the whole range, int64 [frames, channels]; 8 bits are centred."""
    limit = 2 ** (8 * width - 1)
    return np.random.default_rng(seed).integers(-limit, limit, (frames, channels))


def pcm(values, width, rate=8000):
    """The file's bytes, by the standard library."""
    raw = values + 128 if width == 1 else values
    packed = raw.astype("<i8").view(np.uint8).reshape(*values.shape, 8)[..., :width].tobytes()
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(values.shape[1])
        sound.setsampwidth(width)
        sound.setframerate(rate)
        sound.writeframes(packed)
    return file.getvalue()


def sndfile(samples, subtype, **more):
    file = io.BytesIO()
    soundfile.write(file, samples, 44100, subtype=subtype, **({"format": "WAV"} | more))
    return file.getvalue()


def read(wav, content, channel, start, count, dtype=np.float32):
    out = np.full(count, 77, dtype)
    wav.read(io.BytesIO(content), channel, start, out)
    return out


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
    described = reader().describe(io.BytesIO(content), len(content))
    assert (described.frames, described.channels) == values.shape
    assert (described.sample_rate, described.dtype, described.format) == (8000.0, SUBTYPES[width], "wav")
    expected = (values[start : start + count, channel] / 2.0 ** (8 * width - 1)).astype(np.float32)
    np.testing.assert_array_equal(read(reader(), content, channel, start, count), expected)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize(("scale", "factor"), [("none", 1.0), (0.125, 0.125), ("pcm", None)])
def test_scale_gives_counts_or_a_multiple_of_them(width, scale, factor):
    values = integers(width, 50, 2)
    factor = 2.0 ** (1 - 8 * width) if factor is None else factor
    found = read(reader(scale=scale), pcm(values, width), 1, 0, 50)
    np.testing.assert_array_equal(found, (values[:, 1] * factor).astype(np.float32))


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize(("scale", "factor"), [("auto", 1), ("none", 1), ("pcm", 1), (2.0, 2)])
def test_floats_come_as_they_are_also_beyond_one(subtype, scale, factor):
    samples = np.array([0.1, -3.5, 1e-3, 0.0])
    found = read(reader(scale=scale), sndfile(samples, subtype), 0, 0, 4)
    np.testing.assert_array_equal(found, (samples.astype(np.float32) * factor))


def test_int16_samples_can_be_read_as_they_came():
    values = integers(2, 30, 2)
    found = read(reader(), pcm(values, 2), 1, 3, 20, np.int16)
    assert found.dtype == np.int16
    np.testing.assert_array_equal(found, values[3:23, 1])


@pytest.mark.parametrize(("width", "subtype"), [(1, "PCM_U8"), (3, "PCM_24"), (4, "PCM_32")])
def test_other_widths_are_refused_as_int16(width, subtype):
    message = f"samples are stored as {subtype}, and keep_waveform=int16 keeps 16-bit integers as they came"
    with pytest.raises(RejectError, match=message) as caught:
        read(reader(), pcm(integers(width, 9, 1), width), 0, 0, 9, np.int16)
    assert caught.value.reason is Reason.DTYPE_MISMATCH


@pytest.mark.parametrize(
    "more",
    [{}, {"endian": "BIG"}, {"format": "RF64"}, {"format": "W64"}, {"format": "WAVEX"}],
    ids=["RIFF", "RIFX", "RF64", "W64", "WAVEX"],
)
def test_each_container_is_known_by_its_content_and_read(more):
    values = integers(2, 25, 1).astype(np.int16)
    content = sndfile(values, "PCM_16", **more)
    assert format_by_content(content[:64]) == "wav"
    np.testing.assert_array_equal(read(reader(), content, 0, 5, 20), values[5:, 0] / np.float32(32768))


@pytest.mark.parametrize("head", [b"", b"RIFF\0\0\0\0AVI LIST", b"ID3\3", b"fLaC", b"OggS"])
def test_other_content_is_not_taken_for_wav(head):
    assert not WavReader.matches(head)


def refused(content):
    with pytest.raises(RejectError) as caught:
        reader().describe(io.BytesIO(content), len(content))
    return caught.value.reason, str(caught.value)


def test_a_file_without_bytes_or_without_samples_is_empty():
    assert refused(b"") == (Reason.EMPTY, "the file has 0 bytes")
    header = pcm(np.empty((0, 1), np.int64), 2)
    assert refused(header) == (
        Reason.EMPTY,
        f"the header is there, but no sample follows ({len(header)} bytes)",
    )


WITHOUT_RATE = pcm(np.zeros((4, 1), np.int64), 2).replace((8000).to_bytes(4, "little"), bytes(4), 1)


@pytest.mark.parametrize(
    "content", [b"no sound at all", b"RIFF\0\0\0\0WAVE", b"RIFF" + b"\xff" * 60, WITHOUT_RATE]
)
def test_what_libsndfile_cannot_open_is_a_bad_format(content):
    reason, message = refused(content)
    assert reason is Reason.BAD_FORMAT
    assert message.startswith("libsndfile cannot read it: ")
    assert not message.endswith(".")


@pytest.mark.parametrize(("start", "count", "found"), [(5, 10, 5), (10, 4, 0), (11, 4, 0)])
def test_a_range_beyond_the_end_is_truncated(start, count, found):
    content = pcm(integers(2, 10, 1), 2)
    message = f"only {found} of {count} samples could be read from sample {start}: the file is cut short"
    with pytest.raises(RejectError, match=message) as caught:
        read(reader(), content, 0, start, count)
    assert caught.value.reason is Reason.TRUNCATED


def test_one_reader_serves_many_files():
    wav = reader()
    for seed in range(3):
        values = integers(2, 12, 1, seed)
        np.testing.assert_array_equal(read(wav, pcm(values, 2), 0, 0, 12), values[:, 0] / np.float32(32768))
