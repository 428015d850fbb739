"""SAC that ObsPy wrote, in both byte orders; version 7 built by hand."""

import io
import json
import struct
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.formats.seismic.sac import SacReader
from spectrabeam.transforms.formats.settings import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.reading import describe, only, ranges, read

obspy = pytest.importorskip("obspy", reason="the extra 'seismic' is not installed")
START = obspy.UTCDateTime(2024, 2, 29, 12, 34, 56, 789000)
SAMPLES = np.random.default_rng(0).normal(0, 1e3, 1200).astype(np.float32)
PLACES = {"delta": 0, "npts": 316, "nvhdr": 304, "iftype": 340, "leven": 420, "nzyear": 280}


def reader(**more):
    return SacReader(ReadSettings(**more))


def content(samples=SAMPLES, byteorder="<", rate=100.0, **header):
    stats = {"network": "XX", "station": "ABC", "location": "00", "channel": "HHZ", "starttime": START}
    trace = obspy.Trace(samples, stats | {"sampling_rate": rate})
    if header:
        trace.stats.sac = header
    file = io.BytesIO()
    trace.write(file, format="SAC", byteorder=byteorder)
    return file.getvalue()


def changed(content, field, value, order="<"):
    at = PLACES[field]
    return content[:at] + struct.pack(order + ("f" if field == "delta" else "i"), value) + content[at + 4 :]


@pytest.mark.parametrize("byteorder", ["<", ">"])
@given(data=st.data())
def test_any_range_is_the_slice_of_what_was_written(byteorder, data):
    written = content(byteorder=byteorder)
    assert SacReader.matches(written[:4096])
    found = only(reader(), written)
    assert (found.frames, found.sample_rate, found.member, found.unit) == (1200, 100.0, None, None)
    assert found.dtype == f"{byteorder}f4"
    assert found.start_time_ns == START.ns
    start, count = data.draw(ranges(1200))
    np.testing.assert_array_equal(
        read(reader(), written, found, start, count), SAMPLES[start : start + count]
    )


def test_values_that_are_set_become_attributes():
    found = only(reader(), content(evla=48.1, evlo=11.5, mag=5.25, kevnm="QUAKE"))
    assert dict(found.attributes) == {
        "network": "XX", "station": "ABC", "location": "00", "channel": "HHZ", "event": "QUAKE",
        "evla": 48.1, "evlo": 11.5, "mag": 5.25,
    }  # fmt: skip


@pytest.mark.parametrize("rate", [1.0, 40.0, 100.0, 200.0, 12_000.0, 25_600.0, 51_200.0, 44_100.0])
def test_whole_rates_survive_an_interval_in_single_precision(rate):
    assert only(reader(), content(rate=rate)).sample_rate == rate


def test_other_rates_are_the_interval_s():
    assert only(reader(), content(rate=1 / 0.3)).sample_rate == pytest.approx(1 / 0.3, rel=1e-7)


@pytest.mark.parametrize("name", ["test.sac", "test.sac.swap"])
def test_odd_files_are_what_obspy_makes_of_them(shared, name):
    path = shared / "data" / "odd" / name
    expected = json.loads((shared / "data" / "odd" / "expected.json").read_text())["files"][name]
    (known,) = expected["readers"]["obspy"]["traces"]
    found = only(reader(), path)
    assert SacReader.matches(path.read_bytes()[:4096])
    assert (found.frames, found.sample_rate, found.dtype) == (known["frames"], known["rate"], known["dtype"])
    assert found.start_time_ns == obspy.UTCDateTime(known["start"]).ns
    np.testing.assert_array_equal(read(reader(), path, found, 0, 8), np.float32(known["first_raw"]))


def test_version_7_has_interval_and_begin_in_double_precision():
    written = changed(content(), "nvhdr", 7)
    footer = struct.pack("<22d", 1 / 12_345.678, 0.25, *range(20))
    found = only(reader(), written + footer)
    assert found.sample_rate == pytest.approx(12_345.678, rel=1e-15)
    assert found.warnings == ()
    base = found.start_time_ns - 250_000_000
    assert base == START.ns
    assert SacReader.matches((written + footer)[:4096])


def test_file_cut_short_is_used_with_a_warning_or_rejected():
    cut = content()[:-401]
    found = only(reader(), cut)
    assert (found.frames, found.frames_declared) == (1099, 1200)
    assert found.warnings == ("the header promises 1200 samples, 1099 are there",)
    np.testing.assert_array_equal(read(reader(), cut, found), SAMPLES[:1099])
    with pytest.raises(RejectError, match="cut short") as caught:
        describe(reader(strict=True), cut)
    assert caught.value.reason == Reason.TRUNCATED


def test_bytes_after_the_samples_are_left_out():
    found = only(reader(), content() + b"12345678")
    assert (found.frames, found.warnings) == (1200, ("8 bytes after the samples left out",))


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("npts", 0, Reason.EMPTY),
        ("npts", -5, Reason.EMPTY),
        ("nvhdr", 99, Reason.BAD_FORMAT),
        ("iftype", 2, Reason.BAD_FORMAT),
        ("leven", 0, Reason.BAD_FORMAT),
    ],
)
def test_header_that_cannot_be_used_is_rejected(field, value, reason):
    with pytest.raises(RejectError) as caught:
        describe(reader(), changed(content(), field, value))
    assert caught.value.reason == reason


def test_length_that_the_file_does_not_hold_is_not_believed():
    found = only(reader(), changed(content(), "npts", 2**31 - 1))
    assert (found.frames, found.frames_declared) == (1200, 2**31 - 1)


def test_time_and_rate_that_are_not_set_are_none():
    written = changed(changed(content(), "nzyear", -12345), "delta", -12345.0)
    found = only(reader(), written)
    assert (found.start_time_ns, found.sample_rate) == (None, None)


@pytest.mark.parametrize("bad", [b"", b"x" * 100, b"x" * 5000, bytes(632), bytes(5000)])
def test_other_content_is_rejected_and_never_taken_for_sac(bad):
    assert not SacReader.matches(bad[:4096])
    with pytest.raises(RejectError) as caught:
        describe(reader(), bad)
    assert caught.value.reason == (Reason.BAD_FORMAT if bad else Reason.EMPTY)


def test_content_decides_only_where_lengths_agree():
    written = content(SAMPLES[:100])
    assert SacReader.matches(written)
    assert not SacReader.matches(written + b"1")
    assert not SacReader.matches(content()[:3000])
    assert not SacReader.matches(changed(written, "delta", -1.0))


def test_no_package_is_needed(monkeypatch):
    written = content()
    monkeypatch.setitem(sys.modules, "obspy", None)
    assert only(reader(), written).frames == 1200


@pytest.mark.parametrize(("scale", "factor"), [("auto", 1.0), ("none", 1.0), ("pcm", 1.0), (0.25, 0.25)])
def test_scale(scale, factor):
    written = content()
    np.testing.assert_array_equal(
        read(reader(scale=scale), written, only(reader(), written)), SAMPLES * np.float32(factor)
    )


def test_floats_cannot_be_kept_as_int16():
    written = content()
    with pytest.raises(RejectError) as caught:
        read(reader(), written, only(reader(), written), dtype=np.int16)
    assert caught.value.reason == Reason.DTYPE_MISMATCH
