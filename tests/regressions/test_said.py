"""What manifests and sidecars say must reach the samples, and a change of it must be noticed."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest

from tests.helpers.pipelines import RAW, metadata, read_examples, rejects, run
from tests.helpers.signals import noise, write_raw

L = 256


def write_manifest(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def extract(*arguments, code=0):
    result = run("extract", "--segment-length", L, "--jit", "off", *arguments)
    assert result.code == code, (result.out, result.err)
    return result


def test_a_scale_in_the_manifest_leaves_the_sidecar_s_sample_type_alone(tmp_path):
    stored = np.arange(-L, L, dtype="<i2")
    write_raw(tmp_path / "a.raw", stored, "<i2")
    (tmp_path / "a.yaml").write_text("raw_dtype: <i2\nsample_rate: 1000\n")
    manifest = write_manifest(tmp_path / "m.jsonl", {"uri": "a.raw", "scale": 0.5})
    extract("--manifest", manifest, "--output", tmp_path / "out", "--keep-waveform")
    examples = sorted(read_examples(tmp_path / "out"), key=lambda example: example["start"])
    np.testing.assert_array_equal(np.concatenate([each["waveform"] for each in examples]), stored * 0.5)


@pytest.mark.parametrize("column", ["target", "uri"])
def test_another_file_under_the_same_id_is_another_input(tmp_path, column):
    for number in range(3):
        write_raw(tmp_path / f"{number}.raw", noise(2 * L, number))
    row = {"id": "one", "uri": "0.raw", "target": "1.raw"}
    manifest = write_manifest(tmp_path / "m.jsonl", row)
    arguments = ("--manifest", manifest, "--output", tmp_path / "out", *RAW)
    extract(*arguments)
    assert "nothing to do" in extract(*arguments).out
    write_manifest(manifest, {**row, column: "2.raw"})
    assert "another input" in extract(*arguments, code=2).err


def test_complex_samples_that_a_sidecar_tells_of_are_rejects(tmp_path):
    write_raw(tmp_path / "in" / "a.raw", noise(4 * L))
    write_raw(tmp_path / "in" / "b.raw", noise(4 * L))
    (tmp_path / "in" / "b.yaml").write_text("iq: true\nraw_channels: 2\n")
    extract("--input", tmp_path / "in", "--output", tmp_path / "out", *RAW, "--max-reject-fraction", 0.5)
    assert [(line["recording"], line["reason"]) for line in rejects(tmp_path / "out")] == [
        ("b.raw", "complex_samples")
    ]


def test_features_made_again_of_a_dataset_keep_label_split_and_place(tmp_path):
    for name in ("x", "y"):
        for number in range(4):
            write_raw(tmp_path / "in" / name / f"{number}.raw", noise(3 * L + 10, number))
    first = ("--input", tmp_path / "in", *RAW, "--label-from", "path:^(?P<label>.)/")
    extract(*first, "--output", tmp_path / "one", "--keep-waveform")
    extract("--input", tmp_path / "one", "--output", tmp_path / "two", "--keep-waveform")
    one, two = (
        {place(each, tmp_path / name): each for each in read_examples(tmp_path / name)}
        for name in ("one", "two")
    )
    assert metadata(tmp_path / "two")["label_names"] == ["x", "y"]
    assert one.keys() == two.keys()
    for key, example in one.items():
        np.testing.assert_array_equal(example["waveform"], two[key]["waveform"])
        np.testing.assert_array_equal(example["spectrum"], two[key]["spectrum"])
    splits = [
        {
            name: part["examples"]
            for name, part in metadata(tmp_path / each)["splits"].items()
            if part["examples"]
        }
        for each in ("one", "two")
    ]
    assert splits[0] == splits[1]


def place(example, dataset):
    name = metadata(dataset)["label_names"][int(example["label"])]
    return example["recording"], int(example["channel"]), int(example["start"]), int(example["valid"]), name


def test_a_folder_s_file_above_the_input_says_nothing(tmp_path):
    write_raw(tmp_path / "above" / "in" / "sub" / "a.raw", noise(L))
    (tmp_path / "above" / "recordings.yaml").write_text("unit: above\n")
    (tmp_path / "above" / "in" / "recordings.yaml").write_text("unit: inside\n")
    for number, given in enumerate((f"{tmp_path}/above/in", f"n={tmp_path}/above/in")):
        extract("--input", given, "--output", tmp_path / f"out{number}", *RAW)
        assert metadata(tmp_path / f"out{number}")["unit"] == "inside"


def test_copies_in_a_dataset_split_by_time_are_told(tmp_path):
    for name in ("a", "b"):
        write_raw(tmp_path / "in" / f"{name}.raw", noise(40 * L))
    arguments = ("--input", tmp_path / "in", *RAW, "--split-by", "time", "--duplicates")
    told = extract(*arguments, "warn", "--output", tmp_path / "warned").out
    assert "1 recording with the samples of one in another split, such as b.raw with those of a.raw" in told
    extract(*arguments, "reject", "--output", tmp_path / "rejected", "--max-reject-fraction", 0.5)
    assert [line["reason"] for line in rejects(tmp_path / "rejected")] == ["duplicate"]


def test_members_that_the_manifest_does_not_name_are_left_out_and_counted(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["good"], file["other"], file["flat"] = noise(2 * L), noise(2 * L), np.ones((3, 4))
    manifest = write_manifest(tmp_path / "m.jsonl", {"uri": "a.h5//good"})
    result = extract("--manifest", manifest, "--output", tmp_path / "out", "--sample-rate", 1000)
    assert {each["recording"] for each in read_examples(tmp_path / "out")} == {b"a.h5//good"}
    assert rejects(tmp_path / "out") == []
    assert metadata(tmp_path / "out")["counts"]["left_out"] == {"members not in the manifest": 2}
    assert "2 members not in the manifest" in result.out


def test_a_manifest_may_name_files_that_no_format_s_name_fits(tmp_path):
    write_raw(tmp_path / "in" / "f.bin", noise(2 * L))
    manifest = write_manifest(tmp_path / "m.jsonl", {"uri": "f.bin"})
    arguments = ("--manifest", manifest, "--input", tmp_path / "in", "--input-format", "raw", *RAW)
    extract(*arguments, "--output", tmp_path / "out")
    assert len(read_examples(tmp_path / "out")) == 2


def test_headerless_pairs_have_the_rate_that_their_row_states(tmp_path):
    for name in ("a", "b"):
        write_raw(tmp_path / f"{name}.raw", noise(2 * L, ord(name)))
    rows = [{"uri": f"{tmp_path}/a.raw", "target": "b.raw", "sample_rate": 500.0}]
    manifest = write_manifest(tmp_path / "m.jsonl", *rows)
    arguments = ("--manifest", manifest, "--raw-dtype", "<f4", "--output", tmp_path / "out")
    extract(*arguments)
    examples = sorted(read_examples(tmp_path / "out"), key=lambda example: example["start"])
    found = np.concatenate([each["target_waveform"] for each in examples])
    np.testing.assert_array_equal(found, noise(2 * L, ord("b")))
    assert metadata(tmp_path / "out")["sample_rate"] == 500.0


def test_one_file_under_two_names_is_refused(tmp_path):
    write_raw(tmp_path / "a.raw", noise(L))
    manifest = write_manifest(tmp_path / "m.jsonl", {"uri": "a.raw"}, {"uri": f"{tmp_path}/a.raw"})
    refused = extract("--manifest", manifest, "--output", tmp_path / "out", *RAW, code=2)
    assert "names one file as a.raw and as" in refused.err


def test_a_target_may_be_named_in_two_ways(tmp_path):
    for name in "abc":
        write_raw(tmp_path / f"{name}.raw", noise(L, ord(name)))
    rows = [{"uri": "a.raw", "target": "c.raw"}, {"uri": "b.raw", "target": f"{tmp_path}/c.raw"}]
    manifest = write_manifest(tmp_path / "m.jsonl", *rows)
    extract("--manifest", manifest, "--output", tmp_path / "out", *RAW)
    for each in read_examples(tmp_path / "out"):
        np.testing.assert_array_equal(each["target_waveform"], noise(L, ord("c")))


def test_parts_that_share_samples_in_two_splits_are_told(tmp_path):
    write_raw(tmp_path / "a.raw", noise(4 * L))
    rows = [
        {"uri": "a.raw", "start": 0, "end": 2 * L, "split": "x"},
        {"uri": "a.raw", "start": L, "split": "y"},
    ]
    manifest = write_manifest(tmp_path / "m.jsonl", *rows)
    told = extract("--manifest", manifest, "--output", tmp_path / "out", *RAW).out
    assert "1 part of recordings with samples of a part in another split" in told


def test_splits_by_value_keep_their_order_when_a_run_is_repeated(tmp_path):
    for number in range(4):
        write_raw(tmp_path / "in" / f"{number}_{number % 2}.raw", noise(L, number))
    (tmp_path / "s.yaml").write_text(
        "splits: {zz: {odd: ['1']}, aa: {number: ['1', '2']}, train: 1.0}\n"
        "fields_from: 'path:(?P<number>.)_(?P<odd>.)'\n"
    )
    arguments = ("--config", tmp_path / "s.yaml", "--input", tmp_path / "in", *RAW)
    extract(*arguments, "--output", tmp_path / "one")
    repeat = run("extract", "--config", tmp_path / "one" / "spectrabeam.json", "--output", tmp_path / "two")
    assert repeat.code == 0, repeat.err
    one, two = ((tmp_path / name / "spectrabeam.json").read_bytes() for name in ("one", "two"))
    assert one == two
    assert {name: part["examples"] for name, part in metadata(tmp_path / "one")["splits"].items()} == {
        "aa": 1, "train": 1, "zz": 2
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('uri,label\na.raw,"x\nb.raw,y\n', "a quote that is not closed"),
        ("uri,start,end,sample_rate\na.raw,0.0,0.1,inf\n", None),
        ("uri,start\na.raw,1e99999999\n", "is no number of samples or seconds"),
        ("uri,start_time\na.raw,0001-01-01T00:00:00Z\n", "is no time"),
    ],
)
def test_what_a_manifest_cannot_mean_is_one_line_and_no_crash(tmp_path, rows, message):
    for name in ("a", "b"):
        write_raw(tmp_path / f"{name}.raw", noise(2 * L))
    (tmp_path / "m.csv").write_text(rows)
    result = run("plan", "--manifest", tmp_path / "m.csv", *RAW)
    assert result.code == (0 if message is None else 2), (result.out, result.err)
    assert message is None or message in result.err


def test_a_group_that_changes_is_another_input(tmp_path):
    write_raw(tmp_path / "a.raw", noise(L))
    for column, values in (("unit", ("g", "Pa")), ("group", ("m1", "m2"))):
        manifest = write_manifest(tmp_path / "m.jsonl", {"uri": "a.raw", column: values[0]})
        arguments = ("--manifest", manifest, "--output", tmp_path / column, *RAW, "--splits", "all=1")
        extract(*arguments)
        assert "nothing to do" in extract(*arguments).out
        write_manifest(manifest, {"uri": "a.raw", column: values[1]})
        extract(*arguments, code=2)
