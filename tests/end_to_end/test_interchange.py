"""What other libraries make of a dataset: TFDS, TFX, Croissant; and the data card."""

import hashlib
import json
import re

import apache_beam as beam
import mlcroissant
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
import yaml
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public import tfxio
from tfx_bsl.tfxio.tf_example_record import TFExampleRecord

from tests.helpers.pipelines import extract, hashes, metadata, read_examples, run
from tests.helpers.signals import noise, write_raw

L = 256
SAID = (
    "--title", "Bearings | <b>of</b> *Ål*",
    "--license", "CC-BY-4.0",
    "--creator", "A. Engineer",
    "--homepage", "https://example.org/bearings",
    "--citation", "Engineer (2026)",
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("interchange")
    for number in range(12):
        write_raw(folder / "in" / f"{'ab'[number % 2]}{number:02d}.raw", noise(6 * L + 10, number))
    (folder / "in" / "a99.raw").write_bytes(b"")
    more = (
        "--label-from",
        r"path:(?P<label>[ab])\d",
        "--features",
        "log_spectrum,stft",
        "--max-reject-fraction",
        1,
    )
    extract(
        folder / "in",
        folder / "out",
        *more,
        "--segment-length",
        1024,
        "--num-shards",
        5,
        "--keep-waveform",
        *SAID,
    )
    return folder


def by_place(examples):
    return {(example["recording"], int(example["start"])): example for example in examples}


def test_tensorflow_datasets_opens_the_folder(made):
    builder = tfds.builder_from_directory(made / "out")
    about = metadata(made / "out")
    assert {name: split.num_examples for name, split in builder.info.splits.items()} == {
        name: split["examples"] for name, split in about["splits"].items()
    }
    assert builder.info.features["label"].names == ["a", "b"]
    assert builder.info.features["stft"].shape == tuple(about["features"]["stft"]["shape"])
    expected = by_place(read_examples(made / "out", "train"))
    found = by_place(tfds.as_numpy(builder.as_dataset(split="train")))
    assert found.keys() == expected.keys()
    for place, example in found.items():
        assert example.keys() == expected[place].keys()
        for key, value in example.items():
            np.testing.assert_array_equal(value, expected[place][key])
    half = tfds.as_numpy(builder.as_dataset(split="train[:50%]"))
    assert len(list(half)) == round(len(expected) / 2)
    both = tfds.as_numpy(builder.as_dataset(split="train+test"))
    assert len(list(both)) == len(expected) + about["splits"]["test"]["examples"]


def test_int16_samples_and_labels_that_no_line_holds_open_too(tmp_path):
    for name in ("x\ny", " z"):
        write_raw(tmp_path / "in" / name / "a.raw", np.arange(2 * L), "<i2")
    more = ("--raw-dtype", "<i2", "--label-from", r"path:^(?P<label>(.|\n)+)/", "--keep-waveform", "int16")
    extract(tmp_path / "in", tmp_path / "out", *more, "--splits", "train=1")
    assert metadata(tmp_path / "out")["label_names"] == [" z", "x\ny"]
    builder = tfds.builder_from_directory(tmp_path / "out")
    examples = list(tfds.as_numpy(builder.as_dataset(split="train")))
    assert sorted(example["label"] for example in examples) == [0, 0, 1, 1]
    first = next(example for example in examples if example["start"] == 0)
    assert first["waveform"].tolist() == list(range(L))


def test_splits_without_examples_are_there(tmp_path):
    write_raw(tmp_path / "in" / "a.raw", noise(2 * L))
    extract(tmp_path / "in", tmp_path / "out", "--splits", "train=0.99,nothing=0.01")
    builder = tfds.builder_from_directory(tmp_path / "out")
    assert sorted(split.num_examples for split in builder.info.splits.values()) == [0, 2]


def test_compressed_shards_are_none_of_tfds(tmp_path):
    write_raw(tmp_path / "in" / "a.raw", noise(2 * L))
    extract(tmp_path / "in", tmp_path / "out", "--compression", "gzip")
    assert not (tmp_path / "out" / "dataset_info.json").exists()
    assert 'compression_type="GZIP"' in (tmp_path / "out" / "README.md").read_text()


def schema_of(dataset):
    return text_format.Parse((dataset / "schema.pbtxt").read_text(), schema_pb2.Schema())


def test_tfx_reads_the_shards_by_the_schema(made):
    source = TFExampleRecord(
        str(made / "out" / "spectrabeam-train-*.tfrecord"),
        schema=schema_of(made / "out"),
        telemetry_descriptors=["test"],
    )
    options = tfxio.TensorFlowDatasetOptions(batch_size=4, shuffle=False, num_epochs=1)
    batch = next(iter(source.TensorFlowDataset(options)))
    about = metadata(made / "out")
    for key, value in about["features"].items():
        assert batch[key].shape == (4, *value["shape"])
    examples = about["splits"]["train"]["examples"]
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        rows = pipeline | source.BeamSource(batch_size=16) | beam.Map(lambda batch: batch.num_rows)
        assert_that(rows | beam.CombineGlobally(sum), equal_to([examples]), label="rows")
        records = pipeline | beam.io.ReadFromTFRecord(str(made / "out" / "spectrabeam-train-*.tfrecord"))
        assert_that(records | beam.combiners.Count.Globally(), equal_to([examples]), label="records")


def test_the_schema_tells_the_classes_and_what_every_example_has(made, tmp_path):
    features = {feature.name: feature for feature in schema_of(made / "out").feature}
    assert features.keys() == metadata(made / "out")["features"].keys()
    assert all(feature.presence.min_fraction == 1 for feature in features.values())
    assert (features["label"].int_domain.min, features["label"].int_domain.max) == (0, 1)
    assert [dim.size for dim in features["stft"].shape.dim] == metadata(made / "out")["features"]["stft"][
        "shape"
    ]
    assert features["recording"].type == schema_pb2.BYTES
    write_raw(tmp_path / "in" / "a1.raw", noise(2 * L))
    write_raw(tmp_path / "in" / "c.raw", noise(2 * L))
    more = ("--label-from", r"path:(?P<label>[ab])\d", "--missing-label", "keep")
    extract(tmp_path / "in", tmp_path / "out", *more)
    (label,) = (feature for feature in schema_of(tmp_path / "out").feature if feature.name == "label")
    assert (label.int_domain.min, label.int_domain.max) == (-1, 0)


def test_croissant_is_valid_and_says_what_the_user_says(made):
    path = made / "out" / "croissant.json"
    dataset = mlcroissant.Dataset(jsonld=path)
    assert not dataset.metadata.issues.errors
    assert dataset.metadata.name == SAID[1]
    filled = [name for name, split in metadata(made / "out")["splits"].items() if split["examples"]]
    assert [record_set.name for record_set in dataset.metadata.record_sets] == filled
    content = json.loads(path.read_text())
    assert content["license"] == "https://spdx.org/licenses/CC-BY-4.0.html"
    assert content["creator"]["name"] == "A. Engineer"
    assert content["url"] == "https://example.org/bearings"
    assert content["citeAs"] == "Engineer (2026)"
    assert str(made) not in path.read_text()
    fields = {field["name"]: field for field in content["recordSet"][0]["field"]}
    assert fields.keys() == metadata(made / "out")["features"].keys()
    assert fields["stft"]["arrayShape"] == ",".join(
        map(str, metadata(made / "out")["features"]["stft"]["shape"])
    )


def test_croissant_bears_the_checksum_of_the_metadata(made):
    content = json.loads((made / "out" / "croissant.json").read_text())
    (file,) = (each for each in content["distribution"] if each["@id"] == "spectrabeam.json")
    stored = (made / "out" / "spectrabeam.json").read_bytes()
    assert file["sha256"] == hashlib.sha256(stored).hexdigest()
    assert file["contentSize"] == f"{len(stored)} B"


def test_without_a_word_of_the_user_croissant_is_valid_too(tmp_path):
    write_raw(tmp_path / "in" / "a.raw", noise(2 * L))
    extract(tmp_path / "in", tmp_path / "out")
    dataset = mlcroissant.Dataset(jsonld=tmp_path / "out" / "croissant.json")
    assert not dataset.metadata.issues.errors
    assert dataset.metadata.name == "out"
    assert dataset.metadata.description.startswith("log_spectrum of 2 segments of 256 samples at 1000 Hz")


def test_the_data_card_tells_people_what_it_is(made):
    card = (made / "out" / "README.md").read_text()
    _, front, body = card.split("---\n", 2)
    assert yaml.safe_load(front)["license"] == "cc-by-4.0"
    assert yaml.safe_load(front)["pretty_name"] == SAID[1]
    assert "# Bearings \\| \\<b>of\\</b> \\*Ål\\*" in body
    assert "[CC-BY-4.0](https://spdx.org/licenses/CC-BY-4.0.html)" in body
    assert "Classes: 0 a, 1 b." in body
    assert re.search(r"\| empty \| 1 \| 0 \|", body)
    assert str(made) not in card
    for split, about in metadata(made / "out")["splits"].items():
        assert f"| {split} | {about['examples']} | {len(about['shards'])} |" in body


def test_the_code_of_the_data_card_reads_the_examples(made, monkeypatch):
    monkeypatch.chdir(made / "out")
    code = re.search(r"```python\n(.*?)```", (made / "out" / "README.md").read_text(), re.DOTALL)[1]
    names: dict = {}
    exec(code, names)
    batch = next(iter(names["examples"]))
    assert batch["spectrum"].shape[1:] == (513,)
    assert isinstance(batch["label"], tf.Tensor)


def test_what_is_said_can_be_said_anew_without_making_a_shard_again(made, tmp_path):
    write_raw(tmp_path / "in" / "a.raw", noise(20 * L))
    extract(tmp_path / "in", tmp_path / "out")
    before = {name: value for name, value in hashes(tmp_path / "out").items() if name.endswith(".tfrecord")}
    result = extract(tmp_path / "in", tmp_path / "out", "--license", "MIT")
    assert "Kept" in result.out
    after = {name: value for name, value in hashes(tmp_path / "out").items() if name.endswith(".tfrecord")}
    assert before == after
    assert "[MIT](https://spdx.org/licenses/MIT.html)" in (tmp_path / "out" / "README.md").read_text()
    assert "nothing to do" in extract(tmp_path / "in", tmp_path / "out", "--license", "MIT").out


def test_two_runs_write_the_same_files(made, tmp_path):
    for name in ("one", "two"):
        extract(made / "in", tmp_path / name / "out", "--max-reject-fraction", 1)
    names = ("README.md", "croissant.json", "dataset_info.json", "features.json", "schema.pbtxt")
    for name in names:
        assert (tmp_path / "one" / "out" / name).read_bytes() == (
            tmp_path / "two" / "out" / name
        ).read_bytes()


def test_overwriting_leaves_nothing_of_the_old(tmp_path):
    write_raw(tmp_path / "in" / "a1.raw", noise(2 * L))
    extract(tmp_path / "in", tmp_path / "out", "--label-from", r"path:(?P<label>[ab])\d")
    assert (tmp_path / "out" / "label.labels.txt").exists()
    extract(tmp_path / "in", tmp_path / "out", "--compression", "gzip", "--overwrite")
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert not left & {"label.labels.txt", "dataset_info.json", "features.json"}


def test_a_homepage_that_is_no_address_is_refused(tmp_path):
    result = run("plan", "--input", tmp_path, "--homepage", "example.org")
    assert "homepage: 'example.org' must be a web address" in result.err
