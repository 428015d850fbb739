"""Silence, infinite samples and numbers too large: every row that is written is finite, in every container."""

from __future__ import annotations

import io

import numpy as np
import pytest
import scipy.io

from tests.helpers.containers import encode, hdf5, mat73, npy, write
from tests.helpers.datasets import assert_balanced, assert_signals, reasons, spectra
from tests.helpers.pipelines import extract, metadata, read_examples, rejects, run
from tests.helpers.signals import noise, write_raw
from tests.helpers.waves import fmt, riff

ARGUMENTS = ("--sample-rate", "16000", "--splits", "all=1", "--keep-waveform")
MANY = ("--max-reject-fraction", "0.99")
FLOOR = np.log(1e-6)


def saved_mat(**variables: np.ndarray) -> bytes:
    file = io.BytesIO()
    scipy.io.savemat(file, variables)
    return file.getvalue()


def table(values: np.ndarray) -> bytes:
    return ("x\n" + "".join(f"{value!r}\n" for value in values.tolist())).encode()


# every container of floats: name to what writes samples into it
FLOATS = {
    "float.wav": lambda x: riff(x.astype("<f4").tobytes(), format=fmt(code=3, bits=32)),
    "double.wav": lambda x: riff(x.astype("<f8").tobytes(), format=fmt(code=3, bits=64)),
    "rifx.wav": lambda x: riff(
        x.astype(">f4").tobytes(), format=fmt(code=3, bits=32, order=">"), magic=b"RIFX"
    ),
    "a.aiff": lambda x: encode("AIFF", "DOUBLE", x),
    "a.au": lambda x: encode("AU", "DOUBLE", x),
    "a.caf": lambda x: encode("CAF", "DOUBLE", x),
    "f4.npy": lambda x: npy(x.astype("<f4")),
    "f8.npy": lambda x: npy(x.astype(">f8")),
    "a.h5": lambda x: hdf5(x=x),
    "a.mat": lambda x: saved_mat(x=x),
    "v73.mat": lambda x: mat73(x=x),
    "a.raw": lambda x: x.astype("<f8").tobytes(),
}


def recording(name: str) -> str:
    return f"{name}//x" if name.endswith(("h5", "mat")) else name


def write_floats(folder, samples: np.ndarray) -> None:
    for name, made in FLOATS.items():
        write(folder / name, made(samples))


SILENT = {
    "int16.wav": riff(bytes(32768)),
    "unsigned.wav": riff(b"\x80" * 16384, format=fmt(bits=8)),
    "float.wav": riff(bytes(4 * 16384), format=fmt(code=3, bits=32)),
    "minus-zero.wav": riff(np.full(16384, -0.0, "<f4").tobytes(), format=fmt(code=3, bits=32)),
    "a.flac": encode("FLAC", "PCM_16", np.zeros(16384, np.int16)),
    "a.ogg": encode("OGG", "VORBIS", np.zeros(16384)),
    "a.npy": npy(np.zeros(16384)),
    "short.wav": riff(bytes(10)),  # padded with what it has anyway
}


@pytest.mark.parametrize("jit", ["off", "on"])
def test_silence_is_a_row_at_the_floor_and_counted(tmp_path, jit):
    """A24: ln(1e-6) in each bin, no NaN and no infinity; it is kept, and the run says how many there are."""
    for name, content in SILENT.items():
        write(tmp_path / "in" / name, content)
    write(tmp_path / "in" / "sound.wav", encode("WAV", "FLOAT", noise(16384)))
    out = tmp_path / "out"
    result = extract(tmp_path / "in", out, *ARGUMENTS, "--segment-length", "16384", "--jit", jit)
    found = spectra(out)
    assert len(found) == len(SILENT) + 1
    for (name, _, _), spectrum in found.items():
        assert np.isfinite(spectrum).all()
        if name != b"sound.wav":
            assert spectrum.shape == (8193,)
            assert np.abs(spectrum - FLOOR).max() < 2e-6, name  # -13.8155; half a unit of float32
    assert metadata(out)["counts"]["silent"] == len(SILENT)
    assert f"Silent      {len(SILENT)} examples of zeros alone" in result.out
    assert "Silent" in run("inspect", out).out
    assert reasons(out) == {}
    assert_balanced(out)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3])
def test_the_floor_is_where_epsilon_puts_it(tmp_path, epsilon):
    """A24: and a recording that is silent only in part is counted for that part."""
    samples = np.concatenate([noise(256), np.zeros(512), noise(200)])
    write(tmp_path / "in" / "a.npy", npy(samples))
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, "--epsilon", epsilon)
    found = spectra(tmp_path / "out")
    for start in (256, 512):
        assert np.abs(found[b"a.npy", 0, start] - np.log(epsilon)).max() < 4e-6
    assert metadata(tmp_path / "out")["counts"]["silent"] == 2
    assert all(np.isfinite(spectrum).all() for spectrum in found.values())


def test_what_is_nearly_silent_is_not_counted_and_finite(tmp_path):
    """A24: the pair to it; one step of 24 bits, and numbers that are hardly float32 any more."""
    step = np.zeros(256)
    step[77] = 2.0**-23
    tiny = np.full(256, 1e-40)
    for name, samples in (("step", step), ("tiny", tiny)):
        write(tmp_path / "in" / f"{name}.npy", npy(samples))
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS)
    assert metadata(tmp_path / "out")["counts"]["silent"] == 0
    found = spectra(tmp_path / "out")
    assert np.abs(found[b"step.npy", 0, 0] - np.log(2.0**-23 + 1e-6)).max() < 2e-6
    assert np.abs(found[b"tiny.npy", 0, 0] - FLOOR).max() < 2e-6


@pytest.mark.parametrize("jit", ["off", "on"])
def test_a_nan_or_infinity_costs_its_own_segment_in_every_container(tmp_path, jit):
    """A25: NaN at 10 and infinity at 20 of the second segment; the others of the recording are used."""
    samples = noise(3 * 256).astype(np.float64) / 4
    good = samples.copy()
    samples[256 + 10], samples[256 + 20] = np.nan, np.inf
    write_floats(tmp_path / "in", samples)
    out = tmp_path / "out"
    extract(tmp_path / "in", out, *ARGUMENTS, *MANY, "--raw-dtype", "<f8", "--jit", jit)
    names = [recording(name) for name in FLOATS]
    assert reasons(out) == dict.fromkeys(names, ("read", "non_finite", 1))
    for line in rejects(out):
        assert line["where"] == [[0, 256]]
        assert "2 samples" in line["message"]
        assert "first at 266" in line["message"]
        assert "non_finite=zero" in line["message"]
    examples = read_examples(out)
    assert {(each["recording"].decode(), int(each["start"])) for each in examples} == {
        (name, start) for name in names for start in (0, 512)
    }
    for example in examples:
        start = int(example["start"])
        np.testing.assert_array_equal(example["waveform"], good[start : start + 256].astype(np.float32))
        assert np.isfinite(example["spectrum"]).all()
    assert_balanced(out)


def test_non_finite_samples_of_every_container_become_zero_on_request(tmp_path):
    """A25: those and no other."""
    samples = noise(3 * 256).astype(np.float64) / 4
    samples[[3, 300, 301, 700]] = np.nan, np.inf, -np.inf, np.nan
    write_floats(tmp_path / "in", samples)
    out = tmp_path / "out"
    extract(tmp_path / "in", out, *ARGUMENTS, "--raw-dtype", "<f8", "--non-finite", "zero")
    expected = np.where(np.isfinite(samples), samples, 0)
    assert_signals(out, {(recording(name), 0): expected for name in FLOATS})
    assert reasons(out) == {}


@pytest.mark.parametrize("non_finite", ["reject", "zero"])
def test_words_for_nan_and_infinity_in_a_table_are_no_numbers(tmp_path, non_finite):
    """A25: as numpy and pandas write them."""
    samples = noise(512).astype(np.float64)
    lines = ["x", *(repr(value) for value in samples.tolist())]
    lines[1 + 300], lines[1 + 310] = "nan", "-inf"
    write(tmp_path / "in" / "a.csv", "\n".join(lines).encode())
    write(tmp_path / "in" / "good.csv", table(samples))
    out = tmp_path / "out"
    extract(tmp_path / "in", out, *ARGUMENTS, *MANY, "--non-finite", non_finite)
    if non_finite == "reject":
        assert reasons(out) == {"a.csv": ("read", "non_finite", 1)}
        assert set(spectra(out)) == {(b"a.csv", 0, 0), (b"good.csv", 0, 0), (b"good.csv", 0, 256)}
    else:
        expected = samples.copy()
        expected[[300, 310]] = 0
        assert_signals(out, {("a.csv", 0): expected, ("good.csv", 0): samples})


WIDE = {name: made for name, made in FLOATS.items() if name not in ("float.wav", "rifx.wav", "f4.npy")}


def test_numbers_beyond_float32_never_become_a_row(tmp_path):
    """A25: 1e300 is finite as stored and infinite as a feature; told as such, and only for its segment."""
    samples = noise(3 * 256).astype(np.float64)
    samples[600] = 1e300
    for name, made in WIDE.items():
        write(tmp_path / "in" / name, made(samples))
    out = tmp_path / "out"
    extract(tmp_path / "in", out, *ARGUMENTS, *MANY, "--raw-dtype", "<f8")
    assert reasons(out) == {recording(name): ("read", "non_finite", 1) for name in WIDE}
    assert len(read_examples(out)) == 2 * len(WIDE)
    assert_balanced(out)


def test_a_factor_that_makes_samples_infinite_is_a_reject(tmp_path):
    """A25: beyond the file itself; a scale or a sensitivity of the wrong unit."""
    write_raw(tmp_path / "in" / "loud.raw", np.full(256, 1e20))
    write_raw(tmp_path / "in" / "good.raw", noise(256))
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, *MANY, "--scale", "1e25")
    assert reasons(tmp_path / "out") == {"loud.raw": ("read", "non_finite", 1)}
    extract(tmp_path / "in", tmp_path / "sens", *ARGUMENTS, *MANY, "--sensitivity", "1e-25")
    assert reasons(tmp_path / "sens") == {"loud.raw": ("read", "non_finite", 1)}


def test_a_nan_in_a_resampled_recording_takes_only_what_the_filter_reaches(tmp_path):
    """A25: it must not run through the rest of a stream."""
    samples = noise(32000)
    samples[100] = np.nan
    write(tmp_path / "in" / "a.wav", encode("WAV", "FLOAT", samples, 8000))
    write(tmp_path / "in" / "good.wav", encode("WAV", "FLOAT", noise(32000), 8000))
    out = tmp_path / "out"
    extract(tmp_path / "in", out, *ARGUMENTS, *MANY, "--resample", "--segment-length", "4096")
    (line,) = rejects(out)
    assert (line["recording"], line["reason"]) == ("a.wav", "non_finite")
    for example in read_examples(out):
        assert np.isfinite(example["spectrum"]).all()
    assert line["segments"] <= 2, line
    assert_balanced(out)
