"""WFDB records that the wfdb package wrote, against wfdb reading the whole; headers by hand for the rest."""

import datetime
import os
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectrabeam.transforms.formats.base import MissingExtraError
from spectrabeam.transforms.formats.measurement.physionet import WfdbReader
from spectrabeam.transforms.formats.settings import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.reading import describe, only, ranges, read

wfdb = pytest.importorskip("wfdb", reason="the extra 'wfdb' is not installed")
START = datetime.datetime(1991, 11, 26, 10, 23, 45, 678000)
LIMITS = {
    "8": 15, "16": 30_000, "24": 8_000_000, "32": 2**30, "61": 30_000, "80": 120, "160": 30_000, "212": 2000,
    "310": 500, "311": 500, "516": 30_000,
}  # fmt: skip
FRAMES = 601


def reader(**more):
    return WfdbReader(ReadSettings(**more))


def digital(fmt, frames=FRAMES, channels=None):
    channels = channels or (
        2 if fmt in ("310", "311") else 3
    )  # so that frames do not fall together with blocks
    limit = LIMITS[fmt]
    samples = np.random.default_rng(1).integers(-limit, limit, (frames, channels))
    return np.cumsum(samples, axis=0) if fmt == "8" else samples


def packed(fmt, samples):
    """Sample files that the package cannot write, as signal(5) of the WFDB manual has them."""
    flat = samples.reshape(-1)
    if fmt == "8":
        return np.diff(samples, axis=0, prepend=0).astype("i1").tobytes()
    if fmt in ("61", "160"):
        return flat.astype(">i2").tobytes() if fmt == "61" else (flat + 32768).astype("<u2").tobytes()
    flat = np.append(flat, [0] * (-len(flat) % 3)).astype("<i8").reshape(-1, 3) & 0x3FF
    if fmt == "311":
        return (flat[:, 0] | flat[:, 1] << 10 | flat[:, 2] << 20).astype("<u4").tobytes()
    low, high = flat[:, 2] & 0x1F, flat[:, 2] >> 5
    return (
        np.stack([flat[:, 0] << 1 | low << 11, flat[:, 1] << 1 | high << 11], axis=1).astype("<u2").tobytes()
    )


def write(folder, fmt="16", samples=None, name="rec", **more):
    samples = digital(fmt) if samples is None else samples
    channels = samples.shape[1]
    if fmt in ("8", "61", "160", "310", "311"):
        (folder / f"{name}.dat").write_bytes(packed(fmt, samples))
        lines = [f"{name}.dat {fmt} {200 + k}({k * 3})/mV 0 0 0 0 0 lead {k}" for k in range(channels)]
        (folder / f"{name}.hea").write_text(
            "\n".join([f"{name} {channels} 360 {len(samples)}", *lines]) + "\n"
        )
        return folder / f"{name}.hea"
    wfdb.wrsamp(
        name, fs=360, units=["mV"] * channels, sig_name=[f"lead {k}" for k in range(channels)], d_signal=samples,
        fmt=[fmt] * channels, adc_gain=[200.0 + k for k in range(channels)], baseline=[k * 3 for k in range(channels)],
        write_dir=str(folder), **more,
    )  # fmt: skip
    return folder / f"{name}.hea"


def header(tmp_path, text, size=1000):
    (tmp_path / "a.dat").write_bytes(bytes(size))
    path = tmp_path / "a.hea"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return {fmt: write(tmp_path_factory.mktemp("wfdb"), fmt) for fmt in LIMITS}


@pytest.mark.parametrize("fmt", LIMITS)
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_any_range_of_any_channel_is_the_slice_of_what_wfdb_reads(written, fmt, data):
    path = written[fmt]
    assert WfdbReader.matches(path.read_bytes()[:4096])
    whole = wfdb.rdrecord(str(path)[:-4])
    found = only(reader(), path)
    channels = digital(fmt).shape[1]
    assert (found.frames, found.channels, found.sample_rate, found.member) == (FRAMES, channels, 360.0, None)
    assert (found.channel_names, found.unit) == (("lead 0", "lead 1", "lead 2")[:channels], "mV")
    start, count = data.draw(ranges(FRAMES))
    channel = data.draw(st.integers(0, channels - 1))
    expected = whole.p_signal[start : start + count, channel].astype(np.float32)
    np.testing.assert_array_equal(read(reader(), path, found, start, count, channel), expected)
    counts = read(reader(scale="none"), path, only(reader(scale="none"), path), start, count, channel)
    np.testing.assert_array_equal(counts, digital(fmt)[start : start + count, channel].astype(np.float32))


@pytest.mark.parametrize(
    ("scale", "factor", "unit"), [("none", 1.0, "counts"), (0.5, 0.5, None), ("pcm", 1 / 2048, None)]
)
def test_scale_gives_counts_or_a_multiple_of_them(written, scale, factor, unit):
    found = only(reader(scale=scale), written["212"])
    assert found.unit == unit
    expected = (digital("212")[:, 1] * factor).astype(np.float32)
    np.testing.assert_array_equal(read(reader(scale=scale), written["212"], found, channel=1), expected)


def test_samples_that_are_marked_invalid_are_nan(tmp_path):
    samples = digital("16")
    samples[5, 0] = -32768
    path = write(tmp_path, "16", samples)
    found = read(reader(), path, only(reader(), path))
    assert np.flatnonzero(np.isnan(found)).tolist() == [5]


def test_int16_samples_are_kept_as_they_came(written):
    found = only(reader(scale="none"), written["16"])
    assert found.dtype == "<i2"
    kept = read(reader(scale="none"), written["16"], found, 10, 50, 2, dtype=np.int16)
    np.testing.assert_array_equal(kept, digital("16")[10:60, 2])
    with pytest.raises(RejectError) as caught:
        read(reader(scale="none"), written["24"], only(reader(scale="none"), written["24"]), dtype=np.int16)
    assert caught.value.reason == Reason.DTYPE_MISMATCH


def test_int16_samples_come_as_stored_whatever_the_scale(written):
    found = only(reader(), written["16"])
    kept = read(reader(), written["16"], found, 0, 20, 1, dtype=np.int16)
    np.testing.assert_array_equal(kept, digital("16")[:20, 1])


def test_time_and_comments_become_start_and_attributes(tmp_path):
    path = write(tmp_path, base_datetime=START, comments=["age: 69", "<sex>: M", "taken at night"])
    found = only(reader(), path)
    assert found.start_time_ns == int(START.replace(tzinfo=datetime.timezone.utc).timestamp() * 1000) * 10**6
    assert dict(found.attributes) == {"age": "69", "sex": "M", "comments": "taken at night"}


def test_units_that_differ_are_listed(tmp_path):
    wfdb.wrsamp(
        "rec", fs=100, units=["mV", "mmHg"], sig_name=["ECG", "ABP"], p_signal=np.random.default_rng(0).normal(size=(50, 2)),
        fmt=["16", "16"], write_dir=str(tmp_path),
    )  # fmt: skip
    found = only(reader(), tmp_path / "rec.hea")
    assert found.unit is None
    assert found.attributes["units"] == "mV,mmHg"


def test_signals_of_several_rates_are_a_recording_each(tmp_path):
    rng = np.random.default_rng(3)
    parts = [rng.integers(-100, 100, 400), rng.integers(-100, 100, 100), rng.integers(-100, 100, 400)]
    wfdb.wrsamp(
        "rec", fs=50, units=["mV"] * 3, sig_name=["a", "b", "c"], e_d_signal=parts, samps_per_frame=[4, 1, 4],
        fmt=["16"] * 3, adc_gain=[1.0] * 3, baseline=[0] * 3, write_dir=str(tmp_path),
    )  # fmt: skip
    path = tmp_path / "rec.hea"
    fast, slow = describe(reader(), path)
    assert (fast.member, fast.sample_rate, fast.frames, fast.channel_names) == (
        "200Hz",
        200.0,
        400,
        ("a", "c"),
    )
    assert (slow.member, slow.sample_rate, slow.frames, slow.channel_names) == ("50Hz", 50.0, 100, ("b",))
    for start, count in ((0, 400), (3, 7), (399, 1), (101, 250)):
        np.testing.assert_array_equal(
            read(reader(), path, fast, start, count, 1), parts[2][start : start + count]
        )
    np.testing.assert_array_equal(read(reader(), path, slow, 5, 20), parts[1][5:25])
    assert [each.member for each in describe(reader(members=("50*",)), path)] == ["50Hz"]


def test_signals_in_several_files_are_channels_of_one_recording(tmp_path):
    first, second = digital("16", 100, 1), digital("212", 100, 1)
    write(tmp_path, "16", first, "first")
    write(tmp_path, "212", second, "second")
    lines = [(tmp_path / f"{name}.hea").read_text().splitlines()[1] for name in ("first", "second")]
    path = tmp_path / "both.hea"
    path.write_text("\n".join(["both 2 360 100", *lines]) + "\n")
    found = only(reader(scale="none"), path)
    assert (found.channels, found.frames) == (2, 100)
    for channel, samples in enumerate((first, second)):
        np.testing.assert_array_equal(
            read(reader(scale="none"), path, found, 30, 50, channel), samples[30:80, 0]
        )


def test_names_like_patterns_and_addresses_are_read(tmp_path):
    folder = tmp_path / "a[1]*" / "http:"
    folder.mkdir(parents=True)
    path = write(folder, "212")
    assert (
        read(reader(scale="none"), path, only(reader(scale="none"), path), 0, 5).tolist()
        == digital("212")[:5, 0].tolist()
    )
    odd = tmp_path / "x::y"
    odd.mkdir()
    with pytest.raises(RejectError, match="no double colon"):
        describe(reader(), write(odd))


def test_sample_file_that_is_missing_is_named(tmp_path):
    path = write(tmp_path)
    (tmp_path / "rec.dat").unlink()
    with pytest.raises(
        RejectError, match=r"the samples are in rec\.dat, which is not beside the header"
    ) as caught:
        describe(reader(), path)
    assert caught.value.reason == Reason.NOT_FOUND


def test_sample_file_that_is_a_pipe_is_rejected_and_does_not_hang(tmp_path):
    path = write(tmp_path)
    (tmp_path / "rec.dat").unlink()
    os.mkfifo(tmp_path / "rec.dat")
    with pytest.raises(RejectError, match="no regular file") as caught:
        describe(reader(), path)
    assert caught.value.reason == Reason.NOT_A_FILE


@pytest.mark.parametrize("fmt", ["16", "212", "310", "311", "24", "8"])
def test_sample_file_cut_short_is_used_with_a_warning_or_rejected(tmp_path, fmt):
    path = write(tmp_path, fmt)
    data = (tmp_path / "rec.dat").read_bytes()
    (tmp_path / "rec.dat").write_bytes(data[: len(data) // 2])
    found = only(reader(scale="none"), path)
    assert FRAMES // 2 - 3 <= found.frames <= FRAMES // 2
    assert found.frames_declared == FRAMES
    assert found.warnings == (f"the header promises {FRAMES} samples a signal, {found.frames} are there",)
    expected = digital(fmt)[: found.frames, 1].astype(np.float32)
    np.testing.assert_array_equal(read(reader(scale="none"), path, found, channel=1), expected)
    with pytest.raises(RejectError, match="cut short") as caught:
        describe(reader(strict=True), path)
    assert caught.value.reason == Reason.TRUNCATED


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../a.dat", "sub/a.dat", "..", "~x/a.dat", "a:b.dat", "s3://b/a.dat", "a.b.dat"]
)
def test_sample_files_elsewhere_are_refused(tmp_path, name):
    path = header(tmp_path, f"a 1 100 10\n{name} 16 200 16 0 0 0 0 x\n")
    with pytest.raises(RejectError, match="must lie beside the header") as caught:
        describe(reader(), path)
    assert caught.value.reason == Reason.BAD_FORMAT


@pytest.mark.parametrize(
    ("text", "reason", "message"),
    [
        ("", Reason.EMPTY, "0 bytes"),
        ("# only a comment\n", Reason.BAD_FORMAT, "no record line"),
        ("a 0 100 10\n", Reason.EMPTY, "names no signal"),
        ("a/3 2 100 10\nb 5\n", Reason.BAD_FORMAT, "several segments"),
        ("a 2 100 10\na.dat 16\n", Reason.BAD_FORMAT, "promises 2 signals and describes 1"),
        ("a 1 100 10\na.dat 999\n", Reason.BAD_FORMAT, "format 999"),
        ("a 1 100 10\na.dat 16x0\n", Reason.BAD_FORMAT, "0 samples a frame"),
        ("a 1 100 10\na.dat 16x99999999999\n", Reason.BAD_FORMAT, "samples a frame"),
        ("a 1 100 10\na.dat 16:99999999999\n", Reason.BAD_FORMAT, "skew"),
        ("a 1 100 10\na.dat\n", Reason.BAD_FORMAT, "cannot read the header"),
        ("a 1 100 10 99:99:99 77/77/2000\na.dat 16\n", Reason.BAD_FORMAT, "cannot read the header"),
        ("a 1 100 0\na.dat 16+5000\n", Reason.EMPTY, "none is there"),
        (f"a 1 100 10\n{'a' * 2000} 16\n", Reason.BAD_FORMAT, "too long lines"),
        ("a 1 100 10\na.dat 16\n" + "# x\n" * 300_000, Reason.BAD_FORMAT, "longer than a WFDB header"),
        ("just some text\nof a letter\n", Reason.BAD_FORMAT, "cannot read the header"),
    ],
)
def test_headers_that_cannot_be_used_are_rejected(tmp_path, text, reason, message):
    path = header(tmp_path, text)
    with pytest.raises(RejectError, match=message) as caught:
        describe(reader(), path)
    assert caught.value.reason == reason
    assert "\n" not in str(caught.value)


def test_length_that_the_sample_file_does_not_hold_is_not_believed(tmp_path):
    found = only(reader(), header(tmp_path, "a 1 100 99999999999999\na.dat 16 200 16 0 0 0 0 x\n"))
    assert (found.frames, found.frames_declared) == (500, 99_999_999_999_999)


def test_length_that_the_header_does_not_say_comes_from_the_sample_file(tmp_path):
    found = only(reader(), header(tmp_path, "a 1 100\na.dat 16 200 16 0 0 0 0 x\n"))
    assert (found.frames, found.warnings) == (500, ())


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"# comment",
        b"a 1 100",
        b"12 34 56\n78 90 12\n",
        b"x 1 2\nword 16 words\n",
        b"\xff" * 100,
        b"name 2 100 5\nfile.dat 17\n",
    ],
)
def test_content_decides_only_where_there_is_no_doubt(head):
    assert not WfdbReader.matches(head)


@pytest.mark.parametrize(
    "head",
    [b"# c\n\n100 2 360 650000\n100.dat 212 200 11 1024 995 -22131 0 MLII\n", b"s/2 1 5 9\ns1 5\ns2 4\n"],
)
def test_headers_are_known_by_their_lines(head):
    assert WfdbReader.matches(head)


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_signals_that_lag_are_read_in_step_as_wfdb_does(written, tmp_path, data):
    """A skew shifts a signal; its last samples are not there, and wfdb gives them as invalid."""
    text = written["16"].read_text().replace("rec.dat 16", "rec.dat 16:7", 1)
    folder = written["16"].parent
    path = folder / "skewed.hea"
    path.write_text(text.replace("rec 3", "skewed 3", 1))
    whole = wfdb.rdrecord(str(path)[:-4]).p_signal
    start, count = data.draw(ranges(FRAMES))
    found = only(reader(), path)
    np.testing.assert_array_equal(
        read(reader(), path, found, start, count, 0), whole[start : start + count, 0].astype(np.float32)
    )


def test_missing_package_is_named(written, monkeypatch):
    monkeypatch.setitem(sys.modules, "wfdb", None)
    with pytest.raises(MissingExtraError, match=r"WFDB needs wfdb: pip install 'spectrabeam\[wfdb\]'"):
        describe(reader(), written["16"])


def test_file_in_memory_is_refused():
    with pytest.raises(RejectError, match="local files only") as caught:
        describe(reader(), b"a 1 100 10\na.dat 16\n")
    assert caught.value.reason == Reason.UNREADABLE
