"""FLAC, Ogg and MP3: ranges against the whole, lengths that are missing or wrong, streams that are cut or damaged."""

import io
import time

import numpy as np
import pytest
import soundfile

from spectrabeam.transforms.files import open_local
from spectrabeam.transforms.formats.audio.mp3 import Mp3Reader
from spectrabeam.transforms.formats.audio.streams import FlacReader, OggReader
from spectrabeam.transforms.formats.base import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.waves import describe, outcome, read, refused

FRAMES = 50000
READERS = {"FLAC": FlacReader, "OGG": OggReader, "MP3": Mp3Reader}
CODECS = [
    ("FLAC", "PCM_S8", 8000), ("FLAC", "PCM_16", 44100), ("FLAC", "PCM_24", 96000), ("OGG", "VORBIS", 44100),
    ("OGG", "VORBIS", 8000), ("OGG", "OPUS", 48000), ("OGG", "OPUS", 16000), ("MP3", "MPEG_LAYER_III", 44100),
    ("MP3", "MPEG_LAYER_III", 22050), ("MP3", "MPEG_LAYER_III", 8000),
]  # fmt: skip
codecs = pytest.mark.parametrize(("format", "subtype", "rate"), CODECS)


def sound(frames=FRAMES, channels=2):
    """A walk and a sine: float64 [frames, channels] within ±0.8."""
    walk = np.cumsum(np.random.default_rng(0).standard_normal(frames)) * 0.003
    both = np.stack([walk / max(1, np.abs(walk).max()), np.sin(np.arange(frames) * 0.05)], 1)
    return 0.8 * both[:, :channels]


def encode(format, subtype, rate=44100, frames=FRAMES, channels=2):
    file = io.BytesIO()
    soundfile.write(file, sound(frames, channels), rate, format=format, subtype=subtype)
    return file.getvalue()


def whole(content):
    """By soundfile, from the first to the last sample: float32 [frames, channels].

    Not by soundfile.read, which seeks to the start first: after a seek MP3 decodes to slightly other samples.
    """
    with soundfile.SoundFile(io.BytesIO(content)) as file:
        return file.read(dtype="float32", always_2d=True)


def flac_total(content, total):
    """The stream with another number of samples in its header."""
    changed = bytearray(content)
    changed[21:26] = (int.from_bytes(content[21:26], "big") >> 36 << 36 | total).to_bytes(5, "big")
    return bytes(changed)


@codecs
def test_any_range_equals_that_of_the_whole(format, subtype, rate, tmp_path):
    """Also near the end, and whatever was read before; from a file on disk and from memory."""
    content = encode(format, subtype, rate)
    expected = whole(content)
    reader = READERS[format](ReadSettings())
    described = describe(reader, content)
    assert (described.format, described.dtype) == (format.lower(), subtype)
    assert (described.frames, described.channels, described.sample_rate) == (FRAMES, 2, rate)
    assert (described.warnings, described.unit) == ((), "full scale")
    path = tmp_path / "sound"
    path.write_bytes(content)
    random = np.random.default_rng(1)
    ranges = [(0, FRAMES), (FRAMES - 1, 1), (FRAMES - 2291, 2000), (0, 1)]
    ranges += [
        (start, int(random.integers(1, FRAMES - start + 1))) for start in random.integers(0, FRAMES, 20)
    ]
    ranges += [
        (int(start), int(random.integers(1, 300)))
        for start in random.integers(FRAMES - 5000, FRAMES - 300, 20)
    ]
    with open_local(bytes(path)) as file:
        for start, count in ranges:
            for channel in (0, 1):
                out = np.empty(count, np.float32)
                reader.read(file, described.locator, channel, start, out)
                np.testing.assert_array_equal(out, expected[start : start + count, channel])
    with path.open("rb") as buffered:
        out = np.empty(999, np.float32)
        READERS[format](ReadSettings()).read(buffered, "", 1, 7, out)
    np.testing.assert_array_equal(out, expected[7:1006, 1])
    np.testing.assert_array_equal(read(READERS[format](ReadSettings()), content, 1, 7, 999), out)


@codecs
def test_content_alone_tells_the_format(format, subtype, rate):
    content = encode(format, subtype, rate, 4000)
    assert {name for name, reader in READERS.items() if reader.matches(content[:4096])} == {format}


def test_an_id3_tag_is_skipped():
    content = encode("MP3", "MPEG_LAYER_III")
    for length, digits in ((100, b"\0\0\0\x64"), (20000, b"\0\1\x1c\x20")):
        tagged = b"ID3\3\0\0" + digits + bytes(length) + content
        assert Mp3Reader.matches(tagged[:4096])
        np.testing.assert_array_equal(read(Mp3Reader(ReadSettings()), tagged), whole(content)[:, 0])


@pytest.mark.parametrize(
    "head",
    [b"", b"fLa", b"OggS", b"OggS\0" + bytes(40), b"ID3", b"\xff\xfb", b"\xff" * 4096, b"\xff\xfb\x90\x64" + bytes(4092),
     b"RIFF\0\0\0\0WAVE", bytes(4096), b"ID3\3\0\0\0\0\0\x64" + bytes(100) + b"fLaC" + bytes(1000),
     np.arange(1024, dtype="<f4").tobytes(), b"\xff\xf1\x50\x80" * 1024],
)  # fmt: skip
def test_other_content_is_not_taken_for_audio(head):
    assert not any(reader.matches(head) for reader in READERS.values())


@pytest.mark.parametrize(("subtype", "bits"), [("PCM_S8", 8), ("PCM_16", 16), ("PCM_24", 24)])
@pytest.mark.parametrize(
    ("scale", "unit"), [("auto", "full scale"), ("pcm", "full scale"), ("none", "counts"), (0.3, None)]
)
def test_flac_samples_are_scaled_as_those_of_wav(subtype, bits, scale, unit):
    """A11."""
    limit = 1 << (bits - 1)
    counts = np.random.default_rng(2).integers(-limit, limit, 999)
    file = io.BytesIO()
    soundfile.write(file, (counts << (32 - bits)).astype(np.int32), 8000, format="FLAC", subtype=subtype)
    reader = FlacReader(ReadSettings(scale=scale))
    factor = {"auto": 1 / limit, "pcm": 1 / limit, "none": 1.0}.get(scale, scale)
    np.testing.assert_array_equal(read(reader, file.getvalue()), (counts * factor).astype(np.float32))
    assert describe(reader, file.getvalue()).unit == unit
    if bits == 16:
        np.testing.assert_array_equal(read(reader, file.getvalue(), dtype=np.int16), counts)


@pytest.mark.parametrize(
    ("format", "subtype"), [("FLAC", "PCM_24"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III")]
)
def test_samples_that_are_not_16_bits_are_refused_as_int16(format, subtype):
    with pytest.raises(
        RejectError, match=f"samples are stored as {subtype}, and keep_waveform=int16"
    ) as caught:
        read(READERS[format](ReadSettings()), encode(format, subtype, frames=5000), 0, 0, 99, np.int16)
    assert caught.value.reason is Reason.DTYPE_MISMATCH


@pytest.mark.parametrize("frames", [1, 4096, 20000, 20480])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_flac_stream_that_does_not_tell_its_length_is_decoded_to_its_end(frames, channels):
    """A03: as the encoder leaves it when it writes to a pipe."""
    content = encode("FLAC", "PCM_16", 44100, frames, channels)
    expected = whole(content)
    piped = flac_total(content, 0)
    reader = FlacReader(ReadSettings(strict=True))
    described = describe(reader, piped)
    assert described.frames == frames
    assert described.warnings == (
        f"the header leaves the length open, as when it is written to a pipe: {frames} frames are decoded",
    )
    for start in {0, frames // 2, frames - 1}:
        found = read(reader, piped, channels - 1, start)
        np.testing.assert_array_equal(found, expected[start:, channels - 1])


def test_a_flac_stream_without_a_length_and_cut_short_is_corrupt():
    content = flac_total(encode("FLAC", "PCM_16"), 0)
    reason, message = refused(FlacReader(ReadSettings()), content[: len(content) * 2 // 3])
    assert reason is Reason.CORRUPT
    assert "the stream loses sync after sample" in message


@pytest.mark.parametrize("part", [2 / 3, 0.1, 0.999])
def test_a_flac_stream_that_is_cut_short_is_corrupt_and_says_where(part):
    """A08: not used in part without a word."""
    content = encode("FLAC", "PCM_16")
    cut = content[: int(len(content) * part)]
    reason, message = refused(FlacReader(ReadSettings()), cut)
    assert reason is Reason.CORRUPT
    assert f"of {FRAMES}" in message
    where = int(message.split("up to sample ")[1].split(" of")[0])
    assert part * FRAMES - 8192 < where < part * FRAMES + 4096


@pytest.mark.parametrize("total", [FRAMES + 1, 2 * FRAMES, (1 << 36) - 1])
def test_a_flac_header_that_promises_too_much_is_corrupt(total):
    """HDR: and nothing is allocated by the number."""
    began = time.perf_counter()
    reason, message = refused(FlacReader(ReadSettings()), flac_total(encode("FLAC", "PCM_16"), total))
    assert reason is Reason.CORRUPT
    assert f"of {total}" in message
    assert time.perf_counter() - began < 5


def test_damage_within_a_flac_stream_rejects_what_it_hits_and_nothing_else():
    content = bytearray(encode("FLAC", "PCM_16"))
    middle = len(content) // 2
    content[middle : middle + 40] = bytes(40)
    reader = FlacReader(ReadSettings())
    expected = whole(encode("FLAC", "PCM_16"))
    np.testing.assert_array_equal(read(reader, bytes(content), 0, 0, 10000), expected[:10000, 0])
    with pytest.raises(RejectError, match="the stream is cut short or damaged after sample") as caught:
        read(reader, bytes(content), 0, 0, FRAMES)
    assert caught.value.reason is Reason.CORRUPT
    np.testing.assert_array_equal(read(reader, bytes(content), 0, 45000, 4000), expected[45000:49000, 0])


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
@pytest.mark.parametrize("part", [0.4, 2 / 3, 0.999])
def test_an_ogg_stream_that_is_cut_short_is_used_by_whole_pages_and_told(subtype, part):
    """Each page counts its samples, so that what is there is where it was; strict rejects."""
    content = encode("OGG", subtype, 48000, frames=6 * FRAMES)
    cut = content[: int(len(content) * part)]
    described = describe(OggReader(ReadSettings()), cut)
    assert 0 < described.frames < 6 * FRAMES
    assert described.warnings == (
        "the stream has no last page: it is cut short, or its recording did not end; what its whole pages hold is used",
    )
    np.testing.assert_array_equal(
        read(OggReader(ReadSettings()), cut, 1), whole(content)[: described.frames, 1]
    )
    reason, message = refused(OggReader(ReadSettings(strict=True)), cut)
    assert reason is Reason.TRUNCATED
    assert message.endswith("strict rejects it")


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_a_hole_in_an_ogg_stream_is_corrupt(subtype):
    """libsndfile closes the gap without a word, so that all after it would stand too early."""
    content = bytearray(encode("OGG", subtype, 48000, frames=4 * FRAMES))
    middle = len(content) // 2
    content[middle : middle + 40] = bytes(40)
    with pytest.raises(RejectError, match="the stream is cut short or damaged after sample") as caught:
        read(OggReader(ReadSettings()), bytes(content), 0, 0, 100)
    assert caught.value.reason is Reason.CORRUPT


@pytest.mark.parametrize("part", [0.3, 2 / 3, 0.95])
def test_an_mp3_stream_shorter_than_its_header_says_is_corrupt(part, capfd):
    content = encode("MP3", "MPEG_LAYER_III")
    reason, message = refused(Mp3Reader(ReadSettings()), content[: int(len(content) * part)])
    assert reason is Reason.CORRUPT
    where = int(message.split("up to sample ")[1].split(" of")[0])
    assert 0 < where < FRAMES


def test_a_hole_in_an_mp3_stream_is_corrupt(capfd):
    content = encode("MP3", "MPEG_LAYER_III")
    holed = content[:9000] + content[12000:]
    with pytest.raises(RejectError) as caught:
        read(Mp3Reader(ReadSettings()), holed, 0, 0, 100)
    assert caught.value.reason is Reason.CORRUPT


def without_length(rate, channels=2):
    """An MP3 stream of varying bit rate whose first frame, which tells the length, is left out."""
    content = encode("MP3", "MPEG_LAYER_III", rate, channels=channels)
    return content[content.index(content[:2], 4) :]


@pytest.mark.parametrize("rate", [44100, 22050, 8000])
@pytest.mark.parametrize("channels", [1, 2])
def test_an_mp3_stream_that_does_not_tell_its_length_is_decoded_to_its_end(rate, channels, capfd):
    """HDR: libsndfile takes the first frame's bit rate for that of all, and gives a third of the samples."""
    content = without_length(rate, channels)
    reader = Mp3Reader(ReadSettings(strict=True))
    described = describe(reader, content)
    assert (described.warnings, described.sample_rate) == ((), rate)
    assert FRAMES < described.frames < FRAMES + 3000
    found = read(reader, content, channels - 1)
    by_libsndfile = whole(content)[:, channels - 1]
    np.testing.assert_array_equal(found[: len(by_libsndfile)], by_libsndfile[: len(found)])
    told = whole(encode("MP3", "MPEG_LAYER_III", rate, channels=channels))[:, channels - 1]
    delays = [d for d in range(2400) if np.array_equal(found[d + 5000 : d + 40000], told[5000:40000])]
    assert len(delays) == 1  # that of the encoder, which only the frame that is missing tells
    for start in (0, 777, FRAMES):
        np.testing.assert_array_equal(
            read(reader, content, channels - 1, start, 500), found[start : start + 500]
        )
    for tail in (b"TAG" + bytes(125), bytes(700), bytes(3000) + b"TAG" + bytes(125), b"APETAGEX" + bytes(40)):
        np.testing.assert_array_equal(read(reader, content + tail, channels - 1), found)


def test_an_mp3_stream_without_a_length_that_is_cut_short_is_used_by_whole_frames(capfd):
    content = without_length(44100)
    cut = content[: len(content) * 2 // 3]
    described = describe(Mp3Reader(ReadSettings()), cut)
    assert described.warnings[0].startswith("the last MPEG frame is cut short: ")
    np.testing.assert_array_equal(
        read(Mp3Reader(ReadSettings()), cut), read(Mp3Reader(ReadSettings()), content)[: described.frames]
    )
    assert refused(Mp3Reader(ReadSettings(strict=True)), cut)[0] is Reason.TRUNCATED


@pytest.mark.parametrize(
    "damage", [lambda c: c[:9000] + c[12000:], lambda c: c[:9000] + bytes(2000) + c[11000:]]
)
def test_an_mp3_stream_without_a_length_that_is_damaged_is_corrupt_and_says_where(damage):
    reason, message = refused(Mp3Reader(ReadSettings()), damage(without_length(44100)))
    assert reason is Reason.CORRUPT
    assert 8000 < int(message.split("loses sync at byte ")[1].split(" of")[0]) < 12000


@pytest.mark.parametrize("format", READERS)
def test_bytes_after_the_stream_do_no_harm(format, capfd):
    subtype = {"FLAC": "PCM_16", "OGG": "VORBIS", "MP3": "MPEG_LAYER_III"}[format]
    content = encode(format, subtype, 44100, 20000)
    reader = READERS[format](ReadSettings())
    for tail in (bytes(5000), b"TAG" + bytes(125)):
        assert describe(reader, content + tail).frames == 20000
        np.testing.assert_array_equal(read(reader, content + tail), whole(content)[:, 0])


@pytest.mark.parametrize("format", READERS)
@pytest.mark.parametrize("cut", [0, 3, 4, 20, 42, 60, 100, 200])
def test_what_ends_within_its_header_is_refused(format, cut, capfd):
    """A27: FLAC among them."""
    subtype = {"FLAC": "PCM_16", "OGG": "VORBIS", "MP3": "MPEG_LAYER_III"}[format]
    reason, message = refused(READERS[format](ReadSettings()), encode(format, subtype)[:cut])
    assert reason in ({Reason.EMPTY} if cut == 0 else {Reason.CORRUPT, Reason.BAD_FORMAT, Reason.EMPTY})
    assert "psf" not in message
    assert "SF_INFO" not in message
    assert "pipe?" not in message


@pytest.mark.parametrize("format", READERS)
def test_garbage_and_other_formats_are_a_bad_format(format):
    reader = READERS[format](ReadSettings())
    for content in (b"no sound at all" * 9, bytes(5000), np.random.default_rng(0).bytes(5000)):
        assert refused(reader, content)[0] is Reason.BAD_FORMAT
    other = encode("FLAC" if format != "FLAC" else "OGG", "PCM_16" if format != "FLAC" else "VORBIS")
    reason, message = refused(reader, other)
    assert reason is Reason.BAD_FORMAT
    assert message.startswith(f"it is no {format.lower()} file but ")


def test_a_flac_file_without_a_frame_is_empty():
    """A27."""
    header = encode("FLAC", "PCM_16")[:42]
    last = bytes([header[4] | 0x80])  # no other metadata follows
    for total in (0, 1000):
        content = flac_total(header[:4] + last + header[5:], total)
        reason, message = refused(FlacReader(ReadSettings()), content)
        assert reason in ((Reason.EMPTY,) if total == 0 else (Reason.CORRUPT, Reason.BAD_FORMAT)), message


@pytest.mark.parametrize(("format", "subtype"), [("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III")])
def test_what_must_be_decoded_whole_is_held_to_the_limit(format, subtype):
    content = encode(format, subtype)
    reason, message = refused(READERS[format](ReadSettings(decode_limit=4 * 2 * FRAMES - 1)), content)
    assert reason is Reason.TOO_LARGE
    assert "can only be decoded whole" in message
    assert describe(READERS[format](ReadSettings(decode_limit=4 * 2 * FRAMES)), content).frames == FRAMES


def test_an_ogg_page_that_promises_too_much_is_refused():
    content = bytearray(encode("OGG", "VORBIS"))
    at = content.rindex(b"OggS")
    content[at + 6 : at + 14] = (1 << 60).to_bytes(8, "little")
    found = outcome(OggReader(ReadSettings()), bytes(content))
    assert (
        isinstance(found, Reason) or found.frames <= FRAMES
    )  # the checksum is wrong, so the page may be left out


@pytest.mark.parametrize(("format", "subtype", "rate"), [codec for codec in CODECS if codec[2] > 20000])
def test_damage_anywhere_is_a_reject_or_sound_and_nothing_else(format, subtype, rate, capfd):
    content = encode(format, subtype, rate, 6000)
    random = np.random.default_rng(7)
    for _ in range(60):
        damaged = bytearray(content)
        for at in random.integers(4, random.choice([300, len(content)]), 3):
            damaged[at] = random.integers(256)
        found = outcome(
            READERS[format](ReadSettings()), bytes(damaged[: random.integers(100, 2 * len(content))])
        )
        assert isinstance(found, Reason) or found.format == format.lower()


def test_a_failing_file_is_an_error_of_reading():
    class Failing(io.BytesIO):
        def readinto(self, buffer):
            if self.tell() > 20000:
                raise OSError(5, "Input/output error")
            return super().readinto(buffer)

    for format, subtype in (("FLAC", "PCM_16"), ("OGG", "VORBIS")):
        content = encode(format, subtype, frames=4 * FRAMES)
        with pytest.raises(OSError, match="Input/output error"):
            READERS[format](ReadSettings()).read(
                Failing(content), "", 0, 3 * FRAMES, np.empty(100, np.float32)
            )
        with pytest.raises(OSError, match="Input/output error"):
            READERS[format](ReadSettings()).describe(Failing(content), len(content))
