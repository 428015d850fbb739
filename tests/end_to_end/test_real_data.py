"""Real recordings: every stored spectrum against numpy in float64, every segment accounted for."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import soundfile
import soxr

from tests.helpers.datasets import assert_balanced, ledger, reasons
from tests.helpers.pipelines import Result, metadata, read_examples, run
from tests.helpers.references import assert_spectrum

CONFIGS = Path(__file__).resolve().parents[2] / "run_configs"
CWRU_LABEL = r"path:^(?P<label>Normal|(?:IR|B|OR)\d{3}(?:@\d{1,2})?)_"


@pytest.fixture(scope="module")
def cwru_raw(shared, tmp_path_factory) -> Path:
    """98 bearing segments of 16384 points as headerless float32."""
    folder = tmp_path_factory.mktemp("cwru")
    subprocess.run(
        [sys.executable, shared / "data" / "make_raw.py", "--out", folder],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("jit", ["on", "off"])
def test_bearing_spectra_are_right_to_a_millionth_of_the_peak(cwru_raw, tmp_path, jit, capsys):
    dataset = tmp_path / "features"
    result = run(
        "extract", "--input", cwru_raw, "--output", dataset, "--raw-dtype", "<f4", "--sample-rate", "12000",
        "--label-from", CWRU_LABEL, "--jit", jit,
    )  # fmt: skip
    assert result.code == 0, result.err
    examples = read_examples(dataset)
    assert len(examples) == len(list(cwru_raw.glob("*.raw"))) == 98
    names = metadata(dataset)["label_names"]
    assert names == ["B007", "IR007", "Normal", "OR007@6"]
    largest = 0.0
    for example in examples:
        file = example["recording"].decode()
        largest = max(largest, assert_spectrum(example["spectrum"], np.fromfile(cwru_raw / file, "<f4")))
        assert file.startswith(names[example["label"]] + "_")
    with capsys.disabled():
        print(f"\nCWRU, jit={jit}: largest difference of the logarithm {largest:.2g}")
    assert run("verify", dataset).code == 0


@pytest.mark.slow
def test_spoken_digits_are_padded_and_right(shared, tmp_path, capsys):
    dataset = tmp_path / "features"
    source = shared / "data" / "fsdd"
    result = run(
        "extract", "--input", source, "--output", dataset, "--segment-length", "4096", "--hop-length", "2048",
        "--label-from", r"path:^(?P<label>\d)_",
    )  # fmt: skip
    assert result.code == 0, result.err
    expected, largest = 0, 0.0
    signals = {}
    for file in source.glob("*.wav"):
        samples, rate = soundfile.read(file, dtype="float32")
        assert rate == metadata(dataset)["sample_rate"]
        signals[file.name] = samples
        expected += 1 + max(0, -(-(len(samples) - 4096) // 2048))
    examples = read_examples(dataset)
    assert len(examples) == expected == metadata(dataset)["counts"]["segments"]["planned"]
    for example in examples:
        samples = signals[example["recording"].decode()]
        start = example["start"]
        segment = np.zeros(4096)
        real = samples[start : start + 4096]
        segment[: len(real)] = real
        assert example["valid"] == len(real)
        largest = max(largest, assert_spectrum(example["spectrum"], segment))
    with capsys.disabled():
        print(f"\nFSDD: largest difference of the logarithm {largest:.2g}")
    assert run("verify", dataset).code == 0


def extract_with(config: str, source: Path, output: Path) -> Result:
    """A run with one of the settings files that come with the program; warnings and all."""
    result = run("extract", "--config", CONFIGS / config, "--input", source, "--output", output)
    assert result.code == 0, result.err
    return result


@pytest.fixture(scope="module")
def cwru(shared, tmp_path_factory) -> Path:
    """The bearing data straight from its MAT files, with the settings file that is made for it."""
    output = tmp_path_factory.mktemp("cwru-mat") / "features"
    result = extract_with("cwru.yaml", shared / "data" / "cwru", output)
    assert "13 matched = 13 used + 0 rejected" in result.out
    assert "Resampled   1 recording" in result.out
    return output


@pytest.fixture(scope="module")
def drive_end(shared) -> dict[str, np.ndarray]:
    """File to the drive end's samples by scipy, float64; Normal_0 at 12 kHz, resampled as a whole."""
    arrays = {}
    for path in sorted((shared / "data" / "cwru").glob("*.mat")):
        ((_, array),) = [item for item in scipy.io.loadmat(path).items() if item[0].endswith("_DE_time")]
        arrays[path.name] = array[:, 0]
    # what is read is float32
    whole = arrays["Normal_0.mat"].astype(np.float32).astype(np.float64)
    arrays["Normal_0.mat"] = soxr.resample(whole, 48000, 12000, "VHQ")
    return arrays


def file_of(example: dict) -> str:
    return example["recording"].decode().partition("//")[0]


@pytest.mark.slow
def test_bearing_recordings_are_labelled_and_split_by_load(cwru, drive_end):
    """Label and load are those of the file's name; no load is in two splits, and the load is carried."""
    about = metadata(cwru)
    assert about["label_names"] == ["ball", "inner_race", "normal", "outer_race"]
    kinds = {"Normal": "normal", "IR007": "inner_race", "B007": "ball", "OR007@6": "outer_race"}
    wanted = {"0": "train", "1": "train", "2": "validation", "3": "test"}
    loads: dict[str, set] = {}
    for split in about["splits"]:
        for example in read_examples(cwru, split):
            kind, _, load = file_of(example).removesuffix(".mat").rpartition("_")
            assert about["label_names"][example["label"]] == kinds[kind]
            assert example["load"] == int(load)
            assert wanted[load] == split
            assert example["sample_rate"] == 12000
            loads.setdefault(split, set()).add(load)
    assert loads == {"train": {"0", "1"}, "validation": {"2"}, "test": {"3"}}
    assert (about["sample_rate"], about["unit"]) == (12000, "g")
    rows = ledger(cwru)
    assert {row["id"].partition("//")[0] for row in rows.values()} == set(drive_end)
    assert all(row["member"].endswith("_DE_time") for row in rows.values())
    assert reasons(cwru) == {}
    assert_balanced(cwru)


@pytest.mark.slow
def test_bearing_spectra_are_those_of_the_samples_that_scipy_reads(cwru, drive_end, capsys):
    """Each segment there is, and none besides; padded at its end."""
    largest, found = 0.0, set()
    for example in read_examples(cwru):
        samples, start = drive_end[file_of(example)], int(example["start"])
        segment = np.zeros(16384)
        real = samples[start : start + 16384]
        segment[: len(real)] = real
        assert example["valid"] == len(real)
        if file_of(example) != "Normal_0.mat":
            largest = max(largest, assert_spectrum(example["spectrum"], segment))
        found.add((file_of(example), start))
    assert found == {
        (name, start) for name, samples in drive_end.items() for start in range(0, len(samples), 16384)
    }
    with capsys.disabled():
        print(f"\nCWRU from MAT: largest difference of the logarithm {largest:.2g}")


@pytest.mark.slow
def test_the_normal_recording_is_resampled_as_a_whole_would_be(cwru, drive_end):
    """Normal_0: 243,938 samples at 48 kHz are 60,985 at 12 kHz and four segments, without a seam between them."""
    samples = drive_end["Normal_0.mat"]
    examples = {int(each["start"]): each for each in read_examples(cwru) if file_of(each) == "Normal_0.mat"}
    assert len(samples) == 60_985  # of 60,984.5
    assert sorted(examples) == [0, 16384, 32768, 49152]
    for start, example in examples.items():
        segment = np.zeros(16384)
        real = samples[start : start + 16384]
        segment[: len(real)] = real
        assert example["valid"] == len(real)
        # above the filter's edge there is next to nothing, whose logarithm says nothing
        magnitude = np.abs(np.fft.rfft(segment))
        stored = np.exp(example["spectrum"].astype(np.float64)) - 1e-6
        assert np.abs(stored - magnitude).max() <= 2e-6 * magnitude.max()
    row = next(row for name, row in ledger(cwru).items() if name.startswith("Normal_0"))
    assert (row["sample_rate"], row["frames"], row["segments_written"]) == (48000, 243_938, 4)
    # the line that IR007_0 has at 161.7 Hz is there as well, and not at a quarter of it
    lines = np.mean([np.exp(each["spectrum"]) for each in examples.values()], axis=0)
    bins = np.arange(len(lines)) * 12000 / 16384

    def around(hz: float) -> float:
        return lines[np.abs(bins - hz) < 1].max() / np.median(lines[np.abs(bins - hz) < 15])

    assert around(161.7) > 3 * around(161.7 / 4)


@pytest.fixture(scope="module")
def digits(shared, tmp_path_factory) -> Path:
    """The spoken digits with the settings file that is made for them."""
    output = tmp_path_factory.mktemp("fsdd") / "features"
    extract_with("fsdd.yaml", shared / "data" / "fsdd", output)
    return output


@pytest.mark.slow
def test_spoken_digits_are_labelled_and_nobody_is_heard_in_two_splits(digits, shared):
    """Label and speaker are those of the file's name; 300 files, each of them used."""
    about = metadata(digits)
    assert about["label_names"] == ["0", "1", "2", "3", "4"]
    speakers, files = {}, set()
    for split in about["splits"]:
        for example in read_examples(digits, split):
            digit, speaker, _ = file_of(example).split("_")
            assert about["label_names"][example["label"]] == digit
            assert example["speaker"].decode() == speaker
            speakers.setdefault(split, set()).add(speaker)
            files.add(file_of(example))
    assert speakers["test"] == {"theo"}
    assert speakers["validation"] == {"lucas"}
    assert len(speakers["train"]) == 4
    assert not speakers["train"] & {"theo", "lucas"}
    assert files == {path.name for path in (shared / "data" / "fsdd").glob("*.wav")}
    assert len(files) == 300
    assert about["sample_rate"] == 8000
    assert reasons(digits) == {}
    assert_balanced(digits)


@pytest.mark.slow
def test_spectra_of_spoken_digits_are_those_of_the_samples_that_soundfile_reads(digits, shared, capsys):
    """Segments of 4096 every 2048, padded at the end."""
    signals = {
        path.name: soundfile.read(path, dtype="float64")[0]
        for path in (shared / "data" / "fsdd").glob("*.wav")
    }
    largest, found = 0.0, set()
    for example in read_examples(digits):
        samples, start = signals[file_of(example)], int(example["start"])
        segment = np.zeros(4096)
        real = samples[start : start + 4096]
        segment[: len(real)] = real
        assert example["valid"] == len(real)
        largest = max(largest, assert_spectrum(example["spectrum"], segment))
        found.add((file_of(example), start))
    assert found == {
        (name, 2048 * number)
        for name, samples in signals.items()
        for number in range(1 + max(0, -(-(len(samples) - 4096) // 2048)))
    }
    with capsys.disabled():
        print(f"\nFSDD by run_configs/fsdd.yaml: largest difference of the logarithm {largest:.2g}")
