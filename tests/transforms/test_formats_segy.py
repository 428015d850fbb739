"""SEG-Y that ObsPy wrote in each of its encodings and byte orders, against ObsPy reading the whole."""

import io
import json
import struct
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrabeam.transforms.formats.seismic.segy import SegyReader, from_ibm
from spectrabeam.transforms.formats.settings import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.reading import describe, only, ranges, read

obspy = pytest.importorskip("obspy", reason="the extra 'seismic' is not installed")
ENCODINGS = {1: np.float32, 2: np.int32, 3: np.int16, 5: np.float32}
START = obspy.UTCDateTime(2009, 6, 22, 14, 47, 37)
LENGTHS = (300, 120, 451)


def reader(**more):
    return SegyReader(ReadSettings(**more))


def samples_of(encoding, frames, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(0, 1000, frames)).astype(ENCODINGS[encoding])


def content(encoding=5, byteorder=">", lengths=LENGTHS):
    traces = [
        obspy.Trace(samples_of(encoding, frames, seed), {"sampling_rate": 500.0, "starttime": START})
        for seed, frames in enumerate(lengths)
    ]
    file = io.BytesIO()
    obspy.Stream(traces).write(
        file, format="SEGY", data_encoding=encoding, byteorder=byteorder, textual_header_encoding="EBCDIC"
    )
    return file.getvalue()


@pytest.fixture(scope="module")
def written():
    return {(encoding, order): content(encoding, order) for encoding in ENCODINGS for order in "<>"}


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("encoding", ENCODINGS)
@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_any_range_of_any_trace_is_what_obspy_reads(written, encoding, byteorder, data):
    file = written[encoding, byteorder]
    whole = obspy.read(io.BytesIO(file), format="SEGY")
    described = describe(reader(), file)
    assert [each.member for each in described] == ["1", "2", "3"]
    assert [each.frames for each in described] == list(LENGTHS)
    assert {each.sample_rate for each in described} == {500.0}
    assert {each.start_time_ns for each in described} == {START.ns}
    number = data.draw(st.integers(0, 2))
    start, count = data.draw(ranges(LENGTHS[number]))
    expected = whole[number].data[start : start + count].astype(np.float32)
    np.testing.assert_array_equal(read(reader(), file, described[number], start, count), expected)
    if encoding != 1:
        original = samples_of(encoding, LENGTHS[number], number)[start : start + count]
        np.testing.assert_array_equal(expected, original.astype(np.float32))


@given(st.integers(0, 2**32 - 1))
def test_ibm_floats_are_sign_fraction_and_power_of_sixteen(bits):
    found = from_ibm(np.array([bits], ">u4"))[0]
    expected = (-1) ** (bits >> 31) * (bits & 0xFFFFFF) / 2**24 * 16.0 ** ((bits >> 24 & 0x7F) - 64)
    assert found == expected


def test_int16_samples_are_kept_as_they_came():
    file = content(3)
    found = describe(reader(), file)[0]
    assert found.dtype == ">i2"
    np.testing.assert_array_equal(read(reader(), file, found, dtype=np.int16), samples_of(3, 300))


def test_odd_file_is_what_obspy_makes_of_it(shared):
    path = shared / "data" / "odd" / "00001034.sgy_first_trace"
    expected = json.loads((shared / "data" / "odd" / "expected.json").read_text())["files"][path.name]
    (known,) = expected["readers"]["obspy"]["traces"]
    found = only(reader(), path)
    assert SegyReader.matches(path.read_bytes()[:4096])
    assert (found.frames, found.sample_rate) == (known["frames"], known["rate"])
    assert found.start_time_ns == obspy.UTCDateTime(known["start"]).ns
    samples = read(reader(), path, found)
    np.testing.assert_array_equal(samples[:8], np.float32(known["first_raw"]))
    np.testing.assert_array_equal(samples, np.load(f"{path}.npy")[0])


def test_content_decides_where_the_text_header_begins_as_such(written):
    card = "C 1 made by a test".ljust(3200).encode("cp037")
    for (_, _), file in written.items():
        assert SegyReader.matches((card + file[3200:])[:4096])
        assert SegyReader.matches((b"C 1" + file[3:])[:4096])
        assert not SegyReader.matches((b"D 1" + file[3:])[:4096])
    assert not SegyReader.matches(card)
    assert not SegyReader.matches(card + bytes(896))


def test_members_are_trace_numbers(written):
    file = written[5, ">"]
    assert [each.frames for each in describe(reader(members=("2",)), file)] == [120]
    with pytest.raises(RejectError) as caught:
        describe(reader(members=("7",)), file)
    assert caught.value.reason == Reason.NO_MEMBER


def test_last_trace_cut_short_is_used_with_a_warning_or_rejected(written):
    cut = written[5, ">"][:-402]
    last = describe(reader(), cut)[-1]
    assert (last.frames, last.frames_declared) == (350, 451)
    assert last.warnings == ("the trace header promises 451 samples, 350 are there",)
    np.testing.assert_array_equal(read(reader(), cut, last), samples_of(5, 451, 2)[:350])
    described = describe(reader(strict=True), cut)
    assert [isinstance(each, RejectError) for each in described] == [False, False, True]
    assert (described[-1].reason, described[-1].member) == (Reason.TRUNCATED, "3")


def test_unit_is_the_trace_s():
    file = bytearray(content())
    file[3600 + 202 : 3600 + 204] = struct.pack(">h", 7)
    assert describe(reader(), bytes(file))[0].unit == "m/s^2"
    assert describe(reader(scale=2.0), bytes(file))[0].unit is None
    assert describe(reader(), bytes(file))[1].unit is None


def test_length_and_interval_come_from_the_file_header_where_a_trace_has_none():
    file = bytearray(content(lengths=(300,)))
    file[3600 + 114 : 3600 + 118] = bytes(4)
    found = only(reader(), bytes(file))
    assert (found.frames, found.sample_rate) == (300, 500.0)


def test_day_that_is_not_set_gives_no_time():
    file = bytearray(content(lengths=(300,)))
    file[3600 + 158 : 3600 + 160] = bytes(2)
    assert only(reader(), bytes(file)).start_time_ns is None


def test_extended_text_headers_are_skipped():
    file = bytearray(content(lengths=(300,)))
    file[3500:3502] = b"\1\0"
    file[3504:3506] = struct.pack(">h", 2)
    longer = bytes(file[:3600]) + b" " * 6400 + bytes(file[3600:])
    np.testing.assert_array_equal(read(reader(), longer, only(reader(), longer)), samples_of(5, 300))
    file[3504:3506] = struct.pack(">h", -1)
    with pytest.raises(RejectError, match="variable number") as caught:
        describe(reader(), bytes(file))
    assert caught.value.reason == Reason.BAD_FORMAT


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"", Reason.EMPTY),
        (b"C 1", Reason.TRUNCATED),
        (bytes(4000), Reason.BAD_FORMAT),
        (b"\xff" * 4000, Reason.BAD_FORMAT),
        (content()[:3600], Reason.EMPTY),
        (content()[:3700], Reason.EMPTY),
    ],
)
def test_other_content_is_rejected(bad, reason):
    with pytest.raises(RejectError) as caught:
        describe(reader(), bad)
    assert caught.value.reason == reason


def test_traces_that_say_no_length_are_corrupt():
    file = bytearray(content(lengths=(300,)))
    file[3220:3222] = file[3600 + 114 : 3600 + 116] = bytes(2)
    with pytest.raises(RejectError, match="promises no samples") as caught:
        describe(reader(), bytes(file))
    assert caught.value.reason == Reason.CORRUPT


def test_no_package_is_needed(written, monkeypatch):
    monkeypatch.setitem(sys.modules, "obspy", None)
    assert len(describe(reader(), written[1, ">"])) == 3
