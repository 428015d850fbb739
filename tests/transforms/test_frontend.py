"""The graph's numbers against float64, its settings, and the exported model."""

import numpy as np
import pytest
import tensorflow as tf

from spectrabeam.transforms.frontend import (
    FrontendSettings,
    LogSpectrum,
    build_features,
    feature_settings,
    feature_specs,
    frontend_id,
    make_module,
    save_module,
    settings_json,
)
from tests.helpers.references import assert_spectrum, log_spectrum, magnitude

N = 256
SPECTRUM = {"spectrum": LogSpectrum()}


def module_of(features, length):
    return make_module(build_features(features, length, 1000.0), length)


def spectrum(waveform, epsilon=1e-6):
    """The feature of one or several rows, float32."""
    rows = np.atleast_2d(np.asarray(waveform, np.float32))
    values = module_of({"spectrum": LogSpectrum(epsilon=epsilon)}, rows.shape[1])(tf.constant(rows))
    return np.squeeze(values["spectrum"].numpy(), 0) if np.ndim(waveform) == 1 else values["spectrum"].numpy()


@pytest.mark.parametrize("length", [1, 2, 255, 256, 1000, 16384])
def test_values_are_those_of_float64(length):
    samples = np.random.default_rng(length).standard_normal(length).astype(np.float32)
    stored = spectrum(samples)
    assert stored.shape == (length // 2 + 1,)
    assert_spectrum(stored, samples)


@pytest.mark.parametrize("k", [1, 17, N // 2 - 1])
def test_sine_of_amplitude_a_has_magnitude_half_a_n_on_its_bin(k):
    amplitude = 0.3
    stored = spectrum(amplitude * np.sin(2 * np.pi * k * np.arange(N) / N))
    assert stored.argmax() == k
    assert np.exp(stored[k]) == pytest.approx(amplitude * N / 2, rel=1e-6)  # float32: 1.2e-7 and a logarithm
    others = np.delete(np.exp(stored.astype(np.float64)), k)
    assert others.max() < 1e-6 * amplitude * N / 2 + 1e-5


def test_impulse_is_flat():
    impulse = np.zeros(N)
    impulse[100] = 2.5
    np.testing.assert_allclose(spectrum(impulse), np.log(2.5), atol=1e-6)


def test_constant_is_in_bin_zero_alone():
    stored = spectrum(np.full(N, -0.5))
    assert stored[0] == pytest.approx(np.log(0.5 * N), abs=1e-6)
    assert stored[1:].max() < np.log(1e-4)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 0.1])
def test_silence_is_log_epsilon(epsilon):
    np.testing.assert_allclose(spectrum(np.zeros(N), epsilon), np.log(epsilon), rtol=2e-7)


def test_energy_of_the_samples_is_the_energy_of_the_spectrum():
    samples = np.random.default_rng(1).standard_normal(N).astype(np.float32)
    power = (np.exp(spectrum(samples).astype(np.float64)) - 1e-6) ** 2
    two_sided = 2 * power.sum() - power[0] - power[-1]
    assert two_sided / N == pytest.approx(np.sum(samples.astype(np.float64) ** 2), rel=1e-6)


def test_rows_do_not_influence_each_other():
    rows = np.random.default_rng(2).standard_normal((5, N)).astype(np.float32)
    alone = np.full_like(rows, 1e30)
    alone[2] = rows[2]
    np.testing.assert_array_equal(spectrum(rows)[2], spectrum(alone)[2])


def test_magnitude_is_got_back_from_stored_values():
    samples = np.random.default_rng(3).standard_normal(N).astype(np.float32)
    expected = magnitude(samples)
    found = LogSpectrum().build(N, 1.0).linear(log_spectrum(samples).astype(np.float32))
    assert found.dtype == np.float64
    assert np.abs(found - expected).max() < 1e-6 * expected.max()


def test_axis_says_where_each_bin_lies():
    (axis,) = LogSpectrum().build(16384, 25600.0).axes
    assert axis == {
        "name": "frequency",
        "unit": "Hz",
        "first": 0.0,
        "step": 1.5625,
        "count": 8193,
        "resolution": 1.5625,
    }


def test_spacing_of_bins_and_resolution_are_stored_apart():
    (axis,) = LogSpectrum(fft_length=32768).build(16384, 25600.0).axes
    assert (axis["step"], axis["resolution"]) == (0.78125, 1.5625)


def test_shapes_are_known_without_running_the_graph():
    features = {"a": LogSpectrum(), "b": LogSpectrum(epsilon=1.0)}
    values = module_of(features, 99)(tf.zeros((3, 99)))
    specs = feature_specs(build_features(features, 99, 1000.0))
    assert {key: (3, *spec.shape) for key, spec in specs.items()} == {
        key: tuple(value.shape) for key, value in values.items()
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"spectrum": LogSpectrum(epsilon=1e-6)}),
        ({"epsilon": 0.5}, {"spectrum": LogSpectrum(epsilon=0.5)}),
        ({"features": "log_spectrum"}, {"spectrum": LogSpectrum()}),
        ({"features": {}}, {}),
        (
            {"features": {"z": {"kind": "log_spectrum", "epsilon": 2}, "a": {"kind": "log_spectrum"}}},
            {"a": LogSpectrum(), "z": LogSpectrum(epsilon=2)},
        ),
    ],
)
def test_features_come_from_kinds_or_a_mapping(given, expected):
    features = feature_settings(FrontendSettings(**given))
    assert features == expected
    assert list(features) == sorted(expected)


@pytest.mark.parametrize("key", ["recording", "waveform", "labels", "2d", "a-b", "ü", ""])
def test_key_that_is_reserved_or_no_name_is_refused(key):
    with pytest.raises(ValueError, match=f"'{key}' cannot be a feature's key: use letters, digits and _"):
        FrontendSettings(features={key: {"kind": "log_spectrum"}})


@pytest.mark.parametrize("epsilon", [0, -1e-6, float("nan"), float("inf")])
def test_epsilon_must_be_a_positive_number(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        LogSpectrum(epsilon=epsilon)


def test_frontend_id_names_what_is_computed():
    def name(features=SPECTRUM, length=N, rate=1000.0, precision="float32"):
        return frontend_id(features, length, rate, precision)

    assert name({"spectrum": LogSpectrum(epsilon=1e-6)}) == name()
    others = [
        name({"spectrum": LogSpectrum(epsilon=2e-6)}),
        name({"other": LogSpectrum()}),
        name(length=N + 1),
        name(rate=2000.0),
        name(precision="float64"),
        name({}),
    ]
    assert len({name(), *others}) == 7


def test_settings_of_features_can_be_stored_and_read_back():
    features = {"fine": LogSpectrum(epsilon=1e-9)}
    stored = settings_json(features)
    assert stored == {"fine": {"kind": "log_spectrum", "epsilon": 1e-9}}
    assert feature_settings(FrontendSettings(features=stored)) == features


def test_exported_model_gives_the_same_values_for_any_batch(tmp_path):
    module = module_of(SPECTRUM, N)
    save_module(module, str(tmp_path / "frontend"))
    serve = tf.saved_model.load(str(tmp_path / "frontend")).signatures["serving_default"]
    rows = np.random.default_rng(4).standard_normal((3, N)).astype(np.float32)
    for batch in (rows, rows[:1]):
        served = serve(waveform=tf.constant(batch))
        assert set(served) == {"spectrum"}
        np.testing.assert_array_equal(served["spectrum"], module(tf.constant(batch))["spectrum"])


@pytest.mark.parametrize(
    ("kind", "length", "message"),
    [
        (
            {"kind": "psd", "frame_length": 64, "fft_length": 1},
            64,
            "window=hann adds up to nothing over 1 samples",
        ),
        (
            {"kind": "magnitude", "window": "hann", "fft_length": 1, "amplitude": "peak"},
            64,
            "window=hann adds up to nothing over 1 samples",
        ),
        (
            {"kind": "magnitude", "window": "general_hamming:0", "amplitude": "peak"},
            64,
            "window=general_hamming:0 adds up to nothing",
        ),
        ({"kind": "octave_bands"}, 1, "segment_length=1 has no frequency above 0 Hz"),
    ],
)
def test_settings_that_give_no_finite_value_are_refused(kind, length, message):
    features = feature_settings(FrontendSettings(features={"key": kind}))
    with pytest.raises(ValueError, match=f"features.key: {message}"):
        build_features(features, length, 8000.0)


@pytest.mark.parametrize("window", ["kaiser:nan", "kaiser:1e9", "gaussian:0", "general_cosine:1"])
def test_windows_that_are_none_are_refused(window):
    with pytest.raises(ValueError, match=r"no finite numbers|is none of scipy's"):
        FrontendSettings(window=window)


@pytest.mark.parametrize("kind", ["db", "octave_bands"])
def test_references_that_float32_cannot_hold_are_refused(kind):
    for reference in (1e200, 1e-20):
        with pytest.raises(ValueError, match="reference"):
            FrontendSettings(features={"key": {"kind": kind, "reference": reference}})
