"""MATLAB files of versions 4, 5, 7 and 7.3, against scipy and h5py; files that lie."""

import io
import json
import struct
import zlib

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.elements import Description
from spectrabeam.transforms.formats.arrays.mat import MatReader
from spectrabeam.transforms.formats.base import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.arrays import NUMBERS, as_read, assert_channels, listed, only, read, refused, samples

CLASSES = {"f8": "double", "f4": "single", "i1": "int8", "u1": "uint8", "i2": "int16", "u2": "uint16", "i4": "int32",
           "u4": "uint32", "i8": "int64", "u8": "uint64", "c16": "double", "c8": "single"}  # fmt: skip
SWAPPED = [dtype for dtype in NUMBERS if dtype[0] == "<" and dtype[1:] != "f2"]


def reader(**settings):
    return MatReader(ReadSettings(**settings))


def mat5(compress=False, **variables):
    file = io.BytesIO()
    scipy.io.savemat(file, variables, do_compression=compress)
    return file.getvalue()


def mat4(**variables):
    file = io.BytesIO()
    scipy.io.savemat(file, variables, format="4")
    return file.getvalue()


def mat73(chunks=None, **variables):
    """As MATLAB writes it: axes reversed, the class as an attribute, 512 bytes of its own at the start."""
    file = io.BytesIO()
    with h5py.File(file, "w", userblock_size=512) as opened:
        for name, value in variables.items():
            if isinstance(value, str):
                values, kind = np.frombuffer(value.encode("utf-16-le"), "<u2")[None], "char"
            else:
                values = np.atleast_2d(value)
                kind = "logical" if values.dtype.kind == "b" else CLASSES[values.dtype.str[1:]]
                values = values.astype("u1") if kind == "logical" else values
            if values.dtype.kind == "c":
                pair = np.dtype([("real", values.real.dtype), ("imag", values.real.dtype)])
                values = np.ascontiguousarray(values).view(pair)
            whole = chunks and values.size > 1
            more = {"chunks": True, "compression": "gzip"} if whole else {}
            opened.create_dataset(name, data=values.T, **more).attrs["MATLAB_class"] = np.bytes_(kind)
    content = bytearray(file.getvalue())
    content[:128] = (
        b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2024 HDF5 schema 1.00 .".ljust(
            124
        )
        + b"\x00\x02IM"
    )
    return bytes(content)


def swapped(values):
    """A MATLAB 5 file of the other byte order that holds `x`, written by hand from the format's description."""
    order = ">"
    types = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 9, "i8": 12, "u8": 13}
    kinds = {"f8": 6, "f4": 7, "i1": 8, "u1": 9, "i2": 10, "u2": 11, "i4": 12, "u4": 13, "i8": 14, "u8": 15}

    def element(kind, content):
        return struct.pack(order + "II", kind, len(content)) + content + bytes(-len(content) % 8)

    parts = [values.real, values.imag] if values.dtype.kind == "c" else [values]
    number = parts[0].dtype.str[1:]
    flags = kinds[number] | (0x800 if len(parts) == 2 else 0)
    body = element(6, struct.pack(order + "II", flags, 0)) + element(
        5, struct.pack(order + "2i", *values.shape)
    )
    body += struct.pack(order + "HH4s", 1, 1, b"x")  # a name of one byte, in the tag itself
    for part in parts:
        body += element(types[number], part.astype(part.dtype.newbyteorder(order)).tobytes(order="F"))
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack(order + "H", 0x0100) + b"MI"
    return head + struct.pack(order + "II", 14, len(body)) + body


WRITERS = {
    "v5": mat5,
    "v7": lambda **variables: mat5(True, **variables),
    "v7.3": mat73,
    "v7.3 in chunks": lambda **variables: mat73(True, **variables),
}
writers = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


@writers
@pytest.mark.parametrize("dtype", SWAPPED)
def test_vectors_of_every_class_are_read_exactly(write, dtype):
    array = samples(dtype, (1, 1000))
    content = write(x=array)
    assert MatReader.matches(content[:4096])
    described = only(reader(), content)
    assert described.member == "x"
    assert_channels(reader(), content, described, array)


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<i4", "<i2", "<u2", "<u1", "<c16", "<c8"])
def test_vectors_of_version_4_are_read_exactly(dtype):
    array = samples(dtype, (1, 1000))
    content = mat4(x=array, y=array[:, :7])
    assert not MatReader.matches(content[:4096])
    described = listed(reader(), content)
    assert_channels(reader(), content, described["x"], array)
    assert_channels(reader(), content, described["y"], array[:, :7])


@pytest.mark.parametrize("dtype", SWAPPED)
def test_the_other_byte_order_is_read_and_scipy_agrees(dtype):
    array = samples(dtype, (3, 40))
    content = swapped(array)
    np.testing.assert_array_equal(scipy.io.loadmat(io.BytesIO(content))["x"], array)
    axes = reader(array_axes="channel,time")
    assert_channels(axes, content, only(axes, content), array)


@pytest.mark.parametrize("axes", ["time,channel", "channel,time", "recording,time"])
@pytest.mark.parametrize("shape", [(1, 500), (500, 1), (3, 500), (500, 3)])
@pytest.mark.parametrize("dtype", ["<f8", "<i2", "<c8"])
def test_the_same_matrix_gives_the_same_recordings_in_every_version(dtype, shape, axes):
    """A32: orientation restored; names, channels, frames and every sample."""
    array = samples(dtype, shape)
    settings = {"array_axes": axes, "rate_key": "fs"}
    expected = None
    for write in WRITERS.values():
        content = write(x=array, fs=25600.0, name="abc")
        described = listed(reader(**settings), content)
        found = [
            (member, each.sample_rate, each.attributes, each.is_complex,
             [read(reader(**settings), content, each, channel).tobytes() for channel in range(each.channels)])
            for member, each in described.items()
        ]  # fmt: skip
        assert expected is None or found == expected
        expected = found
    assert expected[0][1:3] == (25600.0, {"fs": 25600, "name": "abc"})
    whole = np.concatenate([np.frombuffer(each, as_read(array).dtype) for row in expected for each in row[4]])
    flat = array.reshape(-1) if axes != "time,channel" or 1 in shape else array.T.reshape(-1)
    np.testing.assert_array_equal(whole, as_read(flat))


@writers
def test_two_axes_without_a_word_on_them_are_refused(write):
    """A18."""
    reason, message = refused(reader(), write(x=np.zeros((2, 300))))
    assert reason == Reason.AMBIGUOUS_AXES
    assert "2 samples of 300 channels" in message


@writers
@given(st.data())
def test_any_range_equals_the_slice(write, data):
    signal = samples(data.draw(st.sampled_from(SWAPPED)), (3, 40), data.draw(st.integers(0, 99)))
    content = write(x=signal)
    axes = reader(array_axes="channel,time")
    start = data.draw(st.integers(0, 39))
    count, channel = data.draw(st.integers(1, 40 - start)), data.draw(st.integers(0, 2))
    part = read(axes, content, only(axes, content), channel, start, count)
    np.testing.assert_array_equal(part, as_read(signal)[channel, start : start + count])


def test_doubles_that_matlab_stores_in_a_byte_are_doubles():
    """MATLAB shortens whole numbers: the class says what is meant, the element how it is stored."""
    content = bytearray(mat5(x=np.arange(8, dtype="u1")[None]))
    content[content.index(struct.pack("<II", 6, 8)) + 8] = 6  # the class of uint8 becomes double
    described = only(reader(scale="pcm"), bytes(content))
    assert described.dtype == "<f8"
    np.testing.assert_array_equal(read(reader(scale="pcm"), bytes(content), described), np.arange(8))


@writers
def test_int16_comes_as_stored(write):
    array = samples("<i2", (1, 50))
    content = write(x=array)
    out = read(reader(), content, only(reader(), content), dtype=np.int16)
    np.testing.assert_array_equal(out, array[0])


@writers
def test_scalars_and_short_texts_are_attributes_and_found_by_name_or_glob(write):
    """A35, CWRU: the digits in the names differ from file to file."""
    content = write(
        X105_DE_time=np.zeros((50, 1)), X105RPM=np.array([[1797]], "u2"), half=np.array([[0.5]]),
        on=np.array([[True]]), sensor="über", date="2024-05-06 07:08:09.25",
    )  # fmt: skip
    described = only(reader(rate_key="*RPM", time_key="date"), content)
    assert described.attributes == {
        "X105RPM": 1797, "half": 0.5, "on": 1, "sensor": "über", "date": "2024-05-06 07:08:09.25",
    }  # fmt: skip
    assert described.sample_rate == 1797
    assert described.start_time_ns == np.datetime64("2024-05-06T07:08:09.25", "ns").astype(int)
    assert isinstance(described.attributes["X105RPM"], int)


@writers
def test_patterns_choose_variables_and_what_fits_nothing_lists_them(write):
    """A35."""
    content = write(X173_DE_time=np.zeros((50, 1)), X174_FE_time=np.ones((40, 1)), X173RPM=1750.0)
    for pattern in ("*_DE_time", "re:_DE_time$"):
        assert list(listed(reader(members=(pattern,)), content)) == ["X173_DE_time"]
    assert list(listed(reader(), content)) == ["X173_DE_time", "X174_FE_time"]
    reason, message = refused(reader(members=("X174_DE_time",)), content)
    assert reason == Reason.NO_MEMBER
    assert "X173_DE_time, X174_FE_time" in message


def others():
    return {
        "s": {"a": np.arange(5.0)},
        "c": np.array([np.arange(3), "x"], object),
        "sp": scipy.sparse.eye(5, format="csc"),
        "text": np.array(["ab", "cd"]),
        "mask": np.ones((1, 5), bool),
    }


@pytest.mark.parametrize("compress", [False, True])
def test_structs_cells_and_the_like_are_told_of_only_where_asked_for(compress):
    content = mat5(compress, x=np.zeros((1, 9)), **others())
    assert list(listed(reader(), content)) == ["x"]
    described = listed(reader(members=("*",)), content)
    assert set(described) == {"x", *others()}
    kinds = {"s": "struct", "c": "cell array", "sp": "sparse array", "text": "text", "mask": "logical array"}
    for name, kind in kinds.items():
        assert described[name].reason == Reason.BAD_FORMAT
        assert f"{name} is no array of numbers but a {kind}" in str(described[name])
    described = listed(reader(), mat5(compress, **others()))
    assert set(described) == set(kinds)  # where nothing else is there
    assert all(isinstance(each, RejectError) for each in described.values())


def test_structs_and_cells_of_version_7_3_are_told_of_only_where_asked_for():
    content = io.BytesIO(mat73(x=np.zeros((1, 9)), mask=np.ones((1, 5), bool), text="ab"))
    with h5py.File(content, "r+") as opened:
        opened["s/a"] = np.arange(5.0)
        opened["s"].attrs["MATLAB_class"] = np.bytes_("struct")
        opened["#refs#/a"] = np.arange(5.0)
        cells = opened.create_dataset("c", (3, 1), h5py.ref_dtype)
        cells[0, 0] = opened["#refs#/a"].ref
        cells.attrs["MATLAB_class"] = np.bytes_("cell")
        opened["e"] = np.zeros(2, "u8")
        opened["e"].attrs["MATLAB_class"] = np.bytes_("double")
        opened["e"].attrs["MATLAB_empty"] = np.uint8(1)
    described = listed(reader(), content)
    assert set(described) == {"x"}
    described = listed(reader(members=("*",)), content)
    assert set(described) == {"x", "mask", "s", "c", "e"}
    assert described["e"].reason == Reason.EMPTY
    assert "but a struct" in str(described["s"])
    assert "but a cell array" in str(described["c"])


@writers
def test_an_empty_matrix_is_an_empty_member_where_it_is_asked_for(write):
    """A27: programs leave [] behind, which is no recording; one with one side is."""
    content = write(x=np.zeros((1, 9)), e=np.zeros((0, 0)))
    assert set(listed(reader(), content)) == {"x"}
    assert listed(reader(), write(x=np.zeros((1, 9)), e=np.zeros((0, 1))))["e"].reason == Reason.EMPTY
    assert listed(reader(members=("e",)), content)["e"].reason == Reason.EMPTY
    assert refused(reader(), write(e=np.zeros((0, 0))))[0] == Reason.EMPTY


def test_of_two_variables_with_one_name_the_later_counts():
    content = mat5(x=np.zeros((1, 9))) + mat5(x=np.ones((1, 5)))[128:]
    assert only(reader(), content).frames == 5


@pytest.mark.parametrize("version", ["5", "4"])
def test_a_cut_vector_is_used_as_far_as_it_is_there_and_rejected_if_strict(version):
    """A02."""
    array = samples("<f8", (1, 1000))
    content = {"5": mat5, "4": mat4}[version](x=array)
    cut = content[: len(content) - 8 * 400 - 3]
    described = only(reader(), cut)
    assert (described.frames, described.frames_declared) == (599, 1000)
    assert_channels(reader(), cut, described, array[:, :599])
    assert refused(reader(strict=True), cut)[0] == Reason.TRUNCATED


@writers
def test_a_file_cut_anywhere_is_a_reject_or_gives_what_is_there(write):
    array = samples("<f8", (1, 300))
    content = write(x=array)
    reasons = set()
    for length in range(0, len(content) - 1, 37):
        try:
            described = listed(reader(), content[:length])
        except RejectError as error:
            reasons.add(error.reason)
            continue
        for each in described.values():
            if isinstance(each, Description):
                assert_channels(reader(), content[:length], each, array[:, : each.frames])
            else:
                reasons.add(each.reason)
    assert Reason.TRUNCATED in reasons
    assert reasons <= {Reason.TRUNCATED, Reason.EMPTY, Reason.BAD_FORMAT}


@pytest.mark.parametrize(
    "content", [b"", bytes(5), b"MATLAB", bytes(1000), b"\xff" * 1000, bytes(range(256)) * 9]
)
def test_garbage_is_refused(content):
    assert refused(reader(), content)[0] in (
        Reason.EMPTY,
        Reason.BAD_FORMAT,
        Reason.TRUNCATED,
        Reason.NO_MEMBER,
    )


def test_a_compressed_variable_above_the_limit_is_refused_before_it_is_inflated():
    content = mat5(True, x=np.zeros((1, 100_000)))
    assert only(reader(decode_limit=801_000), content).frames == 100_000
    reason, message = refused(reader(decode_limit=800_000), content)
    assert reason == Reason.TOO_LARGE
    assert "decode_limit" in message
    assert only(reader(decode_limit=10), mat5(x=np.zeros((1, 100_000)))).frames == 100_000


def compressed(body, promised=None):
    """A MATLAB 5 file with one compressed element."""
    packed = zlib.compress(struct.pack("<II", 14, len(body) if promised is None else promised) + body)
    return mat5()[:128] + struct.pack("<II", 15, len(packed)) + packed


def body_of(shape, data, promised=None):
    """The matrix element of doubles named x."""
    return (
        struct.pack("<IIII", 6, 8, 6, 0) + struct.pack("<II2i", 5, 8, *shape) + struct.pack("<HH4s", 1, 1, b"x")
        + struct.pack("<II", 9, len(data) if promised is None else promised) + data
    )  # fmt: skip


def test_a_stream_longer_or_shorter_than_it_says_is_corrupt():
    body = body_of((1, 100), bytes(800))
    assert only(reader(), compressed(body)).frames == 100
    for content in (compressed(body + bytes(5 << 20), len(body)), compressed(body[:-80], len(body))):
        with pytest.raises(RejectError, match="inflates to") as error:
            read(reader(), content, only(reader(), content))
        assert error.value.reason == Reason.CORRUPT


def test_a_promise_beyond_what_deflate_can_hold_is_corrupt():
    big = 1 << 29
    reason, message = refused(reader(), compressed(body_of((1, big // 8), bytes(80), big), big + 56))
    assert reason == Reason.CORRUPT
    assert "cannot inflate" in message


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(mat5()[:128] + struct.pack("<II", 14, 0) * 9, id="variables of 0 bytes"),
        pytest.param(mat5()[:128] + bytes(800), id="type 0"),
        pytest.param(mat5()[:128] + struct.pack("<II", 15, 8) + b"x" * 8, id="no deflate"),
        pytest.param(compressed(body_of((1, -5), b"")), id="negative shape"),
        pytest.param(compressed(body_of((2**31 - 1, 2**31 - 1), bytes(80))), id="shape of 2^62"),
        pytest.param(
            mat5()[:128] + struct.pack("<IIIIII", 14, 500, 6, 8, 6, 0) + b"\xff" * 484, id="garbage within"
        ),
    ],
)
def test_files_that_break_their_own_layout_are_corrupt(content):
    assert refused(reader(), content)[0] == Reason.CORRUPT


@pytest.mark.parametrize("rows", [-3, -6, -1])
def test_a_version_4_header_that_leads_backwards_is_refused(rows):
    """With -3 rows the next variable is this one again, and scipy lists it for ever."""
    reason, message = refused(reader(), struct.pack("<5i", 0, rows, 1, 0, 4) + b"abc\0" + bytes(8))
    assert reason == Reason.BAD_FORMAT
    assert "nor as a MATLAB 4 one" in message


def test_a_version_4_header_that_promises_gigabytes_gives_what_is_there():
    content = struct.pack("<5i", 0, 2**31 - 1, 1, 0, 4) + b"abc\0" + np.arange(3.0).tobytes()
    described = only(reader(), content)
    assert described.frames_declared == 2**31 - 1
    np.testing.assert_array_equal(read(reader(), content, described), np.arange(3))


@writers
@given(st.data())
def test_any_flipped_byte_gives_numbers_or_a_reject(write, data):
    content = bytearray(write(x=samples("<f8", (1, 100)), y=samples("<i2", (2, 9)), fs=5.0, text="abc"))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    small = reader(decode_limit=1 << 20, array_axes="time,channel")
    try:
        for each in listed(small, bytes(content)).values():
            if isinstance(each, Description):
                read(small, bytes(content), each, count=min(each.frames, 1000))
    except RejectError:
        pass


def test_plain_hdf5_named_mat_is_read_as_it_stands():
    file = io.BytesIO()
    with h5py.File(file, "w") as opened:
        opened["run/x"] = samples("<f4", (500, 2))
    axes = reader(array_axes="time,channel")
    described = only(axes, file)
    assert (described.member, described.format) == ("run/x", "mat")
    assert_channels(axes, file, described, samples("<f4", (500, 2)).T)


FOUND = {"DE": 13, "FE": 13, "BA": 12}


def test_bearing_files_give_each_sensor_as_scipy_does(shared):
    """A35: real MATLAB 5 files; three arrays each but in Normal_0, and the speed as an attribute where it is there."""
    found = dict.fromkeys(FOUND, 0)
    paths = sorted((shared / "data" / "cwru").glob("*.mat"))
    assert len(paths) == 13
    for path in paths:
        expected = scipy.io.loadmat(path)
        with path.open("rb", buffering=0) as file:
            described = listed(reader(), file)
            assert set(described) == {name for name in expected if name.endswith("_time")}
            assert len(described) == (2 if path.name.startswith("Normal_0") else 3)
            for name, each in described.items():
                found[name.split("_")[1]] += 1
                (frames, _) = expected[name].shape
                assert (each.frames, each.channels, each.dtype) == (frames, 1, "<f8")
                assert each.attributes == {
                    key: value.item() for key, value in expected.items() if key.endswith("RPM")
                }
                signal = expected[name][:, 0].astype(np.float32)
                np.testing.assert_array_equal(read(reader(), file, each), signal)
                np.testing.assert_array_equal(
                    read(reader(), file, each, 0, 70_001, 16384), signal[70_001:86_385]
                )
            (only_one,) = listed(reader(members=("*_DE_time",)), file)
            assert only_one.endswith("_DE_time")
    assert found == FOUND


def odd(shared, name):
    expected = json.loads((shared / "data" / "odd" / "expected.json").read_text())["files"][name]["readers"]
    return (shared / "data" / "odd" / name).read_bytes(), expected


@pytest.mark.parametrize(
    ("name", "library"),
    [("testdouble_4.2c_SOL2.mat", "scipy.io.loadmat"), ("testhdf5_7.4_GLNX86.mat", "h5py")],
)
def test_odd_files_are_read_as_others_read_them(shared, name, library):
    """A32: version 4 of a big-endian machine, and version 7.3, whose (9, 1) is MATLAB's (1, 9)."""
    content, expected = odd(shared, name)
    variable = expected[library]["variables"]["testdouble"]
    described = only(reader(), content)
    assert (described.member, described.channels, described.frames) == ("testdouble", 1, 9)
    assert described.dtype == variable["dtype"]
    values = read(reader(), content, described)
    np.testing.assert_array_equal(values[:8], np.float32(variable["first_raw"]))
    assert values.max() == np.float32(variable["max"])


def test_damaged_compression_is_corrupt(shared):
    content, expected = odd(shared, "corrupted_zlib_data.mat")
    assert not expected["scipy.io.loadmat"]["readable"]
    reasons = set()
    try:
        for each in listed(reader(members=("*",)), content).values():
            if isinstance(each, Description):
                with pytest.raises(RejectError) as error:
                    read(reader(), content, each)
                reasons.add(error.value.reason)
    except RejectError as error:
        reasons.add(error.reason)
    assert Reason.CORRUPT in reasons
