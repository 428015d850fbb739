"""TDMS that npTDMS wrote, and the real files that its package brings, against npTDMS reading the whole."""

import io
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrabeam.transforms.formats.base import MissingExtraError
from spectrabeam.transforms.formats.measurement.tdms import TdmsReader
from spectrabeam.transforms.formats.settings import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.reading import describe, only, ranges, read

nptdms = pytest.importorskip("nptdms", reason="the extra 'tdms' is not installed")
REAL = sorted((Path(nptdms.__file__).parent / "test" / "data").glob("*.tdms"))
START = np.datetime64("2024-05-06T07:08:09.123456", "us")
WAVE = {"wf_increment": 1 / 25_600, "wf_start_time": START, "wf_start_offset": 0.0, "unit_string": "g"}
TYPES = ["<i1", "<i2", "<i4", "<i8", "<u1", "<u2", "<u4", "<u8", "<f4", "<f8", "<c8", "<c16"]
LINEAR = {
    "NI_Number_Of_Scales": 1, "NI_Scaling_Status": "unscaled", "NI_Scale[0]_Scale_Type": "Linear",
    "NI_Scale[0]_Linear_Slope": 0.25, "NI_Scale[0]_Linear_Y_Intercept": -3.0,
    "NI_Scale[0]_Linear_Input_Source": 0xFFFFFFFF,
}  # fmt: skip


def reader(**more):
    return TdmsReader(ReadSettings(**more))


def samples_of(dtype, frames, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "c":
        return (rng.normal(size=frames) + 1j * rng.normal(size=frames)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        return rng.normal(0, 100, frames).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, frames, dtype=dtype, endpoint=True)


def content(segments, *, root=None, group=None, interleaved=False):
    """Segments of {(group, channel): (samples, properties)}."""
    file = io.BytesIO()
    with nptdms.TdmsWriter(file) as writer:
        for number, segment in enumerate(segments):
            objects = [nptdms.ChannelObject(*path, *each) for path, each in segment.items()]
            if number == 0:
                objects = [nptdms.RootObject(root or {}), nptdms.GroupObject("vib", group or {}), *objects]
            writer.write_segment(objects)
    return interleave(file.getvalue()) if interleaved else file.getvalue()


def interleave(written):
    """The same bytes of samples, declared to be interleaved: rows of one sample a channel."""
    changed = bytearray(written)
    at = 0
    while at < len(changed):
        assert changed[at : at + 4] == b"TDSm"
        changed[at + 4] |= 1 << 5
        at += 28 + struct.unpack_from("<Q", changed, at + 12)[0]
    return bytes(changed)


def wave(*parts, properties=WAVE):
    return [{("vib", name): (samples, properties) for name, samples in part.items()} for part in parts]


@pytest.mark.parametrize(
    ("dtype", "interleaved"),  # npTDMS cannot read interleaved complex samples
    [
        (dtype, interleaved)
        for dtype in TYPES
        for interleaved in (False, True)
        if not (interleaved and "c" in dtype)
    ],
)
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_any_range_of_any_channel_is_what_nptdms_reads(dtype, interleaved, data):
    parts = [
        {name: samples_of(dtype, frames, seed) for seed, name in enumerate("xyz")} for frames in (50, 50, 17)
    ]
    written = content(wave(*parts), interleaved=interleaved)
    assert TdmsReader.matches(written[:4096])
    whole = nptdms.TdmsFile.read(io.BytesIO(written))["vib"]
    found = only(reader(), written)
    assert (found.member, found.frames, found.channels, found.sample_rate) == ("vib", 117, 3, 25_600.0)
    assert (found.channel_names, found.unit, found.dtype) == (("x", "y", "z"), "g", np.dtype(dtype).str)
    assert found.start_time_ns == START.astype("M8[ns]").astype(np.int64)
    assert found.is_complex == (np.dtype(dtype).kind == "c")
    out_type = np.complex64 if found.is_complex else np.float32
    start, count = data.draw(ranges(117))
    channel = data.draw(st.integers(0, 2))
    with np.errstate(over="ignore"):
        expected = whole["xyz"[channel]][start : start + count].astype(out_type)
    np.testing.assert_array_equal(read(reader(), written, found, start, count, channel, out_type), expected)
    if not interleaved:
        original = np.concatenate([part["xyz"[channel]] for part in parts])[start : start + count]
        np.testing.assert_array_equal(original.astype(out_type), expected)


@pytest.mark.parametrize("values", [1, 7, 40_000])
@pytest.mark.parametrize("interleaved", [False, True])
def test_many_chunks_in_one_segment_are_read_by_range(values, interleaved):
    """LabVIEW appends samples to a segment without new metadata: the same chunk again and again."""
    chunks = 100 if values < 1000 else 3
    parts = [{"x": samples_of("<i2", values), "y": samples_of("<i2", values, 1)}]
    written = content(wave(*parts), interleaved=interleaved)
    size, raw = struct.unpack_from("<QQ", written, 12)
    data = written[28 + raw :]
    extra = b"".join(np.roll(np.frombuffer(data, "<i2"), k).tobytes() for k in range(1, chunks))
    written = written[:12] + struct.pack("<Q", size + len(extra)) + written[20:] + extra
    whole = nptdms.TdmsFile.read(io.BytesIO(written))["vib"]
    found = only(reader(), written)
    assert found.frames == values * chunks
    for channel, name in enumerate("xy"):
        expected = whole[name][:].astype(np.float32)
        np.testing.assert_array_equal(read(reader(), written, found, channel=channel), expected)
        start, count = values * chunks // 3, values * chunks // 2
        np.testing.assert_array_equal(
            read(reader(), written, found, start, count, channel), expected[start : start + count]
        )


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_files_are_what_nptdms_makes_of_them(path):
    whole = nptdms.TdmsFile.read(path)
    described = [each for each in describe(reader(), path) if not isinstance(each, RejectError)]
    seen = 0
    for found in described:
        group, _, channel = found.member.partition("/")
        names = found.channel_names if found.member in whole else (channel,)
        group = found.member if found.member in whole else group
        for number, name in enumerate(names):
            expected = whole[group][name][: found.frames].astype(np.float32)
            np.testing.assert_array_equal(read(reader(), path, found, channel=number), expected)
            if found.frames > 10:
                np.testing.assert_array_equal(read(reader(), path, found, 3, 6, number), expected[3:9])
            seen += 1
    numeric = [
        each
        for group in whole.groups()
        for each in group.channels()
        if each.dtype.kind in "iuf" and len(each)
    ]
    assert seen == len(numeric)


def test_scaled_channels_are_in_their_unit_and_raw_by_choice():
    raw = samples_of("<i2", 100)
    written = content(wave({"x": raw}, properties=WAVE | LINEAR))
    found = only(reader(), written)
    assert (found.unit, found.dtype) == ("g", "<i2")
    expected = (raw * 0.25 - 3.0).astype(np.float32)
    np.testing.assert_array_equal(read(reader(), written, found, 10, 50), expected[10:60])
    unscaled = only(reader(scale="none"), written)
    assert unscaled.unit is None
    np.testing.assert_array_equal(read(reader(scale="none"), written, unscaled), raw)
    np.testing.assert_array_equal(read(reader(scale=0.5), written, unscaled), raw * np.float32(0.5))
    np.testing.assert_array_equal(read(reader(), written, found, dtype=np.int16), raw)


def test_channels_that_differ_are_recordings_of_their_own():
    slow = {"wf_increment": 0.1, "unit_string": "degC"}
    written = content([{
        ("vib", "x"): (samples_of("<f4", 100), WAVE), ("vib", "y"): (samples_of("<f4", 100), WAVE),
        ("mixed", "a"): (samples_of("<f4", 100), WAVE), ("mixed", "b"): (samples_of("<f4", 10), slow),
    }])  # fmt: skip
    described = describe(reader(), written)
    assert [(each.member, each.channels, each.frames, each.sample_rate, each.unit) for each in described] == [
        ("vib", 2, 100, 25_600.0, "g"), ("mixed/a", 1, 100, 25_600.0, "g"), ("mixed/b", 1, 10, 10.0, "degC"),
    ]  # fmt: skip
    np.testing.assert_array_equal(read(reader(), written, described[2]), samples_of("<f4", 10))
    assert [each.member for each in describe(reader(members=("mixed/*",)), written)] == ["mixed/a", "mixed/b"]


def test_units_that_differ_are_listed():
    samples = samples_of("<f4", 9)
    written = content(
        [{("vib", "x"): (samples, WAVE), ("vib", "p"): (samples, WAVE | {"unit_string": "Pa"})}]
    )
    found = only(reader(), written)
    assert found.unit is None
    assert found.attributes["units"] == "g,Pa"


def test_text_is_taken_only_if_asked_for():
    written = content([{("vib", "x"): (samples_of("<f4", 9), WAVE), ("vib", "note"): (["a", "b"], {})}])
    assert only(reader(), written).channel_names == ("x",)
    (found,) = describe(reader(members=("vib/note",)), written)
    assert isinstance(found, RejectError)
    assert (found.reason, found.member) == (Reason.BAD_FORMAT, "vib/note")


def test_properties_become_attributes_the_nearest_first():
    written = content(wave({"x": samples_of("<f4", 9)}), root={"who": "me", "rpm": 1}, group={"rpm": 1797})
    attributes = only(reader(), written).attributes
    assert (attributes["who"], attributes["rpm"], attributes["unit_string"]) == ("me", 1797, "g")


@pytest.mark.parametrize(
    ("increment", "rate"),
    [(1 / 25_600, 25_600.0), (1 / 44_100, 44_100.0), (0.1, 10.0), (1 / 3.7, 3.7), (0.0, None), (-0.5, -2.0)],
)
def test_rate_is_one_by_the_increment(increment, rate):
    written = content(wave({"x": samples_of("<f4", 9)}, properties={"wf_increment": increment}))
    found = only(reader(), written).sample_rate
    assert found == (pytest.approx(rate, rel=1e-15) if rate else None)


def test_rate_and_time_by_keys_where_there_are_no_waveform_properties():
    properties = {"Rate": 1000.0, "When": "2024-01-01T00:00:00Z"}
    written = content(wave({"x": samples_of("<f4", 9)}, properties=properties))
    assert only(reader(), written).sample_rate is None
    found = only(reader(rate_key="Rate", time_key="When"), written)
    assert (found.sample_rate, found.start_time_ns) == (1000.0, 1_704_067_200 * 10**9)
    other = content(wave({"x": samples_of("<f4", 9)}, properties=WAVE | properties))
    assert only(reader(rate_key="Rate"), other).sample_rate == 25_600.0


def test_start_is_exact_with_its_offset_and_none_at_labview_s_epoch():
    late = content(wave({"x": samples_of("<f4", 9)}, properties=WAVE | {"wf_start_offset": 0.5}))
    assert only(reader(), late).start_time_ns == START.astype("M8[ns]").astype(np.int64) + 500_000_000
    unset = content(
        wave(
            {"x": samples_of("<f4", 9)},
            properties=WAVE | {"wf_start_time": np.datetime64("1904-01-01", "us")},
        )
    )
    assert only(reader(), unset).start_time_ns is None


def test_interrupted_file_is_used_to_its_last_whole_sample_or_rejected():
    parts = [{"x": samples_of("<f4", 100), "y": samples_of("<f4", 100, 1)}] * 2
    written = content(wave(*parts))
    cut = written[:-150]  # 37 samples and a half of y
    found = only(reader(), cut)
    assert (found.frames, found.channels) == (162, 2)
    assert found.warnings == ("the last segment is cut short",)
    expected = np.concatenate([part["y"] for part in parts])[:162]
    np.testing.assert_array_equal(read(reader(), cut, found, channel=1), expected)
    with pytest.raises(RejectError) as caught:
        describe(reader(strict=True), cut)
    assert caught.value.reason == Reason.TRUNCATED


def test_segment_of_unknown_length_reaches_to_the_end():
    """LabVIEW writes all ones, and the true length only when it closes the file."""
    written = content(wave({"x": samples_of("<f4", 100)}))
    crashed = written[:12] + b"\xff" * 8 + written[20:]
    found = only(reader(), crashed)
    assert found.frames == 100
    assert found.warnings == ("the last segment is cut short",)
    np.testing.assert_array_equal(read(reader(), crashed, found), samples_of("<f4", 100))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"", Reason.EMPTY),
        (b"TDSm", Reason.EMPTY),
        (b"TDSm" + b"\xff" * 100, Reason.EMPTY),
        (b"\xff" * 100, Reason.BAD_FORMAT),
        (b"TDSm\x0e\0\0\0\x69\x12\0\0" + struct.pack("<QQ", 100, 100) + b"\xff" * 100, Reason.BAD_FORMAT),
        (content([{}]), Reason.EMPTY),
        (content([{("vib", "x"): (np.zeros(0, "<f4"), {})}]), Reason.EMPTY),
    ],
)
def test_other_content_is_rejected(bad, reason):
    try:
        (error,) = describe(reader(), bad)
    except RejectError as raised:
        error = raised
    assert error.reason == reason
    assert "\n" not in str(error)


def test_lengths_that_the_metadata_only_claims_reserve_nothing():
    written = content(wave({"x": samples_of("<f4", 100)}))
    at = written.index(b"/'vib'/'x'") + 10
    claimed = written[: at + 12] + struct.pack("<Q", 2**40) + written[at + 20 :]
    for bad in (claimed, interleave(claimed)):
        try:
            for found in describe(reader(), bad):
                if not isinstance(found, RejectError):
                    assert found.frames <= 100
                    assert len(read(reader(), bad, found)) == found.frames
        except RejectError as error:
            assert error.reason in (Reason.BAD_FORMAT, Reason.EMPTY)  # noqa: PT017


@pytest.mark.parametrize(
    "properties",
    [
        {"NI_Number_Of_Scales": 2_000_000_000},
        {f"NI_Scale[{k}]_Scale_Type": "Add" for k in range(40)},
        {"NI_Scale[99999999999999999999]_Scale_Type": "Linear"},
        {"NI_Scale[0]_Scale_Type": "Polynomial", "NI_Scale[0]_Polynomial_Coefficients_Size": 2_000_000_000},
    ],
)
def test_scales_that_take_for_ever_are_rejected(properties):
    written = content(wave({"x": samples_of("<f4", 100)}, properties=properties))
    with pytest.raises(RejectError) as caught:
        describe(reader(), written)
    assert caught.value.reason == Reason.BAD_FORMAT


def test_range_beyond_the_end_is_truncated():
    written = content(wave({"x": samples_of("<f4", 100)}))
    with pytest.raises(RejectError, match="only 1 of 2 samples") as caught:
        read(reader(), written, only(reader(), written), 99, 2)
    assert caught.value.reason == Reason.TRUNCATED


def test_index_file_beside_it_is_not_read(tmp_path):
    path = tmp_path / "a[1].tdms"
    path.write_bytes(content(wave({"x": samples_of("<f4", 100)})))
    (tmp_path / "a[1].tdms_index").write_bytes(b"rubbish")
    np.testing.assert_array_equal(read(reader(), path, only(reader(), path)), samples_of("<f4", 100))


def test_missing_package_is_named(monkeypatch):
    written = content(wave({"x": samples_of("<f4", 100)}))
    monkeypatch.setitem(sys.modules, "nptdms", None)
    with pytest.raises(MissingExtraError, match=r"TDMS needs nptdms: pip install 'spectrabeam\[tdms\]'"):
        describe(reader(), written)
