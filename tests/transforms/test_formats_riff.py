"""Headers of WAV files that lie, are cut short, or are damaged: what is there is used, and nothing hangs."""

import io
import struct
import time

import numpy as np
import pytest
import scipy.io.wavfile
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.formats.audio.wav import WavReader
from spectrabeam.transforms.formats.base import ReadSettings
from spectrabeam.transforms.rejects import Reason
from tests.helpers.waves import (
    RAMP,
    chunk,
    describe,
    extensible,
    fmt,
    outcome,
    read,
    refused,
    rf64,
    riff,
    wave64,
)

OPEN = 0xFFFFFFFF
SAMPLES = RAMP.tobytes()
FULL = RAMP / np.float32(32768)
LEFT_OPEN = "the header leaves the length open, as when it is written to a pipe: {} frames up to the end of the file are used"


def reader(**settings):
    return WavReader(ReadSettings(**settings))


def rifx(samples, **more):
    return riff(
        np.frombuffer(samples[: len(samples) // 2 * 2], "<i2").astype(">i2").tobytes(), magic=b"RIFX", **more
    )


CONTAINERS = {
    "RIFF": (lambda length, samples=SAMPLES: riff(samples, data_length=length)),
    "RIFX": (lambda length, samples=SAMPLES: rifx(samples, data_length=length)),
    "RF64": (lambda length, samples=SAMPLES: rf64(samples, long_length=length)),
    "BW64": (lambda length, samples=SAMPLES: rf64(samples, long_length=length, magic=b"BW64")),
    "RF64 by 32 bits": (lambda length, samples=SAMPLES: rf64(samples, long_length=0, data_length=length)),
    "W64": (
        lambda length, samples=SAMPLES: wave64(samples, data_length=None if length is None else length + 24)
    ),
}
containers = pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)


@containers
def test_a_header_that_says_the_truth_gives_no_warning(make):
    """A09, A14: all containers give the same samples."""
    content = make(len(SAMPLES))
    described = describe(reader(strict=True), content)
    assert (described.frames, described.warnings, described.frames_declared) == (1000, (), None)
    np.testing.assert_array_equal(read(reader(), content), FULL)


@pytest.mark.parametrize("riff_length", [OPEN, 0, None])
@pytest.mark.parametrize("data_length", [OPEN, OPEN - 36, 0x7FFFFFFF, 0x7FFFF000, 0x80000000])
@pytest.mark.parametrize("magic", [b"RIFF", b"RIFX"])
def test_a_length_left_open_by_a_pipe_is_what_is_there(riff_length, data_length, magic):
    """A01: ffmpeg, sox and arecord write these; one warning, also if strict, since nothing says that it is cut."""
    samples = RAMP.astype(">i2" if magic == b"RIFX" else "<i2").tobytes()
    content = riff(samples, riff_length=riff_length, data_length=data_length, magic=magic)
    for strict in (False, True):
        described = describe(reader(strict=strict), content)
        assert (described.frames, described.warnings) == (1000, (LEFT_OPEN.format(1000),))
        assert described.frames_declared is None
    np.testing.assert_array_equal(read(reader(), content), FULL)


@pytest.mark.parametrize(
    "content",
    [rf64(SAMPLES, long_length=(1 << 64) - 1), rf64(SAMPLES, long_length=(1 << 63) - 1),
     riff(SAMPLES, magic=b"RF64", data_length=OPEN), wave64(SAMPLES, data_length=(1 << 63) - 1),
     wave64(SAMPLES, data_length=(1 << 64) - 1)],
    ids=["RF64 -1", "RF64 largest", "RF64 without ds64", "W64 largest", "W64 -1"],
)  # fmt: skip
def test_a_length_left_open_in_64_bits_is_what_is_there(content):
    """A01."""
    assert describe(reader(), content).warnings == (LEFT_OPEN.format(1000),)
    np.testing.assert_array_equal(read(reader(), content), FULL)


@containers
def test_a_length_of_zero_before_samples_is_what_is_there(make):
    """A04: a recorder that lost its power before it wrote the length."""
    content = make(0)
    described = describe(reader(), content)
    assert (described.frames, described.frames_declared) == (1000, 0)
    assert described.warnings == ("the header promises 0 frames, 1000 frames are there",)
    np.testing.assert_array_equal(read(reader(), content), FULL)
    reason, message = refused(reader(strict=True), content)
    assert reason is Reason.TRUNCATED
    assert message == "the header promises 0 frames, 1000 frames are there: strict rejects it"


@containers
@pytest.mark.parametrize("declared", [4000, 1 << 20, 3_000_000_000])
def test_samples_that_are_cut_short_are_used_and_told_unless_strict(make, declared):
    """A02."""
    content = make(declared)
    described = describe(reader(), content)
    assert (described.frames, described.frames_declared) == (1000, declared // 2)
    assert described.warnings == (f"the header promises {declared // 2} frames, 1000 frames are there",)
    np.testing.assert_array_equal(read(reader(), content), FULL)
    assert refused(reader(strict=True), content)[0] is Reason.TRUNCATED


@pytest.mark.parametrize("magic", [b"RIFF", b"RIFX"])
def test_a_partial_frame_at_the_end_is_dropped_with_its_byte_count(magic):
    """A15: 999 values in stereo are 499 frames."""
    order = ">" if magic == b"RIFX" else "<"
    samples = RAMP[:999].astype(f"{order}i2").tobytes()
    content = riff(samples, format=fmt(1, 2, order=order), magic=magic)
    described = describe(reader(), content)
    assert (described.frames, described.frames_declared) == (499, None)
    assert described.warnings == ("2 bytes of a partial frame at the end left out",)
    for channel in (0, 1):
        np.testing.assert_array_equal(read(reader(), content, channel), FULL[:998].reshape(-1, 2)[:, channel])
    reason, message = refused(reader(strict=True), content)
    assert reason is Reason.PARTIAL_FRAME
    assert message == "2 bytes of a partial frame at the end (4 bytes a frame): strict rejects it"


def test_a_cut_within_a_frame_is_told_with_both():
    content = riff(SAMPLES + b"x", data_length=4000)[:-1]
    assert describe(reader(), content).warnings == (
        "the header promises 2000 frames, 1000 frames are there",
        "1 bytes of a partial frame at the end left out",
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [(chunk(b"JUNK", bytes(28)), chunk(b"LIST", b"INFOsomething")),
     (chunk(b"bext", bytes(603)), chunk(b"id3 ", b"x" * 11) + chunk(b"LIST", b"INFO")),
     (chunk(b"JUNK", bytes(9000)), b""), (b"".join(chunk(b"PAD ", b"") for _ in range(900)), b""),
     (b"JUNK" + struct.pack("<I", 3) + b"odd", chunk(b"LIST", b"INFO"))],
    ids=["JUNK", "bext", "large", "many", "without padding"],
)  # fmt: skip
def test_other_chunks_are_skipped_and_never_samples(before, after):
    """A07."""
    content = riff(SAMPLES, before=before, after=after)
    described = describe(reader(), content)
    assert (described.frames, described.warnings) == (1000, ())
    np.testing.assert_array_equal(read(reader(), content), FULL)


def test_an_odd_number_of_bytes_before_a_chunk_is_padded_or_not():
    samples = bytes(range(1, 100))
    for after in (b"\0" + chunk(b"LIST", b"INFO"), chunk(b"LIST", b"INFO")):
        content = riff(samples, format=fmt(bits=8))[:-1] + after
        assert (describe(reader(), content).frames, describe(reader(), content).warnings) == (99, ())


def test_a_fmt_chunk_after_the_samples_counts():
    body = chunk(b"data", SAMPLES) + chunk(b"fmt ", fmt())
    np.testing.assert_array_equal(read(reader(), b"RIFF\0\0\0\0WAVE" + body), FULL)


def test_samples_that_the_header_leaves_out_are_told():
    """A04's kind: a recorder that mends its header now and then, and lost its power."""
    content = riff(SAMPLES, data_length=500)
    described = describe(reader(), content)
    assert described.frames == 250
    assert described.warnings == (
        "1500 bytes after the samples that the header declares are left out: they are no chunks",
    )


def test_a_length_that_32_bits_cannot_hold_is_known_by_the_files_size(tmp_path):
    """Recorders go on beyond 4 GiB, and write the length modulo 2**32."""
    path = tmp_path / "large.wav"
    length = (1 << 32) + 2000
    header = riff(b"", data_length=2000)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + length)
        file.seek(len(header) + length - 2000)
        file.write(SAMPLES)
    with path.open("rb", buffering=0) as file:
        (described,) = reader().describe(file, len(header) + length)
        assert described.frames == length // 2
        assert "the header's 32 bits cannot hold the length of 4294969296 bytes" in described.warnings[0]
        out = np.empty(1000, np.float32)
        reader().read(file, "", 0, length // 2 - 1000, out)
    np.testing.assert_array_equal(out, FULL)


def test_a_block_alignment_that_does_not_fit_is_told_and_follows_from_the_bits():
    for align in (0, 1, 3, 4, 200):
        content = riff(SAMPLES, format=fmt(1, 2, align=align) if align != 4 else fmt(3, 2, bits=32, align=4))
        assert (
            describe(reader(), content)
            .warnings[0]
            .startswith(f"block_align={align} in the header does not fit")
        )
    assert describe(reader(), riff(SAMPLES, format=fmt(1, 2, align=0))).frames == 500


NOTHING = "the header is there, but no sample follows ({} bytes)"
ABSENT = "no data chunk: the file ends ({} bytes) before its samples"
EMPTY_CHUNK = "the data chunk is empty: other chunks follow, but no sample"
HEADER = riff(b"")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "the file has 0 bytes"), (HEADER, NOTHING), (riff(b"", data_length=OPEN), NOTHING),
     (riff(b"", data_length=4000), NOTHING), (rf64(b""), NOTHING), (wave64(b""), NOTHING), (HEADER[:36], ABSENT),
     (HEADER[:40], ABSENT), (b"RIFF\4\0\0\0WAVE", ABSENT), (b"RIFX\0\0\0\4WAVE", ABSENT),
     (riff(b"", after=chunk(b"LIST", b"INFO")), EMPTY_CHUNK),
     (riff(b"", after=chunk(b"LIST", b"INFOx") + chunk(b"id3 ", b"tag")), EMPTY_CHUNK),
     (riff(b"x"), "1 bytes of samples are less than one frame of 2 bytes"),
     (riff(b"", format=fmt(2, align=256) + bytes(20)), NOTHING)],
)  # fmt: skip
def test_a_file_without_a_sample_is_empty(content, message):
    """A27."""
    content = content[:-1] if content.endswith(b"x\0") else content
    assert refused(reader(), content) == (Reason.EMPTY, message.format(len(content)))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"no sound at all", "it is no WAV file: it does not begin with RIFF, a length and WAVE"),
     (b"RIFF", "it is no WAV file"), (b"RIFF" + b"\xff" * 60, "it is no WAV file"),
     (b"RIFF\0\0\0\0WAVE" + b"\xff" * 60, "no chunk begins at byte 12, where the one before it should end"),
     (b"RIFF\0\0\0\0WAVE" + chunk(b"data", SAMPLES), "no fmt chunk: nothing says what the samples are"),
     (riff(SAMPLES, format=fmt()[:14]), "the fmt chunk has 14 bytes and must have 16 at least"),
     (riff(SAMPLES, format=fmt(channels=0)), "channels=0 in the header must be >= 1: it is damaged"),
     (riff(SAMPLES, format=fmt(3, bits=16)), "16-bit float samples, and those of WAV have 32 or 64 bits"),
     (riff(SAMPLES, format=fmt(3, bits=24)), "24-bit float samples, and those of WAV have 32 or 64 bits"),
     (riff(SAMPLES, format=fmt(bits=0)), "0-bit integer samples, and those of WAV have 1 to 64 bits"),
     (riff(SAMPLES, format=fmt(bits=65)), "65-bit integer samples, and those of WAV have 1 to 64 bits"),
     (riff(SAMPLES, format=extensible(1, 1, 16, 16)[:30]), "an extensible fmt chunk has 30 bytes and must have 40"),
     (riff(SAMPLES, format=extensible(1, 1, 16, 16)[:-1] + b"?"), "the subformat 01000000"),
     (riff(SAMPLES, format=extensible(0x10001, 1, 16, 16)), "is not known: convert the samples to PCM"),
     (riff(SAMPLES, before=b"".join(chunk(b"PAD ", b"") for _ in range(1100))), "more than 1024 chunks come before"),
     (wave64(SAMPLES)[:40] + b"fmt " + bytes(80), "no chunk begins at byte 64")],
)  # fmt: skip
def test_what_is_damaged_is_a_bad_format_in_clear_words(content, message):
    reason, found = refused(reader(), content)
    assert reason is Reason.BAD_FORMAT
    assert message in found


def test_a_chunk_that_reaches_beyond_the_end_before_any_sample_is_truncated():
    content = riff(SAMPLES, before=chunk(b"JUNK", bytes(5000)))[:3000]
    assert refused(reader(), content) == (
        Reason.TRUNCATED,
        "the file is cut short before its samples: a chunk ends at byte 5020, it at 3000",
    )


def test_millions_of_tiny_chunks_end_quickly():
    before = chunk(b"PAD ", b"") * 3_000_000
    began = time.perf_counter()
    assert outcome(reader(), riff(SAMPLES, before=before)) is Reason.BAD_FORMAT
    for content in (riff(b"", data_length=0, after=before), riff(SAMPLES, after=before)):
        assert not isinstance(outcome(reader(), content), Reason)
    assert time.perf_counter() - began < 2


@given(st.data())
def test_damaged_headers_are_rejected_or_read_and_nothing_else(data):
    """Any bytes of the header changed: a description that can be read, or a RejectError."""
    base = data.draw(
        st.sampled_from(
            [riff(SAMPLES[:100]), rf64(SAMPLES[:100]), wave64(SAMPLES[:100]), rifx(SAMPLES[:100])]
        )
    )
    content = bytearray(base)
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(4, len(content) - 100))] = data.draw(st.integers(0, 255))
    content = bytes(content[: data.draw(st.integers(0, len(content)))])
    found = outcome(reader(), content)
    assert isinstance(found, Reason) or found.frames * found.channels <= len(content) * 8


@pytest.mark.parametrize("data_length", [0, OPEN, 1 << 30])
@pytest.mark.parametrize("more", [{}, {"endian": "BIG"}, {"format": "W64"}])
def test_compressed_samples_of_a_wrong_length_are_read_to_the_end_of_the_file(data_length, more):
    """A01, A02, A04 where libsndfile decodes: it is shown the true length."""
    file = io.BytesIO()
    soundfile.write(
        file, np.sin(np.arange(9000) / 50), 8000, subtype="IMA_ADPCM", **({"format": "WAV"} | more)
    )
    content = bytearray(file.getvalue())
    expected = read(reader(), bytes(content))
    wide = more.get("format") == "W64"
    at = content.rindex(b"data") + (16 if wide else 4)
    packed = struct.pack("<Q" if wide else ">I" if more.get("endian") else "<I", data_length)
    content[at : at + len(packed)] = packed
    described = describe(reader(), bytes(content))
    assert len(described.warnings) == 1
    np.testing.assert_array_equal(read(reader(), bytes(content)), expected)


@pytest.mark.filterwarnings("ignore:Chunk .non-data. not understood")
def test_scipy_reads_the_same_from_a_file_of_many_chunks(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(riff(SAMPLES, before=chunk(b"bext", bytes(603)), after=chunk(b"LIST", b"INFOabc")))
    rate, samples = scipy.io.wavfile.read(path)
    assert rate == describe(reader(), path.read_bytes()).sample_rate
    np.testing.assert_array_equal(read(reader(scale="none"), path.read_bytes()), samples)
