"""Sample types, byte orders and odd numbers of bytes: nothing is guessed, and nothing shifts the channels."""

from __future__ import annotations

import hashlib
import io
import wave

import numpy as np
import pytest

from tests.helpers.containers import encode, npy, write
from tests.helpers.datasets import assert_balanced, assert_signals, ledger, messages, reasons
from tests.helpers.pipelines import extract, read_examples, run
from tests.helpers.signals import noise, write_raw
from tests.helpers.waves import RAMP, fmt, riff

RATE = 16000
LENGTH = 16384
ARGUMENTS = ("--sample-rate", str(RATE), "--splits", "all=1", "--keep-waveform")


def tone(amplitude: float = 10000.0) -> np.ndarray:
    """1 kHz at 16 kHz."""
    return np.round(amplitude * np.sin(2 * np.pi * 1000 / RATE * np.arange(LENGTH)))


def shards(dataset) -> list[str]:
    return [
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(dataset.glob("spectrabeam-*.tfrecord"))
    ]


@pytest.mark.parametrize("kind", ["i2", "i4", "i8", "u2", "f4", "f8"])
def test_a_tone_has_its_peak_where_it_belongs_and_its_bytes_swapped_are_told(tmp_path, kind):
    """A14: the declared byte order is obeyed; the other one gives a warning before anything is computed."""
    samples = tone() + (32768 if kind[0] == "u" else 0)
    for number in range(3):
        write_raw(tmp_path / "in" / f"{number}.raw", samples, f">{kind}")
    extract(
        tmp_path / "in", tmp_path / "out", *ARGUMENTS, "--raw-dtype", f">{kind}", "--segment-length", LENGTH
    )
    for example in read_examples(tmp_path / "out"):
        assert np.argmax(example["spectrum"][1:]) + 1 == 1000 * LENGTH // RATE == 1024
        np.testing.assert_array_equal(example["waveform"], samples)
    for declared, count in ((f">{kind}", 0), (f"<{kind}", 1)):
        layout = ("--raw-dtype", declared, "--sample-rate", RATE, "--segment-length", LENGTH)
        told = {
            "plan": run("plan", "--input", tmp_path / "in", "--output", tmp_path / "none", *layout),
            "inspect": run("inspect", tmp_path / "in" / "0.raw", *layout),
        }
        for verb, result in told.items():
            assert result.code == 0, result.err
            warnings = [line for line in result.out.splitlines() if "maybe_byteswapped" in line]
            assert min(1, len(warnings)) == count, (verb, declared, result.out)
            assert all(f">{kind}" in line and f"<{kind}" in line for line in warnings)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "raw_dtype"),
        (("--raw-dtype", "i2"), "byte order"),
        (("--raw-dtype", "=i2"), "byte order"),
        (("--raw-dtype", "int16"), "byte order"),
        (("--raw-dtype", "<i3"), "<i3"),
        (("--raw-dtype", "<S2"), "<S2"),
        (("--raw-dtype", "<i2"), "sample_rate"),
    ],
)
@pytest.mark.parametrize("verb", ["extract", "plan"])
def test_headerless_files_have_no_default_layout(tmp_path, verb, arguments, words):
    """A14: neither the machine's byte order nor a usual type or rate is taken; the message has an example."""
    write_raw(tmp_path / "in" / "a.raw", tone(), ">i2")
    result = run(verb, "--input", tmp_path / "in", "--output", tmp_path / "out", *arguments)
    assert result.code == 2
    assert words in result.err
    assert "<" in result.err or "such as" in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_big_endian_containers_give_the_same_records(tmp_path, width, channels):
    """A14: RIFX = RIFF, and AIFF, AU, CAF of both orders too: the shards are the same byte by byte."""
    values = np.random.default_rng(14).integers(-(2**23), 2**23, (1000, channels))
    wide = (values << 8).astype(np.int32)
    little = wide.astype("<i4").view("u1").reshape(1000, channels, 4)[:, :, 4 - width :].tobytes()
    big = wide.astype(">i4").view("u1").reshape(1000, channels, 4)[:, :, :width].tobytes()
    files = {
        "riff": riff(little, format=fmt(channels=channels, bits=8 * width)),
        "rifx": riff(big, format=fmt(channels=channels, bits=8 * width, order=">"), magic=b"RIFX"),
        "aiff": encode("AIFF", f"PCM_{8 * width}", wide, RATE),
        "au": encode("AU", f"PCM_{8 * width}", wide, RATE),
        "caf": encode("CAF", f"PCM_{8 * width}", wide, RATE),
    }
    found = {}
    for name, content in files.items():
        write(
            tmp_path / name / "a.wav", content
        )  # one name, so that records can be equal; content tells the format
        extract(tmp_path / name, tmp_path / f"out-{name}", *ARGUMENTS)
        found[name] = shards(tmp_path / f"out-{name}")
    assert set(map(tuple, found.values())) == {tuple(found["riff"])}
    assert_signals(
        tmp_path / "out-riff",
        {("a.wav", c): (wide[:, c] >> 32 - 8 * width) / 2.0 ** (8 * width - 1) for c in range(channels)},
    )


def test_a_container_that_names_a_raw_layout_is_read_by_its_own(tmp_path):
    """A14: the settings of headerless files are for headerless files."""
    write(tmp_path / "in" / "a.wav", riff(RAMP.astype("<i2").tobytes()))
    write(tmp_path / "in" / "b.npy", npy(RAMP))
    write_raw(tmp_path / "in" / "c.raw", RAMP, ">f8", header=b"1234567")
    extract(
        tmp_path / "in", tmp_path / "out", *ARGUMENTS, "--raw-dtype", ">f8", "--raw-header-bytes", "7",
        "--raw-channels", "1",
    )  # fmt: skip
    assert_signals(
        tmp_path / "out", {("a.wav", 0): RAMP / 2.0**15, ("b.npy", 0): RAMP * 1.0, ("c.raw", 0): RAMP * 1.0}
    )


ODD = np.arange(999, dtype=np.int16) * 60 - 30000  # of two channels: 499 frames and a half


def wav_by_stdlib() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as opened:
        opened.setparams((2, 2, RATE, 0, "NONE", ""))
        opened.writeframes(ODD.tobytes())
    return file.getvalue()


# name: (content, frames that are whole, bytes left over, samples of a channel or None)
PARTIAL = {
    "stereo.wav": (riff(ODD.tobytes(), format=fmt(channels=2)), 499, 2),
    "stdlib.wav": (wav_by_stdlib(), 499, 2),
    "big-endian.wav": (
        riff(ODD.astype(">i2").tobytes(), format=fmt(channels=2, order=">"), magic=b"RIFX"), 499, 2
    ),
    "24.wav": (riff(bytes(6 * 100 + 5), format=fmt(channels=2, bits=24)), 100, 5),
    "mono.wav": (riff(ODD.tobytes()[:-1]), 998, 1),
    "double.wav": (riff(bytes(8 * 50 + 7), format=fmt(code=3, bits=64)), 50, 7),
}  # fmt: skip


def test_the_partial_frame_at_the_end_of_a_wav_file_is_left_out_and_told(tmp_path):
    """A15: 999 values of two channels are 499 frames and a warning with the bytes; no channel is shifted."""
    for name, (content, _, _) in PARTIAL.items():
        write(tmp_path / "in" / name, content)
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS)
    stereo = ODD[:998].reshape(-1, 2) / 2.0**15
    expected = {
        (name, channel): stereo[:, channel]
        for name in ("stereo.wav", "stdlib.wav", "big-endian.wav")
        for channel in range(2)
    }
    expected |= {("24.wav", 0): np.zeros(100), ("24.wav", 1): np.zeros(100), ("double.wav", 0): np.zeros(50)}
    expected["mono.wav", 0] = ODD[:998] / 2.0**15
    assert_signals(tmp_path / "out", expected)
    rows = ledger(tmp_path / "out")
    for name, (_, frames, rest) in PARTIAL.items():
        assert rows[name]["frames"] == frames, name
        assert any(f"{rest} bytes of a partial frame" in each for each in rows[name]["warnings"]), rows[name]
    assert reasons(tmp_path / "out") == {}
    assert_balanced(tmp_path / "out")


def test_strict_rejects_a_partial_frame(tmp_path):
    """A15: with the bytes in the message; a whole file beside it is used."""
    for name, (content, _, _) in PARTIAL.items():
        write(tmp_path / "in" / name, content)
    write(tmp_path / "in" / "good.wav", riff(RAMP.astype("<i2").tobytes()))
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, "--strict", "--max-reject-fraction", "0.9")
    assert {name: found[1] for name, found in reasons(tmp_path / "out").items()} == dict.fromkeys(
        PARTIAL, "partial_frame"
    )
    for name, message in messages(tmp_path / "out").items():
        assert f"{PARTIAL[name][2]} bytes of a partial frame" in message
    assert_signals(tmp_path / "out", {("good.wav", 0): RAMP / 2.0**15})


@pytest.mark.parametrize("format", ["AIFF", "AU"])
def test_the_partial_frame_of_other_containers_is_left_out_and_told(tmp_path, format):
    """A15: beyond WAV; the file lost its last two bytes."""
    samples = noise(1000).reshape(500, 2) / 4
    content = encode(format, "PCM_24", samples, RATE)
    write(tmp_path / "in" / "cut.x.wav", content[:-2])
    write(tmp_path / "in" / "whole.x.wav", content)
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS)
    rows = ledger(tmp_path / "out")
    assert {name: row["frames"] for name, row in rows.items()} == {"cut.x.wav": 499, "whole.x.wav": 500}
    assert rows["whole.x.wav"]["warnings"] == []
    assert rows["cut.x.wav"]["warnings"]
    first = {
        (name, channel): part
        for name, count in (("cut.x.wav", 499), ("whole.x.wav", 500))
        for channel, part in enumerate((np.floor(samples * 2.0**23) / 2.0**23)[:count].T)
    }
    assert_signals(tmp_path / "out", first, within=1.5 / 2**23)


def write_11_bytes_more(tmp_path, layout: str) -> np.ndarray:
    """Three channels of 300 samples, and most of a frame."""
    samples = np.stack([noise(300, seed) for seed in range(3)], axis=1)
    path = write_raw(tmp_path / "in" / "a.raw", samples if layout == "interleaved" else samples.T)
    with path.open("ab") as file:
        file.write(b"\x7f" * 11)
    return samples


def test_what_is_dropped_of_interleaved_channels_is_less_than_a_frame(tmp_path):
    """A15: of three channels, a rest that holds two samples."""
    samples = write_11_bytes_more(tmp_path, "interleaved")
    arguments = (*ARGUMENTS, "--raw-channels", "3")
    extract(tmp_path / "in", tmp_path / "reject", *arguments, code=3)
    assert reasons(tmp_path / "reject") == {"a.raw": ("plan", "partial_frame", 0)}
    extract(tmp_path / "in", tmp_path / "drop", *arguments, "--partial-frame", "drop")
    assert_signals(tmp_path / "drop", {("a.raw", channel): samples[:, channel] for channel in range(3)})


@pytest.mark.parametrize("arguments", [("--raw-layout", "planar"), ("--strict",)])
def test_a_cure_that_was_taken_and_cannot_help_is_not_advised(tmp_path, arguments):
    """A15: planar channels have no known borders where bytes are left over, and strict drops nothing."""
    write_11_bytes_more(tmp_path, "planar")
    write_raw(tmp_path / "in" / "good.raw", noise(300))
    extract(
        tmp_path / "in", tmp_path / "out", *ARGUMENTS, *arguments, "--raw-channels", "3",
        "--partial-frame", "drop", "--max-reject-fraction", "0.5",
    )  # fmt: skip
    assert reasons(tmp_path / "out") == {"a.raw": ("plan", "partial_frame", 0)}
    message = messages(tmp_path / "out")["a.raw"]
    assert "11 are left over" in message
    assert "set partial_frame=drop" not in message


def test_bytes_after_an_array_are_left_out_and_told(tmp_path):
    """A15: an NPY file with something behind its array."""
    write(tmp_path / "in" / "a.npy", npy(RAMP) + b"123")
    write(tmp_path / "in" / "good.npy", npy(RAMP))
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS)
    assert_signals(tmp_path / "out", {("a.npy", 0): RAMP * 1.0, ("good.npy", 0): RAMP * 1.0})
    assert ledger(tmp_path / "out")["a.npy"]["warnings"] == ["3 bytes after the array are left out"]
