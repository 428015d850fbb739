"""Complex samples from files of several forms to two-sided spectra."""

import json
import wave

import h5py
import numpy as np
import pytest
import scipy.fft
import soxr
import tensorflow as tf

from tests.helpers.pipelines import extract, metadata, read_examples, rejects, run
from tests.helpers.signals import noise, write_raw

L = 256
RATE = 1000.0


def samples(count=6 * L + 50, seed=0):
    """Integers in both parts, so that every format holds the same numbers."""
    rng = np.random.default_rng(seed)
    line = 9000 * np.exp(-2j * np.pi * 125 / RATE * np.arange(count))
    return np.round(line + 500 * (rng.standard_normal(count) + 1j * rng.standard_normal(count)))


def pairs(values, dtype):
    return np.stack([values.real, values.imag], axis=1).astype(dtype)


def write_c8(folder, values):
    (folder / "a.raw").write_bytes(values.astype("<c8").tobytes())
    return ("--raw-dtype", "<c8")


def write_c16(folder, values):
    (folder / "a.raw").write_bytes(values.astype(">c16").tobytes())
    return ("--raw-dtype", ">c16")


def write_iq(folder, values):
    (folder / "a.raw").write_bytes(pairs(values, "<i2").tobytes())
    return ("--raw-dtype", "<i2", "--raw-channels", 2, "--iq")


def write_planar_iq(folder, values):
    (folder / "a.raw").write_bytes(pairs(values, ">i4").T.tobytes())
    return ("--raw-dtype", ">i4", "--raw-channels", 2, "--raw-layout", "planar", "--iq")


def write_wav(folder, values):
    with wave.open(str(folder / "a.wav"), "wb") as file:
        file.setparams((2, 2, int(RATE), 0, "NONE", ""))
        file.writeframes(pairs(values, "<i2").tobytes())
    return ("--iq", "--scale", "none")


def write_npy(folder, values):
    np.save(folder / "a.npy", values.astype(np.complex64))
    return ()


def write_hdf5(folder, values):
    with h5py.File(folder / "a.h5", "w") as file:
        file["x"] = values
    return ()


@pytest.mark.parametrize(
    "write", [write_c8, write_c16, write_iq, write_planar_iq, write_wav, write_npy, write_hdf5]
)
def test_each_form_gives_the_spectrum_of_the_same_samples(tmp_path, write):
    (tmp_path / "in").mkdir()
    values = samples()
    more = write(tmp_path / "in", values)
    extract(tmp_path / "in", tmp_path / "out", *more, "--keep-waveform", "--splits", "all=1")
    about = metadata(tmp_path / "out")
    assert about["is_complex"] is True
    (axis,) = about["axes"]["spectrum"]
    assert (axis["first"], axis["step"], axis["count"]) == (-500.0, RATE / L, L)
    examples = read_examples(tmp_path / "out")
    assert len(examples) == 7
    for example in examples:
        segment = np.zeros(L, np.complex128)
        segment[: example["valid"]] = values[example["start"] :][: example["valid"]]
        assert np.array_equal(example["waveform"], pairs(segment, np.float32))
        expected = np.abs(scipy.fft.fftshift(scipy.fft.fft(segment)))
        stored = np.exp(example["spectrum"].astype(np.float64)) - 1e-6
        assert np.abs(stored - expected).max() < 1e-6 * expected.max()
    strongest = examples[0]["spectrum"].argmax() * axis["step"] + axis["first"]
    assert strongest == -125.0
    saved = tf.saved_model.load(str(tmp_path / "out" / "frontend")).signatures["serving_default"]
    waveform = np.stack([example["waveform"] for example in examples]).view(np.complex64)[..., 0]
    found = saved(waveform=waveform)["spectrum"].numpy()
    assert np.array_equal(found, np.stack([example["spectrum"] for example in examples]))
    assert run("verify", tmp_path / "out").code == 0


def test_channels_are_pairs(tmp_path):
    one, other = samples(seed=1), samples(seed=2)
    (tmp_path / "in").mkdir()
    stored = np.concatenate([pairs(one, "<f4"), pairs(other, "<f4")], axis=1)
    (tmp_path / "in" / "a.raw").write_bytes(stored.tobytes())
    more = ("--raw-channels", 4, "--iq", "--keep-waveform", "--splits", "all=1")
    extract(tmp_path / "in", tmp_path / "each", *more)
    extract(tmp_path / "in", tmp_path / "mix", *more, "--channels", "mix")
    extract(tmp_path / "in", tmp_path / "stack", *more, "--channels", "stack")
    each = {(example["channel"], example["start"]): example for example in read_examples(tmp_path / "each")}
    assert sorted({channel for channel, _ in each}) == [0, 1]
    assert np.array_equal(each[1, L]["waveform"], pairs(other[L : 2 * L], np.float32))
    mixed = {example["start"]: example["waveform"] for example in read_examples(tmp_path / "mix")}
    assert np.allclose(mixed[0], pairs((one + other)[:L] / 2, np.float32), rtol=1e-6)
    for example in read_examples(tmp_path / "stack"):
        assert example["waveform"].shape == (2, L, 2)
        assert example["spectrum"].shape == (2, L)
        for channel in (0, 1):
            assert np.array_equal(example["spectrum"][channel], each[channel, example["start"]]["spectrum"])


def test_resampled_samples_are_those_of_both_parts_resampled_whole(tmp_path):
    values = samples(60_000, seed=3)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.raw").write_bytes(values.astype("<c8").tobytes())
    (tmp_path / "in" / "a.yaml").write_text("sample_rate: 1500\n")
    more = ("--raw-dtype", "<c8", "--resample", "--keep-waveform", "--splits", "all=1")
    extract(tmp_path / "in", tmp_path / "out", *more)
    whole = [soxr.resample(part, 1500, 1000, quality="VHQ") for part in (values.real, values.imag)]
    found = sorted(read_examples(tmp_path / "out"), key=lambda example: example["start"])
    joined = np.concatenate([example["waveform"][: example["valid"]] for example in found])
    assert len(joined) == 40_000
    assert np.abs(joined - np.stack(whole, axis=1)).max() < 1e-6 * np.abs(values).max()


def test_sensitivity_and_missing_samples_work_as_with_real_ones(tmp_path):
    values = samples().astype(np.complex64)
    values[L + 5] = complex(1, np.nan)
    values[3 * L + 5] = complex(np.inf, 1)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.raw").write_bytes(values.tobytes())
    more = ("--raw-dtype", "<c8", "--splits", "all=1", "--keep-waveform", "--sensitivity", 2)
    extract(tmp_path / "in", tmp_path / "out", *more, "--max-reject-fraction", 0.5)
    assert [(line["reason"], line["segments"]) for line in rejects(tmp_path / "out")] == [("non_finite", 2)]
    starts = {example["start"]: example["waveform"] for example in read_examples(tmp_path / "out")}
    assert sorted(starts) == [0, 2 * L, 4 * L, 5 * L, 6 * L]
    assert np.array_equal(starts[0], pairs(values[:L] / 2, np.float32))
    extract(tmp_path / "in", tmp_path / "zero", *more, "--non-finite", "zero")
    starts = {example["start"]: example["waveform"] for example in read_examples(tmp_path / "zero")}
    assert starts[L][5].tolist() == [0.5, 0]
    assert starts[3 * L][5].tolist() == [0, 0.5]


def test_silence_is_counted(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.raw").write_bytes(bytes(8 * L * 3))
    extract(tmp_path / "in", tmp_path / "out", "--raw-dtype", "<c8", "--splits", "all=1")
    assert metadata(tmp_path / "out")["counts"]["silent"] == 3


def test_complex_recordings_among_real_ones_are_rejects(tmp_path):
    write_raw(tmp_path / "in" / "a.raw", noise(4 * L))
    np.save(tmp_path / "in" / "b.npy", samples().astype(np.complex64))
    extract(tmp_path / "in", tmp_path / "out", "--max-reject-fraction", 0.5)
    (line,) = rejects(tmp_path / "out")
    assert (line["recording"], line["reason"]) == ("b.npy", "complex_samples")
    assert "samples are complex (<c8), and other recordings have real ones" in line["message"]
    assert metadata(tmp_path / "out")["is_complex"] is False


@pytest.mark.parametrize(
    "band", [("--band=-250,125",), ("--band", "-250,125"), ("--band", "-250", "125"), ("--band=-250", "125")]
)
def test_a_band_on_both_sides_is_a_flag(tmp_path, band):
    (tmp_path / "in").mkdir()
    more = write_c8(tmp_path / "in", samples())
    extract(tmp_path / "in", tmp_path / "out", *more, *band, "--features", "power")
    (axis,) = metadata(tmp_path / "out")["axes"]["power"]
    assert (axis["first"], axis["count"]) == (-250.0, 97)


def test_kinds_for_real_samples_are_refused(tmp_path):
    (tmp_path / "in").mkdir()
    more = write_c8(tmp_path / "in", samples())
    result = extract(tmp_path / "in", tmp_path / "out", *more, "--features", "indicators", code=2)
    assert (
        "features.indicators: indicators takes real samples, and these are complex: use one of" in result.err
    )
    assert not (tmp_path / "out").exists()


def test_stored_complex_waveforms_are_no_input_yet(tmp_path):
    (tmp_path / "in").mkdir()
    more = write_c8(tmp_path / "in", samples())
    extract(tmp_path / "in", tmp_path / "out", *more, "--keep-waveform")
    result = extract(tmp_path / "out", tmp_path / "again", code=2)
    assert "holds complex samples: name the recordings that it was made from" in result.err


def test_the_same_input_is_nothing_to_do_and_another_type_another_input(tmp_path):
    (tmp_path / "in").mkdir()
    write_npy(tmp_path / "in", samples())
    extract(tmp_path / "in", tmp_path / "out")
    assert "nothing to do" in extract(tmp_path / "in", tmp_path / "out").out
    np.save(tmp_path / "in" / "a.npy", samples().real)  # of the same size
    said = "was made of complex samples, and these are real: use another folder, or --overwrite"
    assert said in extract(tmp_path / "in", tmp_path / "out", code=2).err


def test_a_shard_of_complex_waveforms_is_no_recording_of_real_ones(tmp_path):
    (tmp_path / "in").mkdir()
    write_npy(tmp_path / "in", samples())
    extract(tmp_path / "in", tmp_path / "out", "--keep-waveform", "--splits", "all=1")
    shard = tmp_path / "out" / "spectrabeam-all-00000.tfrecord"
    extract(shard, tmp_path / "again", code=3)
    (line,) = rejects(tmp_path / "again")
    assert line["reason"] == "complex_samples"
    assert "a shard of a dataset with complex waveforms: name the recordings" in line["message"]


def test_shards_of_another_type_are_made_again(tmp_path):
    (tmp_path / "in").mkdir()
    write_npy(tmp_path / "in", samples())
    extract(tmp_path / "in", tmp_path / "out")
    (tmp_path / "out" / "spectrabeam.json").unlink()
    np.save(tmp_path / "in" / "a.npy", samples().real)
    assert "Kept" not in extract(tmp_path / "in", tmp_path / "out").out
    assert metadata(tmp_path / "out")["features"]["spectrum"]["shape"] == [L // 2 + 1]
    assert run("verify", tmp_path / "out").code == 0


def test_complex_copies_in_different_splits_are_found(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(12):
        np.save(tmp_path / "in" / f"{number}.npy", samples().astype(np.complex64))
    more = ("--duplicates", "reject", "--max-reject-fraction", 1)
    extract(tmp_path / "in", tmp_path / "out", *more)
    splits = metadata(tmp_path / "out")["splits"]
    assert len([name for name, split in splits.items() if split["examples"]]) == 1
    assert {line["reason"] for line in rejects(tmp_path / "out")} == {"duplicate"}


def test_names_of_channels_are_those_of_both_parts_or_of_pairs(tmp_path):
    stored = np.concatenate([pairs(samples(seed=1), "<f4"), pairs(samples(seed=2), "<f4")], axis=1)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.raw").write_bytes(stored.tobytes())
    more = ("--raw-channels", 4, "--iq", "--keep-waveform", "--splits", "all=1")
    for names, picked in (("[I0, Q0, I1, Q1]", "I1/Q1"), ("[x, y]", "y")):
        (tmp_path / "in" / "a.yaml").write_text(f"channel_names: {names}\n")
        extract(tmp_path / "in", tmp_path / "out", *more, "--channels", picked, "--overwrite")
        first = next(example for example in read_examples(tmp_path / "out") if example["start"] == 0)
        assert np.array_equal(first["waveform"], stored[:L, 2:])
    (tmp_path / "in" / "a.yaml").write_text("channel_names: [x, y, z]\n")
    extract(tmp_path / "in", tmp_path / "out", *more, "--overwrite", code=3)
    (line,) = rejects(tmp_path / "out")
    assert line["reason"] == "channel_mismatch"
    assert "3 channel_names are given for its 2 channels: give one each" in line["message"]


def test_samples_that_are_complex_already_have_no_pairs(tmp_path):
    write_npy(tmp_path, samples())
    assert "these are complex already (<c8): leave iq out" in run("inspect", tmp_path / "a.npy", "--iq").out


def test_inspect_shows_levels_and_lines_on_both_sides(tmp_path):
    write_npy(tmp_path, samples(40_000))
    text = run("inspect", tmp_path / "a.npy", "--sample-rate", 1000).out
    assert "npy, <c8, complex, 1 channel" in text
    assert "in magnitude, mean " in text
    assert "lines that stand out: -125.00 Hz" in text


def test_an_example_can_be_drawn(tmp_path):
    (tmp_path / "in").mkdir()
    more = write_c8(tmp_path / "in", samples())
    extract(
        tmp_path / "in",
        tmp_path / "out",
        *more,
        "--keep-waveform",
        "--features",
        "log_spectrum,complex,psd",
        "--segment-length",
        1024,
    )
    picture = tmp_path / "a.png"
    assert run("inspect", tmp_path / "out", "--example", 0, "--plot", picture).code == 0
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_two_workers_write_the_same_bytes(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(6):
        (tmp_path / "in" / f"{number}.raw").write_bytes(samples(seed=number).astype("<c8").tobytes())
    more = ("--raw-dtype", "<c8", "--num-shards", 4)
    extract(tmp_path / "in", tmp_path / "one", *more)
    workers = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")
    extract(tmp_path / "in", tmp_path / "two", *more, *workers)
    one, two = metadata(tmp_path / "one"), metadata(tmp_path / "two")
    assert json.dumps(one["splits"]) == json.dumps(two["splits"])
