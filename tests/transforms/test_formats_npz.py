"""NPZ files written by numpy, stored and deflated, read back; archives that lie."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.formats.arrays.npz import NpzReader
from spectrabeam.transforms.formats.base import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.arrays import NUMBERS, as_read, assert_channels, listed, only, read, refused, samples

SAVES = {"stored": np.savez, "deflated": np.savez_compressed}
saves = pytest.mark.parametrize("save", SAVES.values(), ids=SAVES)


def reader(**settings):
    return NpzReader(ReadSettings(**settings))


def npz(save, **arrays):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


@saves
@pytest.mark.parametrize("dtype", NUMBERS)
def test_arrays_of_every_type_are_read_exactly(save, dtype):
    array = samples(dtype, 1000)
    content = npz(save, x=array)
    assert NpzReader.matches(content[:4096])
    described = only(reader(), content)
    assert (described.member, described.dtype) == ("x", np.dtype(dtype).str)
    assert_channels(reader(), content, described, array)


@saves
@given(st.data())
def test_any_range_of_any_array_equals_the_slice(save, data):
    signal = samples(data.draw(st.sampled_from(NUMBERS)), (3, 40), data.draw(st.integers(0, 99)))
    order = data.draw(st.sampled_from("CF"))
    content = npz(save, other=samples("<f4", 9), x=np.array(signal, order=order))
    axes = reader(array_axes="channel,time")
    described = listed(axes, content)["x"]
    start = data.draw(st.integers(0, 39))
    count, channel = data.draw(st.integers(1, 40 - start)), data.draw(st.integers(0, 2))
    part = read(axes, content, described, channel, start, count)
    np.testing.assert_array_equal(part, as_read(signal)[channel, start : start + count])


@saves
def test_arrays_of_one_element_are_attributes_and_one_may_be_the_rate(save):
    content = npz(
        save,
        x=samples("<f4", 50),
        fs=np.array(12000),
        load=np.array([3.5]),
        sensor="DE",
        start="2020-01-02T03:04:05Z",
        unit="g",
        good=True,
    )
    described = only(reader(rate_key="fs", time_key="start"), content)
    assert described.sample_rate == 12000
    assert described.attributes == {
        "fs": 12000, "load": 3.5, "sensor": "DE", "start": "2020-01-02T03:04:05Z", "unit": "g", "good": 1,
    }  # fmt: skip
    assert described.unit == "g"
    assert described.start_time_ns == 1577934245 * 10**9
    assert only(reader(rate_key="rate"), content).sample_rate is None


@saves
def test_several_arrays_are_recordings_and_rows_stand_below_their_name(save):
    content = npz(save, b=samples("<f4", 50), a=samples("<f4", (2, 60), 1))
    rows = reader(array_axes="recording,time")
    described = listed(rows, content)
    assert list(described) == ["b", "a/0", "a/1"]
    assert_channels(rows, content, described["b"], samples("<f4", 50))
    assert_channels(rows, content, described["a/1"], samples("<f4", (2, 60), 1)[1])
    described = listed(reader(), content)
    assert isinstance(described["a"], RejectError)
    assert described["a"].reason == Reason.AMBIGUOUS_AXES
    assert list(listed(reader(members=("b",)), content)) == ["b"]


def test_patterns_that_fit_nothing_list_the_arrays():
    reason, message = refused(reader(members=("accel",)), npz(np.savez, b=np.zeros(5), fs=1))
    assert reason == Reason.NO_MEMBER
    assert "the file holds b" in message


def test_objects_are_never_loaded_and_only_told_of_where_nothing_else_is_there_or_they_are_asked_for():
    """A33."""
    good, objects = samples("<f4", 50), np.array([{}, []], object)
    mixed = npz(np.savez, good=good, objects=objects)
    assert list(listed(reader(), mixed)) == ["good"]
    for content, given_settings in ((npz(np.savez, objects=objects), {}), (mixed, {"members": ("objects",)})):
        reason, message = refused(reader(**given_settings), content)
        assert reason == Reason.BAD_FORMAT
        assert "pickled objects" in message


def test_an_array_without_an_element_is_an_empty_member():
    """A27."""
    described = listed(reader(), npz(np.savez, a=np.zeros(0), b=np.zeros(5)))
    assert described["a"].reason == Reason.EMPTY
    assert described["b"].frames == 5


def test_nothing_but_attributes_is_no_member():
    assert refused(reader(), npz(np.savez, fs=5))[0] == Reason.NO_MEMBER
    assert refused(reader(), b"") == (Reason.EMPTY, "the file has 0 bytes")


def test_a_deflated_array_above_the_limit_is_refused_before_it_is_decoded():
    content = npz(np.savez_compressed, x=np.zeros(100_000, "f4"))
    assert only(reader(decode_limit=400_000), content).frames == 100_000
    reason, message = refused(reader(decode_limit=399_999), content)
    assert reason == Reason.TOO_LARGE
    assert "decode_limit" in message
    stored = npz(np.savez, x=np.zeros(100_000, "f4"))
    assert only(reader(decode_limit=10), stored).frames == 100_000


def header(shape):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_array_shorter_than_its_header_says_is_truncated(method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("x.npy", header((1 << 50,)) + bytes(400))
    assert refused(reader(), file.getvalue())[0] == Reason.TRUNCATED


def test_a_directory_that_lies_about_the_size_is_corrupt():
    """A zip bomb by promise: what deflate cannot reach is not allocated, and the rest is held against the checksum."""
    content = bytearray(npz(np.savez_compressed, x=np.zeros(1000, "f4")))
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = (200 << 20).to_bytes(4, "little")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.infolist()[0].file_size == 200 << 20
    reason, message = refused(reader(), bytes(content))
    assert reason == Reason.CORRUPT
    assert "cannot hold" in message


def test_damaged_arrays_are_corrupt():
    array = samples("<f4", 5000)
    content = bytearray(npz(np.savez_compressed, x=array))
    for position in (3000, 10_000, content.index(b"PK\x01\x02") - 20):
        damaged = content.copy()
        damaged[position] ^= 0x55
        described = only(reader(), bytes(damaged))
        with pytest.raises(RejectError) as error:
            read(reader(), bytes(damaged), described)
        assert error.value.reason == Reason.CORRUPT


@saves
@pytest.mark.parametrize("share", [0.05, 0.5, 0.99])
def test_a_cut_archive_is_truncated(save, share):
    content = npz(save, x=samples("<f4", 5000))
    assert refused(reader(), content[: int(len(content) * share)])[0] == Reason.TRUNCATED


def test_garbage_and_unknown_compressions_are_refused():
    assert refused(reader(), bytes(range(256)) * 20)[0] == Reason.BAD_FORMAT
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("x.npy", header((100,)) + bytes(400))
    reason, message = refused(reader(), file.getvalue())
    assert reason == Reason.BAD_FORMAT
    assert "compression 12" in message


def test_an_encrypted_array_is_refused():
    content = bytearray(npz(np.savez, x=np.zeros(10)))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    reason, message = refused(reader(), bytes(content))
    assert reason == Reason.BAD_FORMAT
    assert "password" in message


@given(st.data())
def test_any_flipped_byte_gives_numbers_or_a_reject(data):
    content = bytearray(npz(data.draw(st.sampled_from(list(SAVES.values()))), x=samples("<f4", 200), fs=5))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        described = listed(reader(decode_limit=1 << 20), bytes(content))
        for each in described.values():
            if not isinstance(each, RejectError):
                read(reader(decode_limit=1 << 20), bytes(content), each, count=min(each.frames, 1000))
    except RejectError:
        pass


def test_other_zip_archives_are_not_taken_for_arrays():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("readme.txt", "x")
    assert not NpzReader.matches(file.getvalue())
    assert refused(reader(), file.getvalue())[0] == Reason.NO_MEMBER


def test_a_decoded_array_is_decoded_once(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    array = samples("<f4", 5000)
    np.savez_compressed(path, x=array)
    opened, real = [], zipfile.ZipFile
    with path.open("rb", buffering=0) as file:
        npz_reader = reader()
        described = only(npz_reader, file)
        monkeypatch.setattr(zipfile, "ZipFile", lambda *given: opened.append(given) or real(*given))
        for start in range(0, 5000, 1000):
            np.testing.assert_array_equal(
                read(npz_reader, file, described, 0, start, 1000), array[start : start + 1000]
            )
    assert len(opened) == 1
