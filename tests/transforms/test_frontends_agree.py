"""One frontend: the module, the saved model, the Keras layer and the model handler give the same bits."""

import apache_beam as beam
import keras
import numpy as np
import pytest
import tensorflow as tf
from apache_beam.ml.inference.base import RunInference
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that

from spectrabeam.transforms import frontend
from spectrabeam.transforms.compute import CompiledFrontend
from spectrabeam.transforms.inference import ComputeFeatures, SpectralModelHandler
from spectrabeam.transforms.layer import SpectralFrontend

N, RATE = 1024, 8000.0
FEATURES = {
    "spectrum": {"kind": "log_spectrum", "detrend": "constant"},
    "stft": {"frame_length": 256, "frame_step": 128},
    "mfcc": {"frame_length": 256, "mel_bins": 20},
}
ROWS = np.random.default_rng(8).standard_normal((4, N)).astype(np.float32)


@pytest.fixture(scope="module")
def features():
    kinds = frontend.feature_settings(frontend.FrontendSettings(features=FEATURES))
    return frontend.build_features(kinds, N, RATE)


@pytest.fixture(scope="module")
def expected():
    settings = frontend.FrontendSettings(features=FEATURES, batch_size=4, jit="off", device="cpu")
    return CompiledFrontend(settings, N, RATE)(ROWS).features


def same(found, expected):
    assert set(found) == set(expected)
    for key, values in expected.items():
        np.testing.assert_array_equal(np.asarray(found[key]), values)


def test_saved_model(features, expected, tmp_path):
    module = frontend.make_module(features, N)
    frontend.save_module(module, str(tmp_path), with_valid=True)
    loaded = tf.saved_model.load(str(tmp_path)).signatures
    same(loaded["serving_default"](waveform=tf.constant(ROWS)), expected)
    counts = tf.constant([N] * 4, tf.int64)
    same(loaded["with_valid"](waveform=tf.constant(ROWS), valid=counts), expected)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_keras_layer_whatever_the_model_s_precision(expected, policy, tmp_path):
    keras.mixed_precision.set_global_policy(policy)
    try:
        inputs = keras.Input((N,))
        model = keras.Model(inputs, SpectralFrontend(FEATURES, segment_length=N, sample_rate=RATE)(inputs))
        same(model(ROWS), expected)
        model.save(tmp_path / "model.keras")
        same(keras.saving.load_model(tmp_path / "model.keras")(ROWS), expected)
    finally:
        keras.mixed_precision.set_global_policy("float32")


def test_a_trainable_window_learns():
    layer = SpectralFrontend("magnitude", segment_length=N, sample_rate=RATE, trainable_window="hann")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(ROWS)["magnitude"])
    (gradient,) = tape.gradient(loss, layer.trainable_variables)
    assert gradient.shape == (N,)
    assert np.isfinite(gradient).all()
    assert np.abs(gradient).max() > 0


@pytest.fixture(scope="module")
def handler():
    return SpectralModelHandler(N, RATE, features=FEATURES, batch_size=4, jit="off", device="cpu")


def test_model_handler(expected, handler):
    for row, result in enumerate(handler.run_inference(list(ROWS), handler.load_model())):
        assert result.example is ROWS[row] or (result.example == ROWS[row]).all()
        same(result.inference, {key: values[row] for key, values in expected.items()})


def test_in_a_pipeline_only_the_row_of_a_batch_may_change_the_last_bit(expected, handler):
    order = {row.tobytes(): index for index, row in enumerate(ROWS)}

    def as_expected(results):
        assert sorted(order[result.example.tobytes()] for result in results) == [0, 1, 2, 3]
        for result in results:
            for key, values in expected.items():
                wanted = values[order[result.example.tobytes()]]
                np.testing.assert_allclose(result.inference[key], wanted, rtol=3e-7, atol=3e-6)

    def as_many(results):
        found = sorted(float(each["spectrum"][5]) for each in results)
        np.testing.assert_allclose(found, sorted(expected["spectrum"][:, 5]), rtol=3e-7)

    settings = {"features": FEATURES, "batch_size": 4, "jit": "off", "device": "cpu"}
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        rows = pipeline | beam.Create(list(ROWS))
        assert_that(rows | RunInference(handler), as_expected, label="handler")
        assert_that(rows | ComputeFeatures(N, RATE, **settings), as_many, label="transform")


def test_short_waveforms_are_padded_and_long_ones_refused():
    handler = SpectralModelHandler(
        N, RATE, features={"spectrum": {"detrend": "linear"}}, batch_size=3, jit="off"
    )
    model = handler.load_model()
    short = np.linspace(5, 7, 100).astype(np.float32)
    (result,) = handler.run_inference([short], model)
    assert result.inference["spectrum"].max() < np.log(1e-3)  # a line without its line is nothing
    with pytest.raises(ValueError, match="at most segment_length=1024 samples: cut it into segments"):
        list(handler.run_inference([np.zeros(N + 1)], model))
    assert model.traces == 1
