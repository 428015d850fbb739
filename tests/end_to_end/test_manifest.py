"""A manifest from end to end: labels, targets, carried values, times, stacks, resampling, pairs; against numpy."""

import json

import numpy as np
import pytest
import soxr

from tests.helpers.pipelines import extract, metadata, read_examples, rejects, run
from tests.helpers.references import assert_spectrum
from tests.helpers.signals import noise, write_raw, write_recordings, write_wav

LENGTH = 256


@pytest.fixture
def lines(tmp_path):
    """Writes the rows of a manifest."""

    def write(*rows):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def test_rows_tell_label_target_carried_values_and_time(tmp_path, lines):
    signals = {name: noise(2 * LENGTH, seed) for seed, name in enumerate("abc")}
    for name, samples in signals.items():
        write_raw(tmp_path / "in" / f"{name}.raw", samples)
    manifest = lines(
        {"uri": "a.raw", "label": "x", "rpm": 1797, "site": "n", "q": [1.5, 2], "start_time": "1970-01-01T00:00:10Z",
         "split": "one", "labels": ["x"]},
        {"uri": "b.raw", "label": "y", "rpm": 900, "site": "s", "q": [0.5, -1], "split": "two", "labels": ["y", "x"]},
        {"uri": "c.raw", "label": "x", "rpm": 5, "site": "s", "q": [7.25, 0], "split": "two", "labels": []},
    )  # fmt: skip
    out = tmp_path / "out"
    extract(tmp_path / "in", out, "--manifest", manifest, "--carry", "rpm,site", "--target-columns", "q")
    about = metadata(out)
    assert about["label_names"] == ["x", "y"]
    assert {split: part["examples"] for split, part in about["splits"].items()} == {"one": 2, "two": 4}
    examples = {(each["recording"].decode(), int(each["start"])): each for each in read_examples(out)}
    assert len(examples) == 6
    for name, label, rpm, site, target, hot in (
        ("a", 0, 1797, b"n", [1.5, 2], [1, 0]),
        ("b", 1, 900, b"s", [0.5, -1], [1, 1]),
        ("c", 0, 5, b"s", [7.25, 0], [0, 0]),
    ):
        for start in (0, LENGTH):
            each = examples[f"{name}.raw", start]
            assert (each["label"], each["rpm"], each["site"]) == (label, rpm, site)
            assert each["target"].tolist() == target
            assert each["labels"].tolist() == hot
            time = 10**10 + start * 10**6 if name == "a" else np.iinfo(np.int64).min
            assert each["start_time_ns"] == time
            assert_spectrum(each["spectrum"], signals[name][start : start + LENGTH])
    assert run("verify", out).code == 0
    assert run("inspect", out).code == 0


def test_several_labels_alone_are_classes_too(tmp_path, lines):
    write_raw(tmp_path / "in" / "a.raw", noise(LENGTH))
    write_raw(tmp_path / "in" / "b.raw", noise(LENGTH, 1))
    manifest = lines({"uri": "a.raw", "labels": ["y", "x"]}, {"uri": "b.raw", "labels": ["y"]})
    extract(tmp_path / "in", tmp_path / "out", "--manifest", manifest)
    assert metadata(tmp_path / "out")["label_names"] == ["x", "y"]
    found = {each["recording"]: each["labels"].tolist() for each in read_examples(tmp_path / "out")}
    assert found == {b"a.raw": [1, 1], b"b.raw": [0, 1]}


def test_stacked_and_resampled_channels_are_right(tmp_path):
    stereo = np.stack([noise(6000, 1), noise(6000, 2)], axis=1) / 4
    write_wav(tmp_path / "in" / "slow.wav", stereo[:2000], 1000, "FLOAT")
    write_wav(tmp_path / "in" / "fast.wav", stereo, 3000, "FLOAT")
    write_wav(tmp_path / "in" / "mono.wav", stereo[:, 0], 1000, "FLOAT")
    out = tmp_path / "out"
    extract(tmp_path / "in", out, "--resample", "--channels", "stack:1,0", "--splits", "all=1", "--keep-waveform",
            "--max-reject-fraction", "0.5")  # fmt: skip
    assert [(line["recording"], line["reason"]) for line in rejects(out)] == [
        ("mono.wav", "channel_mismatch")
    ]
    expected = {
        b"slow.wav": stereo[:2000].astype(np.float64),
        b"fast.wav": soxr.resample(stereo.astype(np.float64), 3000, 1000, quality="VHQ"),
    }
    examples = read_examples(out)
    assert len(examples) == 2 * 8
    for each in examples:
        assert "channel" not in each
        assert each["spectrum"].shape == (2, LENGTH // 2 + 1)
        start, valid = int(each["start"]), int(each["valid"])
        for row, channel in enumerate((1, 0)):
            samples = expected[each["recording"]][start : start + LENGTH, channel]
            assert len(samples) == valid
            assert np.abs(each["waveform"][row, :valid] - samples).max() < 1e-6
            assert not each["waveform"][row, valid:].any()
            assert_spectrum(each["spectrum"][row], each["waveform"][row])
    assert run("verify", out).code == 0
    assert run("inspect", out).code == 0


def test_pairs_are_stored_side_by_side(tmp_path, lines):
    noisy, clean = noise(3 * LENGTH, 1), noise(3 * LENGTH, 2)
    write_raw(tmp_path / "in" / "noisy.raw", noisy)
    write_raw(tmp_path / "in" / "clean.raw", clean)
    manifest = lines({"uri": "noisy.raw", "target": "clean.raw", "split": "all"})
    extract(tmp_path / "in", tmp_path / "out", "--manifest", manifest)
    examples = read_examples(tmp_path / "out")
    assert len(examples) == 3
    for each in examples:
        part = slice(each["start"], each["start"] + LENGTH)
        np.testing.assert_array_equal(each["target_waveform"], clean[part])
        assert_spectrum(each["spectrum"], noisy[part])


@pytest.mark.parametrize("scale", ["nan", "0", 1e40])
def test_a_scale_that_cannot_be_is_an_error_of_the_manifest_and_no_crash_of_a_worker(tmp_path, lines, scale):
    write_raw(tmp_path / "in" / "a.raw", noise(LENGTH))
    manifest = lines({"uri": "a.raw", "scale": scale})
    result = extract(tmp_path / "in", tmp_path / "out", "--manifest", manifest, code=2)
    assert "rows.jsonl, row 1: " in result.err


def test_a_scale_of_a_row_scales_its_samples_alone(tmp_path, lines):
    for name in "ab":
        write_raw(tmp_path / "in" / f"{name}.raw", noise(LENGTH))
    manifest = lines({"uri": "a.raw", "scale": 0.5}, {"uri": "b.raw"})
    extract(tmp_path / "in", tmp_path / "out", "--manifest", manifest, "--keep-waveform")
    kept = {each["recording"]: each["waveform"] for each in read_examples(tmp_path / "out")}
    np.testing.assert_array_equal(kept[b"a.raw"], 0.5 * noise(LENGTH))
    np.testing.assert_array_equal(kept[b"b.raw"], noise(LENGTH))


@pytest.mark.parametrize("split", ["../../up", "a b", "x/y"])
def test_names_on_disk_never_come_from_what_a_manifest_calls_a_split(tmp_path, lines, split):
    write_raw(tmp_path / "in" / "a.raw", noise(LENGTH))
    before = sorted(tmp_path.rglob("*"))
    manifest = lines({"uri": "a.raw", "split": split})
    result = extract(tmp_path / "in", tmp_path / "out", "--manifest", manifest, code=2)
    assert "cannot be a split's name" in result.err
    outside = [path for path in tmp_path.rglob("*") if not path.is_relative_to(tmp_path / "out")]
    assert sorted(outside) == sorted([*before, manifest])


def test_a_run_by_manifest_is_resumed_and_repeated_from_its_own_settings(tmp_path, lines):
    for name in "abcdef":
        write_raw(tmp_path / "in" / f"{name}.raw", noise(LENGTH))
    manifest = lines(*({"uri": f"{name}.raw", "label": name, "start": 3, "end": 99} for name in "abcdef"))
    given = (
        tmp_path / "in",
        tmp_path / "out",
        "--manifest",
        manifest,
        "--num-shards",
        "4",
        "--splits",
        "all=1",
    )
    extract(*given)
    assert "nothing to do" in extract(*given).out
    result = run("extract", "--config", tmp_path / "out" / "spectrabeam.json")
    assert result.code == 0, result.err
    assert "nothing to do" in result.out
    text = manifest.read_text()
    manifest.write_text(text.replace('"label": "a"', '"label": "b"'))
    assert "was made from another input (+1 −1 recordings): " in extract(*given, code=2).err
    manifest.write_text(text.replace('"label": "a"', '"label": "a", "group": "g"'))
    assert "another input (the same recordings with another group): " in extract(*given, code=2).err


def test_a_carried_field_that_some_lack_is_told_and_verifies(tmp_path):
    """NaN stands for what a recording does not have; it is no fault of the dataset."""
    write_recordings(tmp_path / "in", 4)
    names = sorted(path.relative_to(tmp_path / "in").as_posix() for path in (tmp_path / "in").rglob("*.raw"))
    rows = [f"{name},{'' if number == 2 else 1800 + number}" for number, name in enumerate(names)]
    (tmp_path / "m.csv").write_text("\n".join(["uri,rpm", *rows]))
    result = extract(tmp_path / "in", tmp_path / "out", "--manifest", tmp_path / "m.csv", "--carry", "rpm")
    assert "carry=rpm: 1 recording without a value, stored as NaN" in result.out
    values = {
        example["recording"].decode(): float(example["rpm"]) for example in read_examples(tmp_path / "out")
    }
    assert np.isnan(values.pop(names[2]))
    assert values == {name: 1800.0 + number for number, name in enumerate(names) if number != 2}
    assert run("verify", tmp_path / "out").code == 0


def test_a_stated_unit_goes_before_full_scale(tmp_path):
    """A WAV of an accelerometer says nothing of its unit; that its samples are brought to [-1, 1) is none."""
    write_wav(tmp_path / "in" / "a.wav", noise(2000) / 4, 1000)
    for flags, unit in (((), "full scale"), (("--unit", "g", "--sensitivity", "0.1"), "g")):
        output = tmp_path / f"out{len(flags)}"
        result = run(
            "extract", "--input", tmp_path / "in", "--output", output, "--segment-length", 256, *flags
        )
        assert result.code == 0, result.err
        assert metadata(output)["unit"] == unit
