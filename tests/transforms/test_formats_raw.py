"""Headerless samples: every type, byte order, channel count, header and range, against numpy."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.formats.choose import READERS, Readers, format_by_content, format_by_name
from spectrabeam.transforms.formats.raw import RawReader
from spectrabeam.transforms.formats.settings import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError

DTYPES = ["i1", "u1"] + [
    order + kind for order in "<>" for kind in ("i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
]


def reader(dtype="<f4", channels=1, header=0, **more):
    known = {"raw_dtype": dtype, "raw_channels": channels, "raw_header_bytes": header, "sample_rate": 1e3}
    return RawReader(ReadSettings(**(known | more)))


def stored_samples(dtype, frames, channels, seed):
    """Values over the whole range of the type."""
    random, kind = np.random.default_rng(seed), np.dtype(dtype)
    if kind.kind in "iu":
        return np.frombuffer(random.bytes(frames * channels * kind.itemsize), kind).reshape(frames, channels)
    return (100 * random.standard_normal((frames, channels))).astype(kind)


def read(raw, content, channel, start, count, dtype=np.float32):
    out = np.full(count, 77, dtype)
    raw.read(io.BytesIO(content), "", channel, start, out)
    return out


@st.composite
def files(draw):
    dtype, channels = draw(st.sampled_from(DTYPES)), draw(st.integers(1, 5))
    frames = draw(st.integers(1, 50))
    start = draw(st.integers(0, frames - 1))
    count = draw(st.integers(1, frames - start))
    header = draw(st.binary(max_size=20))
    stored = stored_samples(dtype, frames, channels, draw(st.integers(0, 1 << 30)))
    return dtype, stored, header, draw(st.integers(0, channels - 1)), start, count


@given(files())
def test_any_range_of_any_channel_is_read_as_it_was_stored(file):
    dtype, stored, header, channel, start, count = file
    frames, channels = stored.shape
    raw = reader(dtype, channels, len(header))
    content = header + stored.tobytes()
    (described,) = raw.describe(None, len(content))
    assert (described.frames, described.frames_declared, described.channels) == (frames, None, channels)
    assert (described.sample_rate, described.warnings) == (None, ())  # nothing in the file says a rate
    assert (described.member, described.is_complex, described.dtype) == (None, False, np.dtype(dtype).str)
    expected = stored[start : start + count, channel].astype(np.float32)
    np.testing.assert_array_equal(read(raw, content, channel, start, count), expected)


@given(files(), st.sampled_from(["pcm", 0.25]))
def test_scaled_samples_are_those_of_float64_rounded_once(file, scale):
    dtype, stored, header, channel, start, count = file
    raw = reader(dtype, stored.shape[1], len(header), scale=scale)
    wide = stored[start : start + count, channel].astype(np.float64)
    if scale == "pcm":
        bits = 8 * stored.dtype.itemsize
        wide = {"i": wide / 2.0 ** (bits - 1), "u": wide / 2.0 ** (bits - 1) - 1, "f": wide}[
            stored.dtype.kind
        ]
    else:
        wide = wide * scale
    found = read(raw, header + stored.tobytes(), channel, start, count)
    np.testing.assert_array_equal(found, wide.astype(np.float32))


@pytest.mark.parametrize(("dtype", "full"), [("i1", 127), ("<i2", 32767), (">i4", 2**31 - 1), ("u1", 255)])
def test_pcm_maps_the_types_range_to_minus_one_up_to_below_one(dtype, full):
    lowest = 0 if dtype == "u1" else -full - 1
    values = read(reader(dtype, scale="pcm"), np.array([lowest, full], dtype).tobytes(), 0, 0, 2)
    assert values[0] == -1
    assert values[1] == pytest.approx(full / (full + 1) if dtype != "u1" else 127 / 128)


@pytest.mark.parametrize("scale", ["auto", "none"])
def test_without_a_scale_samples_are_counts(scale):
    content = np.array([-32768, 5], ">i2").tobytes()
    assert read(reader(">i2", scale=scale), content, 0, 0, 2).tolist() == [-32768, 5]


@pytest.mark.parametrize("dtype", ["<i2", ">i2"])
def test_int16_samples_can_be_read_as_they_came(dtype):
    stored = np.array([[1, -2], [3, -32768]], dtype)
    found = read(reader(dtype, 2, scale="pcm"), stored.tobytes(), 1, 0, 2, np.int16)
    assert found.dtype == np.int16
    assert found.tolist() == [-2, -32768]


@pytest.mark.parametrize("dtype", ["u1", "<u2", "<f4", "<i4"])
def test_other_types_are_refused_as_int16(dtype):
    content = np.zeros(4, dtype).tobytes()
    with pytest.raises(
        RejectError, match=f"samples are stored as .*{dtype[-2:]}, and keep_waveform=int16"
    ) as caught:
        read(reader(dtype), content, 0, 0, 4, np.int16)
    assert caught.value.reason is Reason.DTYPE_MISMATCH


class Dripping(io.RawIOBase):
    """A file that gives three bytes at a time, as pipes and network file systems may."""

    def __init__(self, content):
        self._file = io.BytesIO(content)

    def seek(self, offset, whence=0):
        return self._file.seek(offset, whence)

    def readinto(self, buffer):
        return self._file.readinto(memoryview(buffer)[:3])


@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
def test_short_reads_are_continued(dtype):
    stored = np.arange(20, dtype=dtype)
    out = np.zeros(15, np.float32)
    reader(dtype).read(Dripping(stored.tobytes()), "", 0, 5, out)
    assert out.tolist() == list(range(5, 20))


@pytest.mark.parametrize("dtype", ["<f4", "<i2"])
def test_a_file_that_ends_early_is_truncated(dtype):
    content = np.arange(10, dtype=dtype).tobytes()
    with pytest.raises(
        RejectError, match="only 4 of 8 samples could be read from sample 6: the file"
    ) as caught:
        read(reader(dtype), content, 0, 6, 8)
    assert caught.value.reason is Reason.TRUNCATED


@given(files(), st.binary(max_size=20))
def test_planar_channels_lie_one_after_the_other(file, footer):
    dtype, stored, header, channel, start, count = file
    frames, channels = stored.shape
    raw = reader(dtype, channels, len(header), raw_layout="planar", raw_footer_bytes=len(footer))
    content = header + stored.T.tobytes() + footer
    (described,) = raw.describe(None, len(content))
    assert (described.frames, described.channels) == (frames, channels)
    out = np.full(count, 77, np.float32)
    raw.read(io.BytesIO(content), described.locator, channel, start, out)
    np.testing.assert_array_equal(out, stored[start : start + count, channel].astype(np.float32))


def test_a_footer_is_left_out():
    raw = reader("<i2", raw_footer_bytes=5, header=3)
    assert raw.describe(None, 3 + 20 + 5)[0].frames == 10
    with pytest.raises(
        RejectError, match="28 bytes less a header and footer of 9 are no whole number of frames"
    ):
        reader("<i2", raw_footer_bytes=6, header=3).describe(None, 28)


@pytest.mark.parametrize("dtype", ["<c8", ">c16"])
def test_complex_samples_come_as_complex_and_never_as_real(dtype):
    stored = (np.arange(6) + 1j * np.arange(6, 12)).astype(dtype)
    raw = reader(dtype)
    (described,) = raw.describe(None, stored.nbytes)
    assert (described.frames, described.is_complex) == (6, True)
    np.testing.assert_array_equal(read(raw, stored.tobytes(), 0, 2, 3, np.complex64), stored[2:5])
    with pytest.raises(RejectError) as caught:
        read(raw, stored.tobytes(), 0, 0, 6)
    assert caught.value.reason is Reason.COMPLEX_SAMPLES
    assert str(caught.value).startswith(
        f"samples are complex ({dtype}), and these features take real ones: store "
    )


@pytest.mark.parametrize(
    ("size", "header", "message"),
    [
        (0, 0, "the file has 0 bytes$"),
        (512, 512, "the file has 512 bytes, raw_header_bytes=512 and raw_footer_bytes=0: no sample is left"),
        (3, 8, "the file has 3 bytes, raw_header_bytes=8 and raw_footer_bytes=0: no sample is left"),
    ],
)
def test_a_file_without_samples_is_empty(size, header, message):
    with pytest.raises(RejectError, match=message) as caught:
        reader(header=header).describe(None, size)
    assert caught.value.reason is Reason.EMPTY
    assert reader(header=header).describe(None, header + 4)[0].frames == 1


def test_a_size_that_is_no_whole_number_of_frames_is_refused():
    raw = reader("<i2", channels=3, header=10)
    assert raw.describe(None, 10 + 6 * 7)[0].frames == 7
    with pytest.raises(RejectError) as caught:
        raw.describe(None, 10 + 6 * 7 + 4)
    assert caught.value.reason is Reason.PARTIAL_FRAME
    assert str(caught.value) == (
        "56 bytes less a header and footer of 10 are no whole number of frames of 6 bytes (<i2 × 3 channels), 4 are left "
        "over: check raw_dtype, raw_channels and raw_header_bytes, or set partial_frame=drop"
    )


NO_DROP = "raw_header_bytes, since strict, planar channels and files below one frame allow no drop$"


def test_a_partial_frame_can_be_left_out_with_a_warning():
    raw = reader("<i2", channels=3, partial_frame="drop")
    described = raw.describe(None, 6 * 7 + 4)[0]
    assert (described.frames, described.warnings) == (7, ("4 bytes of a partial frame at the end left out",))
    with pytest.raises(RejectError, match=f"no whole number of frames.*{NO_DROP}"):
        raw.describe(None, 5)


@pytest.mark.parametrize("more", [{"strict": True}, {"raw_layout": "planar"}])
def test_a_partial_frame_is_never_left_out_where_that_would_shift_channels_or_strict_is_set(more):
    raw = reader("<i2", channels=3, partial_frame="drop", **more)
    with pytest.raises(RejectError, match=f"no whole number of frames.*{NO_DROP}"):
        raw.describe(None, 6 * 7 + 4)
    assert raw.describe(None, 6 * 7)[0].frames == 7


def test_type_has_no_default():  # nor has the rate: test_describe has that
    message = r"^raw_dtype is not set, .* give it with the sample rate, for example --raw-dtype '<f4'"
    with pytest.raises(ValueError, match=message):
        RawReader(ReadSettings(sample_rate=1.0))


@pytest.mark.parametrize("magic", [b"RIFF", b"RIFX", b"RF64", b"fLaC", b"OggS", b"FORM"])
def test_a_file_that_begins_as_an_audio_file_is_not_headerless(magic):
    content = magic + bytes(60)
    with pytest.raises(
        RejectError, match=f"the file begins with {magic.decode()} as an audio file does"
    ) as caught:
        read(reader("<f4"), content, 0, 0, 16)
    assert caught.value.reason is Reason.BAD_FORMAT
    with pytest.raises(RejectError, match="begins with"):
        read(reader("<i2"), content, 0, 0, 16)
    assert not read(reader("<i2"), content, 0, 2, 16).any()
    assert not read(reader("<f4", header=4), content, 0, 0, 15).any()


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        ("nonsense", "'nonsense' is not a numpy type: write byte order, kind and bytes, such as <f4"),
        ("f4", "'f4' says no byte order: write <f4 .little. or >f4 .big."),
        ("=i2", "'=i2' says no byte order"),
        (
            "S4",
            "'S4' is no number of 1 to 8 bytes: use i1 … i8, u1 … u8, f2, f4, f8, or c8 and c16 for complex",
        ),
        ("<f16", "'<f16' is no number"),
        ("<c32", "'<c32' is no number"),
    ],
)
def test_a_type_that_cannot_be_samples_is_refused(dtype, message):
    with pytest.raises(ValueError, match=message):
        ReadSettings(raw_dtype=dtype)


@pytest.mark.parametrize("dtype", [*DTYPES, "<c8", ">c16"])
def test_each_type_with_its_byte_order_is_taken(dtype):
    assert np.dtype(ReadSettings(raw_dtype=dtype).raw_dtype) == np.dtype(dtype)


def test_scale_is_a_name_or_a_factor():
    assert ReadSettings(scale="0.001").scale == 0.001
    with pytest.raises(ValueError, match=r"'full' is neither auto, pcm, none nor a factor such as 0\.001"):
        ReadSettings(scale="full")


def test_names_stand_for_formats_unless_another_is_asked_for():
    auto = ReadSettings()
    names = (b"a.raw", b"a.RAW", b"b.wav", b"b.Wave", b"c.doc", b"raw", b".raw")
    assert [format_by_name(name, auto) for name in names] == ["raw", "raw", "wav", "wav", None, None, None]
    assert format_by_name(b"b.wav", ReadSettings(input_format="raw")) is None


def test_content_never_shows_a_headerless_file():
    assert format_by_content(np.random.default_rng(0).bytes(64)) is None


def test_each_reader_is_made_once_and_bound_to_the_settings():
    readers = Readers(ReadSettings(raw_dtype=">i2", sample_rate=5.0))
    assert readers.get("raw") is readers.get("raw")
    assert readers.get("raw").describe(None, 4)[0].dtype == ">i2"
    assert readers.get("raw", '{"raw_dtype": "<f8"}') is readers.get("raw", '{"raw_dtype": "<f8"}')
    assert readers.get("raw", '{"raw_dtype": "<f8"}').describe(None, 8)[0].dtype == "<f8"
    assert {"raw", "wav"} <= set(READERS)
    with pytest.raises(ValueError, match="raw_dtype is not set"):
        Readers(ReadSettings()).get("raw")
