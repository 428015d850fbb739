"""Channels and sample rates: which is which, in every container; nothing is mixed or resampled unasked."""

from __future__ import annotations

import io
import time

import numpy as np
import pytest
import scipy.io
import soxr

from tests.helpers.containers import encode, hdf5, mat73, npy, write
from tests.helpers.datasets import assert_balanced, assert_signals, ledger, messages, reasons, signals
from tests.helpers.pipelines import extract, metadata, read_examples, run
from tests.helpers.processes import extract_arguments, run_fresh
from tests.helpers.signals import noise, write_raw
from tests.helpers.waves import fmt, riff

RATE = 16000
LENGTH = 4000  # bins of 4 Hz
ONE_SPLIT = ("--splits", "all=1", "--keep-waveform")
ARGUMENTS = ("--sample-rate", str(RATE), "--segment-length", str(LENGTH), *ONE_SPLIT)
MANY = ("--max-reject-fraction", "0.9")
TIME = np.arange(LENGTH) / RATE
# with noise, since a spectrum of nothing but lines is rounding noise elsewhere
TONES = np.stack([np.sin(2 * np.pi * hz * TIME) for hz in (440, 880)], axis=1)
NOISE = np.random.default_rng(18).standard_normal((LENGTH, 2))
STEREO = np.round((TONES + 0.1 * NOISE) * 2**13) / 2**15


def saved_mat(**variables: np.ndarray) -> bytes:
    file = io.BytesIO()
    scipy.io.savemat(file, variables)
    return file.getvalue()


def table(values: np.ndarray) -> bytes:
    return ("left,right\n" + "".join(f"{x!r},{y!r}\n" for x, y in values.tolist())).encode()


AUDIO = {
    "a.wav": encode("WAV", "PCM_16", STEREO, RATE),
    "a.flac": encode("FLAC", "PCM_16", STEREO, RATE),
    "a.aiff": encode("AIFF", "PCM_24", STEREO, RATE),
    "a.au": encode("AU", "FLOAT", STEREO, RATE),
    "a.caf": encode("CAF", "PCM_16", STEREO, RATE),
}
BY_TIME = {  # frames × channels
    "a.npy": npy(STEREO),
    "fortran.npy": npy(np.asfortranarray(STEREO)),
    "a.h5": hdf5(x=STEREO),
    "a.mat": saved_mat(x=STEREO),
    "v73.mat": mat73(x=STEREO),
}
BY_CHANNEL = {  # channels × frames
    "a.npy": npy(np.ascontiguousarray(STEREO.T)),
    "fortran.npy": npy(STEREO.T),
    "a.h5": hdf5(x=STEREO.T),
    "a.mat": saved_mat(x=STEREO.T),
    "v73.mat": mat73(x=STEREO.T),
}
MEMBERS = ("h5", "mat")


def recording(name: str) -> str:
    return f"{name}//x" if name.endswith(MEMBERS) else name


def both(names) -> dict[tuple[str, int], np.ndarray]:
    return {(recording(name), channel): STEREO[:, channel] for name in names for channel in (0, 1)}


@pytest.mark.parametrize(
    ("files", "arguments"),
    [
        (AUDIO, ()),
        (BY_TIME, ("--array-axes", "time,channel")),
        (BY_CHANNEL, ("--array-axes", "channel,time")),
        ({"a.csv": table(STEREO)}, ()),
    ],
    ids=["audio", "time,channel", "channel,time", "table"],
)
def test_each_channel_is_an_example_with_its_own_peak(tmp_path, files, arguments):
    """A18: 440 Hz is channel 0 and 880 Hz channel 1 in whatever they are stored."""
    for name, content in files.items():
        write(tmp_path / "in" / name, content)
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, *arguments)
    assert_signals(tmp_path / "out", both(files))
    for example in read_examples(tmp_path / "out"):
        peak = np.argmax(example["spectrum"]) * RATE / LENGTH
        assert peak == {0: 440, 1: 880}[int(example["channel"])]
        assert example["sample_rate"] == RATE
    assert {row["channels"] for row in ledger(tmp_path / "out").values()} == {2}
    assert_balanced(tmp_path / "out")


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        ("mix", {0: STEREO.mean(axis=1)}),
        ("0", {0: STEREO[:, 0]}),
        ("1", {1: STEREO[:, 1]}),
        ("1,0", {0: STEREO[:, 0], 1: STEREO[:, 1]}),
        ("mix:1", {0: STEREO[:, 1]}),
    ],
)
def test_channels_can_be_mixed_or_picked(tmp_path, channels, expected):
    """A18: and which one it was is in the example."""
    for name, content in AUDIO.items():
        write(tmp_path / "in" / name, content)
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, "--channels", channels)
    found = signals(tmp_path / "out")
    if channels == "mix:1":  # what is mixed is channel 0
        assert {channel for _, channel in found} == {0}
    assert_signals(
        tmp_path / "out", {(name, channel): part for name in AUDIO for channel, part in expected.items()}
    )


def test_stacked_channels_are_one_example_in_their_order(tmp_path):
    """A18: features [channels, …], no channel key; a recording of another number is a reject."""
    for name, content in AUDIO.items():
        write(tmp_path / "in" / name, content)
    write(tmp_path / "in" / "mono.wav", encode("WAV", "PCM_16", STEREO[:, 0], RATE))
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, *MANY, "--channels", "stack")
    examples = read_examples(tmp_path / "out")
    assert {each["recording"].decode() for each in examples} == set(AUDIO)
    for example in examples:
        assert "channel" not in example
        np.testing.assert_array_equal(example["waveform"], STEREO.T.astype(np.float32))
        assert (np.argmax(example["spectrum"], axis=1) * RATE / LENGTH).tolist() == [440, 880]
    assert reasons(tmp_path / "out") == {"mono.wav": ("plan", "channel_mismatch", 0)}
    assert "1 channels, and 2 are stacked" in messages(tmp_path / "out")["mono.wav"]


def test_the_axes_of_an_array_are_never_guessed(tmp_path):
    """A18: also where one is much longer than the other; axes of one sample count for nothing."""
    for name, content in (BY_TIME | {"turned.npy": npy(STEREO.T)}).items():
        write(tmp_path / "in" / name, content)
    mono = STEREO[:, 0]
    for name, values in (
        ("flat", mono),
        ("column", mono[:, None]),
        ("row", mono[None]),
        ("deep", mono[None, :, None]),
    ):
        write(tmp_path / "in" / f"{name}.npy", npy(values))
    write(tmp_path / "in" / "cube.npy", npy(np.zeros((2, 3, 4))))
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, *MANY)
    assert_signals(tmp_path / "out", {(f"{name}.npy", 0): mono for name in ("flat", "column", "row", "deep")})
    found = reasons(tmp_path / "out")
    names = [*BY_TIME, "turned.npy", "cube.npy"]
    assert found == {recording(name): ("plan", "ambiguous_axes", 0) for name in names}
    told = messages(tmp_path / "out")
    for name, shape in (("a.npy", "(4000, 2)"), ("turned.npy", "(2, 4000)")):
        assert shape in told[name]
        for word in ("array_axes", "time,channel", "channel,time", "recording,time"):
            assert word in told[name]
    assert "(2, 3, 4)" in told["cube.npy"]
    assert_balanced(tmp_path / "out")


def test_a_channel_that_some_recordings_lack_is_a_reject_of_those(tmp_path):
    """A18: never another channel in its place."""
    write(tmp_path / "in" / "two.wav", AUDIO["a.wav"])
    write(tmp_path / "in" / "one.wav", encode("WAV", "PCM_16", STEREO[:, 0], RATE))
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, *MANY, "--channels", "1")
    assert_signals(tmp_path / "out", {("two.wav", 1): STEREO[:, 1]})
    assert reasons(tmp_path / "out") == {"one.wav": ("plan", "channel_mismatch", 0)}
    assert "there is no channel 1" in messages(tmp_path / "out")["one.wav"]


def mono(rate: int, frames: int, seed: int = 0, format: str = "WAV") -> bytes:
    return encode(format, "FLOAT" if format == "WAV" else "PCM_16", noise(frames, seed) / 4, rate)


def write_rates(folder) -> None:
    """Twenty of 16 kHz, and one each of 44.1 kHz and 8 kHz in other containers."""
    for number in range(20):
        write(folder / f"{number:02d}.wav", mono(RATE, 500, number))
    write(folder / "x44100.flac", mono(44100, 5000, 20, "FLAC"))
    write(folder / "x8000.wav", mono(8000, 300, 21))


@pytest.mark.parametrize("verb", ["extract", "plan"])
def test_several_rates_need_a_choice(tmp_path, verb):
    """A20: exit 2 with a table of rates and counts, before anything is done."""
    write_rates(tmp_path / "in")
    result = run(verb, "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert result.code == 2
    assert "8000 Hz: 1, 16000 Hz: 20, 44100 Hz: 1" in result.err
    assert "resample" in result.err
    assert not (tmp_path / "out").exists()


def test_other_rates_are_rejected_with_both_rates(tmp_path):
    """A20: no silent resampling."""
    write_rates(tmp_path / "in")
    extract(tmp_path / "in", tmp_path / "out", *ONE_SPLIT, *MANY, "--sample-rate", RATE)
    assert_signals(tmp_path / "out", {(f"{n:02d}.wav", 0): noise(500, n) / 4 for n in range(20)})
    assert reasons(tmp_path / "out") == dict.fromkeys(
        ("x44100.flac", "x8000.wav"), ("plan", "rate_mismatch", 0)
    )
    for name, message in messages(tmp_path / "out").items():
        assert f"{name[1:].partition('.')[0]} Hz" in message
        assert "16000 Hz" in message
        assert "resample" in message
    assert metadata(tmp_path / "out")["sample_rate"] == RATE
    assert metadata(tmp_path / "out")["counts"]["resampled"] == 0
    assert {float(each["sample_rate"]) for each in read_examples(tmp_path / "out")} == {RATE}
    rows = ledger(tmp_path / "out")
    assert rows["x44100.flac"]["sample_rate"] == 44100
    assert_balanced(tmp_path / "out")


def test_other_rates_are_resampled_on_request_and_counted(tmp_path):
    """A20: those of the right rate stay untouched to the last bit."""
    write_rates(tmp_path / "in")
    result = extract(tmp_path / "in", tmp_path / "out", *ONE_SPLIT, "--sample-rate", RATE, "--resample")
    found = signals(tmp_path / "out")
    for number in range(20):
        np.testing.assert_array_equal(found[f"{number:02d}.wav", 0], noise(500, number) / 4)
    for name, rate, frames, seed in (("x44100.flac", 44100, 5000, 20), ("x8000.wav", 8000, 300, 21)):
        samples = noise(frames, seed).astype(np.float64) / 4
        if name.endswith("flac"):
            samples = np.round(samples * 2**15) / 2**15
        whole = soxr.resample(samples, rate, RATE, "VHQ")
        assert len(found[name, 0]) == round(frames * RATE / rate)
        assert (
            np.abs(found[name, 0] - whole[: len(found[name, 0])]).max() < 4e-5
        )  # soundfile rounds otherwise
    assert metadata(tmp_path / "out")["counts"]["resampled"] == 2
    assert "Resampled   2 recordings" in result.out
    assert {float(each["sample_rate"]) for each in read_examples(tmp_path / "out")} == {RATE}
    assert ledger(tmp_path / "out")["x44100.flac"]["sample_rate"] == 44100  # what it was
    assert_balanced(tmp_path / "out")
    planned = run(
        "plan", "--input", tmp_path / "in", "--output", tmp_path / "none", "--sample-rate", RATE, "--resample"
    )
    assert "Resampled   2 recordings to 16000 Hz" in planned.out


@pytest.mark.parametrize("length", [256, 4410, 16384, 40000])
def test_resampled_segments_are_those_of_the_whole_recording(tmp_path, length):
    """A21: 44.1 to 16 kHz, a tone of 2 s: no seam, however long the segments are; within 1e-5 of all at once."""
    samples = np.sin(2 * np.pi * 1000 * np.arange(88200) / 44100).astype(np.float32)
    write(tmp_path / "in" / "a.wav", encode("WAV", "FLOAT", samples, 44100))
    extract(
        tmp_path / "in", tmp_path / "out", *ONE_SPLIT, "--sample-rate", RATE, "--resample",
        "--segment-length", length, "--num-shards", "3",
    )  # fmt: skip
    whole = soxr.resample(samples.astype(np.float64), 44100, RATE, "VHQ")
    assert len(whole) == 32000
    (found,) = signals(tmp_path / "out").values()
    assert np.abs(found - whole).max() <= 1e-5
    middle = slice(1000, 31000)  # the filter's own ends aside, the tone has the level and phase that it had
    tone = np.sin(2 * np.pi * 1000 * np.arange(32000) / RATE)
    assert np.abs(found - tone)[middle].max() <= 1e-5


@pytest.mark.parametrize(
    ("rate", "new", "frames"),
    [
        (44100, 16000, 30000), (8000, 16000, 30000), (48000, 44100, 30000), (12345, 16000, 30000),
        (11025, 48000, 9999), (16000, 8000, 1001), (48000, 32000, 20001),
    ],
)  # fmt: skip
def test_neither_hop_nor_shards_change_a_resampled_sample(tmp_path, rate, new, frames):
    """A21: beyond the one pair of rates, to the last sample; 30000 at 48 kHz are 27562.5 at 44.1 kHz."""
    write(tmp_path / "in" / "a.wav", encode("WAV", "FLOAT", noise(frames), rate))
    whole = soxr.resample(noise(frames).astype(np.float64), rate, new, "VHQ")
    last = []
    for number, (length, hop, shards) in enumerate(((1000, 1000, 1), (700, 300, 4))):
        out = tmp_path / f"out{number}"
        extract(
            tmp_path / "in", out, *ONE_SPLIT, "--sample-rate", new, "--resample", "--segment-length", length,
            "--hop-length", hop, "--num-shards", shards,
        )  # fmt: skip
        ends = {}
        for example in read_examples(out):
            start, valid = int(example["start"]), int(example["valid"])
            there = whole[start : start + valid]
            assert len(there) >= valid - 1  # half a sample may be rounded either way
            assert np.abs(example["waveform"][: len(there)] - there).max() < 1e-5, start
            ends[start + valid] = float(example["waveform"][valid - 1])
        assert abs(max(ends) - frames * new / rate) <= 0.5
        last.append(ends[max(ends)])
    assert abs(last[0] - last[1]) < 1e-5


def absurd(rate: int, frames: int = 160_000) -> bytes:
    return riff(bytes(2 * frames), format=fmt(rate=rate))


@pytest.mark.parametrize("resample", [(), ("--resample",)])
def test_absurd_rates_are_rejected(tmp_path, resample):
    """A22: 0 Hz is no rate, and 1 Hz would become 16000 times as long; the message has the rate and the cure."""
    for rate in (0, 1, 62, 0xFFFFFFFF):
        write(tmp_path / "in" / f"x{rate}.wav", absurd(rate))
    write(tmp_path / "in" / "good.wav", mono(RATE, 500))
    started = time.monotonic()
    extract(tmp_path / "in", tmp_path / "out", *ONE_SPLIT, *MANY, "--sample-rate", RATE, *resample)
    assert time.monotonic() - started < 30  # to resample any of them would take minutes
    assert reasons(tmp_path / "out") == {
        "x0.wav": ("plan", "rate_invalid", 0),
        "x1.wav": ("plan", "rate_mismatch", 0),
        "x62.wav": ("plan", "rate_mismatch", 0),
        "x4294967295.wav": ("plan", "rate_mismatch", 0),
    }
    told = messages(tmp_path / "out")
    assert "sample_rate=0 Hz" in told["x0.wav"]
    assert "sample_rate=1 Hz" in told["x1.wav"]
    assert all("manifest" in message or not resample for message in told.values())
    assert_signals(tmp_path / "out", {("good.wav", 0): noise(500) / 4})


def test_rates_that_differ_are_shown_different(tmp_path):
    """A20: both rates, to the digit in which they differ; ultrasound has more than six."""
    write(tmp_path / "in" / "a.wav", mono(1_000_000, 500))
    write(tmp_path / "in" / "b.wav", mono(1_000_001, 500))
    asked = run("extract", "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert asked.code == 2
    extract(tmp_path / "in", tmp_path / "out", *ONE_SPLIT, *MANY, "--sample-rate", 1_000_000)
    assert reasons(tmp_path / "out") == {"b.wav": ("plan", "rate_mismatch", 0)}
    for told in (asked.err, messages(tmp_path / "out")["b.wav"]):
        assert "1000000" in told.replace(",", "")
        assert "1000001" in told.replace(",", "")


@pytest.mark.slow
def test_absurd_rates_cost_neither_time_nor_memory(tmp_path):
    """A22: rejected before anything is allocated: 10 s at 16 kHz, said to be 1 Hz, would be 10 GB."""
    peaks, seconds = {}, {}
    for name, rates in (("without", ()), ("with", (0, 1))):
        for number in range(20):
            write(tmp_path / name / f"{number:02d}.wav", mono(RATE, 500, number))
        for rate in rates:
            write(tmp_path / name / f"x{rate}.wav", absurd(rate))
        arguments = extract_arguments(
            tmp_path / name, tmp_path / f"out-{name}", "--sample-rate", RATE, "--resample", *MANY
        )
        started = time.monotonic()
        result = run_fresh(tmp_path, *arguments)
        seconds[name] = time.monotonic() - started
        assert result.code == 0, result.err
        peaks[name] = result.peak_bytes
        assert metadata(tmp_path / f"out-{name}")["counts"]["recordings"]["rejected"] == len(rates)
    assert peaks["with"] < peaks["without"] + (50 << 20)
    assert seconds["with"] < seconds["without"] + 10  # a busy machine


def test_a_rate_that_a_manifest_states_wins_over_the_files_own(tmp_path):
    """A22: the cure that the message names."""
    write(tmp_path / "in" / "wrong.wav", encode("WAV", "FLOAT", noise(500), 1))
    write(tmp_path / "in" / "good.wav", mono(RATE, 500))
    (tmp_path / "rows.csv").write_text("uri,sample_rate\nwrong.wav,16000\ngood.wav,\n")
    extract(
        tmp_path / "in", tmp_path / "out", *ONE_SPLIT, "--sample-rate", RATE, "--resample",
        "--manifest", tmp_path / "rows.csv",
    )  # fmt: skip
    assert_signals(tmp_path / "out", {("good.wav", 0): noise(500) / 4, ("wrong.wav", 0): noise(500)})


@pytest.mark.parametrize("rate", ["0", "-1", "nan", "inf", "1e13", "16k"])
def test_a_dataset_has_a_rate_that_can_be(tmp_path, rate):
    """A22: the setting is held to the same limits."""
    write_raw(tmp_path / "in" / "a.raw", noise(500))
    result = run(
        "extract", "--input", tmp_path / "in", "--output", tmp_path / "out", "--raw-dtype", "<f4",
        f"--sample-rate={rate}",
    )  # fmt: skip
    assert result.code == 2
    assert "sample" in result.err
    assert rate.strip("-") in result.err
