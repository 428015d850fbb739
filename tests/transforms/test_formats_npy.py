"""NPY files written by numpy, read back by range; headers that lie."""

import io
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.formats.arrays.npy import NpyReader
from spectrabeam.transforms.formats.base import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.arrays import NUMBERS, as_read, assert_channels, listed, only, read, refused, samples


def reader(**settings):
    return NpyReader(ReadSettings(**settings))


def npy(array, **more):
    file = io.BytesIO()
    np.save(file, array, **more)
    return file.getvalue()


def with_header(text, data=b"", version=1):
    text = text.encode("latin-1")
    length = struct.pack("<H", len(text)) if version == 1 else struct.pack("<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


@pytest.mark.parametrize("dtype", NUMBERS)
def test_vectors_of_every_type_are_read_exactly(dtype):
    """A33: >f4, f8, i2 and all others, rounded to float32 once."""
    array = samples(dtype, 1000)
    content = npy(array)
    assert NpyReader.matches(content[:4096])
    described = only(reader(), content)
    assert described.dtype == np.dtype(dtype).str
    assert described.is_complex == (np.dtype(dtype).kind == "c")
    assert (described.member, described.sample_rate, described.warnings) == (None, None, ())
    assert_channels(reader(), content, described, array)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("axes", ["time,channel", "channel,time"])
@pytest.mark.parametrize("dtype", ["<f4", ">i2", "<f8", "<c8"])
def test_both_orders_and_both_orientations_give_the_same_channels(dtype, axes, order):
    """A33, A18: the axes say what is time, the order in memory does not."""
    signal = samples(dtype, (3, 500))
    array = np.array(signal.T if axes == "time,channel" else signal, order=order)
    content = npy(array)
    assert_channels(reader(array_axes=axes), content, only(reader(array_axes=axes), content), signal)


@given(st.data())
def test_any_range_equals_the_slice(data):
    dtype = data.draw(st.sampled_from(NUMBERS))
    channels, frames = data.draw(st.integers(1, 5)), data.draw(st.integers(2, 60))
    axes = data.draw(st.sampled_from(["time,channel", "channel,time"]))
    signal = samples(dtype, (channels, frames), data.draw(st.integers(0, 99)))
    array = np.array(signal.T if axes == "time,channel" else signal, order=data.draw(st.sampled_from("CF")))
    content = npy(array)
    described = only(reader(array_axes=axes), content)
    start = data.draw(st.integers(0, frames - 1))
    count, channel = data.draw(st.integers(1, frames - start)), data.draw(st.integers(0, channels - 1))
    part = read(reader(array_axes=axes), content, described, channel, start, count)
    np.testing.assert_array_equal(part, as_read(signal)[channel, start : start + count])


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_as_recordings_are_members_by_number(order):
    array = np.array(samples("<f4", (5, 100)), order=order)
    rows = reader(array_axes="recording,time")
    described = listed(rows, npy(array))
    assert list(described) == ["0", "1", "2", "3", "4"]
    for number, each in enumerate(described.values()):
        assert_channels(rows, npy(array), each, array[number])


def test_two_axes_without_a_word_on_them_are_refused_with_the_three_readings():
    """A18."""
    reason, message = refused(reader(), npy(np.zeros((2, 16384), "f4")))
    assert reason == Reason.AMBIGUOUS_AXES
    for part in (
        "(2, 16384)",
        "2 samples of 16384 channels (time,channel)",
        "2 channels of 16384 samples (channel,time)",
        "2 recordings of 16384 samples (recording,time)",
    ):
        assert part in message


@pytest.mark.parametrize("shape", [(1000,), (1, 1000), (1000, 1), (1, 1000, 1)])
def test_axes_of_one_count_for_nothing(shape):
    array = samples("<f4", shape)
    assert_channels(reader(), npy(array), only(reader(), npy(array)), array.reshape(-1))


def test_a_channel_among_thousands_is_read_without_the_others():
    array = samples("<f4", (40, 3000))

    class Counting(io.BytesIO):
        touched = 0

        def readinto(self, buffer):
            count = super().readinto(buffer)
            self.touched += count
            return count

    file = Counting(npy(array))
    wide = reader(array_axes="time,channel")
    described = only(wide, file)
    file.touched = 0
    np.testing.assert_array_equal(read(wide, file, described, 2999, 5, 30), array[5:35, 2999])
    assert file.touched == 30 * 4


def test_ranges_beyond_one_piece_are_put_together():
    array = samples("<i2", (3_000_000, 2))
    two = reader(array_axes="time,channel")
    assert_channels(two, npy(array), only(two, npy(array)), array.T, steps=1)


def test_integers_are_as_stored_unless_scaled():
    array = np.array([-32768, 0, 16384], "<i2")
    for scale, expected in (
        ("auto", [-32768, 0, 16384]),
        ("none", [-32768, 0, 16384]),
        ("pcm", [-1, 0, 0.5]),
    ):
        scaled = reader(scale=scale)
        np.testing.assert_array_equal(
            read(scaled, npy(array), only(scaled, npy(array))), np.float32(expected)
        )
    doubled = reader(scale=2.0)
    np.testing.assert_array_equal(read(doubled, npy(array), only(doubled, npy(array))), [-65536, 0, 32768])


def test_int16_comes_as_stored_and_nothing_else_does():
    array = samples(">i2", 100)
    described = only(reader(), npy(array))
    np.testing.assert_array_equal(read(reader(), npy(array), described, dtype=np.int16), array)
    with pytest.raises(RejectError, match="samples are stored as <i4") as error:
        read(reader(), npy(array.astype("<i4")), only(reader(), npy(array.astype("<i4"))), dtype=np.int16)
    assert error.value.reason == Reason.DTYPE_MISMATCH


def test_complex_samples_are_refused_where_real_ones_are_asked_for():
    content = npy(samples("<c16", 10))
    with pytest.raises(RejectError) as error:
        read(reader(), content, only(reader(), content), dtype=np.float32)
    assert error.value.reason == Reason.COMPLEX_SAMPLES


class _Bomb:
    def __reduce__(self):
        return pytest.fail, ("unpickled",)


def test_pickled_objects_are_never_loaded():
    """A33: object arrays run code when loaded."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    reason, message = refused(reader(), file.getvalue() + pickle.dumps(_Bomb()))
    assert reason == Reason.BAD_FORMAT
    assert "pickled objects, which are never loaded" in message


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (np.zeros(5, "?"), "|b1, no numbers"),
        (np.zeros(5, [("t", "<f8"), ("x", "<f4")]), "records"),
        (np.zeros(5, "M8[s]"), "no numbers"),
        (np.array(["a", "b"]), "<U1, no numbers"),
        (np.zeros(5, "longdouble"), "no numbers of 1 to 8 bytes"),
    ],
)
def test_what_is_no_number_is_refused(array, what):
    reason, message = refused(reader(), npy(array))
    assert reason == Reason.BAD_FORMAT
    assert what in message


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0)])
def test_arrays_without_an_element_are_empty(shape):
    """A27."""
    assert refused(reader(), npy(np.zeros(shape)))[0] == Reason.EMPTY


def test_nothing_at_all_is_empty():
    """A27."""
    assert refused(reader(), b"") == (Reason.EMPTY, "the file has 0 bytes")


CUT = [((100,), "C", None), ((100, 3), "C", "time,channel"), ((3, 100), "F", "channel,time")]


@pytest.mark.parametrize(("shape", "order", "axes"), CUT)
@pytest.mark.parametrize("left", [1, 50, 99])
def test_cut_arrays_are_used_to_the_last_whole_frame_and_rejected_if_strict(shape, order, axes, left):
    """A02."""
    array = np.array(samples("<f4", shape), order=order)
    content = npy(array)
    frame = 4 * (array.size // 100)
    cut = content[: 128 + left * frame + frame - 1]
    described = only(reader(array_axes=axes), cut)
    assert (described.frames, described.frames_declared) == (left, 100)
    assert described.warnings == (f"the header promises 100 frames, {left} are there",)
    signal = array.reshape(1, 100) if axes is None else array.T if axes == "time,channel" else array
    assert_channels(reader(array_axes=axes), cut, described, signal[:, :left])
    reason, message = refused(reader(array_axes=axes, strict=True), cut)
    assert reason == Reason.TRUNCATED
    assert "strict is set" in message


@pytest.mark.parametrize(
    ("order", "axes"), [("F", "time,channel"), ("C", "channel,time"), ("C", "recording,time")]
)
def test_cut_arrays_that_miss_channels_are_rejected(order, axes):
    content = npy(np.array(np.zeros((50, 60), "f4"), order=order))
    reason, message = refused(reader(array_axes=axes), content[:-5])
    assert reason == Reason.TRUNCATED
    assert "5 bytes of it are missing" in message


def test_a_header_alone_is_empty():
    """A27."""
    assert refused(reader(), npy(np.zeros(100))[:128])[0] == Reason.EMPTY


@pytest.mark.parametrize("length", [1, 5, 7, 9, 10, 60, 127])
def test_a_cut_header_is_truncated(length):
    assert refused(reader(), npy(np.zeros(100))[:length])[0] == Reason.TRUNCATED


def test_a_promise_of_years_of_samples_takes_no_memory():
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976,), }\n"
    described = only(reader(), with_header(text, bytes(40)))
    assert (described.frames, described.frames_declared) == (10, 1 << 60)
    text = text.replace("1152921504606846976,", "1152921504606846976, 2")
    assert refused(reader(array_axes="recording,time"), with_header(text, bytes(40)))[0] == Reason.TRUNCATED


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-5,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (True,), }",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<q9', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': __import__('os').system('false'), 'fortran_order': False, 'shape': (1,), }",
        "{" * 5000,
        "(" * 9000,
        "[1" + ",[1" * 3000,
        "\x00\xff" * 10,
        "'''",
        "x = 1\n  y = 2",
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_headers_that_make_no_sense_are_refused(text, version):
    assert refused(reader(), with_header(text, bytes(100), version))[0] == Reason.BAD_FORMAT


def test_a_header_of_four_gigabytes_is_not_read():
    content = b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFFF) + b" " * 100_000
    assert refused(reader(), content)[0] == Reason.BAD_FORMAT


@pytest.mark.parametrize("version", [2, 3])
def test_later_versions_of_the_header_are_read(version):
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n"
    content = with_header(text, np.arange(3, dtype="<f4").tobytes(), version)
    np.testing.assert_array_equal(read(reader(), content, only(reader(), content)), [0, 1, 2])


def test_an_unknown_version_is_refused():
    reason, message = refused(reader(), b"\x93NUMPY\x04\x00" + bytes(100))
    assert reason == Reason.BAD_FORMAT
    assert "(4, 0)" in message


def test_bytes_after_the_array_are_told_and_rejected_if_strict():
    content = npy(np.zeros(10, "f4")) + b"more"
    assert only(reader(), content).warnings == ("4 bytes after the array are left out",)
    assert refused(reader(strict=True), content)[0] == Reason.BAD_FORMAT


def test_a_file_that_shrank_since_is_truncated():
    content = npy(np.zeros(1000, "f4"))
    described = only(reader(), content)
    with pytest.raises(RejectError, match="only 100 of 1000 samples") as error:
        read(reader(), content[: 128 + 400], described)
    assert error.value.reason == Reason.TRUNCATED


def test_errors_of_the_file_pass():
    class Failing(io.BytesIO):
        def readinto(self, buffer):
            raise OSError(5, "broken disk")

    content = npy(np.zeros(1000, "f4"))
    with pytest.raises(OSError, match="broken disk"):
        read(reader(), Failing(content), only(reader(), content))


def test_the_trace_of_obspy_is_as_numpy_reads_it(shared):
    path = shared / "data" / "odd" / "00001034.sgy_first_trace.npy"
    content = path.read_bytes()
    assert_channels(reader(), content, only(reader(), content), np.load(path))
