"""What is told of a waveform file: recordings, levels, lines that stand out, warnings, rejects."""

import json

import numpy as np
import pytest

from tests.helpers.pipelines import RAW, run
from tests.helpers.recordings import tone
from tests.helpers.signals import noise, write_raw, write_wav


def inspect(*arguments, code=0):
    result = run("inspect", *arguments)
    assert result.code == code, (result.err, result.out)
    return result.out if code == 0 else result.err


def line(text, name):
    """What stands behind a name in the first column."""
    (found,) = [row for row in text.splitlines() if row.startswith(name)]
    return found.removeprefix(name).strip()


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
    assert line(text, "Samples") == "10 at 5 Hz, 2.000 s (the rate is stated, not in the file)"
    assert line(text, "Segments") == "3 a channel, of 4 samples every 4"
    assert (
        line(text, "Channel 0") == f"from -5 to 4, mean -0.5, RMS {np.sqrt(np.mean(samples[:, 0] ** 2)):.4g}"
    )
    assert line(text, "Channel 1") == "from 2 to 2, mean 2, RMS 2"


def test_wav_file_needs_no_settings_and_may_have_any_name(tmp_path):
    path = tmp_path / "speech.dat"
    write_wav(tmp_path / "speech.wav", np.array([0.5, -0.25] * 400), 8000).rename(path)
    text = inspect(path)
    assert line(text, "Format") == "wav, PCM_16, 1 channel"
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
        "partial_frame: 38 bytes less a header and footer of 0 are no whole"
    )
    (tmp_path / "empty.wav").write_bytes(b"")
    assert line(inspect(tmp_path / "empty.wav"), "Rejected") == "empty: the file has 0 bytes"
    (tmp_path / "notes.doc").write_text("no sound")
    assert line(inspect(tmp_path / "notes.doc"), "Rejected") == (
        "unknown_format: neither name nor content shows the format: set input_format"
    )


def test_a_rate_that_nothing_states_is_told_and_the_levels_all_the_same(tmp_path):
    path = write_raw(tmp_path / "a.raw", np.array([1.0, -3.0]))
    text = inspect(path, "--raw-dtype", "<f4")
    assert line(text, "Samples") == "2 at a rate that nothing states"
    assert line(text, "Channel 0") == "from -3 to 1, mean -1, RMS 2.236"


def test_unit_time_factors_and_rate_of_a_sidecar_are_told(tmp_path):
    path = write_raw(tmp_path / "a.raw", np.array([[1.0, 10.0]] * 4))
    beside = {"sample_rate": 2, "unit": "Pa", "sensitivity": [2, 100], "start_time": 1.5, "raw_channels": 2}
    (tmp_path / "a.json").write_text(json.dumps(beside | {"channel_names": ["left", "right"]}))
    text = inspect(path, "--raw-dtype", "<f4")
    assert line(text, "Format") == "raw, <f4, 2 channels (left, right)"
    assert line(text, "Samples") == "4 at 2 Hz, 2.000 s (the rate is stated, not in the file)"
    assert line(text, "Unit") == "Pa"
    assert line(text, "Start") == "1970-01-01T00:00:01.500000000Z"
    assert line(text, "Channel 0") == "from 0.5 to 0.5, mean 0.5, RMS 0.5"
    assert line(text, "Channel 1") == "from 0.1 to 0.1, mean 0.1, RMS 0.1"


@pytest.mark.parametrize("frequency", [440.0, 1234.5, 3000.0])
def test_lines_that_stand_out_are_told_to_a_fraction_of_a_bin(tmp_path, frequency):
    random = np.random.default_rng(0)
    samples = tone(40_000, frequency / 8000, 0.5) + 0.01 * random.standard_normal(40_000)
    path = write_wav(tmp_path / "a.wav", samples, 8000, "FLOAT")
    told = line(inspect(path), "            lines that stand out: ")
    assert abs(float(told.split(" Hz")[0].replace(",", "")) - frequency) < 0.1  # a bin is 0.49 Hz wide
    assert told.count("Hz") == 1


def test_noise_has_no_line_that_stands_out(tmp_path):
    samples = 0.1 * np.random.default_rng(1).standard_normal(160_000)
    assert "no spectral line stands out" in inspect(write_wav(tmp_path / "a.wav", samples, 8000, "FLOAT"))
