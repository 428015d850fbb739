"""Headers that lie about how much there is: what is there is used, it is told, and the others are untouched."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.helpers.containers import encode, flac_total, npy, patch, write
from tests.helpers.datasets import assert_balanced, assert_signals, ledger, messages, reasons
from tests.helpers.pipelines import extract, metadata, read_examples, run
from tests.helpers.processes import extract_arguments, run_fresh
from tests.helpers.waves import RAMP, chunk, fmt, rf64, riff, wave64

ARGUMENTS = ("--sample-rate", "16000", "--splits", "all=1", "--keep-waveform")
SAMPLES = RAMP.astype("<i2").tobytes()
SCALED = RAMP / 2.0**15
LONG = np.resize(RAMP, 20000)

AU = encode("AU", "PCM_16", RAMP)  # data size at 8, from byte 24 on
AIFF = encode("AIFF", "PCM_16", RAMP)  # COMM's frames at 22, SSND's size at 42
CAF = encode("CAF", "PCM_16", RAMP)
CAF_SIZE = CAF.index(b"data") + 4
FLAC = encode("FLAC", "PCM_16", LONG)
SAC = np.zeros(158, "<i4")  # floats [70], integers [40], texts [48]
SAC[:110] = -12345
SAC[:70] = np.full(70, -12345, "<f4").view("<i4")
SAC[[0, 5]] = np.array([1 / 16000, 0], "<f4").view("<i4")
SAC[[76, 79, 85, 105, 106]] = 6, 1000, 1, 1, 0


def sac(frames: int) -> bytes:
    """1000 samples under a header that says `frames`."""
    header = SAC.copy()
    header[79] = frames
    return header.tobytes()[:440] + b"-12345  " * 24 + RAMP.astype("<f4").tobytes()


# (content, what the header promises)
OPEN = {
    "ffmpeg.wav": (riff(SAMPLES, riff_length=0xFFFFFFFF, data_length=0xFFFFFFFF), None),
    "sox.wav": (riff(SAMPLES, riff_length=0x7FFFFFFF, data_length=0x7FFFFFFF - 36), None),
    "arecord.wav": (riff(SAMPLES, riff_length=0x80000024, data_length=0x80000000), None),
    "big-endian.wav": (
        riff(RAMP.astype(">i2").tobytes(), riff_length=0xFFFFFFFF, data_length=0xFFFFFFFF, magic=b"RIFX"),
        None,
    ),
    "rf64.wav": (rf64(SAMPLES, long_length=(1 << 64) - 1), None),
    "wave64.w64": (wave64(SAMPLES, data_length=(1 << 63) - 1), None),
    "pipe.au": (patch(AU, 8, b"\xff" * 4), None),
    "pipe.caf": (patch(CAF, CAF_SIZE, b"\xff" * 8), None),
}
CUT = {
    "cut.wav": (riff(SAMPLES, data_length=4000), 2000),
    "cut-far.wav": (riff(SAMPLES, data_length=1 << 30), 1 << 29),
    "cut-big-endian.wav": (riff(RAMP.astype(">i2").tobytes(), data_length=4000, magic=b"RIFX"), 2000),
    "cut-rf64.wav": (rf64(SAMPLES, long_length=10**13), 5 * 10**12),
    "cut.w64": (wave64(SAMPLES, data_length=4000 + 24), 2000),
    "cut.au": (patch(AU, 8, struct.pack(">I", 4000)), 2000),
    "cut.caf": (patch(CAF, CAF_SIZE, struct.pack(">q", 4000 + 4)), 2000),
    "cut.aiff": (patch(patch(AIFF, 22, struct.pack(">I", 2000)), 42, struct.pack(">I", 4008)), 2000),
    "cut.sac": (sac(2000), 2000),
    "cut.npy": (npy(np.zeros(10**7))[:128] + SCALED.tobytes(), 10**7),
}
ZERO = {
    "no-power.wav": (riff(SAMPLES, riff_length=0, data_length=0), 0),
    "no-power-big-endian.wav": (
        riff(RAMP.astype(">i2").tobytes(), riff_length=0, data_length=0, magic=b"RIFX"),
        0,
    ),
    "no-power-rf64.wav": (rf64(SAMPLES, long_length=0), 0),
    "no-power.au": (patch(AU, 8, bytes(4)), 0),
    "no-power.aiff": (patch(patch(AIFF, 22, bytes(4)), 42, bytes(4)), 0),
}


def expected(names) -> dict[tuple[str, int], np.ndarray]:
    """The samples of each; counts where the format is no audio container."""
    return {(name, 0): RAMP.astype(float) if name.endswith(".sac") else SCALED for name in names}


def write_all(folder, files) -> None:
    for name, (content, _) in files.items():
        write(folder / name, content)
    write(folder / "good.wav", riff(SAMPLES))


@pytest.mark.parametrize("files", [OPEN, CUT, ZERO], ids=["A01 open", "A02 cut", "A04 zero"])
def test_what_is_there_is_used_and_told(tmp_path, files):
    """A01, A02, A04: every one of 1000 frames, a warning with the numbers, declared and read frames in the ledger."""
    write_all(tmp_path / "in", files)
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS)
    assert_signals(tmp_path / "out", expected([*files, "good.wav"]))
    assert reasons(tmp_path / "out") == {}
    rows = ledger(tmp_path / "out")
    assert rows["good.wav"]["warnings"] == []
    for name, (_, declared) in files.items():
        row = rows[name]
        assert row["frames"] == 1000, name
        assert row["frames_declared"] == (1000 if declared is None else declared), name
        (warning,) = row["warnings"]
        assert "1000" in warning, name
        assert ("leaves the length open" if declared is None else str(declared)) in warning, name
    assert_balanced(tmp_path / "out")


def test_strict_rejects_what_is_cut_and_nothing_else(tmp_path):
    """A02: with both counts in the message; a stream that left its length open is whole as far as anyone can tell."""
    files = OPEN | CUT | ZERO
    write_all(tmp_path / "in", files)
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, "--strict", "--max-reject-fraction", "0.9")
    assert_signals(tmp_path / "out", expected([*OPEN, "good.wav"]))
    assert reasons(tmp_path / "out") == dict.fromkeys(CUT | ZERO, ("plan", "truncated", 0))
    for name, message in messages(tmp_path / "out").items():
        assert str(files[name][1]) in message, name
        assert "1000" in message, name
    assert_balanced(tmp_path / "out")


@pytest.mark.parametrize("verb", ["extract", "plan"])
def test_the_run_says_how_many_recordings_have_a_warning(tmp_path, verb):
    """A01, A02, A04: a line for people, not only a column of the ledger; `plan` says rejects and warnings so far."""
    write_all(tmp_path / "in", CUT)
    result = run(
        verb, "--input", tmp_path / "in", "--output", tmp_path / "out", "--segment-length", "256",
        "--sample-rate", "16000",
    )  # fmt: skip
    assert result.code == 0, result.err
    warnings = [line for line in result.out.splitlines() if line.startswith("Warning")]
    assert any(f"{len(CUT)} recordings" in line for line in warnings), result.out


@pytest.mark.parametrize("name", [*OPEN, *CUT, *ZERO])
def test_inspect_shows_the_warning(tmp_path, name):
    """A01, A02, A04: `inspect FILE` says what the reader sees."""
    path = write(tmp_path / name, (OPEN | CUT | ZERO)[name][0])
    result = run("inspect", path, "--sample-rate", "16000")
    assert result.code == 0, result.err
    assert "Samples     1,000 at 16000 Hz" in result.out
    assert sum(line.startswith("Warning") and "1000" in line for line in result.out.splitlines()) == 1


def test_an_empty_data_chunk_before_other_chunks_is_empty(tmp_path):
    """A04: the pair to it; what follows is no sound."""
    after = chunk(b"LIST", b"INFOISFT\x08\0\0\0a program")
    write(tmp_path / "in" / "empty.wav", riff(b"", after=after))
    write(tmp_path / "in" / "good.wav", riff(SAMPLES))
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, "--max-reject-fraction", "0.5")
    assert reasons(tmp_path / "out") == {"empty.wav": ("plan", "empty", 0)}
    assert_signals(tmp_path / "out", expected(["good.wav"]))


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_flac_stream_without_a_length_is_decoded_to_its_end(tmp_path, subtype, channels):
    """A03: 20000 frames, neither none nor an array that is too big."""
    shift = 16 if subtype == "PCM_24" else 0  # soundfile takes 24 bits at the top of 32
    stored = np.stack([LONG, LONG[::-1]], axis=1)[:, :channels].astype(np.int32 if shift else np.int16)
    content = encode("FLAC", subtype, (stored << shift) if shift else stored)
    write(tmp_path / "in" / "pipe.flac", flac_total(content, 0))
    write(tmp_path / "in" / "whole.flac", content)
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, "--segment-length", "4096")
    samples = stored / 2.0**15
    assert_signals(
        tmp_path / "out",
        {(name, c): samples[:, c] for name in ("pipe.flac", "whole.flac") for c in range(channels)},
    )
    rows = ledger(tmp_path / "out")
    assert {name: (row["frames"], len(row["warnings"])) for name, row in rows.items()} == {
        "pipe.flac": (20000, 1),
        "whole.flac": (20000, 0),
    }
    assert "20000 frames are decoded" in rows["pipe.flac"]["warnings"][0]


@pytest.mark.parametrize("total", [20001, 10**6, (1 << 36) - 1])
def test_a_flac_header_that_promises_more_than_its_stream_has_is_corrupt(tmp_path, total):
    """A03, A08: beyond the one input."""
    write(tmp_path / "in" / "more.flac", flac_total(FLAC, total))
    write(tmp_path / "in" / "good.flac", FLAC)
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, "--max-reject-fraction", "0.5")
    assert reasons(tmp_path / "out") == {"more.flac": ("plan", "corrupt", 0)}
    assert str(total) in messages(tmp_path / "out")["more.flac"]
    assert_signals(tmp_path / "out", {("good.flac", 0): LONG / 2.0**15})


def test_a_wav_file_that_declares_less_than_it_has_is_used_as_declared_and_told(tmp_path):
    """A01: the other way round; what follows is not known to be sound."""
    write(tmp_path / "in" / "less.wav", riff(SAMPLES, data_length=1000))
    write(tmp_path / "in" / "good.wav", riff(SAMPLES))
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS)
    assert_signals(tmp_path / "out", {("good.wav", 0): SCALED, ("less.wav", 0): SCALED[:500]})
    (warning,) = ledger(tmp_path / "out")["less.wav"]["warnings"]
    assert "1000 bytes after the samples" in warning


@pytest.mark.parametrize("length", ["modulo 4 GiB", "by ffmpeg", "by sox", "by arecord", "zero"])
def test_a_wav_file_of_more_than_4_gib_is_used_to_its_end(tmp_path, length):
    """A01, A04: its 32 bits hold the length modulo 4 GiB, or what stands for a length that is not known."""
    present = (9 << 29) + 2000  # 4.5 GiB and 1000 frames
    declared = {
        "modulo 4 GiB": present % (1 << 32),
        "by ffmpeg": 0xFFFFFFFF,
        "by sox": 0x7FFFFFFF - 36,
        "by arecord": 0x80000000,
        "zero": 0,
    }[length]
    path = write(tmp_path / "in" / "long.wav", riff(b"", format=fmt(rate=48000), data_length=declared))
    offset = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(offset + present)
        file.seek(-2000, 2)
        file.write(SAMPLES)
    segment = 1 << 17
    frames = present // 2
    out = tmp_path / "out"
    extract(
        tmp_path / "in", out, "--sample-rate", "48000", "--segment-length", segment, "--keep-waveform",
        "--hop-length", frames - 1000, "--splits", "all=1",
    )  # fmt: skip
    row = ledger(out)["long.wav"]
    assert row["frames"] == frames
    assert len(row["warnings"]) == 1
    first, last = sorted(read_examples(out), key=lambda each: each["start"])
    assert (last["start"], last["valid"]) == (frames - 1000, 1000)
    np.testing.assert_array_equal(last["waveform"][:1000], SCALED)
    assert not first["waveform"].any()


@pytest.mark.slow
def test_promises_cost_no_memory(tmp_path):
    """A01: the declared count is never used to allocate."""
    peaks = {}
    for name, files in (("honest", {}), ("lying", OPEN | CUT | ZERO)):
        write_all(tmp_path / name, files)
        for number in range(10):
            write(tmp_path / name / f"{number}.wav", riff(SAMPLES))
        arguments = extract_arguments(tmp_path / name, tmp_path / f"out-{name}", *ARGUMENTS)
        result = run_fresh(tmp_path, *arguments)
        assert result.code == 0, result.err
        peaks[name] = result.peak_bytes
    assert metadata(tmp_path / "out-lying")["counts"]["recordings"]["rejected"] == 0
    assert peaks["lying"] < peaks["honest"] + (50 << 20)
