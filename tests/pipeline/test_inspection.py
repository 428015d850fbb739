"""What is told of a dataset, and of a waveform file."""

import numpy as np
import pytest

from tests.helpers.pipelines import RAW, metadata, read_examples, run
from tests.helpers.signals import noise, write_raw, write_wav


def inspect(*arguments, code=0):
    result = run("inspect", *arguments)
    assert result.code == code, (result.err, result.out)
    return result.out if code == 0 else result.err


def line(text, name):
    """What stands behind a name in the first column."""
    (found,) = [row for row in text.splitlines() if row.startswith(name)]
    return found.removeprefix(name).strip()


def test_dataset_is_told_with_its_first_examples(small_dataset):
    text = inspect(small_dataset)
    assert line(text, "Dataset") == str(small_dataset)
    assert line(text, "Recordings") == "30 matched = 30 used + 0 rejected"
    assert line(text, "Labels") == "0 a, 1 b"
    assert "spectrum float32[129]" in line(text, "Example     ")
    first = next(name for name, split in metadata(small_dataset)["splits"].items() if split["shards"])
    for number, example in enumerate(read_examples(small_dataset, first)[:3]):
        told = line(text, f"Example {number}")
        assert f"recording {example['recording'].decode()}" in told
        assert f"label {example['label']}" in told
        values = example["spectrum"]
        assert f"spectrum [129] from {values.min():.4g} to {values.max():.4g}" in told
    assert "Example 3" not in text


def test_raw_file_is_told_channel_by_channel(tmp_path):
    samples = np.stack([np.arange(-5, 5), np.full(10, 2)], axis=1)
    path = write_raw(tmp_path / "a.raw", samples, ">i2", header=b"head")
    text = inspect(
        path,
        "--raw-dtype",
        ">i2",
        "--raw-channels",
        2,
        "--raw-header-bytes",
        4,
        "--sample-rate",
        5,
        "--segment-length",
        4,
    )
    assert line(text, "File") == f"{path}, 44 bytes"
    assert line(text, "Format") == "raw, >i2, 2 channels"
    assert line(text, "Samples") == "10 at 5 Hz, 2.000 s"
    assert line(text, "Segments") == "3 a channel, of 4 samples every 4"
    assert (
        line(text, "Channel 0") == f"from -5 to 4, mean -0.5, RMS {np.sqrt(np.mean(samples[:, 0] ** 2)):.4g}"
    )
    assert line(text, "Channel 1") == "from 2 to 2, mean 2, RMS 2"


def test_wav_file_needs_no_settings_and_may_have_any_name(tmp_path):
    path = tmp_path / "speech.dat"
    write_wav(tmp_path / "speech.wav", np.array([0.5, -0.25] * 400), 8000).rename(path)
    text = inspect(path)
    assert line(text, "Format") == "wav, PCM_16, 1 channels"
    assert line(text, "Samples") == "800 at 8000 Hz, 0.100 s"
    assert line(text, "Channel 0") == "from -0.25 to 0.5, mean 0.125, RMS 0.3953"


def test_samples_that_are_not_finite_are_counted(tmp_path):
    path = write_raw(tmp_path / "a.raw", np.array([1, np.nan, 3, np.inf]))
    assert line(inspect(path, *RAW), "Channel 0") == "from 1 to 3, mean 2, RMS 2.236, 2 not finite"
    path = write_raw(tmp_path / "b.raw", np.array([np.nan]))
    assert line(inspect(path, *RAW), "Channel 0") == "no finite sample, 1 not finite"


def test_of_a_long_file_the_beginning_is_told(tmp_path):
    path = write_raw(tmp_path / "long.raw", np.ones((1 << 20) + 1), "i1")
    told = line(inspect(path, "--raw-dtype", "i1", "--sample-rate", 1), "Channel 0")
    assert told.endswith(", in the first 1,048,576 samples")


def test_warnings_of_the_reader_are_told(tmp_path):
    path = write_raw(tmp_path / "a.raw", noise(9), header=b"12")
    text = inspect(path, *RAW, "--partial-frame", "drop")
    assert line(text, "Warning") == "2 bytes of a partial frame at the end left out"


def test_a_file_that_would_be_rejected_is_told_with_the_reason(tmp_path):
    path = write_raw(tmp_path / "a.raw", noise(9), header=b"12")
    assert line(inspect(path, *RAW), "Rejected").startswith(
        "partial_frame: 38 bytes less a header of 0 are no whole"
    )
    (tmp_path / "empty.wav").write_bytes(b"")
    assert line(inspect(tmp_path / "empty.wav"), "Rejected") == "empty: the file has 0 bytes"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.raw", "none.raw does not exist"),
        ("text.txt", "text.txt is of no known format: set --input-format"),
        ("a.raw", "raw_dtype is not set, and headerless files do not say it: give both"),
        ("folder", "folder is not a dataset: it has no spectrabeam.json"),
    ],
)
def test_what_cannot_be_inspected_is_an_error(tmp_path, name, message):
    (tmp_path / "text.txt").write_text("no sound")
    write_raw(tmp_path / "a.raw", noise(9))
    (tmp_path / "folder").mkdir()
    assert message in inspect(tmp_path / name, code=2)
