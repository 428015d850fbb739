"""Legal variants of audio files, and what full scale means in each: the samples are those that were recorded."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import soundfile

from tests.helpers.containers import encode, write
from tests.helpers.datasets import assert_balanced, assert_signals, ledger, messages, reasons, signals
from tests.helpers.pipelines import extract, metadata, read_examples, rejects, run
from tests.helpers.signals import noise
from tests.helpers.waves import RAMP, chunk, extensible, fmt, rf64, riff, wave64

ARGUMENTS = ("--sample-rate", "16000", "--splits", "all=1", "--keep-waveform")
MANY = ("--max-reject-fraction", "0.9")
SAMPLES = RAMP.astype("<i2").tobytes()
SCALED = RAMP / 2.0**15
PLAIN = riff(SAMPLES)


def packed(values: np.ndarray, width: int, order: str = "<") -> bytes:
    """Integers of 1 to 8 bytes."""
    wide = np.asarray(values, f"{order}i8").view("u1").reshape(-1, 8)
    return (wide[:, :width] if order == "<" else wide[:, 8 - width :]).tobytes()


def run_on(tmp_path, files: dict[str, bytes], *arguments: object):
    """Extracts the files beside a plain one, of which no word must be said."""
    for name, content in files.items():
        write(tmp_path / "in" / name, content)
    write(tmp_path / "in" / "plain.wav", PLAIN)
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, *arguments)
    return tmp_path / "out"


def assert_quiet(dataset) -> None:
    """No warning, no reject: the files are as legal as any."""
    assert rejects(dataset) == []
    assert {name: row["warnings"] for name, row in ledger(dataset).items() if row["warnings"]} == {}


def test_the_extensible_header_holds_the_same_samples(tmp_path):
    """A06: its subformat and valid bits are obeyed; 24 bits in 4 bytes are the same to 2^-23."""
    wide = RAMP.astype(np.int64)
    files = {
        "int16.wav": riff(SAMPLES, format=extensible(1, 1, 16, 16)),
        "int16-big-endian.wav": riff(
            RAMP.astype(">i2").tobytes(), format=extensible(1, 1, 16, 16, ">"), magic=b"RIFX"
        ),
        "int24.wav": riff(packed(wide << 8, 3), format=extensible(1, 1, 24, 24)),
        "20-of-24.wav": riff(packed(wide << 8, 3), format=extensible(1, 1, 24, 20)),
        "24-of-32.wav": riff(packed(wide << 16, 4), format=extensible(1, 1, 32, 24)),
        "int32.wav": riff(packed(wide << 16, 4), format=extensible(1, 1, 32, 32)),
        "no-valid-bits.wav": riff(SAMPLES, format=extensible(1, 1, 16, 0)),
        "float.wav": riff(SCALED.astype("<f4").tobytes(), format=extensible(3, 1, 32, 32)),
        "double.wav": riff(SCALED.astype("<f8").tobytes(), format=extensible(3, 1, 64, 64)),
    }
    out = run_on(tmp_path, files)
    assert_signals(out, {(name, 0): SCALED for name in [*files, "plain.wav"]})
    assert_quiet(out)


def test_the_lowest_of_24_valid_bits_in_4_bytes_count(tmp_path):
    """A06: values that 16 bits cannot hold; their mean is far below 2^-23 from the truth."""
    stored = np.random.default_rng(6).integers(-(2**23), 2**23, 1000)
    files = {
        "24-of-32.wav": riff(packed(stored << 8, 4), format=extensible(1, 1, 32, 24)),
        "int24.wav": riff(packed(stored, 3), format=extensible(1, 1, 24, 24)),
    }
    out = run_on(tmp_path, files)
    found = signals(out)
    for name in files:
        np.testing.assert_array_equal(found[name, 0], stored / 2.0**23)


def test_chunks_of_any_kind_are_skipped(tmp_path):
    """A07: exactly 1000 frames, and no byte of another chunk among them."""
    listed = chunk(b"LIST", b"INFOISFT\x0e\0\0\0Lavf58.29.100\0")
    files = {
        "junk-first.wav": riff(SAMPLES, before=chunk(b"JUNK", bytes(28)), after=listed),
        "bext.wav": riff(SAMPLES, before=chunk(b"bext", b"\x7f" * 602)),
        "odd-lengths.wav": riff(SAMPLES, before=chunk(b"vndr", b"\x7f" * 333) + chunk(b"iXML", b"<x/>1")),
        "fact.wav": riff(SAMPLES, before=chunk(b"fact", struct.pack("<I", 1000))),
        "list-before.wav": riff(SAMPLES, before=listed),
        "data-before-in-a-list.wav": riff(
            SAMPLES, before=chunk(b"LIST", b"wavldata\x04\0\0\0\x7f\x7f\x7f\x7f")
        ),
        "after.wav": riff(SAMPLES, after=listed + chunk(b"id3 ", b"ID3" * 7) + chunk(b"cue ", bytes(28))),
        "long-fmt.wav": riff(SAMPLES, format=fmt() + b"\0\0"),
        "large-junk.wav": riff(SAMPLES, before=chunk(b"FLLR", b"\x7f" * 100_000)),
    }
    out = run_on(tmp_path, files)
    assert_signals(out, {(name, 0): SCALED for name in [*files, "plain.wav"]})
    assert_quiet(out)


def test_lengths_of_64_bits_are_read(tmp_path):
    """A09: RF64, its European twin BW64, and Sony's WAVE64."""
    files = {
        "rf64.wav": rf64(SAMPLES),
        "bw64.wav": rf64(SAMPLES, magic=b"BW64"),
        "rf64-with-both.wav": rf64(SAMPLES, data_length=2000),
        "by-its-own-name.rf64": rf64(SAMPLES),
        "wave64.w64": wave64(SAMPLES),
        "libsndfile.w64": encode("W64", "PCM_16", RAMP),
        "libsndfile-rf64.wav": encode("RF64", "PCM_16", RAMP),
    }
    out = run_on(tmp_path, files)
    assert_signals(out, {(name, 0): SCALED for name in [*files, "plain.wav"]})
    assert_quiet(out)


LOSSY = [("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III")]
EXACT = [("FLAC", "PCM_16"), ("AIFF", "PCM_16"), ("CAF", "ALAC_16"), ("WAV", "IMA_ADPCM"), ("WAV", "ALAW")]


@pytest.mark.parametrize(("format", "subtype"), EXACT + LOSSY)
def test_samples_are_those_that_libsndfile_decodes_from_path_and_from_memory(tmp_path, format, subtype):
    """A08: neither shorter nor longer; and the same however the recording is cut into segments."""
    sound = np.stack([noise(30000, seed) / 4 for seed in (1, 2)], axis=1)
    content = encode(format, subtype, sound)
    name = f"a.{format.lower()}"
    path = write(tmp_path / "in" / name, content)
    decoded = []
    for source in (path, io.BytesIO(content)):
        with soundfile.SoundFile(source) as file:
            decoded.append(file.read(dtype="float32", always_2d=True))
    np.testing.assert_array_equal(*decoded)
    expected = {(name, channel): decoded[0][:, channel] for channel in range(2)}
    for number, (length, hop) in enumerate(((4096, 4096), (1000, 777))):
        out = tmp_path / f"out{number}"
        extract(tmp_path / "in", out, *ARGUMENTS, "--segment-length", length, "--hop-length", hop)
        assert_signals(out, expected)


@pytest.mark.parametrize("part", [0.1, 2 / 3, 0.999])
def test_a_flac_stream_that_is_cut_is_a_reject_that_says_where(tmp_path, part):
    """A08: neither an error of the run nor silently shorter."""
    sound = noise(20000) / 4
    content = encode("FLAC", "PCM_16", sound)
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "whole.flac", content)
    write(tmp_path / "in" / "cut.flac", content[: int(len(content) * part)])
    result = extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, *MANY)
    assert "Rejected    corrupt: 1 recording" in result.out
    assert reasons(tmp_path / "out") == {"cut.flac": ("plan", "corrupt", 0)}
    message = messages(tmp_path / "out")["cut.flac"]
    assert "cut short or damaged" in message
    assert "of 20000" in message
    with soundfile.SoundFile(io.BytesIO(content)) as file:
        assert_signals(tmp_path / "out", {("whole.flac", 0): file.read(dtype="float32")})
    assert_balanced(tmp_path / "out")


def test_damage_within_a_flac_stream_takes_only_the_blocks_that_it_hits(tmp_path):
    """A08: beyond the one input; what is read apart from it is used, and the loss is told with its place."""
    sound = noise(1_000_000) / 4
    content = bytearray(encode("FLAC", "PCM_16", sound))
    middle = len(content) // 3
    content[middle : middle + 3000] = bytes(3000)
    write(tmp_path / "in" / "hit.flac", content)
    write(tmp_path / "in" / "whole.flac", encode("FLAC", "PCM_16", sound))
    out = tmp_path / "out"
    extract(tmp_path / "in", out, *ARGUMENTS, *MANY, "--segment-length", "4096")
    (line,) = rejects(out)
    assert (line["recording"], line["stage"], line["reason"]) == ("hit.flac", "read", "corrupt")
    assert 0 < line["segments"] <= 128  # two blocks of 1 MiB
    assert "cut short or damaged after sample" in line["message"]
    row = ledger(out)["hit.flac"]
    assert row["segments_written"] == row["segments_planned"] - line["segments"] > 100
    kept = {
        name: {
            int(each["start"]): each["waveform"] for each in read_examples(out) if each["recording"] == name
        }
        for name in (b"hit.flac", b"whole.flac")
    }
    for start, waveform in kept[b"hit.flac"].items():
        np.testing.assert_array_equal(waveform, kept[b"whole.flac"][start])
    assert_balanced(out)


def integer_files(bits: int, values: np.ndarray) -> dict[str, bytes]:
    """The same integers in every container that holds so many bits."""
    width = bits // 8
    files = {
        f"{bits}.wav": riff(packed(values + (128 if bits == 8 else 0), width), format=fmt(bits=bits)),
        f"{bits}-big-endian.wav": riff(
            packed(values + (128 if bits == 8 else 0), width, ">"),
            format=fmt(bits=bits, order=">"),
            magic=b"RIFX",
        ),
    }
    top = (values << 32 - bits).astype(np.int32)
    name = "PCM_S8" if bits == 8 else f"PCM_{bits}"
    files |= {f"{bits}.{format.lower()}": encode(format, name, top) for format in ("AIFF", "CAF", "AU")}
    if bits < 32:
        files[f"{bits}.flac"] = encode("FLAC", name, top)
    return files


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
def test_integers_of_every_width_have_full_scale_one(tmp_path, bits):
    """A11, A12: half the range is 0.5, the middle of unsigned bytes 0, the lowest -1, and nothing is +1."""
    half = 1 << bits - 1
    values = np.resize(np.array([0, half >> 1, -half, half - 1, -1, 1, -(half >> 1)]), 1000).astype(np.int64)
    files = integer_files(bits, values)
    out = run_on(tmp_path, files)
    expected = values / half
    assert expected[:3].tolist() == [0, 0.5, -1]
    assert_signals(out, {(name, 0): expected for name in files} | {("plain.wav", 0): SCALED})
    assert_quiet(out)
    found = np.concatenate(list(signals(out).values()))
    assert found.min() == -1.0
    assert found.max() < 1.0 or bits == 32  # 1 - 2^-31 is 1 in float32
    assert metadata(out)["unit"] == "full scale"


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
@pytest.mark.parametrize(("scale", "factor"), [("none", 1.0), ("pcm", None), ("0.001", 0.001)])
def test_scale_can_be_chosen(tmp_path, bits, scale, factor):
    """A11: `none` gives the integers themselves, a factor multiplies them, `pcm` is what audio has anyway."""
    half = 1 << bits - 1
    values = np.resize(np.array([0, half >> 1, -half, half - 1, 3]), 1000).astype(np.int64)
    files = integer_files(bits, values)
    factor = 1 / half if factor is None else factor
    out = run_on(tmp_path, files, "--scale", scale)
    found = signals(out)
    for name in files:
        np.testing.assert_allclose(found[name, 0], values * factor, rtol=2e-7)  # float32, rounded twice
    plain = RAMP * (2.0**-15 if scale == "pcm" else factor)
    np.testing.assert_allclose(found["plain.wav", 0], plain, rtol=2e-7)


def test_unsigned_bytes_of_128_are_silence_without_an_offset(tmp_path):
    """A11: as reported; not a constant of 128."""
    out = run_on(tmp_path, {"silent.wav": riff(b"\x80" * 1000, format=fmt(bits=8))})
    assert not signals(out)["silent.wav", 0].any()
    assert metadata(out)["counts"]["silent"] == 4


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("format", ["WAV", "AIFF", "AU", "CAF", "W64", "RF64"])
def test_floats_beyond_one_are_kept_as_they_are(tmp_path, format, subtype):
    """A12: no clip, no wrap, no normalisation by the file's peak."""
    values = np.tile([0, 3.7, -5, 0.5], 250)
    quiet = values / 1000
    suffix = "wav" if format == "RF64" else format.lower()
    files = {
        f"loud.{suffix}": encode(format, subtype, values),
        f"quiet.{suffix}": encode(format, subtype, quiet),
    }
    out = run_on(tmp_path, files)
    assert_quiet(out)
    stored = {"FLOAT": np.float32, "DOUBLE": np.float64}[subtype]
    found = signals(out)
    np.testing.assert_array_equal(found[f"loud.{suffix}", 0], values.astype(np.float32))
    np.testing.assert_array_equal(found[f"quiet.{suffix}", 0], quiet.astype(stored).astype(np.float32))
    shown = run("inspect", tmp_path / "in" / f"loud.{suffix}")
    assert "from -5 to 3.7" in shown.out


def test_the_signs_of_full_scale_are_kept(tmp_path):
    """A12: -32768 is -1 and never +1."""
    values = np.tile(np.array([-32768, 32767], np.int16), 500)
    files = {
        "a.wav": riff(values.astype("<i2").tobytes()),
        "b.flac": encode("FLAC", "PCM_16", values),
        "c.aiff": encode("AIFF", "PCM_16", values),
    }
    out = run_on(tmp_path, files)
    for name in files:
        assert signals(out)[name, 0].tolist() == [-1.0, 32767 / 32768] * 500


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (riff(bytes(100), format=fmt(code=0x55, bits=0)), "MP3"),
        (riff(bytes(100), format=fmt(code=0x161, bits=16)), "Windows Media Audio"),
        (riff(bytes(100), format=fmt(code=0x1234, bits=16)), "0x1234"),
        (riff(bytes(100), format=fmt(code=3, bits=16)), "16-bit float"),
        (riff(bytes(100), format=fmt(bits=0)), "0-bit integer"),
        (riff(bytes(100), format=fmt(channels=0)), "channels=0"),
        (riff(bytes(100), format=extensible(1, 1, 16, 16)[:24]), "extensible"),
    ],
)
def test_what_cannot_be_read_is_a_reject_that_says_what_it_is(tmp_path, content, words):
    """A06: the pair to it; the format and the cure are named, and nothing is guessed."""
    out = run_on(tmp_path, {"odd.wav": content}, *MANY)
    assert reasons(out) == {"odd.wav": ("plan", "bad_format", 0)}
    message = messages(out)["odd.wav"]
    assert words in message
    assert "convert" in message or "damaged" in message
    assert_signals(out, {("plain.wav", 0): SCALED})
