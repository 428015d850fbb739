"""Several features in one pass, from files to examples, statistics and the saved model."""

import numpy as np
import pytest
import scipy.fft
import scipy.signal
import tensorflow as tf

from spectrabeam.transforms.statistics import from_file
from tests.helpers.pipelines import extract, metadata, read_examples, run
from tests.helpers.signals import noise, write_raw

L = 512
LENGTH = ("--segment-length", L)
CONFIG = """
raw_dtype: "<f4"
sample_rate: 1000
segment_length: 512
batch_size: 8
shard_size: 40kB
splits: {train: 0.6, test: 0.4}
features:
  spectrum: {kind: log_spectrum, window: hann, detrend: constant}
  stft: {frame_length: 128, frame_step: 64, values: magnitude}
  octaves: {kind: octave_bands, fraction: 1}
  indicators:
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    for number in range(12):
        write_raw(folder / "in" / f"{number:02d}.raw", noise(5 * L + 37 * number, number))
    (folder / "run.yaml").write_text(CONFIG)
    extract(folder / "in", folder / "out", "--config", folder / "run.yaml", *LENGTH)
    return folder


def real(example):
    return noise_of(example)[example["start"] : example["start"] + example["valid"]].astype(np.float64)


def noise_of(example):
    number = int(example["recording"].decode()[:2])
    return noise(5 * L + 37 * number, number)


def test_each_feature_is_that_of_the_reference(made):
    examples = read_examples(made / "out")
    assert any(example["valid"] < L for example in examples)
    window, frame = scipy.signal.get_window("hann", L), scipy.signal.get_window("hann", 128)
    for example in examples:
        samples, valid = np.zeros(L), example["valid"]
        samples[:valid] = real(example) - real(example).mean()
        expected = np.abs(scipy.fft.rfft(samples * window))
        assert (
            np.abs(np.exp(example["spectrum"].astype(np.float64)) - 1e-6 - expected).max()
            < 1e-6 * expected.max()
        )
        samples[:valid] = real(example)
        frames = np.lib.stride_tricks.sliding_window_view(samples, 128)[::64]
        expected = np.abs(scipy.fft.rfft(frames * frame))
        assert example["stft"].shape == (7, 65)
        assert np.abs(example["stft"] - expected).max() < 1e-6 * expected.max()
        assert example["indicators"][0] == pytest.approx(np.sqrt((real(example) ** 2).mean()), rel=1e-6)
        assert example["indicators"][1] == pytest.approx(np.abs(real(example)).max(), rel=1e-7)


def test_statistics_are_numpy_s_of_the_stored_training_examples(made):
    about = metadata(made / "out")
    assert about["statistics"] == {"splits": ["train"]}
    assert len(about["splits"]["train"]["shards"]) > 1
    train = read_examples(made / "out", "train")
    found = from_file(str(made / "out" / "statistics.npz"))
    assert set(found) == {"indicators", "octaves", "spectrum", "stft"}
    for key, statistics in found.items():
        values = np.concatenate(
            [
                example[key][np.arange(7) * 64 < example["valid"]] if key == "stft" else example[key][None]
                for example in train
            ]
        ).astype(np.float64)
        assert statistics.count == len(values)
        np.testing.assert_allclose(statistics.mean, values.mean(axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(statistics.variance, values.var(axis=0), rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(statistics.min, values.min(axis=0))
        np.testing.assert_array_equal(statistics.max, values.max(axis=0))


def test_statistics_are_the_same_bytes_with_two_workers_and_after_a_lost_shard(made):
    more = ("--direct_running_mode=multi_threading", "--direct_num_workers=2")
    extract(made / "in", made / "two", "--config", made / "run.yaml", *LENGTH, *more)
    expected = (made / "out" / "statistics.npz").read_bytes()
    assert (made / "two" / "statistics.npz").read_bytes() == expected
    lost = next((made / "two" / ".spectrabeam" / "shards").glob("train-*.npz"))
    lost.unlink()
    (made / "two" / "spectrabeam.json").unlink()
    extract(made / "in", made / "two", "--config", made / "run.yaml", *LENGTH)
    assert (made / "two" / "statistics.npz").read_bytes() == expected


def test_the_saved_model_gives_what_is_stored(made):
    serve = tf.saved_model.load(str(made / "out" / "frontend")).signatures["with_valid"]
    for example in read_examples(made / "out")[:20]:
        waveform = np.zeros((1, L), np.float32)
        waveform[0, : example["valid"]] = real(example)
        served = serve(waveform=tf.constant(waveform), valid=tf.constant([example["valid"]], tf.int64))
        for key, values in served.items():
            scale = np.abs(example[key]).max()
            np.testing.assert_allclose(values[0].numpy(), example[key], rtol=0, atol=2e-6 * scale)


def test_verify_and_inspect_know_the_features(made):
    assert run("verify", made / "out").code == 0
    shown = run("inspect", made / "out").out
    assert "Axis        stft: time from 0.064 to 0.448 s in steps of 0.064" in shown
    assert "Axis        stft: frequency from 0 to 500 Hz in steps of 7.8125" in shown
    assert "Axis        indicators: indicator rms, peak, crest_factor, kurtosis, skewness" in shown


@pytest.mark.parametrize("damage", [b"", b"no zip"])
def test_verify_finds_damaged_statistics(made, damage):
    path = made / "out" / "statistics.npz"
    content = path.read_bytes()
    try:
        path.write_bytes(damage)
        found = run("verify", made / "out")
    finally:
        path.write_bytes(content)
    assert found.code == 1
    assert "statistics.npz: cannot be read" in found.out + found.err


def test_stacked_channels_and_float64(tmp_path):
    both = np.stack([noise(3 * L, 1), 10 + noise(3 * L, 2)])
    write_raw(tmp_path / "in" / "a.raw", both.T.copy())
    (tmp_path / "run.yaml").write_text(CONFIG.replace("batch_size: 8", "batch_size: 4"))
    more = ("--raw-channels", 2, "--channels", "stack", "--precision", "float64")
    extract(tmp_path / "in", tmp_path / "out", "--config", tmp_path / "run.yaml", *LENGTH, *more)
    examples = read_examples(tmp_path / "out")
    assert len(examples) == 3
    for example in examples:
        assert example["stft"].shape == (2, 7, 65)
        samples = both[:, example["start"] : example["start"] + L].astype(np.float64)
        centred = samples - samples.mean(axis=1, keepdims=True)
        expected = np.log(np.abs(scipy.fft.rfft(centred * scipy.signal.get_window("hann", L))) + 1e-6)
        np.testing.assert_array_equal(example["spectrum"], expected.astype(np.float32))
    assert run("verify", tmp_path / "out").code == 0
