"""GSE2, SLIST and TSPAIR that ObsPy wrote, and odd files of others."""

import io
import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrabeam.transforms.formats.base import MissingExtraError
from spectrabeam.transforms.formats.seismic.seismic_text import Gse2Reader, SlistReader
from spectrabeam.transforms.formats.settings import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.reading import describe, only, ranges, read

obspy = pytest.importorskip("obspy", reason="the extra 'seismic' is not installed")
START = obspy.UTCDateTime(2005, 8, 31, 2, 33, 49, 850000)
READERS = {"GSE2": Gse2Reader, "SLIST": SlistReader, "TSPAIR": SlistReader}


def reader(kind, **more):
    return READERS[kind](ReadSettings(**more))


def integers(frames, seed=0):
    # ObsPy's writer of GSE2 makes no room for samples that take more than four characters
    return np.random.default_rng(seed).integers(-10_000, 10_000, frames).astype(np.int32)


def trace(samples, channel="HHZ", start=START):
    header = {
        "network": "BW",
        "station": "RJOB",
        "channel": channel,
        "starttime": start,
        "sampling_rate": 200.0,
    }
    return obspy.Trace(samples, header)


def content(kind, tmp_path, *traces):
    path = tmp_path / "written"
    obspy.Stream(list(traces)).write(str(path), format=kind)
    return path.read_bytes()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    return {
        kind: content(kind, folder, trace(integers(700)), trace(integers(300, 1), "HHN")) for kind in READERS
    }


@pytest.mark.parametrize("kind", READERS)
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_any_range_of_any_trace_is_the_slice_of_what_was_written(written, kind, data):
    first, second = described = describe(reader(kind), written[kind])
    assert READERS[kind].matches(written[kind][:4096])
    assert [each.member.rpartition(".")[2] for each in described] == ["HHZ", "HHN"]
    assert (first.frames, second.frames) == (700, 300)
    assert {each.sample_rate for each in described} == {200.0}
    assert {each.start_time_ns for each in described} == {START.ns}
    assert {each.unit for each in described} == {"counts"}
    for found, samples in ((first, integers(700)), (second, integers(300, 1))):
        start, count = data.draw(ranges(len(samples)))
        expected = samples[start : start + count].astype(np.float32)
        np.testing.assert_array_equal(read(reader(kind), written[kind], found, start, count), expected)


@pytest.mark.parametrize("kind", ["SLIST", "TSPAIR"])
def test_floats_are_rounded_to_float32_once(kind, tmp_path):
    samples = np.random.default_rng(0).normal(size=100)
    found = content(kind, tmp_path, trace(samples))
    whole = obspy.read(io.BytesIO(found), format=kind)[0].data
    described = only(reader(kind), found)
    assert described.dtype == "<f8"
    assert described.unit is None
    np.testing.assert_array_equal(read(reader(kind), found, described), whole.astype(np.float32))


def test_stretches_of_one_trace_are_named_by_their_start(tmp_path):
    found = content("GSE2", tmp_path, trace(integers(50)), trace(integers(60), start=START + 1))
    names = [each.member for each in describe(reader("GSE2"), found)]
    assert len(set(names)) == 2
    assert all(name.endswith(f"@{start}") for name, start in zip(names, (START, START + 1), strict=True))


@pytest.mark.parametrize(("kind", "name"), [("GSE2", "loc_RJOB20050831023349.z"), ("SLIST", "slist.ascii")])
def test_odd_files_are_what_obspy_makes_of_them(shared, kind, name):
    path = shared / "data" / "odd" / name
    expected = json.loads((shared / "data" / "odd" / "expected.json").read_text())["files"][name]
    (known,) = expected["readers"]["obspy"]["traces"]
    found = only(reader(kind), path)
    assert READERS[kind].matches(path.read_bytes()[:4096])
    assert (found.frames, found.sample_rate, found.dtype) == (known["frames"], known["rate"], known["dtype"])
    assert found.start_time_ns == obspy.UTCDateTime(known["start"]).ns
    assert found.unit == "counts"
    np.testing.assert_array_equal(read(reader(kind), path, found, 0, 8), np.float32(known["first_raw"]))
    whole = read(reader(kind), path, found)
    assert (whole.min(), whole.max()) == (known["min"], known["max"])


def test_wrong_checksum_is_corrupt(written):
    damaged = written["GSE2"].replace(b"CHK2 ", b"CHK2 1", 1)
    found = describe(reader("GSE2"), damaged)
    with pytest.raises(RejectError, match="checksums") as caught:
        read(reader("GSE2"), damaged, found[0], 0, 10)
    assert caught.value.reason == Reason.CORRUPT
    np.testing.assert_array_equal(
        read(reader("GSE2"), damaged, found[1]), integers(300, 1).astype(np.float32)
    )


def test_lines_that_would_overflow_the_decoder_are_corrupt(written):
    damaged = written["GSE2"].replace(b"DAT2\n", b"DAT2\n" + b"A" * 5000 + b"\n", 1)
    for bad in (damaged, written["GSE2"].replace(b"DAT2\n", b"X" * 5000 + b"\n", 1)):
        found = describe(reader("GSE2"), bad)
        with pytest.raises(RejectError, match="at most 80 characters") as caught:
            read(reader("GSE2"), bad, found[0], 0, 10)
        assert caught.value.reason == Reason.CORRUPT


def test_cut_packed_samples_are_corrupt(written):
    cut = written["GSE2"][:1000]
    found = only(reader("GSE2"), cut)
    with pytest.raises(RejectError) as caught:
        read(reader("GSE2"), cut, found, 0, 10)
    assert caught.value.reason == Reason.CORRUPT


def test_lengths_that_the_file_cannot_hold_are_not_believed(written):
    claimed = written["GSE2"].replace(b"     700 ", b"99999999 ", 1)
    found = describe(reader("GSE2"), claimed)
    assert (found[0].reason, found[0].member) == (Reason.CORRUPT, "block 1")
    assert found[1].frames == 300
    assert describe(reader("GSE2", decode_limit=1 << 15), claimed)[0].reason == Reason.TOO_LARGE
    with pytest.raises(RejectError) as caught:
        describe(reader("SLIST", decode_limit=1000), written["SLIST"])
    assert caught.value.reason == Reason.TOO_LARGE


@pytest.mark.parametrize("kind", ["SLIST", "TSPAIR"])
def test_cut_text_is_used_to_its_last_whole_number(kind, tmp_path):
    samples = integers(100)
    cut = content(kind, tmp_path, trace(samples)).rstrip()
    cut = cut[: -len(cut.split()[-1])] if kind == "SLIST" else cut[: cut.rindex(b"\n")]
    cut = cut.rstrip()[:-1]  # the last number is gone, and the last digit of the one before
    found = only(reader(kind), cut)
    assert (found.frames, found.frames_declared) == (98, 100)
    assert found.warnings == ("the header promises 100 samples, 98 are there",)
    np.testing.assert_array_equal(read(reader(kind), cut, found), samples[:98].astype(np.float32))
    (rejected,) = describe(reader(kind, strict=True), cut)
    assert rejected.reason == Reason.TRUNCATED


@pytest.mark.parametrize(
    ("kind", "bad", "reason"),
    [
        ("GSE2", b"", Reason.EMPTY),
        ("GSE2", b"WID2 but no header", Reason.BAD_FORMAT),
        ("GSE2", b"WID1 2005", Reason.BAD_FORMAT),
        ("GSE2", b"\xff" * 3000, Reason.BAD_FORMAT),
        ("SLIST", b"", Reason.EMPTY),
        ("SLIST", b"TIMESERIES ", Reason.BAD_FORMAT),
        ("SLIST", b"TIMESERIES A_B_C_D_E, 5 samples, 1 sps, 2020-01-01T00:00:00, SLIST, ASCII,\na b\n", Reason.BAD_FORMAT),
        ("SLIST", b"TIMESERIES A_B_C_D_E, x samples, 1 sps, 2020-01-01T00:00:00, SLIST, INTEGER,\n1\n", Reason.BAD_FORMAT),
        ("SLIST", b"TIMESERIES A_B_C_D_E, 5 samples, 1 sps, never, SLIST, INTEGER,\n1\n", Reason.BAD_FORMAT),
    ],
)  # fmt: skip
def test_other_content_is_rejected(kind, bad, reason):
    with pytest.raises(RejectError) as caught:
        describe(reader(kind), bad)
    assert caught.value.reason == reason
    assert "\n" not in str(caught.value)


def test_words_among_the_numbers_are_corrupt():
    bad = b"TIMESERIES A_B_C_D_E, 3 samples, 1 sps, 2020-01-01T00:00:00, SLIST, INTEGER, g\n1 two 3\n"
    found = only(reader("SLIST"), bad)
    assert found.unit == "g"
    with pytest.raises(RejectError) as caught:
        read(reader("SLIST"), bad, found)
    assert caught.value.reason == Reason.CORRUPT


@pytest.mark.parametrize(("kind", "named"), [("GSE2", "GSE2"), ("SLIST", "SLIST or TSPAIR")])
def test_missing_package_is_named(written, kind, named, monkeypatch):
    monkeypatch.setitem(sys.modules, "obspy", None)
    with pytest.raises(
        MissingExtraError, match=rf"{named} needs obspy: pip install 'spectrabeam\[seismic\]'"
    ):
        describe(reader(kind), written[kind])
