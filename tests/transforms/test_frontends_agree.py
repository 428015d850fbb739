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


@pytest.mark.parametrize("kind", ["log_mel", "mfcc", "pcen"])
def test_a_trainable_filter_bank_begins_as_the_fixed_one_and_learns(kind, tmp_path):
    features = {"key": {"kind": kind, "frame_length": 256, "mel_bins": 20}}
    inputs = keras.Input((N,))
    fixed = SpectralFrontend(features, segment_length=N, sample_rate=RATE)
    layer = SpectralFrontend(features, segment_length=N, sample_rate=RATE, trainable_bank=True)
    before = fixed(ROWS)["key"].numpy()
    assert np.abs(layer(ROWS)["key"].numpy() - before).max() <= 2e-6 * np.abs(before).max()
    (bank,) = layer.trainable_variables
    assert (bank.shape, bank.name) == ((129, 20), "key_bank")
    assert fixed.trainable_variables == []
    model = keras.Model(inputs, keras.layers.Flatten()(layer(inputs)["key"]))
    model.compile(keras.optimizers.Adam(1e-4), "mse")
    start = bank.numpy()
    target = before.reshape(4, -1) - 3
    first = model.evaluate(ROWS, target, verbose=0)
    model.fit(ROWS, target, epochs=20, verbose=0)
    assert model.evaluate(ROWS, target, verbose=0) < first
    assert (bank.numpy() >= 0).all()
    assert (bank.numpy() != start).any()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(ROWS, verbose=0), model.predict(ROWS, verbose=0))


def test_features_without_a_filter_bank_have_none_to_learn():
    with pytest.raises(ValueError, match="trainable_bank: none of spectrum has a filter bank: take log_mel"):
        SpectralFrontend(segment_length=N, sample_rate=RATE, trainable_bank=True)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_keras_layer_of_complex_waveforms(policy, tmp_path):
    rows = (ROWS + 1j * ROWS[::-1]).astype(np.complex64)
    settings = frontend.FrontendSettings(features="magnitude", batch_size=4, jit="off", device="cpu")
    expected = CompiledFrontend(settings, N, RATE, is_complex=True)(rows).features
    keras.mixed_precision.set_global_policy(policy)
    try:
        inputs = keras.Input((N,), dtype="complex64")
        layer = SpectralFrontend("magnitude", segment_length=N, sample_rate=RATE, is_complex=True)
        model = keras.Model(inputs, layer(inputs))
        same(model(rows), expected)
        model.save(tmp_path / "model.keras")
        same(keras.saving.load_model(tmp_path / "model.keras")(rows), expected)
    finally:
        keras.mixed_precision.set_global_policy("float32")


@pytest.mark.parametrize("shape", [(2, N + 1), (2, N - 1), (2, N, 1), (2, 1, N), (N,)])
def test_rows_of_another_shape_are_refused(shape, features, tmp_path):
    layer = SpectralFrontend(FEATURES, segment_length=N, sample_rate=RATE)
    with pytest.raises(ValueError, match=rf"must be \[batch, segment_length={N}\]: cut or squeeze them"):
        layer(np.zeros(shape, np.float32))
    if len(shape) > 1:
        with pytest.raises(ValueError, match=rf"must be \[batch, segment_length={N}\]"):
            SpectralFrontend(FEATURES, segment_length=N, sample_rate=RATE)(keras.Input(shape[1:]))
    frontend.save_module(frontend.make_module(features, N), str(tmp_path))
    serve = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match="shape"):
        serve(waveform=tf.zeros(shape))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"features": "log_spectrm"}, "features: there is no kind log_spectrm, did you mean log_spectrum"),
        ({"trainable_window": True}, "trainable_window=True must be a window's name, such as hann"),
    ],
)
def test_wrong_settings_of_a_layer_are_told_in_a_line(values, message):
    with pytest.raises(ValueError, match=message) as caught:
        SpectralFrontend(segment_length=N, sample_rate=RATE, **values)
    assert "pydantic" not in str(caught.value)
    if "features" in values:
        with pytest.raises(ValueError, match=message):
            SpectralModelHandler(N, RATE, **values)


def test_complex_waveforms_are_no_rows_of_a_real_layer():
    layer = SpectralFrontend("magnitude", segment_length=N, sample_rate=RATE)
    with pytest.raises(ValueError, match="waveforms are complex: set is_complex, or give real ones"):
        layer(ROWS.astype(np.complex64))


@pytest.mark.parametrize("waveform", [np.array(["1"] * N), np.zeros(N, "M8[s]"), np.zeros(0)])
def test_what_is_no_waveform_is_refused_by_the_handler(handler, waveform):
    with pytest.raises(ValueError, match=r"must be of numbers|at least one"):
        list(handler.run_inference([waveform], handler.load_model()))


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
