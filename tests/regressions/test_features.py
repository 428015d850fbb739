"""Faults that users of other tools reported of spectra, precision and statistics, through the command line where one can."""

import keras
import librosa
import numpy as np
import pytest
import scipy.signal
import tensorflow as tf

from spectrabeam.transforms import frontend
from spectrabeam.transforms.layer import SpectralFrontend
from spectrabeam.transforms.statistics import from_file
from tests.helpers.pipelines import extract, read_examples
from tests.helpers.signals import noise, write_raw


def build(settings, length, rate=16000.0):
    kinds = frontend.feature_settings(frontend.FrontendSettings(features={"key": settings}))
    return frontend.build_features(kinds, length, rate)


def compute(settings, rows, rate=16000.0):
    features = build(settings, rows.shape[1], rate)
    return frontend.compute_features(features, tf.constant(rows))["key"].numpy()


@pytest.mark.parametrize(
    "features", ["log_spectrum", "stft", "log_mel", "mfcc", "pcen", "psd", "indicators", "phase"]
)
def test_digital_silence_is_finite_and_counted_also_when_standardized(tmp_path, features):
    """A24: 16384 zeros; every bin of the default spectrum is -13.8155."""
    write_raw(tmp_path / "in" / "a.raw", np.zeros(16384))
    write_raw(tmp_path / "in" / "b.raw", noise(16384))
    (tmp_path / "run.yaml").write_text(
        f"features: {{{features}: {{standardize: true, detrend: constant}}}}\n"
    )
    length = ("--segment-length", 16384, "--config", tmp_path / "run.yaml")
    told = extract(tmp_path / "in", tmp_path / "out", *length)
    examples = {each["recording"].decode(): each[features] for each in read_examples(tmp_path / "out")}
    assert set(examples) == {"a.raw", "b.raw"}
    assert np.isfinite(examples["a.raw"]).all()
    assert "Silent      1 example of" in told.out
    if features == "log_spectrum":
        np.testing.assert_allclose(examples["a.raw"], -13.8155, atol=1e-4)


@pytest.mark.parametrize(("length", "frames"), [(1024, 1), (1279, 1), (1280, 2), (2048, 5)])
def test_frames_are_counted_without_centring(length, frames):
    """A38: 1 + (L - n) // hop frames, of periodic Hann windows, as numpy has them."""
    settings = {"kind": "stft", "frame_length": 1024, "frame_step": 256, "values": "magnitude"}
    row = np.random.default_rng(1).standard_normal((1, length)).astype(np.float32)
    found = compute(settings, row)
    assert found.shape == (1, frames, 513)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(1024) / 1024)
    for frame in range(frames):
        expected = np.abs(np.fft.rfft(row[0, 256 * frame :][:1024].astype(np.float64) * window))
        assert np.abs(found[0, frame] - expected).max() < 1e-6 * expected.max()
    assert librosa.stft(row[0], n_fft=1024, hop_length=256, center=False).shape[1] == frames


def test_a_segment_below_a_frame_is_refused_at_launch_and_a_short_recording_is_padded(tmp_path):
    """A38: L = 1023."""
    write_raw(tmp_path / "in" / "a.raw", noise(1023))
    flags = ("--features", "stft", "--window", "hann")
    refused = extract(tmp_path / "in", tmp_path / "out", *flags, "--segment-length", 500, code=2)
    assert "features.stft: frame_length=512 is above segment_length=500: lower it" in refused.err
    extract(tmp_path / "in", tmp_path / "out", *flags, "--segment-length", 1024, "--splits", "all=1")
    (example,) = read_examples(tmp_path / "out")
    assert example["stft"].shape == (3, 257)


@pytest.mark.parametrize(("bands", "points", "empty"), [(128, 400, True), (80, 512, False)])
def test_mel_bands_without_a_bin_are_refused_at_launch(bands, points, empty):
    """A39."""
    settings = {
        "kind": "log_mel", "frame_length": points, "mel_bins": bands, "mel_scale": "htk", "mel_norm": "none",
    }  # fmt: skip
    if empty:
        with pytest.raises(
            ValueError, match=r"features\.key: mel_bins=128 leaves 4 bands without any of the 201 bins"
        ):
            build(settings, 16384)
    else:
        build(settings, 16384)


@pytest.mark.parametrize("length", [16384, 16383])
def test_density_is_doubled_but_for_its_ends(length):
    """A40: white noise adds up to its mean square, and is scipy's."""
    row = np.random.default_rng(2).standard_normal((1, length)).astype(np.float32)
    settings = {"kind": "psd", "frame_length": length, "frame_step": length, "window": "boxcar"}
    density = compute(settings, row)[0].astype(np.float64)
    assert density.sum() * 16000 / length == pytest.approx((row.astype(np.float64) ** 2).mean(), rel=1e-6)
    _, expected = scipy.signal.welch(row[0].astype(np.float64), 16000, "boxcar", length, 0, detrend=False)
    assert np.abs(density - expected).max() < 1e-6 * expected.max()


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("kind", ["log_spectrum", "power", "log_mel", "psd"])
def test_spectra_are_float32_under_a_mixed_policy(kind, policy):
    """C15: a full-scale tone's power is 6.7e7, above what half precision holds."""
    row = np.sin(2 * np.pi * 1000 * np.arange(16384) / 16384)[None].astype(np.float32)

    def layer():
        return SpectralFrontend(kind, segment_length=16384, sample_rate=16000)

    (expected,) = layer()(row).values()
    keras.mixed_precision.set_global_policy(policy)
    try:
        inputs = keras.Input((16384,))
        (found,) = keras.Model(inputs, layer()(inputs))(row).values()
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert found.dtype == tf.float32
    np.testing.assert_array_equal(found, expected)
    if kind == "power":
        assert found.numpy().max() == pytest.approx(8192**2, rel=1e-6)


SPLITS = """
fields_from: "path:^(?P<part>[a-z]+)"
splits: {validation: {part: ["v"]}, train: 1}
features: {indicators: }
"""


def test_statistics_weigh_examples_not_files_and_know_training_alone(tmp_path):
    """C13: one row of zeros and 99 of ones have the mean 0.99, whatever lies in validation."""
    (tmp_path / "run.yaml").write_text(SPLITS)
    write_raw(tmp_path / "in" / "a.raw", np.zeros(256))
    write_raw(tmp_path / "in" / "b.raw", np.ones(99 * 256))
    found = []
    for number in (1, 7):
        write_raw(tmp_path / "in" / "v.raw", np.full(number * 256, 50.0 * number))
        extract(tmp_path / "in", tmp_path / f"{number}", "--config", tmp_path / "run.yaml", "--num-shards", 5)
        found.append((tmp_path / f"{number}" / "statistics.npz").read_bytes())
    assert found[0] == found[1]
    peaks = from_file(str(tmp_path / "7" / "statistics.npz"))["indicators"]
    assert peaks.count == 100
    assert peaks.mean[1] == pytest.approx(0.99, rel=1e-15)
    assert peaks.std[1] == pytest.approx(np.sqrt(0.99 * 0.01), rel=1e-14)


def test_filter_banks_do_not_pass_through_tensor_float_32():
    """The graph multiplies them in float64, whatever the switch of the process that runs it says."""
    features = build({"kind": "log_mel", "frame_length": 512}, 2048)
    module = frontend.make_module(features, 2048)
    kinds = {
        operation.get_attr("T")
        for operation in module.__call__.get_concrete_function().graph.get_operations()
        if "MatMul" in operation.type
    }
    assert kinds == {tf.float64}
