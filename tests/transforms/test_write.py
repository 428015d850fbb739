"""Shard files against TensorFlow's own reader, and what is left where writing ends early."""

import os

import google_crc32c
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectrabeam.transforms import write as write_module
from spectrabeam.transforms.write import ShardWriter, WriteSettings

COMPRESSIONS = {"none": "", "gzip": "GZIP", "zlib": "ZLIB"}


def write(folder, calls, compression="none"):
    """Writes each of `calls` (records in pieces) by one call; returns the path and what the writer tells."""
    path = folder / "shard.tfrecord"
    with ShardWriter(str(path), str(folder / "temporary"), compression) as writer:
        for records in calls:
            writer.write(records)
        return path, writer.close()


def read(path, compression="none"):
    return list(tf.data.TFRecordDataset(str(path), COMPRESSIONS[compression]).as_numpy_iterator())


pieces = st.lists(st.binary(max_size=40), min_size=1, max_size=4).map(tuple)
calls_of_records = st.lists(st.lists(pieces, max_size=5), max_size=4)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=calls_of_records)
def test_tensorflow_reads_every_record_and_a_second_run_gives_the_same_bytes(tmp_path, compression, calls):
    path, info = write(tmp_path, calls, compression)
    content = path.read_bytes()
    assert read(path, compression) == [b"".join(record) for records in calls for record in records]
    assert info.examples == sum(map(len, calls))
    assert info.num_bytes == len(content)
    assert info.crc32c == f"{google_crc32c.value(content):08x}"
    assert os.listdir(tmp_path) == ["shard.tfrecord"]
    assert write(tmp_path, calls, compression)[1] == info
    assert path.read_bytes() == content


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_many_and_large_records_are_read_back(tmp_path, compression):
    random = np.random.default_rng(0)
    records = [(b"head%d" % number, random.bytes(number % 50), b"tail") for number in range(2500)]
    large = [(random.bytes(3 << 20), b"x")] * 8  # beyond what is sent to the disk at once
    path, info = write(tmp_path, [records, large], compression)
    assert read(path, compression) == [b"".join(record) for record in records + large]
    assert info.examples == 2508


def test_how_records_are_spread_over_calls_does_not_change_the_bytes(tmp_path):
    records = [(b"a" * number,) for number in range(20)]
    for compression in COMPRESSIONS:
        one = write(tmp_path, [records], compression)[0].read_bytes()
        assert write(tmp_path, [[record] for record in records], compression)[0].read_bytes() == one


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_shard_without_records_is_a_file_that_reads_as_none(tmp_path, compression):
    path, info = write(tmp_path, [], compression)
    assert info.examples == 0
    assert read(path, compression) == []


def test_plain_bytes_are_those_of_tensorflows_writer(tmp_path):
    records = [(b"one", b"two"), (b"",), (b"x" * 300,)]
    with tf.io.TFRecordWriter(str(tmp_path / "reference")) as writer:
        for record in records:
            writer.write(b"".join(record))
    assert write(tmp_path, [records])[0].read_bytes() == (tmp_path / "reference").read_bytes()


def test_nothing_bears_the_shards_name_before_it_is_complete(tmp_path):
    path = tmp_path / "shard.tfrecord"
    path.write_bytes(b"from before")
    with ShardWriter(str(path), str(tmp_path / "temporary")) as writer:
        writer.write([(b"record",)])
        assert path.read_bytes() == b"from before"
        writer.close()
    assert read(path) == [b"record"]


def test_an_error_meanwhile_leaves_neither_shard_nor_temporary_file(tmp_path):
    def calls():
        yield [(b"record",)]
        raise KeyError("encoder")

    with pytest.raises(KeyError, match="encoder"):
        write(tmp_path, calls())
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_raised_and_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, [[(b"record",)]])
    assert os.listdir(tmp_path) == []


def test_a_disk_that_fails_meanwhile_is_raised_though_it_recovers(tmp_path, monkeypatch):
    flushes = []

    def fail_once(_):
        flushes.append("fdatasync")
        if len(flushes) == 1:
            raise OSError(5, "Input/output error")

    def calls():
        while len(flushes) < 2:  # then the first one has ended, and failed
            yield [(b"record",)]

    monkeypatch.setattr(write_module, "_FLUSH_BYTES", 1)
    monkeypatch.setattr(os, "fdatasync", fail_once)
    with pytest.raises(OSError, match="Input/output error"):
        write(tmp_path, calls())
    assert os.listdir(tmp_path) == []


def test_what_the_system_takes_in_part_is_written_on(tmp_path, monkeypatch):
    writev, write_some = os.writev, os.write
    monkeypatch.setattr(os, "writev", lambda file, buffers: write_some(file, b"".join(buffers)[:100]))
    monkeypatch.setattr(os, "write", lambda file, buffer: write_some(file, bytes(buffer)[:7]))
    records = [(b"%03d" % number, b"." * 50) for number in range(40)]
    path, info = write(tmp_path, [records])
    monkeypatch.setattr(os, "writev", writev)
    monkeypatch.setattr(os, "write", write_some)
    assert read(path) == [b"".join(record) for record in records]
    assert info.num_bytes == path.stat().st_size


def test_remains_of_a_killed_attempt_are_overwritten(tmp_path):
    (tmp_path / "temporary").write_bytes(b"much longer than what comes now" * 9)
    path, _ = write(tmp_path, [[(b"new",)]])
    assert read(path) == [b"new"]


def test_unknown_compression_is_refused():
    with pytest.raises(ValueError, match="'none', 'gzip' or 'zlib'"):
        WriteSettings(compression="lz4")
