"""miniSEED that ObsPy wrote, and odd files of others, against ObsPy reading the whole."""

import io
import json
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrabeam.transforms.formats.base import MissingExtraError
from spectrabeam.transforms.formats.seismic.mseed import MseedReader
from spectrabeam.transforms.formats.seismic.mseed_index import parse_record
from spectrabeam.transforms.formats.settings import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.reading import describe, only, ranges, read

obspy = pytest.importorskip("obspy", reason="the extra 'seismic' is not installed")
ENCODINGS = {
    "INT16": np.int16, "INT32": np.int32, "STEIM1": np.int32, "STEIM2": np.int32, "FLOAT32": np.float32,
    "FLOAT64": np.float64,
}  # fmt: skip
ODD = ["gaps", "two_channels", "brokenlastrecord", "float64_Float64_littleEndian", "int32_Steim2_bigEndian"]
START = obspy.UTCDateTime(2024, 2, 29, 23, 59, 59, 123456)


def reader(**more):
    return MseedReader(ReadSettings(**more))


def samples_of(dtype, frames, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.normal(0, 1000, frames).astype(dtype)
    return np.clip(rng.normal(0, 5000, frames), -30000, 30000).astype(dtype)


def trace(samples, channel="HHZ", start=START, rate=100.0, station="ABC"):
    header = {"network": "XX", "station": station, "location": "00", "channel": channel}
    return obspy.Trace(samples, header | {"starttime": start, "sampling_rate": rate})


def content(*traces, **more):
    file = io.BytesIO()
    obspy.Stream(list(traces)).write(file, format="MSEED", **({"reclen": 512} | more))
    return file.getvalue()


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("encoding", ENCODINGS)
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_any_range_is_the_slice_of_what_was_written(encoding, byteorder, data):
    samples = samples_of(ENCODINGS[encoding], 1500)
    written = content(trace(samples), encoding=encoding, byteorder=byteorder)
    assert MseedReader.matches(written[:4096])
    found = only(reader(), written)
    assert (found.frames, found.sample_rate, found.member) == (1500, 100.0, "XX.ABC.00.HHZ")
    assert found.start_time_ns == START.ns
    assert found.unit == (None if samples.dtype.kind == "f" else "counts")
    assert found.attributes["station"] == "ABC"
    assert found.attributes["encoding"] == encoding
    start, count = data.draw(ranges(1500))
    expected = samples[start : start + count].astype(np.float32)
    np.testing.assert_array_equal(read(reader(), written, found, start, count), expected)


def test_long_files_of_interleaved_channels_are_read_by_range(tmp_path):
    parts = [(samples_of(np.int32, 40_000, seed), f"HH{name}") for seed, name in enumerate("ENZ")]
    pieces = []
    for first in range(0, 40_000, 10_000):  # as data loggers write: some records of each channel in turn
        pieces += [
            content(trace(samples[first : first + 10_000], channel, START + first / 100))
            for samples, channel in parts
        ]
    path = tmp_path / "a[1]*?.mseed"
    path.write_bytes(b"".join(pieces))
    mseed = reader()
    described = describe(mseed, path)
    assert [each.member for each in described] == [f"XX.ABC.00.HH{name}" for name in "ENZ"]
    for found, (samples, _) in zip(described, parts, strict=True):
        assert found.frames == 40_000
        np.testing.assert_array_equal(read(mseed, path, found), samples.astype(np.float32))
        np.testing.assert_array_equal(read(mseed, path, found, 9_990, 25_000), samples[9_990:34_990])


def test_name_like_an_address_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "http:__x.mseed"
    path.write_bytes(content(trace(samples_of(np.int32, 100))))
    assert read(reader(), path, only(reader(), path)).shape == (100,)


def test_gaps_are_never_bridged_and_overlaps_are_recordings_of_their_own():
    samples = samples_of(np.int32, 3000)
    pieces = [
        trace(samples[:1000]), trace(samples[1000:2000], start=START + 10), trace(samples[2000:], start=START + 21),
        trace(samples[:500], start=START + 15),
    ]  # fmt: skip
    written = b"".join(map(content, pieces))
    described = describe(reader(), written)
    assert [each.frames for each in described] == [2000, 1000, 500]
    assert [each.member for each in described] == [
        f"XX.ABC.00.HHZ@{start}" for start in (START, START + 21, START + 15)
    ]
    assert [each.start_time_ns for each in described] == [START.ns, (START + 21).ns, (START + 15).ns]
    assert described[0].warnings == described[1].warnings == ()
    assert described[2].warnings == ("it begins before the trace's stretch before it ends",)
    for found, expected in zip(described, (samples[:2000], samples[2000:], samples[:500]), strict=True):
        np.testing.assert_array_equal(read(reader(), written, found), expected.astype(np.float32))


def test_same_stretch_twice_has_two_names():
    written = content(trace(samples_of(np.int32, 100))) * 2
    names = [each.member for each in describe(reader(), written)]
    assert names == [f"XX.ABC.00.HHZ@{START}", f"XX.ABC.00.HHZ@{START}#2"]


def test_rates_of_channels_are_their_own():
    written = content(
        trace(samples_of(np.int32, 100), "HHZ", rate=100.0),
        trace(samples_of(np.int32, 50), "LHZ", rate=1.0),
        trace(samples_of(np.int32, 50), "VHZ", rate=0.1),
        trace(samples_of(np.int32, 50), "XHZ", rate=12.345678),
    )
    found = {each.attributes["channel"]: each.sample_rate for each in describe(reader(), written)}
    read_by_obspy = {each.stats.channel: each.stats.sampling_rate for each in obspy.read(io.BytesIO(written))}
    assert found == pytest.approx(read_by_obspy, rel=1e-9)
    assert (found["HHZ"], found["LHZ"]) == (100.0, 1.0)


def test_members_are_chosen_by_pattern():
    written = content(*(trace(samples_of(np.int32, 100), f"HH{name}") for name in "ENZ"))
    assert [each.member for each in describe(reader(members=("*Z",)), written)] == ["XX.ABC.00.HHZ"]
    with pytest.raises(RejectError, match="no member fits members=BHZ: the file holds XX") as caught:
        describe(reader(members=("BHZ",)), written)
    assert caught.value.reason == Reason.NO_MEMBER


def test_int16_records_are_kept_as_they_came_and_others_are_not():
    samples = samples_of(np.int16, 300)
    written = content(trace(samples), encoding="INT16")
    found = only(reader(), written)
    assert found.dtype == "<i2"
    np.testing.assert_array_equal(read(reader(), written, found, dtype=np.int16), samples)
    packed = content(trace(samples.astype(np.int32)), encoding="STEIM2")
    with pytest.raises(RejectError) as caught:
        read(reader(), packed, only(reader(), packed), dtype=np.int16)
    assert caught.value.reason == Reason.DTYPE_MISMATCH


@pytest.mark.parametrize(("scale", "factor"), [("none", 1.0), (0.5, 0.5), ("pcm", 2.0**-31)])
def test_scale_gives_counts_or_a_multiple_of_them(scale, factor):
    samples = samples_of(np.int32, 300)
    written = content(trace(samples))
    found = only(reader(scale=scale), written)
    assert found.unit == ("counts" if scale == "none" else None)
    expected = (samples * factor).astype(np.float32)
    np.testing.assert_array_equal(read(reader(scale=scale), written, found), expected)


@pytest.mark.filterwarnings("ignore::obspy.io.mseed.InternalMSEEDWarning")
@pytest.mark.parametrize("name", ODD)
def test_odd_files_are_what_obspy_makes_of_them(shared, name):
    path = shared / "data" / "odd" / f"{name}.mseed"
    expected = json.loads((shared / "data" / "odd" / "expected.json").read_text())["files"][path.name]
    expected = expected["readers"]["obspy"]["traces"]
    described = describe(reader(), path)
    assert MseedReader.matches(path.read_bytes()[:4096])
    assert len(described) == len(expected) == len({each.member for each in described})
    for found, known in zip(described, expected, strict=True):
        assert (found.frames, found.sample_rate, found.dtype) == (
            known["frames"],
            known["rate"],
            known["dtype"],
        )
        assert found.start_time_ns == obspy.UTCDateTime(known["start"]).ns
        np.testing.assert_array_equal(read(reader(), path, found, 0, 8), np.float32(known["first_raw"]))
    whole = obspy.read(io.BytesIO(path.read_bytes()), format="MSEED")
    for found, known in zip(described, whole, strict=True):
        np.testing.assert_array_equal(read(reader(), path, found), known.data.astype(np.float32))


def test_broken_last_record_is_left_out_with_a_warning_or_rejected(shared):
    path = shared / "data" / "odd" / "brokenlastrecord.mseed"
    found = only(reader(), path)
    assert found.frames == 5980
    assert found.warnings == ("2206 bytes, the first at byte 4096, are no miniSEED records",)
    with pytest.raises(RejectError) as caught:
        describe(reader(strict=True), path)
    assert caught.value.reason == Reason.TRUNCATED


def test_cut_last_record_is_left_out_and_its_samples_are_counted():
    samples = samples_of(np.int32, 2000)
    written = content(trace(samples), encoding="INT32")
    cut = written[:-100]
    found = only(reader(), cut)
    assert found.frames_declared == 2000
    assert found.frames == obspy.read(io.BytesIO(cut), format="MSEED")[0].stats.npts < 2000
    assert len(found.warnings) == 1
    assert "the last record is cut short: 412 of 512 bytes" in found.warnings[0]
    np.testing.assert_array_equal(read(reader(), cut, found), samples[: found.frames].astype(np.float32))
    with pytest.raises(RejectError, match="the last record is cut short") as caught:
        describe(reader(strict=True), cut)
    assert caught.value.reason == Reason.TRUNCATED


def test_file_with_only_a_cut_record_is_rejected():
    written = content(trace(samples_of(np.int32, 20)))[:400]
    (found,) = describe(reader(), written)
    assert isinstance(found, RejectError)
    assert (found.reason, found.member) == (Reason.TRUNCATED, "XX.ABC.00.HHZ")


@pytest.mark.parametrize("at", [70, 130, 300])
def test_damaged_packed_samples_are_corrupt_by_their_own_check(at):
    written = bytearray(content(trace(samples_of(np.int32, 3000)), encoding="STEIM1"))
    written[512 + at] ^= 0x55
    written = bytes(written)
    found = only(reader(), written)
    with pytest.raises(RejectError) as caught:
        read(reader(), written, found)
    assert caught.value.reason == Reason.CORRUPT
    assert "\n" not in str(caught.value)
    last = read(reader(), written, found, found.frames - 50, 50)  # other records are not harmed
    assert last.shape == (50,)


def test_noise_between_records_is_skipped_with_a_warning():
    parts = (
        content(trace(samples_of(np.int32, 100))),
        content(trace(samples_of(np.int32, 100), start=START + 1)),
    )
    found = only(reader(), parts[0] + b"\xff" * 256 + parts[1])
    assert found.frames == 200
    assert found.warnings == ("256 bytes, the first at byte 512, are no miniSEED records",)
    with pytest.raises(RejectError) as caught:
        describe(reader(strict=True), parts[0] + b"\xff" * 256 + parts[1])
    assert caught.value.reason == Reason.CORRUPT
    assert (
        only(reader(strict=True), parts[0] + b" " * 256 + parts[1]).warnings == ()
    )  # blank records are noise


def test_text_records_are_taken_only_if_asked_for():
    log = trace(np.frombuffer(b"hello world", "S1"), channel="LOG")
    written = content(log, encoding="ASCII") + content(trace(samples_of(np.int32, 100)))
    assert [each.member for each in describe(reader(), written)] == ["XX.ABC.00.HHZ"]
    (found,) = describe(reader(members=("*LOG",)), written)
    assert isinstance(found, RejectError)
    assert (found.reason, found.member) == (Reason.BAD_FORMAT, "XX.ABC.00.LOG")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"", Reason.EMPTY),
        (b"MS\x03" + bytes(200), Reason.BAD_FORMAT),
        (b"000001D ", Reason.BAD_FORMAT),
        (b"\xff" * 5000, Reason.BAD_FORMAT),
        (b" " * 5000, Reason.BAD_FORMAT),
        (bytes(1 << 20), Reason.BAD_FORMAT),
        (b"000001V 010009502.1080\0\0~" + bytes(9000), Reason.BAD_FORMAT),
    ],
)
def test_other_content_is_rejected(bad, reason):
    with pytest.raises(RejectError) as caught:
        describe(reader(), bad)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (6, b"X"),
        (0, b"abcdef"),
        (20, b"\x00\x00"),
        (22, b"\x03\xff"),
        (24, b"\x63"),
        (8, b"\xff"),
        ("length", b"\x1f"),
        ("length", b"\3"),
    ],
)
def test_record_that_cannot_be_is_none(at, value):
    written = bytearray(content(trace(samples_of(np.int32, 100)), byteorder=">"))
    assert parse_record(bytes(written)) is not None
    at = written.index(b"\x03\xe8", 48) + 6 if at == "length" else at  # in blockette 1000
    written[at : at + len(value)] = value
    assert parse_record(bytes(written)) is None
    assert not MseedReader.matches(bytes(written))


def test_samples_that_a_header_only_claims_are_corrupt():
    written = bytearray(content(trace(samples_of(np.int32, 100)), byteorder=">"))
    written[30:32] = b"\xff\xff"
    found = only(reader(), bytes(written))
    assert found.frames == 65535
    with pytest.raises(RejectError) as caught:
        read(reader(), bytes(written), found, 0, 10)
    assert caught.value.reason == Reason.CORRUPT


def test_range_beyond_the_end_is_truncated():
    written = content(trace(samples_of(np.int32, 100)))
    with pytest.raises(RejectError, match="only 1 of 2 samples could be read from sample 99") as caught:
        read(reader(), written, only(reader(), written), 99, 2)
    assert caught.value.reason == Reason.TRUNCATED


def test_threads_read_at_once(tmp_path):
    samples = samples_of(np.int32, 50_000)
    path = tmp_path / "a.mseed"
    path.write_bytes(content(trace(samples)))
    mseed, wrong = reader(), []
    found = only(mseed, path)

    def check(seed):
        for start in np.random.default_rng(seed).integers(0, 49_000, 20):
            if not np.array_equal(read(mseed, path, found, int(start), 1000), samples[start : start + 1000]):
                wrong.append(start)

    threads = [threading.Thread(target=check, args=(seed,)) for seed in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []


def test_missing_package_is_named(monkeypatch):
    written = content(trace(samples_of(np.int32, 100)))
    monkeypatch.setitem(sys.modules, "obspy", None)
    with pytest.raises(
        MissingExtraError, match=r"miniSEED needs obspy: pip install 'spectrabeam\[seismic\]'"
    ):
        describe(reader(), written)
