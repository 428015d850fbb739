"""Every kind of damage to a dataset is a line that names the file."""

import json
import shutil

import google_crc32c
import numpy as np
import pytest
import tensorflow as tf

from spectrabeam.pipeline.verify import verify
from spectrabeam.transforms.dataset import DatasetError
from tests.helpers.pipelines import extract, metadata
from tests.helpers.signals import write_recordings


def shards(dataset):
    return [shard for split in metadata(dataset)["splits"].values() for shard in split["shards"]]


def largest(dataset):
    """Path of the shard with most records, and what is recorded of it."""
    shard = max(shards(dataset), key=lambda each: each["examples"])
    return dataset / shard["file"], shard


def change_metadata(dataset, change):
    value = metadata(dataset)
    change(value)
    (dataset / "spectrabeam.json").write_text(json.dumps(value))


def rewrite(dataset, change):
    """Changes the examples of one shard, and records its new length and checksum; returns its name."""
    path, shard = largest(dataset)
    records = [tf.train.Example.FromString(r.numpy()) for r in tf.data.TFRecordDataset(str(path))]
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number, example in enumerate(records):
            change(number, example.features.feature)
            writer.write(example.SerializeToString())
    content = path.read_bytes()

    def update(value):
        for split in value["splits"].values():
            for each in split["shards"]:
                if each["file"] == shard["file"]:
                    each.update(bytes=len(content), crc32c=f"{google_crc32c.value(content):08x}")

    change_metadata(dataset, update)
    return shard["file"]


def problems(dataset):
    found, text = verify(str(dataset))
    cure = "to mend a shard, remove it and run the same extract again; else extract with --overwrite"
    assert text.splitlines() == [*found, f"{len(found)} problems in {dataset}: {cure}"]
    return found


def test_a_whole_dataset_has_no_problem(small_dataset):
    found, text = verify(str(small_dataset))
    assert found == []
    assert text == f"{small_dataset}: 30 examples in {len(shards(small_dataset))} shards are as recorded"


@pytest.mark.parametrize(
    "arguments", [("--compression", "gzip"), ("--keep-waveform", "float32", "--splits", "all=1")]
)
def test_compressed_shards_and_kept_waveforms_are_read_too(tmp_path, arguments):
    write_recordings(tmp_path / "in", 3)
    extract(tmp_path / "in", tmp_path / "out", *arguments)
    assert verify(str(tmp_path / "out"))[0] == []


def test_a_dataset_can_be_moved(small_dataset, tmp_path):
    shutil.copytree(small_dataset, tmp_path / "elsewhere")
    assert verify(str(tmp_path / "elsewhere"))[0] == []


@pytest.mark.parametrize("where", [0.0, 0.3, 0.999])
def test_a_flipped_bit_is_found_wherever_it_is(dataset, where):
    path, shard = largest(dataset)
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1
    path.write_bytes(content)
    wrong = f"{google_crc32c.value(bytes(content)):08x}"
    first, second = problems(dataset)
    assert first == f"{shard['file']}: its CRC-32C is {wrong}, not {shard['crc32c']}"
    assert second.startswith(f"{shard['file']}: record 0 or one of the 256 after it cannot be read: ")


@pytest.mark.parametrize("change", [-1, -1000, 1])
def test_a_file_of_another_length_is_found(dataset, change):
    path, shard = largest(dataset)
    content = path.read_bytes()
    path.write_bytes(content[:change] if change < 0 else content + b"x" * change)
    assert problems(dataset) == [
        f"{shard['file']}: has {shard['bytes'] + change} bytes, not {shard['bytes']}"
    ]


def test_a_missing_shard_is_found(dataset):
    path, shard = largest(dataset)
    path.unlink()
    assert problems(dataset) == [f"{shard['file']}: cannot be read: No such file or directory"]


def test_a_shard_too_many_is_found_and_other_files_are_not(dataset):
    path, _ = largest(dataset)
    shutil.copy(path, dataset / "spectrabeam-train-00099.tfrecord")
    (dataset / "notes.txt").write_text("mine")
    assert problems(dataset) == [
        "spectrabeam-train-00099.tfrecord: not part of the dataset, though it bears the name of a shard"
    ]


def test_a_wrong_count_is_found_in_the_shard_and_in_the_sums(dataset):
    _, shard = largest(dataset)

    def change(value):
        for split in value["splits"].values():
            for each in split["shards"]:
                each["examples"] += each["file"] == shard["file"]

    change_metadata(dataset, change)
    split = shard["file"].split("-")[1]
    total = sum(each["examples"] for each in metadata(dataset)["splits"][split]["shards"])
    assert problems(dataset) == [
        f"{shard['file']}: holds {shard['examples']} records, not {shard['examples'] + 1}",
        f"split {split}: {total - 1} examples are recorded, its shards hold {total}",
    ]


def test_sums_that_do_not_balance_are_found(dataset):
    def change(value):
        value["counts"]["segments"]["rejected"] = 7

    change_metadata(dataset, change)
    found, lines = problems(dataset)
    assert found.startswith("the accounting does not balance: ")
    assert found.endswith("and the splits hold 30 examples")
    assert lines == "rejects.jsonl: its lines tell of 0 segments, 7 are recorded"


def test_a_missing_frontend_is_found(dataset):
    shutil.rmtree(dataset / "frontend")
    assert problems(dataset) == ["frontend/: the SavedModel is missing"]


def test_a_ledger_of_other_numbers_is_found(dataset):
    def change(value):
        value["counts"]["recordings"]["matched"] = 31

    change_metadata(dataset, change)
    assert problems(dataset) == ["the ledger has 30 recordings and 30 examples, the dataset 31 and 30"]


@pytest.mark.parametrize("content", [None, b"no parquet"])
def test_a_ledger_that_cannot_be_read_is_found(dataset, content):
    path = dataset / "recordings.parquet"
    path.unlink() if content is None else path.write_bytes(content)
    (found,) = problems(dataset)
    assert found.startswith("recordings.parquet: cannot be read: ")


def test_values_that_are_not_finite_are_found_with_their_record(dataset):
    def change(number, feature):
        if number in (1, 2):
            feature["spectrum"].float_list.value[5] = [np.nan, np.inf][number - 1]

    file = rewrite(dataset, change)
    assert problems(dataset) == [f"{file}: record {n}: spectrum holds NaN or infinity" for n in (1, 2)]


@pytest.mark.parametrize("what", ["missing", "short"])
def test_a_record_of_another_shape_is_found(dataset, what):
    def change(number, feature):
        if number == 1:
            del feature["spectrum"].float_list.value[0 if what == "missing" else 100 :]

    file = rewrite(dataset, change)
    (found,) = problems(dataset)
    assert found.startswith(f"{file}: record 0 or one of the 256 after it cannot be read: ")
    assert "spectrum" in found


def test_an_int16_waveform_of_another_length_is_found(dataset):
    def declare(value):
        value["features"]["waveform"] = {"dtype": "int16", "shape": [4]}

    change_metadata(dataset, declare)
    for shard in shards(dataset):
        path = dataset / shard["file"]
        if path != largest(dataset)[0]:
            path.unlink()
    file = rewrite(
        dataset,
        lambda number, feature: feature["waveform"].bytes_list.value.append(
            b"12345678"[: 7 if number == 1 else 8]
        ),
    )
    assert f"{file}: record 1: waveform has 7 bytes, not 8" in problems(dataset)


def test_damaged_metadata_is_an_error_with_its_file(dataset):
    (dataset / "spectrabeam.json").write_text('{"format_version": 1,')
    with pytest.raises(DatasetError, match=r"spectrabeam.json is damaged: "):
        verify(str(dataset))


def test_all_problems_are_told(dataset):
    path, shard = largest(dataset)
    others = [each["file"] for each in shards(dataset) if each["file"] != shard["file"]]
    path.unlink()
    (dataset / others[0]).unlink()
    assert len(problems(dataset)) == 2
