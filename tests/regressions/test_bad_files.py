"""Files that cannot be used, wholly or in part: each is a reject with its reason, and the others are untouched."""

from __future__ import annotations

import errno
import os
import shutil
import struct

import numpy as np
import pyarrow.parquet as pq
import pytest

from spectrabeam.transforms.formats.raw import RawReader
from tests.helpers.containers import encode, flac_header, hdf5, mat73, npy, patch, write
from tests.helpers.datasets import assert_balanced, messages, reasons, spectra
from tests.helpers.pipelines import extract, hashes, metadata, read_examples, rejects, run
from tests.helpers.processes import after_planning, identities
from tests.helpers.references import assert_spectrum
from tests.helpers.signals import noise, write_raw, write_recordings, write_wav

ALL = ("--max-reject-fraction", "0.99")


@pytest.mark.parametrize(
    ("dtype", "channels", "header"),
    [("<i2", 1, 0), (">i2", 1, 7), ("<i2", 2, 0), ("<f4", 1, 7), (">f4", 2, 0), ("<f8", 3, 7), ("u1", 2, 0)],
)
def test_a_raw_file_of_no_whole_number_of_frames_is_rejected_or_cut(tmp_path, dtype, channels, header):
    """A15: every number of left-over bytes, with the byte counts in the message."""
    frame = np.dtype(dtype).itemsize * channels
    samples = (100 + 40 * noise(300 * channels)).astype(np.int16).reshape(300, channels)
    for rest in range(frame):
        path = write_raw(tmp_path / "source" / f"rest{rest:02d}.raw", samples, dtype, b"h" * header)
        with path.open("ab") as file:
            file.write(b"\x7f" * rest)
    layout = ("--raw-dtype", dtype, "--raw-channels", channels, "--raw-header-bytes", header, *ALL)
    extract(tmp_path / "source", tmp_path / "reject", *layout)
    extract(tmp_path / "source", tmp_path / "drop", *layout, "--partial-frame", "drop")

    bad = {f"rest{rest:02d}.raw": ("plan", "partial_frame", 0) for rest in range(1, frame)}
    assert reasons(tmp_path / "reject") == bad
    assert {key[0] for key in spectra(tmp_path / "reject")} == {b"rest00.raw"}
    size = header + 300 * frame + frame - 1
    message = rejects(tmp_path / "reject")[-1]["message"]
    assert f"{size} bytes" in message
    assert f"{frame - 1} are left over" in message
    assert "partial_frame=drop" in message

    assert reasons(tmp_path / "drop") == {}
    found = spectra(tmp_path / "drop")
    assert len(found) == frame * channels * 2
    for (_, channel, start), spectrum in found.items():
        segment = np.zeros(256)
        segment[: min(256, 300 - start)] = samples[start : start + 256, channel]
        assert_spectrum(spectrum, segment)
    warnings = pq.read_table(tmp_path / "drop" / "recordings.parquet").column("warnings").to_pylist()
    assert warnings[0] == []
    assert [f"{rest} bytes" in each[0] for rest, each in enumerate(warnings[1:], 1)] == [True] * (frame - 1)
    assert_balanced(tmp_path / "reject")
    assert_balanced(tmp_path / "drop")


def test_2001_bytes_of_int16_are_1000_samples_or_a_reject(tmp_path):
    """A15, as reported."""
    write_recordings(tmp_path / "source", 2, samples=512)
    (tmp_path / "source" / "odd.raw").write_bytes(bytes(2001))
    extract(tmp_path / "source", tmp_path / "reject", "--raw-dtype", "<i2", *ALL)
    assert reasons(tmp_path / "reject") == {"odd.raw": ("plan", "partial_frame", 0)}
    extract(
        tmp_path / "source", tmp_path / "drop", "--raw-dtype", "<i2", "--partial-frame", "drop",
        "--segment-length", "1000",
    )  # fmt: skip
    (odd,) = (each for each in read_examples(tmp_path / "drop") if each["recording"] == b"odd.raw")
    assert odd["valid"] == 1000


def test_less_than_one_frame_is_a_reject_even_where_the_rest_is_dropped(tmp_path):
    """A15, A27: nothing would be left."""
    write_recordings(tmp_path / "source", 2)
    (tmp_path / "source" / "three.raw").write_bytes(b"123")
    extract(tmp_path / "source", tmp_path / "out", "--partial-frame", "drop", *ALL)
    assert reasons(tmp_path / "out") == {"three.raw": ("plan", "partial_frame", 0)}


@pytest.mark.parametrize(
    ("value", "jit"), [(np.nan, "off"), (np.nan, "on"), (np.inf, "on"), (-np.inf, "off")]
)
def test_a_segment_with_a_non_finite_sample_is_rejected_alone(tmp_path, value, jit):
    """A25: its neighbours in recording and batch stay, and are what they would be without it."""
    samples = np.stack([noise(256, seed) for seed in range(8)])
    samples[3, 17] = samples[5, 0] = samples[5, 255] = value
    write_raw(tmp_path / "source" / "bad.raw", samples.reshape(-1))
    write_recordings(tmp_path / "source", 8)
    extract(tmp_path / "source", tmp_path / "out", "--jit", jit, *ALL)
    found = spectra(tmp_path / "out")
    assert len(found) == 14
    for row in (0, 1, 2, 4, 6, 7):
        assert_spectrum(found[b"bad.raw", 0, 256 * row], samples[row])
    (line,) = rejects(tmp_path / "out")
    assert (line["recording"], line["stage"], line["reason"]) == ("bad.raw", "read", "non_finite")
    assert (line["segments"], line["where"]) == (2, [[0, 3 * 256], [0, 5 * 256]])
    assert_balanced(tmp_path / "out")


@pytest.mark.parametrize("jit", ["off", "on"])
def test_non_finite_samples_become_zero_on_request(tmp_path, jit):
    """A25: only those samples, and nothing is rejected."""
    samples = noise(256)
    samples[[3, 40, 41]] = np.nan, np.inf, -np.inf
    write_raw(tmp_path / "source" / "bad.raw", samples)
    extract(tmp_path / "source", tmp_path / "out", "--non-finite", "zero", "--jit", jit, "--keep-waveform")
    (example,) = read_examples(tmp_path / "out")
    expected = np.where(np.isfinite(samples), samples, 0)
    assert np.array_equal(example["waveform"], expected)
    assert_spectrum(example["spectrum"], expected)
    assert rejects(tmp_path / "out") == []


def test_a_float_wav_with_nan_and_infinity_gives_no_row_and_one_reject(tmp_path):
    """A25, as reported."""
    samples = noise(256) / 4
    write_wav(tmp_path / "source" / "good.wav", samples, rate=1000, subtype="FLOAT")
    samples[10], samples[20] = np.nan, np.inf
    write_wav(tmp_path / "source" / "bad.wav", samples, rate=1000, subtype="FLOAT")
    extract(tmp_path / "source", tmp_path / "out", *ALL)
    assert {key[0] for key in spectra(tmp_path / "out")} == {b"good.wav"}
    assert reasons(tmp_path / "out") == {"bad.wav": ("read", "non_finite", 1)}
    assert "first at 10" in rejects(tmp_path / "out")[0]["message"]


@pytest.mark.parametrize(
    ("dtype", "value", "stage"),
    [
        ("<f8", 1e300, "read"),  # no float32
        ("<f4", 3e38, "compute"),  # a float32, but its spectrum is none
        (">f4", -3e38, "compute"),
    ],
)
def test_finite_samples_that_float32_cannot_hold_never_become_a_row(tmp_path, dtype, value, stage):
    """A25: the kind of fault, by another way; what is written is always finite."""
    for name, samples in (("good.raw", noise(512)), ("bad.raw", np.full(512, value))):
        write_raw(tmp_path / "source" / name, samples, dtype)
    extract(tmp_path / "source", tmp_path / "out", "--raw-dtype", dtype, *ALL)
    assert {key[0] for key in spectra(tmp_path / "out")} == {b"good.raw"}
    assert reasons(tmp_path / "out") == {"bad.raw": (stage, "non_finite", 2)}
    for example in read_examples(tmp_path / "out"):
        assert np.isfinite(example["spectrum"]).all()
    assert_balanced(tmp_path / "out")


def test_samples_that_are_large_but_fit_are_kept(tmp_path):
    """A25: the pair to it; the check looks at values, not at a sum that may overflow."""
    samples = np.full(256, 1e36, np.float32)
    write_raw(tmp_path / "source" / "large.raw", samples)
    extract(tmp_path / "source", tmp_path / "out")
    (example,) = read_examples(tmp_path / "out")
    assert example["spectrum"][0] == pytest.approx(np.log(256e36), rel=1e-6)


def wav_header(data_bytes: int) -> bytes:
    """The 44 bytes before mono int16 samples at 1 kHz."""
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF", 36 + data_bytes, b"WAVE", b"fmt ", 16, 1, 1, 1000, 2000, 2, 16, b"data", data_bytes,
    )  # fmt: skip


def test_files_without_a_sample_are_rejected_as_empty(tmp_path):
    """A27: 0 bytes and header only, of both formats, and what is no file of its format at all."""
    source = tmp_path / "source"
    header = b"h" * 100
    write_raw(source / "good.raw", noise(256), header=header)
    write_wav(source / "good.wav", noise(256) / 4, rate=1000)
    (source / "zero.raw").touch()
    (source / "header-only.raw").write_bytes(header)
    (source / "half-a-header.raw").write_bytes(header[:50])
    (source / "zero.wav").touch()
    (source / "header-only.wav").write_bytes(wav_header(0))
    (source / "no-data-chunk.wav").write_bytes(wav_header(0)[:36])
    (source / "riff-only.wav").write_bytes(b"RIFF\x04\0\0\0WAVE")
    (source / "no-riff.wav").write_bytes(b"not a wave file at all")
    extract(source, tmp_path / "out", "--raw-header-bytes", "100", *ALL)
    found = {name: reason for name, (stage, reason, _) in reasons(tmp_path / "out").items()}
    for name in ("zero.raw", "header-only.raw", "half-a-header.raw", "zero.wav", "header-only.wav"):
        assert found.pop(name) == "empty", name
    assert found.pop("no-riff.wav") == "bad_format"
    assert found.keys() == {"no-data-chunk.wav", "riff-only.wav"}
    assert set(found.values()) <= {"empty", "bad_format"}
    assert {key[0] for key in spectra(tmp_path / "out")} == {b"good.raw", b"good.wav"}
    counts = metadata(tmp_path / "out")["counts"]
    assert counts["recordings"] == {"matched": 10, "used": 2, "rejected": 8}
    assert counts["rejects"]["empty"]["recordings"] >= 5
    assert_balanced(tmp_path / "out")


def test_the_five_files_without_a_sample_are_five_rejects(tmp_path):
    """A27, as reported: 0 bytes, a header of 44, RIFF without data, FLAC without a frame, an array of shape (0,)."""
    source = tmp_path / "source"
    write(source / "bytes0.wav", b"")
    write(source / "header.wav", wav_header(0))
    write(source / "no-data.wav", wav_header(0)[:36])
    write(source / "frames0.flac", flac_header(rate=1000))
    write(source / "shape0.npy", npy(np.zeros(0)))
    write(source / "good.npy", npy(noise(256)))
    result = extract(source, tmp_path / "out", *ALL)
    names = ("bytes0.wav", "header.wav", "no-data.wav", "frames0.flac", "shape0.npy")
    assert reasons(tmp_path / "out") == dict.fromkeys(names, ("plan", "empty", 0))
    assert "Rejected    empty: 5 recordings" in result.out
    assert {key[0] for key in spectra(tmp_path / "out")} == {b"good.npy"}
    planned = run("plan", "--input", source, "--output", tmp_path / "none", "--sample-rate", "1000")
    assert "Rejected    5 empty" in planned.out
    assert_balanced(tmp_path / "out")


SUFFIXES = [
    "aif", "aiff", "arrow", "au", "caf", "csv", "edf", "feather", "flac", "h5", "hdf5", "hea", "mat", "mp3",
    "mseed", "npy", "npz", "ogg", "opus", "parquet", "raw", "rf64", "sac", "sgy", "tdms", "tfrecord", "w64",
    "wav",
]  # fmt: skip


def test_a_file_of_0_bytes_is_empty_whatever_its_name_says(tmp_path):
    """A27: beyond the five; a suffix that no reader has is left out and counted."""
    for suffix in SUFFIXES:
        write(tmp_path / "source" / f"zero.{suffix}", b"")
    write_raw(tmp_path / "source" / "good.raw", noise(256))
    inputs = [
        argument for suffix in SUFFIXES for argument in ("--input", tmp_path / "source" / f"zero.{suffix}")
    ]
    extract(tmp_path / "source", tmp_path / "out", *inputs, *ALL)
    found = reasons(tmp_path / "out")
    assert {name: reason for name, (_, reason, _) in found.items()} == {
        f"zero.{suffix}": "empty" for suffix in SUFFIXES
    }
    assert all("0 bytes" in message for message in messages(tmp_path / "out").values())
    assert_balanced(tmp_path / "out")


def test_containers_without_a_sample_are_empty(tmp_path):
    """A27: a header is there, and members or columns, and no number in them."""
    source = tmp_path / "source"
    files = {
        "a.h5//x": hdf5(x=np.zeros(0)),
        "a.mat//x": mat73(x=np.zeros((0, 1))),
        "columns.npy": npy(np.zeros((0, 2))),
        "a.csv": b"t,x\n",
        "a.aiff": encode("AIFF", "PCM_16", np.zeros(0, np.int16), 1000),
        "a.au": encode("AU", "PCM_16", np.zeros(0, np.int16), 1000),
        "a.caf": encode("CAF", "PCM_16", np.zeros(0, np.int16), 1000),
        "a.ogg": encode("OGG", "VORBIS", np.zeros(0), 8000),
    }
    for name, content in files.items():
        write(source / name.partition("//")[0], content)
    write_raw(source / "good.raw", noise(256))
    inputs = ("--input", source / "a.csv")  # beside others a table is left out unless it is named
    extract(source, tmp_path / "out", *inputs, *ALL, "--array-axes", "time,channel")
    found = {name.partition("//")[0]: reason for name, (_, reason, _) in reasons(tmp_path / "out").items()}
    assert found == {name.partition("//")[0]: "empty" for name in files}
    assert_balanced(tmp_path / "out")


def test_the_header_of_a_wav_file_with_samples_is_no_reject(tmp_path):
    """A27: the pair to it, from the same 44 bytes."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "one.wav").write_bytes(wav_header(2) + struct.pack("<h", 16384))
    extract(tmp_path / "source", tmp_path / "out", "--keep-waveform")
    (example,) = read_examples(tmp_path / "out")
    assert example["valid"] == 1
    assert example["waveform"].tolist() == [0.5] + [0.0] * 255


def test_an_input_of_empty_files_alone_ends_with_3_and_tells_why(tmp_path):
    """A27: no example is no dataset, whatever fraction may be rejected."""
    (tmp_path / "source").mkdir()
    for number in range(3):
        (tmp_path / "source" / f"{number}.raw").touch()
    result = extract(tmp_path / "source", tmp_path / "out", "--max-reject-fraction", "1", code=3)
    assert "no example came out of 3 recordings, most often empty" in result.err
    assert len(rejects(tmp_path / "out")) == 3
    assert not (tmp_path / "out" / "spectrabeam.json").exists()


def write_97_and_3(source) -> None:
    """As reported: 100 files, 3 of them bad, each in its own way."""
    write_recordings(source, 97)
    (source / "empty.raw").touch()
    (source / "odd.raw").write_bytes(b"12345")
    bad = noise(256)
    bad[9] = np.nan
    write_raw(source / "nan.raw", bad)


def test_3_bad_files_of_100_are_told_and_the_run_succeeds(tmp_path):
    """A42: files in = used + rejected."""
    write_97_and_3(tmp_path / "source")
    result = extract(tmp_path / "source", tmp_path / "out")
    assert len(read_examples(tmp_path / "out")) == 97
    assert reasons(tmp_path / "out") == {
        "empty.raw": ("plan", "empty", 0),
        "odd.raw": ("plan", "partial_frame", 0),
        "nan.raw": ("read", "non_finite", 1),
    }
    assert metadata(tmp_path / "out")["counts"]["recordings"] == {"matched": 100, "used": 97, "rejected": 3}
    assert "100 matched = 97 used + 3 rejected" in result.out
    assert_balanced(tmp_path / "out")


def test_bad_files_of_many_formats_are_told_and_the_others_are_untouched(tmp_path):
    """A42: each broken in its own way, each with its reason and the rest of its container."""
    source = tmp_path / "source"
    samples = noise(600)
    flac = encode("FLAC", "PCM_16", samples, 1000)
    good = {
        "a.flac": flac,
        "a.npy": npy(samples),
        "a.h5": hdf5(x=samples),
        "a.mat": mat73(x=samples[:, None]),
        "a.aiff": encode("AIFF", "PCM_16", samples, 1000),
    }
    bad = {
        "cut.flac": (flac[: len(flac) // 2], "corrupt"),
        "text.flac": (b"this is no sound", "bad_format"),
        "head.npy": (npy(samples)[:50], "truncated"),
        "object.npy": (npy(np.array([{}]), allow_pickle=True), "bad_format"),
        "cut.h5": (hdf5(x=samples)[:1500], None),
        "noise.h5": (bytes(np.random.default_rng(0).integers(0, 256, 4000, np.uint8)), "bad_format"),
        "cut.mat": (mat73(x=samples[:, None])[:600], None),
        "noise.mat": (bytes(np.random.default_rng(1).integers(0, 256, 4000, np.uint8)), "bad_format"),
        "no-comm.aiff": (patch(good["a.aiff"], 12, b"JUNK"), "bad_format"),
        "zeros.wav": (bytes(1000), "bad_format"),
        "html.mp3": (b"<html><body>404 Not Found</body></html>" * 20, "bad_format"),
        "zeros.npz": (bytes(1000), "bad_format"),
        "zeros.parquet": (bytes(1000), "bad_format"),
        "zeros.tdms": (bytes(1000), "bad_format"),
        "zeros.sac": (bytes(1000), "bad_format"),
    }
    for name, content in good.items():
        write(source / name, content)
    for name, (content, _) in bad.items():
        write(source / name, content)
    inputs = ("--input", source / "zeros.parquet")
    result = extract(source, tmp_path / "out", *inputs, *ALL)
    found = {name: reason for name, (_, reason, _) in reasons(tmp_path / "out").items()}
    assert set(found) == set(bad)
    for name, (_, reason) in bad.items():
        assert found[name] in ((reason,) if reason else ("truncated", "corrupt", "bad_format")), name
    for message in messages(tmp_path / "out").values():
        assert message
        assert "\n" not in message
    assert {key[0].partition(b"//")[0].decode() for key in spectra(tmp_path / "out")} == set(good)
    assert f"{len(good) + len(bad)} matched = {len(good)} used + {len(bad)} rejected" in result.out
    assert_balanced(tmp_path / "out")


def test_a_bad_member_does_not_take_the_others_along(tmp_path):
    """A42: a container whose one member cannot be read; the file's other members are recordings of their own."""
    samples = {f"m{number}": noise(300, number) for number in range(5)}
    content = hdf5(**samples, z=np.zeros(0), c=np.zeros(10, complex))
    write(tmp_path / "source" / "a.h5", content)
    extract(tmp_path / "source", tmp_path / "out", *ALL)
    found = {name: reason for name, (_, reason, _) in reasons(tmp_path / "out").items()}
    assert found == {"a.h5//c": "complex_samples", "a.h5//z": "empty"}
    for (name, _, start), spectrum in spectra(tmp_path / "out").items():
        segment = np.zeros(256)
        real = samples[name.decode().partition("//")[2]][start : start + 256]
        segment[: len(real)] = real
        assert_spectrum(spectrum, segment)
    assert len(spectra(tmp_path / "out")) == 10
    assert_balanced(tmp_path / "out")


def test_more_rejects_than_allowed_end_with_3_and_leave_the_list(tmp_path):
    """A42: no dataset, but the list of rejects; a rerun with a higher fraction only finalizes."""
    write_97_and_3(tmp_path / "source")
    result = extract(tmp_path / "source", tmp_path / "out", "--max-reject-fraction", "0.02", code=3)
    assert "3 of 100 recordings" in result.err
    assert "max_reject_fraction=0.02" in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "out" / "spectrabeam.json").exists()
    assert sorted(line["recording"] for line in rejects(tmp_path / "out")) == [
        "empty.raw",
        "nan.raw",
        "odd.raw",
    ]
    assert run("verify", tmp_path / "out").code == 2
    before = identities(tmp_path / "out")
    extract(tmp_path / "source", tmp_path / "out", "--max-reject-fraction", "0.03")
    assert identities(tmp_path / "out") == before
    extract(tmp_path / "source", tmp_path / "once", "--max-reject-fraction", "0.03")
    assert hashes(tmp_path / "out") == hashes(tmp_path / "once")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("vanished", "vanished"),
        ("grown", "changed"),
        ("cut", "changed"),
        ("emptied", "changed"),
        ("now a folder", "not_a_file"),
        ("now a dangling link", "vanished"),
    ],
)
def test_a_file_that_changes_between_plan_and_read_is_a_reject(tmp_path, monkeypatch, kind, reason):
    """A42: the run goes on, the accounting balances, and a rerun reads the file as it is then."""
    source = tmp_path / "source"
    write_recordings(source, 39, samples=512)
    victim = write_raw(source / "victim.raw", noise(512, 99))

    def change() -> None:
        if kind == "grown":
            with victim.open("ab") as file:
                file.write(bytes(1024))
        elif kind in ("cut", "emptied"):
            os.truncate(victim, 1024 if kind == "cut" else 0)
        else:
            victim.unlink()
        if kind == "now a folder":
            victim.mkdir()
        if kind == "now a dangling link":
            victim.symlink_to("nowhere")

    with monkeypatch.context() as patch:
        after_planning(patch, change)
        extract(source, tmp_path / "out", "--max-reject-fraction", "0", code=3)
    assert reasons(tmp_path / "out") == {"victim.raw": ("read", reason, 2)}
    if victim.is_dir():
        shutil.rmtree(victim)
    victim.unlink(missing_ok=True)
    write_raw(victim, noise(512, 99))
    extract(source, tmp_path / "out", "--max-reject-fraction", "0")
    assert rejects(tmp_path / "out") == []
    assert_spectrum(spectra(tmp_path / "out")[b"victim.raw", 0, 256], noise(512, 99)[256:])
    assert_balanced(tmp_path / "out")


def test_a_file_that_cannot_be_read_takes_only_its_own_segments_along(tmp_path, monkeypatch):
    """A42: an I/O error in the middle of a batch, as from a bad disk or a lost mount."""
    write_recordings(tmp_path / "source", 40)
    fill = RawReader._fill

    def fail_on_one(self, file, buffer, start):
        if file.name.endswith(b"a/r006.raw"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fill(self, file, buffer, start)

    monkeypatch.setattr(RawReader, "_fill", fail_on_one)
    extract(tmp_path / "source", tmp_path / "out")
    found = spectra(tmp_path / "out")
    assert len(found) == 39
    for number in set(range(40)) - {6}:
        key = (f"{'ab'[number % 2]}/r{number:03d}.raw".encode(), 0, 0)
        assert_spectrum(found[key], noise(256, number))
    (line,) = rejects(tmp_path / "out")
    assert (line["recording"], line["reason"]) == ("a/r006.raw", "unreadable")
    assert "Input/output error" in line["message"]


def test_a_bug_in_a_reader_is_no_reject(tmp_path, monkeypatch):
    """A42: the pair to it; only errors of files become rejects, so a fault of the program is never hidden."""

    def broken(self, file, buffer, start):
        raise ZeroDivisionError("a bug")

    write_recordings(tmp_path / "source", 4)
    monkeypatch.setattr(RawReader, "_fill", broken)
    result = extract(tmp_path / "source", tmp_path / "out", *ALL, code=1)
    assert "a bug" in result.err
    assert not (tmp_path / "out" / "spectrabeam.json").exists()
