"""Shard names, paths, and reading and replacing the metadata."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.dataset import (
    DatasetError,
    Layout,
    ShardName,
    load_dataset,
    read_json,
    replace_file,
    write_json,
)
from spectrabeam.transforms.schema import FeatureSpec

METADATA = {
    "format_version": 1,
    "compression": "gzip",
    "settings": {},
    "counts": {},
    "axes": {},
    "features": {"spectrum": {"dtype": "float32", "shape": [129]}, "start": {"dtype": "int64", "shape": []}},
    "splits": {
        "test": {"examples": 1, "shards": [{"file": "spectrabeam-test-00000.tfrecord", "examples": 1}]},
        "train": {
            "examples": 5,
            "shards": [
                {"file": "spectrabeam-train-00000.tfrecord", "examples": 3},
                {"file": "spectrabeam-train-00001.tfrecord", "examples": 2},
            ],
        },
        "validation": {"examples": 0, "shards": []},
    },
}


@pytest.fixture
def folder(tmp_path):
    write_json(str(tmp_path / "spectrabeam.json"), METADATA)
    return tmp_path


@given(
    split=st.text("aZ_09", min_size=1, max_size=9).filter(lambda name: not name[0].isdigit()),
    index=st.integers(0, 10**7),
)
def test_shard_name_is_read_back_from_its_file_name(split, index):
    shard = ShardName(split, index)
    assert ShardName.parse(shard.file_name) == shard


def test_shard_file_bears_split_and_index_but_no_total():
    assert ShardName("train", 0).file_name == "spectrabeam-train-00000.tfrecord"
    assert ShardName("fold_2", 123_456).file_name == "spectrabeam-fold_2-123456.tfrecord"


@pytest.mark.parametrize(
    "name",
    [
        "spectrabeam.json",
        "spectrabeam-train-0000.tfrecord",
        "spectrabeam-train-00000.tfrecord.tmp",
        "spectrabeam-train-00000-of-00002.tfrecord",
        "x-spectrabeam-train-00000.tfrecord",
        "spectrabeam-1st-00000.tfrecord",
        "other-train-00000.tfrecord",
    ],
)
def test_other_files_are_no_shards(name):
    assert ShardName.parse(name) is None


def test_shards_sort_by_split_and_number_also_beyond_five_digits():
    shards = [ShardName("b", 0), ShardName("a", 100_000), ShardName("a", 99_999)]
    assert sorted(shards) == [ShardName("a", 99_999), ShardName("a", 100_000), ShardName("b", 0)]


def test_temporary_files_and_the_plan_lie_below_the_datasets_own_hidden_folder():
    layout = Layout("/data")
    shard = ShardName("train", 7)
    assert layout.shard(shard) == "/data/spectrabeam-train-00007.tfrecord"
    assert layout.sidecar(shard) == "/data/.spectrabeam/shards/train-00007.json"
    inside = (layout.plan_part(3), layout.plan_summary, layout.temporary, layout.lock, layout.outcome)
    assert all(path.startswith("/data/.spectrabeam/") for path in inside)
    documents = [
        os.path.basename(path) for path in (layout.ledger, layout.rejects, layout.runs, layout.frontend)
    ]
    assert documents == ["recordings.parquet", "rejects.jsonl", "runs.jsonl", "frontend"]


def test_dataset_tells_features_splits_and_compression(folder):
    dataset = load_dataset(str(folder))
    assert dataset.features == {"spectrum": FeatureSpec("float32", (129,)), "start": FeatureSpec("int64")}
    assert {name: len(shards) for name, shards in dataset.splits.items()} == {
        "test": 1,
        "train": 2,
        "validation": 0,
    }
    assert (dataset.compression, dataset.tensorflow_compression) == ("gzip", "GZIP")


@pytest.mark.parametrize(("compression", "tensorflow"), [("none", ""), ("gzip", "GZIP"), ("zlib", "ZLIB")])
def test_compression_is_told_as_tensorflow_takes_it(tmp_path, compression, tensorflow):
    write_json(str(tmp_path / "spectrabeam.json"), METADATA | {"compression": compression})
    assert load_dataset(str(tmp_path)).tensorflow_compression == tensorflow


def test_files_are_those_of_one_split_or_of_all(folder):
    dataset = load_dataset(str(folder))
    names = [f"{folder}/spectrabeam-train-0000{index}.tfrecord" for index in (0, 1)]
    assert dataset.files("train") == names
    assert dataset.files("validation") == []
    assert dataset.files() == [f"{folder}/spectrabeam-test-00000.tfrecord", *names]


def test_a_split_that_is_not_there_is_refused_with_those_that_are(folder):
    with pytest.raises(DatasetError, match=r"has no split 'dev', only test, train, validation$"):
        load_dataset(str(folder)).files("dev")


def test_a_folder_that_is_no_dataset_is_refused_with_what_it_is(tmp_path):
    with pytest.raises(DatasetError, match=r"gone is not a dataset: there is no such folder$"):
        load_dataset(str(tmp_path / "gone"))
    with pytest.raises(DatasetError, match=r"is not a dataset: it has no spectrabeam.json$"):
        load_dataset(str(tmp_path))
    (tmp_path / ".spectrabeam").mkdir()
    with pytest.raises(
        DatasetError, match=r"is not a dataset: its extraction has not finished: start the same"
    ):
        load_dataset(str(tmp_path))


def test_a_file_is_no_dataset(folder):
    with pytest.raises(DatasetError, match=r"spectrabeam.json is not a dataset but a file$"):
        load_dataset(str(folder / "spectrabeam.json"))


@pytest.mark.parametrize("version", [2, None, "1"])
def test_another_format_version_is_refused(tmp_path, version):
    write_json(str(tmp_path / "spectrabeam.json"), METADATA | {"format_version": version})
    with pytest.raises(DatasetError, match=rf"has format_version={version!r}, this program reads 1: install"):
        load_dataset(str(tmp_path))


@pytest.mark.parametrize("content", [b"", b'{"format_version": 1', b"\xff\xfe"])
def test_damaged_metadata_is_refused_with_its_file(tmp_path, content):
    (tmp_path / "spectrabeam.json").write_bytes(content)
    with pytest.raises(DatasetError, match=r"spectrabeam.json is damaged: "):
        load_dataset(str(tmp_path))


def test_equal_values_give_equal_bytes_whatever_their_order(tmp_path):
    write_json(str(tmp_path / "one"), {"b": [1, 2], "a": "ä"})
    write_json(str(tmp_path / "other"), {"a": "ä", "b": [1, 2]})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert read_json(str(tmp_path / "one")) == {"a": "ä", "b": [1, 2]}


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "value.json"
    replace_file(str(path), b"old")
    replace_file(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["value.json"]

    def full(_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        replace_file(str(path), b"newer")
    assert path.read_bytes() == b"new"


def test_metadata_is_text_that_people_can_read(folder):
    text = (folder / "spectrabeam.json").read_text()
    assert text.endswith("}\n")
    assert len(text.splitlines()) > 10
    assert json.loads(text) == METADATA


@pytest.mark.parametrize("content", ["[]", "null", "5", "{}"])
def test_json_of_another_kind_is_no_dataset(tmp_path, content):
    (tmp_path / "spectrabeam.json").write_text(content)
    with pytest.raises(DatasetError, match=r"was not written by spectrabeam: this is not a dataset$"):
        load_dataset(str(tmp_path))


@pytest.mark.parametrize(("key", "value"), [("splits", []), ("settings", None), ("compression", "lz4")])
def test_metadata_that_lack_a_part_are_damaged(folder, key, value):
    write_json(str(folder / "spectrabeam.json"), METADATA | {key: value})
    with pytest.raises(DatasetError, match=rf"is damaged \({key}\): extract again with --overwrite$"):
        load_dataset(str(folder))
