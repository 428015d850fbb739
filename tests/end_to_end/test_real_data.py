"""Real recordings: every stored spectrum against numpy in float64, every segment accounted for."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.helpers.pipelines import metadata, read_examples, run
from tests.helpers.references import assert_spectrum

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
