"""HDF5 files written by h5py in every layout, read back by range; files that lie or lead elsewhere."""

import io
import json
import os
import re
import resource
import threading
import zlib

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.elements import Description
from spectrabeam.transforms.formats.arrays import hdf5_files
from spectrabeam.transforms.formats.arrays.hdf5 import Hdf5Reader
from spectrabeam.transforms.formats.base import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.arrays import NUMBERS, as_read, assert_channels, listed, only, read, refused, samples

LAYOUTS = {
    "contiguous": {},
    "chunked": {"chunks": True},
    "gzip": {"chunks": True, "compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"chunks": True, "compression": "lzf"},
}
layouts = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def reader(**settings):
    return Hdf5Reader(ReadSettings(**settings))


def hdf5(fill, **more):
    """A file's bytes; `fill` is given the open file."""
    file = io.BytesIO()
    with h5py.File(file, "w", **more) as opened:
        fill(opened)
    return file.getvalue()


def of(layout, **arrays):
    return hdf5(
        lambda opened: [opened.create_dataset(name, data=array, **layout) for name, array in arrays.items()]
    )


@layouts
@pytest.mark.parametrize("dtype", NUMBERS)
def test_datasets_of_every_type_are_read_exactly(layout, dtype):
    array = samples(dtype, 1000)
    content = of(layout, x=array)
    assert Hdf5Reader.matches(content[:4096])
    described = only(reader(), content)
    assert (described.member, described.dtype) == ("x", np.dtype(dtype).str)
    assert described.is_complex == (np.dtype(dtype).kind == "c")
    assert_channels(reader(), content, described, array)


@layouts
@given(st.data())
def test_any_range_of_any_channel_equals_the_slice(layout, data):
    signal = samples(data.draw(st.sampled_from(NUMBERS)), (3, 50), data.draw(st.integers(0, 99)))
    axes = data.draw(st.sampled_from(["time,channel", "channel,time"]))
    array = signal.T if axes == "time,channel" else signal
    if layout:
        layout = layout | {"chunks": tuple(data.draw(st.integers(1, count)) for count in array.shape)}
    content = of(layout, x=array)
    given_axes = reader(array_axes=axes)
    start = data.draw(st.integers(0, 49))
    count, channel = data.draw(st.integers(1, 50 - start)), data.draw(st.integers(0, 2))
    part = read(given_axes, content, only(given_axes, content), channel, start, count)
    np.testing.assert_array_equal(part, as_read(signal)[channel, start : start + count])


@layouts
def test_rows_as_recordings_are_members_below_the_path(layout):
    array = samples("<f4", (3, 100))
    content = of(layout, **{"run1/accel": array})
    rows = reader(array_axes="recording,time")
    described = listed(rows, content)
    assert list(described) == ["run1/accel/0", "run1/accel/1", "run1/accel/2"]
    for number, each in enumerate(described.values()):
        assert_channels(rows, content, each, array[number])


def test_a_name_that_looks_like_a_row_is_none():
    content = of({}, **{"x#7": samples("<f4", 50)})
    rows = reader(array_axes="recording,time")
    assert_channels(rows, content, only(rows, content), samples("<f4", 50))


def test_two_axes_without_a_word_on_them_are_refused_by_name():
    """A18."""
    described = listed(reader(), of({}, a=np.zeros((2, 300)), b=np.zeros(5)))
    assert described["a"].reason == Reason.AMBIGUOUS_AXES
    assert described["b"].frames == 5


def fill_runs(opened):
    opened.attrs["fs"] = 100.0
    opened.attrs["lab"] = "north"
    opened["run1/accel"] = samples("<f4", 50)
    opened["run1"].attrs["fs"] = 200.0
    opened["run1/rpm"] = 1500
    opened["run2/accel"] = samples("<f4", 60)
    opened["run2/accel"].attrs["units"] = "m/s2"
    opened["run2/fs"] = np.array([400], "i4")
    opened["run2/deep/accel"] = samples("<f4", 70)
    opened["run2/deep/accel"].attrs["fs"] = np.array([800.0])
    opened["run2/deep/accel"].attrs["many"] = np.arange(5)


def test_values_around_a_dataset_are_its_attributes_and_the_nearest_counts():
    content = hdf5(fill_runs)
    described = listed(reader(rate_key="fs"), content)
    assert list(described) == ["run1/accel", "run2/accel", "run2/deep/accel"]
    assert {name: each.sample_rate for name, each in described.items()} == {
        "run1/accel": 200, "run2/accel": 400, "run2/deep/accel": 800,
    }  # fmt: skip
    assert described["run1/accel"].attributes == {"fs": 200.0, "lab": "north", "rpm": 1500}
    assert described["run2/deep/accel"].attributes == {"fs": 800.0, "lab": "north"}
    assert [each.unit for each in described.values()] == [None, "m/s2", None]
    assert only(reader(members=("run1/*",)), content).sample_rate is None


def test_the_time_of_the_first_sample_is_found():
    def fill(opened):
        opened["x"] = samples("<f4", 50)
        opened["x"].attrs["t0"] = 1.5
        opened["x"].attrs["bad"] = "yesterday"

    assert only(reader(time_key="t0"), hdf5(fill)).start_time_ns == 1_500_000_000
    described = only(reader(time_key="bad"), hdf5(fill))
    assert described.start_time_ns is None
    assert "time_key=bad: 'yesterday' is neither" in described.warnings[0]


def test_members_are_chosen_by_path_and_nothing_fitting_lists_them():
    """A35."""
    content = hdf5(fill_runs)
    assert list(listed(reader(members=("run2/*",)), content)) == ["run2/accel", "run2/deep/accel"]
    assert list(listed(reader(members=("re:^run1/",)), content)) == ["run1/accel"]
    reason, message = refused(reader(members=("velocity",)), content)
    assert reason == Reason.NO_MEMBER
    assert "run1/accel, run2/accel, run2/deep/accel" in message


def test_links_are_not_followed_out_of_the_file_nor_around(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as secret:
        secret["x"] = np.arange(5.0)
    with h5py.File(tmp_path / "x.h5", "w") as opened:
        opened["a/x"] = samples("<f4", 50)
        opened["a/loop"] = opened["a"]
        opened["a/root"] = opened["/"]
        opened["again"] = opened["a/x"]
        opened["soft"] = h5py.SoftLink("/a/x")
        opened["dangling"] = h5py.SoftLink("/nothing")
        opened["outside"] = h5py.ExternalLink(os.fspath(tmp_path / "secret.h5"), "/x")
    with (tmp_path / "x.h5").open("rb") as file:
        described = listed(reader(), file)
    assert list(described) == ["again"]  # one dataset is one recording, whatever its names


def test_datasets_whose_samples_are_in_other_files_are_refused(tmp_path):
    (tmp_path / "secret.bin").write_bytes(bytes(400))
    with h5py.File(tmp_path / "x.h5", "w") as opened:
        opened["good"] = samples("<f4", 50)
        opened.create_dataset(
            "external", (100,), "<f4", external=[(os.fspath(tmp_path / "secret.bin"), 0, 400)]
        )
        layout = h5py.VirtualLayout((100,), "<f4")
        layout[:] = h5py.VirtualSource(os.fspath(tmp_path / "secret.h5"), "x", (100,))
        opened.create_virtual_dataset("virtual", layout)
    with (tmp_path / "x.h5").open("rb") as file:
        described = listed(reader(), file)
        assert {name: each.reason for name, each in described.items() if name != "good"} == {
            "external": Reason.BAD_FORMAT, "virtual": Reason.BAD_FORMAT,
        }  # fmt: skip
        assert "external files" in str(described["external"])
        assert "virtual" in str(described["virtual"])


def fill_others(opened):
    opened["records"] = np.zeros(5, [("t", "<f8"), ("x", "<f4")])
    opened["texts"] = np.array(["a", "b"], h5py.string_dtype())
    opened["flags"] = np.zeros(5, "?")
    opened["ragged"] = np.array([np.arange(3), np.arange(4)], object).astype(h5py.vlen_dtype("i4"))
    opened.create_dataset("null", dtype="f4", data=h5py.Empty("f4"))
    opened["type"] = np.dtype("<f4")


def test_what_is_no_number_is_told_of_only_where_nothing_else_is_there_or_it_is_asked_for():
    others = {"records", "texts", "flags", "ragged"}
    described = listed(reader(), hdf5(fill_others))
    assert set(described) == others
    assert {each.reason for each in described.values()} == {Reason.BAD_FORMAT}
    assert "records" in str(described["records"])

    def fill(opened):
        fill_others(opened)
        opened["x"] = np.zeros(5)

    assert set(listed(reader(), hdf5(fill))) == {"x"}
    assert set(listed(reader(members=("r*",)), hdf5(fill))) == {"records", "ragged"}


def test_a_scale_of_a_dimension_is_no_recording_unless_asked_for():
    """netCDF-4 keeps time and channel coordinates as datasets beside the samples."""

    def fill(opened):
        opened["time"] = np.arange(50.0)
        opened["time"].make_scale("time")
        opened["x"] = samples("<f4", 50)
        opened["x"].dims[0].attach_scale(opened["time"])

    assert list(listed(reader(), hdf5(fill))) == ["x"]
    assert only(reader(), hdf5(fill)).attributes == {}
    assert list(listed(reader(members=("time",)), hdf5(fill))) == ["time"]


@pytest.mark.parametrize("real", ["<f4", ">f8", "<i2"])
@layouts
def test_pairs_of_real_and_imaginary_part_are_complex(real, layout):
    pairs = np.zeros(500, [("real", real), ("imag", real)])
    pairs["real"], pairs["imag"] = samples(real, 500), samples(real, 500, 1)
    content = of(layout, x=pairs)
    described = only(reader(), content)
    assert described.is_complex
    whole = np.empty(500, np.complex128)
    whole.real, whole.imag = pairs["real"], pairs["imag"]
    assert_channels(reader(), content, described, whole)


def test_integers_with_unused_bits_and_enumerations_are_read_as_hdf5_does():
    def fill(opened):
        narrow = h5py.h5t.STD_I16LE.copy()
        narrow.set_precision(12)
        narrow.set_offset(4)
        space = h5py.h5s.create_simple((5,))
        h5py.h5d.create(opened.id, b"narrow", narrow, space).write(
            h5py.h5s.ALL, h5py.h5s.ALL, np.arange(-2, 3, dtype="<i2")
        )
        opened.create_dataset("enum", data=np.array([1, 0, 1]), dtype=h5py.enum_dtype({"a": 0, "b": 1}, "i4"))

    described = listed(reader(), hdf5(fill))
    np.testing.assert_array_equal(read(reader(), hdf5(fill), described["narrow"]), [-2, -1, 0, 1, 2])
    np.testing.assert_array_equal(read(reader(), hdf5(fill), described["enum"]), [1, 0, 1])


@layouts
def test_int16_comes_as_stored_and_scales_apply(layout):
    array = samples("<i2", 50)
    content = of(layout, x=array)
    np.testing.assert_array_equal(read(reader(), content, only(reader(), content), dtype=np.int16), array)
    pcm = reader(scale="pcm")
    np.testing.assert_array_equal(read(pcm, content, only(pcm, content)), array / np.float32(32768))


@pytest.mark.parametrize("block", [512, 1024, 2048])
def test_a_block_of_another_program_may_come_first(block):
    file = io.BytesIO()
    with h5py.File(file, "w", userblock_size=block) as opened:
        opened["x"] = samples("<f4", 50)
    content = file.getvalue()
    assert Hdf5Reader.matches(content[:4096])
    assert_channels(reader(), content, only(reader(), content), samples("<f4", 50))
    assert not Hdf5Reader.matches(b"MATLAB 7.3 MAT-file" + content[19:4096])


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_cut_files_are_truncated(libver):
    """A02: HDF5 opens no file that is shorter than it says."""
    content = hdf5(lambda opened: opened.create_dataset("x", data=samples("<f4", 5000)), libver=libver)
    for length in (600, len(content) // 2, len(content) - 1):
        assert refused(reader(), content[:length])[0] == Reason.TRUNCATED


@pytest.mark.parametrize(
    "content", [b"x", bytes(5000), b"\x89HDF\r\n\x1a\n" + bytes(5000), b"\x89HDF\r\n\x1a\n"]
)
def test_garbage_is_refused(content):
    assert refused(reader(), content)[0] in (Reason.BAD_FORMAT, Reason.TRUNCATED)


def test_what_holds_no_sample_is_empty():
    """A27."""
    assert refused(reader(), b"") == (Reason.EMPTY, "the file has 0 bytes")
    assert refused(reader(), of({}, x=np.zeros(0)))[0] == Reason.EMPTY
    assert refused(reader(), of({}, x=np.zeros((0, 3))))[0] == Reason.EMPTY
    assert refused(reader(), hdf5(lambda opened: None))[0] == Reason.NO_MEMBER
    for more in ({}, {"chunks": (100,)}):  # made, and never written
        content = hdf5(lambda opened, more=more: opened.create_dataset("x", (1000,), "<f4", **more))
        assert refused(reader(), content)[0] == Reason.EMPTY


def fill_partly(opened):
    dataset = opened.create_dataset("x", (1000,), "<f4", chunks=(100,), fillvalue=9)
    dataset[:250] = np.arange(250)


def test_chunks_that_were_never_written_are_told_and_rejected_if_strict():
    """A02: a recorder that stopped half-way leaves them."""
    content = hdf5(fill_partly)
    described = only(reader(), content)
    assert described.warnings == ("7 of 10 chunks were never written, and are the fill value",)
    np.testing.assert_array_equal(read(reader(), content, described, 0, 240, 70)[10:], np.full(60, 9))
    assert refused(reader(strict=True), content)[0] == Reason.TRUNCATED


def test_a_promise_of_years_of_fill_values_is_refused():
    def fill(opened):
        opened.create_dataset("x", (1 << 50,), "<f4", chunks=(100,))[:100] = 1

    assert refused(reader(), hdf5(fill))[0] == Reason.TRUNCATED
    rows = reader(array_axes="recording,time")

    def fill_rows(opened):
        opened["x"] = np.ones(((1 << 20) + 1, 2), "i1")

    reason, message = refused(rows, hdf5(fill_rows))
    assert reason == Reason.TOO_LARGE
    assert "more than 1048576 recordings" in message


def test_a_chunk_above_the_limit_is_refused_before_it_is_decoded():
    content = of({"chunks": (100_000,), "compression": "gzip"}, x=np.zeros(100_000, "f4"))
    assert only(reader(decode_limit=400_000), content).frames == 100_000
    assert refused(reader(decode_limit=399_999), content)[0] == Reason.TOO_LARGE


def test_a_chunk_that_inflates_to_more_than_a_chunk_is_corrupt():
    """HDF5 itself inflates until the stream ends, whatever the chunk should hold: 1 MiB would fill 1 GiB."""

    def fill(opened):
        dataset = opened.create_dataset("x", (200_000,), "<f4", chunks=(100_000,), compression="gzip")
        dataset[:100_000] = 3
        dataset.id.write_direct_chunk((100_000,), zlib.compress(bytes(64 << 20)), 0)

    content = hdf5(fill)
    described = only(reader(), content)
    np.testing.assert_array_equal(read(reader(), content, described, 0, 0, 1000), np.full(1000, 3))
    with pytest.raises(RejectError, match="inflates to more than 400000 bytes") as error:
        read(reader(), content, described, 0, 99_900, 200)
    assert error.value.reason == Reason.CORRUPT


@pytest.mark.parametrize("size", [0, 3, 4])
@pytest.mark.parametrize("compression", [None, "lzf"])
def test_chunks_shorter_than_their_checksum_are_corrupt(compression, size):
    """HDF5 itself crashes on them."""

    def fill(opened):
        dataset = opened.create_dataset(
            "x", (2000,), "<f4", chunks=(1000,), compression=compression, fletcher32=True
        )
        dataset[:] = 3
        dataset.id.write_direct_chunk((1000,), bytes(5), 0)

    content = hdf5(fill, libver="latest")
    place = [match.start() for match in re.finditer(re.escape((5).to_bytes(4, "little")), content)]
    reasons = set()
    for at in place:  # the sizes of chunks are among them
        changed = content[:at] + bytes([size]) + content[at + 1 :]
        try:
            read(reader(), changed, only(reader(), changed))
        except RejectError as error:
            reasons.add(error.reason)
        except AssertionError:  # refused by `describe`
            reasons.add(refused(reader(), changed)[0])
    assert Reason.CORRUPT in reasons


@pytest.mark.parametrize("count", [2, 3, 7, 359, 360, 361, 65535, 131_071, 200_001])
@pytest.mark.parametrize("value", [0, 255, None])
def test_checksums_are_those_of_hdf5(count, value):
    values = samples("u1", count) if value is None else np.full(count, value, "u1")
    content = of({"chunks": (count,), "fletcher32": True}, x=values)
    assert_channels(reader(), content, only(reader(), content), values, steps=1)
    damaged = (
        content.replace(values.tobytes(), values.tobytes()[:-1] + bytes([values[-1] ^ 1]))
        if count > 99 and value is None
        else None
    )
    if damaged:
        with pytest.raises(RejectError, match="its checksum is another"):
            read(reader(), damaged, only(reader(), damaged))


def test_chunks_whose_filters_were_left_out_are_read():
    array = samples("<f4", 200)

    def fill(opened):
        dataset = opened.create_dataset("x", (200,), "<f4", chunks=(100,), compression="gzip", shuffle=True)
        dataset[:100] = array[:100]
        dataset.id.write_direct_chunk((100,), array[100:].tobytes(), 0b11)

    content = hdf5(fill)
    assert_channels(reader(), content, only(reader(), content), array)


def test_filters_that_are_not_there_are_named():
    def fill(opened):
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((10,))
        properties.set_filter(32001, h5py.h5z.FLAG_OPTIONAL, (2, 2, 4, 40, 5, 1, 0))
        h5py.h5d.create(opened.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((50,)), properties)

    reason, message = refused(reader(), hdf5(fill))
    assert reason == Reason.BAD_FORMAT
    assert "(32001)" in message


@pytest.mark.parametrize("bits", [{"scaleoffset": 4}, {"scaleoffset": 0}])
def test_filters_whose_decoder_crashes_are_refused(bits):
    reason, message = refused(reader(), of({"chunks": (100,), **bits}, x=np.arange(1000)))
    assert reason == Reason.BAD_FORMAT
    assert "scaleoffset (6)" in message
    assert "h5repack -f GZIP=4" in message


def test_one_damaged_dataset_does_not_take_the_others_along():
    content = bytearray(of({}, good=samples("<f4", 50), bad=samples("<f4", 60)))
    header = content.rindex(b"OHDR") if b"OHDR" in content else None
    assert header is None  # the old layout: the type of `bad` is found by its 60 elements
    content[content.index((60).to_bytes(8, "little")) - 8] = 99  # version of the dataspace
    described = listed(reader(), bytes(content))
    assert described["good"].frames == 50
    assert described["bad"].reason == Reason.CORRUPT


def test_damaged_samples_are_corrupt():
    array = samples("<f4", 5000)
    for layout in ({"chunks": (5000,), "compression": "gzip"}, {"chunks": (5000,), "fletcher32": True}):
        content = bytearray(of(layout, x=array))
        content[-5000] ^= 0x55
        described = only(reader(), bytes(content))
        with pytest.raises(RejectError, match="chunk 0 of x is damaged") as error:
            read(reader(), bytes(content), described)
        assert error.value.reason == Reason.CORRUPT


class Failing(io.FileIO):
    failing = False

    def readinto(self, buffer):
        if self.failing:
            raise OSError(5, "broken disk")
        return super().readinto(buffer)


@layouts
def test_errors_of_the_file_pass_and_the_file_is_read_again_afterwards(tmp_path, layout):
    array = samples("<f4", 50_000)
    (tmp_path / "x.h5").write_bytes(of(layout, x=array))
    kept = reader()
    with Failing(tmp_path / "x.h5") as file:
        described = only(kept, file)
        file.failing = True
        for action in (lambda: read(kept, file, described), lambda: listed(kept, file)):
            with pytest.raises(OSError, match="broken disk"):
                action()
        file.failing = False
        np.testing.assert_array_equal(read(kept, file, described), array)


def test_a_file_that_changed_is_not_read_by_what_was_kept_of_it(tmp_path):
    path = tmp_path / "x.h5"
    kept = reader()
    for number in range(3):
        path.write_bytes(of(LAYOUTS["gzip"], x=np.full(500 + number, number, "f4")))
        with path.open("rb", buffering=0) as file:
            described = only(kept, file)
            np.testing.assert_array_equal(read(kept, file, described), np.full(500 + number, number))


def test_files_are_opened_once_and_only_some_are_kept(tmp_path, monkeypatch):
    paths = [tmp_path / f"{number}.h5" for number in range(12)]
    for number, path in enumerate(paths):
        path.write_bytes(of(LAYOUTS["lzf"], x=np.full(500, number, "f4"), y=np.full(300, -number, "f4")))
    opens, real = [], hdf5_files.open_hdf5
    monkeypatch.setattr(hdf5_files, "open_hdf5", lambda file: opens.append(file) or real(file))
    kept = reader()

    def read_all(path, number):
        with path.open("rb", buffering=0) as file:  # each time another handle, as in a run
            described = listed(Hdf5Reader(ReadSettings()), file)
            for start in range(0, 300, 100):
                for name, sign in (("x", 1), ("y", -1)):
                    part = read(kept, file, described[name], 0, start, 100)
                    np.testing.assert_array_equal(part, np.full(100, sign * number))

    read_all(paths[0], 0)
    read_all(paths[0], 0)
    assert len(opens) == 1
    for number, path in enumerate(paths):
        read_all(path, number)
    assert len(opens) == 12
    assert len(kept._arrays._open._kept) == 8


@pytest.mark.parametrize("layout", [LAYOUTS["gzip"], LAYOUTS["lzf"]], ids=["gzip", "lzf"])
def test_threads_read_the_same_files_at_once(tmp_path, layout):
    arrays = [samples("<f4", 20_000, seed) for seed in range(10)]
    paths = [tmp_path / f"{number}.h5" for number in range(10)]
    for path, array in zip(paths, arrays, strict=True):
        path.write_bytes(of(layout, x=array))
    kept, failures = reader(), []

    def work(seed):
        try:
            for turn in range(30):
                number = (seed * 7 + turn * 3) % 10
                with paths[number].open("rb", buffering=0) as file:
                    described = only(kept, file)
                    np.testing.assert_array_equal(
                        read(kept, file, described, 0, turn * 100, 500), arrays[number][turn * 100 :][:500]
                    )
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@given(st.data())
def test_any_flipped_byte_gives_numbers_or_a_reject(libver, data):
    content = bytearray(hdf5(fill_runs, libver=libver))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    small = reader(decode_limit=1 << 20, array_axes="time,channel", rate_key="fs")
    try:
        for each in listed(small, bytes(content)).values():
            if isinstance(each, Description):
                read(small, bytes(content), each, count=min(each.frames, 1000))
    except RejectError:
        pass


def test_a_text_that_promises_gigabytes_is_left_out():
    """HDF5 fills as much memory as the noted length before it looks for the text."""

    def fill(opened):
        opened["x"] = samples("<f4", 50)
        opened["text"] = "short"

    content = hdf5(fill)
    assert only(reader(), content).attributes == {"text": "short"}
    with h5py.File(io.BytesIO(content)) as opened:
        offset = opened["text"].id.get_offset()
    assert content[offset : offset + 4] == (5).to_bytes(4, "little")
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert only(reader(), content[:offset] + b"\xff" * 4 + content[offset + 4 :]).attributes == {}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start < 100_000  # KiB


def test_a_heap_of_texts_that_leads_nowhere_is_left_out():
    """HDF5 1.14 goes round for ever in it."""

    def fill(opened):
        opened["x"] = samples("<f4", 50)
        opened["text"] = "short"

    content = bytearray(hdf5(fill))
    heap = content.index(b"GCOL")
    assert content[heap + 24 : heap + 32] == (5).to_bytes(8, "little")
    content[heap + 16 : heap + 32] = bytes(16)  # an object of no number and no bytes
    assert only(reader(), bytes(content)).attributes == {}


def test_names_that_are_no_utf8_are_left_out():
    def fill(opened):
        opened["x"] = np.zeros(5)
        h5py.h5d.create(opened.id, b"y\xff", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((5,)))
        opened["größe"] = np.zeros(5)

    assert list(listed(reader(), hdf5(fill))) == ["größe", "x"]


def test_complex_datasets_of_both_byte_orders_are_as_h5py_reads_them(shared):
    path = shared / "data" / "odd" / "compound-dtype-complex.h5"
    expected = json.loads((path.parent / "expected.json").read_text())["files"][path.name]["readers"]["h5py"]
    with path.open("rb", buffering=0) as file, h5py.File(path) as opened:
        described = listed(reader(), file)
        assert set(described) == set(expected["variables"])
        for name, each in described.items():
            variable = expected["variables"][name]
            assert (each.frames, each.dtype, each.is_complex) == (100, variable["dtype"], True)
            values = read(reader(), file, each)
            np.testing.assert_array_equal(values, opened[name][:].astype(np.complex64))
            first = np.array(variable["first_raw"])
            np.testing.assert_array_equal(values[:8], (first[:, 0] + 1j * first[:, 1]).astype(np.complex64))
