"""Zarr stores of versions 2 and 3 written by zarr, read back; stores that lie or bring code along."""

import json
import os
import pickle
import shutil
import sys

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectrabeam.transforms.files import Folder
from spectrabeam.transforms.formats.arrays.zarr_store import ZarrReader
from spectrabeam.transforms.formats.base import MissingExtraError, ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.arrays import NUMBERS, as_read, assert_channels, listed, only, read, refused, samples

versions = pytest.mark.parametrize("version", [2, 3])
per_function = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None
)


def reader(**settings):
    return ZarrReader(ReadSettings(**settings))


def group(path, version):
    return zarr.open_group(os.fspath(path), mode="w", zarr_format=version)


def put(parent, name, values, chunks=None, **more):
    values = np.asarray(values)
    array = parent.create_array(
        name, shape=values.shape, dtype=values.dtype, chunks=chunks or values.shape, **more
    )
    array[...] = values
    return array


def folder(path):
    return Folder(os.fsencode(path))


@versions
@pytest.mark.parametrize("dtype", NUMBERS)
def test_arrays_of_every_type_are_read_exactly(tmp_path, version, dtype):
    array = samples(dtype, 1000)
    if version == 3:
        put(group(tmp_path, 3), "x", array.astype(array.dtype.newbyteorder("=")), (300,),
            serializer=zarr.codecs.BytesCodec(endian="big" if dtype[0] == ">" else "little"))  # fmt: skip
    else:
        put(group(tmp_path, 2), "x", array, (300,))
    described = only(reader(), folder(tmp_path))
    assert described.member == "x"
    # version 3 knows byte order as a matter of encoding, not of the type
    assert np.dtype(described.dtype) == (array.dtype if version == 2 else array.dtype.newbyteorder("="))
    assert described.is_complex == (array.dtype.kind == "c")
    assert_channels(reader(), folder(tmp_path), described, array)


@versions
@given(st.data())
@per_function
def test_any_range_of_any_channel_equals_the_slice(tmp_path, version, data):
    signal = samples(
        data.draw(st.sampled_from(["<i2", "<f4", "<f8", "<c8"])), (3, 50), data.draw(st.integers(0, 99))
    )
    axes = data.draw(st.sampled_from(["time,channel", "channel,time"]))
    array = signal.T if axes == "time,channel" else signal
    chunks = tuple(data.draw(st.integers(5, count)) if count > 5 else count for count in array.shape)
    put(group(tmp_path, version), "x", array, chunks)
    given_axes = reader(array_axes=axes)
    start = data.draw(st.integers(0, 49))
    count, channel = data.draw(st.integers(1, 50 - start)), data.draw(st.integers(0, 2))
    described = only(given_axes, folder(tmp_path))
    part = read(given_axes, folder(tmp_path), described, channel, start, count)
    np.testing.assert_array_equal(part, as_read(signal)[channel, start : start + count])


@pytest.mark.parametrize(
    "more",
    [
        {"compressors": None},
        {"compressors": numcodecs.Zlib(3), "filters": [numcodecs.Delta("<i2"), numcodecs.Shuffle(2)]},
        {"compressors": numcodecs.LZ4(), "order": "F"},
        {"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}}},
    ],
)
def test_codecs_orders_and_separators_of_version_2_are_read(tmp_path, more):
    array = samples("<i2", (300, 2))
    put(group(tmp_path, 2), "x", array, (70, 2), **more)
    axes = reader(array_axes="time,channel")
    described = only(axes, folder(tmp_path))
    assert described.warnings == ()
    assert_channels(axes, folder(tmp_path), described, array.T)


@pytest.mark.parametrize(
    "more",
    [
        {"compressors": None},
        {"compressors": [zarr.codecs.GzipCodec(), zarr.codecs.Crc32cCodec()]},
        {"compressors": zarr.codecs.BloscCodec()},
        {"shards": (140, 2)},
        {"filters": [zarr.codecs.TransposeCodec(order=(1, 0))]},
        {"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}},
    ],
)
def test_codecs_shards_and_separators_of_version_3_are_read(tmp_path, more):
    array = samples("<f4", (300, 2))
    put(group(tmp_path, 3), "x", array, (70, 2), **more)
    axes = reader(array_axes="time,channel")
    described = only(axes, folder(tmp_path))
    assert described.warnings == ()
    assert_channels(axes, folder(tmp_path), described, array.T)


def fill_runs(path, version):
    root = group(path, version)
    root.attrs.update({"fs": 100.0, "lab": "north", "list": [1, 2], "one": [7]})
    run = root.create_group("run1")
    run.attrs["fs"] = 200.0
    put(run, "accel", samples("<f4", 50)).attrs.update({"units": "g", "start": "2020-01-01T00:00:00+01:00"})
    put(root.create_group("run2"), "accel", samples("<f4", 60))
    put(root["run2"], "records", samples("<f4", (2, 9)))


@versions
def test_attributes_of_the_array_and_its_groups_count_the_nearest_first(tmp_path, version):
    fill_runs(tmp_path, version)
    named = reader(rate_key="fs", time_key="start", array_axes="recording,time")
    described = listed(named, folder(tmp_path))
    assert list(described) == ["run1/accel", "run2/accel", "run2/records/0", "run2/records/1"]
    assert [each.sample_rate for each in described.values()] == [200, 100, 100, 100]
    assert described["run1/accel"].attributes == {
        "units": "g", "start": "2020-01-01T00:00:00+01:00", "fs": 200.0, "lab": "north", "one": 7,
    }  # fmt: skip
    assert described["run1/accel"].unit == "g"
    assert described["run1/accel"].start_time_ns == (1577836800 - 3600) * 10**9
    assert_channels(named, folder(tmp_path), described["run2/records/1"], samples("<f4", (2, 9))[1])
    assert list(listed(reader(members=("run1/*",)), folder(tmp_path))) == ["run1/accel"]
    assert refused(reader(members=("x",)), folder(tmp_path))[0] == Reason.NO_MEMBER
    assert listed(reader(), folder(tmp_path))["run2/records"].reason == Reason.AMBIGUOUS_AXES


@versions
def test_arrays_of_one_element_are_attributes(tmp_path, version):
    root = group(tmp_path, version)
    put(root, "x", samples("<f4", 50))
    put(root, "fs", np.array([12000.0]), (1,))
    described = only(reader(rate_key="fs"), folder(tmp_path))
    assert (described.member, described.sample_rate, described.attributes) == ("x", 12000, {"fs": 12000.0})


@versions
def test_a_store_may_be_one_array(tmp_path, version):
    array = zarr.create_array(
        os.fspath(tmp_path / "x.zarr"), shape=(50,), dtype="f4", chunks=(20,), zarr_format=version
    )
    array[:] = samples("<f4", 50)
    array.attrs["fs"] = 8000
    described = only(reader(rate_key="fs"), folder(tmp_path / "x.zarr"))
    assert (described.member, described.sample_rate) == (None, 8000)
    assert_channels(reader(), folder(tmp_path / "x.zarr"), described, samples("<f4", 50))


def test_coordinates_of_xarray_are_no_recordings_unless_asked_for(tmp_path):
    root = group(tmp_path / "2", 2)
    put(root, "time", np.arange(50.0)).attrs["_ARRAY_DIMENSIONS"] = ["time"]
    put(root, "x", samples("<f4", 50)).attrs["_ARRAY_DIMENSIONS"] = ["time"]
    root = group(tmp_path / "3", 3)
    put(root, "time", np.arange(50.0), dimension_names=["time"])
    put(root, "x", samples("<f4", 50), dimension_names=["time"])
    for version in "23":
        assert list(listed(reader(), folder(tmp_path / version))) == ["x"]
        assert list(listed(reader(members=("time",)), folder(tmp_path / version))) == ["time"]


@versions
def test_chunks_that_are_not_there_are_told_of(tmp_path, version):
    """Writers leave out chunks of the fill value, so this is no damage, strict or not."""
    root = group(tmp_path, version)
    array = root.create_array("x", shape=(100,), dtype="f4", chunks=(10,), fill_value=9)
    array[:30] = 1
    described = only(reader(strict=True), folder(tmp_path))
    assert described.warnings == ("7 of 10 chunks were never written, and are the fill value",)
    np.testing.assert_array_equal(read(reader(), folder(tmp_path), described, 0, 25, 10), [1] * 5 + [9] * 5)


@versions
def test_nothing_written_and_no_element_is_empty(tmp_path, version):
    """A27."""
    root = group(tmp_path, version)
    root.create_array("x", shape=(100,), dtype="f4", chunks=(10,))
    root.create_array("y", shape=(0,), dtype="f4", chunks=(10,))
    described = listed(reader(), folder(tmp_path))
    assert {name: each.reason for name, each in described.items()} == {"x": Reason.EMPTY, "y": Reason.EMPTY}
    shutil.rmtree(tmp_path)
    group(tmp_path, version)
    assert refused(reader(), folder(tmp_path))[0] == Reason.NO_MEMBER


@versions
def test_a_promise_of_years_of_fill_values_is_refused(tmp_path, version):
    array = group(tmp_path, version).create_array("x", shape=(1 << 50,), dtype="f4", chunks=(10,))
    array[:10] = 1
    assert refused(reader(), folder(tmp_path))[0] == Reason.TRUNCATED


@versions
def test_a_chunk_above_the_limit_is_refused(tmp_path, version):
    put(group(tmp_path, version), "x", np.ones(1000, "f4"))
    assert only(reader(decode_limit=4000), folder(tmp_path)).frames == 1000
    assert refused(reader(decode_limit=3999), folder(tmp_path))[0] == Reason.TOO_LARGE


def test_folders_that_are_no_store_are_refused(tmp_path):
    reason, message = refused(reader(), folder(tmp_path))
    assert reason == Reason.BAD_FORMAT
    assert "no Zarr store" in message
    (tmp_path / "x").write_bytes(b"x")
    with (tmp_path / "x").open("rb") as file:
        reason, message = refused(reader(), file)
    assert reason == Reason.BAD_FORMAT
    assert "is a folder, and this is none" in message


def edit(path, **changes):
    metadata = json.loads(path.read_text())
    path.write_text(json.dumps(metadata | changes))


class _Bomb:
    def __reduce__(self):
        return pytest.fail, ("unpickled",)


def test_codecs_that_run_code_are_refused_before_a_chunk_is_decoded(tmp_path):
    put(group(tmp_path, 2), "x", np.ones(10, "f4"))
    edit(tmp_path / "x" / ".zarray", compressor={"id": "pickle", "protocol": 5})
    (tmp_path / "x" / "0").write_bytes(pickle.dumps(_Bomb()))
    reason, message = refused(reader(), folder(tmp_path))
    assert reason == Reason.BAD_FORMAT
    assert "codec 'pickle' is not among those that are known to be safe" in message
    with pytest.raises(RejectError, match="pickle"):
        reader().read(folder(tmp_path), "x", 0, 0, np.zeros(10, np.float32))


@pytest.mark.parametrize("name", ["numcodecs.pickle", "pickle", "vlen-utf8", {"name": "numcodecs.pickle"}])
@pytest.mark.parametrize("nested", [False, True])
def test_such_codecs_of_version_3_are_refused_too(tmp_path, name, nested):
    put(group(tmp_path, 3), "x", np.ones(10, "f4"))
    codecs = [name if isinstance(name, dict) else {"name": name, "configuration": {}}]
    if nested:
        codecs = [{"name": "sharding_indexed", "configuration": {"chunk_shape": [5], "codecs": codecs}}]
    edit(tmp_path / "x" / "zarr.json", codecs=codecs)
    reason, message = refused(reader(), folder(tmp_path))
    assert reason == Reason.BAD_FORMAT
    assert "known to be safe" in message


@pytest.mark.parametrize(
    ("version", "changes", "reason"),
    [
        (2, {"dtype": "|O"}, Reason.BAD_FORMAT),
        (2, {"dtype": [["t", "<f8"], ["x", "<f4"]]}, Reason.BAD_FORMAT),
        (2, {"dtype": "|b1"}, Reason.BAD_FORMAT),
        (2, {"dtype": "nonsense"}, Reason.BAD_FORMAT),
        (2, {"shape": [-5]}, Reason.BAD_FORMAT),
        (2, {"shape": [5.5]}, Reason.BAD_FORMAT),
        (2, {"shape": 5}, Reason.BAD_FORMAT),
        (2, {"chunks": [0]}, Reason.BAD_FORMAT),
        (2, {"chunks": [10, 10]}, Reason.BAD_FORMAT),
        (2, {"chunks": [1 << 60]}, Reason.TOO_LARGE),
        (2, {"compressor": "zlib"}, Reason.BAD_FORMAT),
        (3, {"data_type": "bool"}, Reason.BAD_FORMAT),
        (3, {"data_type": "float128"}, Reason.BAD_FORMAT),
        (3, {"data_type": {"name": "numpy.datetime64"}}, Reason.BAD_FORMAT),
        (3, {"chunk_grid": {"name": "rectangular"}}, Reason.BAD_FORMAT),
        (3, {"chunk_grid": 5}, Reason.BAD_FORMAT),
        (3, {"codecs": 5}, Reason.BAD_FORMAT),
        (3, {"storage_transformers": [{"name": "x"}]}, Reason.BAD_FORMAT),
    ],
)
def test_metadata_that_make_no_sense_are_refused(tmp_path, version, changes, reason):
    put(group(tmp_path, version), "x", np.ones(10, "f4"))
    edit(tmp_path / "x" / (".zarray" if version == 2 else "zarr.json"), **changes)
    assert refused(reader(), folder(tmp_path))[0] == reason


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "[" * 100_000, "null", '{"node_type": "array", "zarr_format": 3}']
)
def test_damaged_metadata_are_told_beside_good_arrays(tmp_path, text):
    root = group(tmp_path, 3)
    put(root, "good", np.ones(10, "f4"))
    put(root, "bad", np.ones(10, "f4"))
    (tmp_path / "bad" / "zarr.json").write_text(text)
    described = listed(reader(), folder(tmp_path))
    assert described["good"].frames == 10
    assert described["bad"].reason in (Reason.CORRUPT, Reason.BAD_FORMAT)


@versions
@pytest.mark.parametrize("damage", [b"", b"x", b"\x00" * 30, None])
def test_damaged_chunks_are_corrupt(tmp_path, version, damage):
    put(group(tmp_path, version), "x", samples("<f4", 1000))
    chunk = tmp_path / "x" / ("0" if version == 2 else "c/0")
    chunk.write_bytes(chunk.read_bytes()[:-100] if damage is None else damage)
    described = only(reader(), folder(tmp_path))
    with pytest.raises(RejectError) as error:
        read(reader(), folder(tmp_path), described)
    assert error.value.reason == Reason.CORRUPT


def test_links_out_of_the_store_are_not_followed(tmp_path):
    put(group(tmp_path / "secret", 3), "x", np.ones(10, "f4"))
    put(group(tmp_path / "a", 3), "x", np.ones(20, "f4"))
    os.symlink(tmp_path / "secret" / "x", tmp_path / "a" / "y")
    os.symlink(tmp_path / "a", tmp_path / "a" / "z")
    assert list(listed(reader(), folder(tmp_path / "a"))) == ["x"]


def test_a_store_that_was_written_anew_is_read_anew(tmp_path):
    kept = reader()
    for number in (1, 2):
        put(group(tmp_path, 3), "x", np.full(10 * number, number, "f4"))
        described = only(kept, folder(tmp_path))
        np.testing.assert_array_equal(read(kept, folder(tmp_path), described), np.full(10 * number, number))


def test_without_zarr_the_message_names_the_installation(monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(MissingExtraError, match=r"Zarr needs zarr: pip install 'spectrabeam\[zarr\]'"):
        reader()
