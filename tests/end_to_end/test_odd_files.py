"""Small files that break readers, all at once through the command line, held against what independent readers say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.datasets import assert_balanced, ledger, messages, signals
from tests.helpers.pipelines import extract, metadata, read_examples, rejects, run
from tests.helpers.references import assert_spectrum

LENGTH = 64
RATE = 1000  # what files are taken to have that say none
SCIPY, SOUNDFILE, OBSPY = "scipy.io.wavfile", "soundfile", "obspy"
LOADMAT, H5PY, NUMPY = "scipy.io.loadmat", "h5py", "numpy.load"

# File: the reader that is right about it, and why. Where several read it they agree, unless it is said.
FOLLOWED = {
    "00001034.sgy_first_trace": (OBSPY, "the only one that knows SEG-Y"),
    "00001034.sgy_first_trace.npy": (NUMPY, "numpy's own format; an axis of one trace counts for nothing"),
    "3cssan.reg.8.1.RNON.wav": (SCIPY, "soundfile agrees; obspy leaves unsigned bytes with their offset of 128"),
    "brokenlastrecord.mseed": (OBSPY, "it skips the record that is cut short and says so, as ours does"),
    "float64_Float64_littleEndian.mseed": (OBSPY, "the only one that knows miniSEED"),
    "gaps.mseed": (OBSPY, "one recording for each of its four stretches"),
    "int32_Steim2_bigEndian.mseed": (OBSPY, "the only one that knows Steim compression"),
    "loc_RJOB20050831023349.z": (OBSPY, "the only one that knows GSE2"),
    "slist.ascii": (OBSPY, "the only one that knows SLIST"),
    "test-1234Hz-le-1ch-10S-20bit-extra.wav": (SCIPY, "soundfile agrees: 20 bits stand at the top of 24"),
    "test-44100Hz-2ch-32bit-float-le.wav": (SCIPY, "soundfile agrees"),
    "test-44100Hz-be-1ch-4bytes.wav": (SCIPY, "soundfile agrees: RIFX"),
    "test-44100Hz-le-1ch-4bytes-early-eof.wav": (SCIPY, "soundfile agrees, without a word about the loss"),
    "test-44100Hz-le-1ch-4bytes.wav": (SCIPY, "soundfile agrees"),
    "test-48000Hz-2ch-64bit-float-le-wavex.wav": (SCIPY, "soundfile agrees"),
    "test-8000Hz-be-3ch-5S-24bit.wav": (SCIPY, "soundfile agrees: RIFX"),
    "test-8000Hz-le-1ch-1byte-ulaw.wav": (SOUNDFILE, "scipy does not know mu-law"),
    "test-8000Hz-le-2ch-1byteu.wav": (SCIPY, "soundfile agrees; obspy leaves the offset of 128"),
    "test-8000Hz-le-3ch-5S-24bit-rf64.wav": (SCIPY, "soundfile agrees: RF64"),
    "test-8000Hz-le-3ch-5S-24bit.wav": (SCIPY, "soundfile agrees"),
    "test-8000Hz-le-3ch-5S-36bit.wav": (SCIPY, "soundfile refuses more than 32 bits"),
    "test-8000Hz-le-3ch-5S-45bit.wav": (SCIPY, "soundfile refuses more than 32 bits"),
    "test-8000Hz-le-3ch-5S-64bit.wav": (SCIPY, "soundfile refuses more than 32 bits"),
    "test-8000Hz-le-5ch-9S-5bit.wav": (SCIPY, "soundfile agrees: 5 bits stand at the top of 8"),
    "test.sac": (OBSPY, "the only one that knows SAC"),
    "test.sac.swap": (OBSPY, "the same, big-endian"),
    "testdouble_4.2c_SOL2.mat": (LOADMAT, "MAT v4; h5py reads v7.3 only"),
    "testhdf5_7.4_GLNX86.mat": (H5PY, "scipy refuses v7.3; h5py has MATLAB's axes turned round"),
    "two_channels.mseed": (OBSPY, "one recording a channel"),
}  # fmt: skip

# Recording: the reason why it is a reject, words of its message, and why nobody else's samples are to be had.
REJECTED = {
    # h5py reads them; the features take real samples
    **{
        f"compound-dtype-complex.h5//{name}": ("complex_samples", "complex")
        for name in ("<c16", "<c8", ">c16", ">c8", "c16", "c8")
    },
    # scipy refuses the file: its data does not inflate to what it should
    "corrupted_zlib_data.mat//datagrid": ("corrupt", "damaged at byte"),
    # no reader finds anything
    "emptyfile.mseed": ("empty", "0 bytes"),
    # scipy and soundfile: it ends before its data chunk
    "test-44100Hz-le-1ch-4bytes-early-eof-no-data.wav": ("empty", "no data chunk"),
}

# Recording: what its row in the ledger has to tell.
WARNED = {
    "brokenlastrecord.mseed//NL.HGN.00.BHZ": "2206 bytes, the first at byte 4096, are no miniSEED records",
    "test-44100Hz-le-1ch-4bytes-early-eof.wav": "promises 4410 frames, 236 frames are there",
}

MEMBERS = {
    "00001034.sgy_first_trace": ["1"],
    "brokenlastrecord.mseed": ["NL.HGN.00.BHZ"],
    "float64_Float64_littleEndian.mseed": ["XX.TEST..BHE"],
    "gaps.mseed": [
        "BW.BGLD..EHE@2007-12-31T23:59:59.915000Z", "BW.BGLD..EHE@2008-01-01T00:00:04.035000Z",
        "BW.BGLD..EHE@2008-01-01T00:00:10.215000Z", "BW.BGLD..EHE@2008-01-01T00:00:18.455000Z",
    ],
    "int32_Steim2_bigEndian.mseed": ["XX.TEST..BHE"],
    "loc_RJOB20050831023349.z": [".RJOB..Z"],
    "slist.ascii": ["XX.TEST..BHZ"],
    "testdouble_4.2c_SOL2.mat": ["testdouble"],
    "testhdf5_7.4_GLNX86.mat": ["testdouble"],
    "two_channels.mseed": ["BW.UH3..EHE", "BW.UH3..EHZ"],
}  # fmt: skip


@pytest.fixture(scope="module")
def odd(shared) -> Path:
    return shared / "data" / "odd"


@pytest.fixture(scope="module")
def said(odd) -> dict[str, dict]:
    """What readers said of each file."""
    return json.loads((odd / "expected.json").read_text())["files"]


@pytest.fixture(scope="module")
def dataset(odd, tmp_path_factory) -> Path:
    """Every file, each rate brought to nothing: a manifest states one for all, so that samples stay as they are."""
    folder = tmp_path_factory.mktemp("odd")
    names = sorted(path.name for path in odd.iterdir() if path.name != "expected.json")
    (folder / "rows.csv").write_text(
        "".join(f"{line}\n" for line in ["uri,sample_rate", *(f"{n},1000" for n in names)])
    )
    extract(
        odd, folder / "out", "--manifest", folder / "rows.csv", "--sample-rate", RATE, "--segment-length", LENGTH,
        "--keep-waveform", "--splits", "all=1", "--max-reject-fraction", "0.9", "--members", "*",
    )  # fmt: skip
    return folder / "out"


@pytest.fixture(scope="module")
def samples(dataset) -> dict[tuple[str, int], np.ndarray]:
    """Recording and channel to what was kept of it."""
    return signals(dataset)


@pytest.fixture(scope="module")
def rows(dataset) -> dict[str, dict]:
    """The ledger by recording."""
    return ledger(dataset)


def recordings(name: str, said: dict[str, dict]) -> dict[str, dict]:
    """Recording id to what the followed reader says: rate, frames, and the first samples of each channel."""
    reader = FOLLOWED[name][0]
    answer = said[name]["readers"][reader]
    assert answer["readable"]
    if reader in (SCIPY, SOUNDFILE):
        return {name: {"rate": answer["rate"], "frames": answer["frames"], "first": answer["first"]}}
    if reader == OBSPY:
        parts = [
            {"rate": each["rate"], "frames": each["frames"], "first": [each["first_raw"]]}
            for each in answer["traces"]
        ]
        ids = [f"{name}//{member}" for member in MEMBERS[name]] if name in MEMBERS else [name]
        return dict(zip(ids, parts, strict=True))
    if reader == NUMPY:
        return {name: {"rate": None, "frames": max(answer["shape"]), "first": [answer["first_raw"]]}}
    return {
        f"{name}//{member}": {"rate": None, "frames": max(each["shape"]), "first": [each["first_raw"]]}
        for member, each in answer["variables"].items()
    }


def test_the_table_has_every_file(odd, said):
    """None is forgotten: it is read as somebody reads it, or rejected."""
    files = {path.name for path in odd.iterdir()} - {"expected.json"}
    assert files == set(said)
    assert files == set(FOLLOWED) | {name.partition("//")[0] for name in REJECTED}
    for name, (reader, _) in FOLLOWED.items():
        assert said[name]["readers"][reader]["readable"], name


@pytest.mark.parametrize("name", FOLLOWED)
def test_samples_are_those_of_the_reader_that_is_followed(samples, rows, said, name):
    """Channels, frames and first samples, exactly as float32 holds them."""
    for recording, expected in recordings(name, said).items():
        row = rows[recording]
        assert row["channels"] == len(expected["first"])
        assert row["frames"] == expected["frames"]
        for channel, first in enumerate(expected["first"]):
            found = samples[recording, channel]
            assert len(found) == expected["frames"]
            np.testing.assert_array_equal(found[: len(first)], np.array(first).astype(np.float32))


def test_spectra_are_those_of_the_samples(dataset):
    """And each file that is followed has some."""
    examples = read_examples(dataset)
    for example in examples:
        assert_spectrum(example["spectrum"], example["waveform"])
    assert {each["recording"].decode().partition("//")[0] for each in examples} == set(FOLLOWED)


@pytest.mark.parametrize("name", FOLLOWED)
def test_inspect_says_the_same_of_each_file(odd, said, name):
    """With the rate that the file says itself, which the manifest of the other tests overrules."""
    result = run("inspect", odd / name, "--sample-rate", RATE, "--members", "*")
    assert result.code == 0, result.err
    for recording, expected in recordings(name, said).items():
        if "//" in recording:
            assert f"Recording   {recording}" in result.out
        stated = "" if expected["rate"] else " (the rate is stated, not in the file)"
        rate = expected["rate"] or RATE
        seconds = expected["frames"] / rate
        assert f"Samples     {expected['frames']:,} at {rate:g} Hz, {seconds:.3f} s{stated}\n" in result.out


def test_rejects_have_their_reasons(dataset):
    found = {line["recording"]: (line["reason"], line["message"]) for line in rejects(dataset)}
    # what lies in the damaged file beside its array of numbers is none
    beside = {name for name in found if name.startswith("corrupted_zlib_data.mat//")} - set(REJECTED)
    assert all(found[name][0] == "bad_format" for name in beside)
    assert set(found) - beside == set(REJECTED)
    for name, (reason, words) in REJECTED.items():
        assert found[name][0] == reason, name
        assert words in found[name][1], name


def test_what_is_odd_and_used_is_told(dataset):
    told = {name: row["warnings"] for name, row in ledger(dataset).items() if row["warnings"]}
    assert told.keys() == WARNED.keys()
    for name, words in WARNED.items():
        (warning,) = told[name]
        assert words in warning


def test_everything_is_accounted_for(dataset, said):
    counts = metadata(dataset)["counts"]["recordings"]
    assert counts["used"] == sum(len(recordings(name, said)) for name in FOLLOWED)
    assert counts["matched"] == counts["used"] + len(messages(dataset))
    assert_balanced(dataset)


def test_stored_integers_are_kept_without_a_scale(odd, said, tmp_path):
    """`first` of expected.json is in [-1, 1]; with --scale none the numbers are those in the file."""
    for name in ("test-8000Hz-le-2ch-1byteu.wav", "test-8000Hz-le-3ch-5S-24bit.wav"):
        tmp_path.joinpath("in").mkdir(exist_ok=True)
        shutil.copy(odd / name, tmp_path / "in" / name)
    extract(
        tmp_path / "in", tmp_path / "out", "--sample-rate", 8000, "--keep-waveform", "--scale", "none",
        "--segment-length", LENGTH,
    )  # fmt: skip
    found = signals(tmp_path / "out")
    for name, half in (("test-8000Hz-le-2ch-1byteu.wav", 2**7), ("test-8000Hz-le-3ch-5S-24bit.wav", 2**23)):
        for channel, first in enumerate(said[name]["readers"][SCIPY]["first"]):
            samples = found[name, channel]
            assert samples[: len(first)].tolist() == (np.array(first) * half).tolist()


def test_without_names_for_them_files_of_unknown_suffix_are_left_out(odd, tmp_path):
    """The folder alone: what only content tells is not looked for, and is counted."""
    result = run(
        "plan",
        "--input",
        odd,
        "--output",
        tmp_path / "out",
        "--sample-rate",
        RATE,
        "--segment-length",
        LENGTH,
    )
    assert result.code == 0, result.err
    assert "files of other kinds" in result.out
    assert "expected.json" not in result.out
